"""Partition transforms: what the value of one says of the source column of every row of a file.

Source: the Iceberg table specification, "Partition Transforms" and appendix B (hashes).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable

_TRUNCATE: Final = re.compile(r"truncate\[(\d{1,9})\]")
_BUCKET: Final = re.compile(r"bucket\[(\d{1,9})\]")
_EPOCH: Final = date(1970, 1, 1)
_DAY_MICROS: Final = 86_400_000_000
_HOUR_MICROS: Final = 3_600_000_000
_LAST_YEAR: Final = 9999
_MOST_DAYS: Final = 3_700_000
"""Days from 1970 to any date of four digits; as microseconds a few seconds."""

_MOST_HOURS: Final = 2**32 - 2**63 // _HOUR_MICROS - 1
"""Hours from 1970 up to which a number of 32 bits is what it says: microseconds reach further than those."""

_GREATEST: Final = (2**31 - 1, 2**63 - 1)
"""Of integers and longs; what was written for the first is read for the second after a promotion."""

_PERIODS: Final = ("year", "month", "day", "hour")


@dataclass(frozen=True, slots=True)
class Extent:
    """What is known of a column in a file: the least and the greatest value there can be; None for not known.

    Values are as manifests store them: days, microseconds, unscaled decimals. `upper_is_open` tells that the greatest
    one itself is not among them. `is_null` tells that every value is NULL, and otherwise none is.
    """

    lower: Any = None
    upper: Any = None
    upper_is_open: bool = False
    is_null: bool = False


def bucket_count(transform: str) -> int | None:
    """The number of buckets of a `bucket[N]`; None for another transform."""
    found = _BUCKET.fullmatch(transform)
    return int(found[1]) if found else None


def extent_of(transform: str, value: Any, type_: pa.DataType) -> Extent | None:
    """Return what the value of a transform says of the column that it is made of.

    Args:
        transform: as the spec names it.
        value: of the partition tuple, as Avro stores it; None for NULL.
        type_: the column's Arrow type.

    Returns:
        None where it says nothing: `void`, a transform that is not known, or a value that is none of its type.
    """
    known = _known(transform)
    if known is None:
        return None
    if value is None:
        return Extent(is_null=True)
    return known(value, type_)


def _known(transform: str) -> Callable[[Any, pa.DataType], Extent | None] | None:
    if transform == "identity":
        return _identity
    if transform in _PERIODS:
        return lambda value, type_: _period(transform, value, type_)
    if _BUCKET.fullmatch(transform):
        return lambda value, type_: Extent()
    width = _TRUNCATE.fullmatch(transform)
    return None if width is None else lambda value, type_: _truncated(int(width[1]), value, type_)


def _identity(value: Any, type_: pa.DataType) -> Extent | None:
    """The value itself; not a number so small that it may be days, of a date that became a timestamp since."""
    if pa.types.is_timestamp(type_) and abs(value) <= _MOST_DAYS:
        return Extent()
    return Extent(value, value)


def _period(transform: str, value: Any, type_: pa.DataType) -> Extent | None:
    """The dates or moments of a year, month, day or hour.

    Older writers rounded what lies before 1970 towards zero, so a value of zero or below may be of the period before,
    too (Iceberg's own projections reckon with it: `ProjectionUtil.fixInclusiveTimeProjection`).
    """
    if not isinstance(value, int):
        return None
    first, last = value - (value <= 0), value + 1
    if transform == "hour":
        if not pa.types.is_timestamp(type_):
            return None
        if abs(value) >= _MOST_HOURS:
            return Extent()
        return Extent(first * _HOUR_MICROS, last * _HOUR_MICROS - 1)
    begin, end = _first_day(transform, first), _first_day(transform, last)
    if begin is None or end is None:
        return Extent()
    if pa.types.is_date32(type_):
        return Extent(begin, end - 1)
    if pa.types.is_timestamp(type_):
        return Extent(begin * _DAY_MICROS, end * _DAY_MICROS - 1)
    return None


def _first_day(transform: str, value: int) -> int | None:
    """The first day of a year, month or day since 1970, in days since then; None beyond the calendar of Python."""
    if transform == "day":
        return value
    months = value if transform == "month" else value * 12
    year, month = 1970 + months // 12, months % 12 + 1
    return (date(year, month, 1) - _EPOCH).days if 1 <= year <= _LAST_YEAR else None


def _truncated(width: int, value: Any, type_: pa.DataType) -> Extent | None:
    types = pa.types
    if isinstance(value, int) and types.is_integer(type_):
        last = value + width - 1
        # Java goes over the end of a type: the least values of it are in the partition of the greatest ones.
        may_have_wrapped = any(value <= greatest < last for greatest in _GREATEST)
        return Extent() if may_have_wrapped else Extent(value, last)
    if isinstance(value, bytes) and types.is_decimal128(type_):
        unscaled = int.from_bytes(value, "big", signed=True)
        return Extent(unscaled, unscaled + width - 1)
    if isinstance(value, str) and types.is_string(type_):
        # A text that is shorter than the width was not cut.
        if len(value) < width:
            return Extent(value, value)
        return Extent(value, next_prefix(value), upper_is_open=True)
    if isinstance(value, bytes) and types.is_binary(type_):
        return Extent(value, value) if len(value) < width else Extent(value)
    return None


def next_prefix(text: str) -> str | None:
    """The least text, by UTF-8, that is greater than all that begin with `text`; None where there is none."""
    for at in range(len(text) - 1, -1, -1):
        code = ord(text[at]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return text[:at] + chr(code)
    return None
