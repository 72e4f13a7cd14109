"""One of many writers: it changes a metadata table in every way, and remembers what was acknowledged."""

from __future__ import annotations

import random
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

from pruner.errors import ConflictError
from pruner.metadata import IndexDefinition, MetadataTable, SegmentEntry, State
from pruner.storage.opening import open_store
from tests.unit.metadata.samples import AMOUNT, IDENTITY, an_index, batch_records, statistics

if TYPE_CHECKING:
    from collections.abc import Callable

ROWS = 4
"""Records that each index of a writer has, in however many segments."""

_MOST = 3
"""Indexes that a writer keeps at a time, so that the state stays small however long it runs."""


class Writer:
    """Adds indexes, drops its own, and merges their segments."""

    def __init__(self, place: str, number: int) -> None:
        self._table = MetadataTable.open(open_store(place))
        self._number = number
        self._chance = random.Random(number)
        self._mine: list[IndexDefinition] = []
        self._added = 0
        self.versions: list[int] = []
        """Versions of the acknowledged commits, in order."""

        self.repeated = 0
        """Commits that gave up in conflicts and were made again."""

    def vacuum(self) -> None:
        """Run a vacuum, which finds nothing old enough to delete."""
        assert self._table.vacuum() == 0

    @property
    def names(self) -> set[str]:
        """The indexes that exist if nothing was lost."""
        return {definition.name for definition in self._mine}

    def step(self) -> None:
        """Make one commit."""
        if len(self._mine) < _MOST and (not self._mine or self._chance.random() < 0.5):
            self._add()
        elif self._chance.random() < 0.5:
            self._merge(self._chance.choice(self._mine))
        else:
            self._drop(self._chance.choice(self._mine))

    def _commit(self, change: Callable[[State], State]) -> None:
        while True:
            try:
                self.versions.append(self._table.commit(change).version)
            except ConflictError:
                self.repeated += 1
            else:
                return

    def _add(self) -> None:
        index = an_index(f"{self._number}-{self._added}")
        self._added += 1
        parts = [range(ROWS // 2), range(ROWS // 2, ROWS)]
        written = [entry for part in parts for entry in self._records(index, part)]

        def change(state: State) -> State:
            state = state if state.matches(IDENTITY) else state.without_coverage(IDENTITY)
            return state.with_definition(index).with_segments(written)

        self._commit(change)
        self._mine.append(index)

    def _merge(self, index: IndexDefinition) -> None:
        state = self._table.state()
        records = state.segments_of(index)
        old = {entry.id for entry in records} | {entry.batch for entry in records if entry.batch}
        merged = self._records(index, range(ROWS))
        self._commit(lambda state: state.without_segments(sorted(old)).with_segments(merged))

    def _drop(self, index: IndexDefinition) -> None:
        self._commit(lambda state: state.without_definition(index))
        self._mine.remove(index)

    def _records(self, index: IndexDefinition, numbers: range) -> tuple[SegmentEntry, SegmentEntry]:
        batch = self._table.write_segment("files", batch_records(numbers))
        return batch, self._table.write_segment(
            "column_stats", statistics(len(numbers)), definition=index, field=AMOUNT, batch=batch
        )


def keep_changing(place: str, number: int, commits: int, tell: Connection) -> None:
    """Make this many commits beside others, and send their versions and the indexes that must exist."""
    writer = Writer(place, number)
    tell.send("ready")
    while len(writer.versions) < commits:
        writer.step()
        if len(writer.versions) == commits // 2:
            writer.vacuum()
    tell.send((writer.versions, writer.names, writer.repeated))
