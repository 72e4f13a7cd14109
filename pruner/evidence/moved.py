"""What was known of a snapshot, for one that came of it by a few changes: nothing is read or joined anew.

A slice that is the very one of the earlier snapshot, by its slice key, has the records that it had there. Of a slice
that is new nothing is known. That goes for records of the same state of the metadata table alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pruner.evidence.restricted import SourceOfIndex

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.evidence.sources import Source
    from pruner.expr.bound import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.tables.snapshot import Descent
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]

MOST_MOVED: Final = 1024
"""Slices that may have come and gone since records were joined. Each of them makes an answer slower by a run, and what
is held of the earlier snapshot grows apart from the newer one."""


class _Run(NamedTuple):
    """Slices `start` to `stop` (excluded) of a snapshot, which are those from `there` on of the earlier one."""

    start: int
    stop: int
    there: int


class Moved:
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
        # A new slice, as one of a number far below, is no neighbour of slice 0.
        apart = np.where(self.is_new, np.int32(-9), origin)
        starts = np.flatnonzero(np.diff(apart, prepend=np.int32(-99)) != 1)
        stops = np.append(starts, len(origin))[1:]
        runs = np.stack([starts, stops, origin[starts]], axis=1)[origin[starts] >= 0]
        self._runs = [_Run(*run) for run in runs.tolist()]
        come = int(np.count_nonzero(self.is_new))
        self.changes = come + count - (len(origin) - come)
        """Slices that came and slices that went."""

    def then(self, later: Moved) -> NDArray[np.int32]:
        """Where the slices of a still later snapshot were in the earliest one."""
        origin = np.full(len(later.origin), -1, np.int32)
        for run in later._runs:
            origin[run.start : run.stop] = self.origin[run.there : run.there + run.stop - run.start]
        return origin

    def here(self, there: Mask) -> Mask:
        """A mask over the earlier slices as one over those of now, true for the new ones."""
        mask = np.ones(len(self.origin), np.bool_)
        for run in self._runs:
            mask[run.start : run.stop] = there[run.there : run.there + run.stop - run.start]
        return mask


class MovedSource(SourceOfIndex):
    """Evidence of records that were joined to an earlier snapshot."""

    def __init__(self, source: Source, moved: Moved) -> None:
        super().__init__(source)
        self._moved = moved
        self._seen: tuple[Mask | None, Mask | None] = (None, moved.is_new if moved.is_new.any() else None)

    @property
    def moves(self) -> bool:
        """See `Source.moves`."""
        return self._source.moves

    @property
    def uncovered(self) -> Mask | None:
        """See `Source.uncovered`."""
        there, here = self._seen
        now = self._source.uncovered
        if now is not there:
            here = self._moved.is_new if now is None else self._moved.here(now)
            self._seen = (now, here if here.any() else None)
        return self._seen[1]

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """See `Source.possible`."""
        if at is None:
            there = self._source.possible(leaf, outcome, semantics, None)
            return None if there is None else self._moved.here(there)
        origin = self._moved.origin[at].astype(np.intp)
        known = origin >= 0
        found = self._source.possible(leaf, outcome, semantics, origin[known])
        if found is None:
            return None
        answer = np.ones(len(at), np.bool_)
        answer[known] = found
        return answer

    def moved(self, moves: Moves) -> MovedSource | None:
        """The same for a still later snapshot; None where too much has changed since the records were joined."""
        return moves.of(self._source, self._moved)


class Moves:
    """Takes sources from one snapshot to the next; sources with one history share what is worked out."""

    def __init__(self, descent: Descent, count: int) -> None:
        """`count`: slices of the earlier snapshot."""
        self._step = Moved(descent.origin, count)
        self._composed: dict[int, tuple[Moved, Moved]] = {}

    def source(self, source: Source) -> Source | None:
        """A source for the later snapshot; None where it cannot be had of this one."""
        if not source.moves or source.notes:
            return None  # what could not be read is tried again
        return source.moved(self) if isinstance(source, MovedSource) else self.of(source, None)

    def of(self, source: Source, before: Moved | None) -> MovedSource | None:
        """A source of records that had moved `before`; None where too much has changed since they were joined."""
        moved = self._step if before is None else self._after(before)
        return None if moved.changes > MOST_MOVED else MovedSource(source, moved)

    def _after(self, before: Moved) -> Moved:
        found = self._composed.get(id(before))
        if found is None:
            found = (before, Moved(before.then(self._step), before.count))
            self._composed[id(before)] = found
        return found[1]
