"""The forms of a function's rule: what `f(x) op constant` implies for `x`.

A rule has a domain of `x`: values outside it are unknown. Inside it the function is never NULL, never fails, and yields
the reference's result in all engines that its row names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from pruner.expr.bound.predicates import Point
from pruner.expr.exact.numeric import first_where
from pruner.expr.nodes import Operator

if TYPE_CHECKING:
    import pyarrow as pa

    from pruner.expr.bound.predicates import BoundExpr, StorageValue
    from pruner.expr.nodes import Literal
    from pruner.expr.semantics import Semantics

Result: TypeAlias = "int | float | bytes"
"""The result of a reference, in the domain of results."""

Undo: TypeAlias = Callable[[Point], Point]
"""Turns a point in the domain of results into one in the domain of arguments."""


class NotInvertible(Exception):  # noqa: N818 - binding makes an `Unknown` of it
    """A condition on the function implies nothing for its argument; `str()` is the reason."""


@dataclass(frozen=True, slots=True)
class Use:
    """A function as a predicate uses it: of one value that is not constant, at `place` among its arguments.

    `type` is the type of that value, `constants` the other arguments in order, `told` the type of the result where the
    engine reports it.
    """

    type: pa.DataType
    place: int
    constants: tuple[Literal, ...]
    semantics: Semantics
    told: pa.DataType | None = None


@dataclass(frozen=True, slots=True)
class Piece:
    """Values from `low` to `high` (None: unbounded) on which the function never falls, or with `falls` never rises.

    Without `ordered` neither holds, but `undo` finds all values whose result equals a point.
    """

    low: StorageValue | None
    high: StorageValue | None
    undo: Undo
    falls: bool = False
    ordered: bool = True


@dataclass(frozen=True, slots=True)
class Pieces:
    """A function that is monotone on each of a few ranges, which do not overlap."""

    result: pa.DataType
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Periods:
    """A function whose results recur, on the values from `low` to `high`.

    `where` gives the ranges of values for which `result op point` is true; for all others it is false.
    """

    result: pa.DataType
    low: int
    high: int
    where: Callable[[Operator, Point], tuple[Point, ...]]


@dataclass(frozen=True, slots=True)
class Cycle:
    """Values from `low` to `high` (None: unbounded) on which the result follows from the remainder by `period`.

    `where` gives the remainders, by floor, for which `result op point` is true; for all others it is false.
    """

    low: int | None
    high: int | None
    period: int
    where: Callable[[Operator, Point], tuple[Point, ...]]


@dataclass(frozen=True, slots=True)
class Cycles:
    """A function whose results recur at a fixed period, on each of a few ranges, which do not overlap."""

    result: pa.DataType
    cycles: tuple[Cycle, ...]


class TextValue(Protocol):
    """A value of type text, which turns conditions on it into conditions on the column."""

    def compare(self, operator: Operator, point: Point) -> BoundExpr:
        """`value operator point`."""
        ...

    def member(self, points: Sequence[Point], *, has_null: bool) -> BoundExpr:
        """`value IN (points…)`."""
        ...

    def starts_with(self, prefix: bytes) -> BoundExpr:
        """`value LIKE 'prefix%'`."""
        ...


@dataclass(frozen=True, slots=True)
class Texts:
    """A function of text with its own rule for each comparison, proved for every text.

    `begins` gives what `result LIKE 'prefix%'` implies for the value.
    """

    result: pa.DataType
    compare: Callable[[TextValue, Operator, Point], BoundExpr]
    begins: Callable[[TextValue, bytes], BoundExpr]


Inverse: TypeAlias = Pieces | Periods | Cycles | Texts


def searched(evaluate: Callable[[int], Result], low: int, high: int) -> Undo:
    """The inverse of a function that never falls from `low` to `high`, by binary search in that range."""

    def undo(point: Point) -> Point:
        wanted: Any = point.low
        most: Any = point.high
        first = None if wanted is None else first_where(low, high, lambda value: evaluate(value) >= wanted)
        last = None if most is None else first_where(low, high, lambda value: evaluate(value) > most) - 1
        empty = first is not None and last is not None and first > last
        return Point(first, last, exact=point.exact or empty)

    return undo


def whole(result: pa.DataType, undo: Undo) -> Pieces:
    """A function that never falls, over all values."""
    return Pieces(result, (Piece(None, None, undo),))


def rising(result: pa.DataType, evaluate: Callable[[int], Result], low: int, high: int) -> Pieces:
    """A function that never falls from `low` to `high`, given by its reference."""
    return Pieces(result, (Piece(low, high, searched(evaluate, low, high)),))


def scaled(factor: int, shift: int) -> Undo:
    """The inverse of multiplying every value by `factor` and adding `shift`."""

    def undo(point: Point) -> Point:
        low, high = (point.low, point.high) if factor > 0 else (point.high, point.low)
        first, last = whole_number(low), whole_number(high)
        first = None if first is None else -((first - shift) // -factor)
        last = None if last is None else (last - shift) // factor
        empty = first is not None and last is not None and first > last
        return Point(first, last, exact=point.exact or empty)

    return undo


def whole_number(value: StorageValue | None) -> int | None:
    """A bound of a point of integers or moments.

    Raises:
        NotInvertible: the point is of another kind.
    """
    if value is None or isinstance(value, int):
        return value
    raise NotInvertible("a comparison with something else than whole numbers")


def holds(operator: Operator, result: int, point: Point) -> bool:
    """Tell whether `result op point` is true.

    Raises:
        NotInvertible: the point is not exact, and the result is within it.
    """
    low, high = whole_number(point.low), whole_number(point.high)
    below, above = low is not None and result < low, high is not None and result > high
    if not (below or above) and not point.exact:
        raise NotInvertible("a comparison with a constant that is not certain")
    match operator:
        case Operator.EQ:
            return not below and not above
        case Operator.NE:
            return below or above
        case Operator.LT:
            return below
        case Operator.LE:
            return not above
        case Operator.GT:
            return above
        case Operator.GE:
            return not below
