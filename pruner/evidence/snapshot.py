"""Evidence for one snapshot: index records joined to its slices, loaded only for the columns that a predicate names.

The join is by slice key, so an index may be older or newer than the snapshot, half built or gone: a slice without a
record is not covered and is kept. One unusable segment or index never fails the others (trap I4): it is left out and
the reason is recorded.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.evidence.carry_over import CarryOver, Joined, Unrecorded, has_grown, only_new, part_of
from pruner.evidence.loading import IndexLoader, usable_type
from pruner.evidence.restricted import either, from_before, limited, since_schema_change
from pruner.evidence.sources import (
    BoundsValues,
    CountsRows,
    Sources,
    TellsPartitions,
    of_paths,
    partition_evidence,
)
from pruner.expr.engines import Origin
from pruner.indexes.optional import ExactIndexType
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
"""Name in reports of evidence from partition values, for which no index had to be built."""


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
    """The sources for the fields of one snapshot under one state of the metadata table; loads each once."""

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
            own: the table's own indexes, used where `state` has none for a column.
            before: evidence for an earlier snapshot or state. Its state was read before that snapshot was listed, so
                it knows nothing of slices added later.
        """
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._own = own
        self._loaded: dict[Field, Sources] = {}  # what an index knows depends on how the field is read
        self._joined: dict[tuple[Field, str], Joined] = {} if before is None else before._carried_to(self)
        self._of_indexes: dict[tuple[Field, str], Sources] = {}
        self._loader = IndexLoader(snapshot, state, segments)
        self._load_seconds: dict[str, float] = {}
        self._lock = Lock()

    def _carried_to(self, later: SnapshotEvidence) -> dict[tuple[Field, str], Joined]:
        """What indexes say of fields, as far as it can be carried over to a later snapshot."""
        descent, same = later._snapshot.descent, later._snapshot is self._snapshot
        if not same and (descent is None or descent.of != self._snapshot.id):
            return {}
        if self._state is not later._state and not has_grown(self._state, later._state):
            return {}
        over = None if same or descent is None else CarryOver(descent, len(self._snapshot))
        with self._lock:
            known = list(self._joined.items())
        return {about: now for about, joined in known if (now := joined.carried(over)) is not None}

    def cost(self, name: str) -> IndexCost | None:
        """What an index costs this process; None if there is no index of that name."""
        definition = self._state.definition(name) if self._state is not None else None
        if definition is None or self._state is None:
            return None
        entries = self._state.segments_of(definition)
        stored = sum(file.size for entry in entries for file in entry.files())
        held = self._segments.held_bytes(entries)
        return IndexCost(definition.name, stored, held, self._load_seconds.get(definition.name))

    def sources(self, about: Field) -> Sources:
        """Everything that is known of one field: partition values first, then indexes in order of creation."""
        with self._lock:
            sources = self._loaded.get(about)
            if sources is None:
                sources = self._loaded[about] = self._load(about)
            return sources

    def whole(self, about: Field, using: str) -> Iterator[tuple[str, Evidence]]:
        """The evidence about one field of each index of a type, by its name, from all records read at once."""
        for definition, kind, entries in self._indexes_of(about):
            if definition.using != using:
                continue
            evidence = self._loader.whole(definition, entries, kind, about, Sources())
            if evidence is not None:
                yield definition.name, evidence

    def exact(self, about: Field) -> Iterator[ExactEvidence]:
        """What indexes know exactly of one field, from all records read at once."""
        for definition, kind, entries in self._indexes_of(about):
            if not isinstance(kind, ExactIndexType):
                continue
            parts = self._loader.parts(definition, entries, kind, Sources())
            if parts:
                records = pa.concat_tables([part.records for part in parts], promote_options="permissive")
                yield kind.load_exact(records, len(self._snapshot), about)

    def own_row_counts(self) -> NDArray[np.int64] | None:
        """The number of rows of each base file according to the table itself, where it says so: see `CountsRows`."""
        return self._own.row_counts() if isinstance(self._own, CountsRows) else None

    def own_bounds(self, about: Field) -> ExactEvidence | None:
        """The bounds of the values of a field according to the table itself, where it has any: see `BoundsValues`."""
        return self._own.bounds(about) if isinstance(self._own, BoundsValues) else None

    def _indexes_of(self, about: Field) -> Iterator[tuple[IndexDefinition, IndexType, list[SegmentEntry]]]:
        """The indexes of a field that this version can use, in order of creation, with their segments."""
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
        """The current paths of all indexed columns, each once."""
        definitions = () if self._state is None else self._state.definitions
        of_columns = (definition.fields for definition in definitions if definition.form is None)
        return tuple(dict.fromkeys(binding.path for fields in of_columns for binding in fields))

    def _load(self, about: Field) -> Sources:
        sources = Sources()
        for definition in self._state.definitions if self._state else ():
            if self._is_about(definition, about):
                of_index = self._of_index(definition, about)
                sources.usable += of_index.usable
                sources.fallbacks += of_index.fallbacks
        if self._own is not None:
            self._own.add(about, sources)
        if about.partition:
            self._add_partition(about, sources)
        self._leave_out_earlier(about, sources)
        return sources

    def _of_index(self, definition: IndexDefinition, about: Field) -> Sources:
        """What one index says of a field, before restrictions to what engines read of the field."""
        known = self._of_indexes.get((about, definition.name))
        if known is None:
            started = time.perf_counter()
            known = self._extended(definition, about)
            if known is None:
                known = self._loader.sources(definition, about)
                unrecorded = Unrecorded(usable_type(definition), about)
                self._joined[about, definition.name] = Joined(known, self._state, unrecorded)
            self._of_indexes[about, definition.name] = known
            before = self._load_seconds.get(definition.name, 0.0)
            self._load_seconds[definition.name] = before + time.perf_counter() - started
        return known

    def _extended(self, definition: IndexDefinition, about: Field) -> Sources | None:
        """What was joined before plus the records added since; None if there was nothing, or too much was added."""
        joined = self._joined.get((about, definition.name))
        if joined is None or joined.state is self._state:
            return None if joined is None else joined.sources
        rows = joined.unknown()
        if rows is None or self._state is None or joined.state is None:
            return None
        if not len(rows):
            return joined.sources
        came = only_new(joined.state, self._state)
        later = IndexLoader(part_of(self._snapshot, rows), came, self._segments)
        return joined.with_later(rows, later.sources(definition, about))

    def _leave_out_earlier(self, about: Field, sources: Sources) -> None:
        """Use no evidence about files from before the schema change that gave the column its name."""
        earlier = from_before(self._snapshot, about)
        if earlier is not None and about.since is not None:
            count = int(np.count_nonzero(earlier))
            sources.fallbacks.append(
                f"column {about.name}: {counted(count, self._snapshot.noun)} kept: {about.since.reason}"
            )
            sources.usable = [since_schema_change(source, earlier) for source in sources.usable]

    def _is_about(self, definition: IndexDefinition, about: Field) -> bool:
        """Tell whether an index is over a field: one on all columns includes those that the table gains later.

        Indexes know what the files hold, which is irrelevant where engines read something else.
        """
        if isinstance(self._own, TellsPartitions) and self._own.may_differ_from_files(about):
            return False
        if about.expression is not None or definition.form is not None:
            return about.expression == definition.form
        if any(binding.recorded == about.recorded for binding in definition.fields):
            return True
        if not definition.all_columns or self._state is None:
            return False
        return any(entry.field == about.recorded for entry in self._state.segments_of(definition))

    def _add_partition(self, about: Field, sources: Sources) -> None:
        evidence = partition_evidence(self._snapshot, about)
        if evidence is None:
            sources.fallbacks.append(f"partition column {about.name}: values in the path cannot be used")
        partitions = self._snapshot.partitions
        path_decides = not about.in_file or about.path in partitions.trusted
        if evidence is None or not (path_decides or about.path in partitions.shared):
            # Some engines read the path instead of the file, and how they interpret it is not known.
            sources.usable = [self._limited(source, Origin.FILE) for source in sources.usable]
            return
        in_path = of_paths(PARTITION_SOURCE, "partition_values", evidence)
        if path_decides:
            sources.usable = [in_path, *(sources.usable if about.in_file else ())]
            return
        of_either = [either(source, in_path) for source in sources.usable]
        sources.usable = [self._limited(in_path, Origin.PATH), *of_either]

    def _limited(self, source: Source, origin: Origin) -> Source:
        return limited(source, origin, by_engine=self._snapshot.partitions.origin_by_engine)
