"""Partition statistics of whole tables, built by the product itself, and what happens to them afterwards."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import pruner
from pruner.indexes import partition_stats
from pruner.metadata import MetadataTable
from pruner.metadata.state import SegmentEntry
from pruner.storage.opening import open_store
from tests.support.parquet.tables import write_file


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few slices, even for small batches."""
    monkeypatch.setattr(partition_stats, "LEAST_SLICES", 1)
    monkeypatch.setattr(partition_stats, "LEAST_PER_GROUP", 1)
    monkeypatch.setattr(partition_stats, "GROUP_SLICES", 4)


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    root = tmp_path / "t"
    for number in range(24):
        write_file(
            root / f"day={number // 6}" / f"{number:03}.parquet",
            x=pa.array([10 * number, 10 * number + 9], pa.int64()),
        )
    opened = pruner.open_table(root)
    opened.create_index("i", on="x")
    return opened


def entries(table: pruner.Table) -> list[SegmentEntry]:
    state = MetadataTable(open_store(table.index_uri)).state()
    return [entry for entry in state.segments if entry.partition_stats is not None]


def test_a_selective_plan_reads_neither_the_batch_nor_other_records(table: pruner.Table) -> None:
    (entry,) = entries(table)
    assert entry.partition_stats is not None
    assert entry.partition_stats.rows == 8  # four partitions of six slices in groups of four at most
    metadata = Path(table.index_uri)
    for path in (metadata / "files").iterdir():
        path.unlink()
    assert answer(table, "x = 55") == [5]
    (metadata / entry.path).unlink()
    assert answer(table, "x > 1000") == []
    plan = pruner.open_table(table.uri).plan("x = 55")
    # The group is known to hold 40 to 59; the records of its slices can no longer be read.
    assert [int(Path(file).stem) for file in plan.files] == [4, 5]
    assert any("index i" in reason and entry.path in reason for reason in plan.fallbacks), plan.fallbacks


def test_files_that_come_and_go_afterwards(table: pruner.Table) -> None:
    """T6: a partition that is dropped and recreated, a file replaced, a file added to a known path."""
    root = Path(table.uri)
    shutil.rmtree(root / "day=1")
    write_file(root / "day=1" / "006.parquet", x=pa.array([100_000], pa.int64()))
    write_file(root / "day=2" / "013.parquet", x=pa.array([200_000], pa.int64()))
    write_file(root / "day=3" / "100.parquet", x=pa.array([300_000], pa.int64()))
    (root / "day=0" / "003.parquet").unlink()
    new = [6, 13, 100]
    assert answer(table, "x = 55") == sorted([5, *new])
    assert answer(table, "x < 0") == new
    table.refresh()
    assert answer(table, "x >= 100000") == new
    assert answer(table, "x BETWEEN 125 AND 145") == [12, 14]
    before = [answer(table, f"x = {number}") for number in range(0, 240, 7)]
    table.compact()
    assert len(entries(table)) == 1
    assert before == [answer(table, f"x = {number}") for number in range(0, 240, 7)]
    assert table.verify() == []


def test_damage_is_named_and_costs_only_speed(table: pruner.Table) -> None:
    (entry,) = entries(table)
    assert entry.partition_stats is not None
    path = Path(table.index_uri) / entry.partition_stats.path
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    plan = pruner.open_table(table.uri).plan("x = 55")
    assert plan.kept == 1
    assert any("partition statistics are not used" in reason for reason in plan.fallbacks)
    assert any(entry.partition_stats.path in problem for problem in table.verify())
    path.unlink()
    assert answer(table, "x = 55") == [5]


def test_an_older_writer_loses_them_and_nothing_else(table: pruner.Table) -> None:
    metadata = MetadataTable(open_store(table.index_uri))
    metadata.commit(
        lambda state: msgspec.structs.replace(
            state,
            segments=tuple(msgspec.structs.replace(e, partition_stats=None) for e in state.segments),
        )
    )
    assert entries(table) == []
    assert answer(table, "x = 55") == [5]
    assert len(metadata.unreferenced()) == 1


def test_dropped_with_their_index(table: pruner.Table) -> None:
    (entry,) = entries(table)
    size = sum(file.size for file in entry.files())
    assert [index.bytes for index in table.status().indexes] == [size]
    table.drop_index("i")
    assert entries(table) == []
    table.vacuum(grace_seconds=0)
    table.uninstall()
    assert not list(Path(table.index_uri).rglob("partition_stats/*"))


def answer(table: pruner.Table, predicate: str) -> list[int]:
    """Numbers of the files that a plan of a newly opened table keeps."""
    plan = pruner.open_table(table.uri).plan(predicate)
    assert plan.kept == len(plan.files)
    return sorted(int(Path(file).stem) for file in plan.files)
