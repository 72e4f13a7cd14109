"""Dates, timestamps and zones as unbounded integers, and literals against columns of them.

Moments are nanoseconds since 1970-01-01T00:00:00, of the wall clock or in UTC. Division always rounds down,
so that moments before 1970 fall on the right day and second.

Date, timestamp and string literals against date and timestamp columns.

A naive timestamp (wall clock) is compared with an instant through the session's zone. Where the zone is unknown, or
clocks change nearby, the point covers every moment that may be meant and is not exact. Engines disagree about
what a column without a zone is: Trino's Hive connector shows stored instants as UTC wall clocks whatever the
session's zone, and Spark reads naive files as instants below 3.4 or when configured so. There a conversion is
always widened by the widest offset.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

import pyarrow as pa

from pruner.expr.bound.predicates import Coerced, NotComparable, Point
from pruner.expr.engines import TextCoercion
from pruner.expr.nodes import Literal
from pruner.expr.semantics import Semantics
from pruner.expr.types import is_instant, unit_of

PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECOND: Final = 10**9
HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR

WIDEST_OFFSET: Final = 18 * HOUR
"""No zone is further from UTC than java.time.ZoneOffset allows."""

_EPOCH = datetime.date(1970, 1, 1)

# Before, zones were local mean time or differed in the engines' copies of the zone database; later, rules may
# still change.
SETTLED_FROM = (datetime.date(1970, 1, 4) - _EPOCH).days * DAY
SETTLED_TO = (datetime.date(2037, 12, 1) - _EPOCH).days * DAY

_ALIKE_FROM: Final = (datetime.date(1997, 1, 1) - _EPOCH).days * DAY
"""Before, copies of the zone database differ by up to an hour (WET to 1996, America/Tijuana to 1975)."""
_OLDEST_COPY: Final = (datetime.date(2022, 1, 1) - _EPOCH).days * DAY
"""Every copy knows the rules up to here. Later changes by governments are in a copy only if it is recent enough."""
_NEWEST_COPY: Final = (datetime.date(2026, 1, 1) - _EPOCH).days * DAY
"""Changes from here on may be missing in this machine's copy though an engine's has them."""
_YEAR: Final = 365 * DAY + 6 * HOUR


def nanoseconds(unit: str) -> int:
    """Nanoseconds in one `unit` of an Arrow timestamp."""
    return SECOND // PER_SECOND[unit]


def day_number(date: datetime.date) -> int:
    """Days from 1970-01-01 to `date` in the proleptic Gregorian calendar."""
    return (date - _EPOCH).days


def date_of(day: int) -> datetime.date:
    """The date of a day number within Python's years."""
    return _EPOCH + datetime.timedelta(days=day)


@dataclass(frozen=True, slots=True)
class IsoText:
    """A date or timestamp in ISO 8601 format.

    `wall` is in nanoseconds; so is `offset`, None where the text has none.
    """

    wall: int
    offset: int | None
    has_time: bool


_ISO = re.compile(
    r"(\d{4})-(\d{2})-(\d{2})"
    r"(?:[ T](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(?: ?(Z|[+-]\d{2}(?::\d{2})?))?)?",
    re.ASCII,
)


def parse_iso(text: str) -> IsoText | None:
    """Read `YYYY-MM-DD[ HH:MM[:SS[.f]][Z|±HH[:MM]]]`, which engines read alike; None for anything else."""
    match = _ISO.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        days = day_number(datetime.date(int(year), int(month), int(day)))
    except ValueError:
        return None
    if hour is None:
        return IsoText(days * DAY, None, has_time=False)
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        return None
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    wall = days * DAY + seconds * SECOND + int((fraction or "").ljust(9, "0"))
    offset = None if zone is None else fixed_offset(zone)
    if zone is not None and offset is None:
        return None
    return IsoText(wall, offset, has_time=True)


_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?", re.ASCII)


def parse_time(text: str, unit: int) -> int | None:
    """Read `HH:MM[:SS[.f]]` as units of `unit` nanoseconds since midnight.

    None for anything else, and for more digits than the unit holds.
    """
    match = _TIME.fullmatch(text)
    if match is None:
        return None
    hour, minute, second, fraction = match.groups()
    if int(hour) > 23 or int(minute) > 59 or int(second or 0) > 59:
        return None
    seconds = (int(hour) * 60 + int(minute)) * 60 + int(second or 0)
    whole, rest = divmod(seconds * SECOND + int((fraction or "").ljust(9, "0")), unit)
    return None if rest else whole


