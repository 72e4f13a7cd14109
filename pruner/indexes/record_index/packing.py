"""How the keys of all slices of a segment are stored, sorted by hash, and looked up page by page.

`packed` has three sections, each with an entry per key, in the order of hashes: the hashes (8 bytes), the row of the
segment that is about the slice of the key, and the position of the key in that slice. The last two take as few bytes as
their greatest number needs. `fences` has every `PAGE_KEYS`-th hash, so that a lookup reads one page of each section: 32
KiB of hashes, and less of the others.
"""

from __future__ import annotations

import struct
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, filled, first_value
from pruner.errors import FormatError
from pruner.indexes.columns.hashed import ints

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.optional import RecordPart

    Hashes = NDArray[np.uint64]
    Integers = NDArray[np.int64]

PAGE_KEYS: Final = 4096
"""Keys per page: their hashes are as long as the piece of a segment that has its own checksum."""

HASH_BYTES: Final = 8

_HEADER = struct.Struct("<QIBBH")  # number of keys, keys of a page, bytes of a row, bytes of a position, 0
_UNSIGNED: Final = {1: "<u1", 2: "<u2", 4: "<u4"}


class KeyLayout(NamedTuple):
    """How the keys of a segment are packed: their number, the hash of the first key of each page, and the number of
    bytes of a row and of a position.
    """

    keys: int
    page_keys: int
    row_bytes: int
    position_bytes: int
    fences: Hashes

    @property
    def size(self) -> int:
        """Bytes of all sections."""
        return self.keys * (HASH_BYTES + self.row_bytes + self.position_bytes)

    def _range(self, page: int, before: int, width: int) -> tuple[int, int]:
        first, behind = page * self.page_keys, min((page + 1) * self.page_keys, self.keys)
        return self.keys * before + first * width, self.keys * before + behind * width

    def hashes(self, page: int) -> tuple[int, int]:
        """Where the hashes of a page begin and end."""
        return self._range(page, 0, HASH_BYTES)

    def rows(self, page: int) -> tuple[int, int]:
        """Where the rows of the keys of a page begin and end."""
        return self._range(page, HASH_BYTES, self.row_bytes)

    def positions(self, page: int) -> tuple[int, int]:
        """Where the positions of the keys of a page begin and end."""
        return self._range(page, HASH_BYTES + self.row_bytes, self.position_bytes)


