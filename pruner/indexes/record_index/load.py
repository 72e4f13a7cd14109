"""Turns records into keys that can be looked up: which slices have any, and which segment holds them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.errors import FormatError, StorageError
from pruner.indexes.columns.hashed import as_recorded, flags, ints, placing, readable
from pruner.indexes.record_index.keys import SegmentKeys
from pruner.indexes.record_index.record import RECORD_SCHEMA
from pruner.metadata.segments import SLICE_COLUMN
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.indexes.columns.reading import UnreadSlices
    from pruner.indexes.optional import RecordPart
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Keys:
    """The keys of many slices.

    `covered` are the slices with a usable record, `uncovered` the others, None without any. `row_counts` are their
    numbers of rows and `key_counts` those of rows
    with a key, -1 where not covered. `unread` tells the slices whose values an engine reads as others. `notes` says
    why slices with a record are not covered.
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
    found = readable(records, sound, count, field)
    place = placing(ints(records, SLICE_COLUMN), found.usable, count)
    return Keys(
        covered=found.covered,
        uncovered=None if found.covered.all() else ~found.covered,
        segments=tuple(opened),
        row_counts=place(ints(records, "row_count"), -1),
        key_counts=place(ints(records, "keys"), -1),
        unread=found.unread,
        notes=(*found.notes, *problems),
    )


def _adds_up(records: pa.Table) -> Mask:
    """Tell which records have numbers of rows and keys that can be (R10)."""
    rows, keys = ints(records, "row_count", -1), ints(records, "keys", -1)
    return (keys >= 0) & (keys <= rows) & ~(flags(records, "absent") & (keys > 0))
