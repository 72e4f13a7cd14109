"""Constructors of bound predicates: AND, OR and NOT kept flat, and leaves.

Leaves of a comparison or list are simplified where the column's type decides them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundExpr,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    Guarded,
    InLeaf,
    IsNullLeaf,
    Leaf,
    NotNullLeaf,
    Point,
    PrefixLeaf,
    RecurringLeaf,
    Same,
    Unknown,
    UnknownKind,
)
from pruner.expr.nodes import FALSE, TRUE, And, Constant, Expr, Operator, Or
from pruner.expr.semantics import NanOrder, Semantics
from pruner.expr.types import integer_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.schema import Field


def flat(node: Expr, kind: type[And] | type[Or]) -> list[Expr]:
    """The operands of nested ANDs (or ORs) in order, at any depth of nesting."""
    operands: list[Expr] = []
    pending: list[Expr] = [node]
    while pending:
        part = pending.pop()
        if isinstance(part, And | Or) and isinstance(part, kind):
            pending.extend(reversed(part.operands))
        else:
            operands.append(part)
    return operands


def all_of(operands: list[BoundExpr]) -> BoundExpr:
    """AND of bound predicates; constants are removed by Kleene's logic."""
    left = [operand for operand in operands if operand != TRUE]
    if FALSE in left:
        return FALSE
    match left:
        case []:
            return TRUE
        case [single]:
            return single
        case _:
            return BoundAnd(tuple(_spliced(left, BoundAnd)))


def any_of(operands: list[BoundExpr]) -> BoundExpr:
    """OR of bound predicates; constants are removed by Kleene's logic."""
    left = [operand for operand in operands if operand != FALSE]
    if TRUE in left:
        return TRUE
    match left:
        case []:
            return FALSE
        case [single]:
            return single
        case _:
            return BoundOr(tuple(_spliced(left, BoundOr)))


def _spliced(operands: list[BoundExpr], kind: type[BoundAnd] | type[BoundOr]) -> list[BoundExpr]:
    """Splice in the operands of operands that are of the same kind themselves, as in `NOT NOT (a AND b)`."""
    flat: list[BoundExpr] = []
    for operand in operands:
        if type(operand) is kind:
            assert isinstance(operand, BoundAnd | BoundOr)
            flat.extend(operand.operands)
        else:
            flat.append(operand)
    return flat


def same(forms: list[BoundExpr]) -> BoundExpr:
    """One predicate from several forms of it; unknown forms add nothing."""
    known: list[BoundExpr] = []
    for form in forms:
        if isinstance(form, Constant):
            return form
        if not isinstance(form, Unknown) and form not in known:
            known.append(form)
    return Same(tuple(known)) if len(known) > 1 else known[0] if known else forms[0]


def guarded(inner: BoundExpr, domain: BoundExpr, text: str) -> BoundExpr:
    """`inner` for rows where `domain` is true; unknown for other rows.

    Args:
        inner: null where `domain` is null.
        domain: true for the values for which `inner` was proved.
        text: the predicate as it was written.
    """
    if domain == TRUE:
        return inner
    reason = "values outside those for which the function's rule was proved"
    elsewhere = Unknown(text, reason, UnknownKind.OUTSIDE)
    return Guarded((all_of([domain, inner]), all_of([negation(domain), elsewhere])), text)


def negation(operand: BoundExpr) -> BoundExpr:
    """NOT of a bound predicate; null stays null."""
    match operand:
        case Constant(value):
            return Constant(None if value is None else not value)
        case BoundNot(inner):
            return inner
        case _:
            return BoundNot(operand)


def null_test(operand: BoundExpr) -> BoundExpr:
    """`(operand) IS NULL` of a bound predicate; a test for NULLs of the column where that is equivalent."""
    match operand:
        case Constant(value):
            return Constant(value is None)
        case BoundNot(inner):
            return null_test(inner)
        case IsNullLeaf() | BoundIsNull():
            return FALSE
        case CompareLeaf(field) | NotNullLeaf(field) | PrefixLeaf(field) | RecurringLeaf(field):
            return IsNullLeaf(field)
        case InLeaf(field, _, False):
            return IsNullLeaf(field)
        case _:
            return BoundIsNull(operand)


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
    """The leaf of `field IN (points…)`; points that no value can equal are left out."""
    possible = tuple(dict.fromkeys(_sometimes_equal(field, points)))
    if not possible and not has_null:
        return NotNullLeaf(field, False)
    return InLeaf(field, possible, has_null)


def recurring_leaf(field: Field, period: int, points: Iterable[Point]) -> Leaf:
    """The leaf of `field % period`, by floor, in one of the points."""
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
    # Lists are long, and nearly all their points are integers that the type can hold.
    smallest, largest = integer_range(field.type)
    return [
        point
        for point in points
        if (type(point.low) is int and point.low == point.high and smallest <= point.low <= largest)
        or not _never_equal(field, point)
    ]


def _never_equal(field: Field, point: Point) -> bool:
    """Tell whether no value of the column equals the point."""
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
