"""Rules of functions of dates and timestamps, and of moments that are formatted as text.

Moments are formatted as text by patterns whose texts are in the order of the moments.

That holds where the year comes first, then the month, and so on: all texts have digits at the same positions, and the
same characters between them.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.exact.clock import HOUR as HOUR_NANOSECONDS
from pruner.expr.exact.clock import day_number, fixed_offset, is_known_zone, offsets_near, walls_of_instant
from pruner.expr.functions.inverse import NotInvertible, Piece, Pieces, scaled, whole_number
from pruner.expr.functions.walls import (
    DAY,
    FIRST,
    FIXED_UNITS,
    LAST,
    LONGEST,
    SECOND,
    SHORT_UNITS,
    TRUNCATED_TO,
    date_at,
    midnight,
    of_moment,
    of_wall,
    point_between,
    scale_of,
    shifted,
    start_of,
)
from pruner.expr.semantics import BINARY_COLLATION
from pruner.expr.types import is_instant
from pruner.expr.values import Interval

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.expr.functions.inverse import Inverse, Undo, Use
    from pruner.expr.semantics import Semantics

_AREA_AND_CITY: Final = re.compile(r"[A-Z][A-Za-z]+/[A-Z][A-Za-z_]+")


def year(use: Use) -> Inverse:
    """`year(x)`."""
    return of_wall(use, pa.int64(), lambda moment: date_at(moment).year)


def truncated(use: Use) -> Inverse:
    """`date_trunc('unit', x)`."""
    unit = _unit(use)
    if pa.types.is_date(use.type) and unit in FIXED_UNITS and unit != "day":
        raise NotInvertible("a part of the day of a date")
    if is_instant(use.type):
        return _truncated_instant(use, unit)
    result = pa.date32() if pa.types.is_date(use.type) else pa.timestamp("us")
    scale = DAY if pa.types.is_date(use.type) else 1
    return of_wall(use, result, lambda moment: start_of(unit, moment) // scale)


def _truncated_instant(use: Use, unit: str) -> Inverse:
    """An instant truncated by the session's wall clock is an instant: at most the unit's length earlier, up to a clock
    change.
    """
    scale, zone = scale_of(use) * 1000, use.semantics.zone
    length = LONGEST[unit] * 1000 if unit in LONGEST else FIXED_UNITS[unit] * 1000

    def change(*moments: int) -> int:
        offsets = [offset for moment in moments for offset in offsets_near(zone, moment)]
        return max(offsets) - min(offsets)

    def undo(point: Point) -> Point:
        low, high = whole_number(point.low), whole_number(point.high)
        if low is not None:
            low = (low - change(low)) // scale
        if high is not None:
            high = -(-(high + length + change(high, high + length)) // scale)
        return Point(low, high, exact=False)

    def in_nanoseconds(point: Point) -> Point:
        low, high = whole_number(point.low), whole_number(point.high)
        return undo(Point(None if low is None else low * 1000, None if high is None else high * 1000))

    first, last = -(-(FIRST + 400 * DAY) * 1000 // scale), (LAST - 400 * DAY) * 1000 // scale
    return Pieces(pa.timestamp("us", "UTC"), (Piece(first, last, in_nanoseconds),))


def date(use: Use) -> Inverse:
    """`CAST(x AS DATE)`."""
    return of_wall(use, pa.date32(), lambda moment: moment // DAY)


def instant(use: Use) -> Inverse:
    """`CAST(x AS TIMESTAMP WITH TIME ZONE)`: the instant at which the session's clock shows x."""
    if is_instant(use.type):
        raise NotInvertible("a cast between two kinds of instants")
    scale, zone = scale_of(use) * 1000, use.semantics.zone

    def undo(point: Point) -> Point:
        low, high = whole_number(point.low), whole_number(point.high)
        first = None if low is None else walls_of_instant(low * 1000, zone)
        last = None if high is None else walls_of_instant(high * 1000, zone)
        return point_between(first, last, scale, exact=point.exact)

    low, high = -(-(FIRST + 2 * DAY) * 1000 // scale), (LAST - 2 * DAY) * 1000 // scale
    return Pieces(pa.timestamp("us", "UTC"), (Piece(low, high, undo),))


def wall_clock(use: Use) -> Inverse:
    """`CAST(x AS TIMESTAMP)` of an instant: the session's wall clock at that instant."""
    return of_wall(use, pa.timestamp("us"), lambda moment: moment)


def at_zone(use: Use) -> Inverse:
    """`x AT TIME ZONE 'Area/City'`: the zone's wall clock at an instant, or the instant at which it shows x."""
    if not pa.types.is_timestamp(use.type):
        raise NotInvertible(f"the zone of a value of type {use.type}")
    semantics = in_zone_of(use)
    if semantics is None:
        raise NotInvertible("a zone that is not constant, or that engines may read differently")
    there = replace(use, semantics=semantics)
    return wall_clock(there) if is_instant(use.type) else instant(there)


def in_zone_of(use: Use) -> Semantics | None:
    """The session's rules in the zone that `timezone(zone, x)` names; None where the zone is uncertain."""
    match use.constants:
        case [constant] if use.place == 1 and isinstance(constant.value, str):
            zone = constant.value
        case _:
            return None
    return replace(use.semantics, zone=zone) if is_certain_zone(zone) else None


def is_certain_zone(zone: str) -> bool:
    """Tell whether a text names the same zone for every engine that has `timezone(zone, x)`."""
    return bool(_AREA_AND_CITY.fullmatch(zone) or zone == "UTC") and is_known_zone(zone)


def days_between(use: Use) -> Inverse:
    """`date_diff('day', first, last)` of two dates, `last` given first."""
    match use.constants:
        case [constant] if pa.types.is_date32(use.type) and isinstance(constant.value, datetime.date | int):
            pass
        case _:
            raise NotInvertible("the days between something else than a date and a constant date")
    if not pa.types.is_date32(constant.type):
        raise NotInvertible("the days between a date and something else")
    value = constant.value
    day = day_number(value) if isinstance(value, datetime.date) else value
    factor = 1 if use.place == 0 else -1
    undo = scaled(factor, -factor * day)
    return Pieces(pa.int64(), (Piece(FIRST // DAY, LAST // DAY, undo, falls=factor < 0),))


def epoch_seconds(use: Use) -> Inverse:
    """Whole seconds since 1970."""
    return of_moment(use, pa.int64(), lambda moment: moment // SECOND)


def epoch_milliseconds(use: Use) -> Inverse:
    """Milliseconds since 1970: DuckDB rounds them, half up or to the nearest, depending on its version."""
    return _blurred(of_moment(use, pa.int64(), lambda moment: moment // 1000), lambda value: value, 1)


def epoch_microseconds(use: Use) -> Inverse:
    """Microseconds since 1970."""
    return of_moment(use, pa.int64(), lambda moment: moment)


def later(use: Use) -> Inverse:
    """`x + INTERVAL …`, and `x + days` of a date."""
    return _shifted(use, 1)


def earlier(use: Use) -> Inverse:
    """`x - INTERVAL …`, and `x - days` of a date."""
    if use.place != 0:
        raise NotInvertible("the time between two moments")
    return _shifted(use, -1)


def _shifted(use: Use, sign: int) -> Inverse:
    interval, is_days = _interval(use)
    of_date = pa.types.is_date(use.type)
    if is_days and not of_date:
        raise NotInvertible("a number added to a timestamp")
    if is_instant(use.type):
        return _shifted_instant(use, interval, sign)
    to_date = is_days or (of_date and use.semantics.traits.dates_with_intervals_are_dates)
    if to_date and interval.nanoseconds:
        raise NotInvertible("a part of a day added to a date")
    result = pa.date32() if to_date else pa.timestamp("us")
    scale = DAY if to_date else 1
    low, high = _bounds_of_shift(interval, sign)
    if interval.months and not of_date:
        # Of two moments near the end of a month the later one may yield the earlier result: only days are in order.
        def by_day(moment: int) -> int:
            return shifted(moment - moment % DAY, interval, sign) // DAY * DAY

        pieces = of_wall(use, result, by_day, low=low, high=high)
        return _blurred(pieces, lambda value: value // DAY * DAY)
    return of_wall(use, result, lambda moment: shifted(moment, interval, sign) // scale, low=low, high=high)


def _bounds_of_shift(interval: Interval, sign: int) -> tuple[int, int]:
    """Bounds that keep moments well within the years for which the reference holds."""
    reach = (
        abs(interval.months) * 31 * DAY + abs(interval.days) * DAY + abs(interval.nanoseconds) // 1000 + DAY
    )
    if reach > LAST - FIRST:
        raise NotInvertible("an interval of thousands of years")
    return FIRST + reach, LAST - reach


def _shifted_instant(use: Use, interval: Interval, sign: int) -> Inverse:
    """Hours have the same length everywhere. That of a day depends on the session's zone, and the day before a clock
    change ends at another offset than it began at.
    """
    fixed = use.semantics.zone is not None and fixed_offset(use.semantics.zone) is not None
    certain = not interval.days or fixed
    widest = 0 if certain else 26 * HOUR_NANOSECONDS // 1000
    if interval.months:
        raise NotInvertible("months added to an instant, whose days are those of the session's zone")
    low, high = _bounds_of_shift(interval, sign)

    def reference(moment: int) -> int:
        return shifted(moment, interval, sign)

    pieces = of_moment(use, pa.timestamp("us", "UTC"), reference, low=low + 2 * DAY, high=high - 2 * DAY)
    if certain:
        return pieces
    return _blurred(pieces, lambda value: value, widest)


def _blurred(pieces: Pieces, floor: Callable[[int], int], widest: int = 0) -> Pieces:
    """The same pieces for results within `widest` of the reference, or known only after `floor`."""

    def blur(undo: Undo) -> Undo:
        def blurred(point: Point) -> Point:
            low, high = whole_number(point.low), whole_number(point.high)
            wide = Point(
                None if low is None else floor(low) - widest, None if high is None else floor(high) + widest
            )
            undone = undo(wide)
            return Point(undone.low, undone.high, exact=False)

        return blurred

    return Pieces(
        pieces.result, tuple(Piece(piece.low, piece.high, blur(piece.undo)) for piece in pieces.pieces)
    )


def _unit(use: Use) -> str:
    match [constant.value for constant in use.constants]:
        case [str() as text]:
            unit = text.lower()
            if use.semantics.traits.moment_functions_take_instants:
                unit = SHORT_UNITS.get(unit, unit)
        case _:
            unit = ""
    if unit not in TRUNCATED_TO:
        raise NotInvertible("a unit that is not known")
    return unit


def _interval(use: Use) -> tuple[Interval, bool]:
    """The added interval, and whether it is a number of days."""
    match use.constants:
        case [constant] if isinstance(constant.value, Interval):
            if constant.value.nanoseconds % 1000:
                raise NotInvertible("an interval with nanoseconds")
            return constant.value, False
        case [constant] if pa.types.is_integer(constant.type) and isinstance(constant.value, int):
            return Interval(days=constant.value), True
        case _:
            raise NotInvertible("something else than an interval is added")


_S: Final = "[-/ :.T]?"
_IN_ORDER: Final = re.compile(f"%Y({_S}%m({_S}%d({_S}%H({_S}%M({_S}%S)?)?)?)?)?")
_PART: Final = re.compile("%(.)")
_FIRST: Final = midnight(datetime.date(1000, 1, 1))
"""Not every engine writes earlier years with four digits."""
_MILLISECOND: Final = 1_000


def by_pattern(use: Use) -> Inverse:
    """`strftime(x, '%Y-%m-%d')`."""
    match use.constants:
        case [constant] if use.place == 0 and isinstance(constant.value, str):
            pattern = constant.value
        case _:
            raise NotInvertible("a pattern that is not constant")
    if not _IN_ORDER.fullmatch(pattern):
        raise NotInvertible(f"texts by the pattern {pattern!r} are not in the order of the moments")
    return _written(use, pattern)


def date_as_text(use: Use) -> Inverse:
    """`CAST(date AS text)`."""
    return _written(use, "%Y-%m-%d")


def _written(use: Use, pattern: str) -> Inverse:
    if use.semantics.collation != BINARY_COLLATION:
        raise NotInvertible(f"text is compared by the collation {use.semantics.collation}")

    def text(moment: int) -> bytes:
        date, second = date_at(moment), moment % DAY // SECOND
        parts = {"Y": f"{date.year:04}", "m": f"{date.month:02}", "d": f"{date.day:02}"}
        parts |= {"H": f"{second // 3600:02}", "M": f"{second // 60 % 60:02}", "S": f"{second % 60:02}"}
        return _PART.sub(lambda match: parts[match[1]], pattern).encode()

    if not use.semantics.traits.writes_moments_rounded or scale_of(use) >= _MILLISECOND:
        return of_wall(use, pa.string(), text, low=_FIRST, high=LAST)
    return _rounded(of_wall(use, pa.string(), text, low=_FIRST, high=LAST - _MILLISECOND))


def _rounded(pieces: Pieces) -> Pieces:
    """The same pieces for moments that are rounded first: those just before a second may be written as that second."""

    def widened(undo: Undo) -> Undo:
        def wide(point: Point) -> Point:
            undone = undo(point)
            low = whole_number(undone.low)
            return Point(None if low is None else low - _MILLISECOND, undone.high, exact=False)

        return wide

    return Pieces(pieces.result, tuple(replace(piece, undo=widened(piece.undo)) for piece in pieces.pieces))
