"""Many filters of one size, turned: a row of bits for each bit of a filter, in which each filter has one bit.

A look-up of a hash then reads eight rows, one bit of each filter, where filters side by side cost 32 bytes each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from pruner.indexes.columns.split_blocks import BLOCK_BITS, BLOCK_BYTES, WORD_BITS, WORDS, bits_of, block_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Bytes = NDArray[np.uint8]
    Hashes = NDArray[np.uint64]
    Positions = NDArray[np.intp]

_AT_ONCE: Final = 8192
"""Filters that are turned together, so that they stay in the processor's cache; a multiple of eight."""

_SWAPS: Final = ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
"""Shifts and masks that turn 8 by 8 bits (Hacker's Delight, 7-3)."""

_FIRST_BITS: Final = np.arange(WORDS) * WORD_BITS


class BitRows:
    """Filters of one size, in memory.

    Args:
        filters: parts of filters, each a matrix of bytes with a row for each filter.
    """

    def __init__(self, filters: Sequence[Bytes]) -> None:
        self._blocks = np.uint64(filters[0].shape[1] // BLOCK_BYTES)
        self._rows = turned(filters[0] if len(filters) == 1 else np.concatenate(filters))

    def holders(self, at: Positions | None, hashes: Hashes) -> Positions:
        """Positions, in `at`, of the filters that may hold one of the hashes; `at` is None for all filters."""
        if at is None:
            found = self._with(hashes[:1], None)
            for number in range(1, len(hashes)):
                found |= self._with(hashes[number : number + 1], None)
            return np.flatnonzero(np.unpackbits(found, bitorder="little").view(np.bool_))
        own = np.left_shift(1, at & 7).astype(np.uint8)
        held = np.zeros(len(at), np.bool_)
        for number in range(len(hashes)):
            held |= self._with(hashes[number : number + 1], at >> 3) & own != 0
        return np.flatnonzero(held)

    def _with(self, one: Hashes, columns: Positions | None) -> Bytes:
        """The filters with all bits of a hash, eight in a byte; of all columns of bytes, or of some."""
        first = int(block_of(one, self._blocks)[0]) * BLOCK_BITS
        rows = (first + _FIRST_BITS + bits_of(one)[0]).tolist()
        parts = (self._rows[row] if columns is None else self._rows[row][columns] for row in rows)
        found = next(parts).copy()
        for part in parts:
            found &= part
        return found


def turned(filters: Bytes) -> Bytes:
    """Row k has bit k of each filter, eight filters in a byte; there are zeros behind the last filter."""
    count, size = filters.shape
    rows = np.zeros((size, 8, -(-count // 8)), np.uint8)
    for start in range(0, count, _AT_ONCE):
        part = filters[start : start + _AT_ONCE]
        part = np.concatenate([part, np.zeros((-len(part) % 8, size), np.uint8)])
        # The bytes at one place of eight filters are a square of 8 by 8 bits.
        squares = np.ascontiguousarray(part.reshape(-1, 8, size).transpose(2, 0, 1)).view("<u8")[..., 0]
        for shift, mask in _SWAPS:
            swapped = (squares ^ (squares >> np.uint64(shift))) & np.uint64(mask)
            squares = squares ^ swapped ^ (swapped << np.uint64(shift))
        columns = squares[..., None].view(np.uint8)
        rows[:, :, start // 8 : start // 8 + columns.shape[1]] = columns.transpose(0, 2, 1)
    return rows.reshape(size * 8, -1)
