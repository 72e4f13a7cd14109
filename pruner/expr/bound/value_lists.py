"""Predicates as lists of values: short ranges, many ranges of one field, and equalities of a column.

Engines turn lists of adjacent values into ranges, and users write ranges. Indexes that look up single values cannot use
a range, but can look up the values in it. The list is added to the range as another form of it (`Same`), and only where
the question is whether the range can be true: under a NOT that is where it is written as `k < 500 OR k > 502`. So
nothing that is known about the range itself gets lost.

The values that a predicate allows a column, where it names them one by one.

Many ranges of one field as one list: `k BETWEEN 1 AND 5 OR k BETWEEN 9 AND 12 OR …`.

A join passes its keys like this, as hundreds of ranges. Each range would be a question of its own, while a list is one
question: a point of a list is an interval of values some of which count as equal. So the list is true wherever one of
the ranges is, and says nothing about where they are false or NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.combine import in_leaf, negation
from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundIsNull,
    BoundNot,
    BoundOr,
    CompareLeaf,
    Guarded,
    InLeaf,
    Point,
    Same,
    Unknown,
)
from pruner.expr.nodes import Constant, Operator
from pruner.expr.semantics import BINARY_COLLATION
from pruner.expr.types import integer_range

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pruner.expr.bound.predicates import BoundExpr, Leaf, StorageValue
    from pruner.expr.semantics import Semantics
    from pruner.schema import Field

    Longest = Callable[[Field], int]


_LOWER: Final = frozenset({Operator.GE, Operator.GT})
_UPPER: Final = frozenset({Operator.LE, Operator.LT})
_ENDS: Final = _LOWER | _UPPER


class Listed(Same):
    """A range of one column and the list of the values in it: two forms of one predicate."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ValuesOfRange(InLeaf):
    """The list of the values in a range. Evidence that knows the order of values is asked about the range only."""


def with_lists(predicate: BoundExpr, longest: Longest) -> BoundExpr:
    """A predicate with the values of its short ranges, for the question where it can be true.

    Args:
        predicate: the predicate.
        longest: the most values of a range of a field that are listed; 0 where a list of them is useless.
    """
    return _extended(predicate, longest, negated=False)


def conditions(predicate: BoundExpr) -> list[BoundExpr]:
    """The parts of a predicate that must all be true; ranges and the lists of their values are separate parts."""
    if isinstance(predicate, Listed) or not isinstance(predicate, BoundAnd):
        return _parts(predicate)
    return [part for operand in predicate.operands for part in _parts(operand)]


def listed(operands: Iterable[BoundExpr], longest: Longest) -> list[InLeaf]:
    """The lists of values that follow from conditions that must all be true, one for each field with a short range."""
    return [leaf for _, leaf in _lists(list(operands), longest, negated=False)]


def _parts(operand: BoundExpr) -> list[BoundExpr]:
    """The range of a list and the list; any other operand unchanged."""
    if not isinstance(operand, Listed):
        return [operand]
    span, values = operand.operands
    return [*(span.operands if type(span) is BoundAnd else [span]), values]


def _extended(predicate: BoundExpr, longest: Longest, *, negated: bool) -> BoundExpr:
    match predicate:
        case Unknown() | Constant() | BoundIsNull():
            return predicate  # each of the other outcomes asks whether it is NULL as well
        case BoundNot(operand):
            return BoundNot(_extended(operand, longest, negated=not negated))
        case Guarded(operands, text):
            return Guarded(tuple(_extended(operand, longest, negated=negated) for operand in operands), text)
        case Same(operands):
            return Same(tuple(_extended(operand, longest, negated=negated) for operand in operands))
        case BoundAnd(operands) | BoundOr(operands):
            kind = BoundOr if isinstance(predicate, BoundOr) else BoundAnd
            if negated is (kind is BoundOr):
                return _joined(kind, operands, longest, negated=negated)
            return kind(tuple(_extended(operand, longest, negated=negated) for operand in operands))
        case CompareLeaf(field, operator) if operator in _ENDS and _has_ends(field.type):
            return _joined(None, [predicate], longest, negated=negated)
        case _:
            return predicate


def _joined(
    kind: type[BoundAnd] | type[BoundOr] | None,
    operands: Sequence[BoundExpr],
    longest: Longest,
    *,
    negated: bool,
) -> BoundExpr:
    """Conditions that must all be true (or, negated, all be false), with the lists that follow from them."""
    lists = _lists(operands, longest, negated=negated)
    taken = {id(operand) for of_range, _ in lists for operand in of_range}
    rest = [operand for operand in operands if id(operand) not in taken]
    if kind is not None:
        rest = [_extended(operand, longest, negated=negated) for operand in rest]
    forms: list[BoundExpr] = []
    for of_range, values in lists:
        span = of_range[0] if len(of_range) == 1 or kind is None else kind(tuple(of_range))
        forms.append(Listed((span, BoundNot(values) if negated else values)))
    together = (*rest, *forms)
    return together[0] if len(together) == 1 or kind is None else kind(together)


def _lists(
    operands: Sequence[BoundExpr], longest: Longest, *, negated: bool
) -> list[tuple[list[BoundExpr], InLeaf]]:
    """For each field with a short range: the operands that form the range, and the list of its values."""
    ranges: dict[Field, _Range] = {}
    for operand in operands:
        for leaf in operand.operands if isinstance(operand, Same) else (operand,):
            if isinstance(leaf, CompareLeaf) and _is_counted(leaf.field.type):
                operator = leaf.operator.negated if negated else leaf.operator
                if operator in _ENDS:
                    ranges.setdefault(leaf.field, _Range(leaf.field)).narrow(operand, operator, leaf.point)
    lists: list[tuple[list[BoundExpr], InLeaf]] = []
    for field, span in ranges.items():
        count = span.count
        if count is not None and count <= longest(field):
            values = in_leaf(field, span.points(), has_null=False)
            if isinstance(values, InLeaf):
                lists.append((span.operands, ValuesOfRange(field, values.points)))
    return lists


