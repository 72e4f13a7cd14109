"""The join of slice batches to a snapshot, by slice key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from pruner.tables.snapshot import SLICE_KEY_BYTES

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray


def locate(snapshot_keys: pa.Array[Any], batch_keys: pa.Array[Any]) -> NDArray[np.int64]:
    """Tell for each row of a slice batch which slice of the snapshot it is.

    Args:
        snapshot_keys: the slice keys of the snapshot, 16 bytes each.
        batch_keys: the slice keys of the batch, likewise.

    Returns:
        For each batch row the snapshot ordinal, or -1 when the snapshot does not have that slice. No ordinal
        comes twice, so what is scattered by the result does not depend on the order of writes: of equal keys
        in the batch the first counts, and of equal keys in the snapshot at least one slice is found. A null
        is no key.
    """
    if _same(snapshot_keys, batch_keys):
        return np.arange(len(batch_keys), dtype=np.int64)
    compute: Any = pc  # whose stubs leave types open
    found = compute.index_in(batch_keys, value_set=snapshot_keys, skip_nulls=True)
    ordinals = found.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    return _first_only(ordinals, len(snapshot_keys))


def _same(left: pa.Array[Any], right: pa.Array[Any]) -> bool:
    """The usual case, far cheaper than a join: one batch covers a table that has not changed since."""
    if len(left) != len(right) or left.null_count or right.null_count:
        return False
    return np.array_equal(_words(left), _words(right))


def _words(keys: pa.Array[Any]) -> NDArray[np.uint64]:
    data: Any = keys.buffers()[1]
    if data is None:
        return np.empty(0, dtype=np.uint64)
    start = keys.offset * SLICE_KEY_BYTES
    return np.frombuffer(data, dtype=np.uint64, count=len(keys) * 2, offset=start)


def _first_only(ordinals: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Keep the first of equal ordinals, put -1 for the others."""
    rows = np.arange(len(ordinals), dtype=np.int64)
    first = np.empty(count + 1, dtype=np.int64)  # the last entry takes what -1 points to
    first[ordinals[::-1]] = rows[::-1]  # of repeated indices the last write stays
    return np.where(first[ordinals] == rows, ordinals, -1)
