"""Bitmaps: building them, planning over up to a million slices, and queries on the flights of the demo.

Planning is measured over made-up snapshots and records: nothing is listed and no file is read.
"""

from __future__ import annotations

import os
import tempfile
import time
from array import array
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from benchmarks.duckdb import bitmap_positions
from benchmarks.timing import medians
from demo.flights import source_table
from pruner.evidence.sources import Source, Sources, of_records
from pruner.expr.binding.bind import bind
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.indexes.bitmap import BITMAP
from pruner.indexes.bitmap.index import DEFAULT_CARDINALITY
from pruner.indexes.bitmap.packing import checksum, encode
from pruner.indexes.bitmap.record import SLICE, VALUE, distinct_values, record_schema
from pruner.pipeline.footers import FileReader
from pruner.planning.plan import Plan
from pruner.planning.planner import Planner
from pruner.schema import Field, TableSchema
from pruner.tables.snapshot import SLICE_COLUMNS, Partitions, Snapshot

SLICE_COUNTS = (10_000, 100_000, 1_000_000)
ROWS = 96
RARE_HOLDERS = 20
"""Slices that hold each of the many values of `a` and `b`."""

RARE_PER_SLICE = 3
CARRIERS = 16
CARRIERS_PER_SLICE = 8
RUNS = 41
DENSE_RUNS = 31
AIM_DENSE_MS = 20.0
AIM_GROWTH = 2.0
AIM_AGAINST_READ = 4.0
AIM_AGAINST_UNPRUNED = 50.0
BUILD_FILES = 8
BUILD_ROWS = 1_000_000
FLIGHT_FILES = 2000

DENSE = "carrier = 'C03' AND a >= 0 AND carrier != 'C04'"
READING = "carrier = 'C03' AND a < {}"
"""By their counts, the rows that meet either condition may be different ones."""

SEMANTICS = Semantics.of("duckdb")
RARE, COMMON = pa.int64(), pa.string()
FIELDS = (Field(("a",), RARE), Field(("b",), RARE), Field(("carrier",), COMMON))


def run(console: Console) -> None:
    """Measure all of it; BENCH_MAX=100000 skips larger snapshots."""
    _build(console)
    _plan(console)
    _flights(console)
    bitmap_positions.run(console)


def _build(console: Console) -> None:
    grid = Grid(title=f"building: {BUILD_FILES} files of {BUILD_ROWS:,} rows; medians of 5, M rows/s")
    for heading in ("values", "read as dictionary", "files of values", "create_index", "bytes per row"):
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        for distinct in (10, 1000):
            grid.add_row(f"{distinct:,}", *_build_of(Path(folder) / str(distinct), distinct))
    console.print(grid)
    console.print(
        "Files of values: the part of the build by which whole files are found, without rows and without writing; "
        f"in brackets: times the dictionary read. Aim for it: at most {AIM_AGAINST_READ:g}"
    )


def _build_of(root: Path, distinct: int) -> list[str]:
    root.mkdir()
    rng = np.random.default_rng(7)
    names = np.array([f"value {number:04}" for number in range(distinct)])
    for number in range(BUILD_FILES):
        column = pa.array(names[rng.integers(0, distinct, BUILD_ROWS)])
        pq.write_table(pa.table({"s": column}), root / f"part-{number}.parquet")
    table = pruner.open_table(str(root))
    files = sorted(root.iterdir())

    def create() -> None:
        table.drop_index("built", if_exists=True)
        assert table.create_index("built", on="s", using="bitmap") is not None

    def read() -> None:
        for file in files:
            assert pq.ParquetFile(file, read_dictionary=["s"]).read(use_threads=False).num_rows

    def find_values() -> None:
        for file in files:
            with FileReader(str(file)) as reader:
                leaf = reader.footer.leaf(("s",))
                assert leaf is not None
                found = distinct_values(reader.encoded(leaf), pa.binary(), 1, DEFAULT_CARDINALITY)
                assert int(found.sizes.sum()) == BUILD_ROWS

    times = medians({"read": read, "find": find_values, "create": create}, 5)
    rows = BUILD_FILES * BUILD_ROWS
    per_row = table.status().indexes[0].bytes / rows
    rates = [f"{rows / taken / 1e6:.0f} ({taken / times['read']:.1f})" for taken in times.values()]
    return [*rates, f"{per_row:.2f}"]


