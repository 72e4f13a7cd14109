"""What a Bloom filter index records about one slice, and how the filters of many slices are stored.

Stored filters are cut into stripes, so that a lookup reads a little of each.

A record is either whole, with its filter in the column `filter`, or it has its blocks in the columns `bits_000`,
`bits_001`, …, of which column j of n holds the blocks from j/n to (j+1)/n of the filter, however large the filter is. A
hash selects its block in proportion, so all slices have it in one of two neighboring columns. Each of these columns is
contiguous in the segment (ADR 22). Filters with fewer blocks than there are stripes stay whole.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, filled, number_array
from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.columns.hashed import COMMON_COLUMNS, one_row, record_values
from pruner.tables.footers.filters import BLOCK_BYTES, blocks_for, filter_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pruner.indexes.base import SliceReader
    from pruner.schema import Field

    Hashes = NDArray[np.uint64]
    Integers = NDArray[np.int64]
    Blocks = NDArray[np.uint64]

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
"""Columns of the record of one slice. Without `usable`, only the note has a meaning."""

_HASHES_AT_ONCE = 1 << 20
"""Hashes that are gathered before duplicates are dropped."""


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
    # `np.unique` uses a hash table of its own: four to twenty times as slow.
    ascending = np.sort(np.concatenate([*parts, np.empty(0, np.uint64)]))
    return ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]


FILTER: Final = "filter"
STRIPES: Final = "stripes"
BLOCKS: Final = "blocks"

MOST_STRIPES: Final = 256
"""A column of a Parquet file costs about 150 bytes of its footer, which the first lookup reads."""

STRIPE_BYTES: Final = 1 << 15
"""Stripes are not made shorter than this."""

SMALL_SHARE: Final = 1 / 32
"""Share of all bytes that may belong to filters with fewer blocks than there are stripes, which stay whole."""

_PREFIX = "bits_"


def stripe_name(number: int) -> str:
    """The column of a stripe."""
    return f"{_PREFIX}{number:03}"


def is_stripe(column: str) -> bool:
    """Tell whether a column holds a stripe."""
    return column.startswith(_PREFIX)


def stripe_of(blocks: Integers, sizes: Integers, stripes: int) -> Integers:
    """The stripe that holds a block of each filter; `sizes` are the numbers of blocks of the filters."""
    return ((blocks + 1) * stripes - 1) // sizes


def stripe_start(number: Any, sizes: Integers, stripes: int) -> Integers:
    """The first block of a stripe in each filter."""
    return number * sizes // stripes


def striped(records: pa.Table) -> pa.Table:
    """Convert records of any form to the stored one, in unchanged order."""
    records = records.combine_chunks()
    filters, starts, sizes = _joined(records)
    stripes = _stripe_count(sizes)
    kept: Any = records.select([name for name in records.column_names if not is_stripe(name)])
    if stripes < 2:
        kept = _replaced(kept, FILTER, _strings(filters, starts, sizes, sizes >= 0))
        return _replaced(kept, STRIPES, number_array(np.zeros(len(sizes), np.int16), pa.int16()))
    cut = sizes >= stripes
    kept = _replaced(kept, FILTER, _strings(filters, starts, sizes, ~cut & (sizes >= 0)))
    kept = _replaced(kept, STRIPES, number_array(np.where(cut, stripes, 0).astype(np.int16), pa.int16()))
    for number in range(stripes):
        first = stripe_start(number, sizes, stripes)
        behind = stripe_start(number + 1, sizes, stripes)
        kept = kept.append_column(stripe_name(number), _strings(filters, starts + first, behind - first, cut))
    return kept


def _stripe_count(sizes: Integers) -> int:
    """Into how many stripes to cut filters of these numbers of blocks (-1 for none); 1 to leave them whole."""
    ascending = np.sort(sizes[sizes > 0])
    total = int(ascending.sum())
    if not total:
        return 1
    small = int(np.searchsorted(np.cumsum(ascending), total * SMALL_SHARE, side="right"))
    return max(1, min(MOST_STRIPES, total * BLOCK_BYTES // STRIPE_BYTES, int(ascending[small])))


def _joined(records: pa.Table) -> tuple[Blocks, Integers, Integers]:
    """All blocks, where each filter begins among them, and each filter's number of blocks, -1 without a filter."""
    sizes = _integers(records.column(BLOCKS), -1)
    starts = np.cumsum(np.maximum(sizes, 0)) - np.maximum(sizes, 0)
    joined = np.empty((int(np.maximum(sizes, 0).sum()), BLOCK_BYTES // 8), np.uint64)
    stripes = _integers(records.column(STRIPES), 0)
    whole = np.flatnonzero((stripes == 0) & (sizes > 0))
    _fill(joined, starts[whole], sizes[whole], records.column(FILTER), whole)
    for count in np.unique(stripes[stripes > 0]).tolist():
        rows = np.flatnonzero(stripes == count)
        for number in range(count):
            first = stripe_start(number, sizes[rows], count)
            lengths = stripe_start(number + 1, sizes[rows], count) - first
            _fill(joined, starts[rows] + first, lengths, records.column(stripe_name(number)), rows)
    return joined, starts, sizes


def _fill(joined: Blocks, starts: Integers, lengths: Integers, column: Any, rows: Integers) -> None:
    """Write the blocks in some rows of a column to where they belong.

    Raises:
        ValueError: the rows hold another number of blocks.
    """
    blocks, offsets = blocks_of(column)
    counts = offsets[rows + 1] - offsets[rows]
    if not np.array_equal(counts, lengths):
        raise ValueError("a filter does not have the number of blocks that its record says")
    joined[_positions(starts, lengths)] = blocks[_positions(offsets[rows], lengths)]


def blocks_of(column: Any) -> tuple[Blocks, Integers]:
    """The blocks of a column of byte strings, and where those of each row begin and end.

    Raises:
        ValueError: a string is not a whole number of blocks.
    """
    chunks = column.chunks
    array = (chunks[0] if len(chunks) == 1 else column.combine_chunks()).cast(pa.large_binary())
    _, offsets, data = array.buffers()
    ends = (
        np.frombuffer(offsets, np.int64)[array.offset :][: len(array) + 1]
        if len(array)
        else np.zeros(1, np.int64)
    )
    if (ends % BLOCK_BYTES).any():
        raise ValueError("a filter is no whole number of blocks")
    plain = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    used = plain[: int(ends[-1])]
    return used.view("<u8").reshape(-1, BLOCK_BYTES // 8), ends // BLOCK_BYTES


def _strings(blocks: Blocks, starts: Integers, lengths: Integers, chosen: NDArray[np.bool_]) -> pa.Array[Any]:
    """Some runs of blocks as byte strings; null where not chosen."""
    kept = np.where(chosen, lengths, 0)
    ends = np.concatenate([[0], np.cumsum(kept)]) * BLOCK_BYTES
    data = blocks[_positions(starts[chosen], lengths[chosen])]
    known = None if chosen.all() else np.packbits(chosen, bitorder="little")
    content: list[Any] = [known, ends, data]
    buffers: list[Any] = [None if part is None else pa.py_buffer(part) for part in content]
    return pa.Array.from_buffers(pa.large_binary(), len(kept), buffers)


def _positions(starts: Integers, lengths: Integers) -> Integers:
    """The concatenated positions of several runs."""
    before = np.cumsum(lengths) - lengths
    return np.repeat(starts - before, lengths) + np.arange(int(lengths.sum()))


def _integers(column: Any, default: int) -> Integers:
    return as_numpy(filled(column.combine_chunks(), default)).astype(np.int64)


def _replaced(records: pa.Table, name: str, column: pa.Array[Any]) -> pa.Table:
    return records.set_column(records.column_names.index(name), name, cast("Any", column))
