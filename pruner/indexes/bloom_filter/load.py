"""Turns records into filters, and looks up hashes in the filters of many slices at once.

A slice whose record does not fit the column as it is now, or is inconsistent, is not covered.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from pruner.indexes.bloom_filter.record import (
    MOST_STRIPES,
    RECORD_SCHEMA,
    blocks_of,
    stripe_name,
    stripe_of,
    stripe_start,
)
from pruner.indexes.columns.hashed import as_recorded, ints, placing, readable
from pruner.metadata.segments import SLICE_COLUMN
from pruner.tables.footers.filters import (
    BLOCK_BITS,
    BLOCK_BYTES,
    WORD_BITS,
    WORDS,
    bits_of,
    block_of,
    masks_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.columns.reading import UnreadSlices
    from pruner.indexes.optional import RecordPart
    from pruner.schema import Field

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]
    Positions = NDArray[np.intp]
    Hashes = NDArray[np.uint64]
    Words = NDArray[np.uint32]
    Bytes = NDArray[np.uint8]


_HASHES_AT_ONCE = 1 << 14
"""Blocks processed together, so that they stay in the CPU cache."""


class WholeFilters:
    """Filters that are in memory: `words` has the blocks of all of them, `starts` where each begins.

    As in every class of filters here, `holders` returns the positions, in `at`, of the filters that may hold one of
    some hashes; `at` are positions of filters, None for all of them.
    """

    def __init__(self, words: Words, starts: Integers, sizes: Integers) -> None:
        self._words = words
        self._starts = starts
        self._sizes = sizes.astype(np.uint64)

    def holders(self, at: Positions | None, hashes: Hashes) -> Positions:
        """Positions of the filters that may hold one of the hashes: see above."""
        rows = np.arange(len(self._sizes)) if at is None else at

        def holds(left: Positions, one: Hashes) -> Mask:
            at = rows[left]
            return _all_set(self._words, self._starts[at] + block_of(one, self._sizes[at]), masks_of(one)[0])

        return np.flatnonzero(_any_of(len(rows), hashes, holds))


class StripedFilters:
    """Filters whose stripes are read when they are needed.

    Args:
        read: reads columns of all records of the segment.
        stored: the positions of the filters among these records.
        sizes: their numbers of blocks.
        stripes: the number of stripes into which each is cut.
    """

    def __init__(
        self, read: Callable[[list[str]], pa.Table], stored: Integers, sizes: Integers, stripes: int
    ) -> None:
        self._read = read
        self._stored = stored
        self._sizes = sizes
        self._stripes = stripes

    def holders(self, at: Positions | None, hashes: Hashes) -> Positions:
        """Positions of the filters that may hold one of the hashes: see `WholeFilters`.

        Raises:
            FormatError: what was read is damaged.
            StorageError: it cannot be read.
            ValueError: it does not have the size that the records state.
        """
        rows = np.arange(len(self._sizes)) if at is None else at
        parts = [self._stripe(rows, hashes[number : number + 1]) for number in range(len(hashes))]
        wanted: list[int] = sorted(set(np.concatenate(parts).tolist()))
        table = self._read([stripe_name(number) for number in wanted])
        columns = {number: blocks_of(table.column(stripe_name(number))) for number in wanted}

        def holds(left: Positions, one: Hashes) -> Mask:
            at = rows[left]
            sizes, stripes = self._sizes[at], self._stripe(at, one)
            within = block_of(one, sizes.astype(np.uint64)) - stripe_start(stripes, sizes, self._stripes)
            mask = np.zeros(len(at), np.bool_)
            for number in np.unique(stripes).tolist():
                here = np.flatnonzero(stripes == number)
                blocks, ends = columns[number]
                stored = self._stored[at[here]]
                places = ends[stored] + within[here]
                if (places >= ends[stored + 1]).any():
                    raise ValueError("a stripe is shorter than its record says")
                mask[here] = _all_set(blocks.view(np.uint32).reshape(-1, WORDS), places, masks_of(one)[0])
            return mask

        return np.flatnonzero(_any_of(len(rows), hashes, holds))

    def _stripe(self, rows: Positions, one: Hashes) -> Integers:
        sizes = self._sizes[rows]
        return stripe_of(block_of(one, sizes.astype(np.uint64)), sizes, self._stripes)


def _any_of(count: int, hashes: Hashes, holds: Callable[[Positions, Hashes], Mask]) -> Mask:
    """Look up one hash after another, each only in filters that hold none of those before it."""
    mask = np.zeros(count, np.bool_)
    left = np.arange(count)
    for position in range(len(hashes)):
        held = holds(left, hashes[position : position + 1])
        mask[left[held]] = True
        left = left[~held]
        if not len(left):
            break
    return mask


def _all_set(words: Words, blocks: Integers, masks: Words) -> Mask:
    """Tell for each of some blocks whether it has the bit of each word."""
    pairs, wanted = words.view(np.uint64), masks.view(np.uint64)
    mask = np.empty(len(blocks), np.bool_)
    for start in range(0, len(blocks), _HASHES_AT_ONCE):
        rows = np.take(pairs, blocks[start : start + _HASHES_AT_ONCE], axis=0)
        missing = ~rows[:, 0] & wanted[0]
        for pair in range(1, WORDS // 2):
            missing |= ~rows[:, pair] & wanted[pair]
        np.equal(missing, 0, out=mask[start : start + _HASHES_AT_ONCE])
    return mask


# Many filters of one size, transposed: a row for each bit of a filter, in which each filter has one bit.
#
# A lookup of a hash then reads eight rows, one bit of each filter, whereas filters side by side cost 32 bytes each.

_AT_ONCE: Final = 8192
"""Filters transposed together, so that they stay in the CPU cache; a multiple of eight."""

_SWAPS: Final = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
"""Shifts and masks that transpose 8 by 8 bits (Hacker's Delight, 7-3)."""

_FIRST_BITS: Final = np.arange(WORDS) * WORD_BITS


class BitRows:
    """Filters of one size, in memory.

    Args:
        filters: parts of filters, each a matrix of bytes with a row for each filter.
    """

    def __init__(self, filters: Sequence[Bytes]) -> None:
        self._blocks = np.uint64(filters[0].shape[1] // BLOCK_BYTES)
        self._rows = turned(filters[0] if len(filters) == 1 else np.concatenate(filters))

    def holders(self, at: Positions | None, hashes: Hashes) -> Positions:
        """Positions, in `at`, of the filters that may hold one of the hashes; `at` is None for all filters."""
        if at is None:
            bits = self._with(hashes[:1], None)
            for number in range(1, len(hashes)):
                bits |= self._with(hashes[number : number + 1], None)
            return np.flatnonzero(np.unpackbits(bits, bitorder="little").view(np.bool_))
        own = np.left_shift(1, at & 7).astype(np.uint8)
        held = np.zeros(len(at), np.bool_)
        for number in range(len(hashes)):
            held |= self._with(hashes[number : number + 1], at >> 3) & own != 0
        return np.flatnonzero(held)

    def _with(self, one: Hashes, columns: Positions | None) -> Bytes:
        """The filters with all bits of a hash, eight per byte; for all columns of bytes, or some."""
        first = int(block_of(one, self._blocks)[0]) * BLOCK_BITS
        rows = (first + _FIRST_BITS + bits_of(one)[0]).tolist()
        parts = (self._rows[row] if columns is None else self._rows[row][columns] for row in rows)
        bits = next(parts).copy()
        for part in parts:
            bits &= part
        return bits


def turned(filters: Bytes) -> Bytes:
    """Row k has bit k of each filter, eight filters per byte, padded with zeros after the last filter."""
    count, size = filters.shape
    rows = np.zeros((size, 8, -(-count // 8)), np.uint8)
    for start in range(0, count, _AT_ONCE):
        part = filters[start : start + _AT_ONCE]
        part = np.concatenate([part, np.zeros((-len(part) % 8, size), np.uint8)])
        # The bytes at one position of eight filters are a square of 8 by 8 bits.
        squares = np.ascontiguousarray(part.reshape(-1, 8, size).transpose(2, 0, 1)).view("<u8")[..., 0]
        for shift, mask in _SWAPS:
            swapped = (squares ^ (squares >> np.uint64(shift))) & np.uint64(mask)
            squares = squares ^ swapped ^ (swapped << np.uint64(shift))
        columns = squares[..., None].view(np.uint8)
        rows[:, :, start // 8 : start // 8 + columns.shape[1]] = columns.transpose(0, 2, 1)
    return rows.reshape(size * 8, -1)


NO_GROUP = -1

MANY_ALIKE = 1024
"""Number of filters of one size from which they are transposed: fewer are looked up as fast untransposed."""

Group: TypeAlias = "WholeFilters | StripedFilters | BitRows"


class HeldFilters(NamedTuple):
    """Filters that are looked up together, and the slice of each."""

    group: Group
    slices: Integers


@dataclass(frozen=True)
class Filters:
    """The filters of many slices.

    `covered` are the slices with a usable record, `uncovered` the others, None if there are none. `group_of[i]` is the
    position in `groups` of the group with the filter of slice i, and `row_of[i]` its row there; `NO_GROUP` if the slice
    holds no value, or is not covered. `distinct` is the number of its values. `unread` tells the slices whose values an
    engine reads differently. `notes` says why slices with a record are not covered.
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
    loaded = readable(records, _adds_up(records), count, field)
    groups: list[HeldFilters] = []
    whole: list[_Whole] = []
    ends = np.cumsum([table.num_rows for table in tables])
    for part, table, end in zip(parts, tables, ends.tolist(), strict=True):
        of_part = loaded.usable[end - table.num_rows : end]
        whole += _whole(table, of_part)
        groups += _striped(part, table, of_part)
    groups += _by_size(whole)
    group_of = np.full(count, NO_GROUP, np.int16)
    row_of = np.zeros(count, np.int32)
    for number, held in enumerate(groups):
        group_of[held.slices], row_of[held.slices] = number, np.arange(len(held.slices))
    place = placing(ints(records, SLICE_COLUMN), loaded.usable, count)
    return Filters(
        covered=loaded.covered,
        uncovered=None if loaded.covered.all() else ~loaded.covered,
        groups=tuple(groups),
        group_of=group_of,
        row_of=row_of,
        distinct=place(ints(records, "distinct", -1), -1),
        unread=loaded.unread,
        notes=loaded.notes,
    )


def _adds_up(records: pa.Table) -> Mask:
    """Tell which records have a filter of the size that they state, or one in stripes (R10)."""
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
    """Filters of which there are many of one size, transposed; the others, segment by segment, unchanged."""
    if not whole:
        return
    all_sizes, counts = np.unique(np.concatenate([each.sizes for each in whole]), return_counts=True)
    frequent = all_sizes[counts >= MANY_ALIKE]
    for size in frequent.tolist():
        alike = [each.only(each.sizes == size) for each in whole]
        filters = BitRows([_bytes_of(whole, size) for whole in alike])
        yield HeldFilters(filters, np.concatenate([whole.slices for whole in alike]))
    for each in whole:
        rest = each.only(~np.isin(each.sizes, frequent))
        if len(rest.slices):
            yield HeldFilters(WholeFilters(rest.words, rest.starts, rest.sizes), rest.slices)


def _bytes_of(alike: _Whole, size: int) -> NDArray[np.uint8]:
    """Filters of `size` blocks, one row each."""
    blocks = alike.words[alike.starts[:, None] + np.arange(size)]
    return blocks.view(np.uint8).reshape(-1, size * BLOCK_BYTES)
