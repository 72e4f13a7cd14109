"""Dates and timestamps as microseconds of a clock, and the calendar in exact integers.

An instant is read through the wall clock of the session's zone, whose inverse is as wide as clocks change.

The calendar of the rules for dates and timestamps, in exact integers.

Moments are microseconds of the wall clock since 1970, in the proleptic Gregorian calendar, rounded down (trap S14),
from year 1 to year 9999.
"""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.exact.clock import DAY as DAY_NANOSECONDS
from pruner.expr.exact.clock import instants_of_wall, nanoseconds
from pruner.expr.functions.inverse import NotInvertible, Piece, Pieces, rising, whole_number
from pruner.expr.types import is_instant, unit_of

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Undo, Use
    from pruner.expr.values import Interval

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
FIRST: Final = (1 - _EPOCH) * DAY
LAST: Final = (datetime.date.max.toordinal() + 1 - _EPOCH) * DAY - 1
"""The first and the last microsecond that the rules cover."""


def date_at(moment: int) -> datetime.date:
    """The date at a moment between `FIRST` and `LAST`."""
    return datetime.date.fromordinal(moment // DAY + _EPOCH)


def midnight(date: datetime.date) -> int:
    """The first microsecond of a date."""
    return (date.toordinal() - _EPOCH) * DAY


def start_of(unit: str, moment: int) -> int:
    """The start of the year, quarter … or millisecond that a moment is in."""
    if unit in FIXED_UNITS:
        return moment - moment % FIXED_UNITS[unit]
    date = date_at(moment)
    match unit:
        case "week":
            return midnight(date) - date.weekday() * DAY
        case "month":
            return midnight(date.replace(day=1))
        case "quarter":
            return midnight(date.replace(month=date.month - (date.month - 1) % 3, day=1))
        case _:
            return midnight(date.replace(month=1, day=1))


FIXED_UNITS: Final = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": SECOND,
    "minute": 60 * SECOND,
    "hour": 3600 * SECOND,
    "day": DAY,
}
"""Microseconds in units of fixed length."""

LONGEST: Final = {"week": 7 * DAY, "month": 31 * DAY, "quarter": 92 * DAY, "year": 366 * DAY}
"""Greatest number of microseconds in units of varying length."""

TRUNCATED_TO: Final = (*FIXED_UNITS, *LONGEST)
"""Units of `date_trunc`."""

SHORT_UNITS: Final = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
"""Spark's other names for units."""


def shifted(moment: int, interval: Interval, sign: int = 1) -> int:
    """A moment plus an interval; a day beyond the end of the month becomes its last day.

    Raises:
        ValueError: the date is before year 1 or after year 9999.
        OverflowError: likewise.
    """
    if interval.months:
        date = date_at(moment)
        months = date.year * 12 + date.month - 1 + sign * interval.months
        year, month = months // 12, months % 12 + 1
        last = calendar.monthrange(year, month)[1]
        moment = midnight(datetime.date(year, month, min(date.day, last))) + moment % DAY
    return moment + sign * (interval.days * DAY + interval.nanoseconds // 1000)


Reference = Callable[[int], "int | float | bytes"]
"""A function of microseconds of the wall clock."""


@dataclass(frozen=True, slots=True)
class _Wall:
    """Undoes the wall clock of instants in the session's zone."""

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
    """The point between two moments, each known as a range, in units of `unit` nanoseconds."""
    certain = all(span is None or span[0] == span[1] for span in (first, last))
    low = None if first is None else -(-first[0] // unit)
    high = None if last is None else last[1] // unit
    empty = low is not None and high is not None and low > high
    return Point(low, high, exact=(exact and certain) or empty)


def wall_of(use: Use) -> Undo:
    """The inverse of the conversion to the wall clock."""
    if not is_instant(use.type):
        return lambda point: point
    return _Wall(nanoseconds(unit_of(use.type)), use.semantics.zone)


def scale_of(use: Use) -> int:
    """Microseconds in one unit of the column.

    Raises:
        NotInvertible: the column is not a date or timestamp of the reference.
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
    """A function of the wall clock."""
    parts = of_moment(use, result, reference, low=low, high=high)
    if not is_instant(use.type):
        return parts
    wall = wall_of(use)
    slack = 2 * DAY_NANOSECONDS // nanoseconds(unit_of(use.type))
    pieces: list[Piece] = []
    for piece in parts.pieces:
        assert isinstance(piece.low, int)
        assert isinstance(piece.high, int)
        pieces.append(Piece(piece.low + slack, piece.high - slack, _through(wall, piece.undo)))
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
    """A function of the moment itself, independent of any wall clock."""
    scale = scale_of(use)
    if most is not None:
        low, high = max(low, -most), min(high, most)
    return rising(result, lambda value: reference(value * scale), -(-low // scale), high // scale)
