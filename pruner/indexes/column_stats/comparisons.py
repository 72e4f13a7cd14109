"""Compares literals, intervals and remainders with the bounds of many slices.

Bounds are compared one run of slices at a time where that is enough, and many intervals of keys by binary search. Files
are mostly written in some order, so for a column that follows it, all but a few runs of 4,096 slices are on one side of
a literal. That leaves a few comparisons of runs, and of single slices only where a run is on both sides.

For remainders, the question is which slices hold a value with a remainder in a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.expr.bound.predicates import Point
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import RecurringLeaf
    from pruner.indexes.columns.ordering import KeyOrder

    Mask = NDArray[np.bool_]
    Numbers = NDArray[Any]


def also(answer: Mask, others: Mask | None) -> Mask:
    """Add a mask; None is a mask that is False everywhere."""
    return answer if others is None else answer | others


@dataclass(frozen=True, slots=True)
class Intervals:
    """Closed intervals of keys, sorted by their lower ends.

    An interval of ranks may end before it begins: it represents a value between two neighboring bounds. `below` and
    `above` tell that there are others, beyond all possible bounds.
    """

    first: Numbers
    last: Numbers
    below: bool = False
    above: bool = False

    @classmethod
    def of(cls, points: Sequence[Point], order: KeyOrder) -> Intervals:
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

        Where `low_open` is set, the lower end is unknown and counts as minus infinity; likewise `high_open`.
        """
        met = self._meet_within(low, high, low_open, high_open)
        # Values beyond the bounds' type are the very reason why an end may be open (trap S22).
        met = also(met, low_open if self.below else None)
        return also(met, high_open if self.above else None)

    def _meet_within(
        self, low: Numbers, high: Numbers, low_open: Mask | None, high_open: Mask | None
    ) -> Mask:
        if not len(self.first):
            return np.zeros(len(low), np.bool_)
        # Most slices are outside the hull of all intervals, and two comparisons cost less than a binary search. Where
        # an end is open, they say all that can be said.
        near = also(low <= self.last.max(), low_open) & also(high >= self.first.min(), high_open)
        bounded = near
        for is_open in (low_open, high_open):
            bounded = bounded if is_open is None else bounded & ~is_open
        at = np.flatnonzero(bounded)
        near[at] = self._meet(low[at], high[at])
        return near

    def _meet(self, low: Numbers, high: Numbers) -> Mask:
        # The least lower end among the intervals that end at or above `low` decides: with intervals sorted by their
        # upper ends, it is the minimum from the first such interval on.
        by_last = np.argsort(self.last, kind="stable")
        last = self.last[by_last]
        least_from = np.minimum.accumulate(self.first[by_last][::-1])[::-1]
        position = np.searchsorted(last, low, side="left")
        reaches = position < len(last)
        return reaches & (least_from[np.minimum(position, len(last) - 1)] <= high)

    def contain(self, low: Numbers, high: Numbers) -> Mask:
        """Tell for each [low, high] whether one interval contains all of it."""
        if not len(self.first):
            return np.zeros(len(low), np.bool_)
        furthest = np.maximum.accumulate(self.last)
        position = np.searchsorted(self.first, low, side="right") - 1
        return (position >= 0) & (furthest[np.maximum(position, 0)] >= high)


RUN = 4096
"""Slices per run."""

LEAST_RUNS = 32
"""With fewer runs, a plain comparison takes no longer."""

LOOKED_INTO = 1 / 16
"""Share of runs on both sides of a literal above which a plain comparison is faster."""


class RunBounds:
    """Minimum and maximum of each run of `values`, which are kept unchanged."""

    def __init__(self, values: Numbers) -> None:
        self._values = values
        starts = np.arange(0, len(values), RUN)
        # Without NaN, which compares false with everything: a run's answer then holds for all its other values.
        self._least = np.fmin.reduceat(values, starts)
        self._greatest = np.fmax.reduceat(values, starts)

    @classmethod
    def of(cls, values: Numbers) -> RunBounds | None:
        """The runs of bounds; None if there are too few of them to help."""
        return cls(values) if len(values) >= LEAST_RUNS * RUN else None

    def compare(self, relation: Callable[[Numbers, float], Mask], key: float) -> Mask:
        """Return `relation(values, key)`, or True instead of False for a NaN.

        Args:
            relation: `np.less`, `np.less_equal`, `np.greater` or `np.greater_equal`.
            key: what the values are compared with.
        """
        rising = relation in (np.greater, np.greater_equal)
        surely = relation(self._least if rising else self._greatest, key)
        split = np.flatnonzero(relation(self._greatest if rising else self._least, key) & ~surely)
        if len(split) > LOOKED_INTO * len(surely):
            return relation(self._values, key)
        answer = np.empty((len(surely), RUN), np.bool_)
        answer[:] = surely[:, np.newaxis]
        answer = answer.reshape(-1)[: len(self._values)]
        for run in split:
            here = slice(run * RUN, (run + 1) * RUN)
            answer[here] = relation(self._values[here], key)
        return answer


def possible_remainders(leaf: RecurringLeaf, outcome: Outcome) -> tuple[Point, ...]:
    """The remainders for which a leaf can evaluate to TRUE or FALSE, as ranges."""
    if outcome is Outcome.TRUE:
        return leaf.points
    return _complement(leaf.period, (point for point in leaf.points if point.exact))


def meet(low: Numbers, high: Numbers, period: int, points: Iterable[Point]) -> Mask:
    """Tell for each [low, high] whether it holds a value with a remainder in one of the points.

    Args:
        low: integers of at most 64 bits.
        high: likewise, not below `low`.
        period: the divisor of values, below 2**62.
        points: as in a `RecurringLeaf`.
    """
    met = np.zeros(len(low), np.bool_)
    # Unsigned, so that even the distance between the ends of the type fits.
    distance = high.astype(np.int64).astype(np.uint64) - low.astype(np.int64).astype(np.uint64)
    remainder = low.astype(np.int64) % np.int64(period)
    for point in points:
        first, last = point.low, point.high
        assert isinstance(first, int)
        assert isinstance(last, int)
        behind = (remainder - first) % period  # how far `low` is behind the last start of the range
        to_next = (period - behind).astype(np.uint64)
        met |= (behind <= last - first) | (to_next <= distance)
    return met


def _complement(period: int, points: Iterable[Point]) -> tuple[Point, ...]:
    """The remainders that are in none of the points."""
    taken: list[tuple[int, int]] = []
    for point in points:
        assert isinstance(point.low, int)
        assert isinstance(point.high, int)
        taken.append((point.low, min(point.high, period - 1)))
        if point.high >= period:
            taken.append((0, point.high - period))
    left: list[Point] = []
    start = 0
    for first, last in sorted(taken):
        if first > start:
            left.append(Point(start, first - 1))
        start = max(start, last + 1)
    if start < period:
        left.append(Point(start, period - 1))
    return tuple(left)
