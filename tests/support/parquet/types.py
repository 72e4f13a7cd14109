"""Writes Parquet files of types that no writer at hand writes: annotations are put in, taken out or changed.

A column is the only one of its file, `x`, unless its array is a struct. What a footer says of a column's type is told
by parquet-format's names: a converted type by its number's name, a logical type by its field in the union.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.parquet.footers import BYTE, FALSE, I32, SCHEMA, STRUCT, TRUE, Struct, edit_footer

# Fields of SchemaElement.
_NAME, _CONVERTED, _LOGICAL = 4, 6, 10

_NAMES = """
UTF8 MAP MAP_KEY_VALUE LIST ENUM DECIMAL DATE TIME_MILLIS TIME_MICROS TIMESTAMP_MILLIS TIMESTAMP_MICROS
UINT_8 UINT_16 UINT_32 UINT_64 INT_8 INT_16 INT_32 INT_64 JSON BSON INTERVAL
"""
CONVERTED = {name: number for number, name in enumerate(_NAMES.split())}
"""Number of each converted type."""

LOGICAL = {
    "String": 1,
    "Enum": 4,
    "Date": 6,
    "JSON": 12,
    "BSON": 13,
    "UUID": 14,
    "Float16": 15,
    "Variant": 16,
}
"""Field of each logical type without parameters in the union of them."""


def int96(path: Path, values: pa.Array) -> Path:
    """Write timestamps as INT96; those of microseconds may lie beyond the years of nanoseconds."""
    pq.write_table(pa.table({"x": values}), path, use_deprecated_int96_timestamps=True, store_schema=False)
    return path


def plain(path: Path, values: pa.Array) -> Path:
    """Write a file as pyarrow writes it, without Arrow's own schema."""
    pq.write_table(pa.table({"x": values}), path, store_schema=False)
    return path


def converted_only(path: Path, values: pa.Array, column: str = "x") -> Path:
    """Write a file in the way of old writers: converted types alone."""
    return without_logical_type(plain(path, values), column)


def without_logical_type(path: Path, column: str) -> Path:
    """Leave the converted type alone to the columns and fields of this name in a file."""
    return _edited(path, column, lambda element: element.pop(_LOGICAL, None))


def logical_only(path: Path, values: pa.Array, column: str = "x") -> Path:
    """Write a file with logical types alone, against the specification."""
    return _edited(plain(path, values), column, lambda element: element.pop(_CONVERTED, None))


def converted(path: Path, values: pa.Array, name: str, column: str = "x") -> Path:
    """Write a file whose column has this converted type alone, whether its values fit it or not."""

    def edit(element: Struct) -> None:
        element.pop(_LOGICAL, None)
        element[_CONVERTED] = (I32, CONVERTED[name])

    return _edited(plain(path, values), column, edit)


def logical(path: Path, values: pa.Array, name: str, column: str = "x") -> Path:
    """Write a file whose column, or struct, has this logical type alone."""

    def edit(element: Struct) -> None:
        element.pop(_CONVERTED, None)
        element[_LOGICAL] = (STRUCT, {LOGICAL[name]: (STRUCT, {})})

    return _edited(plain(path, values), column, edit)


def times(path: Path, values: pa.Array, column: str = "x", *, adjusted: bool = True) -> Path:
    """Write times of day of milliseconds or microseconds, adjusted to UTC or said not to be, with a logical type."""
    kind: Any = values.type.field(0).type if pa.types.is_struct(values.type) else values.type

    def edit(element: Struct) -> None:
        unit = (STRUCT, {{"ms": 1, "us": 2, "ns": 3}[kind.unit]: (STRUCT, {})})
        element[_LOGICAL] = (STRUCT, {7: (STRUCT, {1: (TRUE if adjusted else FALSE, adjusted), 2: unit})})

    return _edited(plain(path, values), column, edit)


def contradicting(path: Path, values: pa.Array, name: str, bits: int) -> Path:
    """Write a file whose column has a converted type and, as logical type, signed integers of other bits."""

    def edit(element: Struct) -> None:
        element[_CONVERTED] = (I32, CONVERTED[name])
        element[_LOGICAL] = (STRUCT, {10: (STRUCT, {1: (BYTE, bits), 2: (TRUE, True)})})

    return _edited(plain(path, values), "x", edit)


def decimals(path: Path, values: pa.Array, precision: int) -> Path:
    """Write bytes as decimals without fractions and without statistics, whether they fit the precision or not."""
    pq.write_table(pa.table({"x": values}), path, store_schema=False, write_statistics=False)

    def edit(element: Struct) -> None:
        element.update({_CONVERTED: (I32, CONVERTED["DECIMAL"]), 7: (I32, 0), 8: (I32, precision)})
        element[_LOGICAL] = (STRUCT, {5: (STRUCT, {1: (I32, 0), 2: (I32, precision)})})

    return _edited(path, "x", edit)


def _edited(path: Path, column: str, change: Callable[[Struct], Any]) -> Path:
    def edit(footer: Struct) -> None:
        for element in footer[SCHEMA][1][1]:
            if element[_NAME][1] == column.encode():
                change(element)

    return edit_footer(path, edit)
