"""Rules of functions whose results recur at a fixed period: parts of the day, days of the week, remainders.

Rules of functions of dates and timestamps whose results recur at varying distances (trap L8).
"""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.exact.clock import DAY as DAY_NANOSECONDS
from pruner.expr.exact.clock import SETTLED_FROM, SETTLED_TO, fixed_offset, is_known_zone
from pruner.expr.functions.inverse import Cycle, Cycles, NotInvertible, Periods, holds, whole_number
from pruner.expr.functions.walls import DAY, FIRST, FIXED_UNITS, LAST, midnight, scale_of, wall_of
from pruner.expr.nodes import Operator
from pruner.expr.types import integer_range, is_instant

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pruner.expr.functions.inverse import Inverse, Use

_GREATEST_DIVISOR: Final = 2**62
_MOST_OFFSETS: Final = 8
_THURSDAY: Final = 4
"""The first of January 1970, where Sunday is 0."""


def hour(use: Use) -> Inverse:
    """`hour(x)`."""
    return _part_of_day(use, "hour", DAY, 24)


def minute(use: Use) -> Inverse:
    """`minute(x)`."""
    return _part_of_day(use, "minute", FIXED_UNITS["hour"], 60)


def second(use: Use) -> Inverse:
    """`second(x)`: whole seconds."""
    return _part_of_day(use, "second", FIXED_UNITS["minute"], 60)


def weekday_from_sunday(use: Use) -> Inverse:
    """The day of the week, Sunday 0 and Saturday 6."""
    return _of_clock(use, 7 * DAY, [((day - _THURSDAY) % 7 * DAY, DAY, day) for day in range(7)])


def weekday_from_monday(use: Use) -> Inverse:
    """The day of the week, Monday 1 and Sunday 7."""
    return _of_clock(use, 7 * DAY, [((day - _THURSDAY) % 7 * DAY, DAY, day) for day in range(1, 8)])


def remainder(use: Use) -> Inverse:
    """`x % k`, with the sign of x."""
    divisor = _divisor(use)
    top = divisor - 1

    def positive(operator: Operator, point: Point) -> tuple[Point, ...]:
        return tuple(Point(low, high) for low, high in _chosen(0, top, operator, point))

    def negative(operator: Operator, point: Point) -> tuple[Point, ...]:
        # -1 % 8 is -1, but 7 by floor.
        ranges = _chosen(-top, 0, operator, point)
        return tuple(Point(low % divisor, low % divisor + high - low) for low, high in ranges)

    return Cycles(use.type, (Cycle(0, None, divisor, positive), Cycle(None, -1, divisor, negative)))


def _divisor(use: Use) -> int:
    told = pa.int64() if use.told is None else use.told
    if use.place != 0 or not pa.types.is_signed_integer(use.type) or not pa.types.is_signed_integer(told):
        raise NotInvertible("a remainder of something else than integers by a constant")
    match use.constants:
        case [constant] if pa.types.is_integer(constant.type) and isinstance(constant.value, int):
            if 1 <= constant.value <= min(integer_range(use.type)[1], _GREATEST_DIVISOR):
                return constant.value
        case _:
            pass
    raise NotInvertible("a divisor that is not a positive integer of the column's type")


def _chosen(least: int, most: int, operator: Operator, point: Point) -> list[tuple[int, int]]:
    """The ranges of integers from `least` to `most` for which `integer op point` is true."""
    low, high = whole_number(point.low), whole_number(point.high)
    if not point.exact:
        raise NotInvertible("a comparison with a constant that is not certain")
    below = None if low is None else (least, min(most, low - 1))
    above = None if high is None else (max(least, high + 1), most)
    equal = (least if low is None else max(least, low), most if high is None else min(most, high))
    taken = {
        Operator.EQ: (equal,),
        Operator.NE: (below, above),
        Operator.LT: (below,),
        Operator.LE: (below, equal),
        Operator.GT: (above,),
        Operator.GE: (equal, above),
    }[operator]
    return [
        cycle_range for cycle_range in taken if cycle_range is not None and cycle_range[0] <= cycle_range[1]
    ]


def _part_of_day(use: Use, unit: str, period: int, count: int) -> Inverse:
    if pa.types.is_date(use.type):
        raise NotInvertible("a part of the day of a date")
    length = FIXED_UNITS[unit]
    return _of_clock(use, period, [(result * length, length, result) for result in range(count)])


