"""Defects that an attack on partition statistics found, and the related traps.

Groups of slices are the first filter of a plan: a wrong exclusion loses rows, and a defect of their file must cost
speed alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest

import pruner
from pruner.evidence.grouped import WARM_AFTER
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, IsNullLeaf, Leaf, NotNullLeaf, Point
from pruner.expr.nodes import Operator
from pruner.indexes import partition_stats
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.column_stats.record import ColumnRecord
from pruner.metadata import MetadataTable, log
from pruner.metadata.log import checksum_of
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.state import FILES, SegmentEntry
from pruner.schema import Field
from pruner.storage.opening import open_store
from pruner.verdict import Outcome
from tests.support.parquet.column_stats import DUCKDB, SPARK, TRINO, records_table
from tests.support.parquet.tables import write_file

FILES_COUNT = 24
Change = Callable[[pa.Table], pa.Table]


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few slices, even for small batches."""
    monkeypatch.setattr(partition_stats, "LEAST_SLICES", 6)
    monkeypatch.setattr(partition_stats, "LEAST_PER_GROUP", 1)
    monkeypatch.setattr(partition_stats, "GROUP_SLICES", 4)


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    """File n holds 10 n and 10 n + 9; six files for each of four days, so eight groups."""
    root = tmp_path / "t"
    for number in range(FILES_COUNT):
        write_file(root / f"day={number // 6}" / f"{number:03}.parquet", x=_values(number))
    opened = pruner.open_table(root)
    opened.create_index("i", on="x")
    return opened


def _values(number: int) -> pa.Array[Any]:
    return pa.array([10 * number, 10 * number + 9], pa.int64())


def kept(table: pruner.Table, predicate: str) -> tuple[list[int], tuple[str, ...]]:
    """Numbers of the files that a plan of a newly opened table keeps, and the reasons that it reports."""
    plan = pruner.open_table(table.uri).plan(predicate)
    return sorted(int(Path(file).stem) for file in plan.files), plan.fallbacks


def metadata_of(table: pruner.Table) -> MetadataTable:
    return MetadataTable(open_store(table.index_uri))


def grouped_entry(table: pruner.Table) -> SegmentEntry:
    return next(entry for entry in metadata_of(table).state().segments if entry.partition_stats is not None)


def test_t6_partition_dropped_and_made_again(table: pruner.Table) -> None:
    """Trap T6 (HUDI-8345, HUDI-8586): statistics by path outlive the partition that they were about."""
    day = Path(table.uri) / "day=1"
    shutil.rmtree(day)
    for number in range(6, 12):
        write_file(day / f"{number:03}.parquet", x=_values(number + 1000))
    new = list(range(6, 12))
    # None of the new files is indexed: all stay, whatever the partition of that name once held.
    assert kept(table, "x = 75") == (new, ())
    assert kept(table, "x = 10075")[0] == new
    table.refresh()
    assert kept(table, "x = 75")[0] == []
    assert kept(table, "x BETWEEN 10070 AND 10075")[0] == [7]
    table.compact()
    assert kept(table, "x BETWEEN 10070 AND 10075")[0] == [7]
    assert table.verify() == []


def test_groups_that_moved_and_slices_that_have_none(table: pruner.Table) -> None:
    """Files before and after all others, indexed in a segment without groups, and one file that is not indexed."""
    root = Path(table.uri)
    write_file(root / "day=0" / "0000100.parquet", x=_values(5))
    write_file(root / "day=9" / "200.parquet", x=_values(200))
    table.refresh()
    write_file(root / "day=3" / "300.parquet", x=_values(7))
    assert kept(table, "x = 55") == ([5, 100, 300], ())
    assert kept(table, "x = 2005")[0] == [200, 300]
    assert kept(table, "x = 75")[0] == [7, 300]
    # Only the slices that the partition condition left are looked up.
    assert kept(table, "day = 3 AND x = 75")[0] == [300]
    assert kept(table, "day = 3 AND x BETWEEN 185 AND 195")[0] == [18, 19, 300]
    assert kept(table, "day = 9 AND x = 2005")[0] == [200]
    assert kept(table, "NOT (x < 55 OR x > 2000) AND day < 2")[0] == [5, 6, 7, 8, 9, 10, 11, 100]
    assert all_match(table, "x >= 0 AND x <= 239 OR day = 9") == [*range(FILES_COUNT), 100, 200]
    assert all_match(table, "x BETWEEN 40 AND 59") == [4, 5, 100]


