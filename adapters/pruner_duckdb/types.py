"""Conversion between DuckDB's types and Arrow's, in both directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa

from pruner.expr.types import is_binary, unit_of

if TYPE_CHECKING:
    from collections.abc import Callable

_SQL_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "BOOLEAN",
    pa.int8(): "TINYINT",
    pa.int16(): "SMALLINT",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint8(): "UTINYINT",
    pa.uint16(): "USMALLINT",
    pa.uint32(): "UINTEGER",
    pa.uint64(): "UBIGINT",
    pa.float16(): "FLOAT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.date32(): "DATE",
    pa.date64(): "DATE",
    pa.uuid(): "UUID",
    pa.null(): "INTEGER",  # as DuckDB itself reads a column without a type
}

_ARROW_TYPES: dict[str, pa.DataType] = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "HUGEINT": pa.decimal128(38, 0),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP_S": pa.timestamp("s"),
    "TIMESTAMP_MS": pa.timestamp("ms"),
    "TIMESTAMP_NS": pa.timestamp("ns"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
    "TIME": pa.time64("us"),
    "TIME_NS": pa.time64("ns"),
    "UUID": pa.uuid(),
    "INTERVAL": pa.month_day_nano_interval(),
    "NULL": pa.null(),
}


JSON = "JSON"

_GLOB_SIGNS = str.maketrans({"*": "[*]", "?": "[?]", "[": "[[]"})


def is_remote(uri: str) -> bool:
    """Tell whether a URI is in an object store."""
    return "://" in uri and not uri.startswith("file://")


def file_name(uri: str) -> str:
    """Return a file's URI in the form that DuckDB needs: local ones as paths, glob characters escaped."""
    path = uri.removeprefix("file://")
    # Few names have such a character, and the check takes a twentieth of the time of `translate`.
    return path.translate(_GLOB_SIGNS) if "*" in path or "?" in path or "[" in path else path


READ_PARQUET = "system.main.read_parquet"
"""The fully qualified name, so that no macro of the user can replace it."""


def quote(identifier: str) -> str:
    """Return an identifier in double quotes, as DuckDB's SQL requires."""
    return '"' + identifier.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Return a string literal of DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"


def sql_type(data_type: pa.DataType) -> str | None:
    """Return the DuckDB type that can hold every value of an Arrow type; None if there is none."""
    named = _SQL_NAMES.get(data_type)
    if named is not None:
        return named
    if (
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_string_view(data_type)
    ):
        return "VARCHAR"
    if is_binary(data_type):
        return "BLOB"
    if (
        pa.types.is_decimal(data_type)
        and data_type.precision <= 38
        and 0 <= data_type.scale <= data_type.precision
    ):
        return f"DECIMAL({data_type.precision}, {data_type.scale})"
    if pa.types.is_timestamp(data_type):
        if data_type.tz is not None:
            return "TIMESTAMPTZ"
        # DuckDB reads Parquet's milliseconds as microseconds.
        return "TIMESTAMP_NS" if data_type.unit == "ns" else "TIMESTAMP"
    if pa.types.is_time(data_type):
        return "TIME_NS" if unit_of(data_type) == "ns" else "TIME"
    return nested_type(data_type, sql_type)


def nested_type(data_type: pa.DataType, inner: Callable[[pa.DataType], str | None]) -> str | None:
    """Return the DuckDB type of a type that contains others; None if there is none.

    Args:
        data_type: a list, map, struct or dictionary.
        inner: returns the DuckDB type of a contained type; called in the order in which Parquet stores them.
    """
    if pa.types.is_dictionary(data_type):
        return inner(data_type.value_type)
    if (
        pa.types.is_list(data_type)
        or pa.types.is_large_list(data_type)
        or pa.types.is_fixed_size_list(data_type)
    ):
        item = inner(data_type.value_type)
        return None if item is None else f"{item}[]"
    if pa.types.is_map(data_type):
        key, value = inner(data_type.key_type), inner(data_type.item_type)
        return None if key is None or value is None else f"MAP({key}, {value})"
    if pa.types.is_struct(data_type) and data_type.num_fields:
        parts: list[str] = []
        for position in range(data_type.num_fields):
            child = cast("Any", data_type).field(position)
            child_type = inner(child.type)
            if child_type is None:
                return None
            parts.append(f"{quote(child.name)} {child_type}")
        return f"STRUCT({', '.join(parts)})"
    return None


def is_nested(data_type: pa.DataType) -> bool:
    """Tell whether values of a type contain others."""
    return pa.types.is_nested(data_type)


def is_ambiguous(data_type: pa.DataType) -> bool:
    """Tell whether file columns of this Arrow type can have several DuckDB types, so that DuckDB must be asked.

    A fixed-size binary may be a UUID, nanoseconds may be INT96, which DuckDB reads as microseconds, and
    the types within a nested type are not examined here.
    """
    if pa.types.is_timestamp(data_type):
        return data_type.unit == "ns"
    return not (
        data_type in _SQL_NAMES
        or pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_decimal(data_type)
    )


def is_json(node: dict[str, Any]) -> bool:
    """Tell whether a type in DuckDB's plan JSON is JSON: text, compared as text, with its own type name."""
    details = node.get("type_info")
    return (
        node.get("id") == "VARCHAR"
        and details is not None
        and (details.get("alias"), details.get("extension_info")) == (JSON, None)
    )


def arrow_type(node: dict[str, Any]) -> pa.DataType | None:
    """Return the Arrow type of a type in DuckDB's plan JSON; None where the expression form cannot represent it.

    A type that carries more than its name (a collation, an alias) is not the plain type and yields None.
    """
    name = node.get("id")
    details = node.get("type_info")
    if name == "DECIMAL":
        if details is None or not {"width", "scale"} <= details.keys():
            return None
        return pa.decimal128(details["width"], details["scale"])
    return _ARROW_TYPES.get(str(name)) if details is None else None
