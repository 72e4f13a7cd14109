"""What numbers of rows alone tell about single rows: of each slice whether a row can match, and how many must.

The algebra is that of sets of rows, over the bounds of their sizes. In a slice of ten rows, seven of which meet one
part of a conjunction and six another, three at least meet both. Such a slice stays whatever its bitmaps say, so they
are not read. Most slices that a dense conjunction keeps are of this kind.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowBounds:
    """Of some slices: whether a row of them can be in a set, how many at least are, and how many rows there are.

    Where every row of every slice is in the set, `least` is `counts`, the same array.
    """

    can: Mask
    least: Integers
    counts: Integers

    @classmethod
    def of_all(cls, can: Mask, counts: Integers) -> RowBounds:
        """Bounds of sets that hold every row of the slices that can have one, and no other row."""
        return cls(can, counts if can.all() else np.where(can, counts, 0), counts)

    def at_least(self, where: Mask, least: Integers) -> RowBounds:
        """The same with other least numbers of rows for some of the slices."""
        return RowBounds(self.can, least if where.all() else np.where(where, least, self.least), self.counts)

    def __and__(self, other: RowBounds) -> RowBounds:
        can = self.can & other.can
        if self.least is self.counts or other.least is self.counts:
            return RowBounds(can, other.least if self.least is self.counts else self.least, self.counts)
        # Rows of two sets that together are more than there are rows must be partly the same.
        least = self.least + other.least
        least -= self.counts
        return RowBounds(can, np.maximum(least, 0, out=least), self.counts)

    def __or__(self, other: RowBounds) -> RowBounds:
        return RowBounds(self.can | other.can, np.maximum(self.least, other.least), self.counts)


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """Of some slices: how many rows of each are in a set at least and at most, of how many rows there are.

    Unlike `RowBounds` it bounds the very set, and not one that may hold rows too many: where `least` and `most` meet,
    that is the number of its rows.
    """

    least: Integers
    most: Integers
    counts: Integers

    @classmethod
    def of_all(cls, counts: Integers) -> RowNumbers:
        """The numbers of sets that hold every row."""
        return cls(counts, counts, counts)

    @classmethod
    def of_none(cls, counts: Integers) -> RowNumbers:
        """The numbers of empty sets."""
        none = np.zeros_like(counts)
        return cls(none, none, counts)

    @classmethod
    def unknown(cls, counts: Integers) -> RowNumbers:
        """The numbers of sets of which nothing is known."""
        return cls(np.zeros_like(counts), counts, counts)

    def tightened(self, least: Integers, most: Integers) -> RowNumbers:
        """The numbers where other bounds are known of the same sets."""
        return RowNumbers(np.maximum(self.least, least), np.minimum(self.most, most), self.counts)

    def __and__(self, other: RowNumbers) -> RowNumbers:
        # Rows of two sets that together are more than there are rows must be partly the same.
        least = np.maximum(self.least + other.least - self.counts, 0)
        return RowNumbers(least, np.minimum(self.most, other.most), self.counts)

    def __or__(self, other: RowNumbers) -> RowNumbers:
        most = np.minimum(self.most + other.most, self.counts)
        return RowNumbers(np.maximum(self.least, other.least), most, self.counts)

    @property
    def exact(self) -> Integers:
        """The number of rows of each set; -1 where it is not settled, or where the bounds contradict each other."""
        return np.where(self.least == self.most, self.least, -1)
