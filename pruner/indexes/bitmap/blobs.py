"""Roaring bitmaps of row positions as bytes, one slice and value each.

A blob is in Roaring's portable format, so Java and C read it as well. A changed byte may decode as another set, and
bytes behind the end are accepted (trap I3). So a blob is checked before it is decoded: its length, its number of rows
against that of the slice, its checksum. The blobs of many slices are decoded at once (`pruner.indexes.row_sets`).

The bitmaps of many postings become one set of rows, each looked at before it is decoded (R10).
"""

from __future__ import annotations

from array import array
from operator import eq
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xxhash
from pyroaring import BitMap, BitMap64

from pruner.indexes.row_sets import Rows, decode_many

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
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


def decoded(
    records: pa.Table, owners: NDArray[np.intp], sizes: NDArray[np.int64], row_counts: NDArray[np.int64]
) -> Rows:
    """The rows of some postings; slices of which a bitmap cannot be believed are named and left out.

    Args:
        records: their `rows` and `checksum`.
        owners: the slice of each, ascending.
        sizes: the number of rows of each.
        row_counts: the number of rows of the slice of each.
    """
    blobs: list[Any] = records.column("rows").to_pylist()
    checksums: list[Any] = records.column("checksum").to_pylist()
    sound = are_sound(blobs, checksums, row_counts)
    broken = np.unique(owners[~sound])
    kept = np.flatnonzero(~np.isin(owners, broken)) if len(broken) else np.arange(len(owners))
    # A key may stand once in the 64-bit format: first come the first postings of all slices, then the second ones.
    starts = np.searchsorted(owners[kept], owners[kept], side="left")
    number = np.arange(len(kept)) - starts
    found = BitMap64()
    for turn in range(int(number.max(initial=-1)) + 1):
        part = kept[number == turn]
        together = decode_many(owners[part].tolist(), [blobs[i] for i in part], int(sizes[part].sum()))
        if together is None:
            return Rows(BitMap64(), np.unique(owners))
        found |= together
    return Rows(found, broken)
