"""Leaves of a comparison or list, simplified where the column's type decides them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import CompareLeaf, InLeaf, Leaf, NotNullLeaf, Point, RecurringLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import NanOrder, Semantics
from pruner.expr.types import integer_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.schema import Field


def compare_leaf(field: Field, operator: Operator, point: Point, semantics: Semantics) -> Leaf:
    """The leaf of `field operator point`."""
    if point.nan and semantics.nan_order is NanOrder.UNORDERED:
        return NotNullLeaf(field, operator is Operator.NE)
    order = _order_of_all(field.type, point)
    if order is not None:
        return NotNullLeaf(field, _holds(operator, order))
    if operator in (Operator.EQ, Operator.NE) and _never_equal(field, point):
        return NotNullLeaf(field, operator is Operator.NE)
    return CompareLeaf(field, operator, point)


def in_leaf(field: Field, points: Iterable[Point], has_null: bool) -> Leaf:
    """The leaf of `field IN (points…)`; points that no value equals are left out."""
    possible = tuple(dict.fromkeys(_sometimes_equal(field, points)))
    if not possible and not has_null:
        return NotNullLeaf(field, False)
    return InLeaf(field, possible, has_null)


def recurring_leaf(field: Field, period: int, points: Iterable[Point]) -> Leaf:
    """The leaf of `field % period` in one of the points, by floor."""
    possible = tuple(dict.fromkeys(points))
    return RecurringLeaf(field, period, possible) if possible else NotNullLeaf(field, False)


def _order_of_all(data_type: pa.DataType, point: Point) -> int | None:
    """-1 when every value of an integer type is below the point, 1 when every value is above, else None."""
    if not pa.types.is_integer(data_type):
        return None
    smallest, largest = integer_range(data_type)
    if isinstance(point.low, int) and point.low > largest:
        return -1
    if isinstance(point.high, int) and point.high < smallest:
        return 1
    return None


def _holds(operator: Operator, order: int) -> bool:
    """Tell whether `value operator literal` holds for values below (-1) or above (1) the literal."""
    match operator:
        case Operator.EQ:
            return False
        case Operator.NE:
            return True
        case Operator.LT | Operator.LE:
            return order < 0
        case Operator.GT | Operator.GE:
            return order > 0


def _sometimes_equal(field: Field, points: Iterable[Point]) -> list[Point]:
    """The points that some value of the column may equal."""
    if not pa.types.is_integer(field.type):
        return [point for point in points if not _never_equal(field, point)]
    # Lists are long, and nearly all points of them are integers that the type can hold.
    smallest, largest = integer_range(field.type)
    return [
        point
        for point in points
        if (type(point.low) is int and point.low == point.high and smallest <= point.low <= largest)
        or not _never_equal(field, point)
    ]


def _never_equal(field: Field, point: Point) -> bool:
    """No value of the column equals the point."""
    if point.nan:
        return False
    if _order_of_all(field.type, point) is not None:
        return True
    low, high = point.low, point.high
    if low is None or high is None:
        return False
    if isinstance(low, bytes) or isinstance(high, bytes):
        return isinstance(low, bytes) and isinstance(high, bytes) and low > high
    return low > high
