"""Roaring bitmaps of row positions as bytes, one slice and value each.

A blob is in Roaring's portable format, so Java and C read it as well. A changed byte may decode as another set, and
bytes behind the end are accepted (trap I3). So a blob is checked before it is decoded: its length, its number of rows
against that of the slice, its checksum. The blobs of many slices are decoded at once (`pruner.indexes.row_sets`).
"""

from __future__ import annotations

from array import array
from operator import eq
from typing import TYPE_CHECKING, Final

import numpy as np
import xxhash
from pyroaring import BitMap

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

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


checksum: Final = xxhash.xxh3_64_intdigest
"""XXH3-64 of a blob."""


def are_sound(
    blobs: Sequence[bytes | None], expected: Sequence[int | None], row_counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell for each of many blobs whether it may be decoded.

    Args:
        blobs: the blobs.
        expected: the checksum of each.
        row_counts: the number of rows of the slice of each.
    """
    held = [blob or b"" for blob in blobs]
    lengths = np.fromiter(map(len, held), np.int64, len(held))
    right = np.fromiter(map(eq, map(checksum, held), expected), np.bool_, len(held))
    # No blob about so many rows is longer.
    most = LEAST_BYTES + 8 + (row_counts // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES
    return right & (lengths >= LEAST_BYTES) & (lengths <= most)
