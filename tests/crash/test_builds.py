"""Builds that are killed, and builds that race: nothing is lost, nothing is done twice, every plan stays sound."""

from __future__ import annotations

from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

import pruner
from pruner.metadata import MetadataTable, receipts
from pruner.storage.opening import open_store
from tests.crash.builders import keep_refreshing, refresh_and_die, write_files

pytestmark = pytest.mark.processes

COUNT = 6


def metadata_of(table: pruner.Table) -> MetadataTable:
    return MetadataTable(open_store(table.index_uri))


def assert_sharp(table: pruner.Table, count: int) -> None:
    """Each value is in one file: that file is kept (sound) and no other (sharp)."""
    for number in range(count):
        for predicate in (f"x = {2 * number + 1}", f"s = 'v{number}'"):
            assert [Path(uri).name for uri in table.plan(predicate).files] == [f"{number:04}.parquet"]
    assert table.plan("x = -1").kept == 0
    assert table.verify() == []


def assert_sound(table: pruner.Table, count: int) -> None:
    for number in range(count):
        assert f"{number:04}.parquet" in [Path(uri).name for uri in table.plan(f"x = {2 * number}").files]
    assert table.verify() == []


USING: dict[str, dict[str, str]] = {
    "column_stats": {},
    "bloom_filter": {"fpp": "0.00001"},
    "record_index": {},
}


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("using", USING)
def test_killed_before_every_change(processes: ForkServerContext, tmp_path: Path, using: str) -> None:
    """The next refresh commits what was finished, and reads only the other slices."""
    step = taken_up = 0
    while True:
        root = tmp_path / f"{step}"
        write_files(root, range(COUNT))
        table = pruner.open_table(root)
        table.create_index("i", on=["x", "s"], using=using, options=USING[using], build=False)
        _, theirs = processes.Pipe()
        process = processes.Process(target=refresh_and_die, args=(str(root), step, theirs))
        process.start()
        theirs.close()
        process.join(60)
        assert_sound(table, COUNT)
        waiting = receipts.receipts(metadata_of(table).store)
        committed = metadata_of(table).state().version == 2
        result = table.refresh()
        assert result.failures == ()
        if committed:
            assert (result.indexed, result.already) == (0, COUNT)
        else:
            assert result.resumed == sum(receipt.indexed for receipt in waiting)
            assert (result.indexed, result.files) == (COUNT - result.resumed, COUNT - result.resumed)
            taken_up = max(taken_up, result.resumed)
        assert receipts.receipts(metadata_of(table).store) == []
        assert_sharp(table, COUNT)
        rows = [entry.rows for entry in metadata_of(table).state().segments if entry.definition]
        assert sum(rows) == 2 * COUNT, "one record for each slice and column"
        table.vacuum(grace_seconds=0)
        assert metadata_of(table).unreferenced() == []
        if process.exitcode == 0:
            break
        assert process.exitcode == -9
        step += 1
    print(f"killed before each of {step} changes")
    assert step >= 40
    assert taken_up == COUNT


def test_several_processes_refresh_and_compact_at_once(processes: ForkServerContext, tmp_path: Path) -> None:
    root = tmp_path / "t"
    write_files(root, range(COUNT))
    table = pruner.open_table(root)
    table.create_index("both", on=["x", "s"], build=False)
    table.create_index("bitmap", on="s", using="bitmap", build=False)
    table.create_index("values", on="s", using="bloom_filter", build=False)
    table.create_index("keys", on=["x", "s"], using="record_index", build=False)
    running = []
    for _ in range(3):
        ours, theirs = processes.Pipe()
        process = processes.Process(target=keep_refreshing, args=(str(root), 9, theirs))
        process.start()
        theirs.close()
        running.append((process, ours))
    for _, end in running:
        assert end.recv() == "ready"
    count = COUNT
    while any(process.is_alive() for process, _ in running):
        write_files(root, range(count, count + 2))
        count += 2
        assert_sound(table, count)
        if count >= 20:
            break
    table.create_index("late", on="x")
    for process, end in running:
        process.join(120)
        assert (process.exitcode, end.recv()) == (0, "done")
    table.refresh()
    assert [definition.name for definition in table.indexes()] == ["both", "bitmap", "values", "keys", "late"]
    assert table.refresh().indexed == 0
    assert receipts.receipts(metadata_of(table).store) == []
    assert_sharp(table, count)
    table.compact()
    state = metadata_of(table).state()
    rows = {entry.field: 0 for entry in state.segments if entry.partition == "column_stats"}
    late = state.definition("late")
    for entry in state.segments:
        if entry.partition == "column_stats" and entry.definition != (late and late.uuid):
            rows[entry.field] += entry.rows
    assert rows == {("x",): count, ("s",): count}, "no record comes twice"
    assert_sharp(table, count)
