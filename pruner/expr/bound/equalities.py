"""Which values a predicate lets a column have, where it names them one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.combine import negation
from pruner.expr.bound.predicates import BoundAnd, BoundNot, BoundOr, CompareLeaf, InLeaf, Same
from pruner.expr.bound.short_ranges import with_lists
from pruner.expr.nodes import Operator
from pruner.expr.semantics import BINARY_COLLATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pruner.expr.bound.predicates import BoundExpr, Leaf, Point
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field

MOST_LISTED: Final = 1_000
"""Values of a range that are named one by one."""


def required_values(predicate: BoundExpr, semantics: Semantics) -> Iterator[tuple[Field, list[int | bytes]]]:
    """Yield each column that must have one of some values wherever a predicate is true, and these values.

    Integers and text alone are taken, by engines that compare text byte by byte.
    """
    yield from _required(with_lists(predicate, lambda _: MOST_LISTED), semantics)


def _required(predicate: BoundExpr, semantics: Semantics) -> Iterator[tuple[Field, list[int | bytes]]]:
    match predicate:
        case BoundAnd(operands):
            for operand in operands:
                yield from _required(operand, semantics)
        case BoundNot(BoundOr(operands) | Same(operands)):
            for operand in operands:
                yield from _required(negation(operand), semantics)
        case BoundNot(CompareLeaf(field, Operator.NE, point)):
            yield from _required(CompareLeaf(field, Operator.EQ, point), semantics)
        case BoundOr(operands):
            yield from _of_alternatives(operands, semantics)
        case CompareLeaf() | InLeaf():
            values = values_of(predicate, semantics)
            if values is not None:
                yield predicate.field, values
        case _:
            pass


def _of_alternatives(
    operands: Sequence[BoundExpr], semantics: Semantics
) -> Iterator[tuple[Field, list[int | bytes]]]:
    found = [list(_required(operand, semantics)) for operand in operands]
    if all(len(each) == 1 for each in found):
        fields = {each[0][0] for each in found}
        if len(fields) == 1:
            yield fields.pop(), [value for each in found for value in each[0][1]]


def values_of(leaf: Leaf, semantics: Semantics) -> list[int | bytes] | None:
    """The values of which a column has one where a leaf is true; None where that is not known."""
    type_ = leaf.field.type
    text = pa.types.is_string(type_) or pa.types.is_large_string(type_)
    if not (text and semantics.collation == BINARY_COLLATION) and not pa.types.is_signed_integer(type_):
        return None
    match leaf:
        case CompareLeaf(operator=Operator.EQ, point=point):
            return _single([point])
        case InLeaf(points=points):
            return _single(points)
        case _:
            return None


def _single(points: Sequence[Point]) -> list[int | bytes] | None:
    found: list[int | bytes] = []
    for point in points:
        low, high = point.low, point.high
        if (
            point.nan
            or not isinstance(low, int | bytes)
            or isinstance(low, bool)
            or type(low) is not type(high)
        ):
            return None
        if low == high:
            found.append(low)
        elif not (point.exact and _is_empty(low, high)):
            return None
    return found


def _is_empty(low: int | bytes, high: object) -> bool:
    """Tell whether no value lies between the ends of a literal that no value equals."""
    return isinstance(low, int) and isinstance(high, int) and low > high
