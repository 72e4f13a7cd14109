"""What bloom filters say: that no row of a slice equals a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import FormatError, StorageError
from pruner.indexes.bloom_filter.load import NO_GROUP
from pruner.indexes.columns.sought import SoughtValues

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.bloom_filter.load import Filters, Group
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]

MOST_VALUES = 1024
"""Values of one leaf that are looked up: among so many, one seems to be nearly everywhere."""

LONGEST_RANGE = 64
"""How many values of a range are looked up: at one percent of false answers, half of the slices seem to hold one."""

MOST_LOOK_UPS = 1 << 25
"""Values times slices beyond which nothing is said: half a second."""


class BloomEvidence:
    """Evidence of the filters of one field: see `pruner.indexes.base.Evidence`. Threads may share it."""

    counts = "distinct values"
    longest_range = LONGEST_RANGE

    def __init__(self, filters: Filters, field: Field) -> None:
        self._filters = filters
        self._sought = SoughtValues(field.type)
        self._failed: dict[str, None] = {}
        self.count = len(filters.covered)
        self.covered = filters.covered
        self.distinct = filters.distinct

    @property
    def notes(self) -> tuple[str, ...]:
        """Why slices that have records are not covered, or could not be looked up: see `NotingEvidence`."""
        return (*self._filters.notes, *self._failed)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` come to `outcome`: see `Evidence.possible`."""
        hashes = self._sought.hashes(leaf, outcome, semantics, MOST_VALUES)
        asked = self.count if at is None else len(at)
        if hashes is None or len(hashes) * asked > MOST_LOOK_UPS:
            return None
        found = self._holding(at, hashes)
        for doubted in (self._filters.uncovered, self._filters.unread.of(semantics)):
            if doubted is not None:
                found |= doubted if at is None else doubted[at]
        return found

    def _holding(self, at: NDArray[np.intp] | None, hashes: NDArray[np.uint64]) -> Mask:
        """Tell for each slice whether it may hold one of the hashes; what cannot be read may."""
        found = np.zeros(self.count if at is None else len(at), np.bool_)
        if not len(hashes):
            return found
        for slices, rows, group in self._asked(at):
            try:
                found[slices[group.holders(rows, hashes)]] = True
            except (FormatError, StorageError, ValueError) as error:
                self._failed[f"bloom filters are not used: {error}"] = None
                found[slices] = True
        return found

    def _asked(
        self, at: NDArray[np.intp] | None
    ) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp] | None, Group]]:
        """What holds filters of some slices (None for all): their positions in `at`, and the rows of their filters."""
        filters = self._filters
        if at is None:
            yield from ((held.slices, None, held.group) for held in filters.groups)
            return
        groups = filters.group_of[at]
        for number in np.unique(groups[groups != NO_GROUP]).tolist():
            here = np.flatnonzero(groups == number)
            yield here, filters.row_of[at[here]].astype(np.intp), filters.groups[int(number)].group
