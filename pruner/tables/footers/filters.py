"""Parquet's split-block Bloom filters, those that writers put into files included (parquet-format, BloomFilter.md).

A stored filter follows a short Thrift header. It has no checksum: the filters of a trusted writer are trusted, as by
engines that use these filters themselves.

A filter is a sequence of 256-bit blocks. A hash selects one block by its upper 32 bits, and by its lower 32 bits one
bit in each of the eight words of that block.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pruner.tables.footers.thrift import Struct, ThriftError, read_struct

HEADER_BYTES: Final = 64
"""Upper bound of a header's size in bytes: those of known writers have 12 to 16."""

BLOCK_BYTES: Final = 32

LARGEST: Final = 128 * 1024 * 1024
"""Largest filter of a row group, in bytes, as in parquet-format."""

_ONLY_KIND: Final[Struct] = {1: {}}
"""The header's values for algorithm, hash and compression: split blocks, XXH64, none. No others exist so far."""


class FilterPlace(NamedTuple):
    """Where the blocks of a filter begin in the file, and how many there are."""

    start: int
    blocks: int


def filter_place(offset: int, header: bytes, file_size: int) -> FilterPlace | None:
    """Find the blocks of a filter.

    Args:
        offset: where its header begins.
        header: `HEADER_BYTES` from there, or as many as the file has.
        file_size: in bytes.

    Returns:
        None where it is of another kind, or the header is broken.
    """
    try:
        told, length = read_struct(header)
    except ThriftError:
        return None
    size = told.get(1)
    if not isinstance(size, int) or not 0 < size <= LARGEST or size % BLOCK_BYTES:
        return None
    if any(told.get(number) != _ONLY_KIND for number in (2, 3, 4)):
        return None
    start = offset + length
    return FilterPlace(start, size // BLOCK_BYTES) if offset > 0 and start + size <= file_size else None


if TYPE_CHECKING:
    from numpy.typing import NDArray

    Hashes = NDArray[np.uint64]
    Words = NDArray[np.uint32]

WORDS: Final = 8
WORD_BITS: Final = 32
BLOCK_BITS: Final = 256
MOST_BLOCKS: Final = 1 << 22
"""Largest filter of a slice, 128 MiB: with still more values it has more false positives."""

_SALTS: Final = np.array(
    [
        *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
        *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
    ],
    np.uint32,
)


def blocks_for(distinct: int, fpp: float) -> int:
    """Number of blocks for `distinct` values with false positive probability `fpp`; 0 for no values."""
    return min(MOST_BLOCKS, int(np.ceil(distinct / _load(fpp))))


@lru_cache(maxsize=64)
def _load(fpp: float) -> float:
    """Values per block that give false positive probability `fpp`."""
    low, high = 1e-3, 1e3
    while high - low > 1e-4 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if false_positives(middle) <= fpp else (low, middle)
    return low


def false_positives(load: float) -> float:
    """The false positive probability with `load` values per block on average: blocks are not equally full."""
    most = int(load + 12 * np.sqrt(load) + 24)
    numbers = np.arange(most)
    logarithms = numbers * np.log(load) - load - np.concatenate([[0], np.cumsum(np.log(numbers[1:]))])
    return float((np.exp(logarithms) * (1 - (1 - 1 / 32) ** numbers) ** WORDS).sum())


def block_of(hashes: Hashes, blocks: NDArray[np.uint64] | np.uint64) -> NDArray[np.int64]:
    """The block of each hash in a filter of `blocks` blocks."""
    return (((hashes >> np.uint64(32)) * blocks) >> np.uint64(32)).astype(np.int64)


def bits_of(hashes: Hashes) -> Words:
    """The index of the bit in each word of the block, a row for each hash."""
    lower = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return (lower[:, None] * _SALTS) >> np.uint32(27)


def masks_of(hashes: Hashes) -> Words:
    """The bit of each word of the block, a row for each hash."""
    return np.uint32(1) << bits_of(hashes)


def filter_of(hashes: Hashes, blocks: int) -> bytes:
    """Make the filter of ascending hashes."""
    words = np.zeros((blocks, WORDS), np.dtype("<u4"))
    if len(hashes):
        at = block_of(hashes, np.full(1, blocks, np.uint64))
        firsts = np.flatnonzero(np.diff(at, prepend=-1))
        words[at[firsts]] = np.bitwise_or.reduceat(masks_of(hashes), firsts)
    return words.tobytes()