_FIXED = re.compile(r"([+-])(\d{2})(?::(\d{2}))?", re.ASCII)
_UTC = frozenset({"UTC", "Z", "GMT", "ETC/UTC", "ETC/GMT", "ZULU", "ETC/ZULU", "UCT", "ETC/UCT"})


def fixed_offset(zone: str) -> int | None:
    """The offset of "+HH:MM", "+HH", "Z" or a name of UTC, in nanoseconds east; None for any other zone."""
    if zone.upper() in _UTC:
        return 0
    match = _FIXED.fullmatch(zone)
    if match is None:
        return None
    sign, hours, minutes = match.groups()
    offset = int(hours) * HOUR + int(minutes or 0) * 60 * SECOND
    if int(minutes or 0) > 59 or offset > WIDEST_OFFSET:
        return None
    return -offset if sign == "-" else offset


def is_known_zone(zone: str) -> bool:
    """Tell whether a text names a time zone that this machine knows, or a fixed offset."""
    return fixed_offset(zone) is not None or _rules(zone) is not None


def offsets_near(zone: str | None, moment: int) -> tuple[int, int]:
    """Smallest and largest offset from UTC (nanoseconds east) in `zone` within two days of `moment`.

    They are the same when the conversion between wall clock and UTC is certain and one-to-one around
    `moment`: no clock change is near, and none by which copies of the zone database may differ. An unknown
    zone may have any offset.
    """
    if zone is None:
        return -WIDEST_OFFSET, WIDEST_OFFSET
    fixed = fixed_offset(zone)
    if fixed is not None:
        return fixed, fixed
    rules = _rules(zone)
    if rules is None or not SETTLED_FROM <= moment <= SETTLED_TO:
        return -WIDEST_OFFSET, WIDEST_OFFSET
    near = range(moment - 2 * DAY, moment + 2 * DAY + 1, 6 * HOUR)
    offsets = [_offset(rules, distance) for distance in near]
    if moment < _ALIKE_FROM:
        return min(offsets) - HOUR, max(offsets) + HOUR
    if moment >= _NEWEST_COPY:
        offsets += _recent_offsets(zone)
    else:
        # A copy that lacks a change continues as in the years before it.
        for past in range(moment - _YEAR, _OLDEST_COPY, -_YEAR):
            offsets += [_offset(rules, distance - moment + past) for distance in near]
    return min(offsets), max(offsets)


@lru_cache(maxsize=64)
def _recent_offsets(zone: str) -> tuple[int, ...]:
    """The offsets of a zone with rules in recent years: new rules choose among these."""
    rules = _rules(zone)
    assert rules is not None
    return tuple({_offset(rules, moment) for moment in range(_OLDEST_COPY, _NEWEST_COPY, 10 * DAY)})


