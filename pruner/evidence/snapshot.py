"""Evidence for one snapshot: index records joined to its slices, loaded only for the columns that a predicate names.

The join is by slice key, so an index may be older or newer than the snapshot, half built or gone: a slice without a
record is not covered and stays. One unusable segment or index never fails the others (trap I4): it is left out and the
reason is recorded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.arrow import positions
from pruner.errors import FormatError, IndexDefinitionError, StorageError
from pruner.evidence.grouped import GroupedEvidence, grouped_evidence
from pruner.evidence.join import Part, Placement, newest_of_each_slice
from pruner.evidence.moved import Joined, Moves, Unrecorded, has_grown, only_new, part_of
from pruner.evidence.paged import paged_evidence
from pruner.evidence.partitions import partition_evidence
from pruner.evidence.restricted import EitherSource, LaterSource, LimitedSource, from_before
from pruner.evidence.sources import (
    GroupedSource,
    PagedSource,
    PathSource,
    RecordsSource,
    Sources,
)
from pruner.expr.engines import Origin
from pruner.indexes.optional import (
    DeferringIndexType,
    ExactIndexType,
    ListedEvidence,
    NotingEvidence,
    RecordPart,
    SelectiveIndexType,
)
from pruner.indexes.registry import index_type
from pruner.memory import MANY_RECORDS, give_back_memory
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pruner.evidence.sources import OwnIndexes, Source
    from pruner.indexes.base import Evidence, IndexType
    from pruner.indexes.optional import ExactEvidence
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

PARTITION_SOURCE = "partition"
"""Name under which reports show evidence from partition values, which no index had to be built for."""


@dataclass(frozen=True, slots=True)
class IndexCost:
    """What one index costs a process: `bytes` stored, of which `memory` bytes of records are held.

    `load_seconds` is how long it took to load what every plan needs, None where nothing was loaded.
    """

    name: str
    bytes: int
    memory: int
    load_seconds: float | None


class SnapshotEvidence:
    """Gives the sources for the fields of one snapshot under one state of the metadata table; loads each once."""

    def __init__(
        self,
        snapshot: Snapshot,
        state: State | None,
        segments: SegmentCache,
        own: OwnIndexes | None = None,
        before: SnapshotEvidence | None = None,
    ) -> None:
        """Load nothing yet.

        Args:
            snapshot: the slices.
            state: the state of the metadata table; None for no indexes.
            segments: its segments.
            own: the indexes that the table itself keeps, asked where `state` has none of a column.
            before: evidence for an earlier snapshot or state. Its state had been read before that snapshot was listed,
                so that it knows nothing of slices that came afterwards.
        """
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._own = own
        self._loaded: dict[Field, Sources] = {}  # what an index knows depends on how the field is read
        self._joined: dict[tuple[Field, str], Joined] = {} if before is None else before._moved_to(self)
        self._of_indexes: dict[tuple[Field, str], Sources] = {}
        self._placement = Placement(snapshot, state, segments)
        self._load_seconds: dict[str, float] = {}
        self._lock = Lock()

    def _moved_to(self, later: SnapshotEvidence) -> dict[tuple[Field, str], Joined]:
        """What indexes are known to say of fields, as far as it can be had for a later snapshot."""
        descent, same = later._snapshot.descent, later._snapshot is self._snapshot
        if not same and (descent is None or descent.of != self._snapshot.id):
            return {}
        if self._state is not later._state and not has_grown(self._state, later._state):
            return {}
        moves = None if same or descent is None else Moves(descent, len(self._snapshot))
        with self._lock:
            known = list(self._joined.items())
        return {about: moved for about, joined in known if (moved := joined.moved(moves)) is not None}

    def cost(self, name: str) -> IndexCost | None:
        """What an index costs this process; None where there is no index of that name."""
        definition = self._state.definition(name) if self._state is not None else None
        if definition is None or self._state is None:
            return None
        entries = self._state.segments_of(definition)
        stored = sum(file.size for entry in entries for file in entry.files())
        held = self._segments.held_bytes(entries)
        return IndexCost(definition.name, stored, held, self._load_seconds.get(definition.name))

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field; partition values first, then indexes in the order of creation."""
        with self._lock:
            found = self._loaded.get(about)
            if found is None:
                found = self._loaded[about] = self._load(about)
            return found

    def whole(self, about: Field, using: str) -> Iterator[tuple[str, Evidence]]:
        """The evidence about one field of each index of a type, by its name, from all records read at once."""
        for definition, kind, entries in self._indexes_of(about):
            if definition.using != using:
                continue
            evidence = self._whole(definition, entries, kind, about, Sources())
            if evidence is not None:
                yield definition.name, evidence

    def exact(self, about: Field) -> Iterator[ExactEvidence]:
        """What indexes know exactly of one field, from all records read at once."""
        for definition, kind, entries in self._indexes_of(about):
            if not isinstance(kind, ExactIndexType):
                continue
            parts = self._parts(definition, entries, kind, Sources())
            if parts:
                records = pa.concat_tables([part.records for part in parts], promote_options="permissive")
                yield kind.load_exact(records, len(self._snapshot), about)

    def _indexes_of(self, about: Field) -> Iterator[tuple[IndexDefinition, IndexType, list[SegmentEntry]]]:
        """The indexes of a field that this version can use, in the order of creation, with their segments."""
        for definition in self._state.definitions if self._state else ():
            kind = usable_type(definition)
            if self._state is None or isinstance(kind, str) or not self._is_about(definition, about):
                continue
            entries = [
                entry for entry in self._state.segments_of(definition) if entry.field == about.recorded
            ]
            yield definition, kind, entries

    @property
    def indexed_paths(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the columns that some index is over, each once, as the table has them now."""
        definitions = () if self._state is None else self._state.definitions
        of_columns = (each.fields for each in definitions if each.form is None)
        return tuple(dict.fromkeys(binding.path for fields in of_columns for binding in fields))

    def _load(self, about: Field) -> Sources:
        found = Sources()
        for definition in self._state.definitions if self._state else ():
            if self._is_about(definition, about):
                of_index = self._of_index(definition, about)
                found.usable += of_index.usable
                found.fallbacks += of_index.fallbacks
        if self._own is not None:
            self._own.add(about, found)
        if about.partition:
            self._add_partition(about, found)
        self._leave_out_earlier(about, found)
        return found

    def _of_index(self, definition: IndexDefinition, about: Field) -> Sources:
        """What one index says of a field, of whatever the engine makes of the field."""
        known = self._of_indexes.get((about, definition.name))
        if known is None:
            started = time.perf_counter()
            known = self._grown(definition, about)
            if known is None:
                known = Sources()
                self._load_index(definition, about, known)
                unrecorded = Unrecorded(usable_type(definition), about)
                self._joined[about, definition.name] = Joined(known, self._state, unrecorded)
            self._of_indexes[about, definition.name] = known
            before = self._load_seconds.get(definition.name, 0.0)
            self._load_seconds[definition.name] = before + time.perf_counter() - started
        return known

    def _grown(self, definition: IndexDefinition, about: Field) -> Sources | None:
        """What was joined before, with the records that came since; None where there was nothing, or that is much."""
        joined = self._joined.get((about, definition.name))
        if joined is None or joined.state is self._state:
            return None if joined is None else joined.sources
        rows = joined.unknown()
        if rows is None or self._state is None or joined.state is None:
            return None
        if not len(rows):
            return joined.sources
        came = only_new(joined.state, self._state)
        later = SnapshotEvidence(part_of(self._snapshot, rows), came, self._segments)
        return joined.with_later(rows, later._of_index(definition, about))

    def _leave_out_earlier(self, about: Field, found: Sources) -> None:
        """Ask nothing about files from before a change of the schema that gave the column its name."""
        earlier = from_before(self._snapshot, about)
        if earlier is not None and about.since is not None:
            count = int(np.count_nonzero(earlier))
            found.fallbacks.append(
                f"column {about.name}: {counted(count, self._snapshot.noun)} kept: {about.since.reason}"
            )
            found.usable = [LaterSource(source, earlier) for source in found.usable]

    def _is_about(self, definition: IndexDefinition, about: Field) -> bool:
        """Tell whether an index is over a field: one on all columns takes in those that the table gains later."""
        if about.expression is not None or definition.form is not None:
            return about.expression == definition.form
        if any(binding.recorded == about.recorded for binding in definition.fields):
            return True
        if not definition.all_columns or self._state is None:
            return False
        return any(entry.field == about.recorded for entry in self._state.segments_of(definition))

    def _add_partition(self, about: Field, found: Sources) -> None:
        evidence = partition_evidence(self._snapshot, about)
        if evidence is None:
            found.fallbacks.append(f"partition column {about.name}: values in the path cannot be used")
        partitions = self._snapshot.partitions
        path_decides = not about.in_file or about.path in partitions.trusted
        if evidence is None or not (path_decides or about.path in partitions.shared):
            # Some engines read the path instead of the file, and what they make of it is not known.
            found.usable = [self._limited(source, Origin.FILE) for source in found.usable]
            return
        in_path = PathSource(PARTITION_SOURCE, "partition_values", evidence)
        if path_decides:
            found.usable = [in_path, *(found.usable if about.in_file else ())]
            return
        either = [EitherSource(source, in_path) for source in found.usable]
        found.usable = [self._limited(in_path, Origin.PATH), *either]

    def _limited(self, source: Source, origin: Origin) -> Source:
        return LimitedSource(source, origin, by_engine=self._snapshot.partitions.origin_by_engine)

    def _load_index(self, definition: IndexDefinition, about: Field, found: Sources) -> None:
        kind = usable_type(definition)
        if isinstance(kind, str):
            found.fallbacks.append(kind)
            return
        assert self._state is not None
        entries = [entry for entry in self._state.segments_of(definition) if entry.field == about.recorded]
        if any(entry.partition_stats is not None for entry in entries):
            grouped = self._grouped(definition, entries, kind, about, found)
            if grouped is not None:
                found.usable.append(GroupedSource(definition.name, definition.using, grouped))
                return
        if self._add_paged(definition, entries, kind, about, found):
            return
        evidence = self._whole(definition, entries, kind, about, found)
        if evidence is None:
            return
        if len(self._snapshot) >= MANY_RECORDS:
            # Not where records are moved or read page by page: those needed little for a moment.
            give_back_memory()
        if isinstance(evidence, NotingEvidence):
            found.fallbacks += [f"index {definition.name}: {note}" for note in evidence.notes]
        found.usable.append(RecordsSource(definition.name, definition.using, evidence))

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
            evidence = self._whole(definition, entries, kind, about, Sources())
            return evidence if isinstance(evidence, ListedEvidence) else None

        count, known = len(self._snapshot), len(found.fallbacks)
        paged = paged_evidence(entries, kind, about, self._placement, self._segments, count, report)
        if paged is None:
            return len(found.fallbacks) > known
        found.fallbacks += [f"index {definition.name}: {note}" for note in paged.notes]
        found.usable.append(PagedSource(definition.name, definition.using, paged, whole))
        return True

    def _whole(
        self,
        definition: IndexDefinition,
        entries: list[SegmentEntry],
        kind: IndexType,
        about: Field,
        found: Sources,
    ) -> Evidence | None:
        """Evidence of all records together; None where there are none."""
        parts = self._parts(definition, entries, kind, found)
        if not parts:
            return None
        records = pa.concat_tables([part.records for part in parts], promote_options="permissive")
        if isinstance(kind, DeferringIndexType):
            fetch = _Deferred(parts, self._segments, kind.deferred)
            return kind.load_deferring(records, len(self._snapshot), about, fetch)
        if isinstance(kind, SelectiveIndexType):
            return kind.load_parts(list(map(self._selective, parts)), len(self._snapshot), about)
        return kind.load(records, len(self._snapshot), about)

    def _parts(
        self, definition: IndexDefinition, entries: list[SegmentEntry], kind: IndexType, found: Sources
    ) -> list[Part]:
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
