"""Records joined to the slices of one snapshot, by slice key, and the newest record of each slice.

If a segment has groups, these are first located as a whole: a run of slices that is in the snapshot exactly as it was
recorded needs neither the slice batch nor a join.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, bytes_array, number_array, truth_array
from pruner.errors import FormatError, StorageError
from pruner.indexes.optional import RowIndexType
from pruner.indexes.partition_stats import Groups, groups_of
from pruner.metadata.segments import SLICE_COLUMN, slice_keys
from pruner.tables.slice_keys import locate_all, locate_runs
from pruner.tables.snapshot import SLICE_KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.base import IndexType
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.tables.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class SegmentRecords:
    """Records of one segment, with snapshot ordinals as `__slice`, and their positions in it; None for all of them."""

    entry: SegmentEntry
    records: pa.Table
    rows: NDArray[np.int64] | None = None

    def only(self, chosen: NDArray[np.bool_]) -> SegmentRecords:
        """The chosen records."""
        if chosen.all():
            return self
        rows = np.flatnonzero(chosen) if self.rows is None else self.rows[chosen]
        return SegmentRecords(self.entry, self.records.filter(truth_array(chosen)), rows)


@dataclass(frozen=True, slots=True)
class SegmentPlacement:
    """The slices to which the records of one segment belong: `ordinals[i]` for local ordinal i of its batch, or -1.

    `groups` are those of its partition statistics, None if it has no usable ones.
    """

    entry: SegmentEntry
    ordinals: NDArray[np.int64]
    groups: Groups | None

    @property
    def slices(self) -> NDArray[np.int64]:
        """Snapshot ordinals of the slices whose records count."""
        return self.ordinals[self.ordinals >= 0]


def newest_of_each_slice(parts: list[SegmentRecords], count: int) -> list[SegmentRecords]:
    """Keep only the newest segment's records of each slice: two concurrent refreshes may both have recorded it."""
    if len(parts) < 2:
        return parts
    kept: list[SegmentRecords] = []
    seen = np.zeros(count, np.bool_)
    for part in reversed(parts):
        ordinals = as_numpy(part.records.column(SLICE_COLUMN))
        kept.append(part.only(~seen[ordinals]))
        seen[ordinals] = True
    return kept[::-1]


