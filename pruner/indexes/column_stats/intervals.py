"""Many intervals of keys against the bounds of many slices, by binary search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Point
    from pruner.indexes.columns.ordering import Order

    Mask = NDArray[np.bool_]
    Numbers = NDArray[Any]


def also(answer: Mask, others: Mask | None) -> Mask:
    """Add a mask; None stands for one that is False everywhere."""
    return answer if others is None else answer | others


@dataclass(frozen=True, slots=True)
class Intervals:
    """Closed intervals of keys, sorted by their lower ends.

    An interval of ranks may end before it begins: it stands for a value between two neighbouring bounds. `below` and
    `above` tell that there are others, beyond all that a bound could be.
    """

    first: Numbers
    last: Numbers
    below: bool = False
    above: bool = False

    @classmethod
    def of(cls, points: Sequence[Point], order: Order) -> Intervals:
        """The intervals of points that are neither empty nor NaN."""
        reached = [point for point in points if order.reaches(point.low, point.high)]
        first = order.firsts([point.low for point in reached])
        last = order.lasts([point.high for point in reached])
        sorting = np.lexsort((last, first))
        beyond = [point for point in points if not order.reaches(point.low, point.high)]
        return cls(
            first[sorting],
            last[sorting],
            below=any(not order.reaches(None, point.high) for point in beyond),
            above=any(not order.reaches(point.low, None) for point in beyond),
        )

    def meet(self, low: Numbers, high: Numbers, low_open: Mask | None, high_open: Mask | None) -> Mask:
        """Tell for each [low, high] whether some interval has a value in common with it.

        Where `low_open` is set the lower end is not known and counts as minus infinity, likewise `high_open`.
        """
        found = self._meet_within(low, high, low_open, high_open)
        # Values beyond the bounds' type are the very reason why an end may be open (trap S22).
        found = also(found, low_open if self.below else None)
        return also(found, high_open if self.above else None)

    def _meet_within(
        self, low: Numbers, high: Numbers, low_open: Mask | None, high_open: Mask | None
    ) -> Mask:
        if not len(self.first):
            return np.zeros(len(low), np.bool_)
        # Most slices lie outside all intervals together, and two comparisons cost less than a binary search. Where
        # an end is open they say all that can be said.
        near = also(low <= self.last.max(), low_open) & also(high >= self.first.min(), high_open)
        bounded = near
        for is_open in (low_open, high_open):
            bounded = bounded if is_open is None else bounded & ~is_open
        at = np.flatnonzero(bounded)
        near[at] = self._meet(low[at], high[at])
        return near

    def _meet(self, low: Numbers, high: Numbers) -> Mask:
        # The least lower end among the intervals that reach up to `low` decides; with the ends sorted by
        # themselves it is the first one from there on.
        by_last = np.argsort(self.last, kind="stable")
        last = self.last[by_last]
        least_from = np.minimum.accumulate(self.first[by_last][::-1])[::-1]
        position = np.searchsorted(last, low, side="left")
        reaches = position < len(last)
        return reaches & (least_from[np.minimum(position, len(last) - 1)] <= high)

    def contain(self, low: Numbers, high: Numbers) -> Mask:
        """Tell for each [low, high] whether one interval holds all of it."""
        if not len(self.first):
            return np.zeros(len(low), np.bool_)
        furthest = np.maximum.accumulate(self.last)
        position = np.searchsorted(self.first, low, side="right") - 1
        return (position >= 0) & (furthest[np.maximum(position, 0)] >= high)
