"""What a record index records of one slice: the hashes of its keys, ascending, and the position of each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.columns.hashed import COMMON_COLUMNS, one_row, record_values
from pruner.indexes.record_index.packing import order_of
from pruner.indexes.row_sets import MOST_ROWS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.indexes.base import SliceReader
    from pruner.schema import Field

RECORD_SCHEMA = pa.schema(
    [
        pa.field("usable", pa.bool_()),
        pa.field("note", pa.string()),
        pa.field("row_count", pa.int64()),
        pa.field("keys", pa.int64()),  # rows with a key: those with NULL have none
        pa.field("hashes", pa.large_binary()),
        pa.field("positions", pa.large_binary()),
        pa.field("fences", pa.large_binary()),
        pa.field("packed", pa.large_binary()),
        *COMMON_COLUMNS,
    ]
)
"""Columns of the record of one slice.

`hashes` and `positions` are 8 and 4 bytes for each key, as long as the records of a slice stand by themselves. In a
segment they are null, and its first row has the keys of all rows in `packed` and what finds them in `fences`.
"""


def record_slice(reader: SliceReader, field: Field) -> pa.Table:
    """Record one field of one slice; a slice that cannot be indexed gets a record that says why.

    Raises:
        ValueError, OSError, pyarrow.ArrowException: the file is broken.
    """
    rows = reader.footer.row_count
    if rows > MOST_ROWS:
        note = f"the file has {rows} rows, more than positions of 32 bits can tell"
        return one_row({"usable": False, "note": note}, RECORD_SCHEMA)
    absent = reader.footer.leaf(field.path) is None
    found = record_values(reader, field, partial(_keys, expected=0 if absent else rows))
    return one_row({**found, "row_count": rows}, RECORD_SCHEMA)


def _keys(batches: Iterable[pa.Array[Any]], expected: int) -> dict[str, object]:
    hashes = [np.empty(0, np.uint64)]
    positions = [np.empty(0, np.uint32)]
    seen = 0
    for part in batches:
        hashes.append(hash_values(part))
        known = np.flatnonzero(np.asarray(part.is_valid()))
        positions.append((known + seen).astype(np.uint32))
        seen += len(part)
    if seen != expected:
        raise ValueError(f"its column has {seen} values for {expected} rows")
    together, at = np.concatenate(hashes), np.concatenate(positions)
    order = order_of(together)
    return {
        "keys": len(together),
        "hashes": together[order].astype("<u8").tobytes(),
        "positions": at[order].astype("<u4").tobytes(),
    }
