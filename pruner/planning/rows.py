"""The rows of a plan: for each file to read, the positions of the rows that can match.

What row counts alone say about single rows: whether a row of a slice can match, and how many must.

The algebra is that of sets of rows, over the bounds of their sizes. In a slice of ten rows, seven of which meet one
part of a conjunction and six another, at least three meet both. Such a slice is kept whatever its bitmaps say, so they
are not read. Most slices that a dense conjunction keeps are of this kind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from pruner.indexes.row_sets import rows_of
from pruner.showing.words import counted

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from pruner.tables.snapshot import Snapshot

    Ordinals = NDArray[np.intp]
    Positions = NDArray[np.uint32]
    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


class RowBlock(NamedTuple):
    """The rows of some slices as `ordinal << 32 | position`; `exact` tells for each slice whether all of them match."""

    ordinals: Ordinals
    rows: BitMap64
    exact: NDArray[np.bool_]


Blocks = Callable[["Ordinals"], Iterator[RowBlock]]
"""Yields the rows of slices in ascending order; slices whose rows are not known are left out."""


class RowPositions(Mapping[str, "Positions | None"]):
    """URI of each base file to read -> 0-based positions of the rows that can match, ascending.

    None stands for a file whose rows are not known one by one: all of it must be read. Rows are computed for a bounded
    number of files at a time, and those of the last files accessed are cached.
    """

    def __init__(
        self, snapshot: Snapshot, ordinals: Ordinals, blocks: Blocks, most: Callable[[Ordinals], int]
    ) -> None:
        self._snapshot = snapshot
        self._most = most
        self._ordinals = ordinals[snapshot.has_base[ordinals]]
        self._blocks = blocks
        self._last: RowBlock | None = None
        self._whole: list[RowBlock] | None = None

    @cached_property
    def exact(self) -> bool:
        """True if the rows of every file are known, and each of them matches."""
        known = 0
        for block in self._all_blocks():
            if not block.exact.all():
                return False
            known += len(block.ordinals)
        return known == len(self._ordinals)

    def few(self, ordinals: Ordinals, most: int) -> Positions | None:
        """The distinct positions that can match in any of some files to read (ascending ordinals).

        None if the rows of one of them are not known, or if there are more than `most` positions; that is usually known
        before any row is read.
        """
        if self._most(ordinals) > most:
            return None
        blocks = list(self._blocks(ordinals))
        if sum(len(block.ordinals) for block in blocks) < len(ordinals):
            return None
        parts = [np.frombuffer(block.rows.to_array(), np.uint64).astype(np.uint32) for block in blocks]
        row_positions = np.unique(np.concatenate([np.zeros(0, np.uint32), *parts]))
        return row_positions if len(row_positions) <= most else None

    def __len__(self) -> int:
        return len(self._ordinals)

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self._ordinals), 4096):
            yield from self._uris(self._ordinals[start : start + 4096])

    def __getitem__(self, uri: str) -> Positions | None:
        ordinal = self._by_uri[uri]
        if self._last is None or not np.isin(ordinal, self._last.ordinals):
            at = np.searchsorted(self._ordinals, ordinal)
            self._last = next(self._blocks(self._ordinals[at : at + 1]), None)
        if self._last is None:
            return None
        return rows_of(self._last.rows, ordinal)

    def pairs(self) -> Iterator[tuple[str, Positions | None]]:
        """All files with their rows, as from `items`, but faster."""
        done = 0
        for block in self._all_blocks():
            # The rows of files between the ordinals of a block are not known.
            stop = int(np.searchsorted(self._ordinals, int(block.ordinals[-1]))) + 1
            here = self._ordinals[done:stop]
            known = np.isin(here, block.ordinals)
            for uri, ordinal, is_known in zip(self._uris(here), here.tolist(), known.tolist(), strict=True):
                yield uri, rows_of(block.rows, ordinal) if is_known else None
            done = stop
        for uri in self._uris(self._ordinals[done:]):
            yield uri, None

    def _all_blocks(self) -> Iterator[RowBlock]:
        """The rows of all files; if they come in one block, it is cached."""
        if self._whole is not None:
            yield from self._whole
            return
        first: list[RowBlock] = []
        number = 0
        for number, block in enumerate(self._blocks(self._ordinals), 1):
            first = [block] if number == 1 else []
            yield block
        if number < 2:
            self._whole = first

    @cached_property
    def _by_uri(self) -> dict[str, int]:
        return dict(zip(self, self._ordinals.tolist(), strict=True))

    def _uris(self, ordinals: Ordinals) -> list[str]:
        return self._snapshot.files_of(ordinals).to_pylist()

    def __repr__(self) -> str:
        return f"<RowPositions of {counted(len(self), 'file')}>"


@dataclass(frozen=True, slots=True)
class RowBounds:
    """For some slices: whether a row can be in a set, a lower bound of how many are, and the row counts.

    If every row of every slice is in the set, `least` is `counts`, the same array.
    """

    can: Mask
    least: Integers
    counts: Integers

    @classmethod
    def of_all(cls, can: Mask, counts: Integers) -> RowBounds:
        """Bounds of sets that hold every row of the slices that can have one, and no other row."""
        return cls(can, counts if can.all() else np.where(can, counts, 0), counts)

    def at_least(self, where: Mask, least: Integers) -> RowBounds:
        """The same with other lower bounds for some of the slices."""
        return RowBounds(self.can, least if where.all() else np.where(where, least, self.least), self.counts)

    def __and__(self, other: RowBounds) -> RowBounds:
        can = self.can & other.can
        if self.least is self.counts or other.least is self.counts:
            return RowBounds(can, other.least if self.least is self.counts else self.least, self.counts)
        # Two sets that together have more rows than there are must overlap.
        least = self.least + other.least
        least -= self.counts
        return RowBounds(can, np.maximum(least, 0, out=least), self.counts)

    def __or__(self, other: RowBounds) -> RowBounds:
        return RowBounds(self.can | other.can, np.maximum(self.least, other.least), self.counts)


@dataclass(frozen=True, slots=True)
class RowNumbers:
    """For some slices: the lower and upper bound of the number of rows in a set, and the row counts.

    Unlike `RowBounds`, it bounds the set itself, not a superset of it: where `least` equals `most`, that is the number
    of its rows.
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
        """The numbers of unknown sets."""
        return cls(np.zeros_like(counts), counts, counts)

    def tightened(self, least: Integers, most: Integers) -> RowNumbers:
        """The numbers tightened by other known bounds of the same sets."""
        return RowNumbers(np.maximum(self.least, least), np.minimum(self.most, most), self.counts)

    def __and__(self, other: RowNumbers) -> RowNumbers:
        # Two sets that together have more rows than there are must overlap.
        least = np.maximum(self.least + other.least - self.counts, 0)
        return RowNumbers(least, np.minimum(self.most, other.most), self.counts)

    def __or__(self, other: RowNumbers) -> RowNumbers:
        most = np.minimum(self.most + other.most, self.counts)
        return RowNumbers(np.maximum(self.least, other.least), most, self.counts)

    @property
    def exact(self) -> Integers:
        """The number of rows of each set; -1 where it is not settled, or where the bounds contradict each other."""
        return np.where(self.least == self.most, self.least, -1)