class Placement:
    """Joins the segments of one state to one snapshot, each batch once."""

    def __init__(self, snapshot: Snapshot, state: State | None, segments: SegmentCache) -> None:
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._located: dict[str, NDArray[np.int64]] = {}

    def part(
        self,
        entry: SegmentEntry,
        kind: IndexType,
        but: tuple[str, ...] = (),
        ordinals: NDArray[np.int64] | None = None,
        only: Sequence[str] | None = None,
    ) -> SegmentRecords:
        """The records of a segment, without some columns, for the slices that are in the snapshot.

        Args:
            entry: the segment.
            kind: the type of its index.
            but: names of the columns to leave out.
            only: names of the columns to read, without reading the rest of the segment; None for all but `but`.
            ordinals: the slices to which they belong, by local ordinal, if already known.

        Raises:
            FormatError: the segment or its batch is damaged.
            StorageError: one of them cannot be read.
        """
        segments = self._segments
        records = segments.read(entry, but=but) if only is None else segments.columns(entry, only)
        local = _locals(records, entry)
        records = as_recorded(records, kind, entry)
        if ordinals is None:
            ordinals = self._of_batch(entry)
        placement = placed(local, ordinals, entry)
        usable = placement >= 0
        usable[usable] = self._snapshot.coverable[placement[usable]]
        return SegmentRecords(entry, with_slices(records, placement)).only(usable)

    def locate(self, entries: Iterable[SegmentEntry]) -> None:
        """Join the batches of some segments at once; `part` reports those that cannot be read."""
        batches = self._to_locate(entries)
        self._located.update(self._standing(batches))
        keys: dict[str, pa.Array[Any]] = {}
        for batch in batches:
            if batch.id not in self._located:
                try:
                    keys[batch.id] = slice_keys(self._segments.read(batch))
                except (FormatError, StorageError):
                    continue
        if keys:
            ordinals = locate_all(self._snapshot.keys, list(keys.values()))
            self._located.update(zip(keys, ordinals, strict=True))

    def _to_locate(self, entries: Iterable[SegmentEntry]) -> list[SegmentEntry]:
        """The batches of some segments that are not joined yet, each once."""
        wanted = dict.fromkeys(entry.batch for entry in entries if entry.batch is not None)
        batches: list[SegmentEntry] = []
        for batch in wanted:
            if batch not in self._located:
                with suppress(FormatError):  # the state has none: `part` reports it
                    batches.append(self._segments.entry(self._state, batch))
        return batches

    def _standing(self, batches: list[SegmentEntry]) -> dict[str, NDArray[np.int64]]:
        """The ordinals of batches whose slices are in the snapshot as a run, just as recorded; reads none of them."""
        runs = [(batch, batch.run) for batch in batches if batch.run is not None]
        if not runs:
            return {}
        counts = np.array([batch.rows for batch, _ in runs])
        firsts = bytes_array([bytes.fromhex(run.first) for _, run in runs], SLICE_KEY_BYTES)
        digests = [bytes.fromhex(run.digest) for _, run in runs]
        starts = locate_runs(self._snapshot.keys, firsts, counts, digests).tolist()
        return {
            batch.id: np.arange(start, start + batch.rows)
            for (batch, _), start in zip(runs, starts, strict=True)
            if start >= 0
        }

    def _of_batch(self, entry: SegmentEntry) -> NDArray[np.int64]:
        if entry.batch is None:
            raise FormatError(f"segment {entry.path} names no slice batch: drop the index and create it anew")
        if entry.batch not in self._located:
            self.locate([entry])
        if entry.batch not in self._located:
            self._segments.read(self._segments.entry(self._state, entry.batch))  # raises what `locate` caught
        return self._located[entry.batch]

    def places(
        self, entries: Sequence[SegmentEntry], kind: IndexType, report: Callable[[str], None]
    ) -> list[SegmentPlacement]:
        """To which slices the records of several segments of one field belong; each slice gets the newest.

        Args:
            entries: oldest first.
            kind: the type of their index.
            report: called with one sentence for each thing that could not be read; its slices stay without a record.
        """
        groups = {entry.id: self._groups(entry, kind, report) for entry in entries}
        runs = self._runs([group for group in groups.values() if group is not None])
        located = {entry_id: next(runs) if group is not None else None for entry_id, group in groups.items()}
        self.locate(e for e in entries if (starts := located[e.id]) is None or (starts < 0).any())
        placements: list[SegmentPlacement] = []
        for entry in entries:
            try:
                placements.append(self._place(entry, groups[entry.id], located[entry.id]))
            except (FormatError, StorageError) as error:
                report(str(error))
        seen = np.zeros(len(self._snapshot), np.bool_)
        for place in reversed(placements):
            ordinals = place.ordinals
            known = ordinals >= 0
            known[known] = self._snapshot.coverable[ordinals[known]] & ~seen[ordinals[known]]
            ordinals[~known] = -1
            seen[ordinals[known]] = True
        return placements

    def _groups(self, entry: SegmentEntry, kind: IndexType, report: Callable[[str], None]) -> Groups | None:
        of = entry.partition_stats
        if of is None:
            return None
        try:
            rows = self._segments.entry(self._state, entry.batch or "").rows
            groups = groups_of(self._segments.read(of), of, entry, rows)
            return groups._replace(records=as_recorded(groups.records, kind, of))
        except (FormatError, StorageError) as error:
            report(f"partition statistics are not used: {error}")
            return None

    def _runs(self, groups: list[Groups]) -> Iterator[NDArray[np.int64]]:
        """For each segment, the snapshot ordinal at which each of its groups begins, -1 if the group is not whole."""
        if not groups:
            return iter(())
        starts = locate_runs(
            self._snapshot.keys,
            pa.concat_arrays([group.first_keys for group in groups]),
            np.concatenate([group.counts for group in groups]),
            [digest for group in groups for digest in group.digests],
        )
        return iter(np.split(starts, np.cumsum([len(group.counts) for group in groups])[:-1]))

    def _place(
        self, entry: SegmentEntry, groups: Groups | None, starts: NDArray[np.int64] | None
    ) -> SegmentPlacement:
        """The placement of one segment by itself."""
        if groups is None or starts is None:
            paged = entry.pages is not None
            records = self._segments.leading(entry, (SLICE_COLUMN,)) if paged else self._segments.read(entry)
            recorded = _locals(records, entry)
            return SegmentPlacement(entry, _restricted(self._of_batch(entry), recorded), None)
        rows = self._segments.entry(self._state, entry.batch or "").rows
        locals_, of_group = expand(groups.firsts, groups.counts)
        if (starts >= 0).all():
            ordinals = np.full(rows, -1, np.int64)
            ordinals[locals_] = starts[of_group] + locals_ - groups.firsts[of_group]
            return SegmentPlacement(entry, ordinals, groups)
        return SegmentPlacement(entry, _restricted(self._of_batch(entry), locals_), groups)


