"""Roaring bitmaps of row positions as bytes, one slice and value each.

A blob is in Roaring's portable format, so Java and C read it as well. A changed byte may decode as another set, and
bytes behind the end are accepted (trap I3). So a blob is checked before it is decoded: its length, its number of rows
against that of the slice, its checksum. The blobs of many slices are decoded at once (`pruner.indexes.row_sets`).
"""

from __future__ import annotations

from array import array

import xxhash
from pyroaring import BitMap

LEAST_BYTES = 8
"""Length of the shortest blob, that of no row."""

_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = 8192 + 8
"""Most bytes of a container, with its entries in the header."""


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


def checksum(blob: bytes | memoryview) -> int:
    """XXH3-64 of a blob."""
    return xxhash.xxh3_64_intdigest(blob)


def most_bytes(rows: int) -> int:
    """Length that no blob about `rows` rows exceeds."""
    return LEAST_BYTES + 8 + (rows // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES


def is_sound(blob: bytes | None, expected: int, rows: int) -> bool:
    """Tell whether a blob about a slice of `rows` rows may be decoded."""
    return blob is not None and LEAST_BYTES <= len(blob) <= most_bytes(rows) and checksum(blob) == expected
