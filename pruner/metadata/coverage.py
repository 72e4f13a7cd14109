"""Joins slice batches to a snapshot by slice key: slice by slice, or whole runs of slices by one digest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, compute, filled, positions
from pruner.tables.snapshot import SLICE_KEY_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def locate(snapshot_keys: pa.Array[Any], batch_keys: pa.Array[Any]) -> NDArray[np.int64]:
    """Tell for each row of a slice batch which slice of the snapshot it is.

    Args:
        snapshot_keys: the slice keys of the snapshot, 16 bytes each.
        batch_keys: the slice keys of the batch, likewise.

    Returns:
        For each batch row the snapshot ordinal, or -1 when the snapshot does not have that slice. No ordinal comes
        twice, so values may be scattered by the result in any order. Of equal keys in the batch the first counts.
        Of equal keys in the snapshot at least one slice is found. A null is not a key.
    """
    return locate_all(snapshot_keys, [batch_keys])[0]


def locate_all(snapshot_keys: pa.Array[Any], batches: Sequence[pa.Array[Any]]) -> list[NDArray[np.int64]]:
    """Join several slice batches at once, each as `locate` does: the table of the snapshot's keys is made once."""
    if len(batches) == 1 and _same(snapshot_keys, batches[0]):
        return [np.arange(len(batches[0]), dtype=np.int64)]
    together = arrow.chunked_array(batches, pa.binary(SLICE_KEY_BYTES))
    found = compute.index_in(together, value_set=snapshot_keys, skip_nulls=True)
    ordinals = as_numpy(filled(found, -1)).astype(np.int64)
    ends = np.cumsum([len(batch) for batch in batches])[:-1]
    return [_first_only(each, len(snapshot_keys)) for each in np.split(ordinals, ends)]


def digest_runs(keys: pa.Array[Any], starts: NDArray[np.int64], counts: NDArray[np.int64]) -> list[bytes]:
    """XXH3-128 of the slice keys of each run, written one behind the other: it names exactly these slices."""
    words: Any = _words(keys)  # a buffer, which NumPy's stubs leave out
    return [
        xxhash.xxh3_128_digest(words[2 * start : 2 * (start + count)])
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True)
    ]


def locate_runs(
    snapshot_keys: pa.Array[Any],
    first_keys: pa.Array[Any],
    counts: NDArray[np.int64],
    digests: Sequence[bytes],
) -> NDArray[np.int64]:
    """Tell for each run of slices where in the snapshot exactly these slices stand in this order.

    Args:
        snapshot_keys: the slice keys of the snapshot, none of them null.
        first_keys: the key of the first slice of each run.
        counts: number of slices of each run, at least 1.
        digests: what `digest_runs` gave of each run.

    Returns:
        The ordinal of the first slice of each run; -1 where a slice of it is gone or another stands between.
    """
    words: Any = _words(snapshot_keys)  # a buffer, which NumPy's stubs leave out
    total = len(snapshot_keys)
    starts = np.full(len(counts), -1, np.int64)

    def place(run: int, start: int) -> bool:
        end = start + int(counts[run])
        if end > total or xxhash.xxh3_128_digest(words[2 * start : 2 * end]) != digests[run]:
            return False
        starts[run] = start
        return True

    # Mostly runs stand where they stood when they were recorded, one behind the other.
    expected = np.cumsum(counts) - counts
    elsewhere = [run for run in range(len(counts)) if not place(run, int(expected[run]))]
    if elsewhere:
        wanted = first_keys.take(positions(elsewhere))
        found = np.flatnonzero(as_numpy(compute.is_in(snapshot_keys, value_set=wanted)))
        begins = dict(zip(snapshot_keys.take(positions(found)).to_pylist(), found.tolist(), strict=True))
        for run, first_key in zip(elsewhere, wanted.to_pylist(), strict=True):
            place(run, begins.get(first_key, total))
    return starts


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
