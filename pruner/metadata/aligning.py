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

MOST_SEARCHES: Final = 128
"""How often a key is looked for among all others."""

_TRIED: Final = 64
"""Places after which the two are taken for different ones, if most keys were not the same up to there."""

_WINDOW: Final = 256
"""Keys that are new or gone one behind the other, mostly."""

_FIRST_PART, _LARGEST_PART = 64, 1 << 16


def aligned(snapshot: Words, batch: Words) -> Ordinals | None:
    """Return for each key of a batch the ordinal of the very same key in a snapshot; -1 where it was not come upon.

    The ordinals ascend. Each key is two words, one behind the other.

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
        if at == len(known) or row == len(keys):
            return found
        if searches > MOST_SEARCHES or (place == _TRIED and 2 * matched < row):
            return None
        new, gone = _first(known[at : at + _WINDOW], keys[row]), _first(keys[row : row + _WINDOW], known[at])
        if new is None and gone is None:
            # A batch may be about parts of the table alone.
            new, searches = _first(known[at:], keys[row]), searches + 1
        if new is not None:
            at += new
        else:
            row += gone or 1
    return None


def _first(keys: Words, wanted: Words) -> int | None:
    """Where a key stands among others; None where it does not."""
    hits = np.flatnonzero(keys[:, 0] == wanted[0])
    return next((hit for hit in hits.tolist() if keys[hit, 1] == wanted[1]), None)


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
