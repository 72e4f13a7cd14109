"""Merges small segments and drops slices that are gone; checks what checksums do not show.

Nothing changes for readers: segments are immutable, merged ones stay until they have been out of use long enough for a
vacuum, and one commit replaces the old ones with the new.

Checks beyond checksums: partition statistics against the records, and the table's files against the index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import ConflictError, FormatError, StorageError
from pruner.evidence.join import as_recorded, expand
from pruner.evidence.loading import usable_type
from pruner.indexes.optional import AggregatingIndexType, ArrangingIndexType, SpreadingIndexType
from pruner.indexes.partition_stats import SliceBatch, groups_of, write_records
from pruner.indexes.registry import index_type
from pruner.maintenance.columns import gone, recorded_field
from pruner.metadata.segments import (
    REMEDY,
    SLICE_COLUMN,
    SLICE_FIELD,
    batch_table,
    relative_files,
    slice_keys,
)
from pruner.metadata.state import FILES, refuse_newer
from pruner.pipeline.batches import BATCH_SLICES
from pruner.tables.slice_keys import digest_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.base import IndexType
    from pruner.indexes.partition_stats import Groups
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.tables.snapshot import Snapshot

MERGED_SLICES = 4 * BATCH_SLICES
"""Most slices of a merged batch."""

MERGED_BYTES = 256 * 1024**2
"""Most bytes of the files that become one batch: they are in memory together."""

GONE_SHARE = 1 / 8
"""Share of the slices of a full batch that must be gone before it is rewritten by itself."""


@dataclass(frozen=True, slots=True)
class CompactResult:
    """Number of segments that plans had to read before, and have to read now, including slice batches."""

    before: int
    after: int


@dataclass(frozen=True, slots=True)
class _Group:
    """Batches that become one, oldest first, and all segments that refer to them."""

    batches: tuple[SegmentEntry, ...]
    records: tuple[SegmentEntry, ...]

    @property
    def ids(self) -> set[str]:
        return {entry.id for entry in (*self.batches, *self.records)}


class Compaction:
    """Merges the segments of one table."""

    def __init__(
        self, metadata: MetadataTable, segments: SegmentCache, identity: str, snapshot: Callable[[], Snapshot]
    ) -> None:
        self._metadata = metadata
        self._segments = segments
        self._identity = identity
        self._snapshot = snapshot

    def run(self) -> CompactResult:
        """Merge small segments, in one commit.

        Raises:
            ConflictError: another writer removed what was being merged; nothing was lost.
            FormatError: a segment is damaged.
            StorageError: the metadata table cannot be read or written.
        """
        state = self._metadata.state()
        refuse_newer(state)
        before = len(state.segments)
        if not state.matches(self._identity):
            return CompactResult(before, before)
        # After the state: a slice that the state knows and this snapshot does not is gone, not new.
        snapshot = self._snapshot()
        groups = [group for group in _groups(state) if self._worth_it(group, snapshot)]
        if not groups:
            return CompactResult(before, before)
        merged = [entry for group in groups for entry in self._merge(group, state, snapshot)]
        following = self._metadata.commit(lambda newest: self._swapped(newest, groups, merged))
        return CompactResult(before, len(following.segments))

    def _worth_it(self, group: _Group, snapshot: Snapshot) -> bool:
        batch, *others = group.batches
        if others:
            return True
        left = self._located(batch, snapshot) < 0
        return bool(left.any()) if len(left) < BATCH_SLICES else left.mean() >= GONE_SHARE

    def _located(self, batch: SegmentEntry, snapshot: Snapshot) -> NDArray[np.int64]:
        return self._segments.located_in(batch, snapshot)

    def _merge(self, group: _Group, state: State, snapshot: Snapshot) -> Iterator[SegmentEntry]:
        located = {batch.id: self._located(batch, snapshot) for batch in group.batches}
        ordinals = np.unique(np.concatenate(list(located.values())))
        ordinals = ordinals[ordinals >= 0]
        if not len(ordinals):
            return
        slices = batch_table(snapshot, ordinals)
        batch = self._metadata.write_segment(FILES, slices)
        yield batch
        about = SliceBatch(batch, slices, ordinals)
        local = {name: np.where(at >= 0, np.searchsorted(ordinals, at), -1) for name, at in located.items()}
        for definition, entries in _by_index(group, state):
            field, kind = entries[0].field or (), index_type(definition.using)
            lost = definition.form is not None and gone(definition, entries, snapshot.schema)
            if lost and isinstance(kind, ArrangingIndexType):
                continue  # records of a column that is gone cannot be arranged, and no plan asks for them
            records = self._joined(entries, kind, local, len(ordinals))
            if records.num_rows:
                records = _arranged(records, kind, definition, field, snapshot)
                yield write_records(self._metadata, kind, records, about, definition, field)

    def _joined(
        self,
        entries: Sequence[SegmentEntry],
        kind: IndexType,
        local: dict[str, NDArray[np.int64]],
        count: int,
    ) -> pa.Table:
        """The records of some segments by the ordinals of the merged batch; only the newest of each slice."""
        seen = np.zeros(count, np.bool_)
        tables: list[pa.Table] = []
        for entry in reversed(entries):
            records = self._segments.read(entry)
            if isinstance(kind, SpreadingIndexType):
                records = kind.spread(records)
            ordinals = local[entry.batch or ""][records.column(SLICE_COLUMN).to_numpy()]
            kept = (ordinals >= 0) & ~seen[ordinals]
            position = records.column_names.index(SLICE_COLUMN)
            column = pa.array(ordinals[kept].astype(np.int32))
            tables.append(records.filter(pa.array(kept)).set_column(position, SLICE_FIELD, column))
            seen[ordinals[kept]] = True
        joined: Any = pa.concat_tables(tables, promote_options="permissive")
        return joined.sort_by(SLICE_COLUMN)

    def _swapped(self, newest: State, groups: Sequence[_Group], merged: Sequence[SegmentEntry]) -> State:
        alive = {definition.uuid for definition in newest.definitions}
        known = {entry.id for entry in newest.segments}
        for group in groups:
            if any(entry.definition in alive and entry.id not in known for entry in group.records):
                raise ConflictError("another writer removed segments that were being merged: compact again")
        records = [entry for entry in merged if entry.definition in alive]
        needed = {entry.batch for entry in records}
        added = [entry for entry in merged if entry.id in needed] + records
        removed = set[str]().union(*(group.ids for group in groups)) & known
        return newest.without_segments(removed).with_segments(added)


def _groups(state: State) -> Iterator[_Group]:
    """Batches of one tier, packed oldest first; those with records that this pruner cannot use are left alone.

    Full batches are merged among themselves, and the result of merging several of them is not merged again. So a record
    is rewritten a bounded number of times, however many refreshes follow.
    """
    foreign = {
        definition.uuid for definition in state.definitions if isinstance(usable_type(definition), str)
    }
    users: dict[str, list[SegmentEntry]] = {}
    for entry in state.segments:
        if entry.batch is not None:
            users.setdefault(entry.batch, []).append(entry)
    small: list[SegmentEntry] = []
    full: list[SegmentEntry] = []
    for batch in state.batches():
        if any(entry.definition in foreign for entry in users.get(batch.id, [])):
            continue
        if batch.rows >= 2 * BATCH_SLICES:
            yield _group([batch], users)
        else:
            (small if batch.rows < BATCH_SLICES else full).append(batch)
    for tier in (small, full):
        yield from _packed(tier, users)


def _packed(batches: Sequence[SegmentEntry], users: dict[str, list[SegmentEntry]]) -> Iterator[_Group]:
    """Groups of batches, each of which becomes one batch of bounded size."""
    packed: list[SegmentEntry] = []
    slices = size = 0
    for batch in batches:
        weight = batch.size + sum(entry.size for entry in users.get(batch.id, []))
        if packed and (slices + batch.rows > MERGED_SLICES or size + weight > MERGED_BYTES):
            yield _group(packed, users)
            packed, slices, size = [], 0, 0
        packed.append(batch)
        slices, size = slices + batch.rows, size + weight
    if packed:
        yield _group(packed, users)


def _group(batches: list[SegmentEntry], users: dict[str, list[SegmentEntry]]) -> _Group:
    return _Group(tuple(batches), tuple(entry for batch in batches for entry in users.get(batch.id, [])))


def _by_index(group: _Group, state: State) -> Iterator[tuple[IndexDefinition, list[SegmentEntry]]]:
    """The segments of each field of each index, oldest first."""
    definitions = {definition.uuid: definition for definition in state.definitions}
    order = {entry.id: position for position, entry in enumerate(state.segments)}
    groups: dict[tuple[str, tuple[str, ...]], list[SegmentEntry]] = {}
    for entry in sorted(group.records, key=lambda entry: order[entry.id]):
        groups.setdefault((entry.definition or "", entry.field or ()), []).append(entry)
    for (uuid, _), entries in groups.items():
        yield definitions[uuid], entries


def _arranged(
    records: pa.Table,
    kind: IndexType,
    definition: IndexDefinition,
    path: tuple[str, ...],
    snapshot: Snapshot,
) -> pa.Table:
    if not isinstance(kind, ArrangingIndexType):
        return records
    return kind.arrange(records, recorded_field(definition, path, snapshot.schema))


_VERSION = ["slice_key", "base_file"]

_CHANGED = (
    "is not the file that was indexed under this name: run pruner refresh; if a program wrote into it in place, "
    "also restart the processes that plan over the table"
)
"""A refresh lists every file. A process with an earlier listing may still trust what a file written in place held."""


def partition_stats_problems(metadata: MetadataTable) -> list[str]:
    """Compare all partition statistics with the records that they aggregate; one sentence for each that differs.

    Segments that cannot be read or fail their checksum are skipped: `MetadataTable.verify` reports them.
    """
    try:
        state = metadata.state()
    except (FormatError, StorageError):
        return []
    problems: list[str] = []
    kinds = {definition.uuid: usable_type(definition) for definition in state.definitions}
    for entry in state.segments:
        kind = kinds.get(entry.definition or "")
        if entry.partition_stats is None or kind is None or isinstance(kind, str):
            continue
        problem = _problem(metadata, state, entry, entry.partition_stats, kind)
        if problem is not None:
            problems.append(f"{state.about(entry)}: {problem}")
    return problems


def _problem(
    metadata: MetadataTable, state: State, entry: SegmentEntry, of: SegmentEntry, kind: IndexType
) -> str | None:
    try:
        batch = metadata.read_segment(
            next(segment for segment in state.segments if segment.id == entry.batch)
        )
        recorded = metadata.read_segment(entry)
        table = metadata.read_segment(of)
    except (FormatError, StorageError):
        return None
    try:
        groups = groups_of(table, of, entry, batch.num_rows)
        summed, records = as_recorded(groups.records, kind, of), as_recorded(recorded, kind, entry)
    except FormatError as error:
        return str(error)
    if not _names_its_slices(groups, batch, recorded):
        return f"the segment {of.path} names other slices than {entry.path}: {REMEDY}"
    aggregates = kind.aggregate(records, _parts(groups)) if isinstance(kind, AggregatingIndexType) else None
    if aggregates is None:
        return None
    starts = np.cumsum(groups.counts) - groups.counts
    same = np.array_equal(aggregates.starts, starts) and summed.equals(
        aggregates.records.select(summed.column_names)
    )
    if same:
        return None
    return f"the segment {of.path} is not what the records of {entry.path} add up to: {REMEDY}"


def changed_files(metadata: MetadataTable, snapshot: Snapshot) -> list[str]:
    """Name the files that are not what was indexed under their name; one sentence each.

    A file that was replaced by a rename is reported until the next refresh, and plans keep it. A file that was written
    in place breaks the promise of a table whose files are declared immutable: plans of processes with an earlier
    listing trust that it holds what it held. The two cases cannot be told apart afterwards.

    Files whose current version is indexed are not reported, whatever they were before.

    Args:
        metadata: the metadata table whose slice batches say which versions were indexed.
        snapshot: the snapshot of a listing that checked every file.

    Raises:
        FormatError, StorageError: a slice batch cannot be read.
    """
    batches = [metadata.read_segment(entry).select(_VERSION) for entry in metadata.state().batches()]
    if not batches:
        return []
    recorded = pa.concat_tables(batches)
    here = relative_files(snapshot.column("base_file"), snapshot.root)
    indexed = compute.is_in(here, value_set=recorded.column("base_file").combine_chunks())
    known = compute.is_in(snapshot.keys, value_set=recorded.column("slice_key").combine_chunks())
    changed = compute.and_(indexed.combine_chunks(), compute.invert(known))
    uris = snapshot.column("base_file").filter(changed).to_pylist()
    return [f"{uri} {_CHANGED}" for uri in uris]


def _names_its_slices(groups: Groups, batch: pa.Table, recorded: pa.Table) -> bool:
    """Tell whether groups consist of exactly the slices with a record, by ordinal and by digest."""
    locals_ = expand(groups.firsts, groups.counts)[0]
    if not np.array_equal(locals_, recorded.column(SLICE_COLUMN).to_numpy()):
        return False
    keys = slice_keys(batch)
    firsts = keys.take(groups.firsts)
    digests = digest_runs(keys, groups.firsts, groups.counts)
    return bool(firsts.equals(groups.first_keys)) and digests == list(groups.digests)


def _parts(groups: Groups) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.repeat(np.arange(len(groups.counts)), groups.counts)
