"""Roaring bitmaps of row positions as bytes: one slice and value each, or many slices in one 64-bit bitmap.

A blob is in Roaring's portable format, so Java and C read it as well. A changed byte may decode as another set, and
bytes behind the end are accepted (trap I3), so a blob is looked at before it is decoded: its length, its number of rows
against that of the slice, its checksum. The blobs of many slices are decoded at once: the 64-bit format is a count and
then, for each key in ascending order, the key's upper 32 bits (here the number of the slice) and a 32-bit bitmap.
"""

from __future__ import annotations

import struct
from array import array
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import xxhash
from pyroaring import BitMap, BitMap64

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from numpy.typing import NDArray

MOST_ROWS = (1 << 32) - 1
"""Most rows of a slice: positions are 32-bit integers."""

LEAST_BYTES = 8
"""Length of the shortest blob, that of no row."""

_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = 8192 + 8
"""Most bytes of a container, with its entries in the header."""

_COUNT = struct.Struct("<Q")
_KEY = struct.Struct("<I")


def encode(positions: array[int]) -> bytes:
    """Return the blob of ascending row positions."""
    return BitMap(positions).serialize()


def encode_runs(starts: list[int], ends: list[int]) -> bytes:
    """Return the blob of runs of rows, each from its start to before its end."""
    found = BitMap()
    for start, end in zip(starts, ends, strict=True):
        found.add_range(start, end)
    found.run_optimize()
    return found.serialize()


def encode_all(rows: int) -> bytes:
    """Return the blob of the positions 0 to `rows` - 1."""
    return BitMap(range(rows)).serialize()


def checksum(blob: bytes | memoryview) -> int:
    """XXH3-64 of a blob."""
    return xxhash.xxh3_64_intdigest(blob)


def most_bytes(rows: int) -> int:
    """Length that no blob about `rows` rows exceeds."""
    return LEAST_BYTES + 8 + (rows // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES


def is_sound(blob: bytes | None, expected: int, rows: int) -> bool:
    """Tell whether a blob about a slice of `rows` rows may be decoded."""
    return blob is not None and LEAST_BYTES <= len(blob) <= most_bytes(rows) and checksum(blob) == expected


def decode_many(slices: Iterable[int], blobs: Iterable[bytes], cardinality: int) -> BitMap64 | None:
    """Decode one blob for each of ascending slices: positions are `slice << 32 | position`.

    Returns None where they do not hold `cardinality` positions in all.
    """
    parts: list[bytes] = [b""]
    for number, blob in zip(slices, blobs, strict=True):
        parts += (_KEY.pack(number), blob)
    parts[0] = _COUNT.pack(len(parts) // 2)
    try:
        found = BitMap64.deserialize(b"".join(parts))
    except (ValueError, IndexError):
        return None
    return found if len(found) == cardinality else None


def all_rows(slices: NDArray[np.intp], counts: NDArray[np.int64]) -> BitMap64:
    """Every row of some ascending slices with these numbers of rows."""
    found = decode_many(slices.tolist(), map(_all_of, counts.tolist()), int(counts.sum()))
    assert found is not None
    return found


@lru_cache(maxsize=4096)
def _all_of(rows: int) -> bytes:
    return encode_all(rows)


def slices_in(rows: BitMap64) -> Iterator[int]:
    """The slices of which a bitmap of many holds a row, ascending."""
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
