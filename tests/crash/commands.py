"""Commands that change a metadata table, a table with work for each of them, and what must hold after each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import pruner
from pruner.metadata import MetadataTable, receipts
from pruner.storage.opening import open_store
from tests.crash.builders import small_batches, write_files
from tests.crash.dying import Fate

COUNT = 6
"""Data files."""

COMMANDS: Mapping[str, Callable[[pruner.Table], object]] = {
    "create": lambda table: table.create_index("new", on=["x", "s"], using="bitmap", if_not_exists=True),
    "refresh": lambda table: table.refresh(),
    "compact": lambda table: table.compact(),
    "vacuum": lambda table: table.vacuum(grace_seconds=0),
    "drop": lambda table: table.drop_index("old", if_exists=True),
}


@dataclass(frozen=True)
class Made:
    """A table, and the objects of a metadata table that has work for every command."""

    root: Path
    objects: Mapping[str, bytes]

    def put(self, place: str) -> str:
        """Put a copy of the metadata table at a location, and return the location."""
        store = open_store(place)
        for path, data in self.objects.items():
            store.put_new(path, data)
        return place

    def open(self, place: str) -> pruner.Table:
        """The table as a new process opens it."""
        return pruner.open_table(self.root, index_uri=place)


def make(root: Path, place: str) -> Made:
    """Two batches of an index, segments that nothing refers to, and files that are not indexed yet."""
    write_files(root, range(2))
    table = pruner.open_table(root, index_uri=place)
    table.create_index("old", on=["x", "s"])
    table.create_index("gone", on="x", using="bloom_filter")
    write_files(root, range(2, 4))
    table.refresh()
    table.drop_index("gone")
    write_files(root, range(4, COUNT))
    store = open_store(place)
    return Made(root, {info.path: store.get(info.path, 1 << 30) for info in store.list()})


def assert_sound(table: pruner.Table) -> None:
    """Whatever is covered, the file that holds a value is kept, and what is stored is intact."""
    for number in range(COUNT):
        assert f"{number:04}.parquet" in [Path(uri).name for uri in table.plan(f"x = {2 * number}").files]
    assert table.verify() == []


def assert_not_empty(table: pruner.Table, name: str) -> None:
    """An index that is defined has records, or records that the next refresh resumes from."""
    metadata = MetadataTable(open_store(table.index_uri))
    definition = metadata.state().definition(name)
    waiting = [entry for receipt in receipts.receipts(metadata.store) for entry in receipt.records]
    found = {entry.definition for entry in (*metadata.state().segments, *waiting)}
    assert definition is None or definition.uuid in found


def assert_right_after(command: str, table: pruner.Table) -> None:
    """The command and a refresh end as if nothing had failed, and a vacuum frees the rest."""
    COMMANDS[command](table)
    result = table.refresh()
    assert result.failures == ()
    names = {"create": {"old", "new"}, "drop": set[str]()}.get(command, {"old"})
    assert {index.name for index in table.indexes()} == names
    assert all((index.covered, index.uncovered) == (COUNT, {}) for index in table.status().indexes)
    if names:
        assert [table.plan(f"x = {2 * number}").kept for number in range(COUNT)] == [1] * COUNT
        assert table.plan("x = -1").kept == 0
    assert_nothing_doubled(table)
    table.vacuum(grace_seconds=0)
    store = open_store(table.index_uri)
    metadata = MetadataTable(store)
    assert metadata.unreferenced() == []
    assert receipts.receipts(store) == []
    known = {entry.path for entry in metadata.state().stored()}
    assert {info.path for info in store.list() if not info.path.startswith("log/")} == known
    assert table.verify() == []


def assert_nothing_doubled(table: pruner.Table) -> None:
    """Each column of a statistics index has one record for each file."""
    state = MetadataTable(open_store(table.index_uri)).state()
    for definition in state.definitions:
        rows = {entry.field: 0 for entry in state.segments_of(definition)}
        for entry in state.segments_of(definition):
            rows[entry.field] += entry.rows
        if definition.using == "column_stats":
            assert rows == {("x",): COUNT, ("s",): COUNT}


def run_and_die(command: str, made: Made, place: str, step: int, tell: Connection) -> None:
    """Run a command, but die by SIGKILL before disk change number `step`."""
    small_batches()
    table = made.open(place)
    fate = Fate(step)
    with fate.meeting():
        COMMANDS[command](table)
    tell.send(fate.changes)
