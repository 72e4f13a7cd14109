"""Evidence for one snapshot: index records joined to its slices, loaded only for the columns that a predicate names.

The join is by slice key, so an index may be older or newer than the snapshot, half built or gone: a slice without a
record is not covered and stays. One unusable segment or index never fails the others (trap I4): it is left out and the
reason is recorded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.errors import FormatError, IndexDefinitionError, StorageError
from pruner.indexes.base import DeferringIndexType, RowEvidence
from pruner.indexes.registry import index_type
from pruner.metadata.coverage import locate
from pruner.metadata.segments import SLICE_COLUMN
from pruner.partition_evidence import partition_evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.base import Evidence, IndexType
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

PARTITION_SOURCE = "partition"
"""Name under which reports show evidence from partition values, which no index had to be built for."""


@dataclass(frozen=True, slots=True)
class Source:
    """Evidence of one index about one field, by snapshot ordinal.

    With `alternative` set the value that the engine reads may come from either of two places (trap N6), and only what
    both sources exclude is excluded (R2).
    """

    index: str
    using: str
    evidence: Evidence
    alternative: Source | None = None
    only_for: frozenset[str] | None = None
    """Engines that read the value this is about; None for all."""
    uncovered: NDArray[np.bool_] | None = None
    """True for each slice without a usable record; None where there is none."""
    by_row: RowEvidence | None = None
    """The evidence, where it knows single rows."""

    @classmethod
    def of(cls, index: str, using: str, evidence: Evidence) -> Source:
        """Evidence of one index."""
        covered = evidence.covered
        return cls(
            index,
            using,
            evidence,
            uncovered=None if covered.all() else ~covered,
            by_row=evidence if isinstance(evidence, RowEvidence) else None,
        )


@dataclass
class Sources:
    """What is known of one field, and why some of it could not be used."""

    usable: list[Source] = field(default_factory=list[Source])
    fallbacks: list[str] = field(default_factory=list[str])


class SnapshotEvidence:
    """Gives the sources for the fields of one snapshot under one state of the metadata table; loads each once."""

    def __init__(self, snapshot: Snapshot, state: State | None, segments: SegmentCache) -> None:
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._loaded: dict[tuple[str, ...], Sources] = {}
        self._locations: dict[str, NDArray[np.int64]] = {}
        self._lock = Lock()

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field; partition values first, then indexes in the order of creation."""
        with self._lock:
            if about.path not in self._loaded:
                self._loaded[about.path] = self._load(about)
            return self._loaded[about.path]

    def _load(self, about: Field) -> Sources:
        found = Sources()
        for definition in self._state.definitions if self._state else ():
            if any(binding.path == about.path for binding in definition.fields):
                self._load_index(definition, about, found)
        if about.partition:
            self._add_partition(about, found)
        return found

    def _add_partition(self, about: Field, found: Sources) -> None:
        evidence = partition_evidence(self._snapshot, about)
        if evidence is None:
            found.fallbacks.append(f"partition column {about.name}: values in the path cannot be used")
        partitions = self._snapshot.partitions
        path_decides = not about.in_file or about.path in partitions.trusted
        if evidence is not None and path_decides:
            from_path = Source.of(PARTITION_SOURCE, "partition_values", evidence)
            found.usable = [from_path, *(found.usable if about.in_file else ())]
        elif evidence is not None and about.path in partitions.shared:
            from_path = Source.of(PARTITION_SOURCE, "partition_values", evidence)
            either = [replace(source, alternative=from_path) for source in found.usable]
            readers = partitions.path_readers
            found.usable = [replace(from_path, only_for=readers), *either] if readers else either
        else:
            # Some engines read the path instead of the file, and what they make of it is not known.
            found.usable = [replace(source, only_for=partitions.file_readers) for source in found.usable]

    def _load_index(self, definition: IndexDefinition, about: Field, found: Sources) -> None:
        kind = usable_type(definition)
        if isinstance(kind, str):
            found.fallbacks.append(kind)
            return
        parts = _newest_of_each_slice(self._records(definition, kind, about, found), len(self._snapshot))
        if not parts:
            return
        records = pa.concat_tables([part.records for part in parts], promote_options="permissive")
        if isinstance(kind, DeferringIndexType):
            fetch = _Deferred(parts, self._segments, kind.deferred)
            evidence = kind.load_deferring(records, len(self._snapshot), about, fetch)
        else:
            evidence = kind.load(records, len(self._snapshot), about)
        source = Source.of(definition.name, definition.using, evidence)
        if source.by_row is not None:
            found.fallbacks += [f"index {definition.name}: {note}" for note in source.by_row.notes]
        found.usable.append(source)

    def _records(
        self, definition: IndexDefinition, kind: IndexType, about: Field, found: Sources
    ) -> list[_Part]:
        assert self._state is not None
        deferred = kind.deferred if isinstance(kind, DeferringIndexType) else ()
        parts: list[_Part] = []
        for entry in self._state.segments:
            if entry.definition != definition.uuid or entry.field != about.path:
                continue
            try:
                parts.append(self._placed(entry, deferred))
            except (FormatError, StorageError) as error:
                found.fallbacks.append(f"index {definition.name}: {error}")
        return parts

    def _placed(self, entry: SegmentEntry, deferred: tuple[str, ...]) -> _Part:
        """The records of a segment with `__slice` turned from the batch's ordinals into the snapshot's."""
        records = self._segments.read(entry, but=deferred)
        locations = self._locate(entry)
        local = records.column(SLICE_COLUMN).to_numpy()
        if len(local) and not (local.min() >= 0 and local.max() < len(locations)):
            raise FormatError(
                f"segment {entry.path} names slices outside its batch: drop the index and create it anew"
            )
        ordinals = locations[local]
        usable = ordinals >= 0
        usable[usable] = self._snapshot.coverable[ordinals[usable]]
        placed = records.set_column(
            records.column_names.index(SLICE_COLUMN), SLICE_COLUMN, pa.array(ordinals.astype(np.int32))
        )
        return _Part(entry, placed).only(usable)

    def _locate(self, entry: SegmentEntry) -> NDArray[np.int64]:
        batch = entry.batch
        if batch is None:
            raise FormatError(f"segment {entry.path} names no slice batch: drop the index and create it anew")
        if batch not in self._locations:
            keys = self._segments.read(self._segments.entry(self._state, batch)).column("slice_key")
            self._locations[batch] = locate(self._snapshot.keys, keys.combine_chunks())
        return self._locations[batch]


