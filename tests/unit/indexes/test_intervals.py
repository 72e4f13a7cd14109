"""Intervals of keys against bounds, compared with a count value by value."""

from __future__ import annotations

import random

import numpy as np

from pruner.expr.bound.predicates import Point
from pruner.indexes.column_stats.comparisons import Intervals
from pruner.indexes.columns.ordering import IntegerOrder

ORDER = IntegerOrder(np.dtype(np.int8))
VALUES = range(-140, 141)
"""More values than the type of the bounds holds, on either side (trap S22)."""

EDGES = (-140, -129, -128, 127, 128, 140)
SLICES = 40


def test_intervals_meet_what_they_have_a_value_in_common_with() -> None:
    source = random.Random(22)
    for _ in range(200):
        points = [_point(source) for _ in range(source.randint(1, 3))]
        ends = [sorted(source.choices(range(-128, 128), k=2)) for _ in range(SLICES)]
        low, high = (np.array([each[at] for each in ends], np.int8) for at in (0, 1))
        low_open, high_open = (np.array(source.choices((True, False), k=SLICES)) for _ in range(2))
        met = Intervals.of(points, ORDER).meet(low, high, low_open, high_open)
        for at in range(SLICES):
            least = VALUES[0] if low_open[at] else int(low[at])
            greatest = VALUES[-1] if high_open[at] else int(high[at])
            common = any(_holds(points, value) for value in range(least, greatest + 1))
            assert met[at] or not common, (points, least, greatest)
            if not (low_open[at] or high_open[at]):
                assert met[at] == common, (points, least, greatest)


def _point(source: random.Random) -> Point:
    low, high = sorted(source.choice((*EDGES, source.choice(VALUES))) for _ in range(2))
    return Point(low, source.choice((low, high)))


def _holds(points: list[Point], value: int) -> bool:
    return any(
        isinstance(each.low, int) and isinstance(each.high, int) and each.low <= value <= each.high
        for each in points
    )
