"""What an index will cost, estimated from a few files before it is built, and whether it is likely to hurt.

The kernel runs over the sample as it would over all files, so that what is counted is what would be stored. If the
sample cannot be read there is no estimate: the build itself reports what fails.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pruner.arrow import compute
from pruner.errors import IndexDefinitionError
from pruner.expr.identifier import render_column_path
from pruner.indexes.optional import ArrangingIndexType, CountingIndexType
from pruner.indexes.registry import index_type
from pruner.metadata.segments import SLICE_COLUMN, packed_size
from pruner.pipeline.requests import BuildRequest, Chunk
from pruner.pipeline.slices import run_chunk
from pruner.showing.words import data_size
from pruner.tables.snapshot import evenly

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.pipeline.requests import ChunkResult
    from pruner.tables.snapshot import Snapshot

SAMPLED_SLICES = 4
"""Number of slices in a sample."""

SAMPLED_BYTES = 1024**3
"""Most bytes of a sample, except that the first slice is always taken."""

SHORT_SECONDS = 0.5
"""CPU time of a sample up to which it is taken twice: otherwise the overhead of the first read would count."""

SMALL_TABLE_BYTES = 128 * 1024**2
"""Tables up to this size are not sampled before an index is built: there is little to lose."""

MOST_OF_TABLE = 0.25
"""Share of the bytes of the indexed files that an index may take, unless it is forced."""

NEARLY_UNIQUE = 0.5
"""Distinct values per row of a file from which on a column counts as a key column."""


@dataclass(frozen=True, slots=True)
class IndexEstimate:
    """What an index is expected to cost, from a sample of `sampled` of its `files`.

    `bytes` is what would be stored, for `table_bytes` of indexed files. `seconds` is the CPU time of the build, all of
    one core; waiting for disks and stores comes on top. `values_per_file` has the average number of distinct values of
    each column in a file, None if the type does not keep them; `rows_per_file` the average number of rows. `better`
    says which type fits better and why, None if none is known to. `refused` says why the index is not created unless
    it is forced.
    """

    files: int
    sampled: int
    bytes: int
    table_bytes: int
    seconds: float
    rows_per_file: int
    values_per_file: Mapping[str, int | None]
    better: str | None = None
    refused: str | None = None


def estimate(
    snapshot: Snapshot,
    taken: NDArray[np.bool_],
    requests: Sequence[BuildRequest],
    storage_options: Mapping[str, str],
    *,
    seconds_count: bool = True,
) -> IndexEstimate | None:
    """Judge an index by some of the slices that it takes; None if none of them can be read.

    A short sample is taken twice for a better CPU time, if `seconds_count`.
    """
    ordinals = _sample(snapshot, np.flatnonzero(taken))
    if not len(ordinals):
        return None
    result, seconds = _timed(Chunk(0, snapshot.to_read(ordinals)), storage_options, requests, seconds_count)
    tables = [
        (request, table) for request, table in zip(requests, result.tables, strict=True) if table is not None
    ]
    if not tables:
        return None
    table_bytes = snapshot.size_of(taken)
    times = table_bytes / max(snapshot.size_of(ordinals), 1)
    counts = {render_column_path(request.field.path): _values(request, table) for request, table in tables}
    rows = max((counted[1] for counted in counts.values() if counted is not None), default=0)
    return _judged(
        IndexEstimate(
            files=int(np.count_nonzero(taken)),
            sampled=len(ordinals),
            bytes=int(sum(_expected(request, table, len(ordinals), times) for request, table in tables)),
            table_bytes=table_bytes,
            seconds=seconds * times,
            rows_per_file=rows // len(ordinals),
            values_per_file={
                name: None if counted is None else counted[0] // len(ordinals)
                for name, counted in counts.items()
            },
        ),
        requests[0],
    )


def _timed(
    chunk: Chunk, storage_options: Mapping[str, str], requests: Sequence[BuildRequest], seconds_count: bool
) -> tuple[ChunkResult, float]:
    """The records of a chunk, and the CPU time that they take; wall time would count a busy machine or a slow store."""
    before = time.process_time()
    result = run_chunk(chunk, storage_options, requests)
    first = time.process_time() - before
    if first > SHORT_SECONDS or not seconds_count:
        return result, first
    before = time.process_time()
    run_chunk(chunk, storage_options, requests)
    return result, min(first, time.process_time() - before)


def _sample(snapshot: Snapshot, taken: NDArray[np.intp]) -> NDArray[np.intp]:
    """Some slices, evenly spaced from first to last, of bounded total size."""
    chosen = evenly(taken, SAMPLED_SLICES)
    fits = np.cumsum(snapshot.sizes[chosen]) <= SAMPLED_BYTES
    fits[:1] = True
    return chosen[fits]


def _values(request: BuildRequest, table: pa.Table) -> tuple[int, int] | None:
    """Distinct values per file, summed over the sample, and rows; None if the type reports neither."""
    kind = request.kind
    return kind.values_and_rows(table) if isinstance(kind, CountingIndexType) else None


def _expected(request: BuildRequest, table: pa.Table, sampled: int, times: float) -> float:
    """Bytes of the records of a table that is `times` as large as the sample.

    A part of each segment does not grow with its slices, so the growth from the second half of the sample is
    extrapolated.
    """
    whole, half = _stored(request, table), sampled // 2
    if not half:
        return whole * times
    first = table.filter(compute.less(table.column(SLICE_COLUMN), half))
    growth = max(whole - _stored(request, first), 0) * sampled / (sampled - half)
    return whole + (times - 1) * min(growth, whole)


def _stored(request: BuildRequest, table: pa.Table) -> int:
    kind = request.kind
    return packed_size(kind.arrange(table, request.field) if isinstance(kind, ArrangingIndexType) else table)


def _judged(cost: IndexEstimate, request: BuildRequest) -> IndexEstimate:
    """The estimate with its conclusions."""
    counted = [(count, name) for name, count in cost.values_per_file.items() if count is not None]
    most, column = max(counted, default=(0, ""))
    unique = cost.rows_per_file > 0 and most >= NEARLY_UNIQUE * cost.rows_per_file
    better = _for_keys(column) if unique else None
    share = cost.bytes / max(cost.table_bytes, 1)
    if share <= MOST_OF_TABLE:
        return replace(cost, better=better)
    why = f" ({most:,} values in {cost.rows_per_file:,} rows of a file)" if counted else ""
    refused = (
        f"index {request.name!r} would take about {data_size(cost.bytes)}, {share:.0%} of the "
        f"{data_size(cost.table_bytes)} of the files{why}: {better + ', or ' if better else ''}force it "
        "(force=True, --force, OPTIONS (force = true))"
    )
    return replace(cost, better=better, refused=refused)


def _for_keys(column: str) -> str:
    """Which index type fits a column whose values hardly repeat."""
    if _exists("bloom_filter"):
        return f"a bloom_filter on {column} answers = and IN for a byte or two a row"
    return f"column_stats fits where files are written in the order of {column}"


def _exists(name: str) -> bool:
    try:
        index_type(name)
    except IndexDefinitionError:
        return False
    return True