@dataclass(frozen=True, slots=True)
class _Part:
    """Records of one segment, and their positions in it; None for all of them."""

    entry: SegmentEntry
    records: pa.Table
    rows: NDArray[np.int64] | None = None

    def only(self, chosen: NDArray[np.bool_]) -> _Part:
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen) if self.rows is None else self.rows[chosen]
        return _Part(self.entry, self.records.filter(pa.array(chosen)), rows)


def _newest_of_each_slice(parts: list[_Part], count: int) -> list[_Part]:
    """Leave one segment's records of each slice, the newest's: two refreshes at once may both have recorded it."""
    if len(parts) < 2:
        return parts
    kept: list[_Part] = []
    seen = np.zeros(count, np.bool_)
    for part in reversed(parts):
        ordinals = part.records.column(SLICE_COLUMN).to_numpy()
        kept.append(part.only(~seen[ordinals]))
        seen[ordinals] = True
    return kept[::-1]


class _Deferred:
    """Reads deferred columns of the records of some segments, by position: see `pruner.indexes.base.Fetch`."""

    def __init__(self, parts: list[_Part], segments: SegmentCache, names: tuple[str, ...]) -> None:
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
            picked = pa.array(wanted if rows is None else rows[wanted], pa.int64())
            tables.append(self._segments.read(entry, only=self._names).take(picked))
        if len(tables) == 1:
            return tables[0]
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_tables(tables).take(pa.array(back, pa.int64()))


def usable_type(definition: IndexDefinition) -> IndexType | str:
    """The type of an index, or one sentence that says why this pruner cannot use its records."""
    try:
        kind = index_type(definition.using)
    except IndexDefinitionError as error:
        return f"index {definition.name!r} cannot be used: {error}"
    return definition.why_unusable({definition.using: kind.version}) or kind


class SegmentCache:
    """Segments by id: immutable, so what was read once is never stale. Bounded by the bytes it holds."""

    def __init__(self, metadata: Callable[[], MetadataTable], limit_bytes: int = 512 * 1024 * 1024) -> None:
        self._metadata = metadata
        self._limit = limit_bytes
        self._tables: dict[tuple[str, tuple[str, ...] | None, tuple[str, ...]], pa.Table] = {}
        self._lock = Lock()

    def read(
        self, entry: SegmentEntry, only: tuple[str, ...] | None = None, but: tuple[str, ...] = ()
    ) -> pa.Table:
        """Return the verified content of a segment: `only` some columns, or all `but` some.

        Raises:
            FormatError: it fails its checksum or is not what the log says.
            StorageError: it cannot be read.
        """
        key = (entry.id, only, but)
        with self._lock:
            cached = self._tables.pop(key, None)
            if cached is not None:
                self._tables[key] = cached
                return cached
        table = self._metadata().read_segment(entry, only, but)
        with self._lock:
            self._tables[key] = table
            while len(self._tables) > 1 and sum(held.nbytes for held in self._tables.values()) > self._limit:
                self._tables.pop(next(iter(self._tables)))
        return table

    def recorded(self, state: State, entry: SegmentEntry, snapshot: Snapshot) -> NDArray[np.int64]:
        """Snapshot ordinals of the slices that a segment has records of."""
        batch = self.read(self.entry(state, entry.batch or ""))
        locations = locate(snapshot.keys, batch.column("slice_key").combine_chunks())
        recorded = self.read(entry, only=(SLICE_COLUMN,)).column(SLICE_COLUMN)
        ordinals = locations[np.unique(recorded.to_numpy())]
        return ordinals[ordinals >= 0]

    @staticmethod
    def entry(state: State | None, segment_id: str) -> SegmentEntry:
        """Return the entry of a live segment by id.

        Raises:
            FormatError: the state has no such segment.
        """
        for candidate in state.segments if state else ():
            if candidate.id == segment_id:
                return candidate
        raise FormatError(f"slice batch {segment_id} is not in the metadata table's log: refresh the index")
