"""The containers of Roaring bitmaps for every value of a slice: the rows of one value with the same upper 16 bits.

A container is the lower 16 bits of up to 4,096 rows, ascending, or 65,536 bits for more rows (RoaringFormatSpec.md).
They are made in two ways. Values that at least one row in sixteen has are found one by one: all rows are compared with
the value. Their containers are mostly bits, for which nothing needs to be sorted. The rows of all other values are
brought together by sorting, 65,536 rows at a time. Touching memory for the first time costs more than the work on it,
so temporary arrays are small or used again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Units = NDArray[np.uint16]

_BITS = 16
_ROWS = 1 << _BITS
_ROW_NUMBERS = np.arange(_ROWS, dtype=np.uint32)

SPARSE_ROWS = 4096
"""Most rows of a container that is a list; bits take as many units of 16 bits."""


class Runs(NamedTuple):
    """Rows of a value that are shorter as runs: the first row of each run, and the row behind it."""

    code: int
    starts: Integers
    behinds: Integers


@dataclass(frozen=True, slots=True)
class Containers:
    """Containers by code and upper bits, and what each holds; the rows of the codes in `runs` are there alone."""

    codes: Integers
    uppers: Integers
    cardinalities: Integers
    contents: pa.Array[Any]
    runs: Sequence[Runs]


def frequent_codes(sizes: Integers, rows: int) -> Integers:
    """The codes whose containers are mostly bits."""
    return np.flatnonzero((sizes > SPARSE_ROWS) & (sizes * (_ROWS // SPARSE_ROWS) >= rows))


def binary_parts(content: NDArray[np.uint16], ends: Integers) -> pa.Array[Any]:
    """Units of 16 bits as binary values, none of which is copied; `ends` begins with 0.

    Raises:
        ValueError: they are more than an Arrow array of binary values holds.
    """
    if 2 * int(ends[-1]) > np.iinfo(np.int32).max:
        raise ValueError("its bitmaps have more than 2 GiB")
    offsets: Any = (2 * ends).astype(np.int32)
    units: Any = content
    buffers: Any = [None, pa.py_buffer(offsets), pa.py_buffer(units)]
    return pa.Array.from_buffers(pa.binary(), len(ends) - 1, buffers)


def found_containers(codes: Codes, wanted: Integers) -> Containers:
    """The containers of ascending codes, each of which is looked for among all rows."""
    chunks = np.arange(0, len(codes), _ROWS)
    cardinalities = np.zeros((len(wanted), len(chunks)), np.int64)
    pieces: list[Units] = [np.empty(0, "<u2")]
    in_runs: list[int] = []
    holds, begins = np.empty(len(codes), np.bool_), np.empty(len(codes), np.bool_)
    for number, code in enumerate(wanted.tolist()):
        np.equal(codes, code, out=holds)
        begins[0] = holds[0]
        np.greater(holds[1:], holds[:-1], out=begins[1:])
        sizes = _counts(holds, chunks)
        # A run that goes on in the next container begins there once more.
        runs = _counts(begins, chunks) + (holds[chunks] & ~begins[chunks])
        if _shorter_as_runs(runs, sizes).any():
            in_runs.append(code)
        else:
            cardinalities[number] = sizes
            pieces += _pieces(holds, sizes)
    present = cardinalities.ravel() > 0
    ends = np.cumsum([0, *map(len, pieces[1:])])
    return Containers(
        codes=np.repeat(wanted, len(chunks))[present],
        uppers=np.tile(np.arange(len(chunks)), len(wanted))[present],
        cardinalities=cardinalities.ravel()[present],
        contents=binary_parts(np.concatenate(pieces), ends),
        runs=_runs(codes, in_runs),
    )


def _counts(flags: Mask, chunks: Integers) -> Integers:
    """How many flags are set in each chunk."""
    return np.array([np.count_nonzero(flags[start : start + _ROWS]) for start in chunks.tolist()], np.int64)


def _pieces(holds: Mask, sizes: Integers) -> list[Units]:
    """What the containers of one value hold, of those with rows."""
    found: list[Units] = []
    for chunk, size in enumerate(sizes.tolist()):
        flags = holds[chunk * _ROWS : (chunk + 1) * _ROWS]
        if size > SPARSE_ROWS:
            found.append(_bits(flags))
        elif size:
            found.append(np.flatnonzero(flags).astype("<u2"))
    return found


def _by_code(codes: Codes) -> NDArray[np.intp]:
    """Positions by code, those of one code ascending; numpy sorts 16 bits at a time by radix."""
    order = np.argsort(codes.astype(np.uint16), kind="stable")
    return order[np.argsort((codes[order] >> _BITS).astype(np.uint16), kind="stable")]


def _bits(flags: Mask) -> Units:
    """A container as bits."""
    packed = np.packbits(flags, bitorder="little")
    if len(packed) < 2 * SPARSE_ROWS:
        packed = np.pad(packed, (0, 2 * SPARSE_ROWS - len(packed)))
    return packed.view("<u2")


def _shorter_as_runs(runs: Integers, rows: Integers) -> Mask:
    """Containers that are shorter as runs: two bytes and four for each run, against two for each row or 8,192."""
    return 2 + 4 * runs < 2 * np.minimum(rows, SPARSE_ROWS)


def _runs(codes: Codes, wanted: Sequence[int]) -> list[Runs]:
    """The runs of ascending codes."""
    if not len(wanted):
        return []
    starts = np.concatenate([[0], np.flatnonzero(codes[1:] != codes[:-1]) + 1])
    behinds = np.append(starts[1:], len(codes))
    owners = codes[starts]
    chosen = np.flatnonzero(np.isin(owners, wanted))
    chosen = chosen[np.argsort(owners[chosen], kind="stable")]
    cuts = np.flatnonzero(np.diff(owners[chosen])) + 1
    return [
        Runs(code, starts[part], behinds[part])
        for code, part in zip(wanted, np.split(chosen, cuts), strict=True)
    ]


def sorted_containers(codes: Codes, count: int, others: Integers) -> Containers:
    """The containers of all codes below `count` but the `others`, from sorts of their rows."""
    sorter = _Sorter(codes, count, others)
    parts = [sorter.part(start) for start in range(0, len(codes), _ROWS)]
    owners = np.concatenate([part.codes for part in parts])
    cardinalities = np.concatenate([part.sizes for part in parts])
    uppers = np.repeat(np.arange(len(parts)), [len(part.codes) for part in parts])
    shorter = _shorter_as_runs(np.concatenate([part.runs for part in parts]), cardinalities)
    in_runs = np.unique(owners[shorter])
    order = np.argsort(owners, kind="stable")
    if len(in_runs):
        order = order[~np.isin(owners[order], in_runs)]
    units = np.minimum(cardinalities, SPARSE_ROWS)
    contents: Any = binary_parts(sorter.content, np.concatenate([[0], np.cumsum(units)]))
    return Containers(
        codes=owners[order],
        uppers=uppers[order],
        cardinalities=cardinalities[order],
        contents=contents.take(pa.array(order)),
        runs=_runs(codes, in_runs.tolist()),
    )


class _Part(NamedTuple):
    """The containers of the rows with the same upper bits, by code."""

    codes: Integers
    sizes: Integers
    runs: Integers


class _Sorter:
    """Sorts 65,536 rows at a time; `content` has what their containers hold, one behind the other."""

    def __init__(self, codes: Codes, count: int, others: Integers) -> None:
        self._codes = codes
        self._count = count
        self._chosen: Mask | None = None
        if len(others):
            self._chosen = np.ones(count, np.bool_)
            self._chosen[others] = False
        self.content: Units = np.empty(len(codes), "<u2")
        self._filled = 0

    def part(self, start: int) -> _Part:
        """Sort the rows from a multiple of 65,536 on, and add what their containers hold."""
        codes = self._codes[start : start + _ROWS]
        owners, rows = self._sorted(codes)
        # NumPy finds what is set among flags six times faster than among numbers.
        others = np.flatnonzero(owners[1:] != owners[:-1]) + 1
        starts = np.concatenate([np.zeros(min(len(rows), 1), np.int64), others])
        ends = np.append(starts, len(rows))[1:]
        followed = np.flatnonzero(np.diff(rows) == 1)
        joined = np.searchsorted(followed, ends - 1) - np.searchsorted(followed, starts)
        part = _Part(owners[starts].astype(np.int64), ends - starts, ends - starts - joined)
        self._add(codes, rows, part)
        return part

    def _sorted(self, codes: Codes) -> tuple[Codes, Units]:
        """The codes that are to be sorted, ascending, and the row of each; rows of one code ascend."""
        among = None if self._chosen is None else self._chosen[codes]
        if self._count > _ROWS:
            rows = _by_code(codes) if among is None else np.flatnonzero(among)
            rows = rows if among is None else rows[_by_code(codes[rows])]
            return codes[rows], rows.astype("<u2")
        # Code and row in one number of 32 bits: NumPy sorts numbers faster than it tells their order.
        keys = codes.astype(np.uint32)
        keys <<= _BITS
        keys |= _ROW_NUMBERS[: len(codes)]
        if among is not None:
            keys = keys[among]
        keys.sort()
        return (keys >> _BITS).astype(np.uint16), keys.astype("<u2")

    def _add(self, codes: Codes, lower: Units, part: _Part) -> None:
        """Add the rows of the containers, as bits where they are too many for a list."""
        done = 0
        ends = np.cumsum(part.sizes)
        for number in np.flatnonzero(part.sizes > SPARSE_ROWS).tolist():
            self._append(lower[done : int(ends[number] - part.sizes[number])])
            self._append(_bits(codes == int(part.codes[number])))
            done = int(ends[number])
        self._append(lower[done:])

    def _append(self, units: Units) -> None:
        self.content[self._filled : self._filled + len(units)] = units
        self._filled += len(units)
