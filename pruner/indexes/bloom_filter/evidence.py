"""What bloom filters say: that no row of a slice equals a value."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from pruner.errors import FormatError, StorageError
from pruner.expr.bound import CompareLeaf, InLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import NanOrder
from pruner.indexes.bloom_filter.load import NO_GROUP
from pruner.indexes.columns.answerable import is_answerable
from pruner.indexes.columns.canonical import hash_of
from pruner.indexes.columns.kinds import Kind, kind_of
from pruner.indexes.columns.moments import is_rounded, may_overflow
from pruner.indexes.columns.reading import union
from pruner.indexes.columns.single_values import values_in
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound import Leaf, Point, StorageValue
    from pruner.expr.semantics import Semantics
    from pruner.indexes.bloom_filter.load import Filters
    from pruner.schema import Field

    Mask = NDArray[np.bool_]

MOST_VALUES = 1024
"""Values of one leaf that are looked up: among so many, one seems to be nearly everywhere."""

MOST_LOOK_UPS = 1 << 25
"""Values times slices beyond which nothing is said: half a second."""


class BloomEvidence:
    """Evidence of the filters of one field: see `pruner.indexes.base.Evidence`. Threads may share it."""

    def __init__(self, filters: Filters, field: Field) -> None:
        self._filters = filters
        self._field = field
        self._failed: dict[str, None] = {}
        self.count = len(filters.covered)
        self.covered = filters.covered
        self.distinct = filters.distinct

    @property
    def notes(self) -> tuple[str, ...]:
        """Why slices that have records are not covered, or could not be looked up: see `NotingEvidence`."""
        return (*self._filters.notes, *self._failed)

    @cached_property
    def _overflowing(self) -> tuple[Mask | None, Mask | None]:
        """Slices with timestamps that wrap around: where an engine does not round them, and where it does."""
        lows, highs, type_ = self._filters.lows, self._filters.highs, self._field.type
        return tuple(may_overflow(lows, highs, type_, rounded=rounded) for rounded in (False, True))  # type: ignore[return-value]

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` come to `outcome`: see `Evidence.possible`."""
        points = _sought(leaf, outcome)
        if points is None or not isinstance(leaf, CompareLeaf | InLeaf):
            return None
        if not is_answerable(leaf, self._field.type, self._serves, semantics):
            return None
        hashes = self._hashes(points, semantics)
        asked = np.arange(self.count) if at is None else at
        if hashes is None or len(hashes) * len(asked) > MOST_LOOK_UPS:
            return None
        excluded = self.covered[asked] & ~self._holding(asked, hashes)
        unread = self._unread(semantics)
        if unread is not None:
            excluded &= ~unread[asked]
        return ~excluded

    def _serves(self, value: StorageValue) -> bool:
        match kind_of(self._field.type):
            case Kind.BYTES:
                return isinstance(value, bytes)
            case Kind.FLOAT:
                return isinstance(value, int | float) and not isinstance(value, bool)
            case _:
                return isinstance(value, int)

    def _hashes(self, points: Sequence[Point], semantics: Semantics) -> NDArray[np.uint64] | None:
        """The hashes of all values that can equal one of the points; None where these are too many."""
        type_ = self._field.type
        found: dict[int, None] = {}
        for point in points:
            if point.nan:
                values = [float("nan")] if semantics.nan_order is NanOrder.GREATEST else []
            else:
                values = values_in(point, type_)
            if values is None:
                return None
            found.update((hash_of(value, type_), None) for value in values)
            if len(found) > MOST_VALUES:
                return None
        return np.fromiter(found, np.uint64, len(found))

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

    def _unread(self, semantics: Semantics) -> Mask | None:
        """Slices of which it is not known that this engine reads the values that were recorded."""
        traits = semantics.traits
        unread = union(
            self._filters.read_types.unread(semantics),
            self._filters.calendar_open if traits.asks_session_for_calendar else None,
        )
        if traits.wraps_far_timestamps:
            unread = union(unread, self._overflowing[is_rounded(self._field.type, semantics)])
        return unread


def _sought(leaf: Leaf, outcome: Outcome) -> Sequence[Point] | None:
    """The points one of which a value has to equal for a leaf to come to an outcome; None for other leaves."""
    match leaf, outcome:
        case (CompareLeaf(operator=Operator.EQ), Outcome.TRUE) | (
            CompareLeaf(operator=Operator.NE),
            Outcome.FALSE,
        ):
            return [leaf.point]
        case InLeaf(), Outcome.TRUE:
            return leaf.points
        case _:
            return None