def _of_clock(use: Use, period: int, results: Sequence[tuple[int, int, int]]) -> Inverse:
    """A function of the wall clock.

    Args:
        use: how the function is used.
        period: the microseconds after which the results recur.
        results: the start and length of each within the period, and the result.
    """
    scale = scale_of(use)
    offsets, low, high = _offsets(use, period) if is_instant(use.type) else ((0,), FIRST, LAST)

    def where(operator: Operator, point: Point) -> tuple[Point, ...]:
        chosen = _joined(
            (start, start + length) for start, length, result in results if holds(operator, result, point)
        )
        points: list[Point] = []
        for start, end in chosen:
            for offset in offsets:
                first = (start - offset) % period
                low, high = -(-first // scale), (first + end - start - 1) // scale
                points.append(Point(low, high, exact=len(offsets) == 1))
        return tuple(points)

    return Cycles(pa.int64(), (Cycle(-(-low // scale), high // scale, period // scale, where),))


def _joined(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges in order, merged where one ends at the start of another."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        first = merged.pop()[0] if merged and merged[-1][1] == start else start
        merged.append((first, end))
    return merged


def _offsets(use: Use, period: int) -> tuple[tuple[int, ...], int, int]:
    """The session's offsets from UTC modulo the period, in microseconds, and the first and last moment they cover."""
    zone = use.semantics.zone
    if zone is None or not is_known_zone(zone):
        raise NotInvertible("the session's zone is not known")
    fixed = fixed_offset(zone)
    if fixed is not None:
        return (fixed // 1000 % period,), FIRST + 2 * DAY, LAST - 2 * DAY
    if "/" not in zone:
        # WET, EET and the like are aliases in some copies of the database, and zones of their own in others.
        raise NotInvertible("a zone by an old name, which copies of the zone database read differently")
    offsets = tuple(sorted({offset % period for offset in _offsets_of(zone)}))
    if len(offsets) > _MOST_OFFSETS:
        raise NotInvertible("a zone whose clocks changed very often")
    return offsets, SETTLED_FROM // 1000, SETTLED_TO // 1000


@lru_cache(maxsize=16)
def _offsets_of(zone: str) -> frozenset[int]:
    """Every offset, in microseconds, that a zone has in the years on which zone databases agree."""
    rules = ZoneInfo(zone)
    offsets: set[datetime.timedelta | None] = set()
    for day in range(SETTLED_FROM // DAY_NANOSECONDS - 2, SETTLED_TO // DAY_NANOSECONDS + 3):
        offsets.add(rules.utcoffset(datetime.datetime.fromordinal(day + _EPOCH)))
    return frozenset(offset // datetime.timedelta(microseconds=1) for offset in offsets if offset is not None)


_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()

_FROM: Final = 1900
_TO: Final = 2199
"""Years for which the rules hold: each period has a range of values."""
_DAYS_FROM: Final = 1970
_DAYS_TO: Final = 2069
"""Likewise for days of the month, of which there are more."""


def month(use: Use) -> Inverse:
    """`month(x)`."""
    return _of_period(use, "month", tuple(range(1, 13)))


def quarter(use: Use) -> Inverse:
    """`quarter(x)`."""
    return _of_period(use, "quarter", (1, 2, 3, 4))


def day(use: Use) -> Inverse:
    """`day(x)`: the day of the month."""
    scale, wall = scale_of(use), wall_of(use)

    def where(operator: Operator, point: Point) -> tuple[Point, ...]:
        chosen = tuple(holds(operator, result, point) for result in range(1, 32))
        return tuple(wall(Point(-(-low // scale), high // scale)) for low, high in _ranges_of_days(chosen))

    slack = 2 * DAY // scale if is_instant(use.type) else 0
    low, high = midnight(datetime.date(_DAYS_FROM, 1, 1)), midnight(datetime.date(_DAYS_TO + 1, 1, 1)) - 1
    return Periods(pa.int64(), -(-low // scale) + slack, high // scale - slack, where)


@lru_cache(maxsize=64)
def _ranges_of_days(chosen: tuple[bool, ...]) -> tuple[tuple[int, int], ...]:
    """The moments whose day of the month is chosen, adjacent days merged."""
    ranges: list[tuple[int, int]] = []
    first = datetime.date(_DAYS_FROM, 1, 1).toordinal()
    last = datetime.date(_DAYS_TO, 12, 31).toordinal()
    for number in range(first, last + 1):
        date = datetime.date.fromordinal(number)
        if not chosen[date.day - 1]:
            continue
        start = midnight(date)
        begins = ranges.pop()[0] if ranges and ranges[-1][1] == start - 1 else start
        ranges.append((begins, start + DAY - 1))
    return tuple(ranges)


def _of_period(use: Use, unit: str, results: tuple[int, ...]) -> Inverse:
    scale, wall = scale_of(use), wall_of(use)
    starts = _starts(unit)

    def where(operator: Operator, point: Point) -> tuple[Point, ...]:
        chosen = tuple(holds(operator, result, point) for result in results)
        ranges = _ranges(unit, chosen)
        return tuple(wall(Point(-(-low // scale), high // scale)) for low, high in ranges)

    slack = 2 * DAY // scale if is_instant(use.type) else 0
    low, high = -(-starts[0] // scale) + slack, (starts[-1] - 1) // scale - slack
    return Periods(pa.int64(), low, high, where)


@lru_cache
def _starts(unit: str) -> tuple[int, ...]:
    """The start of each month or quarter of the years, and the end of the last one."""
    step = 1 if unit == "month" else 3
    first = [
        midnight(datetime.date(year, month, 1))
        for year in range(_FROM, _TO + 1)
        for month in range(1, 13, step)
    ]
    return (*first, midnight(datetime.date(_TO + 1, 1, 1)))


@lru_cache(maxsize=64)
def _ranges(unit: str, chosen: tuple[bool, ...]) -> tuple[tuple[int, int], ...]:
    """The moments whose results are chosen, adjacent periods merged."""
    starts = _starts(unit)
    ranges: list[tuple[int, int]] = []
    for number, start in enumerate(starts[:-1]):
        if not chosen[number % len(chosen)]:
            continue
        first = ranges.pop()[0] if ranges and ranges[-1][1] == start - 1 else start
        ranges.append((first, starts[number + 1] - 1))
    return tuple(ranges)
