"""Compaction: fewer segments, the same plans, while others read and write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.maintenance import compaction
from pruner.metadata import MetadataTable
from pruner.storage.opening import open_store

COUNT = 6


def write(root: Path, number: int, values: list[int]) -> Path:
    root.mkdir(exist_ok=True)
    path = root / f"{number:04}.parquet"
    pq.write_table(pa.table({"x": values, "s": [f"v{value}" for value in values]}), path)
    return path


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    """One refresh for each of six files, with two indexes."""
    root = tmp_path / "t"
    write(root, 0, [0, 1])
    table = pruner.open_table(root)
    table.create_index("both", on=["x", "s"])
    table.create_index("values", on="s", using="bitmap")
    for number in range(1, COUNT):
        write(root, number, [2 * number, 2 * number + 1])
        table.refresh()
    return table


def metadata_of(table: pruner.Table) -> MetadataTable:
    return MetadataTable(open_store(table.index_uri))


PREDICATES = (
    *(f"x = {value}" for value in range(2 * COUNT)),
    "x > 7",
    "s = 'v5'",
    "s IN ('v5', 'v6')",
    "s = 'none'",
    "NOT (x < 9)",
)


def answers(table: pruner.Table) -> list[list[str]]:
    return [[Path(uri).name for uri in table.plan(predicate).files] for predicate in PREDICATES]


@pytest.mark.slow
def test_the_same_plans_from_fewer_segments(table: pruner.Table) -> None:
    before = answers(table)
    assert before[5] == ["0002.parquet"]
    result = table.compact()
    # A slice batch and three segments for each refresh; the bitmap of the first file had a batch of its own.
    assert (result.before, result.after) == (4 * COUNT + 1, 4)
    assert answers(table) == before
    assert answers(pruner.open_table(table.uri)) == before
    assert table.verify() == []
    assert table.refresh().indexed == 0
    assert table.compact() == compaction.CompactResult(4, 4), "nothing is left to do"


@pytest.mark.slow
def test_readers_of_the_old_segments_go_on(table: pruner.Table) -> None:
    reader = pruner.open_table(table.uri)
    pinned = reader.snapshot()
    table.compact()
    assert pinned.plan("x = 5").kept == 1
    assert table.vacuum() == 0, "what was merged is kept for those who still read it"
    assert [Path(uri).name for uri in pinned.plan("s = 'v9'").files] == ["0004.parquet"]


@pytest.mark.slow
def test_slices_that_are_gone_are_left_out(table: pruner.Table, tmp_path: Path) -> None:
    (tmp_path / "t" / "0003.parquet").unlink()
    write(tmp_path / "t", 4, [1000])
    table.refresh()
    table.compact()
    state = metadata_of(table).state()
    assert {entry.rows for entry in state.batches()} == {COUNT - 1}
    assert table.plan("x = 8").kept == 0
    assert [Path(uri).name for uri in table.plan("x = 1000").files] == ["0004.parquet"]
    assert table.refresh().indexed == 0


@pytest.mark.slow
def test_batches_are_bounded(table: pruner.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    before = answers(table)
    monkeypatch.setattr(compaction, "MERGED_SLICES", 3)
    table.compact()
    # The first file is in two batches, which take two of the first three positions and become one slice.
    assert sorted(entry.rows for entry in metadata_of(table).state().batches()) == [1, 2, 3]
    assert answers(table) == before


@pytest.mark.slow
def test_full_batches_are_merged_once(
    table: pruner.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.create_index("keys", on="x", using="record_index")
    before = answers(table)
    monkeypatch.setattr(compaction, "BATCH_SLICES", 1)
    monkeypatch.setattr(compaction, "MERGED_SLICES", 3)
    table.compact()
    state = metadata_of(table).state()
    # The first file is in two batches, which become one slice. The record index's batch is already large.
    assert sorted(entry.rows for entry in state.batches()) == [1, 2, 3, COUNT]
    assert answers(table) == before
    assert table.compact().after == len(state.segments)
    assert metadata_of(table).state().version == state.version


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("gone", "rewritten"), [(1, False), (2, True)])
def test_a_full_batch_is_rewritten_once_enough_of_it_is_gone(
    table: pruner.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gone: int, *, rewritten: bool
) -> None:
    table.compact()
    monkeypatch.setattr(compaction, "BATCH_SLICES", COUNT)
    monkeypatch.setattr(compaction, "GONE_SHARE", 0.3)
    for number in range(gone):
        (tmp_path / "t" / f"{number:04}.parquet").unlink()
    table.compact()
    left = COUNT - gone if rewritten else COUNT
    assert [entry.rows for entry in metadata_of(table).state().batches()] == [left]
    assert table.plan("x = 0").kept == 0
    assert [Path(uri).name for uri in table.plan("x = 11").files] == ["0005.parquet"]


@pytest.mark.slow
def test_a_damaged_segment_is_named_and_nothing_is_lost(table: pruner.Table) -> None:
    entry = next(entry for entry in metadata_of(table).state().segments if entry.definition)
    path = Path(table.index_uri) / entry.path
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    with pytest.raises(pruner.FormatError, match="checksum"):
        pruner.open_table(table.uri).compact()
    assert len(metadata_of(table).state().segments) == 4 * COUNT + 1


@pytest.mark.slow
def test_an_index_dropped_meanwhile_stays_dropped(
    table: pruner.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = pruner.open_table(table.uri)
    real = compaction.Compaction._swapped

    def dropping(self: compaction.Compaction, *rest: Any) -> Any:
        other.drop_index("both", if_exists=True)
        return real(self, metadata_of(table).state(), *rest[1:])

    monkeypatch.setattr(compaction.Compaction, "_swapped", dropping)
    table.compact()
    state = metadata_of(table).state()
    assert [definition.name for definition in state.definitions] == ["values"]
    assert len(state.segments) == 2
    assert table.verify() == []
    assert table.plan("s = 'v5'").kept == 1


@pytest.mark.slow
def test_two_compactions_at_once_and_a_refresh_between(
    table: pruner.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refresh is kept; the slower compaction reports that the faster one came first."""
    other = pruner.open_table(table.uri)
    real = compaction.Compaction._merge
    calls: list[int] = []

    def late(self: compaction.Compaction, *rest: Any) -> Any:
        merged = list(real(self, *rest))
        if not calls:
            calls.append(1)
            write(tmp_path / "t", COUNT, [2 * COUNT, 2 * COUNT + 1])
            other.refresh()
            other.compact()
        return merged

    monkeypatch.setattr(compaction.Compaction, "_merge", late)
    with pytest.raises(pruner.ConflictError, match="another writer removed segments that were being merged"):
        table.compact()
    assert table.refresh().indexed == 0
    assert table.plan(f"x = {2 * COUNT}").kept == 1
    assert table.verify() == []
