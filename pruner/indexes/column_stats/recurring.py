"""Remainders of integers against the bounds of many slices: which of them hold a value with a remainder in a range."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.expr.bound.predicates import Point
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import RecurringLeaf

    Mask = NDArray[np.bool_]
    Numbers = NDArray[Any]


def possible_remainders(leaf: RecurringLeaf, outcome: Outcome) -> tuple[Point, ...]:
    """The remainders with which a leaf can come to TRUE or FALSE, as ranges."""
    if outcome is Outcome.TRUE:
        return leaf.points
    return _complement(leaf.period, (point for point in leaf.points if point.exact))


def meet(low: Numbers, high: Numbers, period: int, points: Iterable[Point]) -> Mask:
    """Tell for each [low, high] whether it holds a value with a remainder in one of the points.

    Args:
        low: integers of 64 bits or less.
        high: likewise, not below `low`.
        period: what values are divided by, below 2**62.
        points: as in a `RecurringLeaf`.
    """
    found = np.zeros(len(low), np.bool_)
    # Unsigned, so that the distance between the ends of the type has room as well.
    distance = high.astype(np.int64).astype(np.uint64) - low.astype(np.int64).astype(np.uint64)
    remainder = low.astype(np.int64) % np.int64(period)
    for point in points:
        first, last = point.low, point.high
        assert isinstance(first, int)
        assert isinstance(last, int)
        behind = (remainder - first) % period  # how far `low` is behind the last start of the range
        to_next = (period - behind).astype(np.uint64)
        found |= (behind <= last - first) | (to_next <= distance)
    return found


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
