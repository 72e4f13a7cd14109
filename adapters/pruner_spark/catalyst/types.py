"""Catalyst's types, as `DataType.json` writes them, and Arrow's."""

from __future__ import annotations

import re
from typing import Any, Final

import pyarrow as pa

from pruner.expr.types import decimal_digits, is_binary, is_instant, is_string, unit_of

INSTANT: Final = pa.timestamp("us", "UTC")
NAIVE: Final = pa.timestamp("us")

_PLAIN: Final[dict[str, pa.DataType]] = {
    "void": pa.null(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": INSTANT,
    "timestamp_ntz": NAIVE,
}
_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)", re.ASCII)
_UNSIGNED: Final[dict[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}


def arrow_type(described: Any) -> pa.DataType | None:
    """Return the Arrow type of a Catalyst type; None for one that predicates are never decided on.

    A name that says more than the type's (a collation, a length) is not the plain type and gives None.
    """
    if not isinstance(described, str):
        return None  # structs, arrays, maps, user-defined types
    plain = _PLAIN.get(described)
    if plain is not None:
        return plain
    match = _DECIMAL.fullmatch(described)
    if match is None:
        return None
    precision, scale = int(match[1]), int(match[2])
    return pa.decimal128(precision, scale) if 1 <= precision <= 38 and 0 <= scale <= precision else None


def is_read_as(stored: pa.DataType, read: pa.DataType) -> bool:
    """Tell whether Spark, asked for `read`, reads the very values of a column that the table's schema has as `stored`.

    Timestamps count whatever their unit and zone: how an instant meets a wall clock is settled in `pruner.expr`.
    """
    if pa.types.is_timestamp(stored):
        # Below microseconds there is INT96 alone, which Spark always reads as an instant.
        return pa.types.is_timestamp(read) and (unit_of(stored) != "ns" or is_instant(read))
    if is_string(stored):
        return is_string(read)
    if is_binary(stored):
        return is_binary(read)
    if pa.types.is_decimal(stored):
        return pa.types.is_decimal(read) and decimal_digits(stored) == decimal_digits(read)
    return _UNSIGNED.get(stored, stored) == read
