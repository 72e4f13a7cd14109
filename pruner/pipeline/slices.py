"""Runs the kernel over slices on this machine: in process, or in worker processes if there is enough to do.

Reading waits for disks and stores; recording needs the CPU. So there is one process for each core, and each reads
several files at once, more from an object store than from a disk. Slices are processed in chunks, and the Python
objects of a slice live only as long as its chunk.
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
from pruner.indexes.registry import index_type
from pruner.pipeline.kernel import Gathered, read_slice
from pruner.pipeline.requests import Chunk, ChunkResult, SliceFiles
from pruner.pipeline.workers import run_in_workers
from pruner.tables.snapshot import READ_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.pipeline.kernel import Recorded
    from pruner.pipeline.requests import BuildRequest, Failure

CHUNK_SLICES = 1024
"""Most slices of a chunk: those that are Python objects at once, and the longest step of the progress."""

CHUNK_BYTES = 256 * 1024**2
"""Most bytes of files in a chunk, so that a few large files are also distributed among the workers."""

WORKER_SLICES = 16 * CHUNK_SLICES
"""Slices from which on worker processes pay: they start in a second, in which one process reads thousands."""

WORKER_BYTES = 1024**3
"""Bytes of files from which on worker processes pay, however few the files are."""

REMOTE_THREADS = 32
"""Remote files that are read at once: they wait for the store, not for the CPU."""

LARGE_FILE_BYTES = 4 * 1024**2
LARGE_FILE_THREADS = 2
"""Number of local files of this size that a process reads at once: one is decoded while the other is fetched."""


def run_slices(
    slices: pa.Table, options: Mapping[str, str], requests: Sequence[BuildRequest]
) -> Iterator[ChunkResult]:
    """Make the requested records of some slices; results come chunk by chunk, in any order.

    Args:
        slices: `READ_COLUMNS` of each slice; positions in the results are rows of this table.
        options: options of the object store.
        requests: what to record of each slice.
    """
    chunks = chunks_of(slices)
    count = os.cpu_count() or 1
    if count > 1 and _workers_pay(slices, requests):
        yield from run_in_workers(chunks, options, requests, count, run_chunk)
    else:
        for chunk in chunks:
            yield run_chunk(chunk, options, requests)


def run_chunk(chunk: Chunk, options: Mapping[str, str], requests: Sequence[BuildRequest]) -> ChunkResult:
    """Run the kernel over the slices of a chunk; the records are not always in the order of the slices."""
    gathered = Gathered(requests)
    amounts: list[int] = []

    def read(files: SliceFiles) -> list[Recorded | Failure]:
        return read_slice(files, options, requests, amounts.append)

    threads = min(_threads(chunk), len(chunk))
    if threads > 1:
        with ThreadPoolExecutor(threads) as pool:
            for files, results in zip(chunk, pool.map(read, chunk), strict=True):
                gathered.add(files, results)
    else:
        for files in chunk:
            gathered.add(files, read(files))
    return ChunkResult(chunk.start, len(chunk), gathered.tables(), gathered.failures, sum(amounts))


def cut(sizes: NDArray[np.int64], most: int, most_bytes: int) -> Iterator[tuple[int, int]]:
    """Cut consecutive slices into parts (start, stop) of at least one slice, within bounds on slices and bytes."""
    ends = np.cumsum(sizes)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + most_bytes, side="right"))
        stop = min(max(fitting, start + 1), start + most, len(sizes))
        yield start, stop
        start = stop


def chunks_of(slices: pa.Table) -> Iterator[Chunk]:
    """Cut slices into chunks."""
    for start, stop in cut(sizes_of(slices), CHUNK_SLICES, CHUNK_BYTES):
        yield Chunk(start, slices.slice(start, stop - start))


def sizes_of(slices: pa.Table) -> NDArray[np.int64]:
    """Size in bytes of the files of each slice."""
    sizes = np.zeros(slices.num_rows, np.int64)
    for name in ("base_size", "log_size"):
        column: Any = slices.column(name)
        sizes += column.fill_null(pa.scalar(0, pa.int64())).to_numpy()
    return sizes


def _workers_pay(slices: pa.Table, requests: Sequence[BuildRequest]) -> bool:
    """Workers find index types by name, so types that are not registered stay in this process."""
    if slices.num_rows < WORKER_SLICES and int(sizes_of(slices).sum()) < WORKER_BYTES:
        return False
    # Other processes cannot read an in-memory store of this process.
    if not sys.executable or _place(slices).startswith("memory:"):
        return False
    try:
        return all(index_type(request.kind.name) is request.kind for request in requests)
    except IndexDefinitionError:
        return False


def _threads(chunk: Chunk) -> int:
    if not _place(chunk.slices).startswith("/"):
        return REMOTE_THREADS
    large = int(sizes_of(chunk.slices).sum()) >= LARGE_FILE_BYTES * len(chunk)
    return LARGE_FILE_THREADS if large else 1


def _place(slices: pa.Table) -> str:
    first = slices.slice(0, 1).to_pylist()
    return SliceFiles(0, *[first[0][name] for name in READ_COLUMNS]).name if first else "/"