def _offset(rules: ZoneInfo, moment: int) -> int:
    instant = datetime.datetime.fromtimestamp(moment // SECOND, tz=rules)
    offset = instant.utcoffset()
    assert offset is not None  # a ZoneInfo always has one
    return int(offset.total_seconds()) * SECOND


@lru_cache(maxsize=64)
def _rules(zone: str) -> ZoneInfo | None:
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return None


def instants_of_wall(wall: int, zone: str | None) -> tuple[int, int]:
    """The earliest and the latest instant at which clocks in `zone` can show `wall`."""
    low, high = offsets_near(zone, wall)
    return wall - high, wall - low


def walls_of_instant(instant: int, zone: str | None) -> tuple[int, int]:
    """The earliest and the latest time that clocks in `zone` can show at `instant`."""
    low, high = offsets_near(zone, instant)
    return instant + low, instant + high


Span = tuple[int, int]
"""Earliest and latest moment, in nanoseconds; the same when the moment is certain."""

_SPECIAL_WORDS = frozenset(
    {"now", "today", "tomorrow", "yesterday", "epoch", "infinity", "-infinity", "+infinity", "inf", "-inf"}
)


def coerce_temporal(column: pa.DataType, literal: Literal, semantics: Semantics) -> Coerced:
    """Coerce a date or timestamp literal (not NULL) to a date or timestamp column."""
    moment = _moment(literal)
    if is_instant(literal.type):
        span = (moment, moment) if is_instant(column) else _walls(moment, semantics)
    else:
        span = _instants_beside(column, moment, semantics) if is_instant(column) else (moment, moment)
    return _point(column, span, semantics)


def coerce_session_timestamp(column: pa.DataType, literal: Literal, semantics: Semantics) -> Coerced:
    """Coerce an instant that is written as the session's wall clock, such as Spark's `TIMESTAMP '…'`.

    `literal` is a naive timestamp or a date. Against a naive column the engine converts the column's values to
    instants by the session's zone, so their order is that of wall clocks only where no clock changes nearby.
    """
    moment = _moment(literal)
    low, high = _instants(moment, semantics)
    if not is_instant(column):
        low, high = _walls(low, semantics)[0], _walls(high, semantics)[1]
    return _point(column, (low, high), semantics)


def coerce_iso_text(column: pa.DataType, text: str, semantics: Semantics) -> Coerced:
    """Coerce a string literal that the engine casts to the date or timestamp column's type."""
    traits = semantics.traits
    if traits.text_coercion is TextCoercion.REFUSED:
        return NotComparable(f"{traits.title} does not compare text with dates or timestamps", mismatch=True)
    if traits.text_coercion is TextCoercion.UNCERTAIN:
        return NotComparable(f"what {traits.title} makes of text beside dates or timestamps is not known")
    iso = parse_iso(text)
    if iso is None:
        readable = any(character.isdigit() for character in text) or text.strip().lower() in _SPECIAL_WORDS
        return NotComparable("the text is not a plain ISO date or timestamp", mismatch=not readable)
    if pa.types.is_date(column):
        if iso.has_time:
            return NotComparable("engines differ about a date with a time of day")
        return Point(iso.wall // DAY, iso.wall // DAY)
    if iso.wall % nanoseconds(unit_of(column)):
        return NotComparable("the text has more digits than the column keeps")
    if not is_instant(column):
        if iso.offset is not None:
            return NotComparable("engines differ about an offset in the text of a timestamp without zone")
        return _point(column, (iso.wall, iso.wall), semantics)
    if iso.offset is not None:
        return _point(column, (iso.wall - iso.offset, iso.wall - iso.offset), semantics)
    return _point(column, _instants(iso.wall, semantics), semantics)


def _moment(literal: Literal) -> int:
    """Nanoseconds since 1970 of a date (midnight) or timestamp literal."""
    value = literal.value
    if isinstance(value, datetime.date):
        return day_number(value) * DAY
    assert isinstance(value, int)  # LiteralValue's table
    return value * (DAY if pa.types.is_date(literal.type) else nanoseconds(unit_of(literal.type)))


def _instants(wall: int, semantics: Semantics) -> Span:
    low, high = instants_of_wall(wall, semantics.zone)
    if not semantics.traits.session_zone_makes_instants:
        return min(low, wall - WIDEST_OFFSET), max(high, wall + WIDEST_OFFSET)
    return low, high


def _instants_beside(column: pa.DataType, wall: int, semantics: Semantics) -> Span:
    low, high = _instants(wall, semantics)
    if semantics.traits.takes_nanoseconds_for_utc and unit_of(column) == "ns":
        return min(low, wall), max(high, wall)
    return low, high


def _walls(instant: int, semantics: Semantics) -> Span:
    low, high = walls_of_instant(instant, semantics.zone)
    if not semantics.traits.session_zone_makes_wall_clocks:
        return min(low, instant - WIDEST_OFFSET), max(high, instant + WIDEST_OFFSET)
    return low, high


def _point(column: pa.DataType, span: Span, semantics: Semantics) -> Point:
    """The point in the column's days or units: if certain, rounded inward, so nothing equals what is between two."""
    low, high = span
    unit = DAY if pa.types.is_date(column) else nanoseconds(unit_of(column))
    read_unit = semantics.timestamp_unit
    if read_unit is not None and pa.types.is_timestamp(column) and nanoseconds(read_unit) > unit:
        low, high = low - nanoseconds(read_unit), high + nanoseconds(read_unit)
    first, last = -(-low // unit), high // unit
    return Point(first, last, exact=low == high or first > last)
