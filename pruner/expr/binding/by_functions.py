"""Conditions on a column, as conditions on functions of the column that are indexed.

An index over `date(ts)` answers `ts BETWEEN a AND b`, too. What the condition implies for a nondecreasing function is
added as another form of it (`Same`), so nothing is lost under NOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pruner.expr.bound.combine import compare_leaf, in_leaf, same
from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    Guarded,
    InLeaf,
    IsNullLeaf,
    NotNullLeaf,
    Point,
    PrefixLeaf,
    RecurringLeaf,
    Same,
    Unknown,
)
from pruner.expr.functions.inverse import NotInvertible
from pruner.expr.nodes import Constant, Operator

if TYPE_CHECKING:
    from pruner.expr.bound.predicates import BoundExpr, Leaf
    from pruner.expr.derived.indexed import ExpressionIndexes
    from pruner.expr.functions.rising import Rising
    from pruner.expr.semantics import Semantics

_MOST_OPTIONS: Final = 1_000
"""Longest list of values that is passed through a function."""

_NOTHING: Final[frozenset[str | None]] = frozenset()


def with_functions(bound: BoundExpr, indexed: ExpressionIndexes, semantics: Semantics) -> BoundExpr:
    """A bound predicate, extended by forms for indexes over functions of its columns.

    Args:
        bound: the predicate.
        indexed: the expressions that some index is over.
        semantics: whose rules hold.
    """
    return _Extended(indexed, semantics).whole(bound, _NOTHING)


class _Extended:
    def __init__(self, indexed: ExpressionIndexes, semantics: Semantics) -> None:
        self._indexed = indexed
        self._semantics = semantics

    def whole(self, bound: BoundExpr, asked: frozenset[str | None]) -> BoundExpr:
        """Extend a predicate that already has forms for the expressions `asked`."""
        match bound:
            case Unknown() | Constant():
                return bound
            case Same(operands):
                here = asked | {
                    operand.field.expression
                    for operand in operands
                    if isinstance(operand, CompareLeaf | InLeaf)
                }
                return same([self.whole(operand, here) for operand in operands])
            case Guarded(operands, text):
                return Guarded(tuple(self.whole(operand, asked) for operand in operands), text)
            case BoundAnd(operands):
                return BoundAnd(tuple(self.whole(operand, asked) for operand in operands))
            case BoundOr(operands):
                return BoundOr(tuple(self.whole(operand, asked) for operand in operands))
            case BoundNot(operand):
                return BoundNot(self.whole(operand, asked))
            case BoundIsNull(operand):
                return BoundIsNull(self.whole(operand, asked))
            case _:
                return self._leaf(bound, asked)

    def _leaf(self, leaf: Leaf, asked: frozenset[str | None]) -> BoundExpr:
        rising = self._indexed.rising_over(leaf.field, self._semantics)
        forms = [self._of(each, leaf) for each in rising if each.field.expression not in asked]
        return same([leaf, *(form for form in forms if form is not None)]) if forms else leaf

    def _of(self, rising: Rising, leaf: Leaf) -> Leaf | None:
        """What a condition on the column implies for the function; None for nothing."""
        try:
            return self._leaf_of(rising, leaf)
        except NotInvertible:
            return None

    def _leaf_of(self, rising: Rising, leaf: Leaf) -> Leaf | None:
        match leaf:
            case CompareLeaf(_, operator, point):
                return compare_leaf(rising.field, operator, rising.point(operator, point), self._semantics)
            case InLeaf(_, points, has_null):
                if len(points) > _MOST_OPTIONS:
                    return None
                widened = [rising.point(Operator.EQ, point) for point in points]
                return in_leaf(rising.field, widened, has_null)
            case IsNullLeaf():
                return IsNullLeaf(rising.field)
            case NotNullLeaf(_, value):
                return NotNullLeaf(rising.field, value)
            case PrefixLeaf(_, prefix, whole):
                widened, is_same = rising.prefix(prefix)
                if is_same:
                    return PrefixLeaf(rising.field, prefix, whole)
                return CompareLeaf(rising.field, Operator.EQ, Point(widened, widened, exact=False))
            case RecurringLeaf():
                return None  # a remainder says nothing about the order
