"""What a record index records about one slice: the hashes of its keys, ascending, and the position of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.errors import FormatError, StorageError
from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.columns.hashed import (
    COMMON_COLUMNS,
    as_recorded,
    flags,
    ints,
    one_row,
    placing,
    readable,
    record_values,
)
from pruner.indexes.record_index.packing import SegmentKeys, order_of
from pruner.indexes.row_sets import MOST_ROWS
from pruner.metadata.segments import SLICE_COLUMN
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.base import SliceReader
    from pruner.indexes.columns.reading import UnreadSlices
    from pruner.indexes.optional import RecordPart
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]

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

`hashes` and `positions` have 8 and 4 bytes per key while the record of a slice is by itself. In a segment they are
null, and its first row has the keys of all rows in `packed` and the search structure for them in `fences`.
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
    values = record_values(reader, field, partial(_keys, expected=0 if absent else rows))
    return one_row({**values, "row_count": rows}, RECORD_SCHEMA)


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


# Turns records into keys for lookup: which slices have any, and which segment holds them.


@dataclass(frozen=True)
class Keys:
    """The keys of many slices.

    `covered` are the slices with a usable record, `uncovered` the others, None if there are none. `row_counts` are
    their numbers of rows and `key_counts` those of rows with a key, -1 where not covered. `unread` tells the slices
    whose values an engine reads differently. `notes` says why slices with a record are not covered.
    """

    covered: Mask
    uncovered: Mask | None
    segments: tuple[SegmentKeys, ...]
    row_counts: Integers
    key_counts: Integers
    unread: UnreadSlices
    notes: tuple[str, ...]


def load_parts(parts: Sequence[RecordPart], count: int, field: Field) -> Keys:
    """Load the records of one field: see `SelectiveIndexType`."""
    tables = [as_recorded(part.records, RECORD_SCHEMA) for part in parts]
    records = pa.concat_tables([*tables, as_recorded(pa.table({}), RECORD_SCHEMA)]).combine_chunks()
    opened: list[SegmentKeys] = []
    problems: list[str] = []
    sound = _adds_up(records)
    end = 0
    for part, table in zip(parts, tables, strict=True):
        start, end = end, end + table.num_rows
        try:
            opened.append(SegmentKeys(part))
        except (FormatError, StorageError) as error:
            sound[start:end] = False
            problems.append(f"the keys behind {counted(table.num_rows, 'record')} cannot be used: {error}")
    loaded = readable(records, sound, count, field)
    place = placing(ints(records, SLICE_COLUMN), loaded.usable, count)
    return Keys(
        covered=loaded.covered,
        uncovered=None if loaded.covered.all() else ~loaded.covered,
        segments=tuple(opened),
        row_counts=place(ints(records, "row_count"), -1),
        key_counts=place(ints(records, "keys"), -1),
        unread=loaded.unread,
        notes=(*loaded.notes, *problems),
    )


def _adds_up(records: pa.Table) -> Mask:
    """Tell which records have plausible numbers of rows and keys (R10)."""
    rows, keys = ints(records, "row_count", -1), ints(records, "keys", -1)
    return (keys >= 0) & (keys <= rows) & ~(flags(records, "absent") & (keys > 0))
