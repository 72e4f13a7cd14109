"""Partition statistics: with them every plan keeps exactly what it keeps without them, from fewer bytes.

Random records of every kind, alike or not within a partition, in several batches; slices deleted, replaced or added
since; two records of one slice; schemas that have changed since. The oracle is the evidence of all records.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.evidence.snapshot import SnapshotEvidence
from pruner.evidence.sources import Source
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, IsNullLeaf, Leaf, NotNullLeaf, Point, PrefixLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes import partition_stats
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.column_stats.record import ColumnRecord
from pruner.indexes.partition_stats import SliceBatch, write_records
from pruner.metadata import FieldBinding, MetadataTable, State, define
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.segments import batch_table
from pruner.metadata.state import FILES
from pruner.schema import Field, TableSchema
from pruner.storage.opening import open_store
from pruner.tables.snapshot import SLICE_COLUMNS, Partitions, Snapshot
from pruner.verdict import Outcome
from tests.support.parquet.column_stats import DUCKDB, SPARK, TRINO, records_table
from tests.support.running.profiles import examples

NAME = ("x",)


@dataclass(frozen=True)
class Kind:
    """A file type, the table types that its records may meet, how a bound is recorded, and values around it."""

    file: str
    tables: tuple[pa.DataType, ...]
    suffix: str
    values: tuple[Any, ...]


KINDS = (
    Kind("int32", (pa.int32(), pa.int64(), pa.float64(), pa.string()), "integer", (-3, 0, 1, 2, 7)),
    Kind("int64", (pa.int64(), pa.float64()), "integer", (-(2**53) - 1, 2**53 + 1, 0, 5, 2**63 - 1)),
    Kind("timestamp[s]", (pa.timestamp("s"), pa.timestamp("ns")), "integer", (-5, 0, 10, 2**60, -(2**60))),
    Kind("int96", (pa.timestamp("us"), pa.timestamp("ns")), "integer", (0, 1, 2**62)),
    Kind("decimal128(5, 2)", (pa.decimal128(5, 2), pa.decimal128(38, 4)), "decimal", (-700, 0, 1, 99999)),
    Kind("uint64", (pa.uint64(),), "decimal", (0, 1, 2**63, 2**64 - 1)),
    Kind("double", (pa.float64(),), "float", (float("-inf"), -1.5, 0.0, 2.5, float("inf"))),
    Kind("string", (pa.string(),), "bytes", (b"", b"a", b"ab", b"abc", b"b", b"\xf4\x8f\xbf\xbf")),
)


@st.composite
def a_record(draw: st.DrawFn, kind: Kind, plain: bool) -> ColumnRecord:
    """A record that a build may write; unless `plain` also one of another column, untrusted, absent or empty."""
    form = (
        "values"
        if plain
        else draw(st.sampled_from(["values"] * 5 + ["untrusted", "absent", "nulls", "nans"]))
    )
    rows = draw(st.integers(0 if form != "values" else 1, 4))
    field_id = None if plain else draw(st.sampled_from([None, None, 1, 2]))
    if form == "untrusted":
        return ColumnRecord(trusted=False, row_count=rows, type=kind.file, note="doubt")
    if form == "absent":
        return ColumnRecord(trusted=True, row_count=rows, absent=True, null_count=rows, has_values=False)
    about: dict[str, Any] = {
        "trusted": True,
        "row_count": rows,
        "type": kind.file,
        "field_id": field_id,
        "calendar_open": not plain and draw(st.integers(0, 5)) == 0,
        "partly_absent": False if plain else draw(st.sampled_from([False, False, True, None])),
        "from_data": draw(st.booleans()),
    }
    if form == "nulls":
        return ColumnRecord(**about, null_count=rows, has_values=False)
    if form == "nans" and kind.suffix == "float" and rows:
        return ColumnRecord(**about, null_count=0, nan_count=rows, has_values=True)
    low, high = sorted(draw(st.tuples(st.sampled_from(kind.values), st.sampled_from(kind.values))))
    known = draw(st.sampled_from(["both"] * 6 + ["low", "high", "none"]))
    nulls = draw(st.sampled_from([0, 0, 1, None])) if rows > 1 else draw(st.sampled_from([0, None]))
    exact = draw(st.booleans())
    rows = max(rows, 1)
    bounds: dict[str, Any] = {}
    if known in ("both", "low"):
        bounds[f"min_{kind.suffix}"] = low
    if known in ("both", "high"):
        bounds[f"max_{kind.suffix}"] = high
    nan_count = draw(st.sampled_from([0, None])) if kind.suffix == "float" else None
    if nan_count == 0 and rows > 2 and nulls != 1 and draw(st.booleans()):
        nan_count = 1
    about["row_count"] = rows
    return ColumnRecord(
        **about,
        null_count=nulls,
        nan_count=nan_count,
        has_values=draw(st.sampled_from([True, None])),
        **bounds,
        min_exact=exact,
        max_exact=exact,
    )


@st.composite
def points(draw: st.DrawFn, kind: Kind) -> Point:
    if kind.suffix == "float" and draw(st.integers(0, 5)) == 0:
        return Point(None, None, nan=True)
    low, high = sorted(draw(st.tuples(st.sampled_from(kind.values), st.sampled_from(kind.values))))
    if draw(st.booleans()):
        return Point(low, low)
    return Point(low, high, exact=draw(st.booleans()))


@st.composite
def leaves(draw: st.DrawFn, kind: Kind, field: Field) -> Leaf:
    form = draw(st.sampled_from(["compare"] * 4 + ["in", "in", "null", "not null", "prefix"]))
    if form == "in":
        return InLeaf(field, tuple(draw(st.lists(points(kind), max_size=3))), has_null=draw(st.booleans()))
    if form == "null":
        return IsNullLeaf(field)
    if form == "not null":
        return NotNullLeaf(field, draw(st.booleans()))
    if form == "prefix" and kind.suffix == "bytes":
        return PrefixLeaf(field, draw(st.sampled_from([b"a", b"ab", b"b"])), draw(st.booleans()))
    return CompareLeaf(field, draw(st.sampled_from(list(Operator))), draw(points(kind)))


@dataclass(frozen=True)
class Case:
    """Records of batches, `[batch][local ordinal]` as (partition, identity of the slice, record), and what is asked."""

    batches: list[list[tuple[int, int, ColumnRecord]]]
    live: list[tuple[int, int]]
    uncoverable: list[bool]
    field: Field
    asked: list[Leaf]
    at: list[int] | None


@st.composite
def cases(draw: st.DrawFn) -> Case:
    kind = draw(st.sampled_from(KINDS))
    table = draw(st.sampled_from(kind.tables))
    field = Field(
        NAME, table, field_id=draw(st.sampled_from([None, None, 1])), absent_is_null=draw(st.booleans())
    )
    batches, identity = [], 0
    for _ in range(draw(st.integers(1, 3))):
        plain = draw(st.booleans())
        partitions = sorted(draw(st.lists(st.integers(0, 2), min_size=1, max_size=12)))
        batch = []
        for partition in partitions:
            if batches and draw(st.integers(0, 6)) == 0:  # another refresh recorded it, too
                place, again, _ = draw(st.sampled_from(batches[0]))
                if again not in [number for _, number, _ in batch]:
                    batch.append((place, again, draw(a_record(kind, plain))))
                continue
            batch.append((partition, identity, draw(a_record(kind, plain))))
            identity += 1
        if batch:
            batches.append(batch)
    known = sorted({(partition, number) for batch in batches for partition, number, _ in batch})
    live = [each for each in known if draw(st.integers(0, 7))]
    added = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(1000, 1004)), max_size=2, unique=True))
    live = sorted({*live, *added}) or [(0, 1000)]
    uncoverable = [draw(st.integers(0, 9)) == 0 for _ in live]
    at = draw(st.none() | st.lists(st.integers(0, len(live) - 1), unique=True).map(sorted))
    return Case(
        batches, live, uncoverable, field, draw(st.lists(leaves(kind, field), min_size=1, max_size=4)), at
    )


def snapshot_of(slices: Sequence[tuple[int, int]], uncoverable: Sequence[bool], field: Field) -> Snapshot:
    """Slices as (partition, identity)."""
    count = len(slices)
    columns: dict[str, Any] = {
        "partition": [partition for partition, _ in slices],
        "file_id": [f"f{number}" for _, number in slices],
        "base_file": [f"/t/p={partition}/f{number}.parquet" for partition, number in slices],
        "base_size": [1] * count,
        "base_version": [None] * count,
        "base_instant": [None] * count,
        "log_files": [None] * count,
        "log_size": [None] * count,
        "unsettled": list(uncoverable),
    }
    keys = pa.array([xxhash.xxh3_128_digest(f"{p}/{n}".encode()) for p, n in slices], pa.binary(16))
    paths = Partitions(pa.array([f"p={number}" for number in range(3)]))
    return Snapshot("s", TableSchema((field,)), pa.table(columns, schema=SLICE_COLUMNS), keys, paths, "/t")


class Written:
    """A metadata table with the batches of a case."""

    def __init__(self, folder: str, batches: list[list[tuple[int, int, ColumnRecord]]], field: Field) -> None:
        self.metadata = MetadataTable(open_store(folder))
        definition = define("i", "column_stats", (FieldBinding(NAME, str(field.type), None),))
        self.metadata.commit(lambda state: state.with_definition(definition))
        entries = []
        for batch in batches:
            slices = batch_table(
                snapshot_of([(p, n) for p, n, _ in batch], [False] * len(batch), field), np.arange(len(batch))
            )
            about = SliceBatch(self.metadata.write_segment(FILES, slices), slices, np.arange(len(batch)))
            records = records_table([record for _, _, record in batch])
            entries.append(about.entry)
            entries.append(write_records(self.metadata, COLUMN_STATS, records, about, definition, NAME))
        self.state = self.metadata.commit(lambda state: state.with_segments(entries))

    @property
    def bare(self) -> State:
        """The state without partition statistics."""
        return msgspec.structs.replace(
            self.state,
            segments=tuple(msgspec.structs.replace(e, partition_stats=None) for e in self.state.segments),
        )

    def sources(self, state: State, snapshot: Snapshot, field: Field) -> tuple[list[Source], list[str]]:
        found = SnapshotEvidence(snapshot, state, SegmentCache(lambda: self.metadata)).sources(field)
        return found.usable, found.fallbacks


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few slices, even for small batches."""
    monkeypatch.setattr(partition_stats, "LEAST_SLICES", 1)
    monkeypatch.setattr(partition_stats, "LEAST_PER_GROUP", 1)
    monkeypatch.setattr(partition_stats, "GROUP_SLICES", 4)