def layout_of(fences: bytes) -> KeyLayout:
    """Read what `packed` wrote into the column `fences`.

    Raises:
        FormatError: it is something else.
    """
    if len(fences) < _HEADER.size:
        raise FormatError("a record index does not say how its keys are packed: create it anew")
    count, page_keys, row_bytes, position_bytes, _ = _HEADER.unpack(fences[: _HEADER.size])
    body = fences[_HEADER.size :]
    pages = -(-count // page_keys) if page_keys else -1
    if len(body) != pages * HASH_BYTES or not {row_bytes, position_bytes} <= set(_UNSIGNED):
        raise FormatError("a record index contradicts itself about its keys: create it anew")
    return KeyLayout(count, page_keys, row_bytes, position_bytes, np.frombuffer(body, "<u8"))


def numbers(data: Sequence[Any], width: int) -> Integers:
    """The numbers of some concatenated parts of a section."""
    return stored_numbers(data, width).astype(np.int64)


def stored_numbers(data: Sequence[Any], width: int) -> NDArray[Any]:
    """The same as unsigned numbers of their stored width, which takes as little as an eighth of the memory."""
    kind = _UNSIGNED[width]
    return np.concatenate([np.empty(0, kind), *(np.frombuffer(part, kind) for part in data)])


def hashes_of(data: Sequence[Any]) -> Hashes:
    """The hashes of some parts of the section of hashes."""
    if len(data) == 1:
        return np.frombuffer(data[0], "<u8")  # one page, as most lookups read
    return np.concatenate([np.empty(0, np.uint64), *(np.frombuffer(part, "<u8") for part in data)])


def order_of(hashes: Hashes) -> NDArray[np.intp]:
    """The permutation that sorts hashes; equal ones keep their order.

    Few hashes are equal, and an unstable sort is several times faster.
    """
    order = np.argsort(hashes)
    ascending = hashes[order]
    again = ascending[1:] == ascending[:-1]
    if again.any():
        alike = np.zeros(len(hashes), np.bool_)
        alike[1:] = again
        alike[:-1] |= again
        at = np.flatnonzero(alike)
        order[at] = order[at][np.lexsort((order[at], ascending[at]))]
    return order


def packed(records: pa.Table) -> pa.Table:
    """Collect the keys of all rows in the first row; the order of the rows is unchanged."""
    counts, hashes, positions = _spread_keys(records.combine_chunks())
    rows = np.repeat(np.arange(len(counts)), counts)
    order = order_of(hashes)
    row_bytes, position_bytes = _width(len(counts)), _width(int(positions.max(initial=0)) + 1)
    ascending = hashes[order].astype("<u8")
    content = b"".join(
        (
            ascending.tobytes(),
            rows[order].astype(_UNSIGNED[row_bytes]).tobytes(),
            positions[order].astype(_UNSIGNED[position_bytes]).tobytes(),
        )
    )
    header = _HEADER.pack(len(hashes), PAGE_KEYS, row_bytes, position_bytes, 0)
    return _with(
        records,
        hashes=[None] * len(counts),
        positions=[None] * len(counts),
        fences=[header + ascending[::PAGE_KEYS].tobytes(), *[None] * (len(counts) - 1)],
        packed=[content, *[None] * (len(counts) - 1)],
    )


def spread(records: pa.Table) -> pa.Table:
    """Give each row of a whole segment its own keys: see `SpreadingIndexType`.

    Raises:
        FormatError: the keys are inconsistent.
    """
    if not records.num_rows:
        return records
    fences, content = (records.column(name)[0].as_py() for name in ("fences", "packed"))
    layout = layout_of(fences or b"")
    counts = ints(records, "keys", 0)
    if content is None or len(content) != layout.size:
        raise FormatError("a record index has more or fewer keys than it says: create it anew")
    ends = np.cumsum([0, HASH_BYTES, layout.row_bytes, layout.position_bytes]) * layout.keys
    parts = [content[start:end] for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
    rows = numbers(parts[1:2], layout.row_bytes)
    if not np.array_equal(np.bincount(rows, minlength=len(counts)), counts):
        raise FormatError("a record index has other keys than its slices say: create it anew")
    order = np.argsort(rows, kind="stable")
    hashes = hashes_of(parts[:1])[order].astype("<u8")
    positions = numbers(parts[2:], layout.position_bytes)[order].astype("<u4")
    missing: list[bytes | None] = [None] * len(counts)
    own = _with(records, fences=missing, packed=missing)
    own = _replaced(own, "hashes", _strings(hashes.view(np.uint8), counts * HASH_BYTES))
    return _replaced(own, "positions", _strings(positions.view(np.uint8), counts * 4))


def distinct_keys(records: pa.Table) -> int:
    """The number of distinct keys per row, summed over the rows, of records that are not packed yet."""
    counts, hashes, _ = _spread_keys(records.combine_chunks())
    again = hashes[1:] == hashes[:-1]
    starts = np.cumsum(counts)[:-1]
    again[starts[(starts > 0) & (starts < len(hashes))] - 1] = False
    return len(hashes) - int(np.count_nonzero(again))


def _spread_keys(records: pa.Table) -> tuple[Integers, Hashes, Integers]:
    """The number of keys of each row, and the hashes and positions of all of them, row by row."""
    counts = ints(records, "keys", 0)
    values: list[Any] = []
    for name, kind in (("hashes", "<u8"), ("positions", "<u4")):
        data, lengths = _bytes_of(records.column(name))
        if not np.array_equal(lengths, counts * np.dtype(kind).itemsize):
            raise ValueError("a record has another number of keys than it says")
        values.append(data.view(kind))
    hashes, positions = values
    return counts, hashes, positions.astype(np.int64)


def _bytes_of(column: Any) -> tuple[NDArray[np.uint8], Integers]:
    """The concatenated bytes of all strings of a column, and the lengths of the strings."""
    array = column.combine_chunks().fill_null(b"").cast(pa.large_binary())
    _, offsets, data = array.buffers()
    ends = (
        np.frombuffer(offsets, np.int64)[array.offset :][: len(array) + 1]
        if len(array)
        else np.zeros(1, np.int64)
    )
    plain = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return plain[int(ends[0]) : int(ends[-1])], np.diff(ends)


def _strings(data: NDArray[np.uint8], lengths: Integers) -> pa.Array[Any]:
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    buffers: list[Any] = [None, *map(arrow.py_buffer, (ends, np.ascontiguousarray(data)))]
    return pa.Array.from_buffers(pa.large_binary(), len(lengths), buffers)


def _width(bound: int) -> int:
    """The number of bytes for a number below a bound."""
    return 1 if bound <= 1 << 8 else 2 if bound <= 1 << 16 else 4


def _with(records: pa.Table, **columns: list[bytes | None]) -> pa.Table:
    for name, values in columns.items():
        records = _replaced(records, name, pa.array(values[: records.num_rows], pa.large_binary()))
    return records


def _replaced(records: pa.Table, name: str, column: pa.Array[Any]) -> pa.Table:
    return records.set_column(records.column_names.index(name), name, cast("Any", column))


PACKED = "packed"

_AT_ONCE = 512
"""Pages that are in memory together: 20 MB."""

_FEW = 16
"""Hashes whose pages are listed one by one: for one key in many segments, this is most of the time."""


class Hits(NamedTuple):
    """Keys that were found: which of the requested hashes they have, their slices, and their places in the segment."""

    which: Integers
    slices: Integers
    places: Integers


NO_HITS = Hits(*(np.empty(0, np.int64) for _ in Hits._fields))


class SegmentKeys:
    """The keys of one segment. Threads may share it.

    Args:
        part: the records of the slices that count, and a reader of all records.

    Raises:
        FormatError: the records do not state how the keys are packed.
        StorageError: they cannot be read.
    """

    def __init__(self, part: RecordPart) -> None:
        self._part = part
        about = part.read(["fences", "keys"])
        self._layout = layout_of(about.column("fences")[0].as_py() or b"" if about.num_rows else b"")
        counts: Integers = as_numpy(filled(about.column("keys").combine_chunks(), 0))
        if int(counts.sum()) != self._layout.keys:
            raise FormatError("a record index has other keys than its slices say: create it anew")
        self._slice_of = np.full(about.num_rows, -1, np.int64)
        slices = as_numpy(part.records.column("__slice"))
        self._slice_of[np.arange(about.num_rows) if part.rows is None else part.rows] = slices

    @property
    def slices(self) -> Integers:
        """The slices that count."""
        return self._slice_of[self._slice_of >= 0]

    def bytes_to_read(self, hashes: Hashes) -> int:
        """Bytes to read to find some ascending hashes."""
        layout = self._layout
        return len(self._pages(hashes)) * layout.page_keys * layout.size // max(layout.keys, 1)

    def find(self, hashes: Hashes) -> Iterator[Hits]:
        """Find ascending hashes, a bounded number of pages at a time.

        Raises:
            FormatError: what was read is damaged.
            StorageError: it cannot be read.
        """
        pages = self._pages(hashes)
        for start in range(0, len(pages), _AT_ONCE):
            hits = self._find_in(pages[start : start + _AT_ONCE], hashes)
            if hits is not None:
                yield hits

    def positions(self, places: Integers) -> Integers:
        """The positions of keys in their slices; raises as `find` does."""
        layout = self._layout
        pages, turn = np.unique(places // layout.page_keys, return_inverse=True)
        data = self._read([layout.positions(page) for page in pages.tolist()])
        positions = numbers(data, layout.position_bytes)
        return positions[turn * layout.page_keys + places % layout.page_keys]

    def _pages(self, hashes: Hashes) -> Sequence[int]:
        """The pages that may hold some ascending hashes."""
        fences = self._layout.fences
        # A hash at the beginning of a page may also be at the end of the page before.
        first = fences.searchsorted(hashes) - 1
        behind = fences.searchsorted(hashes, side="right")
        if len(hashes) <= _FEW:
            runs = zip(first.tolist(), behind.tolist(), strict=True)
            return sorted({page for start, end in runs for page in range(max(start, 0), end)})
        first = np.maximum(first, 0)
        steps = np.zeros(len(fences) + 1, np.int64)
        there = behind > first
        np.add.at(steps, first[there], 1)
        np.add.at(steps, behind[there], -1)
        return np.flatnonzero(np.cumsum(steps[:-1]) > 0).tolist()

    def _find_in(self, pages: Sequence[int], hashes: Hashes) -> Hits | None:
        """The hits of the hashes on some pages; None if there are none."""
        layout = self._layout
        data = self._read([layout.hashes(page) for page in pages] + [layout.rows(page) for page in pages])
        held = hashes_of(data[: len(pages)])
        if not np.array_equal(held[:: layout.page_keys], layout.fences[pages]):
            raise FormatError("a record index has other keys than its fences say: create it anew")
        start = held.searchsorted(hashes)
        if not (held.take(start, mode="clip") == hashes).any():
            return None
        rows = stored_numbers(data[len(pages) :], layout.row_bytes)
        counts = held.searchsorted(hashes, side="right") - start
        which = np.repeat(np.arange(len(hashes)), counts)
        before = np.cumsum(counts) - counts
        at = np.repeat(start - before, counts) + np.arange(len(which))
        row_set = rows[at].astype(np.int64)
        if row_set.max(initial=0) >= len(self._slice_of):
            raise FormatError("a record index names slices that it is not about: create it anew")
        slices = self._slice_of[row_set]
        places = np.array(pages)[at // layout.page_keys] * layout.page_keys + at % layout.page_keys
        counted = slices >= 0
        return Hits(which[counted], slices[counted], places[counted])

    def _read(self, ranges: Sequence[tuple[int, int]]) -> Sequence[memoryview]:
        if self._part.read_bytes is not None:
            return self._part.read_bytes(PACKED, self._layout.size, ranges)
        return [self._packed[start:end] for start, end in ranges]

    @cached_property
    def _packed(self) -> memoryview:
        """All keys, for records that are in memory."""
        return first_value(self._part.read([PACKED]).column(PACKED))
