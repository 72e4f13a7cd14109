"""Cells: the values of a column cut at every literal that a predicate compares them with.

All values of a cell compare alike with each literal, so a leaf is true of a whole cell or of none of it. A predicate
has few cells, however many values a column has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import nulls
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, PrefixLeaf
from pruner.expr.exact.patterns import successor
from pruner.indexes.bitmap.values import value_list

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf, Point, StorageValue
    from pruner.indexes.bitmap.values import ValueList

    Integers = NDArray[np.int64]

_BEFORE, _BEHIND = 0, 1
"""A cut is before or behind the values that equal it."""


class Cells:
    """A `ValueList` whose positions are cells; it knows the literals of some leaves alone."""

    def __init__(self, leaves: Sequence[Leaf], stored: pa.DataType) -> None:
        """`stored` is the type in which values are recorded."""
        self._leaves = frozenset(leaves)
        self._serves = value_list(nulls(0, stored)).serves
        found = {cut for leaf in leaves for cut in _cuts(leaf) if self._serves(cut[0])}
        self._cuts: list[tuple[Any, int]] = sorted(found)
        self._number = {cut: number + 1 for number, cut in enumerate(self._cuts)}

    def __len__(self) -> int:
        return len(self._cuts) + 1

    def knows(self, leaf: Leaf) -> bool:
        """Tell whether the values are cut for a leaf."""
        return leaf in self._leaves

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal is one of this domain."""
        return self._serves(value)

    def starts(self, values: Sequence[StorageValue | None]) -> Integers:
        """The first cell whose values are not less than each literal; None is minus infinity."""
        return np.array([0 if v is None else self._number[v, _BEFORE] for v in values], np.int64)

    def ends(self, values: Sequence[StorageValue | None]) -> Integers:
        """Behind the last cell whose values are not greater than each literal; None is plus infinity."""
        return np.array([len(self) if v is None else self._number[v, _BEHIND] for v in values], np.int64)

    def of(self, values: ValueList, first: int = 0, last: int | None = None) -> Integers:
        """The cell of each of ascending values, all of which are known to be in the cells `first` to `last`."""
        cuts = self._cuts[first:last]
        sides = np.array([side for _, side in cuts], np.int64)
        positions = np.empty(len(cuts), np.int64)
        positions[sides == _BEFORE] = values.starts([value for value, side in cuts if side == _BEFORE])
        positions[sides == _BEHIND] = values.ends([value for value, side in cuts if side == _BEHIND])
        return first + np.searchsorted(positions, np.arange(len(values)), side="right").astype(np.int64)


def _cuts(leaf: Leaf) -> Iterator[tuple[StorageValue, int]]:
    match leaf:
        case CompareLeaf(point=point):
            yield from _around(point)
        case InLeaf(points=points):
            for point in points:
                yield from _around(point)
        case PrefixLeaf(prefix=prefix):
            yield prefix, _BEFORE
            behind = successor(prefix)
            if behind is not None:
                yield behind, _BEFORE
        case _:
            pass


def _around(point: Point) -> Iterator[tuple[StorageValue, int]]:
    if point.nan:
        return
    if point.low is not None:
        yield point.low, _BEFORE
    if point.high is not None:
        yield point.high, _BEHIND
