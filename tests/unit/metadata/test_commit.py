"""Commits: one winner each, nothing lost, and no change on top of an unknown state (R9)."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from pruner.errors import ConflictError, IndexDefinitionError
from pruner.metadata import MetadataTable, State, log
from pruner.storage.local import LocalStore
from pruner.storage.opening import open_store
from pruner.storage.store import ObjectInfo, Store
from tests.support.stores.proxy import proxied
from tests.unit.metadata.s3_server import serve
from tests.unit.metadata.samples import AMOUNT, IDENTITY, a_table, add_index, an_index, write_records


def _beside(table: MetadataTable) -> MetadataTable:
    """Another writer at the same location, with nothing cached."""
    return MetadataTable.open(table.store)


def test_a_metadata_table_from_nothing(store: Store) -> None:
    table = MetadataTable.open(store)
    assert not table.exists()
    assert table.state() == State()
    assert store.list() == []
    _, definition = a_table(store)
    assert table.exists()
    state = table.state()
    assert (state.version, state.definitions, len(state.segments)) == (2, (definition,), 2)
    assert state.matches(IDENTITY)
    assert not state.matches("another")
    assert [version for version, _ in log.entries(store)] == [1, 2]
    assert state.parent == log.read(store, 1)[1]
    assert table.verify() == []
    assert table.unreferenced() == []


def test_a_commit_is_seen_by_others_and_costs_them_one_read(tmp_path: Path) -> None:
    listed: list[str | None] = []

    class Counting(LocalStore):
        reads = 0

        def get(self, path: str, max_bytes: int) -> bytes:
            self.reads += 1
            return super().get(path, max_bytes)

        def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
            listed.append(after)
            return super().list(prefix, after=after)

    store = Counting(str(tmp_path / "t.pruner"))
    table, _ = a_table(store)
    reader = _beside(table)
    before = reader.state()
    reads = store.reads
    assert reader.state() is before
    assert table.state().version == 2
    assert store.reads == reads
    newest = add_index(table, an_index("second"))
    listed.clear()
    assert reader.state() == newest
    assert store.reads == reads + 1
    assert listed == [log.entry_path(1)], "the known entry and those behind it, once"


@pytest.mark.parametrize("commits", [1, 2, 5])
def test_a_reader_finds_a_recreated_table(store: Store, commits: int) -> None:
    """With fewer entries than it knows, as many, and more."""
    table, _ = a_table(store)
    reader = _beside(table)
    assert reader.state().version == 2
    table.uninstall()
    assert reader.state().version == 0
    a_table(store)
    assert reader.state().version == 2
    table.uninstall()
    for number in range(commits):
        newest = add_index(table, an_index(f"anew {number}"))
    assert reader.state() == newest


def test_a_commit_costs_the_same_whatever_was_committed_before() -> None:
    """A writer among many checks its own segments and the end of the log, not everything that the others wrote."""
    with serve(page=1000) as (options, server), proxied(options) as (options, proxy):
        table, definition = a_table(open_store("s3://bucket/t.pruner", options))
        asked: list[Counter[str]] = []
        for number in range(3):
            written = write_records(table, definition, range(5 + number, 6 + number))
            proxy.forget()
            table.commit(lambda state, written=written: state.with_segments(written))
            asked.append(Counter(f"{each.kind} {_folder(each.key)}" for each in proxy.requests))
    assert asked == [asked[0]] * 3
    assert (asked[0]["HEAD files"], asked[0]["HEAD column_stats"]) == (1, 1)
    assert {what for what in asked[0] if what.startswith("LIST")} == {"LIST log"}
    assert len(server.objects) == 5 * 2 + 3, "segments and log entries"


def _folder(key: str) -> str:
    return key.partition("t.pruner/")[2].partition("/")[0]


def test_changing_nothing_writes_nothing(store: Store) -> None:
    table, _ = a_table(store)
    assert table.commit(lambda state: state).version == 2
    assert [version for version, _ in log.entries(store)] == [1, 2]


def test_the_loser_of_a_race_makes_its_change_again(store: Store) -> None:
    table, _ = a_table(store)
    seen: list[int] = []

    def change(state: State) -> State:
        seen.append(state.version)
        if len(seen) < 4:
            add_index(_beside(table), an_index(f"other {len(seen)}"))
        return state.with_definition(an_index("mine"))

    state = table.commit(change)
    assert seen == [2, 3, 4, 5]
    assert [d.name for d in state.definitions] == ["amount_idx", "other 1", "other 2", "other 3", "mine"]
    assert table.verify() == []


def test_of_many_threads_none_loses_a_commit(store: Store) -> None:
    a_table(store)
    failures: list[BaseException] = []

    def write(writer: int) -> None:
        table = MetadataTable.open(store)
        try:
            for number in range(4):
                add_index(table, an_index(f"{writer}.{number}"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    table = MetadataTable.open(store)
    assert failures == []
    expected = {"amount_idx"} | {f"{writer}.{number}" for writer in range(5) for number in range(4)}
    assert {definition.name for definition in table.state().definitions} == expected
    assert table.state().version == 22
    assert table.verify() == []


def test_two_indexes_of_one_name(store: Store) -> None:
    table, _ = a_table(store)
    with pytest.raises(IndexDefinitionError, match="index named 'amount_idx' already"):
        add_index(table, an_index("AMOUNT_idx"))
    # Also if the other writer was only just faster.
    other = _beside(table)
    tried: list[int] = []

    def change(state: State) -> State:
        if not tried:
            add_index(other, an_index("late"))
        tried.append(state.version)
        return state.with_definition(an_index("LATE"))

    with pytest.raises(IndexDefinitionError, match="'late' already"):
        table.commit(change)
    assert [definition.name for definition in table.state().definitions] == ["amount_idx", "late"]


def test_known_wrong_t15_records_never_reach_an_index_made_anew(store: Store) -> None:
    """T15: an index dropped and created again under its name while an old refresh is still running."""
    table, old = a_table(store)
    written = write_records(table, old, range(5, 9))  # the old refresh builds …
    other = _beside(table)
    other.commit(lambda state: state.without_definition(old))
    new = an_index(old.name)
    add_index(other, new)
    with pytest.raises(ConflictError, match="another writer changed the indexes"):
        table.commit(lambda state: state.with_segments(written))  # … and is too late
    state = table.state()
    assert state.segments_of(new) == ()
    assert state.definition(old.name) == new
    # Control: the same records for the new index are accepted.
    fresh = write_records(table, new, range(5, 9))
    assert table.commit(lambda state: state.with_segments(fresh)).segments == fresh


def test_an_index_dropped_by_two_writers(store: Store) -> None:
    table, definition = a_table(store)
    other = _beside(table)
    other.commit(lambda state: state.without_definition(definition))
    with pytest.raises(ConflictError, match="dropped by another writer"):
        table.commit(lambda state: state.without_definition(definition))
    assert table.state().segments == ()


def test_dropping_keeps_the_slice_batches_of_others(store: Store) -> None:
    table, first = a_table(store)
    second = an_index("second")
    add_index(table, second)
    batch = table.state().batches()[0]
    records = table.write_segment(
        "column_stats", table.read_segment(batch), definition=second, field=AMOUNT, batch=batch
    )
    table.commit(lambda state: state.with_segments([records]))
    assert table.commit(lambda state: state.without_definition(first)).segments == (batch, records)
    assert table.commit(lambda state: state.without_definition(second)).segments == ()


def test_removing_segments(store: Store) -> None:
    table, _ = a_table(store)
    batch, records = table.state().segments
    with pytest.raises(ConflictError, match="slice batch that does not exist"):
        table.commit(lambda state: state.without_segments([batch.id]))
    with pytest.raises(ConflictError, match="removed segment"):
        table.commit(lambda state: state.without_segments(["0" * 32]))
    assert table.commit(lambda state: state.without_segments([records.id, batch.id])).segments == ()


def test_a_change_that_breaks_the_state_is_refused(store: Store) -> None:
    table, _ = a_table(store)
    twice = (an_index("a"), an_index("A"))
    with pytest.raises(ConflictError, match=r"cannot be committed: .* index name twice"):
        table.commit(lambda state: msgspec.structs.replace(state, definitions=twice))
    assert table.state().version == 2


def test_a_table_made_anew_keeps_its_definitions_and_loses_its_coverage(store: Store) -> None:
    table, definition = a_table(store)
    state = table.commit(lambda state: state.without_coverage("table-2"))
    assert state.matches("table-2")
    assert (state.definitions, state.segments) == ((definition,), ())


def test_segments_that_a_vacuum_took_are_not_committed(store: Store) -> None:
    table, definition = a_table(store)
    written = write_records(table, definition, range(5, 9))
    store.delete([written[1].path])
    with pytest.raises(ConflictError, match="removed before it was committed"):
        table.commit(lambda state: state.with_segments(written))
    assert len(table.state().segments) == 2


def test_segments_that_a_vacuum_may_be_taking_are_not_committed(tmp_path: Path) -> None:
    """A vacuum that checked before the commit would delete them after it."""
    table, definition = a_table(open_store(str(tmp_path)))
    written = write_records(table, definition, range(5, 9))
    for days, taken in ((6.1, False), (5.9, True)):
        then = time.time() - days * 24 * 3600
        os.utime(tmp_path / written[1].path, (then, then))
        if taken:
            table.commit(lambda state: state.with_segments(written))
        else:
            with pytest.raises(
                ConflictError, match=r"so long ago that a vacuum may be removing it: refresh again"
            ):
                table.commit(lambda state: state.with_segments(written))
    assert len(table.state().segments) == 4


def test_a_writer_that_slept_does_not_commit_into_a_gap_of_the_log(store: Store) -> None:
    table, _ = a_table(store)
    woken: list[int] = []

    def change(state: State) -> State:
        if not woken:
            other = _beside(table)
            for number in range(12):
                add_index(other, an_index(f"other {number}"))
            store.delete(log.entry_path(version) for version in range(1, 7))  # long ago, by then
        woken.append(state.version)
        return state.with_definition(an_index("mine"))

    with pytest.raises(ConflictError, match="went on meanwhile"):
        table.commit(change)
    assert woken == [2]
    state = table.state()
    assert state.version == 14
    assert state.definition("mine") is None
    assert not store.exists(log.entry_path(3))
    assert table.verify() == []


@pytest.mark.parametrize("made_anew", [False, True])
def test_a_writer_does_not_bring_an_uninstalled_table_back(store: Store, made_anew: bool) -> None:
    table, _ = a_table(store)

    def change(state: State) -> State:
        other = _beside(table)
        other.uninstall()
        if made_anew:
            a_table(store)
        return state.with_definition(an_index("mine"))

    with pytest.raises(ConflictError, match="was removed or went on"):
        table.commit(change)
    assert table.exists() is made_anew
    assert table.state().definition("mine") is None
