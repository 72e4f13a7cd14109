"""Looks hashes up in the filters of many slices at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pruner.indexes.bloom_filter.stripes import blocks_of, stripe_name, stripe_of, stripe_start
from pruner.indexes.columns.split_blocks import WORDS, block_of, masks_of

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]
    Positions = NDArray[np.intp]
    Hashes = NDArray[np.uint64]
    Words = NDArray[np.uint32]


_AT_ONCE = 1 << 14
"""Blocks that are looked at together, so that they stay in the processor's cache."""


class WholeFilters:
    """Filters that are in memory: `words` has the blocks of all of them, `starts` where each begins.

    Like all that holds filters here, it is asked by `holders` for the positions, in `at`, of the filters that may hold
    one of some hashes; `at` are positions of filters, None for all of them.
    """

    def __init__(self, words: Words, starts: Integers, sizes: Integers) -> None:
        self._words = words
        self._starts = starts
        self._sizes = sizes.astype(np.uint64)

    def holders(self, at: Positions | None, hashes: Hashes) -> Positions:
        """Positions of the filters that may hold one of the hashes: see above."""
        rows = np.arange(len(self._sizes)) if at is None else at

        def holds(left: Positions, one: Hashes) -> Mask:
            at = rows[left]
            return _all_set(self._words, self._starts[at] + block_of(one, self._sizes[at]), masks_of(one)[0])

        return np.flatnonzero(_any_of(len(rows), hashes, holds))


class StripedFilters:
    """Filters whose stripes are read when they are needed.

    Args:
        read: reads columns of all records of the segment.
        stored: the positions of the filters among these records.
        sizes: their numbers of blocks.
        stripes: into how many stripes each is cut.
    """

    def __init__(
        self, read: Callable[[list[str]], pa.Table], stored: Integers, sizes: Integers, stripes: int
    ) -> None:
        self._read = read
        self._stored = stored
        self._sizes = sizes
        self._stripes = stripes

    def holders(self, at: Positions | None, hashes: Hashes) -> Positions:
        """Positions of the filters that may hold one of the hashes: see `WholeFilters`.

        Raises:
            FormatError: what was read is damaged.
            StorageError: it cannot be read.
            ValueError: it is not of the size that the records say.
        """
        rows = np.arange(len(self._sizes)) if at is None else at
        parts = [self._stripe(rows, hashes[number : number + 1]) for number in range(len(hashes))]
        wanted: list[int] = sorted(set(np.concatenate(parts).tolist()))
        table = self._read([stripe_name(number) for number in wanted])
        columns = {number: blocks_of(table.column(stripe_name(number))) for number in wanted}

        def holds(left: Positions, one: Hashes) -> Mask:
            at = rows[left]
            sizes, stripes = self._sizes[at], self._stripe(at, one)
            within = block_of(one, sizes.astype(np.uint64)) - stripe_start(stripes, sizes, self._stripes)
            found = np.zeros(len(at), np.bool_)
            for number in np.unique(stripes).tolist():
                here = np.flatnonzero(stripes == number)
                blocks, ends = columns[number]
                stored = self._stored[at[here]]
                places = ends[stored] + within[here]
                if (places >= ends[stored + 1]).any():
                    raise ValueError("a stripe is shorter than its record says")
                found[here] = _all_set(blocks.view(np.uint32).reshape(-1, WORDS), places, masks_of(one)[0])
            return found

        return np.flatnonzero(_any_of(len(rows), hashes, holds))

    def _stripe(self, rows: Positions, one: Hashes) -> Integers:
        sizes = self._sizes[rows]
        return stripe_of(block_of(one, sizes.astype(np.uint64)), sizes, self._stripes)


def _any_of(count: int, hashes: Hashes, holds: Callable[[Positions, Hashes], Mask]) -> Mask:
    """Ask for one hash after another, and each time only about what holds none of those before it."""
    found = np.zeros(count, np.bool_)
    left = np.arange(count)
    for position in range(len(hashes)):
        held = holds(left, hashes[position : position + 1])
        found[left[held]] = True
        left = left[~held]
        if not len(left):
            break
    return found


def _all_set(words: Words, blocks: Integers, masks: Words) -> Mask:
    """Tell for each of some blocks whether it has the bit of each word."""
    pairs, wanted = words.view(np.uint64), masks.view(np.uint64)
    found = np.empty(len(blocks), np.bool_)
    for start in range(0, len(blocks), _AT_ONCE):
        rows = np.take(pairs, blocks[start : start + _AT_ONCE], axis=0)
        missing = ~rows[:, 0] & wanted[0]
        for pair in range(1, WORDS // 2):
            missing |= ~rows[:, pair] & wanted[pair]
        np.equal(missing, 0, out=found[start : start + _AT_ONCE])
    return found
