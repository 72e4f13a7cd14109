"""Opening a large Hudi table from the snapshot that a writer stored: decoding it, and making it columns.

The slices are made up, without log files. Each size in a process of its own: processor time, and memory above the
imports. BENCH_GROUPS names other sizes, with commas between them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from pruner.arrow import compute, text_array
from pruner.metadata import MetadataTable
from pruner.metadata.state import FILES, SavedSnapshot
from pruner.storage.opening import open_store
from pruner.tables.hudi.slice_columns import STORED_COLUMNS, HudiColumns

PARTITIONS = 1000
INSTANT = "20240101000000000"
T = TypeVar("T")


def run(console: Console) -> None:
    """Store and open made-up snapshots of 100,000 and 1,000,000 file groups."""
    grid = Grid(title="a stored snapshot opened: seconds of a processor, MiB above the imports")
    for heading in ("file groups", "stored, MB", "decoded", "made columns", "resident"):
        grid.add_column(heading, justify="right")
    for count in map(int, os.environ.get("BENCH_GROUPS", "100000,1000000").split(",")):
        with tempfile.TemporaryDirectory() as folder:
            stored = _store(folder, count)
            command = [sys.executable, "-m", "benchmarks.hudi.opening", folder]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            decoded, made, resident = json.loads(done.stdout)
        grid.add_row(f"{count:,}", f"{stored / 1e6:.0f}", f"{decoded:.2f}", f"{made:.2f}", f"{resident:,.0f}")
    console.print(grid)


def _store(folder: str, count: int) -> int:
    """Store a snapshot; returns its bytes."""
    metadata = MetadataTable(open_store(folder))
    segment = metadata.write_segment(FILES, _slices(count))
    saved = SavedSnapshot(id="made up", segment=segment)
    metadata.commit(lambda state: msgspec.structs.replace(state, last_snapshot=saved))
    return segment.size


def _slices(count: int) -> pa.Table:
    ordinals = np.arange(count)
    texts: Any = compute.cast(pa.array(ordinals), pa.string())
    join = compute.binary_join_element_wise
    ids = join("9f2c1d33-6a0b-4f7e-9c1e-", compute.utf8_lpad(texts, 12, "0"), "")
    partition: Any = pa.array((ordinals * PARTITIONS // count).astype(np.int32))
    paths = text_array([f"city={number:04}" for number in range(PARTITIONS)])
    keys = np.random.default_rng(1).bytes(16 * count)
    known: dict[str, Any] = {
        "slice_key": pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(keys)]),
        "partition_path": pa.DictionaryArray.from_arrays(partition, paths),
        "file_id": ids,
        "base_file": join(ids, f"_1-0-1_{INSTANT}.parquet", ""),
        "base_size": pa.array(np.full(count, 1 << 24)),
        "base_instant": compute.cast(pa.array(np.full(count, int(INSTANT))), pa.string()),
        "unsettled": pa.array(np.zeros(count, np.bool_)),
    }
    columns = [known.get(field.name, pa.nulls(count, field.type)) for field in STORED_COLUMNS]
    return pa.table(columns, schema=STORED_COLUMNS)


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    return call(), time.process_time() - started


def _resident() -> float:
    with open("/proc/self/status") as status:  # noqa: PTH123 - a file of the kernel
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def _opened(folder: str) -> list[float]:
    metadata = MetadataTable(open_store(folder))
    saved = metadata.state().last_snapshot
    assert saved is not None
    before = _resident()
    table, decoded = _timed(lambda: metadata.read_saved(saved))
    columns, made = _timed(lambda: HudiColumns.from_stored("s3://lake/trips", table, {}))
    assert len(columns) == saved.segment.rows
    return [decoded, made, _resident() - before]


if __name__ == "__main__":
    print(json.dumps(_opened(sys.argv[1])))
