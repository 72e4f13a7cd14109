"""Plans over up to ten million made-up slices, each size in its own process: time, memory, and what grows.

The snapshot is made beforehand and read from a file, so that a process holds just what a table of that size takes.
BENCH_MAX skips larger ones. CPU time, medians; each text is new. Beside a plan is the time that NumPy takes to
compare two columns of integers. A hundred million slices are extrapolated linearly from the two largest sizes, not
measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import count as numbers
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.lakes.records import CARRIERS, ROWS_PER_FILE, integer_records, string_records
from pruner.arrow import arrow, compute, text_array
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.binding.bind import bind
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.limits import SEGMENT_SLICES
from pruner.metadata import FieldBinding, MetadataTable, define
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.segments import batch_table
from pruner.metadata.state import FILES
from pruner.planning.planner import Planner
from pruner.schema import Field, TableSchema
from pruner.storage.opening import open_store
from pruner.tables.snapshot import SLICE_COLUMNS, Descent, Partitions, Snapshot

SIZES = (10_000, 1_000_000, 10_000_000)
RUNS = 41
PARTITIONS = 1000
CHANGED = 100
TYPES = {"event": pa.int64(), "carrier": pa.string()}
SEMANTICS = Semantics.of("duckdb")
INDEX_MEMORY = 4 << 30
"""The records of ten million slices are larger than what a table holds by default."""


HEADINGS = {
    "range, ms": 2,
    "two columns compared, ms": 2,
    "two conjuncts, ms": 2,
    "first plan, s": 2,
    f"after {CHANGED} changes, ms": 1,
    "imports, MiB": 0,
    "snapshot": 0,
    "one column": 0,
    "both": 0,
}
"""What is measured, and the number of decimals shown."""

EXTRAPOLATED = 100_000_000


def run(console: Console) -> None:
    """Measure each size in its own process."""
    largest = int(os.environ.get("BENCH_MAX", str(SIZES[-1])))
    console.print(table({count: measured(count) for count in SIZES if count <= largest}))


def table(found: dict[int, list[float]]) -> Grid:
    """The figures of each size, and those of a hundred million extrapolated from the last two."""
    grid = Grid(title=f"plans over made-up slices; processor time, medians of {RUNS} new texts; MiB resident")
    for heading in ("slices", *HEADINGS):
        grid.add_column(heading, justify="right")
    rows = {f"{count:,}": figures for count, figures in found.items()}
    if len(found) > 1:
        rows[f"{EXTRAPOLATED:,}, extrapolated"] = extrapolated(found, EXTRAPOLATED)
    for title, figures in rows.items():
        shown = zip(figures, HEADINGS.values(), strict=True)
        grid.add_row(title, *(f"{figure:,.{decimals}f}" for figure, decimals in shown))
    return grid


def extrapolated(found: dict[int, list[float]], count: int) -> list[float]:
    """A linear extrapolation from the two largest sizes to another one."""
    less, most = sorted(found)[-2:]
    share = (count - less) / (most - less)
    return [low + share * (high - low) for low, high in zip(found[less], found[most], strict=True)]


def measured(count: int) -> list[float]:
    """The figures of one size, as `HEADINGS` has them."""
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), count)
        command = [sys.executable, "-m", "benchmarks.planning.scale", folder, str(count)]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _write(folder: Path, count: int) -> None:
    """Write the slices of a table, and an index over both columns."""
    slices = pa.array(np.arange(count))
    texts: Any = compute.cast(slices, pa.string())
    names = compute.binary_join_element_wise("part-", texts, ".parquet", "")
    partition = np.arange(count) * PARTITIONS // count
    known: dict[str, Any] = {
        "partition": pa.array(partition.astype(np.int32)),
        "file_id": names,
        "base_file": compute.binary_join_element_wise("s3://lake/events/", names, ""),
        "base_size": pa.array(np.full(count, 1 << 24)),
        "base_version": texts,
        "unsettled": pa.array(np.zeros(count, np.bool_)),
    }
    columns = [known.get(field.name, pa.nulls(count, field.type)) for field in SLICE_COLUMNS]
    keys = np.random.default_rng(1).integers(0, 1 << 62, 2 * count).tobytes()
    held = pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(keys)])
    table = pa.table([*columns, held], names=[*SLICE_COLUMNS.names, "key"])
    with pa.OSFile(str(folder / "slices"), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    _index(folder, _snapshot(folder), count)


def _snapshot(folder: Path) -> Snapshot:
    with pa.OSFile(str(folder / "slices"), "rb") as file:
        table = pa.ipc.open_file(file).read_all().combine_chunks()
    schema = TableSchema(tuple(Field((name,), type_) for name, type_ in TYPES.items()))
    paths = Partitions(text_array([f"batch={number}" for number in range(PARTITIONS)]))
    keys = table.column("key").combine_chunks()
    columns = table.drop_columns(["key"]).cast(SLICE_COLUMNS)
    return Snapshot("made up", schema, columns, keys, paths, "s3://lake/events")


def _index(folder: Path, snapshot: Snapshot, count: int) -> None:
    metadata = MetadataTable(open_store(str(folder / "index")))
    definition = define(
        "i", "column_stats", tuple(FieldBinding((n,), str(t), None) for n, t in TYPES.items())
    )
    metadata.commit(lambda state: state.with_definition(definition))
    first = np.random.default_rng(11).integers(0, len(CARRIERS) - 4, count)
    entries: list[Any] = []
    for start in range(0, count, SEGMENT_SLICES):
        at = np.arange(start, min(count, start + SEGMENT_SLICES))
        batch = metadata.write_segment(FILES, batch_table(snapshot, at.astype(np.intp)))
        low = at * ROWS_PER_FILE
        records = {
            "event": integer_records(low, low + ROWS_PER_FILE - 1),
            "carrier": string_records(CARRIERS[first[at]], CARRIERS[first[at] + 3]),
        }
        entries.append(batch)
        entries += [
            metadata.write_segment("column_stats", each, definition=definition, field=(name,), batch=batch)
            for name, each in records.items()
        ]
    metadata.commit(lambda newest: newest.with_segments(entries))


def _measure(folder: Path, count: int) -> list[float]:
    """Time and memory of this process, as a row of the table."""
    imported = _resident()
    metadata = MetadataTable(open_store(str(folder / "index")))
    snapshot = _snapshot(folder)
    listed = _resident()
    cache = SegmentCache(lambda: metadata, INDEX_MEMORY)
    state = metadata.state()
    evidence = SnapshotEvidence(snapshot, state, cache)
    planner = Planner(snapshot, evidence)
    turn = numbers()
    middle, last = count // 2 * ROWS_PER_FILE, (count - min(5000, count // 2)) * ROWS_PER_FILE

    def in_range() -> None:
        k = next(turn)
        _plan(planner, snapshot, f"event BETWEEN {middle - 1 - k} AND {middle + k}")

    def conjuncts() -> None:
        _plan(planner, snapshot, f"carrier = 'AA' AND event > {last + next(turn)}")

    first = _seconds(in_range)
    ranges = median(_seconds(in_range) for _ in range(RUNS))
    one = _resident()
    conjuncts()
    both = median(_seconds(conjuncts) for _ in range(RUNS))
    sizes = (imported, listed, one, _resident())
    changed = _changed(snapshot)

    def follow() -> None:
        nonlocal planner
        planner = Planner(changed, SnapshotEvidence(changed, state, cache, before=evidence))
        in_range()

    after = median(_seconds(follow) for _ in range(5))
    times = (1e3 * ranges, 1e3 * _compared(count, middle), 1e3 * both, first, 1e3 * after)
    return [*times, *sizes]


def _compared(count: int, middle: int) -> float:
    """Seconds that NumPy takes to compare the bounds of all slices with a range."""
    low = np.arange(count, dtype=np.int64) * ROWS_PER_FILE
    high = low + ROWS_PER_FILE - 1

    def compare() -> None:
        kept = np.flatnonzero((high >= middle - 1) & (low <= middle))
        assert len(kept) == min(2, count)

    return median(_seconds(compare) for _ in range(RUNS))


def _changed(snapshot: Snapshot) -> Snapshot:
    """The snapshot after some slices were replaced by new ones."""
    count = len(snapshot)
    origin = np.arange(count, dtype=np.int32)
    origin[:: max(1, count // CHANGED)] = -1
    held_before: Any = snapshot.keys.buffers()[1]
    keys = np.frombuffer(held_before, np.uint8).reshape(-1, 16)[:count].copy()
    keys[origin < 0, :8] ^= 255
    held: Any = pa.Array.from_buffers(pa.binary(16), count, [None, pa.py_buffer(keys.tobytes())])
    return replace(snapshot, id="changed", keys=held, descent=Descent(snapshot.id, origin))


def _plan(planner: Planner, snapshot: Snapshot, text: str) -> None:
    predicate = bind(parse_predicate(text, SEMANTICS), snapshot.schema, SEMANTICS, strict=True)
    assert 0 < len(list(planner.plan(predicate, text, SEMANTICS).files)) < 1000


def _seconds(run: Any) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def _resident() -> float:
    """Memory of this process in MiB, without what Arrow's pools keep for reuse."""
    arrow.default_memory_pool().release_unused()
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


if __name__ == "__main__":
    print(json.dumps(_measure(Path(sys.argv[1]), int(sys.argv[2]))))
