"""Points of a list that no value of the column equals are dropped, and no others."""

from __future__ import annotations

from itertools import product

import pyarrow as pa
import pytest

from pruner.expr.bound.combine import in_leaf
from pruner.expr.bound.predicates import InLeaf, NotNullLeaf, Point
from pruner.schema import Field

ENDS = [None, -(2**31) - 1, -(2**31), -1, 0, 5, 2**31 - 1, 2**31, 10**30]


def possible(point: Point, smallest: int, largest: int) -> bool:
    """By the definition of a point: some integer of the type is between its ends."""
    low = smallest if point.low is None else max(smallest, int(point.low))
    high = largest if point.high is None else min(largest, int(point.high))
    return low <= high


def test_points_of_integers_are_left_out_where_no_value_equals_them() -> None:
    field = Field(("x",), pa.int32())
    points = [Point(low, high, exact) for low, high in product(ENDS, ENDS) for exact in (True, False)]
    expected = tuple(point for point in points if possible(point, -(2**31), 2**31 - 1))
    found = in_leaf(field, points, False)
    assert isinstance(found, InLeaf)
    assert found.points == expected
    assert in_leaf(field, [point for point in points if point not in expected], False) == NotNullLeaf(
        field, False
    )


@pytest.mark.parametrize("type_", [pa.int64(), pa.float64()])
def test_nan_and_what_is_listed_twice(type_: pa.DataType) -> None:
    field, nan = Field(("x",), type_), Point(0, 0, nan=True)
    found = in_leaf(field, [Point(1, 1), nan, Point(1, 1)], True)
    assert isinstance(found, InLeaf)
    assert found.points == (Point(1, 1), nan)