def _plan(console: Console) -> None:
    largest = int(os.environ.get("BENCH_MAX", str(SLICE_COUNTS[-1])))
    counts = [count for count in SLICE_COUNTS if count <= largest]
    measured = {count: _plan_over(console, count) for count in counts}
    grid = Grid(title="predicate to list of files; medians in ms")
    names = ("rare", "listed", "dense", "strings", "read")
    for heading in (
        *("slices", "rare conjunction", "IN of 100 values"),
        *("dense conjunction", "the same as strings", "one that reads bitmaps"),
    ):
        grid.add_column(heading, justify="right")
    for count, times in measured.items():
        grid.add_row(f"{count:,}", *(f"{times[name] * 1e3:.2f}" for name in names))
    console.print(grid)
    console.print(
        f"dense: {DENSE}; files as an Arrow array, as adapters take them (aim: at most {AIM_DENSE_MS:g} ms), and as a "
        f"list of strings. One that reads bitmaps: {READING.format('n')}, of the slices that hold both, a sixth of all"
    )
    if counts[-1] > counts[0]:
        grown = {name: measured[counts[-1]][name] / measured[counts[0]][name] for name in measured[counts[0]]}
        shown = ", ".join(f"{name} {times:.1f}" for name, times in grown.items())
        console.print(
            f"growth {counts[0]:,} to {counts[-1]:,}: {shown} (aim for rare: at most {AIM_GROWTH:g})"
        )


class _MadeUpEvidence:
    """Stands in for `pruner.evidence.snapshot.SnapshotEvidence`: one bitmap source for each field."""

    def __init__(self, sources: dict[tuple[str, ...], Source]) -> None:
        self._sources = sources

    def sources(self, about: Field) -> Sources:
        return Sources([self._sources[about.path]])


