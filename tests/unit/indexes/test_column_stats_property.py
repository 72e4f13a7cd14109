"""Random columns, written to files and indexed, against rows one by one and against a scalar oracle.

Sound: an outcome that some row has is never excluded. Sharp: an outcome that minimum, maximum and counts exclude is
excluded. The oracle looks for a value between the bounds with that outcome, among the few that can make a difference.
"""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.expr.bound.predicates import (
    CompareLeaf,
    InLeaf,
    IsNullLeaf,
    Leaf,
    NotNullLeaf,
    Point,
    PrefixLeaf,
    RecurringLeaf,
)
from pruner.expr.nodes import Operator
from pruner.expr.semantics import NanOrder, Semantics
from pruner.schema import Field
from tests.support.parquet.column_stats import DUCKDB, TRINO, evidence_of_files, outcomes, write_column
from tests.support.running.profiles import examples

Value = Any
TRUE, FALSE, NULL = "t", "f", "n"
BOUND_BYTES = 64


@dataclass(frozen=True)
class Domain:
    """A column type, its values in the storage domain, and their conversion to an Arrow array."""

    type: pa.DataType
    values: st.SearchStrategy[Value]

    def array(self, values: list[Value]) -> pa.Array:
        type_ = self.type
        if pa.types.is_decimal(type_):
            return pa.array([None if v is None else _decimal(v, type_.scale) for v in values], type_)
        if pa.types.is_date(type_):
            return pa.array(values, pa.int32()).view(type_)
        if pa.types.is_timestamp(type_):
            return pa.array(values, pa.int64()).view(type_)
        if pa.types.is_string(type_):
            return pa.array(values, pa.binary()).cast(type_)
        return pa.array(values, type_)


def _decimal(unscaled: int, scale: int) -> Decimal:
    return Decimal((int(unscaled < 0), tuple(int(digit) for digit in str(abs(unscaled))), -scale))


def _integers(low: int, high: int) -> st.SearchStrategy[int]:
    near = [value for value in (low, low + 1, -2, -1, 0, 1, 2, 3, high - 1, high) if low <= value <= high]
    return st.sampled_from(near) | st.integers(low, high) | st.integers(max(low, -5), min(high, 5))


def _floats(width: int) -> st.SearchStrategy[float]:
    special = st.sampled_from([math.nan, 0.0, -0.0, math.inf, -math.inf, 1.0, -1.0, 0.5])
    return special | st.floats(width=width)  # type: ignore[arg-type]


_TEXT = st.sampled_from(
    ["", "a", "ab", "abc", "b", "é", "\U0010ffff", "\ue000", "\U00010000", "z" * 70, "\U0010ffff" * 20]
)
_STRINGS = (_TEXT | st.text(max_size=4)).map(str.encode)
_BYTES = st.sampled_from(
    [b"", b"\x00", b"\xff", b"\xff" * 70, b"\xff" * 63 + b"\x01\x01", b"a" * 65]
) | st.binary(max_size=3)

DOMAINS = [
    Domain(pa.bool_(), st.booleans()),
    *(
        Domain(type_, _integers(-(2 ** (type_.bit_width - 1)), 2 ** (type_.bit_width - 1) - 1))
        for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())
    ),
    *(
        Domain(type_, _integers(0, 2**type_.bit_width - 1))
        for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())
    ),
    Domain(pa.float32(), _floats(32)),
    Domain(pa.float64(), _floats(64)),
    Domain(pa.decimal128(5, 2), _integers(-99999, 99999)),
    Domain(pa.decimal128(18, 0), _integers(-(10**18) + 1, 10**18 - 1)),
    Domain(pa.decimal128(38, 10), _integers(-(10**38) + 1, 10**38 - 1)),
    Domain(pa.string(), _STRINGS),
    Domain(pa.binary(), _BYTES),
    Domain(pa.date32(), _integers(-(2**31), 2**31 - 1)),
    *(
        Domain(type_, _integers(-(2**63) + 1, 2**63 - 1))
        for unit in ("ms", "us", "ns")
        for type_ in (pa.timestamp(unit), pa.timestamp(unit, "UTC"))
    ),
]


@st.composite
def points(draw: st.DrawFn, domain: Domain) -> Point:
    value = draw(domain.values)
    if isinstance(value, float) and math.isnan(value):
        return Point(None, None, nan=True)
    form = draw(st.sampled_from(["exact", "exact", "exact", "range", "inexact", "gap", "below", "above"]))
    other = draw(domain.values)
    if isinstance(other, float) and math.isnan(other):
        other = value
    low, high = min(value, other), max(value, other)
    match form:
        case "range":
            return Point(low, high)
        case "inexact":
            return Point(low, high, exact=False)
        case "gap" if isinstance(value, int) and not isinstance(value, bool):
            return Point(value + 1, value)
        case "below":
            return Point(None, value, exact=draw(st.booleans()))
        case "above":
            return Point(value, None, exact=draw(st.booleans()))
        case _:
            # Literals may exceed the type of the column.
            wider = isinstance(value, int) and not isinstance(value, bool) and draw(st.booleans())
            moved = value + draw(st.sampled_from([-1, 1, 2**64, -(2**64)])) if wider else value
            return Point(moved, moved)


