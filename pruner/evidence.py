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
from pruner.indexes.registry import index_type
from pruner.metadata.coverage import locate
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

    @classmethod
    def of(cls, index: str, using: str, evidence: Evidence) -> Source:
        """Evidence of one index."""
        covered = evidence.covered
        return cls(index, using, evidence, uncovered=None if covered.all() else ~covered)


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
            found.usable = [replace(source, alternative=from_path) for source in found.usable]
        else:
            # Some engines read the path instead of the file, and what they make of it is not known.
            found.usable = [replace(source, only_for=partitions.file_readers) for source in found.usable]

    def _load_index(self, definition: IndexDefinition, about: Field, found: Sources) -> None:
        kind = usable_type(definition)
        if isinstance(kind, str):
            found.fallbacks.append(kind)
            return
        tables = self._records(definition, about, found)
        if tables:
            records = pa.concat_tables(tables, promote_options="permissive")
            evidence = kind.load(_last_per_slice(records), len(self._snapshot), about)
            found.usable.append(Source.of(definition.name, definition.using, evidence))

    def _records(self, definition: IndexDefinition, about: Field, found: Sources) -> list[pa.Table]:
        assert self._state is not None
        tables: list[pa.Table] = []
        for entry in self._state.segments:
            if entry.definition != definition.uuid or entry.field != about.path:
                continue
            try:
                tables.append(self._placed(entry))
            except (FormatError, StorageError) as error:
                found.fallbacks.append(f"index {definition.name}: {error}")
        return tables

    def _placed(self, entry: SegmentEntry) -> pa.Table:
        """The records of a segment with `__slice` turned from the batch's ordinals into the snapshot's."""
        records = self._segments.read(entry)
        locations = self._locate(entry)
        local = records.column("__slice").to_numpy()
        if len(local) and not (local.min() >= 0 and local.max() < len(locations)):
            raise FormatError(
                f"segment {entry.path} names slices outside its batch: drop the index and create it anew"
            )
        ordinals = locations[local]
        usable = ordinals >= 0
        usable[usable] = self._snapshot.coverable[ordinals[usable]]
        placed = records.set_column(
            records.column_names.index("__slice"), "__slice", pa.array(ordinals.astype(np.int32))
        )
        return placed if usable.all() else placed.filter(pa.array(usable))

    def _locate(self, entry: SegmentEntry) -> NDArray[np.int64]:
        batch = entry.batch
        if batch is None:
            raise FormatError(f"segment {entry.path} names no slice batch: drop the index and create it anew")
        if batch not in self._locations:
            keys = self._segments.read(self._segments.entry(self._state, batch)).column("slice_key")
            self._locations[batch] = locate(self._snapshot.keys, keys.combine_chunks())
        return self._locations[batch]


def _last_per_slice(records: pa.Table) -> pa.Table:
    """Keep one index's rows of the newest segment for each slice: two refreshes at once may both have recorded it."""
    ordinals = records.column("__slice").to_numpy()
    newest_first, first_seen = np.unique(ordinals[::-1], return_index=True)
    if len(newest_first) == len(ordinals):
        return records
    return records.take(pa.array(np.sort(len(ordinals) - 1 - first_seen), pa.int64()))


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
        self._tables: dict[str, pa.Table] = {}
        self._lock = Lock()

    def read(self, entry: SegmentEntry) -> pa.Table:
        """Return the verified content of a segment.

        Raises:
            FormatError: it fails its checksum or is not what the log says.
            StorageError: it cannot be read.
        """
        with self._lock:
            cached = self._tables.pop(entry.id, None)
            if cached is not None:
                self._tables[entry.id] = cached
                return cached
        table = self._metadata().read_segment(entry)
        with self._lock:
            self._tables[entry.id] = table
            while len(self._tables) > 1 and sum(held.nbytes for held in self._tables.values()) > self._limit:
                self._tables.pop(next(iter(self._tables)))
        return table

    def recorded(self, state: State, entry: SegmentEntry, snapshot: Snapshot) -> NDArray[np.int64]:
        """Snapshot ordinals of the slices that a segment has records of."""
        batch = self.read(self.entry(state, entry.batch or ""))
        locations = locate(snapshot.keys, batch.column("slice_key").combine_chunks())
        ordinals = locations[np.unique(self.read(entry).column("__slice").to_numpy())]
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
