"""Carries evidence over from one snapshot to a slightly changed later one, without reading or joining anything again.

A slice with the slice key of one in the earlier snapshot keeps the records that it had there. Only segments added
since can have records of new slices; they are joined to the new slices alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from msgspec import structs

from pruner.arrow import empty_table, nulls, number_array, positions, text_array, truth_array
from pruner.evidence.sources import Sources
from pruner.indexes.optional import RowIndexType
from pruner.metadata.segments import SLICE_COLUMN
from pruner.tables.snapshot import SLICE_COLUMNS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.evidence.sources import Source
    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence, IndexType
    from pruner.metadata.state import State
    from pruner.schema import Field
    from pruner.tables.snapshot import Descent, Snapshot
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]

MOST_CHANGES: Final = 1024
"""Most slices added or removed since records were joined. Each may add a run that every answer has to copy, and the
state that is held of the earlier snapshot drifts away from the newer one."""


class _Run(NamedTuple):
    """Slices `start` to `stop` (exclusive) of a snapshot, which start at `there` in the earlier one."""

    start: int
    stop: int
    there: int


class SnapshotDelta:
    """Where the slices of a snapshot were in an earlier one."""

    def __init__(self, origin: NDArray[np.int32], count: int) -> None:
        """Find the runs.

        Args:
            origin: as `Descent.origin`.
            count: slices of the earlier snapshot.
        """
        self.origin = origin
        self.count = count
        self.is_new: Mask = origin < 0
        # Far below 0, so that a new slice is not adjacent to slice 0.
        apart = np.where(self.is_new, np.int32(-9), origin)
        starts = np.flatnonzero(np.diff(apart, prepend=np.int32(-99)) != 1)
        stops = np.append(starts, len(origin))[1:]
        runs = np.stack([starts, stops, origin[starts]], axis=1)[origin[starts] >= 0]
        self._runs = [_Run(*run) for run in runs.tolist()]
        come = int(np.count_nonzero(self.is_new))
        self.any_new = come > 0
        self.changes = come + count - (len(origin) - come)
        """Slices added plus slices removed."""

    def then(self, later: SnapshotDelta) -> NDArray[np.int32]:
        """Where the slices of an even later snapshot were in the earliest one."""
        origin = np.full(len(later.origin), -1, np.int32)
        for run in later._runs:
            origin[run.start : run.stop] = self.origin[run.there : run.there + run.stop - run.start]
        return origin

    def here(self, there: Mask, *, new: bool = True) -> Mask:
        """Translate a mask over the earlier slices to the current ones; new slices get `new`."""
        mask = np.full(len(self.origin), new)
        for run in self._runs:
            mask[run.start : run.stop] = there[run.there : run.there + run.stop - run.start]
        return mask


class Unrecorded:
    """What an index says of a slice without a record: for some leaves, no column value yields an outcome."""

    def __init__(self, kind: IndexType | str, about: Field) -> None:
        """`kind` is the type of the index, or why it cannot be used."""
        self._kind = kind
        self._about = about

    @cached_property
    def _evidence(self) -> Evidence | None:
        """Evidence of one slice and no record; None for a type whose record columns are not known in advance."""
        if not isinstance(self._kind, RowIndexType):
            return None
        schema: Any = self._kind.record_schema
        schema = schema.append(pa.field(SLICE_COLUMN, pa.int32()))
        return self._kind.load(empty_table(schema), 1, self._about)

    def possible(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> bool:
        """Tell whether some row of such a slice can make `leaf` evaluate to `outcome`."""
        evidence = self._evidence
        mask = None if evidence is None else evidence.possible(leaf, outcome, semantics, None)
        return mask is None or bool(mask[0])


class CarryOver:
    """Carries sources from one snapshot to the next; sources with the same history share the computed deltas."""

    def __init__(self, descent: Descent, count: int) -> None:
        """`count`: number of slices of the earlier snapshot."""
        self._step = SnapshotDelta(descent.origin, count)
        self._composed: dict[int, tuple[SnapshotDelta, SnapshotDelta]] = {}

    def source(self, source: Source, unrecorded: Unrecorded) -> Source | None:
        """A source for the later snapshot; None if too much has changed since its records were joined."""
        answers, delta = source.answers, self._step
        if isinstance(answers, _Carried):
            source, delta, unrecorded = answers.source, self._after(answers.delta), answers.unrecorded
        if delta.changes > MOST_CHANGES:
            return None
        carried = _Carried(source, delta, unrecorded)
        return source.answering(carried, carries_over=source.can.carries_over)

    def _after(self, before: SnapshotDelta) -> SnapshotDelta:
        composed = self._composed.get(id(before))
        if composed is None:
            composed = (before, SnapshotDelta(before.then(self._step), before.count))
            self._composed[id(before)] = composed
        return composed[1]


class _Carried:
    """Answers from records that were joined to an earlier snapshot."""

    def __init__(self, source: Source, delta: SnapshotDelta, unrecorded: Unrecorded) -> None:
        self.source = source
        self.delta = delta
        self.unrecorded = unrecorded
        self._seen: tuple[Mask | None, Mask | None] = (None, delta.is_new if delta.is_new.any() else None)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.source.notes

    @property
    def uncovered(self) -> Mask | None:
        there, here = self._seen
        now = self.source.uncovered
        if now is not there:
            here = self.delta.is_new if now is None else self.delta.here(now)
            self._seen = (now, here if here.any() else None)
        return self._seen[1]

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        if at is None:
            there = self.source.possible(leaf, outcome, semantics, None)
            return (
                None if there is None else self.delta.here(there, new=self._of_new(leaf, outcome, semantics))
            )
        origin = self.delta.origin[at].astype(np.intp)
        known = origin >= 0
        mask = self.source.possible(leaf, outcome, semantics, origin[known])
        if mask is None:
            return None
        answer = np.full(len(at), known.all() or self._of_new(leaf, outcome, semantics))
        answer[known] = mask
        return answer

    def _of_new(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> bool:
        return not self.delta.any_new or self.unrecorded.possible(leaf, outcome, semantics)


class _Extended(NamedTuple):
    """Answers from records joined before, and from records added since for slices that had none.

    `rows` are those slices in ascending order; `later` numbers them by their position in it.
    """

    source: Source
    rows: NDArray[np.intp]
    later: Source

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.source.notes, *self.later.notes)))

    @property
    def uncovered(self) -> Mask | None:
        before = self.source.uncovered
        if before is None:
            return None
        uncovered, still = before.copy(), self.later.uncovered
        uncovered[self.rows] = False if still is None else still
        return uncovered if uncovered.any() else None

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        answer = self.source.possible(leaf, outcome, semantics, at)
        if answer is None:
            return None
        here, there = self.rows, None
        if at is not None:
            places = np.minimum(np.searchsorted(self.rows, at), max(0, len(self.rows) - 1))
            here = np.flatnonzero(self.rows[places] == at)
            there = places[here]
        mask = self.later.possible(leaf, outcome, semantics, there)
        if mask is not None:
            answer = answer.copy()  # it may be the index's own mask
            answer[here] = mask
        return answer


class Joined(NamedTuple):
    """What an index says of a field: the records of a state, joined to this snapshot or to an earlier one."""

    sources: Sources
    state: State | None
    unrecorded: Unrecorded

    def carried(self, over: CarryOver | None) -> Joined | None:
        """The same for a later snapshot, None if impossible; without `over` the snapshot is the same."""
        usable = self.sources.usable
        if self.sources.fallbacks or any(source.notes or not source.can.carries_over for source in usable):
            return None  # retry what could not be read
        if over is None:
            return self
        of_new = self.unrecorded
        carried = [later for source in usable if (later := over.source(source, of_new)) is not None]
        return self._replace(sources=Sources(carried)) if len(carried) == len(usable) else None

    def came(self) -> NDArray[np.intp]:
        """Slices added since the records were joined."""
        answers = self.sources.usable[0].answers
        return np.flatnonzero(answers.delta.is_new) if isinstance(answers, _Carried) else np.empty(0, np.intp)

    def unknown(self) -> NDArray[np.intp] | None:
        """Slices without a record; None if there are too many, or not exactly one source."""
        if len(self.sources.usable) != 1:
            return None
        uncovered = self.sources.usable[0].uncovered
        rows = np.flatnonzero(uncovered) if uncovered is not None else np.empty(0, np.intp)
        return rows if len(rows) <= MOST_CHANGES else None

    def with_later(self, rows: NDArray[np.intp], later: Sources) -> Sources | None:
        """The sources plus what newer segments say of slices without a record; None where they cannot be combined."""
        if len(later.usable) > 1 or not all(source.can.carries_over for source in later.usable):
            return None
        [before] = self.sources.usable
        usable = [before.answering(_Extended(before, rows, source)) for source in later.usable]
        return Sources(usable or self.sources.usable, later.fallbacks)


def has_grown(before: State | None, now: State | None) -> bool:
    """Tell whether a state has everything that an earlier one had, and possibly more segments."""
    if before is None or now is None or before.definitions != now.definitions:
        return False
    segments = {entry.id: entry for entry in now.segments}
    same = before.table_identity == now.table_identity
    return same and all(segments.get(entry.id) == entry for entry in before.segments)


def only_new(before: State, now: State) -> State:
    """A state without the segments of an earlier one, except for the slice batches that new segments need."""
    known = {entry.id for entry in before.segments}
    new = [entry for entry in now.segments if entry.id not in known]
    needed = {entry.batch for entry in new} | {entry.id for entry in new}
    return structs.replace(now, segments=tuple(entry for entry in now.segments if entry.id in needed))


def part_of(snapshot: Snapshot, rows: NDArray[np.intp]) -> Snapshot:
    """Some slices of a snapshot, without log files: only the columns that joining records needs."""
    known: Any = {
        "partition": number_array(snapshot.partition_ordinals[rows], pa.int32()),
        "file_id": text_array([""] * len(rows)),
        "base_file": text_array([""] * len(rows), ~snapshot.has_base[rows]),
        "unsettled": truth_array(~snapshot.coverable[rows]),
    }
    schema: Any = SLICE_COLUMNS
    columns: list[Any] = [known.get(field.name, nulls(len(rows), field.type)) for field in schema]
    table = pa.table(columns, schema=schema)
    keys = snapshot.keys.take(positions(rows))
    return replace(snapshot, columns=table, keys=keys, file_schemas=None, descent=None)
