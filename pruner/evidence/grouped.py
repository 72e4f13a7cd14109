"""Evidence that checks groups of slices first, and reads the records of single slices only where their group may match.

An aggregate bounds what each record of its group says, so excluding a group excludes each of its slices, however many
of them are left in the table. For the other groups the records themselves are checked: the answer is the one that all
records together give, from fewer of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, number_array
from pruner.errors import FormatError, StorageError
from pruner.evidence.join import expand, with_slices
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.evidence.join import Placement, SegmentPlacement
    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.base import Evidence, IndexType
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]

ALL_FROM = 0.5
"""Share of the slices from which on all records are read at once, and queried as a whole from then on."""

WARM_AFTER = 64
"""Number of calls after which more are expected.

All records are then read, which makes each later answer a little faster.
"""

_NONE = np.empty(0, np.int64)

FEW = 0.25
"""Share of the slices below which they are queried by ordinal."""


class GroupLayout(NamedTuple):
    """The slices (snapshot ordinals) of each group, and the segment that holds the records of the group.

    `members[offsets[i]:offsets[i + 1]]` are the slices of group i that are left in the table, `segments[i]` is the
    number of its segment. Slices in `ungrouped` have records in segments without groups, which are always read.
    """

    members: NDArray[np.int32]
    offsets: NDArray[np.int64]
    segments: NDArray[np.int64]
    ungrouped: NDArray[np.int64]


class LoadedEvidence(NamedTuple):
    """Evidence of the records that were read.

    `positions[ordinal]` is the position of a slice in the evidence, -1 if it has no record there; None if the evidence
    is about all slices of the snapshot. `missing` are slices whose records could not be read, `notes` says why.
    """

    evidence: Evidence
    positions: NDArray[np.int32] | None
    missing: NDArray[np.int64]
    notes: tuple[str, ...]

    @property
    def settles_all(self) -> bool:
        """Whether groups have nothing to add; they do for slices whose records are missing."""
        return self.positions is None and not len(self.missing)


Load = Callable[["Sequence[int] | None"], LoadedEvidence]
"""Reads the records of some segments, by number, and those of all ungrouped slices; None for all segments."""


class GroupedEvidence:
    """Evidence of one field from groups and records: see `pruner.indexes.base.Evidence`. Threads may share it.

    `groups` is evidence about the groups and, in last position, about slices without a record.

    Attributes:
        covered: slices that are covered as far as is known.
        uncovered: the others; None if there are none.
        notes: why records could not be read.
    """

    def __init__(self, count: int, groups: Evidence, layout: GroupLayout, load: Load) -> None:
        self.count = count
        self._groups = groups
        self._layout = layout
        self._load = load
        self._lock = Lock()
        self._times_asked = 0
        self._read: frozenset[int] | None = frozenset()
        self.notes: tuple[str, ...] = ()
        self._sizes = np.diff(layout.offsets)
        # Two more numbers follow those of the groups: for slices without a record, and for slices in no group, which
        # are always checked.
        no_record = len(self._sizes)
        ungrouped = no_record + 1
        self._group_of = np.full(count, no_record, np.int32)
        self._group_of[layout.members] = np.repeat(np.arange(no_record, dtype=np.int32), self._sizes)
        self._group_of[layout.ungrouped] = ungrouped
        self._has_records = np.append(groups.covered, True)
        self.covered: Mask = self._has_records[self._group_of]
        self.uncovered: Mask | None = None if self.covered.all() else ~self.covered
        self._without_record = self.uncovered
        self._loaded = self._take(load(()))

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`: see `Evidence.possible`."""
        self._times_asked += 1
        loaded = self._everything() if self._times_asked > WARM_AFTER else self._loaded
        if loaded.settles_all:
            return loaded.evidence.possible(leaf, outcome, semantics, at)
        by_group = self._groups.possible(leaf, outcome, semantics, None)
        if by_group is None:
            return None
        asked = self._has_records.copy()
        asked[:-1] &= by_group  # all but the ungrouped slices
        no_record_possible = bool(by_group[-1])
        if at is None:
            return self._of_all(leaf, outcome, semantics, asked, no_record_possible)
        group_of = self._group_of[at]
        where = np.flatnonzero(asked[group_of])
        loaded = self._with(np.unique(group_of[where]))
        answer = ~self._has_records[group_of] & no_record_possible
        answer[where] = _ask(loaded, leaf, outcome, semantics, at[where])
        return answer

    def _of_all(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, asked: Mask, no_record_possible: bool
    ) -> Mask | None:
        left = np.flatnonzero(asked[: len(self._sizes)])
        loaded = self._with(left)
        few = self._sizes[left].sum() + len(self._layout.ungrouped) < FEW * self.count
        if loaded.settles_all and not few:
            return loaded.evidence.possible(leaf, outcome, semantics, None)
        chosen = np.concatenate([self._members(left), self._layout.ungrouped], dtype=np.int64)
        without = self._without_record if no_record_possible else None
        answer = np.zeros(self.count, np.bool_) if without is None else without.copy()
        answer[chosen] = _ask(loaded, leaf, outcome, semantics, chosen)
        return answer

    def _members(self, groups: NDArray[np.int64]) -> NDArray[np.int32]:
        sizes = self._sizes[groups]
        before = np.cumsum(sizes) - sizes
        at = np.repeat(self._layout.offsets[groups] - before, sizes) + np.arange(int(sizes.sum()))
        return self._layout.members[at]

    def _with(self, groups: NDArray[np.integer]) -> LoadedEvidence:
        """The records read so far, including those of `groups`."""
        if self._loaded.positions is None:
            return self._loaded
        wanted = frozenset(np.unique(self._layout.segments[groups[groups < len(self._sizes)]]).tolist())
        with self._lock:
            read = self._read
            if read is None or wanted <= read:
                return self._loaded
            wanted |= read
            of_each = np.bincount(self._layout.segments, weights=self._sizes, minlength=max(wanted) + 1)
            everything = of_each[list(wanted)].sum() >= ALL_FROM * of_each.sum()
            self._loaded = self._take(self._load(None if everything else sorted(wanted)))
            self._read = None if everything else wanted
            return self._loaded

    def _everything(self) -> LoadedEvidence:
        with self._lock:
            if self._read is not None:
                self._loaded = self._take(self._load(None))
                self._read = None
            return self._loaded

    def _take(self, loaded: LoadedEvidence) -> LoadedEvidence:
        # The last load repeated all earlier ones, including those that failed.
        self.notes = tuple(dict.fromkeys(loaded.notes))
        ungrouped = self._layout.ungrouped
        covered = self._has_records[self._group_of]
        at = ungrouped if loaded.positions is None else loaded.positions[ungrouped]
        covered[ungrouped] = False
        covered[ungrouped[at >= 0]] = loaded.evidence.covered[at[at >= 0]]
        covered[loaded.missing] = False
        self.covered = covered
        self.uncovered = None if covered.all() else ~covered
        return loaded


