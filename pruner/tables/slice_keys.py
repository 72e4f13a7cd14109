"""Finds slices again: joins the slice keys of a batch, or of an earlier listing, to the current snapshot.

A table changes a few files at a time, and its slices keep their order. So the keys of a batch and those of the
snapshot differ in few places, and comparing them in sequence takes a hundredth of the time of a hash join.
Whole runs of slices are found by one digest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, compute, filled, index_of_few, positions, rows_with
from pruner.tables.snapshot import SLICE_KEY_BYTES, evenly

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Ordinals = NDArray[np.int64]

MOST_PLACES: Final = 2048
"""Places where both may differ; with more, a hash join is faster."""

MOST_SEARCHES: Final = 128
"""After more searches than this for a key among all others, a hash join is faster."""

_TRIED: Final = 64
"""Places after which the two are taken to be different, unless most keys up to there matched."""

_WINDOW: Final = 256
"""Usually at most this many consecutive keys are new or gone."""

_FIRST_PART, _LARGEST_PART = 64, 1 << 16


def locate(snapshot_keys: pa.Array[Any], batch_keys: pa.Array[Any]) -> NDArray[np.int64]:
    """Find the slice of the snapshot for each row of a slice batch.

    Args:
        snapshot_keys: the slice keys of the snapshot, 16 bytes each.
        batch_keys: the slice keys of the batch, likewise.

    Returns:
        For each batch row the snapshot ordinal, or -1 when the snapshot does not have that slice. No ordinal repeats,
        so values may be scattered by the result in any order. Of equal keys in the batch the first counts.
        Of equal keys in the snapshot at least one slice is found. A null is not a key.
    """
    return locate_all(snapshot_keys, [batch_keys])[0]


def locate_all(snapshot_keys: pa.Array[Any], batches: Sequence[pa.Array[Any]]) -> list[NDArray[np.int64]]:
    """Join several slice batches at once, each as `locate` does: the hash table of the snapshot's keys is built once,
    or not at all for a few slices.
    """
    if len(batches) == 1 and _same(snapshot_keys, batches[0]):
        return [np.arange(len(batches[0]), dtype=np.int64)]
    order, large = _by_place(snapshot_keys, batches)
    together = arrow.chunked_array([batches[at] for at in order], pa.binary(SLICE_KEY_BYTES)).combine_chunks()
    ends = np.cumsum([len(batches[at]) for at in order])
    ordinals = _in_order(snapshot_keys, together, int(ends[large - 1]) if large else 0)
    if ordinals is None:
        joined = _joined(snapshot_keys, together)
        runs = [_first_only(run, len(snapshot_keys)) for run in np.split(joined, ends[:-1])]
    else:
        runs = np.split(ordinals, ends[:-1])
    located = dict(zip(order, runs, strict=True))
    return [located[at] for at in range(len(batches))]


def _by_place(snapshot_keys: pa.Array[Any], batches: Sequence[pa.Array[Any]]) -> tuple[list[int], int]:
    """The order of the batches in the snapshot, since a build by several processes finishes them in another; the small
    ones, which refreshes add, come last. Also returns the number of large ones.
    """
    large = [at for at, batch in enumerate(batches) if len(batch) >= _ALIGNED_FROM]
    small = [at for at, batch in enumerate(batches) if len(batch) < _ALIGNED_FROM]
    if len(large) < 2:
        return [*large, *small], len(large)
    asked = max(1, _ASKED // len(large))
    samples = [batches[at].take(positions(evenly(np.arange(len(batches[at])), asked))) for at in large]
    counts = [len(sample) for sample in samples]
    together: Any = arrow.chunked_array(samples).combine_chunks()
    found = as_numpy(filled(index_of_few(together, snapshot_keys, skip_nulls=True), -1)).astype(np.int64)
    found[found < 0] = len(snapshot_keys)
    first = [int(run.min()) for run in np.split(found, np.cumsum(counts)[:-1])]
    return [*(large[at] for at in np.argsort(first, kind="stable").tolist()), *small], len(large)


_ASKED: Final = 512
"""Sampled keys, over all batches, that determine their order."""


_FEW: Final = 16
"""Keys count as few when the snapshot has more than this many times as many slices."""


_ALIGNED_FROM: Final = 4096
"""Slices of a batch from which it pays to check whether they are still in order."""


def _joined(snapshot_keys: pa.Array[Any], keys: Any) -> NDArray[np.int64]:
    """The ordinal in the snapshot of each key, -1 where it has none. Ordinals may repeat."""
    if len(keys) * _FEW < len(snapshot_keys):
        found = index_of_few(keys, snapshot_keys, skip_nulls=True)
    else:
        found = compute.index_in(keys, value_set=snapshot_keys, skip_nulls=True)
    return as_numpy(filled(found, -1)).astype(np.int64)


def _in_order(snapshot_keys: pa.Array[Any], keys: Any, large: int) -> NDArray[np.int64] | None:
    """What `_joined` returns, for keys that are in the order of the snapshot with few exceptions; None for others.

    The first `large` keys, those of large batches, are compared in order. No ordinal repeats.
    """
    if not large or keys.null_count or snapshot_keys.null_count:
        return None
    in_order = aligned(_words(snapshot_keys), _words(keys)[: 2 * large])
    if in_order is None:
        return None
    ordinals = np.concatenate([in_order, np.full(len(keys) - large, -1, np.int64)])
    free = np.ones(len(snapshot_keys), np.bool_)
    free[ordinals[ordinals >= 0]] = False
    rest, left = np.flatnonzero(free), np.flatnonzero(ordinals < 0)
    if len(snapshot_keys) - len(rest) < len(keys) - len(left) or len(left) * _FEW > len(keys):
        return None  # a key comes twice, of which the first counts, or too many are elsewhere
    if not len(left):
        return ordinals
    others = keys.take(positions(left))
    if len(rows_with(others, keys)) > len(left):
        return None  # likewise
    found = _joined(snapshot_keys.take(positions(rest)), others)
    if len(np.unique(found[found >= 0])) < np.count_nonzero(found >= 0):
        return None  # likewise
    ordinals[left[found >= 0]] = rest[found[found >= 0]]
    return ordinals


def digest_runs(keys: pa.Array[Any], starts: NDArray[np.int64], counts: NDArray[np.int64]) -> list[bytes]:
    """XXH3-128 of the concatenated slice keys of each run: it identifies exactly these slices."""
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
    """Find where exactly the slices of each run are in the snapshot, in this order.

    Args:
        snapshot_keys: the slice keys of the snapshot, none of them null.
        first_keys: the key of the first slice of each run.
        counts: number of slices of each run, at least 1.
        digests: what `digest_runs` returned for each run.

    Returns:
        The ordinal of the first slice of each run; -1 where one of its slices is gone or another lies between.
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

    # Most runs are where they were when they were recorded, one after another.
    expected = np.cumsum(counts) - counts
    elsewhere = [run for run in range(len(counts)) if not place(run, int(expected[run]))]
    if elsewhere:
        wanted = first_keys.take(positions(elsewhere))
        rows = rows_with(wanted, snapshot_keys)
        begins = dict(zip(snapshot_keys.take(positions(rows)).to_pylist(), rows.tolist(), strict=True))
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
    """Keep the first of equal ordinals and set the others to -1."""
    rows = np.arange(len(ordinals), dtype=np.int64)
    first = np.empty(count + 1, dtype=np.int64)  # the last entry takes what -1 points to
    first[ordinals[::-1]] = rows[::-1]  # of repeated indices the last write stays
    return np.where(first[ordinals] == rows, ordinals, -1)


