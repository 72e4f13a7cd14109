"""Values of dates and timestamps as microseconds of a clock, and back.

An instant is looked at through the wall clock of the session's zone, whose inverse is as wide as clocks change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.exact.clock import DAY as DAY_NANOSECONDS
from pruner.expr.exact.clock import instants_of_wall, nanoseconds
from pruner.expr.functions.calendar import DAY, FIRST, LAST
from pruner.expr.functions.inverse import NotInvertible, Piece, Pieces, rising, whole_number
from pruner.expr.types import is_instant, unit_of

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Undo, Use

Reference = Callable[[int], "int | float | bytes"]
"""A function of microseconds of the wall clock."""


@dataclass(frozen=True, slots=True)
class _Wall:
    """Wall clocks of instants in the session's zone, undone; for other values nothing is to be done."""

    unit: int
    zone: str | None

    def __call__(self, point: Point) -> Point:
        low, high = whole_number(point.low), whole_number(point.high)
        first = None if low is None else instants_of_wall(low * self.unit, self.zone)
        last = None if high is None else instants_of_wall(high * self.unit, self.zone)
        return point_between(first, last, self.unit, exact=point.exact)


def point_between(
    first: tuple[int, int] | None, last: tuple[int, int] | None, unit: int, *, exact: bool
) -> Point:
    """The point between moments that are known to lie between two each, in units of so many nanoseconds."""
    certain = all(each is None or each[0] == each[1] for each in (first, last))
    low = None if first is None else -(-first[0] // unit)
    high = None if last is None else last[1] // unit
    empty = low is not None and high is not None and low > high
    return Point(low, high, exact=(exact and certain) or empty)


def wall_of(use: Use) -> Undo:
    """The way back from what the wall clock shows to the value."""
    if not is_instant(use.type):
        return lambda point: point
    return _Wall(nanoseconds(unit_of(use.type)), use.semantics.zone)


def scale_of(use: Use) -> int:
    """Microseconds in one unit of the column.

    Raises:
        NotInvertible: the column is no date or timestamp of the reference.
    """
    if pa.types.is_date32(use.type):
        return DAY
    if use.semantics.timestamp_unit is not None:
        raise NotInvertible("the engine rounds timestamps when it reads them")
    if not pa.types.is_timestamp(use.type) or unit_of(use.type) == "ns":
        raise NotInvertible(f"a date or timestamp of type {use.type}")
    traits = use.semantics.traits
    if is_instant(use.type) and not traits.session_zone_makes_instants:
        raise NotInvertible("the zone in which the engine reads an instant is not certain")
    return nanoseconds(unit_of(use.type)) // 1000


def of_wall(
    use: Use, result: pa.DataType, reference: Reference, *, low: int = FIRST, high: int = LAST
) -> Pieces:
    """A function of what the wall clock shows."""
    found = of_moment(use, result, reference, low=low, high=high)
    if not is_instant(use.type):
        return found
    wall = wall_of(use)
    slack = 2 * DAY_NANOSECONDS // nanoseconds(unit_of(use.type))
    pieces: list[Piece] = []
    for each in found.pieces:
        assert isinstance(each.low, int)
        assert isinstance(each.high, int)
        pieces.append(Piece(each.low + slack, each.high - slack, _through(wall, each.undo)))
    return Pieces(result, tuple(pieces))


def _through(outer: Undo, inner: Undo) -> Undo:
    return lambda point: outer(inner(point))


def of_moment(
    use: Use,
    result: pa.DataType,
    reference: Reference,
    *,
    low: int = FIRST,
    high: int = LAST,
    most: int | None = None,
) -> Pieces:
    """A function of the moment itself, whatever a clock shows."""
    scale = scale_of(use)
    if most is not None:
        low, high = max(low, -most), min(high, most)
    return rising(result, lambda value: reference(value * scale), -(-low // scale), high // scale)
