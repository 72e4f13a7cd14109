"""Bounds of many slices, compared a run of slices at a time where that settles it.

Files are mostly written in some order, so of a column that follows it all but a few runs of 4,096 slices lie on one
side of a literal. What is left are a few comparisons of runs, and single slices only where a run lies on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Numbers = NDArray[Any]

RUN = 4096
"""Slices of a run."""

LEAST_RUNS = 32
"""Below this many runs a plain comparison takes no longer."""

LOOKED_INTO = 1 / 16
"""Share of runs on both sides of a literal from which on a plain comparison is faster."""


class Runs:
    """Minimum and maximum of each run of `values`, which stay as they are."""

    def __init__(self, values: Numbers) -> None:
        self._values = values
        starts = np.arange(0, len(values), RUN)
        # Without NaN, which compares false with everything: a run's answer then holds for all its other values.
        self._least = np.fmin.reduceat(values, starts)
        self._greatest = np.fmax.reduceat(values, starts)

    @classmethod
    def of(cls, values: Numbers) -> Runs | None:
        """The runs of bounds, None where there are too few of them to help."""
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
