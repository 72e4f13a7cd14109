"""Partition transforms: what a partition value implies for the source column in every row of a file.

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
"""Upper bound of the days from 1970 to a date with a four-digit year; as microseconds a few seconds."""

_MOST_HOURS: Final = 2**32 - 2**63 // _HOUR_MICROS - 1
"""Hours from 1970 up to which a 32-bit number is unambiguous: microseconds cover more hours than 32 bits do."""

_GREATEST: Final = (2**31 - 1, 2**63 - 1)
"""The greatest int and long; what was written as an int is read as a long after a promotion."""

_PERIODS: Final = ("year", "month", "day", "hour")

NO_UTF8: Final = "\ufffd"
"""The character that marks a string with bytes that are not UTF-8."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The lower and upper bound of a column in a file; None for an unknown bound.

    Values are as manifests store them: days, microseconds, unscaled decimals. `upper_is_open` means that the upper
    bound is exclusive. `is_null` means that every value is NULL; otherwise none is.
    """

    lower: Any = None
    upper: Any = None
    upper_is_open: bool = False
    is_null: bool = False


def bucket_count(transform: str) -> int | None:
    """The number of buckets of a `bucket[N]`; None for another transform."""
    match = _BUCKET.fullmatch(transform)
    return int(match[1]) if match else None


def bucket_of(value: bool | int | float | bytes, type_: pa.DataType, count: int) -> int | None:
    """Return the bucket of a value.

    Args:
        value: in the column's storage domain: days, microseconds, unscaled decimals, bytes.
        type_: the column's Arrow type.
        count: the number of buckets.

    Returns:
        None for a type that has no hash.
    """
    stored: bytes
    if hash_kind(type_) == "bytes" and isinstance(value, bytes):
        stored = value
    elif hash_kind(type_) == "decimal" and isinstance(value, int):
        # The fewest bytes that hold it with its sign, at least one.
        bits = (value if value >= 0 else -value - 1).bit_length()
        stored = value.to_bytes(bits // 8 + 1, "big", signed=True)
    elif hash_kind(type_) is not None and isinstance(value, int) and -(1 << 63) <= value < 1 << 63:
        stored = value.to_bytes(8, "little", signed=True)
    else:
        return None
    return (_murmur3(stored) & 0x7FFFFFFF) % count


def hash_kind(type_: pa.DataType) -> str | None:
    """The kind of a type's hash: types of one kind have the same hash for the same value; None without a hash."""
    types = pa.types
    if types.is_string(type_) or types.is_binary(type_) or types.is_fixed_size_binary(type_):
        return "bytes"
    if isinstance(type_, pa.UuidType):
        return "bytes"
    if types.is_decimal128(type_):
        return "decimal"
    if types.is_integer(type_):
        return "number"
    return (
        str(type_) if types.is_date32(type_) or types.is_time64(type_) or types.is_timestamp(type_) else None
    )


def _murmur3(data: bytes) -> int:
    """The 32-bit hash of MurmurHash3 for x86 with seed 0 (specification, appendix B)."""
    mask = 0xFFFFFFFF
    state = 0
    whole = len(data) & ~3
    for at in range(0, len(data), 4):
        word = int.from_bytes(data[at : at + 4], "little") * 0xCC9E2D51 & mask
        state ^= ((word << 15 | word >> 17) & mask) * 0x1B873593 & mask
        if at < whole:
            state = ((state << 13 | state >> 19) & mask) * 5 + 0xE6546B64 & mask
    state ^= len(data)
    state = (state ^ state >> 16) * 0x85EBCA6B & mask
    state = (state ^ state >> 13) * 0xC2B2AE35 & mask
    return state ^ state >> 16


def extent_of(transform: str, value: Any, type_: pa.DataType) -> Extent | None:
    """Return what the value of a transform implies for its source column.

    Args:
        transform: as named in the partition spec.
        value: from the partition tuple, as Avro stores it; None for NULL.
        type_: the column's Arrow type.

    Returns:
        None where it implies nothing: `void`, an unknown transform, or a value of the wrong type.
    """
    known = _known(transform)
    if known is None:
        return None
    if value is None:
        return Extent(is_null=True)
    if isinstance(value, str) and NO_UTF8 in value:
        return Extent()
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
    """The value itself, unless it is a timestamp so small that it may be the days of a date that was promoted since."""
    if pa.types.is_timestamp(type_) and abs(value) <= _MOST_DAYS:
        return Extent()
    return Extent(value, value)


def _period(transform: str, value: Any, type_: pa.DataType) -> Extent | None:
    """The dates or timestamps of a year, month, day or hour.

    Older writers rounded times before 1970 towards zero, so a value of zero or below may also be of the period before
    (Iceberg's own projections allow for it: `ProjectionUtil.fixInclusiveTimeProjection`). ClickHouse wrote zero for
    all years, months and days before 1970 (ClickHouse#118583).
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
    unit = 1 if pa.types.is_date32(type_) else _DAY_MICROS
    if unit == 1 or pa.types.is_timestamp(type_):
        return Extent(begin * unit if value else None, end * unit - 1)
    return None


def _first_day(transform: str, value: int) -> int | None:
    """The first day of a year, month or day since 1970, in days since then; None outside Python's calendar."""
    if transform == "day":
        return value
    months = value if transform == "month" else value * 12
    year, month = 1970 + months // 12, months % 12 + 1
    return (date(year, month, 1) - _EPOCH).days if 1 <= year <= _LAST_YEAR else None


def _truncated(width: int, value: Any, type_: pa.DataType) -> Extent | None:
    types = pa.types
    if isinstance(value, int) and types.is_integer(type_):
        last = value + width - 1
        # Java's arithmetic wraps: the smallest values of a type are in the partition of the greatest ones.
        may_have_wrapped = any(value <= greatest < last for greatest in _GREATEST)
        return Extent() if may_have_wrapped else Extent(value, last)
    if isinstance(value, bytes) and types.is_decimal128(type_):
        unscaled = int.from_bytes(value, "big", signed=True)
        return Extent(unscaled, unscaled + width - 1)
    if isinstance(value, str) and types.is_string(type_):
        if _may_be_cut(value, width):
            return Extent(value, next_prefix(value), upper_is_open=True)
        return Extent(value, value)
    if isinstance(value, bytes) and types.is_binary(type_):
        return Extent(value, value) if len(value) < width else Extent(value)
    return None


def _may_be_cut(text: str, width: int) -> bool:
    """Tell whether a string may have been truncated.

    The width counts characters. Some writers counted bytes (iceberg-go#1222) or UTF-16 code units (iceberg#293).
    """
    return len(text) >= width or width in (len(text.encode()), len(text.encode("utf-16-le")) // 2)


def next_prefix(text: str) -> str | None:
    """The smallest string, in UTF-8 order, greater than all that begin with `text`; None where there is none."""
    for at in range(len(text) - 1, -1, -1):
        code = ord(text[at]) + 1
        if code == 0xD800:
            code = 0xE000
        if code <= 0x10FFFF:
            return text[:at] + chr(code)
    return None