def test_slices_that_are_asked_by_their_ordinals(table: pruner.Table) -> None:
    """Uncovered slices stay, alone and among others; those that the groups exclude are dropped."""
    write_file(Path(table.uri) / "day=3" / "300.parquet", x=_values(7))
    snapshot = table.snapshot().data
    field = snapshot.schema.find(("x",), case_sensitive=True)
    state, segments = metadata_of(table).state(), SegmentCache(lambda: metadata_of(table))
    (source,) = SnapshotEvidence(snapshot, state, segments).sources(field).usable
    leaf = CompareLeaf(field, Operator.EQ, Point(75, 75))
    for at, expected in (([24], [True]), ([0, 7, 24], [False, True, True]), ([0, 23], [False] * 2), ([], [])):
        answer = source.possible(leaf, Outcome.TRUE, DUCKDB, np.array(at, np.intp))
        assert answer is not None
        assert answer.tolist() == expected


def all_match(table: pruner.Table, predicate: str) -> list[int]:
    """Numbers of the files whose rows are all proven to match."""
    plan = pruner.open_table(table.uri).plan(predicate)
    files = np.array(plan.snapshot.columns.column("base_file").to_pylist())
    return sorted(int(Path(file).stem) for file in files[plan.all_match])


KNOWN: dict[str, Any] = {"trusted": True, "row_count": 2, "type": "double", "null_count": 0, "nan_count": 0}
DOUBLE = Field(("x",), pa.float64())
IN_DOUBT: dict[str, ColumnRecord] = {
    "NULLs are not counted": ColumnRecord(**{**KNOWN, "null_count": None}, min_float=1.0, max_float=2.0),
    "NaN is not counted": ColumnRecord(**{**KNOWN, "nan_count": None}, min_float=1.0, max_float=2.0),
    "a NULL": ColumnRecord(**{**KNOWN, "null_count": 1}, min_float=1.0, max_float=1.0),
    "nothing but NULL": ColumnRecord(**{**KNOWN, "null_count": 2}),
    "a NaN": ColumnRecord(**{**KNOWN, "nan_count": 1}, min_float=1.0, max_float=1.0),
    "nothing but NaN": ColumnRecord(**{**KNOWN, "nan_count": 2}),
    "no bounds": ColumnRecord(**KNOWN),
    "no minimum": ColumnRecord(**KNOWN, max_float=2.0, max_exact=True),
    "no maximum": ColumnRecord(**KNOWN, min_float=1.0, min_exact=True),
    "equal bounds that need not be values": ColumnRecord(**KNOWN, min_float=3.0, max_float=3.0),
    "not trusted": ColumnRecord(trusted=False, row_count=2, type="double"),
    "without the column": ColumnRecord(trusted=True, row_count=2, absent=True, null_count=2),
    "no rows": ColumnRecord(**{**KNOWN, "row_count": 0}),
    "integers": ColumnRecord(**{**KNOWN, "type": "int64", "nan_count": None}, min_integer=1, max_integer=2),
}


@pytest.mark.sampled(18)
@pytest.mark.parametrize("what", IN_DOUBT)
@pytest.mark.parametrize("absent_is_null", [True, False])
def test_one_slice_in_doubt_among_others(what: str, *, absent_is_null: bool) -> None:
    """A group leaves open each outcome that one of its records leaves open, before, between and after plain ones."""
    low, high = (
        ColumnRecord(**KNOWN, min_float=a, max_float=b, min_exact=True, max_exact=True)
        for a, b in ((1.0, 2.0), (3.0, 3.0))
    )
    field = replace(DOUBLE, absent_is_null=absent_is_null)
    numbers = [Point(value, value) for value in (0.0, 1.0, 2.5, 3.0, 9.0)]
    asked: list[Leaf] = [IsNullLeaf(field), NotNullLeaf(field, True), NotNullLeaf(field, False)]
    asked += [
        CompareLeaf(field, how, at) for how in Operator for at in (*numbers, Point(None, None, nan=True))
    ]
    asked += [InLeaf(field, tuple(numbers[:2]), has_null=null) for null in (True, False)]
    for records in ([IN_DOUBT[what], high, low], [high, IN_DOUBT[what], high], [low, high, IN_DOUBT[what]]):
        rows = records_table(records)
        found = COLUMN_STATS.aggregate(rows, np.zeros(3, np.int64))
        assert found is not None
        numbered = found.records.append_column("__slice", pa.array(range(len(found.starts)), pa.int32()))
        groups = COLUMN_STATS.load(numbered, len(found.starts), field)
        each = COLUMN_STATS.load(rows, 3, field)
        group = np.searchsorted(found.starts, np.arange(3), side="right") - 1
        assert np.array_equal(groups.covered[group], each.covered)
        for leaf, outcome, semantics in product(asked, Outcome, (DUCKDB, SPARK, TRINO)):
            of_groups = groups.possible(leaf, outcome, semantics, None)
            of_each = each.possible(leaf, outcome, semantics, None)
            assert of_groups is not None
            assert of_each is not None
            assert not (of_each & ~of_groups[group]).any(), (leaf, outcome, semantics.engine)