def aligned(snapshot: Words, batch: Words) -> Ordinals | None:
    """Return for each key of a batch the ordinal of the same key in a snapshot; -1 where it was not found.

    Each key is two consecutive words. More than one of equal keys in the batch may be found.

    Returns:
        None where the two are too different.
    """
    known, keys = snapshot.reshape(-1, 2), batch.reshape(-1, 2)
    found = np.full(len(keys), -1, np.int64)
    at = row = matched = searches = 0
    for place in range(MOST_PLACES):
        same = _same_from(known[at:], keys[row:])
        found[row : row + same] = np.arange(at, at + same)
        at, row, matched = at + same, row + same, matched + same
        if row == len(keys):
            return found
        if searches > MOST_SEARCHES or (place == _TRIED and 2 * matched < row):
            return None
        new = gone = None
        if at < len(known):
            new, gone = (
                _first(known[at : at + _WINDOW], keys[row]),
                _first(keys[row : row + _WINDOW], known[at]),
            )
        if new is not None:
            at += new
        elif gone is not None:
            row += gone
        else:
            # A batch may cover only parts of the table, and several processes may have built it piece by piece.
            elsewhere, searches = _first(known, keys[row]), searches + 1
            if elsewhere is not None:
                at = elsewhere
            elif at == len(known):
                return found
            else:
                row += 1
    return None


def _first(keys: Words, wanted: Words) -> int | None:
    """A key's position among others; None where it has none."""
    hits = np.flatnonzero(keys[:, 0] == wanted[0])
    return next((hit for hit in hits.tolist() if keys[hit, 1] == wanted[1]), None)


def _same_from(one: Words, other: Words) -> int:
    """The length of the common prefix, in keys."""
    most = min(len(one), len(other))
    done, size = 0, _FIRST_PART
    while done < most:
        end = min(done + size, most)
        # Word by word: reducing the two words of each key takes five times as long.
        differs: Any = one[done:end].reshape(-1) != other[done:end].reshape(-1)
        first = int(differs.argmax())
        if differs[first]:
            return done + first // 2
        done, size = end, min(4 * size, _LARGEST_PART)
    return most
