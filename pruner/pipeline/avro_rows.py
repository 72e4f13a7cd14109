"""Rows of Avro data blocks as Arrow columns, each value as it is stored: nothing is converted by a reader's schema.

Logical types are taken off before decoding, so that fastavro hands over the stored numbers, and are put back as Arrow
types (Avro specification 1.11, "Logical Types"). A column of a type that has no single Arrow type here is left out
and named in `AvroRows.left_out`.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any, TypeAlias, cast

import fastavro
import pyarrow as pa

from pruner.tables.avro.stored import decode, without_logical_types
from pruner.tables.hudi.avro_schema import MOMENT_TYPES, PRIMITIVE_TYPES, AvroType

Path = tuple[str, ...]
Change: TypeAlias = "Callable[[Any], Any] | None"

_MAX_DEPTH = 64
_MAX_SCHEMA_BYTES = 1 << 24
_LARGEST_DECIMAL = 38
_EXACT = Context(prec=_LARGEST_DECIMAL + 1)
_LOGICAL = {**MOMENT_TYPES, ("string", "uuid"): pa.string()}


class _LeftOutError(Exception):
    """A type that is not read; the text is the type's."""


@dataclass(frozen=True, slots=True)
class AvroRows:
    """Rows of one Avro schema; `left_out` gives the type of each leaf column that is not among the columns."""

    table: pa.Table
    left_out: Mapping[Path, str]


@dataclass(frozen=True, slots=True)
class _Reader:
    """What is derived from one Avro schema, once."""

    stripped: Any
    columns: Mapping[str, tuple[pa.DataType, Change]]
    left_out: Mapping[Path, str]


def read_rows(schema: str, encoded: Iterable[memoryview]) -> AvroRows:
    """Decode records that were written with one schema.

    Args:
        schema: Avro schema of a record, as JSON.
        encoded: each record by itself, in Avro's binary encoding.

    Raises:
        ValueError: the schema is not understood, or a record is not one of it.
    """
    reader = _reader(schema)
    rows = [_decode(record, reader.stripped) for record in encoded]
    arrays: dict[str, pa.Array[Any]] = {}
    for name, (type_, change) in reader.columns.items():
        values = [row[name] for row in rows]
        if change is not None:
            values = [None if value is None else change(value) for value in values]
        arrays[name] = pa.array(values, type_)
    # A table without columns would forget how many rows it has.
    arrays = arrays or {"": pa.nulls(len(rows), pa.bool_())}
    return AvroRows(pa.table(arrays), reader.left_out)


def _decode(record: memoryview, schema: Any) -> dict[str, Any]:
    source = io.BytesIO(record)
    try:
        row = decode(source, schema, None)
    except (EOFError, IndexError, UnicodeDecodeError, OverflowError, KeyError, TypeError) as error:
        raise ValueError(f"a record does not follow its schema: {error}") from None
    if source.tell() != len(record):
        raise ValueError("a record is longer than its schema says")
    return cast("dict[str, Any]", row)


@lru_cache(maxsize=64)
def _reader(schema: str) -> _Reader:
    if len(schema) > _MAX_SCHEMA_BYTES:
        raise ValueError(f"an Avro schema has {len(schema)} bytes, more than is read")
    try:
        parsed = json.loads(schema)
    except (ValueError, RecursionError):
        raise ValueError("the schema of a block is no JSON") from None
    if not isinstance(parsed, dict) or cast("dict[str, Any]", parsed).get("type") != "record":
        raise ValueError("the schema of a block is not that of a record")
    record = cast("dict[str, Any]", parsed)
    named: dict[str, dict[str, Any] | None] = {}
    _collect(record, "", named, 0)
    columns: dict[str, tuple[pa.DataType, Change]] = {}
    left_out: dict[Path, str] = {}
    for entry in _fields(record):
        column = _column((entry["name"],), entry["type"], named, left_out, 1)
        if column is not None:
            columns[entry["name"]] = column
    return _Reader(fastavro.parse_schema(without_logical_types(record)), columns, left_out)


