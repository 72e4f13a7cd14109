"""Finds the slices of a batch in a snapshot that differs from it in a few places, without a table of all keys.

A table changes by some files at a time, and its slices keep their order. So the keys of a batch and those of the
snapshot are the same but for some places, and comparing them one behind the other takes a hundredth of a hash join.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]
    Ordinals = NDArray[np.int64]

MOST_PLACES: Final = 2048
"""Places in which both may differ; where there are more, a hash join is faster."""

_TRIED: Final = 64
"""Places after which the two are taken for different ones, if most keys were not the same up to there."""

_WINDOW: Final = 256
"""Keys that may be new or gone one behind the other."""

_FIRST_PART, _LARGEST_PART = 64, 1 << 16


def aligned(snapshot: Words, batch: Words) -> Ordinals | None:
    """Return for each key of a batch the ordinal of the very same key in a snapshot; -1 where it was not come upon.

    The ordinals ascend. Each key is two words, one behind the other.

    Returns:
        None where the two are too different.
    """
    known, keys = snapshot.reshape(-1, 2), batch.reshape(-1, 2)
    found = np.full(len(keys), -1, np.int64)
    at = row = matched = 0
    if len(known) and len(keys):
        at = int((known[:, 0] == keys[0, 0]).argmax())  # a batch may be about a part of the table
    for place in range(MOST_PLACES):
        if place == _TRIED and 2 * matched < row:
            return None
        same = _same_from(known[at:], keys[row:])
        found[row : row + same] = np.arange(at, at + same)
        at, row, matched = at + same, row + same, matched + same
        if at == len(known) or row == len(keys):
            return found
        new, gone = _first(known[at:], keys[row]), _first(keys[row:], known[at])
        if new is not None:
            at += new
        elif gone is not None:
            row += gone
        else:
            at, row = at + 1, row + 1
    return None


def _first(keys: Words, wanted: Words) -> int | None:
    """Where a key stands among the next ones; None where it does not."""
    hits = np.flatnonzero((keys[:_WINDOW] == wanted).all(axis=1))
    return int(hits[0]) if len(hits) else None


def _same_from(one: Words, other: Words) -> int:
    """The number of keys with which both begin."""
    most = min(len(one), len(other))
    done, size = 0, _FIRST_PART
    while done < most:
        end = min(done + size, most)
        differs: Any = (one[done:end] != other[done:end]).any(axis=1)
        if differs.any():
            return done + int(differs.argmax())
        done, size = end, min(4 * size, _LARGEST_PART)
    return most
