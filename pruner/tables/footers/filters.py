"""Split-block Bloom filters as Parquet has them, and those that writers put into files (BloomFilter.md).

A filter stands behind a short header of Thrift. It has no checksum: what a writer that is believed put there is
believed, as engines do that ask these filters themselves.

Split-block Bloom filters as Parquet has them (parquet-format, BloomFilter.md).

A filter is a row of blocks of 256 bits. A hash chooses one block by its upper 32 bits, and by its lower 32 bits one
bit in each of the eight words of that block.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from pruner.tables.footers.thrift import Struct, ThriftError, read_struct

HEADER_BYTES: Final = 64
"""Bytes in which every header ends: those of known writers have 12 to 16."""

BLOCK_BYTES: Final = 32

LARGEST: Final = 128 * 1024 * 1024
"""Largest filter of a row group, in bytes: as parquet-format has it."""

_ONLY_KIND: Final[Struct] = {1: {}}
"""What the header says of algorithm, hash and compression: split blocks, XXH64, none. There is no other so far."""


class FilterPlace(NamedTuple):
    """Where the blocks of a filter begin in the file, and how many there are."""

    start: int
    blocks: int


def filter_place(offset: int, header: bytes, file_size: int) -> FilterPlace | None:
    """Find the blocks of a filter.

    Args:
        offset: where its header begins.
        header: `HEADER_BYTES` from there, or what the file has of them.
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
"""Largest filter of a slice, 128 MiB: with still more values it says yes more often."""

_SALTS: Final = np.array(
    [
        *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
        *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
    ],
    np.uint32,
)


def blocks_for(distinct: int, fpp: float) -> int:
    """Number of blocks in which so many values are told from others but for a share `fpp`; 0 for no values."""
    return min(MOST_BLOCKS, int(np.ceil(distinct / _load(fpp))))


@lru_cache(maxsize=64)
def _load(fpp: float) -> float:
    """Values a block at which a share `fpp` of other values seems to be there."""
    low, high = 1e-3, 1e3
    while high - low > 1e-4 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if false_positives(middle) <= fpp else (low, middle)
    return low


def false_positives(load: float) -> float:
    """The share of values that seem to be there, with `load` values a block: blocks are not equally full."""
    most = int(load + 12 * np.sqrt(load) + 24)
    numbers = np.arange(most)
    logarithms = numbers * np.log(load) - load - np.concatenate([[0], np.cumsum(np.log(numbers[1:]))])
    return float((np.exp(logarithms) * (1 - (1 - 1 / 32) ** numbers) ** WORDS).sum())


def block_of(hashes: Hashes, blocks: NDArray[np.uint64] | np.uint64) -> NDArray[np.int64]:
    """The block of each hash in a filter of so many blocks."""
    return (((hashes >> np.uint64(32)) * blocks) >> np.uint64(32)).astype(np.int64)


def bits_of(hashes: Hashes) -> Words:
    """The number of the bit in each word of the block, a row for each hash."""
    lower = (hashes & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    return (lower[:, None] * _SALTS) >> np.uint32(27)


def masks_of(hashes: Hashes) -> Words:
    """The bit of each word of the block, a row for each hash."""
    return np.uint32(1) << bits_of(hashes)


def filter_of(hashes: Hashes, blocks: int) -> bytes:
    """Make the filter of hashes that ascend."""
    words = np.zeros((blocks, WORDS), np.dtype("<u4"))
    if len(hashes):
        at = block_of(hashes, np.full(1, blocks, np.uint64))
        firsts = np.flatnonzero(np.diff(at, prepend=-1))
        words[at[firsts]] = np.bitwise_or.reduceat(masks_of(hashes), firsts)
    return words.tobytes()
