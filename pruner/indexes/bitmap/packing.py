"""Roaring bitmaps as bytes: those of all values of a slice, made at once, and those of one value.

A blob holds the row positions of one value in one slice, in Roaring's portable format, so Java and C read it as well.
Without runs, this format is a header (a magic number, the number of containers, for each container the upper 16 bits of
its positions and its number of rows minus one, then where each container starts) and the containers
(RoaringFormatSpec.md), all in units of 16 bits. If runs of rows make a blob shorter, `pyroaring` writes that blob.

A container holds the rows of one value with the same upper 16 bits: the lower 16 bits of up to 4,096 rows, ascending,
or 65,536 bits for more rows (RoaringFormatSpec.md). Containers are made in two ways. Values that at least one row in
sixteen has are found one by one: all rows are compared with the value. Their containers are mostly bits, for which
nothing needs to be sorted. The rows of all other values are grouped by sorting, a million rows at a time. Touching
memory for the first time costs more than the work on it, so temporary arrays are small or reused.

A changed byte may decode as another set, and bytes after the end are accepted (trap I3). So a blob is checked before it
is decoded: its length, its number of rows against that of the slice, its checksum. The blobs of many slices are decoded
at once (`pruner.indexes.row_sets`), and the bitmaps of many postings become one set of rows, each checked before it is
decoded (R10).
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from operator import eq
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash
from pyroaring import BitMap, BitMap64

from pruner.indexes.row_sets import Rows, decode_many, encode_all

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    Units = NDArray[np.uint16]


LEAST_BYTES = 8
"""Length of the shortest blob, that of no rows."""

_CONTAINER_ROWS = 1 << 16
_CONTAINER_BYTES = 8192 + 8
"""Maximum number of bytes of a container, with its entries in the header."""


def encode(positions: array[int]) -> bytes:
    """Return the blob of ascending row positions."""
    return BitMap(positions).serialize()


def encode_runs(starts: list[int], ends: list[int]) -> bytes:
    """Return the blob of runs of rows, each from its start up to, but not including, its end."""
    bitmap = BitMap()
    for start, end in zip(starts, ends, strict=True):
        bitmap.add_range(start, end)
    bitmap.run_optimize()
    return bitmap.serialize()


checksum: Final = xxhash.xxh3_64_intdigest
"""XXH3-64 of a blob."""


def are_sound(
    blobs: Sequence[bytes | None], expected: Sequence[int | None], row_counts: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell for each of many blobs whether it may be decoded.

    Args:
        blobs: the blobs.
        expected: the checksum of each.
        row_counts: the number of rows of the slice of each.
    """
    held = [blob or b"" for blob in blobs]
    lengths = np.fromiter(map(len, held), np.int64, len(held))
    right = np.fromiter(map(eq, map(checksum, held), expected), np.bool_, len(held))
    # No blob for that many rows is longer.
    most = LEAST_BYTES + 8 + (row_counts // _CONTAINER_ROWS + 1) * _CONTAINER_BYTES
    return right & (lengths >= LEAST_BYTES) & (lengths <= most)


def decoded(
    records: pa.Table, owners: NDArray[np.intp], sizes: NDArray[np.int64], row_counts: NDArray[np.int64]
) -> Rows:
    """The rows of some postings; slices with a bitmap that cannot be trusted are named and left out.

    Args:
        records: their `rows` and `checksum`.
        owners: the slice of each, ascending.
        sizes: the number of rows of each.
        row_counts: the number of rows in the slice of each.
    """
    blobs: list[Any] = records.column("rows").to_pylist()
    checksums: list[Any] = records.column("checksum").to_pylist()
    sound = are_sound(blobs, checksums, row_counts)
    broken = np.unique(owners[~sound])
    kept = np.flatnonzero(~np.isin(owners, broken)) if len(broken) else np.arange(len(owners))
    # The 64-bit format has each key once: first come the first postings of all slices, then the second ones.
    starts = np.searchsorted(owners[kept], owners[kept], side="left")
    number = np.arange(len(kept)) - starts
    bitmap = BitMap64()
    for turn in range(int(number.max(initial=-1)) + 1):
        part = kept[number == turn]
        together = decode_many(owners[part].tolist(), [blobs[i] for i in part], int(sizes[part].sum()))
        if together is None:
            return Rows(BitMap64(), np.unique(owners))
        bitmap |= together
    return Rows(bitmap, broken)


_BITS = 16
_ROWS = 1 << _BITS
_COUNTED_CODES = 4096
"""Arrow sorts up to this many values by counting, in 2 to 3 ns per row, and more by comparing, in 70."""

_SORTED_ROWS = 16 * _ROWS
"""Rows sorted at a time: their positions are 64-bit numbers."""

SPARSE_ROWS = 4096
"""Maximum number of rows of a container that is a list; bits take as many 16-bit units."""


class RowRuns(NamedTuple):
    """Rows of a value that are shorter as runs: the first row of each run, and the row after its last."""

    code: int
    starts: Integers
    behinds: Integers


@dataclass(frozen=True, slots=True)
class Containers:
    """Containers by code and upper bits, and their contents; the rows of the codes in `runs` are only there."""

    codes: Integers
    uppers: Integers
    cardinalities: Integers
    contents: pa.Array[Any]
    runs: Sequence[RowRuns]


def frequent_codes(sizes: Integers, rows: int) -> Integers:
    """The codes whose containers are mostly bits."""
    return np.flatnonzero((sizes > SPARSE_ROWS) & (sizes * (_ROWS // SPARSE_ROWS) >= rows))


def binary_parts(content: NDArray[np.uint16], ends: Integers) -> pa.Array[Any]:
    """16-bit units as binary values, without copying; `ends` begins with 0.

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
    """The containers of ascending codes, each found by a scan of all rows."""
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
        # A run that continues in the next container begins again there.
        runs = _counts(begins, chunks) + (holds[chunks] & ~begins[chunks])
        if shorter_as_runs(runs, sizes).any():
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
    """The contents of the containers of one value that have rows."""
    pieces: list[Units] = []
    for chunk, size in enumerate(sizes.tolist()):
        flags = holds[chunk * _ROWS : (chunk + 1) * _ROWS]
        if size > SPARSE_ROWS:
            pieces.append(_bits(flags))
        elif size:
            pieces.append(np.flatnonzero(flags).astype("<u2"))
    return pieces


def _bits(flags: Mask) -> Units:
    """A container as bits."""
    packed = np.packbits(flags, bitorder="little")
    if len(packed) < 2 * SPARSE_ROWS:
        packed = np.pad(packed, (0, 2 * SPARSE_ROWS - len(packed)))
    return packed.view("<u2")


def shorter_as_runs(runs: Integers, rows: Integers) -> Mask:
    """Containers that are shorter as runs: two bytes plus four per run, against two per row or 8,192."""
    return 2 + 4 * runs < 2 * np.minimum(rows, SPARSE_ROWS)


def _runs(codes: Codes, wanted: Sequence[int]) -> list[RowRuns]:
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
        RowRuns(code, starts[part], behinds[part])
        for code, part in zip(wanted, np.split(chosen, cuts), strict=True)
    ]


def sorted_containers(codes: Codes, sizes: Integers, others: Integers) -> Containers:
    """The containers of all codes (`sizes` has the number of rows of each) except the `others`, from sorting rows."""
    chosen = np.ones(len(sizes), np.bool_)
    chosen[others] = False
    parts: list[_Part] = []
    for start in range(0, len(codes), _SORTED_ROWS):
        block = codes[start : start + _SORTED_ROWS]
        counts = sizes if len(block) == len(codes) else np.bincount(block, minlength=len(sizes))
        parts.append(_sorted_part(block, start >> _BITS, np.where(chosen, counts, 0)))
    together = parts[0] if len(parts) == 1 else _Part(*map(np.concatenate, zip(*parts, strict=True)))
    in_runs = np.unique(together.codes[shorter_as_runs(together.runs, together.sizes)])
    units = np.minimum(together.sizes, SPARSE_ROWS)
    contents: Any = binary_parts(together.content, np.concatenate([[0], np.cumsum(units)]))
    codes_of, uppers, cardinalities = together.codes, together.uppers, together.sizes
    if len(parts) > 1 or len(in_runs):
        order = np.argsort(codes_of, kind="stable")
        order = order[~np.isin(codes_of[order], in_runs)]
        contents = contents.take(pa.array(order))
        codes_of, uppers, cardinalities = codes_of[order], uppers[order], cardinalities[order]
    return Containers(codes_of, uppers, cardinalities, contents, _runs(codes, in_runs.tolist()))


class _Part(NamedTuple):
    """The containers of some neighboring rows, by code and upper bits, and their concatenated contents."""

    codes: Integers
    uppers: Integers
    sizes: Integers
    runs: Integers
    content: Units


def _sorted_part(codes: Codes, upper: int, sizes: Integers) -> _Part:
    """Sort rows whose upper bits begin at `upper`; codes without rows in `sizes` are left out."""
    positions = by_code(codes, sizes)
    ends = np.cumsum(sizes)
    lower, starts, followed = _looked_through(positions, (ends - sizes)[sizes > 0])
    behinds = np.append(starts, len(lower))[1:]
    joined = np.searchsorted(followed, behinds - 1) - np.searchsorted(followed, starts)
    counts = behinds - starts
    owners = np.repeat(np.arange(len(sizes)), np.diff(np.searchsorted(starts, ends), prepend=0))
    uppers = upper + (positions[starts] >> _BITS).astype(np.int64)
    return _Part(owners, uppers, counts, counts - joined, with_bits(lower, starts, behinds))


def _looked_through(
    positions: NDArray[np.uint64], of_codes: Integers
) -> tuple[Units, NDArray[np.intp], NDArray[np.intp]]:
    """The lower bits of sorted positions, where containers start, and after which positions the next number follows.

    `of_codes` is where the positions of each code start. Positions are processed in parts, in reused memory.
    """
    count = len(positions)
    uppers = positions.view("<u2")[1 :: positions.itemsize // 2]
    lower = np.empty(count, "<u2")
    lower[:1] = positions[:1]
    starts, followed = [np.arange(min(count, 1))], [np.arange(0)]
    flags, steps = np.empty(_ROWS, np.bool_), np.empty(_ROWS, "<u2")
    for begin in range(1, count, _ROWS):
        end = min(begin + _ROWS, count)
        flag, step = flags[: end - begin], steps[: end - begin]
        lower[begin:end] = positions[begin:end]
        np.not_equal(uppers[begin:end], uppers[begin - 1 : end - 1], out=flag)
        first, last = np.searchsorted(of_codes, [begin, end])
        flag[of_codes[first:last] - begin] = True
        # NumPy finds set flags six times faster than nonzero numbers.
        starts.append(np.flatnonzero(flag) + begin)
        np.subtract(lower[begin:end], lower[begin - 1 : end - 1], out=step)
        np.equal(step, 1, out=flag)
        followed.append(np.flatnonzero(flag) + (begin - 1))
    return lower, np.concatenate(starts), np.concatenate(followed)


def by_code(codes: Codes, sizes: Integers) -> NDArray[np.uint64]:
    """The positions of the codes with rows in `sizes`, by code; those of one code ascend."""
    if int(sizes.sum()) == len(codes):
        return _order(codes, len(sizes))
    rows = np.flatnonzero((sizes > 0)[codes])
    return rows.view(np.uint64)[_order(codes[rows], len(sizes))]


def _order(codes: Codes, count: int) -> NDArray[np.uint64]:
    """Positions in ascending order of codes below `count`; those of one code ascend."""
    if count <= _COUNTED_CODES:
        return cast("Any", pc).sort_indices(pa.array(codes)).to_numpy()
    # NumPy radix-sorts 16-bit numbers.
    order = np.argsort(codes.astype(np.uint16, copy=False), kind="stable")
    if count > _ROWS:
        order = order[np.argsort((codes[order] >> _BITS).astype(np.uint16), kind="stable")]
    return order.view(np.uint64)


def with_bits(lower: Units, starts: Integers, behinds: Integers) -> Units:
    """The contents of containers; those with too many rows for a list are bits."""
    pieces: list[Units] = []
    done = 0
    for number in np.flatnonzero(behinds - starts > SPARSE_ROWS).tolist():
        flags = np.zeros(_ROWS, np.bool_)
        flags[lower[starts[number] : behinds[number]]] = True
        pieces += (lower[done : starts[number]], _bits(flags))
        done = int(behinds[number])
    return np.concatenate([*pieces, lower[done:]]) if pieces else lower


_MAGIC = 12346
_HEADER_UNITS = 4
_ENTRY_UNITS = 4
"""Units per container in the header: upper bits, number of rows, and two for where it starts."""


def pack_rows(codes: Codes, sizes: Integers, wanted: list[int]) -> pa.Array[Any]:
    """Return the blob of the rows of each wanted code.

    Args:
        codes: the code of each row.
        sizes: the number of rows of each code.
        wanted: codes, each once.

    Raises:
        ValueError: the blobs are more than an Arrow array holds.
    """
    frequent = frequent_codes(sizes, len(codes))
    parts: list[Containers] = []
    if len(frequent):
        parts.append(found_containers(codes, frequent))
    if int(sizes[frequent].sum()) < len(codes):
        parts.append(sorted_containers(codes, sizes, frequent))
    made: list[int] = []
    blobs: list[Any] = []
    for part in parts:
        owners, of_part = packed(part)
        made += owners.tolist()
        blobs.append(of_part)
    runs = [row_runs for part in parts for row_runs in part.runs]
    made += [row_runs.code for row_runs in runs]
    others = [encode_runs(row_runs.starts.tolist(), row_runs.behinds.tolist()) for row_runs in runs]
    empty = [code for code in wanted if not sizes[code]]
    others += [encode_all(0)] * len(empty)
    if others or not blobs:
        blobs.append(pa.array(others, pa.binary()))
    return _reordered(blobs[0] if len(blobs) == 1 else pa.concat_arrays(blobs), made + empty, wanted)


def _reordered(blobs: pa.Array[Any], codes: list[int], wanted: list[int]) -> pa.Array[Any]:
    if codes == wanted:
        return blobs
    position = {code: number for number, code in enumerate(codes)}
    return blobs.take(pa.array([position[code] for code in wanted], pa.int64()))


def packed(containers: Containers) -> tuple[Integers, pa.Array[Any]]:
    """The codes, ascending, and the blob of each."""
    owners, firsts, counts = np.unique(containers.codes, return_index=True, return_counts=True)
    ends = np.frombuffer(cast("Any", containers.contents.buffers()[1]), np.int32).astype(np.int64) // 2
    ends = ends[: len(containers.codes) + 1]
    blob_ends = ends[np.append(firsts, len(containers.codes))]
    headers = _headers(containers, ends[:-1] - np.repeat(blob_ends[:-1], counts), counts)
    header_ends = np.concatenate([[0], np.cumsum(_HEADER_UNITS + _ENTRY_UNITS * counts)])
    content = np.frombuffer(cast("Any", containers.contents.buffers()[2]), "<u2")
    join: Any = cast("Any", pc).binary_join_element_wise
    return owners, join(binary_parts(headers, header_ends), binary_parts(content, blob_ends), b"")


def _headers(containers: Containers, offsets: Integers, counts: Integers) -> NDArray[np.uint16]:
    """The header before the containers of each blob; `offsets` are those of containers after their header."""
    of_blob = np.repeat(np.arange(len(counts)), counts)
    within = np.arange(len(of_blob)) - np.repeat(np.cumsum(counts) - counts, counts)
    lengths = _HEADER_UNITS + _ENTRY_UNITS * counts
    at = np.cumsum(lengths) - lengths
    out = np.zeros(int(lengths.sum()), "<u2")
    out[at] = _MAGIC
    out[at + 2], out[at + 3] = counts & 0xFFFF, counts >> 16
    entry = at[of_blob] + _HEADER_UNITS + 2 * within
    out[entry], out[entry + 1] = containers.uppers, containers.cardinalities - 1
    where = at[of_blob] + _HEADER_UNITS + 2 * counts[of_blob] + 2 * within
    positions = 2 * (lengths[of_blob] + offsets)
    out[where], out[where + 1] = positions & 0xFFFF, positions >> 16
    return out


# The values of many small slices at once: NumPy and Arrow take microseconds per call, whatever its input, and for a
# slice of a few hundred rows that is nearly all of the time. Each entry (a value of a slice) is a code of its own, and
# has its rows in one container. The blobs have the same bytes as `pack_rows` makes for each slice by itself.

MOST_ROWS_OF_A_SLICE: Final = 1 << 16
"""Rows whose positions share their upper 16 bits: larger slices are packed one by one."""

_RUN_HEADER: Final = np.frombuffer(b"\x3b\x30\x00\x00" + b"\x01" + b"\x00" * 6, np.uint8)
"""The header before the runs of a blob of one container: a magic number, which containers are runs (the first), its
upper bits; then, to be filled in, its number of rows minus one, and its number of runs (RoaringFormatSpec.md)."""

_ROWS_AT, _RUNS_AT = 7, 9


def pack_slices(codes: Sequence[Codes], sizes: Sequence[Integers]) -> pa.Array[Any]:
    """Return a blob for each code that some row has, slice by slice, in the order of codes.

    Args:
        codes: for each slice, the code of each row; no slice has more than `MOST_ROWS_OF_A_SLICE` rows.
        sizes: for each slice, the number of rows of each code.

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
    """The blobs of neighboring containers with `sizes` rows, whose positions are `lower`."""
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
    """Blobs whose container is a list or bits."""
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