def _ask(
    loaded: LoadedEvidence, leaf: Leaf, outcome: Outcome, semantics: Semantics, slices: NDArray[np.int64]
) -> Mask:
    """Query the records for some slices; slices without a record stay possible."""
    if loaded.positions is None:
        answer = loaded.evidence.possible(leaf, outcome, semantics, slices)
        return np.ones(len(slices), np.bool_) if answer is None else answer
    at = loaded.positions[slices]
    present = np.flatnonzero(at >= 0)
    result = np.ones(len(slices), np.bool_)
    answer = loaded.evidence.possible(leaf, outcome, semantics, at[present].astype(np.intp))
    if answer is not None:
        result[present] = answer
    return result


def grouped_evidence(
    places: Sequence[SegmentPlacement],
    grouped: Sequence[SegmentPlacement],
    kind: IndexType,
    about: Field,
    placement: Placement,
    count: int,
    index: str,
) -> GroupedEvidence:
    """Make the evidence of one field of one index.

    Args:
        places: to which slices the records of its segments belong.
        grouped: those of them that have groups, at least one.
        kind: the type of the index.
        about: the field.
        placement: reads records.
        count: number of slices of the snapshot.
        index: the name of the index, for notes.
    """
    ungrouped = [place for place in places if place.groups is None]
    records = pa.concat_tables(
        [place.groups.records for place in grouped if place.groups is not None], promote_options="permissive"
    )
    groups = kind.load(_numbered(records), records.num_rows + 1, about)

    def load(numbers: Sequence[int] | None) -> LoadedEvidence:
        chosen = places if numbers is None else [*ungrouped, *(grouped[number] for number in numbers)]
        parts, missing, notes = [_numbered(records.slice(0, 0))], [_NONE], list[str]()
        for place in chosen:
            try:
                parts.append(placement.part(place.entry, kind, ordinals=place.ordinals).records)
            except (FormatError, StorageError) as error:
                notes.append(f"index {index}: {error}")
                missing.append(place.slices)
        together = pa.concat_tables(parts, promote_options="permissive")
        lost = np.concatenate(missing)
        if numbers is None:
            return LoadedEvidence(kind.load(together, count, about), None, lost, tuple(notes))
        slices = as_numpy(together.column(SLICE_COLUMN))
        read = np.unique(slices)
        positions = np.full(count, -1, np.int32)
        positions[read] = np.arange(len(read), dtype=np.int32)
        compact = with_slices(together, positions[slices])
        return LoadedEvidence(kind.load(compact, len(read), about), positions, lost, tuple(notes))

    return GroupedEvidence(count, groups, _layout(grouped, ungrouped), load)


def _layout(grouped: Sequence[SegmentPlacement], ungrouped: Sequence[SegmentPlacement]) -> GroupLayout:
    members, sizes, segments = [_NONE.astype(np.int32)], [_NONE], [_NONE]
    for number, place in enumerate(grouped):
        assert place.groups is not None
        locals_, of_group = expand(place.groups.firsts, place.groups.counts)
        ordinals = place.ordinals[locals_]
        left = ordinals >= 0
        members.append(ordinals[left].astype(np.int32))  # half the memory for millions of slices
        sizes.append(np.bincount(of_group[left], minlength=len(place.groups.counts)))
        segments.append(np.full(len(place.groups.counts), number))
    offsets = np.concatenate([[0], np.cumsum(np.concatenate(sizes))])
    others = np.concatenate([_NONE, *(place.slices for place in ungrouped)])
    return GroupLayout(np.concatenate(members), offsets, np.concatenate(segments), others)


def _numbered(records: pa.Table) -> pa.Table:
    return records.append_column(
        SLICE_COLUMN, number_array(np.arange(records.num_rows, dtype=np.int32), pa.int32())
    )
