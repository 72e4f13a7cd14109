"""Turns records into filters that can be asked: which slices have one, and where it is.

A slice whose record does not fit the column as it is now, or does not add up, is not covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from pruner.indexes.bloom_filter.bit_rows import BitRows
from pruner.indexes.bloom_filter.look_up import StripedFilters, WholeFilters
from pruner.indexes.bloom_filter.record import RECORD_SCHEMA
from pruner.indexes.bloom_filter.stripes import MOST_STRIPES, blocks_of
from pruner.indexes.columns.hashed import as_recorded, ints, placing, readable
from pruner.indexes.columns.split_blocks import BLOCK_BYTES, WORDS
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.columns.reading import UnreadSlices
    from pruner.indexes.optional import RecordPart
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]

NO_GROUP = -1

MANY_ALIKE = 1024
"""Filters of one size from which on they are turned: fewer are looked up as fast as they stand."""

Group: TypeAlias = "WholeFilters | StripedFilters | BitRows"


class HeldFilters(NamedTuple):
    """Filters that are looked up together, and the slice of each."""

    group: Group
    slices: Integers


@dataclass(frozen=True)
class Filters:
    """The filters of many slices.

    `covered` are the slices with a usable record, `uncovered` the others, None without any. `group_of[i]` is the
    position in `groups` of what holds the filter of slice i, and `row_of[i]` its row there; `NO_GROUP` where the slice
    holds no value, or is not covered. `distinct` is the number of its values. `unread` tells the slices whose values an
    engine reads as others. `notes` says why slices with a record are not covered.
    """

    covered: Mask
    uncovered: Mask | None
    groups: tuple[HeldFilters, ...]
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
    groups: list[HeldFilters] = []
    whole: list[_Whole] = []
    ends = np.cumsum([table.num_rows for table in tables])
    for part, table, end in zip(parts, tables, ends.tolist(), strict=True):
        of_part = found.usable[end - table.num_rows : end]
        whole += _whole(table, of_part)
        groups += _striped(part, table, of_part)
    groups += _by_size(whole)
    group_of = np.full(count, NO_GROUP, np.int16)
    row_of = np.zeros(count, np.int32)
    for number, held in enumerate(groups):
        group_of[held.slices], row_of[held.slices] = number, np.arange(len(held.slices))
    place = placing(ints(records, SLICE_COLUMN), found.usable, count)
    return Filters(
        covered=found.covered,
        uncovered=None if found.covered.all() else ~found.covered,
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


class _Whole(NamedTuple):
    """Filters of one segment that are in memory: all blocks, where each filter begins, its size, and its slice."""

    words: NDArray[np.uint32]
    starts: Integers
    sizes: Integers
    slices: Integers

    def only(self, chosen: Mask) -> _Whole:
        return _Whole(self.words, self.starts[chosen], self.sizes[chosen], self.slices[chosen])


def _whole(table: pa.Table, usable: Mask) -> list[_Whole]:
    """The filters of one segment that are not cut into stripes."""
    sizes, stripes = ints(table, "blocks", 0), ints(table, "stripes", 0)
    rows = np.flatnonzero(usable & (stripes == 0) & (sizes > 0))
    if not len(rows):
        return []
    blocks, ends = blocks_of(table.column("filter"))
    words = blocks.view(np.uint32).reshape(-1, WORDS)
    return [_Whole(words, ends[rows], sizes[rows], ints(table, SLICE_COLUMN)[rows])]


def _striped(part: RecordPart, table: pa.Table, usable: Mask) -> Iterator[HeldFilters]:
    """The filters of one segment that are cut into stripes."""
    sizes, stripes = ints(table, "blocks", 0), ints(table, "stripes", 0)
    for count in np.unique(stripes[usable & (stripes > 0)]).tolist():
        rows = np.flatnonzero(usable & (stripes == count))
        stored = rows if part.rows is None else part.rows[rows]
        filters = StripedFilters(part.read, stored, sizes[rows], count)
        yield HeldFilters(filters, ints(table, SLICE_COLUMN)[rows])


def _by_size(whole: Sequence[_Whole]) -> Iterator[HeldFilters]:
    """The filters of which there are many of one size, turned; the others, segment by segment, as they stand."""
    if not whole:
        return
    all_sizes, counts = np.unique(np.concatenate([each.sizes for each in whole]), return_counts=True)
    frequent = all_sizes[counts >= MANY_ALIKE]
    for size in frequent.tolist():
        alike = [each.only(each.sizes == size) for each in whole]
        filters = BitRows([_bytes_of(each, size) for each in alike])
        yield HeldFilters(filters, np.concatenate([each.slices for each in alike]))
    for each in whole:
        rest = each.only(~np.isin(each.sizes, frequent))
        if len(rest.slices):
            yield HeldFilters(WholeFilters(rest.words, rest.starts, rest.sizes), rest.slices)


def _bytes_of(alike: _Whole, size: int) -> NDArray[np.uint8]:
    """Filters of `size` blocks, a row for each."""
    blocks = alike.words[alike.starts[:, None] + np.arange(size)]
    return blocks.view(np.uint8).reshape(-1, size * BLOCK_BYTES)
