"""How much of the table each index covers, now and over time, and why slices are not covered.

The reason why an index does not cover a slice follows from what is known about its files.

Coverage over time shows, from the log of a metadata table, how its indexes kept up with the table. With most commits a
writer saves the table as it saw it, so each can be measured against the table of its time. What a `vacuum` has deleted
cannot be reported any more.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import compute
from pruner.errors import FormatError, PrunerError, StorageError
from pruner.evidence.loading import usable_type
from pruner.expr.identifier import render_column_path
from pruner.indexes.optional import RefusingIndexType
from pruner.maintenance.columns import fields_of, gained, gone, left_out
from pruner.maintenance.expressions import slices_where, why_outdated
from pruner.metadata import log
from pruner.metadata.segments import SLICE_COLUMN, batch_table, read_saved, slice_keys
from pruner.showing.words import FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from pruner.indexes.base import IndexType
    from pruner.metadata.definitions import IndexDefinition
    from pruner.metadata.segment_cache import Keyed, SegmentCache
    from pruner.metadata.state import SegmentEntry, State
    from pruner.metadata.table import MetadataTable
    from pruner.planning.pinned import View
    from pruner.planning.views import Usage
    from pruner.tables.snapshot import Snapshot

NEW = "new"
REWRITTEN = "rewritten"
TOUCHED = "touched"
LOGS = "logs"
REFUSED = "refused"
FAILED = "failed"

REASONS = {
    NEW: "not indexed yet",
    REWRITTEN: "rewritten since",
    TOUCHED: "touched since, and not known again",
    LOGS: "with other log files since",
    REFUSED: "refused by the index",
    FAILED: "that failed",
}
"""Each reason, and how it describes slices."""


def why_uncovered(
    lacking: NDArray[np.bool_],
    refused: NDArray[np.bool_],
    entries: tuple[SegmentEntry, ...],
    state: State,
    snapshot: Snapshot,
    segments: SegmentCache,
) -> dict[str, int]:
    """Count slices that an index does not cover by reason, one of `REASONS`.

    Args:
        lacking: these slices.
        refused: slices whose record says that they could not be indexed.
        entries: the segments of the index.
        state: the state with these segments.
        snapshot: the table.
        segments: reads the slice batches.

    Raises:
        FormatError, StorageError: a batch cannot be read.
    """
    batches = [
        segments.entry(state, batch) for batch in dict.fromkeys(entry.batch or "" for entry in entries)
    ]
    tried = np.zeros(len(snapshot), np.bool_)
    for batch in batches:
        located = segments.located_in(batch, snapshot)
        tried[located[located >= 0]] = True
    counts: Counter[str] = Counter()
    counts[REFUSED] = int(np.count_nonzero(lacking & refused))
    counts[FAILED] = int(np.count_nonzero(lacking & ~refused & tried))
    others = batch_table(snapshot, np.flatnonzero(lacking & ~refused & ~tried))
    counts.update(_by_file(others, map(segments.read, batches)))
    return {reason: counts[reason] for reason in REASONS if counts[reason]}


def _by_file(slices: pa.Table, batches: Iterable[pa.Table]) -> list[str]:
    """The reason of each slice whose current state was not recorded."""
    if not slices.num_rows:
        return []
    versions: dict[str, tuple[int, str]] = {}
    groups: set[tuple[str, str]] = set()
    for batch in batches:
        for row in batch.to_pylist():
            groups.add((row["partition_path"], row["file_id"]))
            versions[row["base_file"]] = (row["base_size"], row["base_version"])
    return [_reason(row, versions.get(row["base_file"]), groups) for row in slices.to_pylist()]


def _reason(row: dict[str, Any], recorded: tuple[int, str] | None, groups: set[tuple[str, str]]) -> str:
    known_group = row["base_instant"] is not None and (row["partition_path"], row["file_id"]) in groups
    if recorded is None or row["base_file"] is None:
        return REWRITTEN if known_group and row["base_file"] is not None else LOGS if known_group else NEW
    now = (row["base_size"], row["base_version"])
    if row["base_instant"] is not None:
        # Hudi never writes a file name twice, so the log files are what is new.
        return LOGS if now == recorded else REWRITTEN
    return TOUCHED if _but_for_change_time(now) == _but_for_change_time(recorded) else REWRITTEN


def _but_for_change_time(version: tuple[int, str]) -> tuple[object, ...]:
    """Size, modification time and inode of a local file; the whole version of an object."""
    size, text = version
    times = text.split("-")
    return (size, times[0], times[2]) if len(times) == 3 else version


@dataclass(frozen=True, slots=True)
class IndexStatus:
    """One index: `covered` of `coverable` slices have records of their content for every column of the index.

    `refused` counts the slices whose records say that they could not be indexed, by the reason they give. `uncovered`
    counts the slices selected by `where` that are not covered, by what is known about them: `new`, `rewritten`,
    `touched` (only the change time moved), `logs` (other log files), `refused`, `failed`.
    `bytes` is the size of its segments with their partition statistics, the times are ISO 8601 in UTC
    (`refreshed_at` is None before the first build),
    `where` is the predicate on partition columns outside of which nothing is recorded (None: everything is), `note`
    says why the index is not `usable`. `left_out` has one sentence for each column that an index on all columns ("*")
    cannot take, and `gained` names those that the table has gained since: a refresh reads every file for them. `gone`
    names the columns of the index that the table no longer has; `covered` is about the others. In this process,
    `memory` bytes of records are held, loading what plans need took `load_seconds` (None: nothing was loaded), and
    `plans` used the index, which pruned `dropped` slices in them; in the newest `idle` of these plans it pruned none.
    """

    name: str
    using: str
    columns: tuple[str, ...]
    where: str | None
    covered: int
    coverable: int
    segments: int
    bytes: int
    created_at: str
    refreshed_at: str | None
    usable: bool
    note: str | None
    refused: dict[str, int]
    uncovered: dict[str, int] = field(default_factory=dict[str, int])
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    memory: int = 0
    load_seconds: float | None = None
    plans: int = 0
    dropped: int = 0
    idle: int = 0
    gained: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()

    @property
    def is_without_columns(self) -> bool:
        """Whether the table has none of the index's columns any more."""
        return bool(self.gone) and set(self.columns) <= set(self.gone)


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table and its indexes; `coverable` slices are settled and readable, `uncoverable` are the others by reason.

    `uri` is the first of the table's `roots`. `noun` is what a slice of the table is called for display.
    `hudi_indexes` names the indexes of Hudi's own metadata table, and says whether plans use each.
    """

    uri: str
    format: str
    snapshot_id: str
    slices: int
    coverable: int
    uncoverable: dict[str, int]
    indexes: tuple[IndexStatus, ...]
    problems: dict[str, str]
    fallbacks: tuple[str, ...]
    hudi_indexes: dict[str, str] = field(default_factory=dict[str, str])
    roots: tuple[str, ...] = ()
    noun: str = FILE


def table_status(
    roots: Sequence[str], format_: str, view: View, segments: SegmentCache, usage: Usage
) -> TableStatus:
    """The status of a table and of all its indexes in one view."""
    snapshot, state = view.snapshot, view.state
    indexes = (
        ()
        if state is None
        else (_index_status(definition, state, snapshot, segments) for definition in state.definitions)
    )
    return TableStatus(
        uri=roots[0],
        roots=tuple(roots),
        format=format_,
        snapshot_id=snapshot.id,
        slices=len(snapshot),
        coverable=int(snapshot.coverable.sum()),
        uncoverable=dict(snapshot.uncoverable_because),
        indexes=tuple(_measured(index, view, usage) for index in indexes),
        problems=dict(snapshot.problems),
        fallbacks=view.unusable,
        hudi_indexes=view.own_indexes(),
        noun=snapshot.noun,
    )


def _measured(status: IndexStatus, view: View, usage: Usage) -> IndexStatus:
    """The status of an index with its cost and savings in this process."""
    cost, saved = view.planner.cost(status.name), usage.of(status.name)
    return replace(
        status,
        memory=cost.memory if cost else 0,
        load_seconds=cost.load_seconds if cost else None,
        plans=saved.plans,
        dropped=saved.dropped,
        idle=saved.idle,
    )


def _index_status(
    definition: IndexDefinition, state: State, snapshot: Snapshot, segments: SegmentCache
) -> IndexStatus:
    """Measure one index against a snapshot."""
    entries = state.segments_of(definition)
    kind = usable_type(definition)
    note = kind if isinstance(kind, str) else None
    covered = np.zeros(len(snapshot), np.bool_)
    refused: Counter[str] = Counter()
    uncovered: dict[str, int] = {}
    lost = gone(definition, entries, snapshot.schema)
    named = {binding.recorded: binding.path for binding in definition.fields}
    used = tuple(entry for entry in entries if entry.field not in lost)
    try:
        covered = _recorded_slices(used, state, snapshot, segments) & snapshot.coverable
        refusing = np.zeros(len(snapshot), np.bool_)
        if isinstance(kind, RefusingIndexType):
            refusing = _refused(kind, used, state, snapshot, segments, refused)
            covered &= ~refusing
        lacking = snapshot.coverable & ~covered
        if definition.where is not None:
            lacking &= slices_where(definition.where, snapshot, segments)
        if lost and not used and not set(named) - set(lost):
            lacking[:] = False  # there is nothing to cover
        uncovered = why_uncovered(lacking, refusing, used, state, snapshot, segments)
    except PrunerError as error:
        note = note or str(error)
    paths = [entry.field for entry in entries if entry.field] + list(named)

    def shown(path: tuple[str, ...]) -> str:
        return definition.expression or render_column_path(snapshot.schema.shown(path, named.get(path)))

    columns = dict.fromkeys(map(shown, paths))
    if definition.expression is not None:
        columns = {definition.expression: None}
        note = note or why_outdated(definition)
    return IndexStatus(
        name=definition.name,
        using=definition.using,
        columns=tuple(columns),
        where=definition.where,
        covered=int(np.count_nonzero(covered)),
        coverable=int(np.count_nonzero(snapshot.coverable)),
        segments=len(entries),
        bytes=sum(file.size for entry in entries for file in entry.files()),
        created_at=definition.created_at,
        refreshed_at=max((entry.created_at for entry in entries), default=None),
        usable=note is None,
        note=note,
        refused=dict(refused),
        uncovered=uncovered,
        left_out=_left_out(definition, snapshot, kind),
        gained=_gained(definition, entries, snapshot, kind),
        gone=tuple(dict.fromkeys(map(shown, lost))),
    )


def _gained(
    definition: IndexDefinition, entries: Sequence[SegmentEntry], snapshot: Snapshot, kind: IndexType | str
) -> tuple[str, ...]:
    return (
        ()
        if isinstance(kind, str)
        else gained(definition, entries, fields_of(definition, snapshot.schema, kind))
    )


def _left_out(definition: IndexDefinition, snapshot: Snapshot, kind: IndexType | str) -> dict[str, str]:
    if not definition.all_columns or isinstance(kind, str):
        return {}
    reasons = left_out(snapshot.schema, kind, definition.options)
    return {render_column_path(path): sentence for path, sentence in reasons.items()}


def covered_slices(
    definition: IndexDefinition, state: State, snapshot: Snapshot, segments: SegmentCache
) -> NDArray[np.bool_]:
    """Slices with a record for each of the index's columns.

    Raises:
        FormatError, StorageError: records cannot be read.
    """
    return recorded_slices(definition, state, snapshot, segments) & snapshot.coverable


def recorded_slices(
    definition: IndexDefinition, state: State, slices: Keyed, segments: SegmentCache
) -> NDArray[np.bool_]:
    """The given slices with a record for each of the index's columns; raises as `covered_slices` does."""
    return _recorded_slices(state.segments_of(definition), state, slices, segments)


