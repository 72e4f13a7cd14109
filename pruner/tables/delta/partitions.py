"""Partition values of Delta tables: the log stores them as strings, whatever the folder names.

A string is converted by the rules of the protocol; a missing string is NULL. Where engines read a string differently,
or depending on a session setting, the values of the column are unknown.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, compute, text_array
from pruner.tables.partitions import DEFAULT_PARTITION, is_canonical_date, is_canonical_integer, typed
from pruner.tables.snapshot import Partitions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.schema import Field, TableSchema

_MOMENT: Final = re.compile(r"\d{4}-\d{2}-\d{2}[ T]\d{2}:\d{2}:\d{2}(\.\d{1,6})?")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
"""A decimal as every engine reads it. Python and DuckDB also accept underscores, which Java does not."""


def delta_partitions(
    files: pa.Table, columns: Sequence[str], schema: TableSchema
) -> tuple[Partitions, NDArray[np.int32]]:
    """Return the partitions of the files, and for each file the ordinal of its partition.

    Args:
        files: a table with `FILE_COLUMNS`.
        columns: the partition columns in order.
        schema: the table's schema.
    """
    fields = [schema.find((name,)) for name in columns]
    if not fields or not files.num_rows:
        count = 1 if files.num_rows else 0
        return Partitions(text_array([""] * count)), np.zeros(files.num_rows, np.int32)
    codes, texts = _distinct(files, fields)
    names = _folders(files, codes, len(texts[0])) if all(field.stored is None for field in fields) else None
    if names is None:
        names = [_path(fields, row) for row in zip(*texts, strict=True)]
    values: dict[tuple[str, ...], pa.Array[Any]] = {}
    for field, column in zip(fields, texts, strict=True):
        collected = None if field.conflict else _values(column, field.type)
        if collected is not None:
            values[field.path] = collected
    raw = {field.path: arrow.array(column, pa.string()) for field, column in zip(fields, texts, strict=True)}
    return Partitions(text_array(names), values, trusted=frozenset(values), texts=raw), codes


def _distinct(files: pa.Table, fields: Sequence[Field]) -> tuple[NDArray[np.int32], list[list[str | None]]]:
    """For each file the number of its partition, and per column the string of each partition."""
    maps: Any = files.column("partitionValues").combine_chunks()
    combined = np.zeros(files.num_rows, np.int64)
    for field in fields:
        values = compute.map_lookup(
            maps, query_key=arrow.scalar(field.recorded[-1], pa.string()), occurrence="first"
        )
        encoded = values.dictionary_encode()
        codes = np.asarray(encoded.indices.fill_null(-1)).astype(np.int64) + 1
        size = len(encoded.dictionary) + 1
        _, combined = np.unique(combined * size + codes, return_inverse=True)
    _, first, codes = np.unique(combined, return_index=True, return_inverse=True)
    some: list[Any] = maps.take(arrow.array(first, pa.int64())).to_pylist()
    rows: list[dict[str, str | None]] = [dict(part or ()) for part in some]
    return codes.astype(np.int32), [[row.get(field.recorded[-1]) for row in rows] for field in fields]


def _folders(files: pa.Table, codes: NDArray[np.int32], count: int) -> list[str] | None:
    """The folder of each partition; None where a partition spans folders or a folder holds several partitions."""
    folders: Any = compute.replace_substring_regex(files.column("path"), r"(?s)/?[^/]*$", "").combine_chunks()
    encoded = folders.dictionary_encode()
    if len(encoded.dictionary) != count:
        return None
    of_files = np.asarray(encoded.indices).astype(np.int64)
    pairs = np.unique(codes.astype(np.int64) * count + of_files)
    if len(pairs) != count:
        return None
    names: list[str] = encoded.dictionary.to_pylist()
    return [names[pair % count] for pair in pairs.tolist()]


def _path(fields: Sequence[Field], texts: Sequence[str | None]) -> str:
    """The Hive-style partition path, for display: tables with column mapping name their folders differently."""
    parts = (
        f"{field.path[0]}={DEFAULT_PARTITION if text is None else quote(text, safe=' :,')}"
        for field, text in zip(fields, texts, strict=True)
    )
    return "/".join(parts)


def _values(texts: list[str | None], type_: pa.DataType) -> pa.Array[Any] | None:
    """The strings as values of the column's type, None where one of them is not in canonical form.

    An empty string is NULL by the protocol, but Spark reads it as an empty string.
    """
    given = [text for text in texts if text is not None]
    types = pa.types
    if "" in given:
        return None
    if types.is_string(type_):
        return typed(texts, pa.string())
    if types.is_signed_integer(type_):
        if all(is_canonical_integer(text) for text in given):
            return _cast(typed(texts, pa.int64()), type_)
    elif types.is_date32(type_):
        if all(is_canonical_date(text) for text in given):
            return typed(texts, pa.date32())
    elif types.is_boolean(type_):
        if all(text in ("true", "false") for text in given):
            return typed(texts, pa.string()).cast(pa.bool_())
    elif types.is_binary(type_):
        return arrow.array([None if text is None else text.encode() for text in texts], pa.binary())
    elif types.is_decimal128(type_):
        return _decimals(texts, type_)
    elif types.is_timestamp(type_):
        return _moments(texts, type_)
    return None


def _cast(column: pa.Array[Any], type_: pa.DataType) -> pa.Array[Any] | None:
    try:
        return column.cast(type_)
    except pa.ArrowInvalid:
        return None


def _decimals(texts: list[str | None], type_: pa.DataType) -> pa.Array[Any] | None:
    if not all(text is None or _NUMBER.fullmatch(text) for text in texts):
        return None
    try:
        return arrow.array([None if text is None else Decimal(text) for text in texts], type_)
    except (InvalidOperation, pa.ArrowException):
        return None


def _moments(texts: list[str | None], type_: Any) -> pa.Array[Any] | None:
    """Timestamps; a type with a zone requires one in the string: engines read others in the session time zone."""
    moments: list[datetime | None] = []
    for text in texts:
        bare = text
        if text is not None and type_.tz is not None:
            if not text.endswith("Z"):
                return None
            bare = text[:-1]
        if bare is None:
            moments.append(None)
        elif _MOMENT.fullmatch(bare) is None:
            return None
        else:
            try:
                moments.append(datetime.fromisoformat(bare))
            except ValueError:
                return None
    return arrow.array(moments, pa.timestamp("us")).cast(pa.timestamp("us")).view(type_)
