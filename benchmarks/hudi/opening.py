"""Opening a large Hudi table from the snapshot that a writer stored: as a whole, and by blocks with a first plan.

The slices are made up, without log files. Each size and way runs in its own process: CPU time, and memory above the
imports. BENCH_GROUPS names other sizes, separated by commas. BENCH_SIMULATED names sizes that are simulated: the data
of a block are made up when read, and there is no index.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count as numbers
from statistics import median
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import xxhash
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.lakes.records import ROWS_PER_FILE, integer_records
from pruner.arrow import arrow, compute, text_array
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.binding.bind import bind
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.indexes.partition_stats import SliceBatch, write_records
from pruner.indexes.registry import index_type
from pruner.metadata import FieldBinding, MetadataTable, define
from pruner.metadata.ranged import Blocks
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.segments import batch_table, read_saved, saved_blocks
from pruner.metadata.state import FILES, SavedSnapshot
from pruner.pipeline.batches import BATCH_SLICES
from pruner.planning.planner import Planner
from pruner.schema import Field, TableSchema
from pruner.storage.opening import open_store
from pruner.tables.hudi import blocks, saved
from pruner.tables.hudi.blocks import StoredSlices
from pruner.tables.hudi.properties import HudiProperties
from pruner.tables.hudi.slice_columns import STORED_COLUMNS, HudiColumns
from pruner.tables.hudi.timeline import Timeline
from pruner.tables.snapshot import Partitions, Snapshot

ROOT = "s3://lake/trips"
PARTITIONS = 1000
INSTANT = "20240101000000000"
RUNS = 21
SEMANTICS = Semantics.of("spark")
T = TypeVar("T")

HEADINGS = {
    "whole": ("decoded, s", "made columns, s", "MiB"),
    "blocks": ("opened, s", "MiB", "a partition, ms", "again", "a value, ms", "again", "MiB"),
}


def run(console: Console) -> None:
    """Store and open made-up snapshots of 100,000 and 1,000,000 file groups."""
    found: dict[str, list[list[str]]] = {way: [] for way in HEADINGS}
    for count in map(int, os.environ.get("BENCH_GROUPS", "100000,1000000").split(",")):
        with tempfile.TemporaryDirectory() as folder:
            stored = _store(folder, count)
            for way, rows in found.items():
                rows.append([f"{count:,}", f"{stored / 1e6:.0f}", *_figures(folder, way)])
    for count in map(int, filter(None, os.environ.get("BENCH_SIMULATED", "").split(","))):
        found["blocks"].append([f"{count:,}, simulated", "", *_figures(str(count), "simulated")])
    for way, rows in found.items():
        grid = Grid(title=f"a stored snapshot opened ({way}); processor time, resident above the imports")
        for heading in ("file groups", "stored, MB", *HEADINGS[way]):
            grid.add_column(heading, justify="right")
        for row in rows:
            grid.add_row(*row)
        console.print(grid)


def _figures(place: str, way: str) -> list[str]:
    """The figures of a separate process."""
    command = [sys.executable, "-m", "benchmarks.hudi.opening", place, way]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    figures: list[float | None] = json.loads(done.stdout)
    return [
        "" if figure is None else f"{figure:,.2f}" if figure < 10 else f"{figure:,.0f}" for figure in figures
    ]


def _store(folder: str, count: int) -> int:
    """Store a snapshot and an index over an ascending column; returns the bytes of the snapshot."""
    metadata = MetadataTable(open_store(folder))
    columns = HudiColumns.from_stored(ROOT, _slices(count), {})
    look = saved.save(_timeline(), columns)
    segment = metadata.write_segment(FILES, look.table, layout=Blocks(look.blocks) if look.blocks else None)
    snapshot = _snapshot(columns, columns.columns)
    definition = define("i", "column_stats", (FieldBinding(("event",), "int64", None),))
    kind, entries = index_type("column_stats"), list[Any]()
    for start in range(0, count, BATCH_SLICES):
        at = np.arange(start, min(count, start + BATCH_SLICES))
        table = batch_table(snapshot, at.astype(np.intp))
        batch = metadata.write_segment(FILES, table)
        low = at * ROWS_PER_FILE
        records = integer_records(low, low + ROWS_PER_FILE - 1)
        entries += [
            batch,
            write_records(metadata, kind, records, SliceBatch(batch, table, at), definition, ("event",)),
        ]
    metadata.commit(
        lambda state: (
            state.with_definition(definition)
            .with_segments(entries)
            .with_snapshot(SavedSnapshot(id=look.id, segment=segment))
        )
    )
    return segment.size


def _timeline() -> Timeline:
    return Timeline(HudiProperties({}, b""), (), (), ())


def _snapshot(known: Any, columns: Any) -> Snapshot:
    schema = TableSchema(
        (Field(("event",), pa.int64()), Field(("city",), pa.string(), partition=True, in_file=False))
    )
    cities = text_array([path.removeprefix("city=") for path in known.paths])
    partitions = Partitions(text_array(known.paths), {("city",): cities}, frozenset([("city",)]))
    return Snapshot("made up", schema, columns, known.keys, partitions, ROOT)


def _slices(count: int, start: int = 0, stop: int | None = None) -> pa.Table:
    """Slices of a table of `count`, in the stored form."""
    ordinals = np.arange(start, count if stop is None else stop)
    count_here = len(ordinals)
    texts: Any = compute.cast(pa.array(ordinals), pa.string())
    join = compute.binary_join_element_wise
    ids = join("9f2c1d33-6a0b-4f7e-9c1e-", compute.utf8_lpad(texts, 12, "0"), "")
    partition: Any = pa.array((ordinals * PARTITIONS // count).astype(np.int32))
    paths = text_array([f"city={number:04}" for number in range(PARTITIONS)])
    known: dict[str, Any] = {
        "slice_key": _keys(ordinals),
        "partition_path": pa.DictionaryArray.from_arrays(partition, paths),
        "file_id": ids,
        "base_file": join(ids, f"_1-0-1_{INSTANT}.parquet", ""),
        "base_size": pa.array(np.full(count_here, 1 << 24)),
        "base_instant": compute.cast(pa.array(np.full(count_here, int(INSTANT))), pa.string()),
        "unsettled": pa.array(np.zeros(count_here, np.bool_)),
    }
    columns = [known.get(field.name, pa.nulls(count_here, field.type)) for field in STORED_COLUMNS]
    return pa.table(columns, schema=STORED_COLUMNS)


def _keys(ordinals: NDArray[np.int64]) -> pa.Array[Any]:
    """Keys as random as real ones, and the same every time."""
    word = ordinals.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    words = np.stack(
        [word ^ (word >> np.uint64(29)), (word ^ (word >> np.uint64(32))) * np.uint64(0xBF58476D1CE4E5B9)], 1
    )
    return arrow.Array.from_buffers(pa.binary(16), len(ordinals), [None, arrow.py_buffer(words)])


def _digest(start: int, stop: int) -> str:
    data: Any = _keys(np.arange(start, stop)).buffers()[1]
    return xxhash.xxh3_128_hexdigest(data)


class _MadeUpBlocks:
    """Blocks that are not stored: see `SavedBlocks`."""

    schema = STORED_COLUMNS
    described: Mapping[bytes, bytes] = {}

    def __init__(self, count: int) -> None:
        self.count = count
        self.partitions = PARTITIONS * count // 10_000_000
        ends = np.arange(1, self.partitions + 1) * count // self.partitions
        cuts = [0]
        for end in ends.tolist():
            cuts += [*range(cuts[-1] + blocks.BLOCK_SLICES, end, blocks.BLOCK_SLICES), end]
        self.cuts = cuts
        self.rows = tuple(np.diff(cuts).tolist())

    def directory(self) -> list[blocks.Block]:
        """What would be stored for each block."""
        return [
            blocks.Block(
                partitions=((f"city={start * self.partitions // self.count:05}", rows),),
                first=f"{start:036}-0",
                keys=_digest(start, start + rows),
                size=rows << 24,
                all_settled=True,
                all_based=True,
                any_logs=False,
            )
            for start, rows in zip(self.cuts, self.rows, strict=False)
        ]

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        """Make up some columns of some blocks."""
        numbers_ = list(range(len(self.rows)) if groups is None else groups)
        start, stop = self.cuts[numbers_[0]], self.cuts[numbers_[-1] + 1]
        if list(names) == ["slice_key"]:
            return pa.table({"slice_key": _keys(np.arange(start, stop))})
        table = _slices(self.count, start, stop)
        path: Any = pa.array([f"city={start * self.partitions // self.count:05}"])
        alike = arrow.DictionaryArray.from_arrays(np.zeros(table.num_rows, np.int32), path)
        return table.set_column(1, table.schema.field(1), alike).select(list(names))


def _simulated(count: str) -> list[float | None]:
    made_up = _MadeUpBlocks(int(count))
    parts = made_up.directory()
    before = _resident()
    stored, opened = _timed(lambda: StoredSlices(ROOT, parts, made_up, {}, lambda: _never(_timeline())))
    after = _resident()
    snapshot = _snapshot(stored, stored)
    planner = Planner(snapshot, SnapshotEvidence(snapshot, None, SegmentCache(_no_metadata)))
    turn = numbers()

    def partition() -> None:
        _plan(planner, snapshot, f"city = '{next(turn) % 7 + made_up.partitions // 2:05}'")

    first = _timed(partition)[1]
    again = median(_timed(partition)[1] for _ in range(RUNS))
    return [opened, after - before, 1e3 * first, 1e3 * again, None, None, _resident() - before]


def _no_metadata() -> MetadataTable:
    raise AssertionError("there is no index")


def _timed(call: Callable[[], T]) -> tuple[T, float]:
    started = time.process_time()
    return call(), time.process_time() - started


def _resident() -> float:
    arrow.default_memory_pool().release_unused()
    with open("/proc/self/status") as status:  # noqa: PTH123 - a file of the kernel
        return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmRSS"))


def _whole(folder: str) -> list[float]:
    metadata = MetadataTable(open_store(folder))
    stored = metadata.state().last_snapshot
    assert stored is not None
    before = _resident()
    table, decoded = _timed(lambda: read_saved(metadata.store, stored))
    columns, made = _timed(lambda: HudiColumns.from_stored(ROOT, table, {}))
    assert len(columns) == stored.segment.rows
    return [decoded, made, _resident() - before]


def _blocks(folder: str) -> list[float]:
    metadata = MetadataTable(open_store(folder))
    before = _resident()
    (state, snapshot), opened = _timed(lambda: _opened(metadata))
    after = _resident()
    cache = SegmentCache(lambda: metadata)
    planner = Planner(snapshot, SnapshotEvidence(snapshot, state, cache))
    turn = numbers()

    def partition() -> None:
        _plan(planner, snapshot, f"city = '{next(turn) % 7 + PARTITIONS // 2:04}'")

    def value() -> None:
        _plan(planner, snapshot, f"event = {(len(snapshot) // 3 + next(turn)) * ROWS_PER_FILE}")

    times: list[float] = []
    for question in (partition, value):
        times += [_timed(question)[1], median(_timed(question)[1] for _ in range(RUNS))]
    return [opened, after - before, *(1e3 * seconds for seconds in times), _resident() - before]


def _opened(metadata: MetadataTable) -> tuple[Any, Snapshot]:
    """The state, and the snapshot by its blocks, or as a whole if it is too small for blocks."""
    state = metadata.state()
    stored = state.last_snapshot
    assert stored is not None
    if stored.segment.tail is None:
        columns = HudiColumns.from_stored(ROOT, read_saved(metadata.store, stored), {})
        return state, _snapshot(columns, columns.columns)
    loaded = saved.load_blocks(stored.id, saved_blocks(metadata.store, stored), ROOT, _never)
    assert loaded is not None
    return state, _snapshot(loaded[1], loaded[1])


def _never(_: Timeline) -> HudiColumns:
    raise AssertionError("the blocks are whole")


def _plan(planner: Planner, snapshot: Snapshot, text: str) -> None:
    predicate = bind(parse_predicate(text, SEMANTICS), snapshot.schema, SEMANTICS, strict=True)
    kept = len(list(planner.plan(predicate, text, SEMANTICS).files))
    assert 0 < kept <= max(2, 2 * len(snapshot) // PARTITIONS)


if __name__ == "__main__":
    print(json.dumps({"whole": _whole, "blocks": _blocks, "simulated": _simulated}[sys.argv[2]](sys.argv[1])))
