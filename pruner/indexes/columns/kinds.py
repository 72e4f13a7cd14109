"""The types that column statistics support, and which file types may represent which table types (rule R7).

| kind | table types | bounds are kept as |
|---|---|---|
| integer | boolean, int8 to int64, uint8 to uint32, date (days), timestamp, time (in the file's unit) | int64 |
| decimal | uint64; decimal up to 38 digits, unscaled | decimal128(38, 0) |
| float | half-precision floating point, float, double | double |
| bytes | string (UTF-8), binary, UUID | binary |
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

import pyarrow as pa

from pruner.arrow import arrow
from pruner.expr.types import is_uuid

INT96 = "int96"
"""Type text of the deprecated timestamps, recorded in microseconds."""

_UNIT_NANOS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_LARGEST_DECIMAL = 38


class BoundsKind(Enum):
    """Which columns of the records hold the bounds of a type."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    BYTES = "bytes"


_INTEGERS = (pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32())
_MOMENTS = (pa.date32(), pa.date64(), pa.timestamp("us"), pa.time32("ms"), pa.time64("us"))
_TEXTS = (pa.string(), pa.large_string(), pa.string_view())
_BINARIES = (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(16))
_TYPES: dict[BoundsKind, tuple[pa.DataType, ...]] = {
    BoundsKind.INTEGER: (pa.bool_(), *_INTEGERS, *_MOMENTS),
    BoundsKind.DECIMAL: (pa.uint64(), pa.decimal128(_LARGEST_DECIMAL)),
    BoundsKind.FLOAT: (pa.float16(), pa.float32(), pa.float64()),
    BoundsKind.BYTES: (*_TEXTS, *_BINARIES),
}
"""One type for each that Arrow distinguishes; units, zones and digits do not matter here."""

_KINDS: dict[int, BoundsKind] = {type_.id: kind for kind, types in _TYPES.items() for type_ in types}
"""By Arrow's type id, whatever the parameters: this is looked up for each column of each file."""


def kind_of(type_: pa.DataType) -> BoundsKind | None:
    """Return the kind of a type; None if column statistics do not support it."""
    kind = _KINDS.get(type_.id)
    return BoundsKind.BYTES if kind is None and is_uuid(type_) else kind


def is_text(type_: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's string types."""
    types = pa.types
    return types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)


def is_binary(type_: pa.DataType) -> bool:
    """Tell whether a type is one of Arrow's binary types, or that of UUIDs, which are stored as 16 bytes."""
    types = pa.types
    return (
        types.is_binary(type_)
        or types.is_large_binary(type_)
        or types.is_binary_view(type_)
        or types.is_fixed_size_binary(type_)
        or is_uuid(type_)
    )


@dataclass(frozen=True, slots=True)
class Conversion:
    """How bounds in a file's domain become bounds in the table's.

    Values are multiplied by `factor` and divided by `divisor`, minima rounded down and maxima up. With `to_float`,
    integers become doubles, rounded likewise. `spread` is added to maxima after the multiplication: a truncated value
    (nanoseconds of INT96) may be that much higher.
    """

    factor: int = 1
    divisor: int = 1
    spread: int = 0
    to_float: bool = False


_SAME = Conversion()


@lru_cache(maxsize=4096)
def conversion(file_type: str, table_type: pa.DataType) -> Conversion | None:
    """Return how bounds of a file type convert to a table type; None if they do not.

    The table is closed: any pair not listed is unknown, whatever an engine may make of it.

    | file | table | |
    |---|---|---|
    | T | T, Arrow's variants of one type counting as one | unchanged |
    | integer | integer that holds all its values | unchanged |
    | integer | double | rounded outward; engines compare the rounded value |
    | half-precision floating point | float | unchanged |
    | decimal(p, s) | decimal with no fewer digits on either side of the point | rescaled exactly |
    | timestamp of a unit, INT96 | timestamp of a finer unit, or of microseconds | rescaled, rounded outward |
    | no values (Parquet's null type) | any | all NULL |

    The numbers of timestamps are the same with and without zone; whether they mean the same to the asking engine is
    decided for each question (`pruner.indexes.columns.reading`).
    """
    types = pa.types
    if file_type == INT96:
        return _timestamps("us", table_type.unit, spread=1) if types.is_timestamp(table_type) else None
    file = parse_type(file_type)
    if file is None:
        return None
    if types.is_null(file) or file.equals(table_type):
        return _SAME
    if types.is_integer(file) and types.is_integer(table_type):
        return _SAME if _holds(table_type, file) else None
    if types.is_integer(file) and types.is_float64(table_type):
        return Conversion(to_float=True)
    if types.is_float16(file) and types.is_float32(table_type):
        return _SAME
    if types.is_decimal(file) and types.is_decimal128(table_type):
        digits = table_type.scale - file.scale
        fits = digits >= 0 and table_type.precision - table_type.scale >= file.precision - file.scale
        return Conversion(factor=10**digits) if fits else None
    if types.is_timestamp(file) and types.is_timestamp(table_type):
        return _timestamps(file.unit, table_type.unit, spread=0)
    alike = (is_text(file) and is_text(table_type)) or (is_binary(file) and is_binary(table_type))
    return _SAME if alike or (types.is_date(file) and types.is_date(table_type)) else None


def _timestamps(file_unit: str, table_unit: str, spread: int) -> Conversion | None:
    file, table = _UNIT_NANOS[file_unit], _UNIT_NANOS[table_unit]
    if table > max(file, _UNIT_NANOS["us"]):
        return None  # only Hudi's tables of milliseconds: engines relabel such values, or show them as they are (S12)
    factor = max(1, file // table)
    return Conversion(factor, max(1, table // file), spread * (factor - 1))


def _holds(table: pa.DataType, file: pa.DataType) -> bool:
    types = pa.types
    if types.is_signed_integer(table) == types.is_signed_integer(file):
        return table.bit_width >= file.bit_width
    return types.is_signed_integer(table) and table.bit_width > file.bit_width


_PARAMETRIC = re.compile(r"(decimal128|timestamp|time32|time64|fixed_size_binary)[\[(]([^\])]*)[\])]")


@lru_cache(maxsize=4096)
def parse_type(text: str) -> pa.DataType | None:
    """Return the Arrow type that `str` wrote as `text`; None if it is not supported."""
    match = _PARAMETRIC.fullmatch(text)
    try:
        if match is None:
            return arrow.type_for_alias("date32" if text == "date32[day]" else text)
        name, arguments = match[1], [part.strip() for part in match[2].split(",")]
        match name:
            case "decimal128":
                return pa.decimal128(int(arguments[0]), int(arguments[1]))
            case "timestamp":
                zone = arguments[1].removeprefix("tz=") if len(arguments) > 1 else None
                return arrow.timestamp(arguments[0], zone)
            case "time32":
                return arrow.time32(arguments[0])
            case "time64":
                return arrow.time64(arguments[0])
            case _:
                return pa.binary(int(arguments[0]))
    except (ValueError, IndexError):
        return None