@dataclass
class _Range:
    """The values between the bounds that conditions on a field leave, both inclusive; None for an open bound.

    `exact` tells whether the conditions certainly hold for the values; None before the first condition.
    Conditions of both kinds together form no list, because a list is exact or inexact as a whole.
    """

    field: Field
    low: int | None = None
    high: int | None = None
    exact: bool | None = None
    mixed: bool = False

    def __post_init__(self) -> None:
        self.operands: list[BoundExpr] = []
        if pa.types.is_boolean(self.field.type):
            self.low, self.high = 0, 1
        elif pa.types.is_integer(self.field.type):
            self.low, self.high = integer_range(self.field.type)

    def narrow(self, operand: BoundExpr, operator: Operator, point: Point) -> None:
        """Add a condition."""
        if not any(operand is each for each in self.operands):
            self.operands.append(operand)
        self.mixed |= point.nan or self.exact is (not point.exact)
        self.exact = point.exact
        if operator in _LOWER:
            self._narrow_below(operator, point)
        else:
            self._narrow_above(operator, point)

    def _narrow_below(self, operator: Operator, point: Point) -> None:
        behind = operator is Operator.GT and point.exact
        end = point.high if behind else point.low
        if isinstance(end, int):
            end = int(end) + behind
            self.low = end if self.low is None else max(self.low, end)
        else:
            self.mixed |= end is not None

    def _narrow_above(self, operator: Operator, point: Point) -> None:
        before = operator is Operator.LT and point.exact
        end = point.low if before else point.high
        if isinstance(end, int):
            end = int(end) - before
            self.high = end if self.high is None else min(self.high, end)
        else:
            self.mixed |= end is not None

    @property
    def count(self) -> int | None:
        """The number of values, at least 1; None where they cannot be listed."""
        if self.mixed or self.low is None or self.high is None or self.low > self.high:
            return None
        return self.high - self.low + 1

    def points(self) -> list[Point]:
        """Each of the values."""
        assert self.low is not None
        assert self.high is not None
        assert self.exact is not None
        values: Iterable[StorageValue] = range(self.low, self.high + 1)
        if pa.types.is_boolean(self.field.type):
            values = map(bool, values)
        return [Point(value, value, self.exact) for value in values]


def _has_ends(type_: pa.DataType) -> bool:
    """Tell whether a type has a least and a greatest value, which close a range with one bound."""
    return pa.types.is_boolean(type_) or pa.types.is_integer(type_)


def _is_counted(type_: pa.DataType) -> bool:
    """Tell whether a type has finitely many values between any two."""
    types = pa.types
    return (
        _has_ends(type_)
        or types.is_decimal(type_)
        or types.is_date(type_)
        or types.is_timestamp(type_)
        or types.is_time(type_)
    )


MOST_LISTED: Final = 1_000
"""Most values of a range that are named one by one."""


def required_values(predicate: BoundExpr, semantics: Semantics) -> Iterator[tuple[Field, list[int | bytes]]]:
    """Yield each column that must have one of some values wherever a predicate is true, and these values.

    Only signed integers qualify, and text in engines that compare it byte by byte.
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
    required = [list(_required(operand, semantics)) for operand in operands]
    if all(len(each) == 1 for each in required):
        fields = {each[0][0] for each in required}
        if len(fields) == 1:
            yield fields.pop(), [value for each in required for value in each[0][1]]


def values_of(leaf: Leaf, semantics: Semantics) -> list[int | bytes] | None:
    """The values one of which a column has where a leaf is true; None where they are unknown."""
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
    values: list[int | bytes] = []
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
            values.append(low)
        elif not (point.exact and _is_empty(low, high)):
            return None
    return values


def _is_empty(low: int | bytes, high: object) -> bool:
    """Tell whether no value lies between the bounds of a literal that no value equals."""
    return isinstance(low, int) and isinstance(high, int) and low > high


FEWEST: Final = 8
"""Fewer ranges are evaluated one by one, which also tells where all rows match."""


def with_spans(predicate: BoundExpr, longest: Callable[[Field], int]) -> BoundExpr:
    """A predicate with lists instead of many ranges, for the question where it can be true.

    Args:
        predicate: the predicate.
        longest: the most values of a range of a field that are looked up one by one. If any are, ranges stay.
    """
    if type(predicate) is BoundAnd:
        return BoundAnd(tuple(with_spans(operand, longest) for operand in predicate.operands))
    if type(predicate) is not BoundOr or len(predicate.operands) < FEWEST:
        return predicate
    widened: list[Point] = []
    about: Field | None = None
    for operand in predicate.operands:
        points = _points(operand)
        if points is None or (about is not None and points[0] != about):
            return predicate
        about = points[0]
        widened += points[1]
    if about is None or not _is_never_rounded(about.type) or longest(about):
        return predicate
    return InLeaf(about, tuple(widened))


def _points(operand: BoundExpr) -> tuple[Field, list[Point]] | None:
    """The intervals one of which contains the value where a range or list is true; None for anything else."""
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
    """Tell whether no engine rounds values of a type: otherwise an interval would be read as allowing for rounding."""
    return pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_date(type_)
