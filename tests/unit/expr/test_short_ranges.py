"""Short ranges as lists: the list means the same as the range, value by value."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.expr.bound.fields import leaves
from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundExpr,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    InLeaf,
    IsNullLeaf,
    Point,
    Same,
    Unknown,
)
from pruner.expr.bound.value_lists import ValuesOfRange, conditions, listed, with_lists
from pruner.expr.nodes import Operator
from pruner.schema import Field
from tests.support.running.profiles import examples
from tests.unit.expr.outcomes import outcomes

LONGEST = 6
TYPES: dict[str, pa.DataType] = {
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "decimal": pa.decimal128(5, 2),
    "timestamp": pa.timestamp("us"),
    "time": pa.time64("us"),
}
K = Field(("k",), pa.int64())
DATE_OF_K = Field(("date of k",), pa.date32(), expression="date(k)")


def values_of(type_: pa.DataType) -> list[Any]:
    """Values around those in the conditions, and the ends of small types."""
    if pa.types.is_boolean(type_):
        return [None, False, True]
    if pa.types.is_unsigned_integer(type_):
        return [None, *range(40), 2**type_.bit_width - 1]
    if type_ == pa.int8():
        return [None, *range(-128, 128)]
    return [None, *range(-20, 40)]


def exactly(value: Any) -> Point:
    return Point(value, value)


def between(field: Field, low: int, high: int) -> tuple[CompareLeaf, CompareLeaf]:
    return CompareLeaf(field, Operator.GE, exactly(low)), CompareLeaf(field, Operator.LE, exactly(high))


@st.composite
def points(draw: st.DrawFn, type_: pa.DataType, *, exact: bool) -> Point:
    """A literal: exact, between two values, or inexact, so that it is unknown what it equals."""
    if pa.types.is_boolean(type_):
        return exactly(draw(st.booleans()))
    least = {pa.int8(): -127, pa.uint8(): 0, pa.uint32(): 0, pa.uint64(): 0}.get(type_, -9)
    low = draw(st.integers(least, least + 20))
    if exact:
        return draw(st.sampled_from([exactly(low), exactly(low), Point(low + 1, low)]))
    high = low + draw(st.integers(0, 3))
    return draw(st.sampled_from([Point(low, high, exact=False), Point(low, None, exact=False)]))


@st.composite
def predicates(draw: st.DrawFn, field: Field, depth: int, *, exact: bool) -> BoundExpr:
    kind = draw(st.sampled_from(["leaf"] * 3 + (["and"] * 3 + ["or", "not", "null"] if depth else ["leaf"])))
    if kind == "leaf":
        operator = draw(st.sampled_from([*Operator, *Operator]))
        point = draw(points(field.type, exact=exact or draw(st.booleans())))
        return CompareLeaf(field, operator, point)
    if kind in ("not", "null"):
        inner = draw(predicates(field, depth - 1, exact=exact))
        return BoundNot(inner) if kind == "not" else BoundIsNull(inner)
    parts = draw(st.lists(predicates(field, depth - 1, exact=exact), min_size=2, max_size=4))
    return BoundAnd(tuple(parts)) if kind == "and" else BoundOr(tuple(parts))


def lists_in(predicate: BoundExpr) -> list[InLeaf]:
    return [leaf for leaf in leaves(predicate) if isinstance(leaf, InLeaf)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", list(TYPES))
@given(data=st.data(), exact=st.booleans())
@settings(max_examples=examples(60), deadline=None)
def test_lists_change_no_outcome(name: str, data: st.DataObject, exact: bool) -> None:
    """No outcome changes if all literals are exact; otherwise, whether the predicate can be true does not."""
    field = Field(("k",), TYPES[name])
    predicate = data.draw(predicates(field, 3, exact=exact))
    extended = with_lists(predicate, lambda _: LONGEST)
    for value in values_of(field.type):
        before, after = outcomes(predicate, value), outcomes(extended, value)
        assert (True in before) == (True in after), (value, extended)
        if exact:
            assert before == after, (value, extended)
        assert all(True in outcomes(each, value) for each in conditions(extended)) == (True in before)


@pytest.mark.parametrize("name", list(TYPES))
@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_the_list_holds_what_the_range_does(name: str, data: st.DataObject) -> None:
    """Every range with two ends is listed, with exactly the values for which all conditions are true."""
    field = Field(("k",), TYPES[name])
    operators = st.sampled_from([Operator.GE, Operator.GT, Operator.LE, Operator.LT])
    ends = data.draw(st.lists(st.tuples(operators, points(field.type, exact=True)), min_size=1, max_size=4))
    parts = [CompareLeaf(field, operator, point) for operator, point in ends]
    present = [each for each in values_of(field.type) if each is not None]
    inside = [each for each in present if all(outcomes(part, each) == {True} for part in parts)]
    found = listed(parts, lambda _: LONGEST)
    below = pa.types.is_boolean(field.type) or pa.types.is_integer(field.type)
    begins = below or any(part.operator in (Operator.GE, Operator.GT) for part in parts)
    ends_ = below or any(part.operator in (Operator.LE, Operator.LT) for part in parts)
    if begins and ends_ and 0 < len(inside) <= LONGEST and inside[-1] < 40:
        assert [point.low for point in found[0].points] == inside
        assert all(point.low == point.high and point.exact for point in found[0].points)
    else:
        assert not found


def test_the_list_stands_beside_its_range_and_where_it_can_be_true() -> None:
    low, high = between(K, 500, 502)
    values = ValuesOfRange(K, tuple(map(exactly, (500, 501, 502))))
    other = IsNullLeaf(Field(("j",), pa.int64()))

    def longest(field: Field) -> int:
        return LONGEST if field == K else 0

    assert conditions(with_lists(BoundAnd((low, high)), longest)) == [low, high, values]
    assert conditions(with_lists(BoundAnd((low, other, high)), longest)) == [other, low, high, values]
    outside = BoundOr((CompareLeaf(K, Operator.LT, low.point), CompareLeaf(K, Operator.GT, high.point)))
    assert lists_in(with_lists(BoundNot(outside), longest)) == [values]
    # A condition that a value is outside the range gets no list.
    assert with_lists(outside, longest) == outside
    assert with_lists(BoundNot(BoundAnd((low, high))), longest) == BoundNot(BoundAnd((low, high)))
    assert with_lists(BoundIsNull(BoundAnd((low, high))), longest) == BoundIsNull(BoundAnd((low, high)))


def test_a_list_is_made_of_every_form_of_a_range() -> None:
    """A range of a column implies a range of a function of that column that has an index."""
    days = [Point(19_000, 19_000, exact=False), Point(19_001, 19_001, exact=False)]
    first, last = between(K, 10**9, 10**9 + 10**6)
    ends = (
        Same((first, CompareLeaf(DATE_OF_K, Operator.GE, days[0]))),
        Same((last, CompareLeaf(DATE_OF_K, Operator.LE, days[1]))),
    )
    (found,) = lists_in(with_lists(BoundAnd(ends), lambda _: LONGEST))
    assert found == ValuesOfRange(DATE_OF_K, tuple(days))


@pytest.mark.parametrize(
    "parts",
    [
        between(K, 1, 1 + LONGEST),
        between(K, 5, 4),
        (CompareLeaf(K, Operator.GE, exactly(1)), Unknown("k < 3", "for the test")),
        (CompareLeaf(K, Operator.GE, exactly(1)), CompareLeaf(K, Operator.NE, exactly(3))),
        (CompareLeaf(K, Operator.GE, Point(1, 2, exact=False)), CompareLeaf(K, Operator.LE, exactly(3))),
        (CompareLeaf(K, Operator.GE, Point(None, None, nan=True)), CompareLeaf(K, Operator.LE, exactly(3))),
        between(Field(("k",), pa.float64()), 1, 2),
        between(Field(("k",), pa.string()), 1, 2),
    ],
)
def test_what_is_not_listed(parts: tuple[BoundExpr, ...]) -> None:
    """Long, empty and open ranges, pairs of an exact and an inexact literal, and types with dense values."""
    assert not listed(parts, lambda _: LONGEST)
    assert conditions(with_lists(BoundAnd(parts), lambda _: LONGEST)) == list(parts)
