"""What NaN makes of comparisons: `x >= 1 AND x <= 5` is not true of NaN, though `x >= 1` is where NaN is the greatest.

Statistics say little of NaN, so that a comparison by itself keeps every file that may hold one. Of a comparison beside
another one of the same field, which decides what NaN makes of the two, that is known: it comes to the same on NaN.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import BoundAnd, BoundIsNull, BoundNot, BoundOr, CompareLeaf, InLeaf, Same
from pruner.expr.nodes import Operator
from pruner.expr.semantics import NanOrder

if TYPE_CHECKING:
    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field


def nan_makes_true(leaf: CompareLeaf | InLeaf, semantics: Semantics) -> bool:
    """Tell whether a comparison or list is true of NaN (trap S2)."""
    is_greatest = semantics.nan_order is NanOrder.GREATEST
    if isinstance(leaf, InLeaf):
        return is_greatest and any(point.nan for point in leaf.points)
    if leaf.nan is not None:
        return leaf.nan
    if not is_greatest:
        return leaf.operator is Operator.NE
    equal_or_more = (Operator.EQ, Operator.LE, Operator.GE)
    return leaf.operator in (equal_or_more if leaf.point.nan else (Operator.GT, Operator.GE, Operator.NE))


def with_nans_decided(predicate: BoundExpr, semantics: Semantics) -> BoundExpr:
    """The same predicate, of whose comparisons it is said what NaN makes of them where another one decides it.

    It comes to the same on every row and for every outcome, so that it may stand below a NOT as well.
    """
    match predicate:
        case BoundNot(operand):
            return BoundNot(with_nans_decided(operand, semantics))
        case BoundIsNull(operand):
            return BoundIsNull(with_nans_decided(operand, semantics))
        case BoundAnd(operands) | BoundOr(operands):
            inner = tuple(with_nans_decided(each, semantics) for each in operands)
            return replace(predicate, operands=_decided(predicate, inner, semantics))
        case _:
            return predicate


def _decided(
    of: BoundAnd | BoundOr, operands: tuple[BoundExpr, ...], semantics: Semantics
) -> tuple[BoundExpr, ...]:
    """Operands that are joined: one that is false of NaN decides an AND, one that is true of it an OR."""
    if isinstance(of, Same):
        return operands
    deciding = isinstance(of, BoundOr)
    fields: set[Field] = {
        each.field
        for each in operands
        if isinstance(each, CompareLeaf | InLeaf)
        and pa.types.is_floating(each.field.type)
        and not (isinstance(each, InLeaf) and each.has_null)  # which may be NULL of NaN
        and nan_makes_true(each, semantics) is deciding
    }
    return tuple(
        replace(each, nan=deciding)
        if isinstance(each, CompareLeaf)
        and each.field in fields
        and nan_makes_true(each, semantics) is not deciding
        else each
        for each in operands
    )
