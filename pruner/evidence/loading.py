"""What an index says of a field of one snapshot: its records, joined to the slices and read as they are kept.

Some indexes are read whole, some by groups of slices, some page by page. A segment that cannot be read is left out, and
why is among the fallbacks (trap I4).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.arrow import positions
from pruner.errors import FormatError, IndexDefinitionError, StorageError
from pruner.evidence.grouped import GroupedEvidence, grouped_evidence
from pruner.evidence.join import Part, Placement, newest_of_each_slice
from pruner.evidence.paged import paged_evidence
from pruner.evidence.sources import Sources, of_groups, of_pages, of_records
from pruner.indexes.optional import (
    DeferringIndexType,
    ListedEvidence,
    NotingEvidence,
    RecordPart,
    SelectiveIndexType,
)
from pruner.indexes.registry import index_type
from pruner.memory import MANY_RECORDS, give_back_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.base import Evidence, IndexType
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot


class IndexLoader:
    """Loads what indexes say of the slices of one snapshot, under one state of the metadata table."""

    def __init__(self, snapshot: Snapshot, state: State | None, segments: SegmentCache) -> None:
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._placement = Placement(snapshot, state, segments)

    def sources(self, definition: IndexDefinition, about: Field) -> Sources:
        """What an index says of a field, or why its records cannot be used."""
        found = Sources()
        kind = usable_type(definition)
        if isinstance(kind, str):
            found.fallbacks.append(kind)
        else:
            self._add(definition, kind, about, found)
        return found

    def _add(self, definition: IndexDefinition, kind: IndexType, about: Field, found: Sources) -> None:
        assert self._state is not None
        entries = [entry for entry in self._state.segments_of(definition) if entry.field == about.recorded]
        if any(entry.partition_stats is not None for entry in entries):
            grouped = self._grouped(definition, entries, kind, about, found)
            if grouped is not None:
                found.usable.append(of_groups(definition.name, definition.using, grouped))
                return
        if self._add_paged(definition, entries, kind, about, found):
            return
        evidence = self.whole(definition, entries, kind, about, found)
        if evidence is None:
            return
        if len(self._snapshot) >= MANY_RECORDS:
            # Not where records are moved or read page by page: those needed little for a moment.
            give_back_memory()
        if isinstance(evidence, NotingEvidence):
            found.fallbacks += [f"index {definition.name}: {note}" for note in evidence.notes]
        found.usable.append(of_records(definition.name, definition.using, evidence))

    def _add_paged(
        self,
        definition: IndexDefinition,
        entries: list[SegmentEntry],
        kind: IndexType,
        about: Field,
        found: Sources,
    ) -> bool:
        """Add evidence that is read page by page; returns False where the records are to be read whole."""

        def report(reason: str) -> None:
            found.fallbacks.append(f"index {definition.name}: {reason}")

        def whole() -> ListedEvidence | None:
            evidence = self.whole(definition, entries, kind, about, Sources())
            return evidence if isinstance(evidence, ListedEvidence) else None

        count, known = len(self._snapshot), len(found.fallbacks)
        paged = paged_evidence(entries, kind, about, self._placement, self._segments, count, report)
        if paged is None:
            return len(found.fallbacks) > known
        found.fallbacks += [f"index {definition.name}: {note}" for note in paged.notes]
        found.usable.append(of_pages(definition.name, definition.using, paged, whole))
        return True

    def whole(
        self,
        definition: IndexDefinition,
        entries: list[SegmentEntry],
        kind: IndexType,
        about: Field,
        found: Sources,
    ) -> Evidence | None:
        """Evidence of all records together; None where there are none."""
        parts = self.parts(definition, entries, kind, found)
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
        self, definition: IndexDefinition, entries: list[SegmentEntry], kind: IndexType, found: Sources
    ) -> list[Part]:
        """The records of an index, of each slice the newest; what cannot be read is among the fallbacks."""
        deferred = kind.deferred if isinstance(kind, DeferringIndexType) else ()
        parts: list[Part] = []
        self._placement.locate(entries)
        for entry in entries:
            try:
                only = self._resident(entry, kind) if isinstance(kind, SelectiveIndexType) else None
                parts.append(self._placement.part(entry, kind, deferred, only=only))
            except (FormatError, StorageError) as error:
                found.fallbacks.append(f"index {definition.name}: {error}")
        return newest_of_each_slice(parts, len(self._snapshot))

    def _resident(self, entry: SegmentEntry, kind: SelectiveIndexType) -> list[str]:
        return [name for name in self._segments.names(entry) if kind.is_resident(name)]

    def _selective(self, part: Part) -> RecordPart:
        read, read_bytes = self._segments.columns, self._segments.value_bytes
        return RecordPart(part.records, part.rows, partial(read, part.entry), partial(read_bytes, part.entry))

    def _grouped(
        self,
        definition: IndexDefinition,
        entries: list[SegmentEntry],
        kind: IndexType,
        about: Field,
        found: Sources,
    ) -> GroupedEvidence | None:
        """Evidence that begins with groups; None where no segment has any that could be used."""

        def report(reason: str) -> None:
            found.fallbacks.append(f"index {definition.name}: {reason}")

        places = self._placement.places(entries, kind, report)
        grouped = [place for place in places if place.groups is not None]
        if not grouped:
            return None
        return grouped_evidence(
            places, grouped, kind, about, self._placement, len(self._snapshot), definition.name
        )


class _Deferred:
    """Reads deferred columns of the records of some segments, by position: see `pruner.indexes.optional.Fetch`."""

    def __init__(self, parts: list[Part], segments: SegmentCache, names: tuple[str, ...]) -> None:
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
    """The type of an index, or one sentence that says why this pruner cannot use its records."""
    try:
        kind = index_type(definition.using)
    except IndexDefinitionError as error:
        return f"index {definition.name!r} cannot be used: {error}"
    return definition.why_unusable({definition.using: kind.version}) or kind
