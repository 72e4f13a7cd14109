"""What a bloom filter index records of one slice: a filter of the hashes of its values, and how they may be read."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.columns.hashed import COMMON_COLUMNS, one_row, record_values
from pruner.indexes.columns.split_blocks import blocks_for, filter_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pruner.indexes.base import SliceReader
    from pruner.schema import Field

    Hashes = NDArray[np.uint64]

RECORD_SCHEMA = pa.schema(
    [
        pa.field("usable", pa.bool_()),
        pa.field("note", pa.string()),
        pa.field("distinct", pa.int64()),
        pa.field("blocks", pa.int32()),
        pa.field("stripes", pa.int16()),
        pa.field("filter", pa.large_binary()),
        *COMMON_COLUMNS,
    ]
)
"""Columns of the record of one slice. Without `usable` nothing but the note means anything."""

_HASHES_AT_ONCE = 1 << 20
"""Hashes that are gathered before those that came twice are dropped."""


def record_slice(reader: SliceReader, field: Field, fpp: float) -> pa.Table:
    """Record one field of one slice; a slice that cannot be indexed gets a record that says why.

    Raises:
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    return one_row(record_values(reader, field, partial(_filter, fpp=fpp)), RECORD_SCHEMA)


def _filter(batches: Iterable[pa.Array[Any]], fpp: float) -> dict[str, object]:
    hashes = _distinct_hashes(batches)
    blocks = blocks_for(len(hashes), fpp)
    return {
        "distinct": len(hashes),
        "blocks": blocks,
        "stripes": 0,
        "filter": filter_of(hashes, blocks),
    }


def _distinct_hashes(batches: Iterable[pa.Array[Any]]) -> Hashes:
    """The distinct hashes of a column, ascending."""
    parts: list[Hashes] = []
    waiting = 0
    for part in batches:
        parts.append(hash_values(part))
        waiting += len(part)
        if waiting > _HASHES_AT_ONCE:
            parts, waiting = [_distinct(parts)], 0
    return _distinct(parts)


def _distinct(parts: list[Hashes]) -> Hashes:
    # `np.unique` goes through a table of hashes of its own: four to twenty times as long.
    ascending = np.sort(np.concatenate([*parts, np.empty(0, np.uint64)]))
    return ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]
