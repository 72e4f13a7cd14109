"""Looks hashes up in the keys of one segment, page by page."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pruner.arrow import as_numpy, filled, first_value
from pruner.errors import FormatError
from pruner.indexes.record_index.packing import hashes_of, layout_of, numbers, stored_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.optional import RecordPart

    Hashes = NDArray[np.uint64]
    Integers = NDArray[np.int64]

PACKED = "packed"

_AT_ONCE = 512
"""Pages that are in memory together: 20 MB."""

_FEW = 16
"""Hashes whose pages are listed one by one: of one key in many segments that is most of the time."""


class Hits(NamedTuple):
    """Keys that were found: which of the hashes that were asked for, their slices, and their places in the segment."""

    which: Integers
    slices: Integers
    places: Integers


NO_HITS = Hits(*(np.empty(0, np.int64) for _ in Hits._fields))


class SegmentKeys:
    """The keys of one segment. Threads may share it.

    Args:
        part: the records of the slices that count, and what reads the others.

    Raises:
        FormatError: the records do not say how the keys are packed.
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
        """Bytes that are read to find some ascending hashes."""
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
        found = numbers(data, layout.position_bytes)
        return found[turn * layout.page_keys + places % layout.page_keys]

    def _pages(self, hashes: Hashes) -> Sequence[int]:
        """The pages on which some ascending hashes may stand."""
        fences = self._layout.fences
        # A hash that stands at the beginning of a page may stand at the end of the one before as well.
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
        """What some pages hold of the hashes; None where they hold none."""
        layout = self._layout
        data = self._read([layout.hashes(page) for page in pages] + [layout.rows(page) for page in pages])
        held = hashes_of(data[: len(pages)])
        start = held.searchsorted(hashes)
        if not (held.take(start, mode="clip") == hashes).any():
            return None
        rows = stored_numbers(data[len(pages) :], layout.row_bytes)
        counts = held.searchsorted(hashes, side="right") - start
        which = np.repeat(np.arange(len(hashes)), counts)
        before = np.cumsum(counts) - counts
        at = np.repeat(start - before, counts) + np.arange(len(which))
        found = rows[at].astype(np.int64)
        if found.max(initial=0) >= len(self._slice_of):
            raise FormatError("a record index names slices that it is not about: create it anew")
        slices = self._slice_of[found]
        places = np.array(pages)[at // layout.page_keys] * layout.page_keys + at % layout.page_keys
        counted = slices >= 0
        return Hits(which[counted], slices[counted], places[counted])

    def _read(self, ranges: Sequence[tuple[int, int]]) -> Sequence[memoryview]:
        if self._part.read_bytes is not None:
            return self._part.read_bytes(PACKED, self._layout.size, ranges)
        return [self._packed[start:end] for start, end in ranges]

    @cached_property
    def _packed(self) -> memoryview:
        """All keys, of records that are in memory."""
        return first_value(self._part.read([PACKED]).column(PACKED))
