"""Blobs of the values of many small slices, made at once.

NumPy and Arrow take microseconds for a call, whatever they are given: of a slice of a few hundred rows that is nearly
all of the time. Here each entry (a value of a slice) is a code of its own, and each has its rows in one container. The
blobs have the bytes that `pruner.indexes.bitmap.packing.pack_rows` makes of each slice by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pruner.indexes.bitmap.packing import (
    SPARSE_ROWS,
    Containers,
    binary_parts,
    by_code,
    packed,
    shorter_as_runs,
    with_bits,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Units = NDArray[np.uint16]

MOST_ROWS_OF_A_SLICE: Final = 1 << 16
"""Rows whose positions have the same upper 16 bits: larger slices are packed one by one."""

_RUN_HEADER: Final = np.frombuffer(b"\x3b\x30\x00\x00" + b"\x01" + b"\x00" * 6, np.uint8)
"""What stands before the runs of a blob of one container: a magic number, which containers are runs (the first), its
upper bits; then, to be filled in, its number of rows less one, and its number of runs (RoaringFormatSpec.md)."""

_ROWS_AT, _RUNS_AT = 7, 9


def pack_slices(codes: Sequence[Codes], sizes: Sequence[Integers]) -> pa.Array[Any]:
    """Return a blob for each code of each slice that a row has, slice by slice, in the order of codes.

    Args:
        codes: the code of each row, of each slice; no slice has more than `MOST_ROWS_OF_A_SLICE` rows.
        sizes: the number of rows of each code, of each slice.

    Raises:
        ValueError: the blobs are more than an Arrow array holds.
    """
    counts = np.array([len(each) for each in codes], np.int64)
    starts = np.cumsum([0, *map(len, sizes)])
    together = np.concatenate(codes).astype(np.uint32) if codes else np.empty(0, np.uint32)
    together += np.repeat(starts[:-1], counts).astype(np.uint32)
    of_code = np.concatenate(sizes) if sizes else np.empty(0, np.int64)
    first_rows = np.repeat(np.cumsum(counts) - counts, counts)
    positions = by_code(together, of_code)
    lower = (positions - first_rows.view(np.uint64)[positions]).astype("<u2")
    return _blobs(lower, of_code[of_code > 0])


def _blobs(lower: Units, sizes: Integers) -> pa.Array[Any]:
    """The blobs of neighbouring containers with such numbers of rows, of which `lower` are the positions."""
    starts = np.cumsum(sizes) - sizes
    begins_run = np.ones(len(lower), np.bool_)
    begins_run[1:] = np.diff(lower) != 1
    begins_run[starts] = True
    runs = np.add.reduceat(begins_run, starts, dtype=np.int64) if len(starts) else starts
    in_runs = shorter_as_runs(runs, sizes)
    if not in_runs.any():
        return _listed(lower, sizes)
    of_runs = np.repeat(in_runs, sizes)
    blobs: Any = pa.concat_arrays(
        [
            _listed(lower[~of_runs], sizes[~in_runs]),
            _in_runs(lower[of_runs], begins_run[of_runs], sizes[in_runs], runs[in_runs]),
        ]
    )
    place = np.cumsum(~in_runs) - 1
    place[in_runs] = np.count_nonzero(~in_runs) + np.arange(np.count_nonzero(in_runs))
    return blobs.take(pa.array(place))


def _listed(lower: Units, sizes: Integers) -> pa.Array[Any]:
    """Blobs whose container is a list, or bits."""
    if not len(sizes):
        return pa.array([], pa.binary())
    behinds, numbers = np.cumsum(sizes), np.arange(len(sizes))
    ends = np.cumsum([0, *np.minimum(sizes, SPARSE_ROWS)])
    contents = binary_parts(with_bits(lower, behinds - sizes, behinds), ends)
    _, blobs = packed(Containers(numbers, np.zeros_like(numbers), sizes, contents, ()))
    return blobs


def _in_runs(lower: Units, begins: Mask, sizes: Integers, runs: Integers) -> pa.Array[Any]:
    """Blobs whose container is runs: the first position of each, and how many follow it."""
    starts = np.flatnonzero(begins)
    pairs = np.empty(2 * len(starts), "<u2")
    pairs[::2], pairs[1::2] = lower[starts], np.diff(np.append(starts, len(lower))) - 1
    headers = np.tile(_RUN_HEADER, (len(sizes), 1))
    for at, numbers in ((_ROWS_AT, sizes - 1), (_RUNS_AT, runs)):
        headers[:, at : at + 2] = numbers.astype("<u2").view(np.uint8).reshape(-1, 2)
    ends = np.arange(len(sizes) + 1) * headers.shape[1]
    join: Any = cast("Any", pc).binary_join_element_wise
    return join(_binary(headers, ends), _binary(pairs, 4 * np.cumsum([0, *runs])), b"")


def _binary(content: Any, ends: Integers) -> pa.Array[Any]:
    offsets: Any = ends.astype(np.int32)
    return pa.Array.from_buffers(
        pa.binary(), len(ends) - 1, [None, pa.py_buffer(offsets), pa.py_buffer(content)]
    )
