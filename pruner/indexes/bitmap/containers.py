"""The containers of Roaring bitmaps for every value of a slice: the rows of one value with the same upper 16 bits.

A container is the lower 16 bits of up to 4,096 rows, ascending, or 65,536 bits for more rows (RoaringFormatSpec.md).
Two ways lead to them. The rows of most values are brought together by one sort. A value that a sixteenth of all rows or
more have is looked for by itself, one comparison of all rows: its containers are mostly bits, for which nothing needs
to be sorted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    Integers = NDArray[np.int64]
    Units = NDArray[np.uint16]

_BITS = 16
_ROWS = 1 << _BITS

SPARSE_ROWS = 4096
"""Most rows of a container that is a list; bits take as many units of 16 bits."""


class Runs(NamedTuple):
    """Rows of a value that are shorter as runs: the first row of each run, and the row behind it."""

    code: int
    starts: Integers
    behinds: Integers


@dataclass(frozen=True, slots=True)
class Containers:
    """Containers by code and upper bits; `content` has `units` of 16 bits of each, one behind the other.

    The rows of the codes in `runs` are there alone.
    """

    codes: Integers
    uppers: Integers
    cardinalities: Integers
    content: Units
    runs: Sequence[Runs]

    @property
    def units(self) -> Integers:
        """Units of 16 bits of each container."""
        return np.minimum(self.cardinalities, SPARSE_ROWS)


def frequent_codes(sizes: Integers, rows: int) -> Integers:
    """The codes whose containers are mostly bits."""
    return np.flatnonzero((sizes > SPARSE_ROWS) & (sizes * (_ROWS // SPARSE_ROWS) >= rows))


def found_containers(codes: Codes, wanted: Integers) -> Containers:
    """The containers of ascending codes, each of which is looked for among all rows."""
    chunks = np.arange(0, len(codes), _ROWS)
    cardinalities = np.zeros((len(wanted), len(chunks)), np.int64)
    pieces: list[Units] = []
    runs: list[Runs] = []
    for number, code in enumerate(wanted):
        holds = codes == code
        begins = np.empty(len(holds), np.bool_)
        begins[0] = holds[0]
        np.greater(holds[1:], holds[:-1], out=begins[1:])
        sizes = _counts(holds, chunks)
        # A run that goes on in the next container begins there once more.
        starts = _counts(begins, chunks) + (holds[chunks] & ~begins[chunks])
        if _shorter_as_runs(starts, sizes).any():
            runs.append(Runs(int(code), np.flatnonzero(begins), _ends(holds)))
        else:
            cardinalities[number] = sizes
            pieces += _pieces(holds, sizes)
    present = cardinalities.ravel() > 0
    return Containers(
        codes=np.repeat(wanted, len(chunks))[present],
        uppers=np.tile(np.arange(len(chunks)), len(wanted))[present],
        cardinalities=cardinalities.ravel()[present],
        content=np.concatenate([np.empty(0, np.uint16), *pieces]),
        runs=runs,
    )


def _counts(flags: NDArray[np.bool_], chunks: Integers) -> Integers:
    """How many flags are set in each chunk."""
    return np.array([np.count_nonzero(flags[start : start + _ROWS]) for start in chunks.tolist()], np.int64)


def _ends(holds: NDArray[np.bool_]) -> Integers:
    """The row behind each run."""
    ends = np.flatnonzero(holds[:-1] > holds[1:]) + 1
    return np.append(ends, len(holds)) if holds[-1] else ends


def _pieces(holds: NDArray[np.bool_], sizes: Integers) -> list[Units]:
    """What the containers of one value hold."""
    bits = np.zeros(len(sizes) * _ROWS // 8, np.uint8)
    packed = np.packbits(holds, bitorder="little")
    bits[: len(packed)] = packed
    whole = bits.view("<u2").reshape(len(sizes), SPARSE_ROWS)
    return [
        whole[chunk]
        if size > SPARSE_ROWS
        else np.flatnonzero(holds[chunk * _ROWS : (chunk + 1) * _ROWS]).astype("<u2")
        for chunk, size in enumerate(sizes.tolist())
    ]


def _shorter_as_runs(runs: Integers, rows: Integers) -> NDArray[np.bool_]:
    """Containers that are shorter as runs: two bytes and four for each run, against two for each row or 8,192."""
    return 2 + 4 * runs < 2 * np.minimum(rows, SPARSE_ROWS)


def sorted_containers(codes: Codes, count: int, others: Integers) -> Containers:
    """The containers of all codes below `count` but the `others`, from one sort of their rows."""
    rows = len(codes)
    shift = max(_BITS, rows.bit_length())
    dtype: Any = np.uint32 if shift + count.bit_length() <= 32 else np.uint64
    keys = codes.astype(dtype)
    keys <<= dtype(shift)
    keys |= np.arange(rows, dtype=dtype)
    if len(others):
        chosen = np.ones(count, np.bool_)
        chosen[others] = False
        keys = keys[chosen[codes]]
    keys.sort()
    belongs = keys >> dtype(_BITS)
    changes = np.flatnonzero(belongs[1:] != belongs[:-1]) + 1
    starts = np.concatenate([np.zeros(min(len(keys), 1), np.int64), changes])
    ends = np.append(starts, len(keys))[1:]
    first = keys[starts].astype(np.int64)
    owners, mask = first >> shift, (1 << shift) - 1
    uppers, cardinalities = (first & mask) >> _BITS, ends - starts
    followed = np.flatnonzero(keys[1:] - keys[:-1] == 1)
    joined = np.searchsorted(followed, ends - 1) - np.searchsorted(followed, starts)
    in_runs = np.unique(owners[_shorter_as_runs(cardinalities - joined, cardinalities)])
    runs = [_runs_of(code, keys, shift) for code in in_runs.tolist()]
    lower: Units = keys.astype("<u2")
    if runs:
        kept = ~np.isin(owners, in_runs)
        lower = lower[np.repeat(kept, cardinalities)]
        owners, uppers, cardinalities = owners[kept], uppers[kept], cardinalities[kept]
    return Containers(owners, uppers, cardinalities, _with_bits(lower, cardinalities), runs)


def _runs_of(code: int, keys: NDArray[Any], shift: int) -> Runs:
    dtype: Any = keys.dtype.type
    first, behind = np.searchsorted(keys, [dtype(code << shift), dtype((code + 1 << shift) - 1)])
    rows = (keys[first:behind] & dtype((1 << shift) - 1)).astype(np.int64)
    breaks = np.flatnonzero(np.diff(rows) != 1)
    starts = rows[np.concatenate([[0], breaks + 1])]
    lasts = rows[np.concatenate([breaks, [len(rows) - 1]])]
    return Runs(code, starts, lasts + 1)


def _with_bits(lower: Units, cardinalities: Integers) -> Units:
    """Replace the rows of containers that are too many for a list by bits."""
    ends = np.cumsum(cardinalities)
    pieces: list[Units] = []
    done = 0
    for number in np.flatnonzero(cardinalities > SPARSE_ROWS).tolist():
        end = int(ends[number])
        start = end - int(cardinalities[number])
        holds = np.zeros(_ROWS, np.bool_)
        holds[lower[start:end]] = True
        pieces += [lower[done:start], np.packbits(holds, bitorder="little").view("<u2")]
        done = end
    return np.concatenate([*pieces, lower[done:]]) if pieces else lower