def _recurs(type_: pa.DataType) -> bool:
    """Whether remainders apply to a type: to integers, and moments of at most microseconds."""
    moments = (pa.date32(), pa.timestamp("ms"), pa.timestamp("us"))
    return pa.types.is_signed_integer(type_) or type_ in moments


@st.composite
def recurring(draw: st.DrawFn, field: Field) -> RecurringLeaf:
    period = draw(st.sampled_from([1, 2, 7, 8, 1000, 86_400_000_000, 2**62]))
    found: list[Point] = []
    for _ in range(draw(st.integers(1, 3))):
        low = draw(st.integers(0, period - 1))
        length = draw(st.integers(0, min(period - 1, 5)) | st.integers(0, period - 1))
        found.append(Point(low, low + length, exact=draw(st.booleans())))
    return RecurringLeaf(field, period, tuple(found))


@st.composite
def leaves(draw: st.DrawFn, domain: Domain, field: Field) -> Leaf:
    form = draw(
        st.sampled_from(["compare"] * 5 + ["in", "in", "null", "not null", "prefix", "prefix", "recurring"])
    )
    if form == "in":
        listed = tuple(draw(st.lists(points(domain), max_size=5)))
        return InLeaf(field, listed, has_null=not listed or draw(st.booleans()))
    if form == "null":
        return IsNullLeaf(field)
    if form == "not null":
        return NotNullLeaf(field, draw(st.booleans()))
    if form == "prefix" and pa.types.is_string(domain.type):
        prefix = draw(domain.values.filter(len))[: draw(st.integers(1, 66))]
        return PrefixLeaf(field, prefix, draw(st.booleans()))
    if form == "recurring" and _recurs(domain.type):
        return draw(recurring(field))
    return CompareLeaf(field, draw(st.sampled_from(list(Operator))), draw(points(domain)))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Domain, list[list[Value]], list[Leaf]]:
    domain = draw(st.sampled_from(DOMAINS))
    values = domain.values if draw(st.booleans()) else st.none() | domain.values
    files = draw(
        st.lists(st.lists(values, max_size=4) | st.lists(st.none(), max_size=2), min_size=1, max_size=4)
    )
    field = Field(("x",), domain.type)
    return domain, files, draw(st.lists(leaves(domain, field), min_size=1, max_size=6))


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and math.isnan(value)


def relations(value: Value, point: Point, order: NanOrder) -> set[str]:
    """How a value can compare with a point: "<", "=", ">", or "?" where NaN compares false with everything."""
    if _is_nan(value) or point.nan:
        if order is NanOrder.UNORDERED:
            return {"?"}
        return {"=" if _is_nan(value) and point.nan else ">" if _is_nan(value) else "<"}
    if point.low is not None and value < point.low:
        return {"<"}
    if point.high is not None and value > point.high:
        return {">"}
    return {"="} if point.exact else {"<", "=", ">"}


HOLDS = {
    Operator.EQ: "=",
    Operator.NE: "<>?",
    Operator.LT: "<",
    Operator.LE: "<=",
    Operator.GT: ">",
    Operator.GE: ">=",
}


def row_outcomes(value: Value, leaf: Leaf, order: NanOrder) -> set[str]:
    """The possible outcomes of a leaf on one row: one, or several if a point is not exact."""
    if isinstance(leaf, IsNullLeaf):
        return {TRUE if value is None else FALSE}
    if value is None:
        return {NULL}
    match leaf:
        case NotNullLeaf(value=constant):
            return {TRUE if constant else FALSE}
        case CompareLeaf(operator=operator, point=point):
            return {TRUE if r in HOLDS[operator] else FALSE for r in relations(value, point, order)}
        case PrefixLeaf(prefix=prefix, whole=whole):
            return {FALSE} if not value.startswith(prefix) else {TRUE} if whole else {TRUE, FALSE}
        case RecurringLeaf(period=period, points=listed):
            rests = (value % period, value % period + period)
            met = [point for point in listed if any(point.low <= rest <= point.high for rest in rests)]
            return {TRUE} if any(point.exact for point in met) else {TRUE, FALSE} if met else {FALSE}
        case InLeaf(points=listed, has_null=has_null):
            found = [relations(value, point, order) for point in listed]
            can_match = any("=" in r for r in found)
            must_match = any(r == {"="} for r in found)
            return ({TRUE} if can_match else set()) | (set() if must_match else {NULL if has_null else FALSE})


