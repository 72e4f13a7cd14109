"""Loading records: what is checked, how slices are joined, conversions to the table's type, ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.expr.bound.predicates import CompareLeaf, InLeaf, IsNullLeaf, Point, PrefixLeaf
from pruner.expr.exact.patterns import successor
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.column_stats.record import ColumnRecord, shortened_high, shortened_low
from pruner.indexes.columns.kinds import conversion, parse_type
from pruner.indexes.columns.ordering import RankOrder, decimals_as_bytes, rank
from pruner.schema import Field
from pruner.verdict import Outcome
from tests.support.parquet.column_stats import DUCKDB, evidence_of, kept, outcomes, records_table

NUMBER = Field(("x",), pa.int64())
THREE = ColumnRecord(
    True,
    5,
    "int64",
    null_count=0,
    has_values=True,
    min_integer=3,
    max_integer=3,
    min_exact=True,
    max_exact=True,
)


def equals(value: int, field: Field = NUMBER) -> CompareLeaf:
    return CompareLeaf(field, Operator.EQ, Point(value, value))


def test_slices_without_a_record_are_not_covered_and_stay() -> None:
    evidence = COLUMN_STATS.load(records_table([THREE, THREE], slices=[3, 1]), 5, NUMBER)
    assert evidence.covered.tolist() == [False, True, False, True, False]
    assert kept(evidence, equals(4)) == [0, 2, 4]
    assert outcomes(evidence, equals(3)) == ["tfn", "t", "tfn", "t", "tfn"]


def test_no_records_at_all() -> None:
    evidence = COLUMN_STATS.load(records_table([]), 2, NUMBER)
    assert not evidence.covered.any()
    assert outcomes(evidence, equals(4)) == ["tfn", "tfn"]


@pytest.mark.parametrize(
    "type_", [pa.string(), pa.decimal128(30, 2), pa.uint64(), pa.float64(), pa.timestamp("us")]
)
def test_no_records_of_any_kind(type_: pa.DataType) -> None:
    field = Field(("x",), type_)
    evidence = COLUMN_STATS.load(records_table([]), 3, field)
    assert outcomes(evidence, IsNullLeaf(field)) == ["tf"] * 3


def test_two_records_of_one_slice_are_both_not_believed() -> None:
    other = THREE._replace(min_integer=9, max_integer=9)
    evidence = COLUMN_STATS.load(records_table([THREE, other, THREE], slices=[0, 0, 1]), 2, NUMBER)
    assert evidence.covered.tolist() == [False, True]
    assert kept(evidence, equals(3)) == [0, 1]
    assert kept(evidence, equals(5)) == [0]


def test_slices_outside_the_range_are_ignored() -> None:
    evidence = COLUMN_STATS.load(records_table([THREE, THREE, THREE], slices=[-1, 0, 7]), 2, NUMBER)
    assert evidence.covered.tolist() == [True, False]


@pytest.mark.parametrize(
    "change",
    [
        {"null_count": 6},
        {"null_count": -1},
        {"null_count": 5},
        {"has_values": False},
        {"row_count": 0},
        {"row_count": -1},
        {"min_integer": 4},
        {"trusted": False},
        {"type": None},
        {"type": "some type of the future"},
        {"type": "string"},
        {"absent": True},
    ],
    ids=str,
)
def test_records_that_contradict_themselves_are_not_used(change: dict[str, object]) -> None:
    evidence = evidence_of([THREE._replace(**change), THREE], NUMBER)  # type: ignore[arg-type]
    assert evidence.covered.tolist() == [False, True]
    assert kept(evidence, equals(4)) == [0]


def test_a_field_about_which_files_disagree_is_not_covered() -> None:
    field = Field(("x",), pa.int64(), conflict="files hold both")
    assert not evidence_of([THREE], field).covered.any()


def test_a_collation_that_is_not_binary_says_nothing_about_order() -> None:
    field = Field(("x",), pa.string())
    record = ColumnRecord(True, 1, "string", null_count=0, has_values=True, min_bytes=b"a", max_bytes=b"a")
    evidence = evidence_of([record], field)
    nocase = Semantics(collation="nocase")
    for leaf in (
        CompareLeaf(field, Operator.EQ, Point(b"A", b"A")),
        InLeaf(field, (Point(b"A", b"A"),)),
        PrefixLeaf(field, b"A", whole=True),
    ):
        assert kept(evidence, leaf) == []
        assert kept(evidence, leaf, nocase) == [0]
    assert kept(evidence, IsNullLeaf(field), nocase) == []


def test_an_engine_that_rounds_timestamps_gets_answers_to_widened_points_alone() -> None:
    """Trap S18: a point that allows for the rounding may be answered by its span; an exact one may not."""
    field = Field(("x",), pa.timestamp("us"))
    evidence = evidence_of([THREE._replace(type="timestamp[us]")], field)
    rounding = Semantics(engine="trino", timestamp_unit="ms")
    exact, far, near = Point(1000, 1000), Point(5000, 7000, exact=False), Point(-500, 1500, exact=False)
    for leaf, dropped in (
        (CompareLeaf(field, Operator.EQ, exact), False),
        (CompareLeaf(field, Operator.EQ, far), True),
        (CompareLeaf(field, Operator.EQ, near), False),
        (CompareLeaf(field, Operator.NE, near), False),
        (InLeaf(field, (far, far)), True),
        (InLeaf(field, (far, exact)), False),
    ):
        assert kept(evidence, leaf, rounding) == ([] if dropped else [0]), leaf
    assert kept(evidence, equals(1000, field), Semantics(engine="trino", timestamp_unit="us")) == []


def test_a_literal_of_another_domain_gets_no_answer() -> None:
    evidence = evidence_of([THREE], NUMBER)
    for value in (4.0, b"4"):
        leaf = CompareLeaf(NUMBER, Operator.EQ, Point(value, value))
        assert evidence.possible(leaf, Outcome.TRUE, DUCKDB, None) is None


def test_columns_of_many_file_types_meet_in_the_tables() -> None:
    records = [
        THREE._replace(type="int8", min_integer=-1, max_integer=-1),
        THREE._replace(type="int64", min_integer=2**40, max_integer=2**40),
        THREE._replace(type="uint32", min_integer=2**32 - 1, max_integer=2**32 - 1),
    ]
    evidence = evidence_of(records, NUMBER)
    assert [kept(evidence, equals(v)) for v in (-1, 2**40, 2**32 - 1, 3)] == [[0], [1], [2], []]


def test_type_texts_are_read_back() -> None:
    for type_ in (
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        pa.timestamp("us", "UTC"),
        pa.decimal128(38, 10),
        pa.binary(16),
        pa.date32(),
        pa.float64(),
        pa.bool_(),
        pa.uint64(),
    ):
        assert parse_type(str(type_)) == type_
    assert parse_type("decimal128(99, 2)") is None
    assert parse_type("list<item: int64>") is None


def test_no_promotion_that_is_not_in_the_table() -> None:
    types = [
        pa.bool_(), pa.int8(), pa.int64(), pa.uint8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(10, 2),
        pa.decimal128(12, 4), pa.string(), pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"),
    ]  # fmt: skip
    allowed = {(str(a), str(b)) for a in types for b in types if conversion(str(a), b) is not None and a != b}
    assert allowed == {
        ("int8", "int64"), ("uint8", "int64"), ("uint8", "uint64"), ("int8", "double"), ("int64", "double"),
        ("uint8", "double"), ("uint64", "double"), ("decimal128(10, 2)", "decimal128(12, 4)"),
        # The same numbers; `reading` settles for each engine whether they mean the same.
        ("timestamp[us]", "timestamp[us, tz=UTC]"), ("timestamp[us, tz=UTC]", "timestamp[us]"),
    }  # fmt: skip


@given(values=st.lists(st.integers(-(10**38) + 1, 10**38 - 1), min_size=1))
def test_decimals_as_bytes_have_the_order_of_the_decimals(values: list[int]) -> None:
    written: Any = decimals_as_bytes(pa.array(values, pa.decimal128(38, 0))).to_pylist()
    assert sorted(range(len(values)), key=values.__getitem__) == sorted(
        range(len(values)), key=written.__getitem__
    )


@given(
    bounds=st.lists(st.binary(max_size=2), min_size=1),
    values=st.lists(st.binary(max_size=3), min_size=65, max_size=70),
)
def test_ranks_compare_as_values_do(bounds: list[bytes], values: list[bytes]) -> None:
    array = pa.array(bounds, pa.binary())
    lows, highs, distinct = rank(array, array)
    order = RankOrder(distinct, decimals=False)
    firsts, lasts = order.firsts(values), order.lasts(values)
    for value, first, last in zip(values, firsts, lasts, strict=True):
        assert (order.first(value), order.last(value)) == (first, last)
        assert (highs >= first).tolist() == [bound >= value for bound in bounds]
        assert (lows <= last).tolist() == [bound <= value for bound in bounds]


@given(value=st.binary(max_size=8), limit=st.integers(1, 4), other=st.binary(max_size=8))
def test_shortened_bounds_hold_the_value_and_are_the_tightest(value: bytes, limit: int, other: bytes) -> None:
    low, high = shortened_low(value, limit), shortened_high(value, limit)
    assert low <= value
    assert len(low) <= limit
    assert value.startswith(low)
    if high is None:
        assert value[:limit] == b"\xff" * limit
    else:
        assert value <= high
        assert len(high) <= limit
        assert not (value < other[:limit] < high)
    end = successor(value)
    assert other.startswith(value) == (value <= other and (end is None or other < end))


@pytest.mark.slow
def test_a_million_listed_values_against_many_slices() -> None:
    records = [THREE._replace(min_integer=v, max_integer=v) for v in range(0, 100, 7)]
    evidence = evidence_of(records, NUMBER)
    points = tuple(Point(v, v) for v in range(1, 200_001, 2))
    assert kept(evidence, InLeaf(NUMBER, points)) == [i for i, v in enumerate(range(0, 100, 7)) if v % 2]


def test_answers_for_some_slices_are_those_for_all() -> None:
    records = [THREE._replace(min_integer=v, max_integer=v + 1, null_count=v % 2) for v in range(6)]
    evidence = evidence_of(records, NUMBER)
    at = np.array([4, 0, 5])
    for leaf in (equals(4), InLeaf(NUMBER, (Point(1, 1),), has_null=True), IsNullLeaf(NUMBER)):
        whole = outcomes(evidence, leaf)
        assert outcomes(evidence, leaf, DUCKDB, at) == [whole[i] for i in at]
