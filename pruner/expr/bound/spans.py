"""Many ranges of one field as one list: `k BETWEEN 1 AND 5 OR k BETWEEN 9 AND 12 OR …`.

A join hands over its keys so, as hundreds of ranges. Each of them would be asked for by itself, and a list is asked for
at once: a point of a list is an interval of values some of which count as equal. So the list is true wherever one of
the ranges is, and says nothing of where they are false or NULL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.predicates import BoundAnd, BoundOr, CompareLeaf, InLeaf, Point, Same
from pruner.expr.nodes import Operator

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.expr.bound.predicates import BoundExpr
    from pruner.schema import Field

FEWEST: Final = 8
"""Fewer ranges are asked for one by one, which also tells where all rows match."""


def with_spans(predicate: BoundExpr, longest: Callable[[Field], int]) -> BoundExpr:
    """A predicate with lists in the place of many ranges, to be asked where it can be true.

    Args:
        predicate: the predicate.
        longest: how many values of a range of a field are looked up one by one at most. If any are, ranges stay.
    """
    if type(predicate) is BoundAnd:
        return BoundAnd(tuple(with_spans(each, longest) for each in predicate.operands))
    if type(predicate) is not BoundOr or len(predicate.operands) < FEWEST:
        return predicate
    found: list[Point] = []
    about: Field | None = None
    for operand in predicate.operands:
        points = _points(operand)
        if points is None or (about is not None and points[0] != about):
            return predicate
        about = points[0]
        found += points[1]
    if about is None or not _is_never_rounded(about.type) or longest(about):
        return predicate
    return InLeaf(about, tuple(found))


def _points(operand: BoundExpr) -> tuple[Field, list[Point]] | None:
    """The intervals of which a value is in one where a range or list is true; None for anything else."""
    match operand:
        case InLeaf(field, points, False):
            return field, list(points)
        case BoundAnd((CompareLeaf(field, Operator.GE, low), CompareLeaf(other, Operator.LE, high))):
            if isinstance(operand, Same) or field != other or low.nan or high.nan:
                return None
            if low.low is None or high.high is None or low.low > high.high:  # pyright: ignore[reportOperatorIssue]
                return None
            return field, [Point(low.low, high.high, exact=False)]
        case _:
            return None


def _is_never_rounded(type_: pa.DataType) -> bool:
    """Tell whether no engine rounds values of a type: an interval would be taken for one that allows for it."""
    return pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_date(type_)
