"""The bitmaps of many postings become one set of rows, each looked at before it is decoded (R10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap64

from pruner.indexes.bitmap.blobs import are_sound
from pruner.indexes.row_sets import Rows, decode_many

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


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
