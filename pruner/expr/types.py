"""What predicates need to know about Arrow types: their families, digits and units, in one typed module."""

from __future__ import annotations

from typing import Any, cast
from typing import Literal as OneOf

import pyarrow as pa

Unit = OneOf["s", "ms", "us", "ns"]


def is_string(data_type: pa.DataType) -> bool:
    """Tell whether values are text, stored as UTF-8."""
    types = pa.types
    return types.is_string(data_type) or types.is_large_string(data_type) or types.is_string_view(data_type)


def is_binary(data_type: pa.DataType) -> bool:
    """Tell whether values are bytes."""
    return (
        pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
        or pa.types.is_fixed_size_binary(data_type)
        or pa.types.is_binary_view(data_type)
    )


def is_number(data_type: pa.DataType) -> bool:
    """Tell whether values are integers, decimals, floats or doubles."""
    return (
        pa.types.is_integer(data_type)
        or pa.types.is_decimal(data_type)
        or pa.types.is_float32(data_type)
        or pa.types.is_float64(data_type)
    )


def is_temporal(data_type: pa.DataType) -> bool:
    """Tell whether the type is a date or a timestamp, with or without zone."""
    return pa.types.is_date(data_type) or pa.types.is_timestamp(data_type)


def is_time(data_type: pa.DataType) -> bool:
    """Tell whether values are times of day."""
    return pa.types.is_time(data_type)


def is_written_one_way(data_type: pa.DataType) -> bool:
    """Tell whether each value of a type, except floating-point zeros and NaN, is stored and shown in only one way.

    Decimals and unsigned integers are left out: writers and readers have represented them in too many ways.
    """
    types = pa.types
    return (
        types.is_boolean(data_type)
        or types.is_signed_integer(data_type)
        or types.is_float32(data_type)
        or types.is_float64(data_type)
        or types.is_date32(data_type)
        or types.is_timestamp(data_type)
        or is_time(data_type)
        or is_string(data_type)
    )


def is_uuid(data_type: pa.DataType) -> bool:
    """Tell whether values are UUIDs, which are 16 bytes in storage, compared unsigned."""
    return isinstance(data_type, pa.UuidType)


def is_bytes(data_type: pa.DataType) -> bool:
    """Tell whether values are bytes, UUIDs among them."""
    return is_binary(data_type) or is_uuid(data_type)


def is_instant(data_type: pa.DataType) -> bool:
    """Tell whether values are moments in UTC rather than readings of a wall clock."""
    return pa.types.is_timestamp(data_type) and cast(Any, data_type).tz is not None


def is_naive_timestamp(data_type: pa.DataType) -> bool:
    """Tell whether values are readings of a wall clock."""
    return pa.types.is_timestamp(data_type) and cast(Any, data_type).tz is None


def decimal_digits(data_type: pa.DataType) -> tuple[int, int]:
    """Precision and scale of a decimal type."""
    decimal = cast(Any, data_type)
    return decimal.precision, decimal.scale


def unit_of(data_type: pa.DataType) -> Unit:
    """The unit of a timestamp type, or of a type of times of day."""
    return cast(Any, data_type).unit


def timestamp(unit: Unit, *, instant: bool) -> pa.DataType:
    """A timestamp type, in UTC or of the wall clock."""
    return pa.timestamp(unit, "UTC") if instant else pa.timestamp(unit)


def integer_range(data_type: pa.DataType) -> tuple[int, int]:
    """The smallest and largest value of an integer type."""
    bits = data_type.bit_width
    if pa.types.is_unsigned_integer(data_type):
        return 0, 2**bits - 1
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def integer_digits(data_type: pa.DataType) -> int:
    """Decimal digits that an engine reserves for an integer type; Spark reserves 20 for 64 bits, so all get them."""
    return {8: 3, 16: 5, 32: 10, 64: 20}[data_type.bit_width]