def _plan_over(console: Console, count: int) -> dict[str, float]:
    rng = np.random.default_rng(count)
    pool = max(200, count * RARE_PER_SLICE // RARE_HOLDERS)
    started = time.perf_counter()
    rare = [_rare_values(rng, count, pool) for _ in range(2)]
    common = rng.permuted(np.tile(np.arange(CARRIERS), (count, 1)), axis=1)[:, :CARRIERS_PER_SLICE]
    records = [
        _records(field, values) for field, values in zip(FIELDS, [*rare, np.sort(common, 1)], strict=True)
    ]
    made = time.perf_counter() - started
    started = time.perf_counter()
    sources = {
        field.path: of_records(field.name, "bitmap", BITMAP.load(table, count, field))
        for field, table in zip(FIELDS, records, strict=True)
    }
    console.print(
        f"{count:,} slices: records made in {made:.1f} s, loaded in {time.perf_counter() - started:.1f} s"
    )
    evidence: Any = _MadeUpEvidence(sources)
    planner = Planner(_snapshot(count), evidence)
    at = rng.integers(0, count, 400)
    pairs = cycle([(int(rare[0][i, 0]), int(rare[1][i, 0])) for i in at])
    lists = cycle([", ".join(map(str, rng.choice(pool, 100, replace=False))) for _ in range(40)])

    def planned(text: str) -> Plan:
        bound = bind(parse_predicate(text, SEMANTICS), planner_schema, SEMANTICS)
        return planner.plan(bound, text, SEMANTICS)

    def plan(text: str) -> int:
        return len(list(planned(text).files))

    planner_schema = TableSchema(FIELDS)
    questions: dict[str, Callable[[], int]] = {
        "rare": lambda: plan("a = {} AND b = {}".format(*next(pairs))),
        "listed": lambda: plan(f"a IN ({next(lists)})"),
    }
    assert questions["rare"]() >= 1
    times = medians(questions, RUNS, warmups=5)
    dense: dict[str, Callable[[], int]] = {
        "dense": lambda: len(planned(DENSE).files_arrow),
        "strings": lambda: plan(DENSE),
    }
    times |= medians(dense, DENSE_RUNS)
    return times | medians({"read": lambda: plan(READING.format(pool // 9))}, 3)


def _rare_values(rng: np.random.Generator, count: int, pool: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Three different values of each slice, from a pool in which each has about as many holders."""
    third = pool // RARE_PER_SLICE
    return np.stack([rng.integers(0, third, count) + third * part for part in range(RARE_PER_SLICE)], axis=1)


def _records(field: Field, values: np.ndarray[Any, np.dtype[np.int64]]) -> pa.Table:
    """Records of slices whose rows cycle through the values; `values` has a row for each slice, ascending."""
    count, each = values.shape
    blobs = [encode(array("I", range(turn, ROWS, each))) for turn in range(each)]
    sums = [checksum(blob) for blob in blobs]
    entries = values.reshape(-1)
    stored: Any = pa.array(entries)
    if field.type == COMMON:
        names = pa.array([f"C{number:02}".encode() for number in range(CARRIERS)], pa.binary())
        stored = names.take(stored)
    total = count * each
    owners = np.concatenate([np.arange(count), np.repeat(np.arange(count), each)]).astype(np.int32)
    turns: Any = pa.array(np.tile(np.arange(each), count))
    schema = record_schema(field.type)
    header: dict[str, Any] = {"row_count": ROWS, "type": str(field.type), "usable": True, "absent": False}
    columns: dict[str, Any] = {
        "entry": np.concatenate([np.full(count, SLICE, np.int8), np.full(total, VALUE, np.int8)]),
        schema.names[1]: pa.concat_arrays([pa.nulls(count, stored.type), stored]),
        "cardinality": np.concatenate([np.zeros(count, np.int64), np.full(total, ROWS // each)]),
        "rows": pa.concat_arrays([pa.nulls(count, pa.binary()), pa.array(blobs, pa.binary()).take(turns)]),
        "checksum": pa.concat_arrays([pa.nulls(count, pa.uint64()), pa.array(sums, pa.uint64()).take(turns)]),
    }
    for name in schema.names:
        if name not in columns:
            type_ = schema.field(name).type
            value = pa.scalar(header.get(name), type_)
            columns[name] = pa.concat_arrays([pa.repeat(value, count), pa.nulls(total, type_)])
    table = pa.table({name: columns[name] for name in schema.names}, schema=schema)
    return table.append_column("__slice", pa.array(owners))


def _snapshot(count: int) -> Snapshot:
    """A snapshot of files that do not exist."""
    names = pa.array([f"/made/up/part-{number:07}.parquet" for number in range(count)])
    columns: dict[str, Any] = {
        "partition": pa.repeat(pa.scalar(0, pa.int32()), count),
        "file_id": names,
        "base_file": names,
        "base_size": pa.repeat(pa.scalar(1000, pa.int64()), count),
        "unsettled": pa.repeat(pa.scalar(False), count),
    }
    filled = [columns.get(field.name, pa.nulls(count, field.type)) for field in SLICE_COLUMNS]
    listed = pa.table(filled, schema=SLICE_COLUMNS)
    keys = pa.array([], pa.binary(16))
    return Snapshot("made up", TableSchema(FIELDS), listed, keys, Partitions(pa.array([""])), "/made/up")


QUERIES = {
    "dest = 'LEX'": "SELECT count(*), avg(distance) FROM {} WHERE dest = 'LEX'",
    "tailnum = 'N328AA'": "SELECT count(*), avg(distance) FROM {} WHERE tailnum = 'N328AA'",
    "carrier and hour": "SELECT count(*), avg(distance) FROM {} WHERE carrier = 'HA' AND hour = 9",
}


def _flights(console: Console) -> None:
    grid = Grid(
        title=f"flights in {FLIGHT_FILES:,} files, DuckDB; medians of 7 in ms, in brackets times faster"
    )
    for heading in ("query", "files read", "unpruned", "pruned, listing looked at", "pruned, listing kept"):
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "flights"
        _write_flights(root)
        table = pruner.open_table(str(root))
        table.create_index("bits", on=["dest", "tailnum", "carrier", "hour"], using="bitmap")
        fresh = pruner_duckdb.connect({"flights": table})
        kept = pruner_duckdb.connect({"flights": pruner.open_table(str(root), max_staleness=3600)})
        plain = duckdb.connect()
        for name, query in QUERIES.items():
            every = query.format(f"read_parquet('{root}/*.parquet')")
            chosen = query.format("flights")
            expected = plain.sql(every).fetchall()
            assert fresh.sql(chosen).fetchall() == kept.sql(chosen).fetchall() == expected
            times = medians(
                {
                    "plain": lambda every=every: plain.sql(every).fetchall(),
                    "fresh": lambda chosen=chosen: fresh.sql(chosen).fetchall(),
                    "kept": lambda chosen=chosen: kept.sql(chosen).fetchall(),
                },
                7,
            )
            files = table.plan(query.split("WHERE ")[1]).kept
            shown = [
                f"{times[key] * 1e3:.1f} ({times['plain'] / times[key]:.0f})" for key in ("fresh", "kept")
            ]
            grid.add_row(name, f"{files:,}", f"{times['plain'] * 1e3:.1f}", *shown)
        (status,) = table.status().indexes
        rows = plain.sql(f"SELECT count(*) FROM read_parquet('{root}/*.parquet')").fetchall()[0][0]
    console.print(grid)
    console.print(
        f"aim for dest: {AIM_AGAINST_UNPRUNED:g} times; index of 4 columns: {status.bytes / rows:.1f} bytes per row"
    )


def _write_flights(root: Path) -> None:
    flights = source_table("flights.csv.zip")
    root.mkdir()
    rows = -(-flights.num_rows // FLIGHT_FILES)
    for number in range(FLIGHT_FILES):
        pq.write_table(flights.slice(number * rows, rows), root / f"part-{number:04}.parquet")
