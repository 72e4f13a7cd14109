"""Date, timestamp and string literals against date and timestamp columns.

A naive timestamp (wall clock) meets an instant through the session's zone. Where the zone is not known, or
clocks change nearby, the point covers every moment that may be meant and is not exact. Engines disagree about
what a column without a zone is: Trino's Hive connector shows stored instants as UTC wall clocks whatever the
session's zone, and Spark reads naive files as instants below 3.4 or when told so. There a conversion is
always widened by the widest offset.
"""

from __future__ import annotations

import datetime

import pyarrow as pa

from pruner.expr.bound.predicates import Coerced, NotComparable, Point
from pruner.expr.engines import TextCoercion
from pruner.expr.exact.clock import (
    DAY,
    WIDEST_OFFSET,
    day_number,
    instants_of_wall,
    nanoseconds,
    parse_iso,
    walls_of_instant,
)
from pruner.expr.nodes import Literal
from pruner.expr.semantics import Semantics
from pruner.expr.types import is_instant, unit_of

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
    """Coerce an instant that is written as the session's wall clock, as Spark's `TIMESTAMP '…'` is.

    `literal` is a naive timestamp or a date. Against a naive column the engine turns the column's values into
    instants by the session's zone, so there the order is that of wall clocks only where no clock changes
    nearby.
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
    """The point in the column's days or units: rounded inward when certain, so that no value equals what lies
    between two.
    """
    low, high = span
    unit = DAY if pa.types.is_date(column) else nanoseconds(unit_of(column))
    read_unit = semantics.timestamp_unit
    if read_unit is not None and pa.types.is_timestamp(column) and nanoseconds(read_unit) > unit:
        low, high = low - nanoseconds(read_unit), high + nanoseconds(read_unit)
    first, last = -(-low // unit), high // unit
    return Point(first, last, exact=low == high or first > last)