def _bounds(numbers: list[Value]) -> tuple[Value, Value]:
    """Minimum and maximum, cut to 64 bytes the slow way; a maximum of None is unknown."""
    low, high = min(numbers), max(numbers)
    if isinstance(low, bytes):
        low = low[:BOUND_BYTES]
        if len(high) > BOUND_BYTES:
            whole = int.from_bytes(high[:BOUND_BYTES], "big") + 1
            high = whole.to_bytes(BOUND_BYTES, "big").rstrip(b"\x00") if whole < 256**BOUND_BYTES else None
    return low, high


def _interesting(leaf: Leaf, low: Value) -> list[Value]:
    """Values at which the answer to a leaf can change; for those that recur, the first from `low` on."""
    match leaf:
        case RecurringLeaf(period=period, points=listed):
            spans: list[Value] = [(point.low, point.high) for point in listed]
            starts = [start for first, last in spans for start in (first, last + 1)]
            ends = [low + (start - low) % period for start in starts]
        case CompareLeaf(point=point):
            ends = [point.low, point.high]
        case InLeaf(points=listed):
            ends = [end for point in listed for end in (point.low, point.high)]
        case PrefixLeaf(prefix=prefix):
            ends = [prefix, prefix + b"\x00", prefix + b"\xff" * 70]
        case _:
            ends = []
    return [end for end in ends if end is not None]


def provable(values: list[Value], leaf: Leaf, order: NanOrder) -> set[str]:
    """The outcomes that minimum, maximum and counts leave possible."""
    found: set[str] = set()
    if None in values:
        found |= row_outcomes(None, leaf, order)
    if any(_is_nan(value) for value in values):
        found |= row_outcomes(math.nan, leaf, order)
    numbers = [value for value in values if value is not None and not _is_nan(value)]
    if not numbers:
        return found
    low, high = _bounds(numbers)
    inside = [low, *([] if high is None else [high])]
    inside += [v for v in _interesting(leaf, low) if low <= v and (high is None or v <= high)]
    for value in inside:
        found |= row_outcomes(value, leaf, order)
    others = NULL if isinstance(leaf, InLeaf) and leaf.has_null else FALSE
    match leaf:
        # Between different bounds there is always room for a value beside a list and beside a prefix.
        case InLeaf(points=listed) if not any(
            p.exact
            and not p.nan
            and row_outcomes(low, CompareLeaf(leaf.field, Operator.EQ, p), order) == {TRUE}
            and high is not None
            and row_outcomes(high, CompareLeaf(leaf.field, Operator.EQ, p), order) == {TRUE}
            for p in listed
        ):
            found.add(others)
        case CompareLeaf(operator=operator) if high is None and operator in HOLDS:
            found |= row_outcomes(b"\xff" * 200, leaf, order)
        case PrefixLeaf() if high is None:
            found |= row_outcomes(b"\xff" * 200, leaf, order)
        case _:
            pass
    return found


def _other_values_in_trino(type_: pa.DataType, values: list[Value], semantics: Semantics) -> bool:
    """Tell whether Trino, which counts microseconds in 64 bits, shows some values as others; nothing is proved then.

    It reads unsigned columns as the type that the table declares, which no index knows.
    """
    if semantics.engine == "trino" and pa.types.is_unsigned_integer(type_):
        return True
    if semantics.engine != "trino" or not pa.types.is_timestamp(type_) or type_.unit not in ("s", "ms"):
        return False
    micros = {"s": 10**6, "ms": 1000}[type_.unit]
    return any(isinstance(value, int) and not -(2**63) <= value * micros < 2**63 for value in values)


def _check(
    domain: Domain, files: list[list[Value]], asked: list[Leaf], semantics: Semantics, folder: Path
) -> None:
    field = Field(("x",), domain.type)
    paths = [
        write_column(folder / f"{number}.parquet", domain.array(values), row_group_size=2)
        for number, values in enumerate(files)
    ]
    evidence = evidence_of_files(paths, field)
    assert evidence.covered.all()
    for leaf in asked:
        answers = [set(letters) - {"-"} for letters in outcomes(evidence, leaf, semantics)]
        for values, answer in zip(files, answers, strict=True):
            had = {o for value in values for o in row_outcomes(value, leaf, semantics.nan_order)}
            assert had <= answer, f"LOST {had - answer} of {leaf} on {values}"
            if not _other_values_in_trino(domain.type, values, semantics):
                assert answer == provable(values, leaf, semantics.nan_order), f"{leaf} on {values}: {answer}"
        some = np.arange(len(files))[::-2]
        assert outcomes(evidence, leaf, semantics, some) == [
            outcomes(evidence, leaf, semantics)[i] for i in some
        ]


@settings(max_examples=examples(400))
@given(case=cases(), semantics=st.sampled_from([DUCKDB, TRINO]))
def test_no_outcome_of_a_row_is_excluded_and_power_is_exact(
    case: tuple[Domain, list[list[Value]], list[Leaf]], semantics: Semantics
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        _check(*case, semantics, Path(folder))
