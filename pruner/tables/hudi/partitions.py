"""Partition values of Hudi tables: what a partition path says about the rows below it.

A path is trusted to be the very value of a column only where the key generator writes the value itself
(simple and complex ones) and the text has one reading in the column's type. Timestamp and custom generators
round or rewrite values (trap N3): theirs say nothing here.

Where the files hold the column, too, a row's value there can be another one: with a global index and
`update.partition.path=false` Hudi updates a row that moves to another partition where it was. Spark and Trino show
the path's value then, DuckDB the file's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.arrow import text_array
from pruner.tables.partitions import (
    DEFAULT_PARTITION,
    decode_part,
    is_canonical_date,
    is_canonical_integer,
    typed,
)
from pruner.tables.snapshot import Partitions

if TYPE_CHECKING:
    from pruner.schema import Field, TableSchema
    from pruner.tables.hudi.properties import HudiProperties

_PLAIN_GENERATORS = frozenset({"SIMPLE", "COMPLEX"})


def hudi_partitions(paths: list[str], properties: HudiProperties, schema: TableSchema) -> Partitions:
    """Return the partitions of a table with those values that the paths prove.

    Args:
        paths: partition paths relative to the root.
        properties: how paths are made.
        schema: types of the partition columns.
    """
    values: dict[tuple[str, ...], pa.Array[Any]] = {}
    names = properties.partition_fields
    columns = {entry.path[0].lower(): entry for entry in schema.columns}
    if properties.key_generator in _PLAIN_GENERATORS:
        for position, name in enumerate(names):
            about = columns.get(name.lower())
            texts = [_text(path, position, names, properties) for path in paths]
            column = None if about is None else _column(texts, about)
            if about is not None and column is not None:
                values[about.path] = column
    shared = frozenset(path for path in values if columns[path[0].lower()].in_file)
    return Partitions(
        text_array(paths),
        values,
        trusted=frozenset(values) - shared,
        shared=shared,
        origin_by_engine=True,
    )


def _text(path: str, position: int, names: tuple[str, ...], properties: HudiProperties) -> str | None:
    """Return the text of one column in a partition path, or None where it cannot be told."""
    # A value that is not encoded may hold slashes; with one column the whole path is its value.
    parts = [path] if len(names) == 1 else path.split("/")
    if len(parts) != len(names):
        return None
    text = parts[position]
    if properties.hive_style:
        prefix = f"{names[position]}="
        if not text.startswith(prefix):
            return None
        text = text.removeprefix(prefix)
    if not properties.url_encoded:
        return text
    decoded, clear = decode_part(text)
    return decoded if clear else None


def _column(texts: list[str | None], about: Field) -> pa.Array[Any] | None:
    """Return the texts as values of the column's type, or None when one is not in its one canonical form.

    The default partition holds NULL, and the empty string as well where the column is a string.
    """
    types = pa.types
    given = [text for text in texts if text != DEFAULT_PARTITION]
    known = [None if text == DEFAULT_PARTITION else text for text in texts]
    if any(text is None for text in given) or about.conflict is not None:
        return None
    clear = [text for text in given if text is not None]
    if types.is_string(about.type):
        # Hudi up to 0.11 named the default partition `default`.
        return typed(texts, pa.string()) if len(clear) == len(texts) and "default" not in clear else None
    if types.is_signed_integer(about.type) and all(is_canonical_integer(text) for text in clear):
        return _cast(typed(known, pa.int64()), about.type)
    if types.is_date32(about.type) and all(is_canonical_date(text) for text in clear):
        return typed(known, pa.date32())
    if types.is_boolean(about.type) and all(text in ("true", "false") for text in clear):
        return typed(known, pa.string()).cast(pa.bool_())
    return None


def _cast(column: pa.Array[Any], type_: pa.DataType) -> pa.Array[Any] | None:
    try:
        return column.cast(type_)
    except pa.ArrowInvalid:
        return None
