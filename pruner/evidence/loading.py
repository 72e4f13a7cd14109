"""Loads what an index says of a field of one snapshot: its records, joined to the slices.

Some indexes are read whole, some by groups of slices, some page by page. A segment that cannot be read is left out, and
the reason is among the fallbacks (trap I4).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.arrow import MANY_RECORDS, as_numpy, give_back_memory, positions
from pruner.errors import FormatError, IndexDefinitionError, PrunerError, StorageError
from pruner.evidence.grouped import GroupedEvidence, grouped_evidence
from pruner.evidence.join import Placement, SegmentRecords, newest_of_each_slice, placed, with_slices
from pruner.evidence.sources import Sources, failure_of, of_groups, of_pages, of_records
from pruner.indexes.optional import (
    DeferringIndexType,
    ListedEvidence,
    NotingEvidence,
    PagedIndexType,
    RecordPart,
    SelectiveIndexType,
)
from pruner.indexes.registry import index_type, is_built_in
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pruner.evidence.join import Placement, SegmentPlacement
    from pruner.indexes.base import Evidence, IndexType
    from pruner.indexes.optional import PagedEvidence, RecordPages
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.pages import PageLayout
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

# Records that are read page by page, by snapshot ordinals, and the evidence of an index with such records.

WHOLE_RECORDS = 100_000
"""Most records of an index for one field that are loaded whole: plans are then a little faster, and the first one is
as fast."""


class _Pages(ABC):
    """The records of one segment by snapshot ordinals: see `pruner.indexes.optional.RecordPages`."""

    records: NDArray[np.int64]
    sizes: NDArray[np.int64]
    deferred_sizes: NDArray[np.int64]
    leading: Sequence[int]
    firsts: pa.Table
    lasts: pa.Table

    def __init__(self, place: SegmentPlacement) -> None:
        self._entry = place.entry
        self._ordinals = place.ordinals

    @abstractmethod
    def _stored(self, page: int, names: Sequence[str] | None) -> pa.Table:
        """Columns of the records of a page, as stored."""

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

    def __init__(self, place: SegmentPlacement, segments: SegmentCache, kind: PagedIndexType) -> None:
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
    """A segment without a directory, which is read as a whole and split into pages in memory."""

    def __init__(
        self,
        place: SegmentPlacement,
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
        self.sizes = self.deferred_sizes = np.zeros(len(ends), np.int64)  # nothing is left to read
        self.leading = range(layout.leading)
        keys = records.select(layout.keys)
        self.firsts = keys.take(positions(layout.starts))
        self.lasts = keys.take(positions(ends - 1))

    def _stored(self, page: int, names: Sequence[str] | None) -> pa.Table:
        records = self._records if names is None else self._records.select(list(names))
        return records.slice(int(self._starts[page]), int(self.records[page]))

    def read_deferred(self, page: int) -> pa.Table:
        records = self._segments.read(self._entry, only=self._deferred)
        return records.slice(int(self._starts[page]), int(self.records[page]))


def _pages_of(place: SegmentPlacement, segments: SegmentCache, kind: PagedIndexType) -> RecordPages | None:
    """The pages of one segment; None if it can only be loaded whole."""
    if place.entry.pages is not None:
        pages = _StoredPages(place, segments, kind)
        for page in pages.leading:
            pages.read(page, None)  # every plan needs these: if one is damaged, the segment is left out
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
    """The evidence of one field of one index, page by page; None if its records should be loaded whole.

    `report` is called with one sentence for each thing that could not be read.
    """
    if not isinstance(kind, PagedIndexType) or sum(entry.rows for entry in entries) <= WHOLE_RECORDS:
        return None
    if all(entry.pages is None for entry in entries):
        return None
    all_pages: list[RecordPages] = []
    for place in placement.places(entries, kind, report):
        try:
            pages = _pages_of(place, segments, kind)
        except (FormatError, StorageError) as error:
            report(str(error))
            continue
        if pages is None:
            return None
        all_pages.append(pages)
    return kind.load_paged(all_pages, count, about, segments.limit_bytes) if all_pages else None


class IndexLoader:
    """Loads what indexes say of the slices of one snapshot, under one state of the metadata table."""

    def __init__(self, snapshot: Snapshot, state: State | None, segments: SegmentCache) -> None:
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._placement = Placement(snapshot, state, segments)

    def sources(self, definition: IndexDefinition, about: Field) -> Sources:
        """What an index says of a field, or why its records cannot be used."""
        sources = Sources()
        kind = usable_type(definition)
        if isinstance(kind, str):
            sources.fallbacks.append(kind)
        elif is_built_in(kind):
            self._add(definition, kind, about, sources)
        else:
            self._add_foreign(definition, kind, about, sources)
        return sources

    def _add_foreign(
        self, definition: IndexDefinition, kind: IndexType, about: Field, sources: Sources
    ) -> None:
        """The same for an index type of another distribution, whose errors must not fail the plan."""
        try:
            self._add(definition, kind, about, sources)
        except PrunerError:
            raise
        except Exception as error:
            sources.fallbacks.append(f"index {definition.name}: {failure_of(definition.using, error)}")

    def _add(self, definition: IndexDefinition, kind: IndexType, about: Field, sources: Sources) -> None:
        assert self._state is not None
        entries = [entry for entry in self._state.segments_of(definition) if entry.field == about.recorded]
        if any(entry.partition_stats is not None for entry in entries):
            grouped = self._grouped(definition, entries, kind, about, sources)
            if grouped is not None:
                sources.usable.append(of_groups(definition.name, definition.using, grouped))
                return
        if self._add_paged(definition, entries, kind, about, sources):
            return
        evidence = self.whole(definition, entries, kind, about, sources)
        if evidence is None:
            return
        if len(self._snapshot) >= MANY_RECORDS:
            # Not where records are carried over or read page by page: those need little temporary memory.
            give_back_memory()
        if isinstance(evidence, NotingEvidence):
            sources.fallbacks += [f"index {definition.name}: {note}" for note in evidence.notes]
        checked = None if is_built_in(kind) else len(self._snapshot)
        sources.usable.append(of_records(definition.name, definition.using, evidence, checked))

    def _add_paged(
        self,
        definition: IndexDefinition,
        entries: list[SegmentEntry],
        kind: IndexType,
        about: Field,
        sources: Sources,
    ) -> bool:
        """Add evidence that is read page by page; returns False if the records should be read whole."""

        def report(reason: str) -> None:
            sources.fallbacks.append(f"index {definition.name}: {reason}")

        def whole() -> ListedEvidence | None:
            evidence = self.whole(definition, entries, kind, about, Sources())
            return evidence if isinstance(evidence, ListedEvidence) else None

        count, known = len(self._snapshot), len(sources.fallbacks)
        paged = paged_evidence(entries, kind, about, self._placement, self._segments, count, report)
        if paged is None:
            return len(sources.fallbacks) > known
        sources.fallbacks += [f"index {definition.name}: {note}" for note in paged.notes]
        sources.usable.append(of_pages(definition.name, definition.using, paged, whole))
        return True

    def whole(
        self,
        definition: IndexDefinition,
        entries: list[SegmentEntry],
        kind: IndexType,
        about: Field,
        sources: Sources,
    ) -> Evidence | None:
        """Evidence of all records together; None if there are none."""
        parts = self.parts(definition, entries, kind, sources)
        if not parts:
            return None
        records = pa.concat_tables([part.records for part in parts], promote_options="permissive")
        if isinstance(kind, DeferringIndexType):
            fetch = _Deferred(parts, self._segments, kind.deferred)
            return kind.load_deferring(records, len(self._snapshot), about, fetch)
        if isinstance(kind, SelectiveIndexType):
            return kind.load_parts(list(map(self._selective, parts)), len(self._snapshot), about)
        return kind.load(records, len(self._snapshot), about)

    def parts(
        self, definition: IndexDefinition, entries: list[SegmentEntry], kind: IndexType, sources: Sources
    ) -> list[SegmentRecords]:
        """The newest records of each slice in an index; what cannot be read is among the fallbacks."""
        deferred = kind.deferred if isinstance(kind, DeferringIndexType) else ()
        parts: list[SegmentRecords] = []
        self._placement.locate(entries)
        for entry in entries:
            try:
                only = self._resident(entry, kind) if isinstance(kind, SelectiveIndexType) else None
                parts.append(self._placement.part(entry, kind, deferred, only=only))
            except (FormatError, StorageError) as error:
                sources.fallbacks.append(f"index {definition.name}: {error}")
        return newest_of_each_slice(parts, len(self._snapshot))

    def _resident(self, entry: SegmentEntry, kind: SelectiveIndexType) -> list[str]:
        return [name for name in self._segments.names(entry) if kind.is_resident(name)]

    def _selective(self, part: SegmentRecords) -> RecordPart:
        read, read_bytes = self._segments.columns, self._segments.value_bytes
        return RecordPart(part.records, part.rows, partial(read, part.entry), partial(read_bytes, part.entry))

    def _grouped(
        self,
        definition: IndexDefinition,
        entries: list[SegmentEntry],
        kind: IndexType,
        about: Field,
        sources: Sources,
    ) -> GroupedEvidence | None:
        """Evidence that checks groups first; None if no segment has usable ones."""

        def report(reason: str) -> None:
            sources.fallbacks.append(f"index {definition.name}: {reason}")

        places = self._placement.places(entries, kind, report)
        grouped = [place for place in places if place.groups is not None]
        if not grouped:
            return None
        return grouped_evidence(
            places, grouped, kind, about, self._placement, len(self._snapshot), definition.name
        )


class _Deferred:
    """Reads deferred columns of the records of some segments, by position: see `pruner.indexes.optional.Fetch`."""

    def __init__(self, parts: list[SegmentRecords], segments: SegmentCache, names: tuple[str, ...]) -> None:
        self._parts = [(part.entry, part.rows) for part in parts]
        self._ends = np.cumsum([part.records.num_rows for part in parts])
        self._segments = segments
        self._names = names

    def __call__(self, at: NDArray[np.int64]) -> pa.Table:
        which = np.searchsorted(self._ends, at, side="right")
        tables: list[pa.Table] = []
        order = np.argsort(which, kind="stable")
        for number in np.unique(which).tolist() or [0]:
            entry, rows = self._parts[number]
            wanted = at[which == number] - (self._ends[number - 1] if number else 0)
            picked = positions(wanted if rows is None else rows[wanted])
            tables.append(self._segments.read(entry, only=self._names).take(picked))
        if len(tables) == 1:
            return tables[0]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(tables).take(positions(back))


def usable_type(definition: IndexDefinition) -> IndexType | str:
    """The type of an index, or one sentence that says why this version of pruner cannot use its records."""
    try:
        kind = index_type(definition.using)
    except IndexDefinitionError as error:
        return f"index {definition.name!r} cannot be used: {error}"
    return definition.why_unusable({definition.using: kind.version}) or kind