def _recorded_slices(
    entries: Sequence[SegmentEntry], state: State, slices: Keyed, segments: SegmentCache
) -> NDArray[np.bool_]:
    """The given slices with a record for each column of which there are segments."""
    masks = list(segments.recorded(state, entries, slices).values())
    return np.logical_and.reduce(masks) if masks else np.zeros(len(slices.keys), np.bool_)


def answering_slices(
    definition: IndexDefinition, state: State, snapshot: Snapshot, segments: SegmentCache
) -> NDArray[np.bool_]:
    """Covered slices, except those whose record says that they could not be indexed.

    Raises:
        FormatError, StorageError: records cannot be read.
    """
    mask = covered_slices(definition, state, snapshot, segments)
    kind = usable_type(definition)
    if isinstance(kind, RefusingIndexType):
        entries = state.segments_of(definition)
        mask &= ~_refused(kind, entries, state, snapshot, segments, Counter())
    return mask


def _refused(
    kind: RefusingIndexType,
    entries: tuple[SegmentEntry, ...],
    state: State,
    snapshot: Snapshot,
    segments: SegmentCache,
    reasons: Counter[str],
) -> NDArray[np.bool_]:
    """Slices with a record that says that they could not be indexed; counts them by reason."""
    usable, reason = kind.refusal
    mask = np.zeros(len(snapshot), np.bool_)
    for entry in entries:
        records: Any = segments.leading(entry, (SLICE_COLUMN, usable, reason))
        refused = records.filter(compute.equal(records.column(usable), False))
        ordinals = segments.located(state, entry, snapshot)[refused.column(SLICE_COLUMN).to_numpy()]
        here = (ordinals >= 0) & snapshot.coverable[ordinals]
        mask[ordinals[here]] = True
        reasons.update(text for text in refused.filter(pa.array(here)).column(reason).to_pylist() if text)
    return mask


