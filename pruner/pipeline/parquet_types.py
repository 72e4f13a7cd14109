"""The leaf columns of a Parquet schema, typed by the Parquet schema alone.

A writer may store an Arrow schema beside the Parquet schema (dictionaries, durations, zones); engines do not read it,
so the types here come from physical and logical types only (parquet-format, LogicalTypes.md).
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.indexes.base import LeafColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import pyarrow.parquet as pq

_UNITS: dict[str, Any] = {"milliseconds": "ms", "microseconds": "us", "nanoseconds": "ns"}
_SIGNED = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
_UNSIGNED = {8: pa.uint8(), 16: pa.uint16(), 32: pa.uint32(), 64: pa.uint64()}
_PLAIN = {
    "BOOLEAN": pa.bool_(),
    "INT32": pa.int32(),
    "INT64": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "BYTE_ARRAY": pa.binary(),
}
_LARGEST_DECIMAL = 38
_FIELD_ID = b"PARQUET:field_id"


def leaf_columns(schema: pq.ParquetSchema) -> list[LeafColumn]:
    """Return the leaf columns in their order.

    Raises:
        ValueError: the Arrow form of the schema does not have the same leaves (a broken footer).
    """
    found = list(_leaves((), list(schema.to_arrow_schema()), repeated=False))
    if len(found) != len(schema):
        raise ValueError(f"its schema has {len(schema)} columns, in Arrow's form {len(found)}")
    return [_leaf(schema.column(i), i, *found[i]) for i in range(len(found))]


def _leaf(
    column: pq.ColumnSchema, position: int, path: tuple[str, ...], field_id: int | None, repeated: bool
) -> LeafColumn:
    if column.physical_type == "INT96":
        return LeafColumn(path, position, pa.timestamp("us"), "int96", field_id, repeated, int96=True)
    logical = column.logical_type.to_json()
    type_ = arrow_type(column.physical_type, logical, column.length)
    text = str(type_) if type_ is not None else f"{column.physical_type} {column.logical_type}"
    return LeafColumn(path, position, type_, text, field_id, repeated or column.max_repetition_level > 0)


def _leaves(
    parent: tuple[str, ...], fields: Iterable[Any], *, repeated: bool
) -> Iterator[tuple[tuple[str, ...], int | None, bool]]:
    """Path, field id and whether repeated, of each leaf in the order of Parquet's columns."""
    for entry in fields:
        path = (*parent, entry.name)
        type_ = entry.type
        while isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        if pa.types.is_struct(type_):
            yield from _leaves(path, _children(type_), repeated=repeated)
        elif pa.types.is_nested(type_):
            yield from _leaves(path, _children(type_), repeated=True)
        else:
            yield path, _field_id(entry.metadata), repeated


def _children(type_: Any) -> list[Any]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(position) for position in range(type_.num_fields)]


def _field_id(metadata: Mapping[bytes, bytes] | None) -> int | None:
    text = (metadata or {}).get(_FIELD_ID)
    return None if text is None or int(text) < 0 else int(text)


@lru_cache(maxsize=4096)
def arrow_type(physical: str, logical_json: str, length: int) -> pa.DataType | None:
    """Return the Arrow type of a column's values, None for what no index supports.

    Args:
        physical: Parquet's physical type, INT96 excepted.
        logical_json: the logical type in pyarrow's JSON form; a converted type counts as the logical one it stands for.
        length: of FIXED_LEN_BYTE_ARRAY, in bytes.
    """
    logical = json.loads(logical_json)
    match logical["Type"]:
        case "None":
            return pa.binary(length) if physical == "FIXED_LEN_BYTE_ARRAY" else _PLAIN.get(physical)
        case "Null":
            return pa.null()
        case "String" | "JSON" if physical == "BYTE_ARRAY":
            return pa.string()
        case "Date" if physical == "INT32":
            return pa.date32()
        case "Int":
            return (_SIGNED if logical["isSigned"] else _UNSIGNED).get(logical["bitWidth"])
        case "Decimal" if 0 < logical["precision"] <= _LARGEST_DECIMAL:
            return pa.decimal128(logical["precision"], logical["scale"])
        case "Timestamp" if physical == "INT64" and logical["timeUnit"] in _UNITS:
            unit = _UNITS[logical["timeUnit"]]
            return pa.timestamp(unit, "UTC") if logical["isAdjustedToUTC"] else pa.timestamp(unit)
        case _:
            return None
