"""The rows of every value of a slice as blobs, made at once: one sort of all rows, and no Python call for each value.

Roaring's portable format without runs is a header (a magic number, the number of containers, for each container the
upper 16 bits of its positions and its number of rows less one, then where each container starts) and the containers:
the lower 16 bits of up to 4,096 rows, ascending, or 65,536 bits for more rows (RoaringFormatSpec.md). All of it comes
in units of 16 bits. Where rows stand in runs, which make a blob shorter, `pyroaring` writes that blob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.indexes.bitmap.blobs import encode_runs

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]
    Keys = NDArray[np.unsignedinteger[Any]]

_CONTAINER_BITS = 16
_CONTAINER_ROWS = 1 << _CONTAINER_BITS
_SPARSE_ROWS = 4096
"""Most rows of a container that is a list."""

_MAGIC = 12346
_HEADER_UNITS = 4
_ENTRY_UNITS = 4
"""Of one container in the header: upper bits, number of rows, and two for where it starts."""

_MOST_BYTES = (1 << 31) - 1
"""Most bytes of one Arrow array of binary values."""


def pack_rows(codes: NDArray[np.integer[Any]], sizes: Integers, wanted: list[int]) -> pa.Array[Any]:
    """Return the blob of the rows of each wanted code.

    Args:
        codes: the code of each row.
        sizes: the number of rows of each code.
        wanted: codes, each once.

    Raises:
        ValueError: the blobs are more than an Arrow array holds.
    """
    containers = _Containers(codes, len(sizes))
    ends = np.searchsorted(containers.codes, np.arange(len(sizes)), side="right")
    starts = np.concatenate([[0], ends[:-1]])
    in_runs = np.zeros(len(sizes), np.bool_)
    in_runs[containers.codes[containers.shorter_as_runs()]] = True
    plain = sorted(code for code in wanted if not in_runs[code] and sizes[code])
    others = [code for code in wanted if in_runs[code] or not sizes[code]]
    packed = _packed(containers, starts[plain], ends[plain])
    if not others:
        return _reordered(packed, plain, wanted)
    runs = pa.array([encode_runs(*containers.runs(starts[c], ends[c])) for c in others], pa.binary())
    return _reordered(pa.concat_arrays([packed, runs]), plain + others, wanted)


def _reordered(blobs: pa.Array[Any], codes: list[int], wanted: list[int]) -> pa.Array[Any]:
    if codes == wanted:
        return blobs
    position = {code: number for number, code in enumerate(codes)}
    return blobs.take(pa.array([position[code] for code in wanted], pa.int64()))


class _Containers:
    """All rows by code and position, cut where the code or the upper 16 bits of the position change.

    `starts` and `ends` of each container are positions among the sorted rows, `codes` and `uppers` what its rows share.
    """

    def __init__(self, codes: NDArray[np.integer[Any]], count: int) -> None:
        rows = len(codes)
        shift = max(_CONTAINER_BITS, rows.bit_length())
        dtype: Any = np.uint32 if shift + count.bit_length() <= 32 else np.uint64
        keys = codes.astype(dtype)
        keys <<= dtype(shift)
        keys |= np.arange(rows, dtype=dtype)
        keys.sort()
        self._rows = codes
        self._keys: Keys = keys
        self._mask = (1 << shift) - 1
        belongs = keys >> dtype(_CONTAINER_BITS)
        changes = np.flatnonzero(belongs[1:] != belongs[:-1]) + 1
        self.starts: Integers = np.concatenate([np.zeros(min(rows, 1), np.int64), changes])
        self.ends: Integers = np.concatenate([self.starts[1:], np.full(min(rows, 1), rows, np.int64)])
        first = keys[self.starts].astype(np.int64)
        self.codes: Integers = first >> shift
        self.uppers: Integers = (first & self._mask) >> _CONTAINER_BITS
        self.lower: NDArray[np.uint16] = keys.astype(np.uint16)

    @property
    def cardinalities(self) -> Integers:
        """Number of rows of each container."""
        return self.ends - self.starts

    def shorter_as_runs(self) -> NDArray[np.bool_]:
        """Containers that are shorter as runs: two bytes and four for each run, against two for each row or 8,192."""
        followed = np.flatnonzero(self._keys[1:] - self._keys[:-1] == 1)
        joined = np.searchsorted(followed, self.ends - 1) - np.searchsorted(followed, self.starts)
        runs = self.cardinalities - joined
        return 2 + 4 * runs < np.minimum(2 * self.cardinalities, 2 * _SPARSE_ROWS)

    def runs(self, first: int, behind: int) -> tuple[list[int], list[int]]:
        """First row of each run of the rows of neighbouring containers, and the row behind it."""
        if first == behind:
            return [], []
        rows = (self._keys[self.starts[first] : self.ends[behind - 1]] & self._mask).astype(np.int64)
        breaks = np.flatnonzero(np.diff(rows) != 1)
        starts, lasts = (
            rows[np.concatenate([[0], breaks + 1])],
            rows[np.concatenate([breaks, [len(rows) - 1]])],
        )
        return starts.tolist(), (lasts + 1).tolist()

    def bits(self, number: int) -> NDArray[np.uint16]:
        """A container as bits."""
        start = int(self.uppers[number]) << _CONTAINER_BITS
        holds = self._rows[start : start + _CONTAINER_ROWS] == self.codes[number]
        found = np.zeros(_CONTAINER_ROWS // 8, np.uint8)
        packed = np.packbits(holds, bitorder="little")
        found[: len(packed)] = packed
        return found.view("<u2")


def _packed(containers: _Containers, firsts: Integers, behinds: Integers) -> pa.Array[Any]:
    """Blobs without runs, of codes whose containers are those from `firsts` to `behinds`, ascending."""
    counts = behinds - firsts
    of_blob = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    within = np.arange(int(counts.sum())) - np.repeat(before, counts)
    chosen = np.repeat(firsts, counts) + within
    cardinalities = containers.cardinalities[chosen]
    units = np.minimum(cardinalities, _SPARSE_ROWS)
    headers = _HEADER_UNITS + _ENTRY_UNITS * counts
    # Where each container starts: behind the headers of its blob and of those before it.
    data_before = np.cumsum(units) - units
    starts = data_before + np.cumsum(headers)[of_blob]
    ends = np.cumsum(np.bincount(of_blob, units, len(counts)).astype(np.int64) + headers)
    blob_starts = np.concatenate([np.zeros(1, np.int64), ends])
    if 2 * int(blob_starts[-1]) > _MOST_BYTES:
        raise ValueError("its bitmaps have more than 2 GiB")
    out = np.zeros(int(blob_starts[-1]), np.dtype("<u2"))
    at = blob_starts[:-1]
    out[at] = _MAGIC
    out[at + 2], out[at + 3] = counts & 0xFFFF, counts >> 16
    entry = at[of_blob] + _HEADER_UNITS + 2 * within
    out[entry], out[entry + 1] = containers.uppers[chosen], cardinalities - 1
    where = at[of_blob] + _HEADER_UNITS + 2 * counts[of_blob] + 2 * within
    offsets = 2 * (starts - at[of_blob])
    out[where], out[where + 1] = offsets & 0xFFFF, offsets >> 16
    _fill(out, containers, chosen, counts, starts)
    ends_in_bytes: Any = (2 * blob_starts).astype(np.int32)
    content: Any = out
    buffers: Any = [None, pa.py_buffer(ends_in_bytes), pa.py_buffer(content)]
    return pa.Array.from_buffers(pa.binary(), len(counts), buffers)


def _fill(
    out: NDArray[np.uint16], containers: _Containers, chosen: Integers, counts: Integers, starts: Integers
) -> None:
    """Write the rows of ascending containers, `counts` of them behind each header, to where they start."""
    cardinalities = containers.cardinalities
    sparse = cardinalities[chosen] <= _SPARSE_ROWS
    for number, start in zip(chosen[~sparse].tolist(), starts[~sparse].tolist(), strict=True):
        out[start : start + _SPARSE_ROWS] = containers.bits(number)
    listed = np.zeros(len(cardinalities), np.bool_)
    listed[chosen[sparse]] = True
    # Headers and containers as they follow each other: both sides of the assignment are in the order of the rows.
    header = np.cumsum(counts + 1) - (counts + 1)
    is_list = np.zeros(len(chosen) + len(counts), np.bool_)
    lengths = np.zeros(len(is_list), np.int64)
    is_container = np.ones(len(is_list), np.bool_)
    is_container[header] = False
    is_list[is_container] = sparse
    lengths[header] = _HEADER_UNITS + _ENTRY_UNITS * counts
    lengths[is_container] = np.minimum(cardinalities[chosen], _SPARSE_ROWS)
    rows = containers.lower if listed.all() else containers.lower[np.repeat(listed, cardinalities)]
    out[np.repeat(is_list, lengths)] = rows