COMMITS = 24
"""Most commits that are read: the newest ones."""


@dataclass(frozen=True, slots=True)
class CoverageAt:
    """Coverage after one commit: `covered` counts for each index of that time the `slices` of which it had records.

    `version` is the number of the log entry and `at` its time, ISO 8601 in UTC; both are None for the current table.
    Slices are those that an index may cover.
    """

    version: int | None
    at: str | None
    slices: int
    covered: dict[str, int]


@dataclass(frozen=True, slots=True)
class _Slices:
    """See `pruner.metadata.segment_cache.Keyed`."""

    keys: pa.Array[Any]


def coverage_over_time(
    metadata: MetadataTable, snapshot: Snapshot, state: State, segments: SegmentCache
) -> tuple[CoverageAt, ...]:
    """Coverage after each of the newest commits that can still be read, oldest first, and of the current table.

    Args:
        metadata: the metadata table whose log is read.
        snapshot: the current table.
        state: the newest state.
        segments: reads records.

    Raises:
        FormatError, StorageError: the log cannot be listed.
    """
    history: list[CoverageAt] = []
    for version, _ in log.entries(metadata.store)[-COMMITS:]:
        try:
            committed, _ = log.read(metadata.store, version)
            at = _after(committed, metadata, segments)
        except (FormatError, StorageError):
            continue  # damaged, or out of use for so long that a vacuum removed it
        if at is not None:
            history.append(at)
    slices = _Slices(snapshot.keys.filter(pa.array(snapshot.coverable)))
    return (*history, CoverageAt(None, None, len(slices.keys), _covered(state, slices, segments)))


def _after(state: State, metadata: MetadataTable, segments: SegmentCache) -> CoverageAt | None:
    """Coverage after one commit; None if its writer saved no snapshot."""
    if state.last_snapshot is None:
        return None
    seen = read_saved(metadata.store, state.last_snapshot)
    if "unsettled" in seen.column_names:
        seen = seen.filter(compute.invert(seen.column("unsettled")))
    slices = _Slices(slice_keys(seen))
    return CoverageAt(state.version, state.created_at, len(slices.keys), _covered(state, slices, segments))


def _covered(state: State, slices: _Slices, segments: SegmentCache) -> dict[str, int]:
    return {
        definition.name: int(np.count_nonzero(recorded_slices(definition, state, slices, segments)))
        for definition in state.definitions
    }
