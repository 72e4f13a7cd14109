"""Which columns the parts of a bound predicate are about, and what its comparisons yield for NaN.

`x >= 1 AND x <= 5` is not true for NaN, though `x >= 1` is where NaN is the greatest.

Statistics say little about NaN, so a comparison by itself keeps every file that may contain NaN. Where another
comparison of the same field decides the result of the two for NaN, either comparison may take that result.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    InLeaf,
    Same,
    Unknown,
)
from pruner.expr.nodes import Constant, Operator
from pruner.expr.semantics import NanOrder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.expr.bound.predicates import BoundExpr, Leaf
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field

Path = tuple[str, ...]


def leaves(predicate: BoundExpr) -> Iterator[Leaf]:
    """All leaves of a predicate, in order."""
    match predicate:
        case BoundAnd(operands) | BoundOr(operands):
            for operand in operands:
                yield from leaves(operand)
        case BoundNot(operand) | BoundIsNull(operand):
            yield from leaves(operand)
        case Unknown() | Constant():
            pass
        case _:
            yield predicate


def unknowns(predicate: BoundExpr) -> Iterator[Unknown]:
    """All unknown parts of a predicate, in order."""
    match predicate:
        case Unknown():
            yield predicate
        case BoundAnd(operands) | BoundOr(operands):
            for operand in operands:
                yield from unknowns(operand)
        case BoundNot(operand) | BoundIsNull(operand):
            yield from unknowns(operand)
        case _:
            pass


def only_field(predicate: BoundExpr) -> Field | None:
    """The one field that a predicate is about; None where there are several or none, or a part is unknown."""
    if any(unknowns(predicate)):
        return None
    fields = {leaf.field.path: leaf.field for leaf in leaves(predicate)}
    return next(iter(fields.values())) if len(fields) == 1 else None


def single_field_parts(predicate: BoundExpr) -> Iterator[BoundExpr]:
    """The largest parts that are about one field each, in order."""
    if only_field(predicate) is not None:
        yield predicate
        return
    match predicate:
        case BoundAnd(operands) | BoundOr(operands):
            for operand in operands:
                yield from single_field_parts(operand)
        case BoundNot(operand) | BoundIsNull(operand):
            yield from single_field_parts(operand)
        case _:
            pass


def parts(predicate: BoundExpr) -> Iterator[Field]:
    """The fields of the largest parts that are about one field each, in order; a field may come several times."""
    for part in single_field_parts(predicate):
        field = only_field(part)
        assert field is not None
        yield field


def grouped(predicate: BoundExpr) -> BoundExpr:
    """The same predicate, with the operands of each AND and OR that are about the same field grouped together."""
    match predicate:
        case BoundAnd(operands) | BoundOr(operands):
            groups: dict[Path | int, list[BoundExpr]] = {}
            for number, operand in enumerate(map(grouped, operands)):
                field = only_field(operand)
                groups.setdefault(number if field is None else field.path, []).append(operand)
            joined = [_joined(type(predicate), parts) for parts in groups.values()]
            return _joined(type(predicate), joined)
        case BoundNot(operand):
            return BoundNot(grouped(operand))
        case BoundIsNull(operand):
            return BoundIsNull(grouped(operand))
        case _:
            return predicate


def _joined(kind: type[BoundAnd] | type[BoundOr], parts: list[BoundExpr]) -> BoundExpr:
    return parts[0] if len(parts) == 1 else kind(tuple(parts))


def conjoins(predicate: BoundExpr, *, negated: bool = False) -> bool:
    """Tell whether a matching row must satisfy several parts at once.

    Where it need not, a slice has a matching row exactly when it has one for some leaf.
    """
    match predicate:
        case BoundAnd(operands) | BoundOr(operands):
            return isinstance(predicate, BoundOr) is negated or any(
                conjoins(operand, negated=negated) for operand in operands
            )
        case BoundNot(operand):
            return conjoins(operand, negated=not negated)
        case BoundIsNull(BoundAnd() | BoundOr()):
            return True  # one part must be null, and no other may decide
        case BoundIsNull(operand):
            return conjoins(operand, negated=negated)
        case _:
            return False


def nan_makes_true(leaf: CompareLeaf | InLeaf, semantics: Semantics) -> bool:
    """Tell whether a comparison or list is true for NaN (trap S2)."""
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
    """The same predicate, its comparisons annotated with their result for NaN where another comparison decides it.

    It is equivalent on every row and for every outcome, so it may be below a NOT as well.
    """
    match predicate:
        case BoundNot(operand):
            return BoundNot(with_nans_decided(operand, semantics))
        case BoundIsNull(operand):
            return BoundIsNull(with_nans_decided(operand, semantics))
        case BoundAnd(operands) | BoundOr(operands):
            inner = tuple(with_nans_decided(operand, semantics) for operand in operands)
            return replace(predicate, operands=_decided(predicate, inner, semantics))
        case _:
            return predicate


def _decided(
    of: BoundAnd | BoundOr, operands: tuple[BoundExpr, ...], semantics: Semantics
) -> tuple[BoundExpr, ...]:
    """The annotated operands: one that is false for NaN decides an AND, one that is true an OR."""
    if isinstance(of, Same):
        return operands
    deciding = isinstance(of, BoundOr)
    fields: set[Field] = {
        operand.field
        for operand in operands
        if isinstance(operand, CompareLeaf | InLeaf)
        and pa.types.is_floating(operand.field.type)
        and not (isinstance(operand, InLeaf) and operand.has_null)  # which may be NULL for NaN
        and nan_makes_true(operand, semantics) is deciding
    }
    return tuple(
        replace(operand, nan=deciding)
        if isinstance(operand, CompareLeaf)
        and operand.field in fields
        and nan_makes_true(operand, semantics) is not deciding
        else operand
        for operand in operands
    )