@given(cases())
@settings(max_examples=examples(60), deadline=None)
def test_the_same_answers_as_without(case: Case) -> None:
    with tempfile.TemporaryDirectory() as folder:
        written = Written(folder, case.batches, case.field)
        snapshot = snapshot_of(case.live, case.uncoverable, case.field)
        cut, notes = written.sources(written.state, snapshot, case.field)
        whole, bare_notes = written.sources(written.bare, snapshot, case.field)
        assert (len(cut), notes) == (len(whole), bare_notes) == (1, [])
        assert same_coverage(cut[0], whole[0])
        for asked in case.asked:
            for semantics in (DUCKDB, SPARK, TRINO):
                for outcome in Outcome:
                    check(cut[0], whole[0], asked, outcome, semantics, case)
        assert same_coverage(cut[0], whole[0])


def same_coverage(left: Source, right: Source) -> bool:
    if left.uncovered is None or right.uncovered is None:
        return left.uncovered is right.uncovered
    return np.array_equal(left.uncovered, right.uncovered)


def check(cut: Source, whole: Source, leaf: Leaf, outcome: Outcome, semantics: Semantics, case: Case) -> None:
    """The same answers for all slices, and for some."""
    for at in (None, None if case.at is None else np.array(case.at, np.intp)):
        found = cut.possible(leaf, outcome, semantics, at)
        expected = whole.possible(leaf, outcome, semantics, at)
        assert (found is None) == (expected is None)
        if found is not None and expected is not None:
            assert found.tolist() == expected.tolist(), (leaf, outcome, semantics.engine)


