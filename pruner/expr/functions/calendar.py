"""The calendar of the rules for dates and timestamps, in exact integers.

Moments are microseconds of the wall clock since 1970, in the proleptic Gregorian calendar, by floor (trap S14), from
year 1 to year 9999.
"""

from __future__ import annotations

import calendar
import datetime
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pruner.expr.values import Interval

SECOND: Final = 1_000_000
DAY: Final = 86_400 * SECOND
_EPOCH: Final = datetime.date(1970, 1, 1).toordinal()
FIRST: Final = (1 - _EPOCH) * DAY
LAST: Final = (datetime.date.max.toordinal() + 1 - _EPOCH) * DAY - 1
"""The first and the last microsecond that the rules speak of."""


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
"""Microseconds of units that all have the same length."""

LONGEST: Final = {"week": 7 * DAY, "month": 31 * DAY, "quarter": 92 * DAY, "year": 366 * DAY}
"""Microseconds of the longest of units that have not."""

TRUNCATED_TO: Final = (*FIXED_UNITS, *LONGEST)
"""Units of `date_trunc`."""

SHORT_UNITS: Final = {"yyyy": "year", "yy": "year", "mon": "month", "mm": "month", "dd": "day"}
"""Other names that Spark has for units."""


def shifted(moment: int, interval: Interval, sign: int = 1) -> int:
    """A moment and an interval after it; a day that the month does not have is its last one.

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
