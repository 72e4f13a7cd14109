"""Avro schemas of Hudi tables as Arrow schemas, for tables whose schema hudi-rs does not convert.

The result is the same as that of hudi-rs where it converts, except for maps, which are Arrow maps (Avro specification
1.11, "Logical Types").
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, cast

import pyarrow as pa

from pruner.errors import TableError

AvroType: TypeAlias = "str | list[Any] | dict[str, Any]"

META_COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
"""Columns that Hudi adds before each table's own."""

_MAX_DEPTH = 64
_LARGEST_DECIMAL = 38
PRIMITIVE_TYPES: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "enum": pa.string(),
    "bytes": pa.binary(),
}
"""Avro's types of single values, by name."""

MOMENT_TYPES: dict[tuple[str, str], pa.DataType] = {
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("ms", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("ms"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
"""Logical types of dates and timestamps, by Avro type and logical type."""

_COMPOSED = frozenset(["record", "array", "map", "fixed", "error"])
_PLAIN = {"null": pa.null(), **PRIMITIVE_TYPES}
_LOGICAL = {
    **MOMENT_TYPES,
    ("int", "time-millis"): pa.time32("ms"),
    ("long", "time-micros"): pa.time64("us"),
}


def converted_by_hudi_rs(avro: str) -> bool:
    """Tell whether hudi-rs converts an Avro schema; otherwise it panics."""
    return '"local-timestamp-' not in avro and not _refers_to_names(avro)


@lru_cache(maxsize=64)
def _refers_to_names(avro: str) -> bool:
    """Tell whether a type is given anywhere by its name alone, as Avro writes one that was defined before."""
    try:
        pending: list[Any] = [json.loads(avro)]
    except ValueError:
        return False  # hudi-rs reports what is wrong with it
    while pending:
        node: Any = pending.pop()
        if isinstance(node, str) and node not in _PLAIN and node not in _COMPOSED:
            return True
        if isinstance(node, list):
            pending.extend(cast("list[Any]", node))
        elif isinstance(node, dict):
            parts = cast("dict[str, Any]", node)
            pending.extend(parts[key] for key in ("type", "items", "values", "fields") if key in parts)
    return False


def arrow_schema(avro: str, where: str) -> pa.Schema:
    """Return the Arrow schema of a table, its meta columns included.

    Args:
        avro: the table's schema without meta columns, as JSON.
        where: the table, for error messages.

    Raises:
        TableError: a part of the schema cannot be understood.
    """
    try:
        parsed: Any = json.loads(avro)
        if not isinstance(parsed, dict):
            raise _UnreadTypeError("it is no record")
        record = cast("dict[str, Any]", parsed)
        own = list(_fields(record, dict(_named(record, 0)), 0))
        names = {field.name for field in own}  # schema-on-read evolution writes the meta columns as well
        meta = [pa.field(name, pa.string(), nullable=False) for name in META_COLUMNS if name not in names]
        return pa.schema(cast("list[pa.Field[Any]]", [*meta, *own]))
    except (_UnreadTypeError, ValueError, RecursionError) as error:
        raise TableError(f"the schema of the Hudi table {where} is not understood: {error}") from None


class _UnreadTypeError(Exception):
    """A type without one Arrow type; the text is a clause."""


def _entries(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    entries = record.get("fields")
    listed = cast("list[Any]", entries) if isinstance(entries, list) else []
    if not all(isinstance(entry, dict) and "name" in entry and "type" in entry for entry in listed):
        raise _UnreadTypeError("a field has no name or type")
    return cast("list[dict[str, Any]]", listed)


def _named(schema: AvroType, depth: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the named types, which later fields may refer to by name, with and without their namespace."""
    if depth > _MAX_DEPTH:
        raise _UnreadTypeError("it is nested too deep")
    if isinstance(schema, list):
        for option in schema:
            yield from _named(option, depth + 1)
    elif isinstance(schema, dict):
        if "name" in schema and schema.get("type") in ("record", "fixed", "enum"):
            name, namespace = str(schema["name"]), schema.get("namespace")
            yield name, schema
            if namespace:
                yield f"{namespace}.{name}", schema
        for entry in _entries(schema):
            yield from _named(entry["type"], depth + 1)
        for inner in ("items", "values", "type"):
            if isinstance(schema.get(inner), (dict, list)):
                yield from _named(cast("AvroType", schema[inner]), depth + 1)


def _fields(
    record: Mapping[str, Any], named: Mapping[str, dict[str, Any]], depth: int
) -> Iterator[pa.Field[Any]]:
    for entry in _entries(record):
        type_: AvroType = entry["type"]
        nullable = isinstance(type_, list) and "null" in type_
        try:
            own = _type(type_, named, depth + 1)
        except _UnreadTypeError as error:
            if depth:
                raise
            raise _UnreadTypeError(f"column {entry['name']!r}: {error}") from None
        yield pa.field(str(entry["name"]), own, nullable=nullable)


def _type(schema: AvroType, named: Mapping[str, dict[str, Any]], depth: int) -> pa.DataType:
    if depth > _MAX_DEPTH:
        raise _UnreadTypeError("it is nested too deep, or in itself")
    if isinstance(schema, list):
        options = [cast("AvroType", option) for option in schema if option != "null"]
        if len(options) != 1:
            raise _UnreadTypeError(f"it has a union of {len(options)} types")
        return _type(options[0], named, depth + 1)
    if isinstance(schema, str):
        return _PLAIN[schema] if schema in _PLAIN else _type(_by_name(schema, named), named, depth + 1)
    inner = schema.get("type")
    if isinstance(inner, (dict, list)):
        return _type(cast("AvroType", inner), named, depth + 1)
    if inner == "record":
        return pa.struct(list(_fields(schema, named, depth)))
    if inner == "array":
        return pa.list_(pa.field("element", _type(schema["items"], named, depth + 1)))
    if inner == "map":
        return pa.map_(pa.string(), _type(schema["values"], named, depth + 1))
    return _leaf(str(inner), schema, named, depth)


def _by_name(name: str, named: Mapping[str, dict[str, Any]]) -> dict[str, Any]:
    if name not in named:
        raise _UnreadTypeError(f"it has a type {name}")
    return named[name]


def _leaf(name: str, schema: dict[str, Any], named: Mapping[str, dict[str, Any]], depth: int) -> pa.DataType:
    logical = schema.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not isinstance(precision, int) or not isinstance(scale, int):
            raise _UnreadTypeError("it has a decimal without a precision")
        if not 0 <= scale <= precision <= _LARGEST_DECIMAL:
            raise _UnreadTypeError(f"it has a decimal({precision}, {scale})")
        return pa.decimal128(precision, scale)
    if (name, str(logical)) in _LOGICAL:
        return _LOGICAL[name, str(logical)]
    if name == "fixed":
        return pa.binary(int(schema["size"]))
    # An unknown logical type must be ignored, according to the specification.
    return _PLAIN[name] if name in _PLAIN else _type(_by_name(name, named), named, depth + 1)
