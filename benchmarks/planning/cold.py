"""The first plan of a process: what it reads of the indexes and its time, with and without `partition_stats`.

The snapshot is made up and in memory, so that only the metadata table is measured. `id` ascends with the slices,
`carrier` with the partitions; `sensor` has about the same values everywhere, so no group can be excluded.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.lakes.records import CARRIERS, ROWS_PER_FILE, integer_records, string_records
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.binding.bind import bind
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.indexes.partition_stats import SliceBatch, write_records
from pruner.indexes.registry import index_type
from pruner.metadata import FieldBinding, MetadataTable, SegmentEntry, State, define
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.segments import batch_table
from pruner.metadata.state import FILES
from pruner.pipeline.batches import BATCH_SLICES
from pruner.planning.planner import Planner
from pruner.schema import Field, TableSchema
from pruner.storage.opening import open_store
from pruner.tables.snapshot import SLICE_COLUMNS, Partitions, Snapshot

SIZES = ((100_000, 100), (1_000_000, 1_000))
RUNS = 3
TYPES = {"id": pa.int64(), "carrier": pa.string(), "sensor": pa.int64()}
SEMANTICS = Semantics.of("spark")


class _Counting(MetadataTable):
    """Counts the bytes of segments read."""

    read = 0

    def read_segment(
        self, entry: SegmentEntry, only: Sequence[str] | None = None, but: Sequence[str] = ()
    ) -> pa.Table:
        """Read a segment."""
        self.read += entry.size
        return super().read_segment(entry, only, but)


def run(console: Console) -> None:
    """Measure three predicates; BENCH_MAX=100000 skips larger tables."""
    largest = int(os.environ.get("BENCH_MAX", str(SIZES[-1][0])))
    for count, partitions in SIZES:
        if count <= largest:
            with tempfile.TemporaryDirectory() as folder:
                _measure(console, folder, count, partitions)


def _measure(console: Console, folder: str, count: int, partitions: int) -> None:
    snapshot = _snapshot(count, partitions)
    state = _index(folder, snapshot)
    bare = msgspec.structs.replace(
        state, segments=tuple(msgspec.structs.replace(e, partition_stats=None) for e in state.segments)
    )
    changed = _without_every(snapshot, 1000)
    grid = Grid(title=f"first plan of {count:,} slices in {partitions:,} partitions; medians of {RUNS}")
    for heading in ("predicate", "kept", "MB read", "without", "ms", "without"):
        grid.add_column(heading, justify="left" if heading == "predicate" else "right")
    cases = [
        (f"id = {count // 2 * ROWS_PER_FILE}", snapshot, ""),
        ("carrier = 'MM'", snapshot, ""),
        (f"id = {count // 2 * ROWS_PER_FILE} AND sensor > 5", snapshot, ""),
        ("sensor = 5", snapshot, ""),
        (f"id = {(count // 2 + 1) * ROWS_PER_FILE}", changed, ", after 0.1 % of the slices went"),
    ]
    for text, shown, note in cases:
        kept, size, seconds = _first_plan(folder, shown, state, text)
        as_before, size_bare, seconds_bare = _first_plan(folder, shown, bare, text)
        assert kept == as_before, (text, kept, as_before)
        figures = [
            f"{size / 1e6:.2f}",
            f"{size_bare / 1e6:.2f}",
            f"{seconds * 1e3:.0f}",
            f"{seconds_bare * 1e3:.0f}",
        ]
        grid.add_row(text + note, f"{kept:,}", *figures)
    console.print(grid)


def _first_plan(folder: str, snapshot: Snapshot, state: State, text: str) -> tuple[int, int, float]:
    """Slices kept, bytes of segments read, and seconds."""
    times: list[float] = []
    kept = size = 0
    for _ in range(RUNS):
        metadata = _Counting(open_store(folder))
        started = time.perf_counter()
        cache = SegmentCache(lambda: metadata)  # noqa: B023 - used in this turn alone
        planner = Planner(snapshot, SnapshotEvidence(snapshot, state, cache))
        predicate = bind(parse_predicate(text, SEMANTICS), snapshot.schema, SEMANTICS, strict=True)
        kept = planner.plan(predicate, text, SEMANTICS).kept
        times.append(time.perf_counter() - started)
        size = metadata.read
    return kept, size, float(np.median(times))


def _snapshot(count: int, partitions: int) -> Snapshot:
    rng = np.random.default_rng(1)
    partition = (np.arange(count) // (count // partitions)).astype(np.int32)
    ids = [rng.bytes(16).hex() for _ in range(count)]
    files = [f"s3://lake/t/day={p:04}/{name}_0.parquet" for p, name in zip(partition, ids, strict=True)]
    known = {
        "partition": partition,
        "file_id": ids,
        "base_file": files,
        "base_size": rng.integers(10**7, 10**8, count),
        "base_instant": ["20240101000000000"] * count,
        "unsettled": np.zeros(count, np.bool_),
    }
    columns = [known.get(f.name, pa.nulls(count, f.type)) for f in SLICE_COLUMNS]
    table = pa.table(columns, schema=SLICE_COLUMNS)
    schema = TableSchema(tuple(Field((name,), type_) for name, type_ in TYPES.items()))
    keys = pa.array([rng.bytes(16) for _ in range(count)], pa.binary(16))
    paths = Partitions(pa.array([f"day={number:04}" for number in range(partitions)]))
    return Snapshot("s", schema, table, keys, paths, "s3://lake/t")


def _without_every(snapshot: Snapshot, step: int) -> Snapshot:
    kept: Any = pa.array(np.flatnonzero(np.arange(len(snapshot)) % step != 0))
    return Snapshot(
        "t", snapshot.schema, snapshot.rows(kept).combine_chunks(), snapshot.keys.take(kept),
        snapshot.partitions, snapshot.root,
    )  # fmt: skip


def _index(folder: str, snapshot: Snapshot) -> State:
    count = len(snapshot)
    rng = np.random.default_rng(11)
    metadata = MetadataTable(open_store(folder))
    fields = tuple(FieldBinding((name,), str(type_), None) for name, type_ in TYPES.items())
    definition = define("i", "column_stats", fields)
    metadata.commit(lambda state: state.with_definition(definition))
    starts = np.arange(count, dtype=np.int64) * ROWS_PER_FILE
    carrier = np.arange(count) * (len(CARRIERS) - 4) // count
    sensor = rng.integers(0, 100, count)
    entries: list[SegmentEntry] = []
    for first in range(0, count, BATCH_SLICES):
        at = np.arange(first, min(first + BATCH_SLICES, count))
        slices = batch_table(snapshot, at)
        batch = SliceBatch(metadata.write_segment(FILES, slices), slices, at)
        entries.append(batch.entry)
        for name, records in (
            ("id", integer_records(starts[at], starts[at] + ROWS_PER_FILE - 1)),
            ("carrier", string_records(CARRIERS[carrier[at]], CARRIERS[carrier[at] + 3])),
            ("sensor", integer_records(sensor[at], sensor[at] + 10)),
        ):
            kind = index_type(definition.using)
            entries.append(write_records(metadata, kind, records, batch, definition, (name,)))
    return metadata.commit(lambda state: state.with_segments(entries))
