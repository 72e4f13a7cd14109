"""Sets of rows of many slices, from any index.

A set of rows is one 64-bit Roaring bitmap that holds `slice << 32 | position`. Roaring's portable format is a count
and then, for each slice in ascending order, its number (the upper 32 bits) and a 32-bit bitmap of positions. So the
bitmaps of single slices, as bytes, become such a set without being decoded one by one.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap, BitMap64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

    Mask = NDArray[np.bool_]

MOST_ROWS = (1 << 32) - 1
"""Maximum number of rows in a slice: positions are 32-bit integers."""

_LISTED = 32
"""Seeking the next slice in a set takes as long as listing this many rows."""

_COUNT = struct.Struct("<Q")
_KEY = struct.Struct("<I")


class Entries(NamedTuple):
    """A set of entries of a `RowEvidence`, by position; `exact` if it has no superfluous entry."""

    mask: Mask
    exact: bool = True

    def __and__(self, other: Entries) -> Entries:
        return Entries(self.mask & other.mask, self.exact and other.exact)

    def __or__(self, other: Entries) -> Entries:
        return Entries(self.mask | other.mask, self.exact and other.exact)


class Rows(NamedTuple):
    """Rows of slices as `slice << 32 | position`, and the slices (ascending) whose rows could not be determined.

    `exact` means that there is no superfluous row.
    """

    rows: BitMap64
    broken: NDArray[np.intp]
    exact: bool = True


def encode_all(rows: int) -> bytes:
    """Return the bitmap of the positions 0 to `rows` - 1 of one slice."""
    return BitMap(range(rows)).serialize()


def decode_many(slices: Iterable[int], blobs: Iterable[bytes], cardinality: int) -> BitMap64 | None:
    """Decode one bitmap for each of some ascending slices: positions are `slice << 32 | position`.

    Returns None unless they hold `cardinality` positions in all.
    """
    keyed = list(chain.from_iterable(zip(map(_KEY.pack, slices), blobs, strict=True)))
    keyed.insert(0, _COUNT.pack(len(keyed) // 2))
    try:
        bitmap = BitMap64.deserialize(b"".join(keyed))
    except (ValueError, IndexError):
        return None
    return bitmap if len(bitmap) == cardinality else None


def all_rows(slices: NDArray[np.intp], counts: NDArray[np.int64]) -> BitMap64:
    """All rows of some ascending slices with the given row counts."""
    bitmaps = decode_many(slices.tolist(), map(_all_of, counts.tolist()), int(counts.sum()))
    assert bitmaps is not None
    return bitmaps


@lru_cache(maxsize=4096)
def _all_of(rows: int) -> bytes:
    return encode_all(rows)


def slices_in(rows: BitMap64, asked: int) -> NDArray[np.int64]:
    """The slices with a row in a set, ascending; `asked` is an upper bound on their number."""
    if len(rows) > _LISTED * asked:
        return np.fromiter(_slices_in(rows), np.int64)
    held = (np.frombuffer(rows.to_array(), np.uint64) >> np.uint64(32)).astype(np.int64)
    return held[np.append(held[1:] != held[:-1], np.ones(min(len(held), 1), np.bool_))]


def _slices_in(rows: BitMap64) -> Iterator[int]:
    if not rows:
        return
    last = rows.max()
    at = rows.min()
    while True:
        number = at >> 32
        yield number
        following = (number + 1) << 32
        if following > last:
            return
        at = rows.next_set_bit(following)


def counts_in(rows: BitMap64, slices: NDArray[np.intp]) -> NDArray[np.int64]:
    """How many rows of each of some slices (ascending) are in a set, which holds rows of no other slice."""
    if len(rows) > _LISTED * len(slices):
        firsts = [number << 32 for number in slices.tolist()]
        ends = [rows.rank(first | MOST_ROWS) for first in firsts]
        return np.array(
            [end - rows.rank(first) + (first in rows) for first, end in zip(firsts, ends, strict=True)],
            np.int64,
        )
    held = (np.frombuffer(rows.to_array(), np.uint64) >> np.uint64(32)).astype(np.int64)
    return np.bincount(np.searchsorted(slices, held), minlength=len(slices)).astype(np.int64)


def rows_of(rows: BitMap64, number: int) -> NDArray[np.uint32]:
    """The positions of one slice in a set, ascending."""
    first = number << 32
    start = rows.rank(first) - (first in rows)
    stop = rows.rank(first | MOST_ROWS)
    return np.frombuffer(rows[start:stop].to_array(), np.uint64).astype(np.uint32)