def with_column(name: str, values: Callable[[int], pa.Array[Any]]) -> Change:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.column_names.index(name), name, values(table.num_rows))

    return change


BROKEN: dict[str, Change] = {
    "a column is missing": lambda table: table.drop_columns(["row_count"]),
    "no record columns": lambda table: table.drop_columns(table.column_names[5:]),
    "text for numbers": with_column("min_integer", lambda rows: pa.array(["a"] * rows)),
    "lists for text": with_column("type", lambda rows: pa.array([[1]] * rows)),
    "numbers for bytes": with_column("min_bytes", lambda rows: pa.array([1] * rows)),
    "NULL for what must be known": with_column("trusted", lambda rows: pa.nulls(rows, pa.bool_())),
    "a column twice": lambda table: table.append_column("row_count", table.column("row_count")),
    "NULL digests": with_column("__keys", lambda rows: pa.nulls(rows, pa.binary(16))),
    "NULL ordinals": with_column("__first", lambda rows: pa.nulls(rows, pa.int32())),
    "too many slices": with_column("__slices", lambda rows: pa.array([2**31 - 1] * rows, pa.int32())),
    "slices of single records": lambda table: table.append_column(
        "__slice", pa.array(range(table.num_rows), pa.int32())
    ),
    "some groups only": lambda table: table.slice(0, 3),
    "no groups": lambda table: table.slice(0, 0),
}


def put_in_place(table: pruner.Table, of: SegmentEntry, change: Change) -> None:
    """Commit other partition statistics, or other records, with matching checksums."""
    metadata = metadata_of(table)
    state = metadata.state()
    batch = next(entry for entry in state.segments if entry.id == of.batch)
    other = metadata.write_segment(
        of.partition,
        change(metadata.read_segment(of)),
        definition=state.definitions[0],
        field=("x",),
        batch=batch,
    )

    def swapped(entry: SegmentEntry) -> SegmentEntry:
        if entry.id == of.id:
            return msgspec.structs.replace(other, partition_stats=entry.partition_stats)
        same = entry.partition_stats is not None and entry.partition_stats.id == of.id
        return msgspec.structs.replace(entry, partition_stats=other) if same else entry

    metadata.commit(
        lambda newest: msgspec.structs.replace(newest, segments=tuple(map(swapped, newest.segments)))
    )


@pytest.mark.sampled(6)
@pytest.mark.parametrize("what", BROKEN)
def test_i4_partition_statistics_of_another_form(table: pruner.Table, what: str) -> None:
    """Trap I4: one unusable file never fails the plan; here a KeyError or an Arrow error reached the user."""
    of = grouped_entry(table).partition_stats
    assert of is not None
    put_in_place(table, of, BROKEN[what])
    files, reasons = kept(table, "x = 55")
    assert files == [5]
    assert len(reasons) == 1, reasons
    assert "partition statistics are not used" in reasons[0]
    assert len(table.verify()) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("what", ["a column is missing", "text for numbers", "a column twice"])
def test_i4_records_of_another_form(table: pruner.Table, what: str) -> None:
    """Trap I4, for the records themselves: they are skipped with the reason, and the groups still filter."""
    put_in_place(table, grouped_entry(table), BROKEN[what])
    files, reasons = kept(table, "x = 55")
    assert files == [4, 5]  # the other slices of day 0 lie in another group
    assert [reason for reason in reasons if "column_stats/" in reason]
    assert kept(table, "x < 0")[0] == []


