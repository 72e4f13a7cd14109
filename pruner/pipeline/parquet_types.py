"""The leaf columns of a Parquet schema, typed by the Parquet schema alone.

A writer may store an Arrow schema beside the Parquet schema (dictionaries, durations, zones); engines do not read it,
so the types here come from physical and logical types only (parquet-format, LogicalTypes.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.indexes.base import LeafColumn

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from pruner.parquet_type import ParquetType
    from pruner.tables.footers.columns import ParquetColumn

_FIELD_ID = b"PARQUET:field_id"


def leaf_columns(schema: pq.ParquetSchema, columns: Sequence[ParquetColumn]) -> list[LeafColumn]:
    """Return the leaf columns in their order.

    Args:
        schema: the schema of a file.
        columns: the top-level columns of the same, as its footer has them.

    Raises:
        ValueError: the Arrow form of the schema does not have the same leaves (a broken footer).
    """
    found = list(_leaves((), list(schema.to_arrow_schema()), repeated=False))
    types = [leaf.type for column in columns for leaf in column.leaves()]
    if not len(found) == len(types) == len(schema):
        raise ValueError(f"its schema has {len(schema)} columns, in Arrow's form {len(found)}")
    return [_leaf(schema.column(i), i, types[i], *found[i]) for i in range(len(found))]


def _leaf(
    column: pq.ColumnSchema,
    position: int,
    parquet: ParquetType,
    path: tuple[str, ...],
    field_id: int | None,
    repeated: bool,
) -> LeafColumn:
    if parquet.physical == "INT96":
        return LeafColumn(
            path, position, pa.timestamp("us"), "int96", field_id, repeated, int96=True, parquet=parquet
        )
    type_ = parquet.arrow
    text = str(type_) if type_ is not None else str(parquet)
    repeated = repeated or column.max_repetition_level > 0
    return LeafColumn(path, position, type_, text, field_id, repeated, parquet=parquet)


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
