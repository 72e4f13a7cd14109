"""Turns records into filters that can be asked: which slices have one, and where it is.

A slice whose record does not fit the column as it is now, or does not add up, is not covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.indexes.bloom_filter.filters import BLOCK_BYTES, WORDS
from pruner.indexes.bloom_filter.look_up import StripedFilters, WholeFilters
from pruner.indexes.bloom_filter.record import RECORD_SCHEMA
from pruner.indexes.bloom_filter.stripes import MOST_STRIPES, blocks_of
from pruner.indexes.columns.hashed import as_recorded, ints, placing, readable
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.indexes.columns.unread import UnreadSlices
    from pruner.indexes.optional import RecordPart
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]

NO_GROUP = -1


@dataclass(frozen=True)
class Filters:
    """The filters of many slices.

    `covered` are the slices with a usable record. `group_of[i]` is the position in `groups` of what holds the filter of
    slice i, and `row_of[i]` its row there; `NO_GROUP` where the slice holds no value, or is not covered. `distinct`
    is the number of its values. `unread` tells the slices whose values an engine reads as others. `notes` says why
    slices with a record are not covered.
    """

    covered: Mask
    groups: tuple[WholeFilters | StripedFilters, ...]
    group_of: NDArray[np.int16]
    row_of: NDArray[np.int32]
    distinct: Integers
    unread: UnreadSlices
    notes: tuple[str, ...]


def load_parts(parts: Sequence[RecordPart], count: int, field: Field) -> Filters:
    """Load the records of one field.

    Args:
        parts: the records of each segment, with `__slice`, the ordinal of each row's slice.
        count: number of slices.
        field: the field as the table has it now.
    """
    tables = [as_recorded(part.records, RECORD_SCHEMA) for part in parts]
    records = pa.concat_tables([*tables, as_recorded(pa.table({}), RECORD_SCHEMA)]).combine_chunks()
    found = readable(records, _adds_up(records), count, field)
    group_of = np.full(count, NO_GROUP, np.int16)
    row_of = np.zeros(count, np.int32)
    groups: list[WholeFilters | StripedFilters] = []
    ends = np.cumsum([table.num_rows for table in tables])
    for part, table, end in zip(parts, tables, ends.tolist(), strict=True):
        of_part = found.usable[end - table.num_rows : end]
        for group, rows in _groups(part, table, of_part):
            at = ints(table, SLICE_COLUMN)[rows]
            group_of[at], row_of[at] = len(groups), np.arange(len(rows))
            groups.append(group)
    place = placing(ints(records, SLICE_COLUMN), found.usable, count)
    return Filters(
        covered=found.covered,
        groups=tuple(groups),
        group_of=group_of,
        row_of=row_of,
        distinct=place(ints(records, "distinct", -1), -1),
        unread=found.unread,
        notes=found.notes,
    )


def _adds_up(records: pa.Table) -> Mask:
    """Tell which records have a filter of the size that they say, or one in stripes (R10)."""
    blocks, stripes = ints(records, "blocks", -1), ints(records, "stripes", -1)
    try:
        _, ends = blocks_of(records.column("filter"))
    except ValueError:
        return np.zeros(len(blocks), np.bool_)
    whole = np.diff(ends) == blocks
    cut = (stripes > 1) & (stripes <= MOST_STRIPES) & (blocks >= stripes)
    return np.where(stripes == 0, whole & (blocks >= 0), cut)


def _groups(
    part: RecordPart, table: pa.Table, usable: Mask
) -> list[tuple[WholeFilters | StripedFilters, Integers]]:
    """What holds the filters of one segment, and for each the rows of the part that it is about."""
    found: list[tuple[WholeFilters | StripedFilters, Integers]] = []
    sizes, stripes = ints(table, "blocks", 0), ints(table, "stripes", 0)
    whole = np.flatnonzero(usable & (stripes == 0) & (sizes > 0))
    if len(whole):
        blocks, ends = blocks_of(table.column("filter"))
        words = blocks.view(np.uint32).reshape(-1, BLOCK_BYTES // 4)
        assert words.shape[1] == WORDS
        found.append((WholeFilters(words, ends[whole], sizes[whole]), whole))
    for count in np.unique(stripes[usable & (stripes > 0)]).tolist():
        rows = np.flatnonzero(usable & (stripes == count))
        stored = rows if part.rows is None else part.rows[rows]
        found.append((StripedFilters(part.read, stored, sizes[rows], count), rows))
    return found