def test_the_log_tells_of_a_huge_batch(table: pruner.Table) -> None:
    """The length of a batch is trusted before the batch is read: 2^40 slices took 8 TiB of memory."""
    metadata = metadata_of(table)
    path = Path(table.index_uri) / log.entry_path(log.entries(metadata.store)[-1][0])
    state = msgspec.json.decode(path.read_bytes())["state"]
    for entry in state["segments"]:
        entry["rows"] = 2**40 if entry["partition"] == FILES else entry["rows"]
    raw = msgspec.json.encode(state)
    path.write_bytes(b'{"checksum":"%s","state":%s}' % (checksum_of(raw).encode(), raw))
    files, reasons = kept(table, "x = 55")
    assert 5 in files
    assert any("outside its batch" in reason for reason in reasons)


def test_records_that_are_gone(table: pruner.Table) -> None:
    """Segments with and without groups, vacuumed under a reader that holds few of them in memory.

    This raised an IndexError; after enough queries a process left the groups for records that it could not read.
    """
    for number in (100, 101):  # too few for groups
        write_file(Path(table.uri) / "day=9" / f"{number}.parquet", x=_values(number))
    table.refresh()
    snapshot = table.snapshot().data
    field = snapshot.schema.find(("x",), case_sensitive=True)
    state = metadata_of(table).state()
    segments = SegmentCache(lambda: metadata_of(table), limit_bytes=0)  # keeps what was read last
    (source,) = SnapshotEvidence(snapshot, state, segments).sources(field).usable
    segments.read(state.batches()[0])
    shutil.rmtree(Path(table.index_uri) / "column_stats")

    def asked() -> list[int]:
        leaf = CompareLeaf(field, Operator.EQ, Point(55, 55))
        answer = source.possible(leaf, Outcome.TRUE, DUCKDB, None)
        assert answer is not None
        return np.flatnonzero(answer).tolist()

    # Nothing more can be learned of the group 40 to 59 and of the files without groups, however often they are queried.
    assert {tuple(asked()) for _ in range(WARM_AFTER + 2)} == {(4, 5, 24, 25)}
    assert len(source.notes) == 2, source.notes
    assert source.uncovered is not None
    assert source.uncovered.all()


def test_verify_adds_up_again(table: pruner.Table) -> None:
    """Statistics that are wrong under a valid checksum: plans cannot tell, `verify` can."""
    assert table.verify() == []
    of = grouped_entry(table).partition_stats
    assert of is not None
    put_in_place(table, of, with_column("max_integer", lambda rows: pa.array([7] * rows, pa.int64())))
    (problem,) = table.verify()
    assert "add up" in problem
    changed = grouped_entry(table).partition_stats
    assert changed is not None
    put_in_place(
        table, changed, with_column("__keys", lambda rows: pa.array([b"k" * 16] * rows, pa.binary(16)))
    )
    (problem,) = table.verify()
    assert "names other slices" in problem


def test_r2_indexes_that_contradict_each_other(tmp_path: Path) -> None:
    """R2: two indexes that leave a slice no outcome: one of them is wrong, the slice stays, the plan says so."""
    root = tmp_path / "t"
    write_file(root / "a.parquet", x=[55, 55])
    write_file(root / "b.parquet", x=[7, 8])
    table = pruner.open_table(root)
    for name in ("lying", "honest"):
        table.create_index(name, on="x")

    def lying(records: pa.Table) -> pa.Table:
        for bound in ("min_integer", "max_integer"):
            records = with_column(bound, lambda _: pa.array([1055, 1008], pa.int64()))(records)
        return records

    first = next(entry for entry in metadata_of(table).state().segments if entry.partition == "column_stats")
    put_in_place(table, first, lying)
    for predicate in ("x = 55", "x = 55 OR x IS NULL", "NOT (x <> 55 AND x <> 56)"):
        plan = pruner.open_table(table.uri).plan(predicate)
        assert [Path(file).name for file in plan.files] == ["a.parquet"]
        assert "indexes contradict each other on column x for 1 file: kept" in plan.fallbacks


def test_a_vacuum_without_grace_beside_a_writer(table: pruner.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file that a writer was about to name was removed: a conflict, which was reported as a missing folder."""
    real = os.link

    def removed_before(source: Path, target: Path) -> None:
        source.unlink()
        real(source, target)

    write_file(Path(table.uri) / "day=9" / "100.parquet", x=_values(100))
    with monkeypatch.context() as patched:
        patched.setattr(os, "link", removed_before)
        with pytest.raises(pruner.ConflictError, match="try again"):
            table.refresh()
    assert table.refresh().indexed == 1
    assert kept(table, "x = 1005") == ([100], ())
