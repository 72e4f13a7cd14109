"""What bloom filters say: that no row of a slice equals a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import FormatError, StorageError
from pruner.indexes.bloom_filter.load import NO_GROUP
from pruner.indexes.columns.sought import SoughtValues

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.expr.bound import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.bloom_filter.load import Filters
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]

MOST_VALUES = 1024
"""Values of one leaf that are looked up: among so many, one seems to be nearly everywhere."""

MOST_LOOK_UPS = 1 << 25
"""Values times slices beyond which nothing is said: half a second."""


class BloomEvidence:
    """Evidence of the filters of one field: see `pruner.indexes.base.Evidence`. Threads may share it."""

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
        asked = np.arange(self.count) if at is None else at
        if hashes is None or len(hashes) * len(asked) > MOST_LOOK_UPS:
            return None
        excluded = self.covered[asked] & ~self._holding(asked, hashes)
        unread = self._filters.unread.of(semantics)
        if unread is not None:
            excluded &= ~unread[asked]
        return ~excluded

    def _holding(self, asked: NDArray[np.intp], hashes: NDArray[np.uint64]) -> Mask:
        """Tell for each slice whether it may hold one of the hashes; what cannot be read may."""
        found = np.zeros(len(asked), np.bool_)
        if not len(hashes):
            return found
        groups = self._filters.group_of[asked]
        for number in np.unique(groups[groups != NO_GROUP]).tolist():
            here = np.flatnonzero(groups == number)
            group = self._filters.groups[int(number)]
            try:
                found[here] = group.holding(self._filters.row_of[asked[here]].astype(np.intp), hashes)
            except (FormatError, StorageError, ValueError) as error:
                self._failed[f"bloom filters are not used: {error}"] = None
                found[here] = True
        return found