def _fields(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    fields = record.get("fields")
    found = cast("list[Any]", fields) if isinstance(fields, list) else []
    if not all(isinstance(entry, dict) and "name" in entry and "type" in entry for entry in found):
        raise ValueError("the schema of a block has a field without a name or type")
    return cast("list[dict[str, Any]]", found)


def _collect(schema: AvroType, namespace: str, named: dict[str, dict[str, Any] | None], depth: int) -> None:
    """Gather the named types, which later fields may refer to by name; None for a name that several types have."""
    if depth > _MAX_DEPTH:
        raise ValueError("the schema of a block is nested too deep")
    if isinstance(schema, list):
        for option in schema:
            _collect(option, namespace, named, depth + 1)
    elif isinstance(schema, dict):
        if "name" in schema and schema.get("type") in ("record", "fixed", "enum"):
            before, _, name = str(schema["name"]).rpartition(".")
            namespace = before or schema.get("namespace", namespace)
            for known_as in {name, f"{namespace}.{name}"}:
                named[known_as] = schema if named.get(known_as, schema) == schema else None
        for entry in _fields(schema):
            _collect(entry["type"], namespace, named, depth + 1)
        for inner in ("items", "values", "type"):
            if isinstance(schema.get(inner), (dict, list)):
                _collect(schema[inner], namespace, named, depth + 1)


def _column(
    path: Path,
    schema: AvroType,
    named: Mapping[str, dict[str, Any] | None],
    left_out: dict[Path, str],
    depth: int,
) -> tuple[pa.DataType, Change] | None:
    """Return Arrow type and change of values of a field; None, with its leaves in `left_out`, when it is not read."""
    try:
        resolved = _resolved(schema, named)
        if isinstance(resolved, dict) and resolved.get("type") == "record":
            return _struct(path, resolved, named, left_out, depth)
        return _leaf_type(resolved)
    except _LeftOutError as error:
        left_out[path] = str(error)
        return None


def _struct(
    path: Path,
    record: dict[str, Any],
    named: Mapping[str, dict[str, Any] | None],
    left_out: dict[Path, str],
    depth: int,
) -> tuple[pa.DataType, Change] | None:
    if depth > _MAX_DEPTH:
        raise _LeftOutError("a record nested too deep")
    parts: dict[str, tuple[pa.DataType, Change]] = {}
    for entry in _fields(record):
        part = _column((*path, entry["name"]), entry["type"], named, left_out, depth + 1)
        if part is not None:
            parts[entry["name"]] = part
    if not parts:
        return None
    changes = [(name, change) for name, (_, change) in parts.items()]

    def pick(value: dict[str, Any]) -> dict[str, Any]:
        return {
            name: value[name] if change is None or value[name] is None else change(value[name])
            for name, change in changes
        }

    return pa.struct([pa.field(name, type_) for name, (type_, _) in parts.items()]), pick


def _resolved(schema: AvroType, named: Mapping[str, dict[str, Any] | None]) -> AvroType:
    """Take off a union with null, names of types, and `{"type": {...}}`."""
    for _ in range(_MAX_DEPTH):
        if isinstance(schema, list):
            options = [option for option in schema if option != "null"]
            if len(options) != 1:
                raise _LeftOutError(f"a union of {len(options)} types")
            schema = options[0]
        elif isinstance(schema, str) and schema in named and schema not in PRIMITIVE_TYPES:
            found = named[schema]
            if found is None:
                raise _LeftOutError(f"a type {schema}, of which there are several,")
            schema = found
        elif isinstance(schema, dict) and isinstance(schema.get("type"), (dict, list)):
            schema = schema["type"]
        else:
            return schema
    raise _LeftOutError("a type nested too deep")


def _leaf_type(schema: AvroType) -> tuple[pa.DataType, Change]:
    entries: dict[str, Any] = schema if isinstance(schema, dict) else {"type": schema}
    name, logical = str(entries.get("type")), entries.get("logicalType")
    if logical == "decimal" and name in ("bytes", "fixed"):
        return _decimal(entries)
    if logical is not None:
        found = _LOGICAL.get((name, str(logical)))
        if found is None:
            raise _LeftOutError(f"{name} {logical}")
        return found, None
    if name == "fixed":
        return pa.binary(int(entries["size"])), None
    if name not in PRIMITIVE_TYPES:
        raise _LeftOutError(name)
    return PRIMITIVE_TYPES[name], None


def _decimal(entries: Mapping[str, Any]) -> tuple[pa.DataType, Change]:
    precision, scale = entries.get("precision"), entries.get("scale", 0)
    if not isinstance(precision, int) or not isinstance(scale, int):
        raise _LeftOutError("decimal without precision")
    if not 0 <= scale <= precision <= _LARGEST_DECIMAL:
        raise _LeftOutError(f"decimal({precision}, {scale})")

    def value(data: bytes) -> Decimal:
        return Decimal(int.from_bytes(data, "big", signed=True)).scaleb(-scale, _EXACT)

    return pa.decimal128(precision, scale), value
