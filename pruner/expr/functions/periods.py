"""Rules of functions of dates and timestamps whose results return again and again (trap L8)."""

from __future__ import annotations

import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.functions.calendar import DAY, midnight
from pruner.expr.functions.inverse import Periods, holds
from pruner.expr.functions.walls import scale_of, wall_of
from pruner.expr.types import is_instant

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Inverse, Use
    from pruner.expr.nodes import Operator

_FROM: Final = 1900
_TO: Final = 2199
"""Years for which the rules hold: there is a range of values for each period."""
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
    """The moments whose day of the month is chosen, neighbouring days together."""
    found: list[tuple[int, int]] = []
    first = datetime.date(_DAYS_FROM, 1, 1).toordinal()
    last = datetime.date(_DAYS_TO, 12, 31).toordinal()
    for number in range(first, last + 1):
        date = datetime.date.fromordinal(number)
        if not chosen[date.day - 1]:
            continue
        start = midnight(date)
        begins = found.pop()[0] if found and found[-1][1] == start - 1 else start
        found.append((begins, start + DAY - 1))
    return tuple(found)


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
    """The moments whose results are chosen, neighbouring periods together."""
    starts = _starts(unit)
    found: list[tuple[int, int]] = []
    for number, start in enumerate(starts[:-1]):
        if not chosen[number % len(chosen)]:
            continue
        first = found.pop()[0] if found and found[-1][1] == start - 1 else start
        found.append((first, starts[number + 1] - 1))
    return tuple(found)
