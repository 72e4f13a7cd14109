"""Any sequence of operations by several writers leaves the state that a plain model predicts."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule

from pruner.errors import ConflictError, IndexDefinitionError
from pruner.metadata import IndexDefinition, MetadataTable, SegmentEntry, State
from pruner.storage.opening import open_store
from tests.support.running.profiles import examples
from tests.unit.metadata.samples import IDENTITY, an_index, write_records

_WRITERS = st.integers(0, 2)


class Writers(RuleBasedStateMachine):
    """Three writers with their own caches, against a dict from UUID to the numbers of covered slices."""

    indexes = Bundle("indexes")
    unfinished = Bundle("unfinished")

    def __init__(self) -> None:
        super().__init__()
        self.store = open_store(f"memory://{uuid.uuid4()}")
        self.tables = [MetadataTable.open(self.store) for _ in range(3)]
        self.names: dict[str, str] = {}
        self.covered: dict[str, list[int]] = {}
        self.identity = IDENTITY
        self.stored: set[str] = set()

    def _of_table(self, state: State) -> State:
        return state if state.matches(self.identity) else state.without_coverage(self.identity)

    @rule(target=indexes, writer=_WRITERS, name=st.sampled_from(["a", "A", "b", "c"]))
    def create(self, writer: int, name: str) -> object:
        index = an_index(name)

        def change(state: State) -> State:
            return self._of_table(state).with_definition(index)

        if name.casefold() in self.names:
            with pytest.raises(IndexDefinitionError):
                self.tables[writer].commit(change)
            return multiple()
        self.tables[writer].commit(change)
        self.names[name.casefold()] = index.uuid
        self.covered[index.uuid] = []
        return index

    @rule(writer=_WRITERS, index=indexes)
    def drop(self, writer: int, index: IndexDefinition) -> None:
        if index.uuid in self.covered:
            self.tables[writer].commit(lambda state: state.without_definition(index))
            del self.covered[index.uuid], self.names[index.name.casefold()]
        else:
            with pytest.raises(ConflictError):
                self.tables[writer].commit(lambda state: state.without_definition(index))

    @rule(target=unfinished, writer=_WRITERS, index=indexes, count=st.integers(1, 3))
    def build(self, writer: int, index: IndexDefinition, count: int) -> object:
        written = write_records(self.tables[writer], index, range(count))
        self.stored |= {entry.path for entry in written}
        return index, written

    @rule(writer=_WRITERS, built=unfinished)
    def finish(self, writer: int, built: tuple[IndexDefinition, tuple[SegmentEntry, SegmentEntry]]) -> None:
        index, written = built
        table = self.tables[writer]
        done = {entry.path for entry in table.state().segments}

        def change(state: State) -> State:
            return self._of_table(state).with_segments(written)

        alive = index.uuid in self.covered and {entry.path for entry in written} <= self.stored - done
        if alive:
            table.commit(change)
            self.covered[index.uuid].append(written[0].rows)
        else:
            with pytest.raises(ConflictError):
                table.commit(change)

    @rule(writer=_WRITERS)
    def overwrite_the_table(self, writer: int) -> None:
        self.identity = uuid.uuid4().hex
        if self.tables[writer].exists():
            self.tables[writer].commit(self._of_table)
            self.covered = {key: [] for key in self.covered}

    @rule(writer=_WRITERS)
    def vacuum(self, writer: int) -> None:
        table = self.tables[writer]
        table.vacuum(0)
        assert table.unreferenced() == []
        self.stored = {entry.path for entry in table.state().segments}

    @rule(writer=_WRITERS)
    def uninstall(self, writer: int) -> None:
        self.tables[writer].uninstall()
        assert self.store.list() == []
        self.names, self.covered, self.stored = {}, {}, set()

    @invariant()
    def every_reader_sees_what_the_model_says(self) -> None:
        for table in (*self.tables, MetadataTable.open(self.store)):
            state = table.state()
            assert {definition.uuid for definition in state.definitions} == set(self.covered)
            for definition in state.definitions:
                rows = [entry.rows for entry in state.segments_of(definition)]
                assert rows == self.covered[definition.uuid]
        assert table.verify() == []


Writers.TestCase.settings = settings(max_examples=examples(60), stateful_step_count=20)
TestWriters = Writers.TestCase
