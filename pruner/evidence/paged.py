"""Records that are read page by page, by snapshot ordinals; and the evidence of an index that has such records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, positions
from pruner.errors import FormatError, StorageError
from pruner.evidence.join import placed, with_slices
from pruner.indexes.optional import PagedIndexType
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pruner.evidence.join import Place, Placement
    from pruner.indexes.base import IndexType
    from pruner.indexes.optional import PagedEvidence, RecordPages
    from pruner.metadata.pages import PageLayout
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry
    from pruner.schema import Field

WHOLE_RECORDS = 100_000
"""Records of a field of an index up to which they are loaded whole: plans are then a little faster, and the first
one is as fast."""


class _Pages(ABC):
    """The records of one segment by snapshot ordinals: see `pruner.indexes.optional.RecordPages`."""

    records: NDArray[np.int64]
    sizes: NDArray[np.int64]
    deferred_sizes: NDArray[np.int64]
    leading: Sequence[int]
    firsts: pa.Table
    lasts: pa.Table

    def __init__(self, place: Place) -> None:
        self._entry = place.entry
        self._ordinals = place.ordinals

    @abstractmethod
    def _stored(self, page: int, names: Sequence[str] | None) -> pa.Table:
        """Columns of the records of a page as they are stored."""

    @abstractmethod
    def read_deferred(self, page: int) -> pa.Table:
        """The deferred columns of the records of a page."""

    def read(self, page: int, names: Sequence[str] | None) -> pa.Table:
        """Columns of the records of a page: see `RecordPages`."""
        records = self._stored(page, names)
        return with_slices(
            records, placed(as_numpy(records.column(SLICE_COLUMN)), self._ordinals, self._entry)
        )


class _StoredPages(_Pages):
    """The pages of a segment with a directory."""

    def __init__(self, place: Place, segments: SegmentCache, kind: PagedIndexType) -> None:
        super().__init__(place)
        self._segments = segments
        self._deferred = tuple(kind.deferred)
        pages = segments.pages(place.entry)
        self._plain = tuple(name for name in pages.names if name not in kind.deferred)
        self.records = pages.records
        self.sizes = pages.sizes
        self.deferred_sizes = pages.deferred_sizes
        self.leading = pages.leading
        self.firsts = pages.firsts
        self.lasts = pages.lasts

    def _stored(self, page: int, names: Sequence[str] | None) -> pa.Table:
        return self._segments.read_page(self._entry, page, self._plain if names is None else tuple(names))

    def read_deferred(self, page: int) -> pa.Table:
        return self._segments.read_page(self._entry, page, self._deferred, deferred=True)


class _CutRecords(_Pages):
    """A segment without a directory, which is read as a whole and cut in memory."""

    def __init__(
        self,
        place: Place,
        segments: SegmentCache,
        kind: PagedIndexType,
        records: pa.Table,
        layout: PageLayout,
    ) -> None:
        super().__init__(place)
        self._segments = segments
        self._deferred = tuple(kind.deferred)
        self._records = records
        self._starts = layout.starts
        ends = np.append(layout.starts[1:], records.num_rows)
        self.records = ends - layout.starts
        self.sizes = self.deferred_sizes = np.zeros(len(ends), np.int64)  # nothing is left to be read
        self.leading = range(layout.leading)
        keys = records.select(layout.keys)
        self.firsts = keys.take(positions(layout.starts))
        self.lasts = keys.take(positions(ends - 1))

    def _stored(self, page: int, names: Sequence[str] | None) -> pa.Table:
        found = self._records if names is None else self._records.select(list(names))
        return found.slice(int(self._starts[page]), int(self.records[page]))

    def read_deferred(self, page: int) -> pa.Table:
        found = self._segments.read(self._entry, only=self._deferred)
        return found.slice(int(self._starts[page]), int(self.records[page]))


def _pages_of(place: Place, segments: SegmentCache, kind: PagedIndexType) -> RecordPages | None:
    """The pages of one segment; None where it can only be loaded whole."""
    if place.entry.pages is not None:
        pages = _StoredPages(place, segments, kind)
        for page in pages.leading:
            pages.read(page, None)  # what every plan needs: where it is damaged, the segment is left out
        return pages
    records = segments.read(place.entry, but=tuple(kind.deferred))
    layout = kind.layout(records)
    return None if layout is None else _CutRecords(place, segments, kind, records, layout)


def paged_evidence(
    entries: Sequence[SegmentEntry],
    kind: IndexType,
    about: Field,
    placement: Placement,
    segments: SegmentCache,
    count: int,
    report: Callable[[str], None],
) -> PagedEvidence | None:
    """The evidence of one field of one index, page by page; None where its records are to be loaded whole.

    `report` is told, in one sentence each, what could not be read.
    """
    if not isinstance(kind, PagedIndexType) or sum(entry.rows for entry in entries) <= WHOLE_RECORDS:
        return None
    if all(entry.pages is None for entry in entries):
        return None
    found: list[RecordPages] = []
    for place in placement.places(entries, kind, report):
        try:
            pages = _pages_of(place, segments, kind)
        except (FormatError, StorageError) as error:
            report(str(error))
            continue
        if pages is None:
            return None
        found.append(pages)
    return kind.load_paged(found, count, about, segments.limit_bytes) if found else None