def as_recorded(records: pa.Table, kind: IndexType, entry: SegmentEntry) -> pa.Table:
    """The columns of a segment's records that this version knows; those that the segment lacks are null.

    Raises:
        FormatError: a column is duplicated, or has another type, or is null where it must not be.
    """
    if not isinstance(kind, RowIndexType):
        return records
    columns: dict[str, Any] = {}
    schema, parts = cast("tuple[Any, Any]", (kind.record_schema, records))
    for field in schema:
        times = records.column_names.count(field.name)
        column = parts.column(field.name) if times == 1 else arrow.nulls(records.num_rows, field.type)
        if times > 1 or column.type != field.type or (column.null_count and not field.nullable):
            raise FormatError(
                f"segment {entry.path} has no column {field.name} of a {kind.name} index: "
                "drop the index and create it anew"
            )
        columns[field.name] = column
    if SLICE_COLUMN in records.column_names:
        columns[SLICE_COLUMN] = records.column(SLICE_COLUMN)
    return pa.table(columns)


def placed(local: NDArray[np.int64], ordinals: NDArray[np.int64], entry: SegmentEntry) -> NDArray[np.int64]:
    """Map the local ordinals in the records of a segment to the `ordinals` of slices.

    Raises:
        FormatError: some lie outside the segment's batch.
    """
    if len(local) and not (local.min() >= 0 and local.max() < len(ordinals)):
        raise FormatError(
            f"segment {entry.path} names slices outside its batch: drop the index and create it anew"
        )
    return ordinals[local]


def with_slices(records: pa.Table, slices: NDArray[Any]) -> pa.Table:
    """The records with their slice numbers replaced."""
    at = records.column_names.index(SLICE_COLUMN)
    column = number_array(slices.astype(np.int32, copy=False), pa.int32())
    return records.set_column(at, SLICE_COLUMN, column)


def _locals(records: pa.Table, entry: SegmentEntry) -> NDArray[np.int64]:
    """The local ordinals of the records of a segment.

    Raises:
        FormatError: it has no valid column of them.
    """
    once = records.column_names.count(SLICE_COLUMN) == 1
    column: Any = records.column(SLICE_COLUMN) if once else pa.nulls(1)
    if not pa.types.is_integer(column.type) or column.null_count:
        raise FormatError(
            f"segment {entry.path} does not say which slices it is about: drop the index and create it anew"
        )
    return as_numpy(column)


def _restricted(ordinals: NDArray[np.int64], locals_: NDArray[np.int64]) -> NDArray[np.int64]:
    """A copy in which only the given local ordinals have a slice."""
    result = np.full(len(ordinals), -1, np.int64)
    inside = locals_[(locals_ >= 0) & (locals_ < len(ordinals))]
    result[inside] = ordinals[inside]
    return result


def expand(
    firsts: NDArray[np.int64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The local ordinals of all slices of some groups, and the number of the group of each."""
    of_group = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return firsts[of_group] + np.arange(len(of_group)) - before[of_group], of_group
