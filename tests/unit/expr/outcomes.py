"""What a bound predicate says of one stored value: the outcomes that it leaves possible.

An implementation of the docstrings of `pruner.expr.bound.predicates`, value by value, to compare with engines'
answers.
"""

from __future__ import annotations

import math
from typing import Any

from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundExpr,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    InLeaf,
    IsNullLeaf,
    NotNullLeaf,
    Point,
    PrefixLeaf,
    RecurringLeaf,
    Unknown,
    ValueLeaf,
)
from pruner.expr.nodes import Constant, Operator

Outcomes = frozenset[bool | None]
ANYTHING: Outcomes = frozenset({True, False, None})
_HOLDS = {
    Operator.EQ: {0},
    Operator.NE: {-1, 1},
    Operator.LT: {-1},
    Operator.LE: {-1, 0},
    Operator.GT: {1},
    Operator.GE: {0, 1},
}


def outcomes(bound: BoundExpr, value: Any) -> Outcomes:
    """The possible outcomes of a predicate over one column for `value` (None for NULL)."""
    match bound:
        case Unknown():
            return ANYTHING
        case Constant(answer):
            return frozenset({answer})
        case BoundNot(operand):
            return frozenset(None if each is None else not each for each in outcomes(operand, value))
        case BoundIsNull(operand):
            return frozenset(each is None for each in outcomes(operand, value))
        case BoundAnd(operands) | BoundOr(operands):
            absorbing = isinstance(bound, BoundOr)
            result: Outcomes = frozenset({not absorbing})
            for operand in operands:
                right = outcomes(operand, value)
                result = frozenset(_kleene(a, b, absorbing) for a in result for b in right)
            return result
        case IsNullLeaf():
            return frozenset({value is None})
        case _:
            return _of_value(bound, value)


def _of_value(leaf: ValueLeaf | NotNullLeaf, value: Any) -> Outcomes:
    if value is None:
        return frozenset({None})
    match leaf:
        case CompareLeaf(_, operator, point):
            return frozenset(order in _HOLDS[operator] for order in orders(value, point))
        case InLeaf(_, points, has_null):
            return _in(points, has_null, value)
        case NotNullLeaf(_, answer):
            return frozenset({answer})
        case RecurringLeaf(_, period, points):
            # A point that ends beyond the period continues at 0.
            rest = [value % period, value % period + period]
            found = [point for point in points if any(point.low <= each <= point.high for each in rest)]
            certain = any(point.exact for point in found)
            return frozenset({True} if certain else {True, False} if found else {False})
        case PrefixLeaf(_, prefix, whole):
            starts = value.startswith(prefix)
            return frozenset({True, False}) if starts and not whole else frozenset({starts})


def _kleene(left: bool | None, right: bool | None, absorbing: bool) -> bool | None:
    if left is absorbing or right is absorbing:
        return absorbing
    return None if left is None or right is None else not absorbing


def _in(points: tuple[Point, ...], has_null: bool, value: Any) -> Outcomes:
    found = [orders(value, point) for point in points]
    miss = None if has_null else False
    if any(each == {0} for each in found):
        return frozenset({True})
    return frozenset({True, miss}) if any(0 in each for each in found) else frozenset({miss})


def orders(value: Any, point: Point) -> set[int]:
    """Whether a value is below (-1), equal to (0) or above (1) the literal, where NaN is greatest."""
    if point.nan:
        return {0} if isinstance(value, float) and math.isnan(value) else {-1}
    if isinstance(value, float) and math.isnan(value):
        return {1}
    low: Any = point.low
    high: Any = point.high
    if low is not None and value < low:
        return {-1}
    if high is not None and value > high:
        return {1}
    return {0} if point.exact else {-1, 0, 1}
