"""Which columns the parts of a bound predicate speak of, and whether its parts must meet in one row."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.expr.bound.predicates import BoundAnd, BoundIsNull, BoundNot, BoundOr, Unknown
from pruner.expr.nodes import Constant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.expr.bound.predicates import BoundExpr, Leaf
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
    """All parts of a predicate about which nothing is known, in order."""
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
    """The one field that a predicate is about; None where there are several or none, or something is not known."""
    if any(unknowns(predicate)):
        return None
    found = {leaf.field.path: leaf.field for leaf in leaves(predicate)}
    return next(iter(found.values())) if len(found) == 1 else None


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
    """The same predicate with those operands of each AND and OR put together that are about one and the same field."""
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
    """Tell whether a row that matches must meet several parts at once.

    Where it need not, a slice holds a matching row exactly when it holds one for some leaf.
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
