"""Vacuum, verify and uninstall: they delete leftovers, find faults, and touch nothing else."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from pruner.errors import FormatError
from pruner.metadata import MetadataTable, log
from pruner.metadata.cleanup import KEPT_ENTRIES, OutOfUse
from pruner.storage.local import LocalStore
from pruner.storage.opening import open_store
from tests.unit.metadata.samples import (
    AMOUNT,
    a_table,
    add_index,
    an_index,
    batch_records,
    statistics,
    write_records,
)

DAY = 24 * 3600


def _age(table: MetadataTable, path: str, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(Path(table.store.uri) / path, (then, then))


def test_leftovers_go_when_they_are_old(tmp_path: Path) -> None:
    table, definition = a_table(open_store(str(tmp_path / "t.pruner")))
    old = write_records(table, definition, range(2))
    young = write_records(table, definition, range(2))
    for entry in (*old, *table.state().segments):
        _age(table, entry.path, 8 * DAY)
    assert {info.path for info in table.unreferenced()} == {entry.path for entry in (*old, *young)}
    assert table.vacuum() == 2
    assert {info.path for info in table.unreferenced()} == {entry.path for entry in young}
    assert table.verify() == []
    assert table.vacuum(0) == 2
    assert table.unreferenced() == []
    assert table.vacuum(0) == 0


def test_segments_of_a_dropped_index_stay_while_readers_may_need_them(tmp_path: Path) -> None:
    table, definition = a_table(open_store(str(tmp_path / "t.pruner")))
    segments = table.state().segments
    for entry in segments:
        _age(table, entry.path, 30 * DAY)
    for version in (1, 2):
        _age(table, log.entry_path(version), 30 * DAY)
    table.commit(lambda state: state.without_definition(definition))
    # Version 2 was the newest until now, so a reader may be working from it.
    assert table.vacuum() == 0
    assert [table.read_segment(entry).num_rows for entry in segments] == [5, 5]
    _age(table, log.entry_path(3), 8 * DAY)
    assert table.vacuum() == 2
    assert table.store.list("column_stats") == table.store.list("files") == []
    assert table.verify() == []


def test_what_is_out_of_use_stays_until_a_known_time(tmp_path: Path) -> None:
    table, definition = a_table(open_store(str(tmp_path / "t.pruner")))
    assert table.out_of_use() == OutOfUse(0, 0, None)
    size = sum(entry.size for entry in table.state().segments)
    table.commit(lambda state: state.without_definition(definition))
    for entry_age, expected in ((0.0, 7 * DAY), (2 * DAY, 5 * DAY)):
        for version in (1, 2, 3):
            _age(table, log.entry_path(version), entry_age)
        for info in table.unreferenced():
            _age(table, info.path, 30 * DAY)
        found = table.out_of_use()
        assert (found.files, found.bytes) == (2, size)
        assert found.until is not None
        assert abs(found.until.timestamp() - time.time() - expected) < 60
    assert table.vacuum(3 * DAY) == 0
    assert table.vacuum(DAY) == 2
    assert table.out_of_use().files == 0


def test_old_log_entries_go_but_the_last_ones(tmp_path: Path) -> None:
    table, definition = a_table(open_store(str(tmp_path / "t.pruner")))
    for number in range(10):
        add_index(table, an_index(f"i{number}"))
    assert table.vacuum() == 0
    for version in range(1, 13):
        _age(table, log.entry_path(version), 8 * DAY)
    assert table.vacuum() == 12 - KEPT_ENTRIES
    assert [version for version, _ in log.entries(table.store)] == list(range(13 - KEPT_ENTRIES, 13))
    fresh = MetadataTable.open(table.store)
    assert len(fresh.state().definitions) == 11
    assert fresh.verify() == []
    assert add_index(fresh, an_index("more")).version == 13
    assert fresh.read_segment(fresh.state().segments_of(definition)[0]).num_rows == 5


def test_a_vacuum_that_cannot_know_what_is_needed_deletes_nothing(tmp_path: Path) -> None:
    table, definition = a_table(open_store(str(tmp_path / "t.pruner")))
    add_index(table, an_index("second"))
    write_records(table, definition, range(2))
    Path(table.store.uri, log.entry_path(2)).write_bytes(b"damaged")
    for entry in table.unreferenced():
        _age(table, entry.path, 30 * DAY)
    before = table.store.list()
    with pytest.raises(FormatError, match="damaged"):
        table.vacuum()
    assert table.store.list() == before


def test_only_what_belongs_to_a_metadata_table_is_ever_deleted(tmp_path: Path) -> None:
    place = tmp_path / "index place"
    place.mkdir()
    foreign = ["readme.txt", "data/part-0.parquet", "log/notes.json", "column_stats/x.pidx", "deep/er/file"]
    for name in foreign:
        (place / name).parent.mkdir(exist_ok=True, parents=True)
        (place / name).write_text("mine")
        os.utime(place / name, (1, 1))
    table, definition = a_table(open_store(str(place)))
    write_records(table, definition, range(2))
    assert table.vacuum(0) == 2
    assert table.uninstall() == 4
    assert sorted(info.path for info in table.store.list()) == sorted(foreign)
    assert not table.exists()


def test_uninstall_leaves_no_trace(tmp_path: Path) -> None:
    table, _ = a_table(open_store(str(tmp_path / "t.pruner")))
    table.store.put_new(f"staging/{uuid.uuid4().hex}", b"left by a writer that died")
    Path(table.store.uri, log.entry_path(1)).write_bytes(b"damaged")
    assert table.uninstall() == 5
    assert list(tmp_path.iterdir()) == []
    assert table.state().version == 0
    assert table.uninstall() == 0
    # And it can be created again.
    a_table(table.store)
    assert table.verify() == []


def test_uninstall_takes_what_a_writer_leaves_meanwhile(tmp_path: Path) -> None:
    class Raced(LocalStore):
        raced = False

        def delete(self, paths: Iterable[str]) -> None:
            super().delete(paths)
            if not self.raced:
                self.raced = True
                write_records(MetadataTable.open(LocalStore(self.uri)), definition, range(2))

    place = tmp_path / "t.pruner"
    _, definition = a_table(open_store(str(place)))
    MetadataTable.open(Raced(str(place))).uninstall()
    assert not place.exists()


def test_uninstall_of_a_damaged_table(tmp_path: Path) -> None:
    table, _ = a_table(open_store(str(tmp_path / "t.pruner")))
    Path(table.store.uri, log.entry_path(2)).write_bytes(b"damaged")
    assert MetadataTable.open(table.store).uninstall() == 4
    assert list(tmp_path.iterdir()) == []


def test_verify_names_each_fault(tmp_path: Path) -> None:
    table, definition = a_table(open_store(str(tmp_path / "t.pruner")))
    other = write_records(table, definition, range(5, 8))
    table.commit(lambda state: state.with_segments(other))
    records = table.state().segments[1]
    Path(table.store.uri, records.path).write_bytes(b"x")
    Path(table.store.uri, other[0].path).unlink()
    index, place, remedy = definition.name, table.store.uri, "drop the index and create it again"
    assert table.verify() == [
        f"index {index}: {place}/{other[0].path} does not exist: {remedy}",
        f"index {index}, column amount: the segment {place}/{records.path} has 1 bytes where {records.size} were "
        f"written: {remedy}",
    ]


def test_verify_reads_on_behind_damage_and_names_every_index(tmp_path: Path) -> None:
    table, first = a_table(open_store(str(tmp_path / "t.pruner")))
    second = an_index("second")
    add_index(table, second)
    batch = next(entry for entry in table.state().segments if entry.partition == "files")
    shared = table.write_segment(
        "column_stats", statistics(batch.rows), definition=second, field=AMOUNT, batch=batch
    )
    table.commit(lambda state: state.with_segments([shared]))
    for entry in table.state().stored():
        Path(table.store.uri, entry.path).write_bytes(b"x")
    about = [problem.partition(": ")[0] for problem in table.verify()]
    assert about == [
        f"indexes {first.name}, second",  # which share a slice batch
        f"index {first.name}, column amount",
        "index second, column amount",
    ]


def test_verify_checks_the_chain_of_the_log(tmp_path: Path) -> None:
    table, _ = a_table(open_store(str(tmp_path / "t.pruner")))
    third = msgspec.structs.replace(table.state(), version=3, parent="0" * 32)
    table.store.put_new(log.entry_path(3), log.encode(third))
    assert [problem for problem in table.verify() if "does not continue the entry 2" in problem]
    fifth = msgspec.structs.replace(third, version=5, parent=log.checksum_of_state(third))
    table.store.put_new(log.entry_path(5), log.encode(fifth))
    assert [problem for problem in table.verify() if "entry 5" in problem and "entry 3" in problem]


def test_verify_checks_cardinality(tmp_path: Path) -> None:
    table, definition = a_table(open_store(str(tmp_path / "t.pruner")))
    twice = table.write_segment("files", batch_records([1, 2, 1]))
    outside = [
        table.write_segment("column_stats", records, definition=definition, field=AMOUNT, batch=twice)
        for records in (pa.table({"__slice": [0, 3]}), pa.table({"__slice": [-1]}), pa.table({"other": [1]}))
    ]
    table.commit(lambda state: state.with_segments([twice, *outside]))
    problems = table.verify()
    assert len(problems) == 4
    assert sum("lists a slice twice" in problem for problem in problems) == 1
    assert sum("slices that its batch does not have" in problem for problem in problems) == 3
