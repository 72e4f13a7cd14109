"""Runs the kernel on this machine: in process, in threads for remote files, in worker processes for many local ones.

Slices are taken in chunks; what there is of a slice as Python objects lives as long as its chunk.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.errors import IndexDefinitionError
from pruner.indexes.base import RowIndexType
from pruner.indexes.registry import index_type
from pruner.metadata.coverage import locate
from pruner.pipeline.kernel import SLICE_COLUMN, Gathered, read_slice
from pruner.pipeline.requests import BuildResult, Chunk, ChunkResult, Failure
from pruner.pipeline.workers import run_in_workers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.pipeline.kernel import Recorded
    from pruner.pipeline.requests import BuildRequest, Progress
    from pruner.tables.snapshot import Snapshot
    from pruner.tables.source import TableSource

CHUNK_SLICES = 1024
"""Slices that are objects at once, and the step of the progress."""

REMOTE_THREADS = 32
"""Remote files that are read at once: they wait for the store, not for the processor."""

WORKER_SLICES = 16 * CHUNK_SLICES
"""Local slices from which on worker processes pay: they start in a second, in which one process reads thousands."""


def build(
    source: TableSource,
    snapshot: Snapshot,
    ordinals: NDArray[np.intp],
    requests: Sequence[BuildRequest],
    progress: Progress | None = None,
) -> BuildResult:
    """Record what is requested of some slices of a snapshot.

    A slice whose file changed while it was read is left out (R4): the table is listed once more at the end, and only
    what is still there under the same slice key counts.

    Args:
        source: where the snapshot came from; looked at again afterwards.
        snapshot: its slices at `ordinals` must have base files and be settled.
        ordinals: which slices.
        requests: what to record of each.
        progress: called with the number of slices done and of all of them, from this thread.

    Raises:
        TableError: the table is gone or can no longer be listed completely.
        StorageError: the store refuses to be listed.
    """
    gathered: list[list[pa.Table]] = [[] for _ in requests]
    failures: list[Failure] = []
    done = 0
    for result in _run(source, snapshot, ordinals, requests):
        for tables, table in zip(gathered, result.tables, strict=True):
            if table is not None:
                tables.append(table)
        failures += result.failures
        done += result.slices
        if progress is not None:
            progress(done, len(ordinals))
    same = _still_same(source, snapshot, ordinals)
    records = tuple(
        _joined(request, tables, same) for request, tables in zip(requests, gathered, strict=True)
    )
    return BuildResult(records, (*failures, *_changed(snapshot, ordinals, same, requests)))


def _run(
    source: TableSource, snapshot: Snapshot, ordinals: NDArray[np.intp], requests: Sequence[BuildRequest]
) -> Iterator[ChunkResult]:
    options = source.storage_options
    chunks = _chunks(snapshot, ordinals)
    if not source.root.startswith("/"):
        yield from _in_threads(chunks, options, requests)
    elif _workers_pay(len(ordinals), requests):
        yield from run_in_workers(chunks, options, requests, os.cpu_count() or 1, run_chunk)
    else:
        for chunk in chunks:
            yield run_chunk(chunk, options, requests)


def _workers_pay(count: int, requests: Sequence[BuildRequest]) -> bool:
    """Workers find index types by name, so types that are not registered stay in this process."""
    if count < WORKER_SLICES or (os.cpu_count() or 1) == 1 or not sys.executable:
        return False
    try:
        return all(index_type(request.kind.name) is request.kind for request in requests)
    except IndexDefinitionError:
        return False


def _chunks(snapshot: Snapshot, ordinals: NDArray[np.intp]) -> Iterator[Chunk]:
    for start in range(0, len(ordinals), CHUNK_SLICES):
        at = _indices(ordinals[start : start + CHUNK_SLICES])
        uris: Any = snapshot.columns.column("base_file").take(at).to_pylist()
        yield Chunk(start, uris, snapshot.columns.column("base_size").take(at).to_pylist())


def _indices(ordinals: NDArray[np.intp]) -> pa.Int64Array:
    return pa.array(ordinals.astype(np.int64, copy=False), pa.int64())


def run_chunk(chunk: Chunk, options: Mapping[str, str], requests: Sequence[BuildRequest]) -> ChunkResult:
    """Run the kernel over the slices of a chunk, one after another."""
    gathered = Gathered(requests)
    for position, uri, size in chunk:
        gathered.add(position, read_slice(uri, size, options, requests))
    return ChunkResult(len(chunk.uris), gathered.tables(), gathered.failures)


def _in_threads(
    chunks: Iterable[Chunk], options: Mapping[str, str], requests: Sequence[BuildRequest]
) -> Iterator[ChunkResult]:
    def read(at: tuple[int, str, int | None]) -> tuple[int, list[Recorded | Failure]]:
        position, uri, size = at
        return position, read_slice(uri, size, options, requests)

    with ThreadPoolExecutor(REMOTE_THREADS) as threads:
        for chunk in chunks:
            gathered = Gathered(requests)
            for position, results in threads.map(read, chunk):
                gathered.add(position, results)
            yield ChunkResult(len(chunk.uris), gathered.tables(), gathered.failures)


def _still_same(source: TableSource, snapshot: Snapshot, ordinals: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Tell for each slice whether its file is still what it was when the snapshot was taken.

    Hudi never writes under a file name twice, so there the name suffices.
    """
    if source.format == "hudi":
        return np.ones(len(ordinals), np.bool_)
    now = source.snapshot(snapshot)
    if now is snapshot:
        return np.ones(len(ordinals), np.bool_)
    return locate(now.keys, snapshot.keys.take(_indices(ordinals))) >= 0


def _changed(
    snapshot: Snapshot,
    ordinals: NDArray[np.intp],
    same: NDArray[np.bool_],
    requests: Sequence[BuildRequest],
) -> Iterator[Failure]:
    for ordinal in ordinals[~same]:
        uri = snapshot.columns.column("base_file")[int(ordinal)].as_py()
        for request in requests:
            yield Failure(uri, request.name, "the file changed while it was read: refresh the index again")


def _joined(request: BuildRequest, tables: list[pa.Table], same: NDArray[np.bool_]) -> pa.Table:
    """One table in the order of slices, without those that changed."""
    if not tables:
        kind = request.kind
        columns: Any = kind.record_schema if isinstance(kind, RowIndexType) else pa.schema([])
        return columns.append(pa.field(SLICE_COLUMN, pa.int32(), nullable=False)).empty_table()
    # Worker processes finish in any order; every chunk by itself is sorted.
    tables.sort(key=lambda table: table.column(SLICE_COLUMN)[0].as_py())
    joined = pa.concat_tables(tables).combine_chunks()
    if same.all():
        return joined
    return joined.filter(pa.array(same[joined.column(SLICE_COLUMN).to_numpy()]))