@given(st.data())
@settings(max_examples=examples(60), deadline=None)
def test_an_aggregate_leaves_what_any_of_its_records_leaves(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(KINDS))
    field = Field(
        NAME,
        data.draw(st.sampled_from(kind.tables)),
        field_id=data.draw(st.sampled_from([None, 1])),
        absent_is_null=data.draw(st.booleans()),
    )
    records = records_table(
        data.draw(st.lists(a_record(kind, data.draw(st.booleans())), min_size=1, max_size=8))
    )
    found = COLUMN_STATS.aggregate(records, np.zeros(records.num_rows, np.int64))
    assert found is not None
    numbered = found.records.append_column("__slice", pa.array(range(len(found.starts)), pa.int32()))
    groups = COLUMN_STATS.load(numbered, len(found.starts), field)
    each = COLUMN_STATS.load(records, records.num_rows, field)
    group = np.searchsorted(found.starts, np.arange(records.num_rows), side="right") - 1
    assert np.array_equal(groups.covered[group], each.covered)
    leaf = data.draw(leaves(kind, field))
    for semantics in (DUCKDB, SPARK, TRINO):
        for outcome in Outcome:
            by_group = groups.possible(leaf, outcome, semantics, None)
            by_slice = each.possible(leaf, outcome, semantics, None)
            assert (by_group is None) == (by_slice is None)
            if by_group is not None and by_slice is not None:
                assert not (by_slice & ~by_group[group]).any(), (leaf, outcome, records.to_pylist())
