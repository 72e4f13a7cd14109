"""The rows of every value of a slice as blobs, made at once: no Python call for each value.

Roaring's portable format without runs is a header (a magic number, the number of containers, for each container the
upper 16 bits of its positions and its number of rows less one, then where each container starts) and the containers
(RoaringFormatSpec.md). All of it comes in units of 16 bits. Where rows stand in runs, which make a blob shorter,
`pyroaring` writes that blob.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pruner.indexes.bitmap.blobs import encode_runs
from pruner.indexes.bitmap.containers import binary_parts, found_containers, frequent_codes, sorted_containers
from pruner.indexes.row_sets import encode_all

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.indexes.bitmap.containers import Codes, Containers, Integers

_MAGIC = 12346
_HEADER_UNITS = 4
_ENTRY_UNITS = 4
"""Of one container in the header: upper bits, number of rows, and two for where it starts."""


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
        owners, packed = _packed(part)
        made += owners.tolist()
        blobs.append(packed)
    runs = [found for part in parts for found in part.runs]
    made += [found.code for found in runs]
    others = [encode_runs(found.starts.tolist(), found.behinds.tolist()) for found in runs]
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


def _packed(containers: Containers) -> tuple[Integers, pa.Array[Any]]:
    """Codes, ascending, and the blob of each."""
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
    """What stands before the containers of each blob; `offsets` are those of containers behind their header."""
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
