"""Answers from metadata in DuckDB, Spark and Trino: files and time of aggregates and first rows, cost for others.

Plain DuckDB reads the same list of files. Both run in turn in one process, and their rows must be equal. A new
statement has its own comment, so that it is planned again; a repeated one is the same text each time. "To none" is
the time of a new statement relative to the same one without the search for answers from metadata.
"""

from __future__ import annotations

import datetime
import os
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from benchmarks.engines.trino_answers import answers_in_trino
from benchmarks.timing import medians
from pruner_duckdb.rewrite import rewrite

FILES = int(os.environ.get("PRUNER_BENCH_FILES", "10000"))
ROWS = 200
RUNS = 9
MOST_SHARE = 1.03
"""Upper bound for a statement that gains nothing, as a share of its time without the search for answers."""

MOST_FILES = {"top 100": 3, "count": 0, "max": 0, "count where": 1, "by city": 0}

GAINING = {
    "count": "SELECT count(*) FROM {}",
    "max": "SELECT max(ts), min(v), count(v) FROM {}",
    "count where": "SELECT count(*) FROM {} WHERE city = 'a' AND ts >= TIMESTAMP '2024-02-01'",
    "by city": "SELECT city, count(*) FROM {} GROUP BY city ORDER BY city",
    "distinct": "SELECT count(DISTINCT city) FROM {}",
    "half open": "SELECT count(*), max(v) FROM {} WHERE ts >= TIMESTAMP '2024-01-20 12:30:30'",
    "top 100": "SELECT ts, v FROM {} ORDER BY ts DESC LIMIT 100",
    "limit 10": "SELECT ts, v FROM {} WHERE ts >= TIMESTAMP '2024-01-05' LIMIT 10",
}
OTHERS = {
    "sum": "SELECT count(*), sum(v) FROM {}",
    "remainder": "SELECT count(*) FROM {} WHERE v % 7 = 1",
    "top by a computed value": "SELECT v FROM {} ORDER BY v % 1000, ts LIMIT 10",
}
"""Statements that gain nothing."""

JOINS = {
    "in a small table": "SELECT v FROM {} WHERE ts IN (SELECT ts FROM small)",
    "of the greatest": "SELECT v FROM {0} WHERE ts = (SELECT max(ts) FROM {0})",
}
SPARK_FILES = int(os.environ.get("PRUNER_BENCH_SPARK_FILES", "1000"))


def run(console: Console) -> None:
    """Measure both kinds."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "events"
        _write(root)
        table = pruner.open_table(str(root), files="immutable")
        table.create_index("columns", on="*", progress=False)
        table.create_index("cities", on="city", using="bitmap", progress=False)
        grid = Grid(title=f"{FILES:,} files of {ROWS} rows; medians in ms")
        for heading in ("statement", "files", "MB", "plain", "new", "again", "ratio", "again", "to none"):
            grid.add_column(heading, justify="right")
        missed = [
            name
            for name, text in (GAINING | OTHERS).items()
            if not _row(grid, name, text, table, _Pair(table))
        ]
        console.print(grid)
        console.print(f"aims missed: {', '.join(missed) or 'none'}")
        console.print(_in_spark(root, Path(folder)))
        scratch = Path(folder) / "trino"
        scratch.mkdir()
        console.print(answers_in_trino(root, scratch))


def _in_spark(root: Path, scratch: Path) -> Grid:
    """The same statements in Spark, and two with a small side, over as many of the files as `SPARK_FILES` says."""
    import pruner_spark
    from tools.spark import hudi_session

    few = scratch / "few" / "events"
    few.mkdir(parents=True)
    for path in sorted(root.glob("*.parquet"))[:SPARK_FILES]:
        (few / path.name).hardlink_to(path)
    table = pruner.open_table(str(few), files="immutable")
    table.create_index("columns", on="*", progress=False)
    table.create_index("cities", on="city", using="bitmap", progress=False)
    spark = hudi_session(scratch / "spark")
    grid = Grid(title=f"Spark, {SPARK_FILES:,} files; medians in ms")
    for heading in ("statement", "files", "plain", "pruned", "ratio"):
        grid.add_column(heading, justify="right")
    try:
        spark.read.parquet(str(few)).createOrReplaceTempView("plain_events")
        pruner_spark.register(spark, "events", str(few))
        newest = spark.sql("SELECT max(ts) AS ts, max(v) AS v FROM plain_events")
        newest.coalesce(1).write.parquet(str(scratch / "small"))  # with the same types, as keys require
        spark.read.parquet(str(scratch / "small")).createOrReplaceTempView("small")
        for name, text in (GAINING | OTHERS | JOINS).items():

            def run(view: str, text: str = text) -> Any:
                return spark.sql(text.replace("TIMESTAMP '", "TIMESTAMP_NTZ '").format(view)).collect()

            before = {id(each) for each in pruner_spark.last_plans(spark)}
            rows, plain = run("events"), run("plain_events")
            assert len(rows) == len(plain), name
            assert name == "limit 10" or sorted(rows) == sorted(plain), name  # which ten is unspecified
            read = [each.files_left or 0 for each in pruner_spark.last_plans(spark) if id(each) not in before]
            times = medians(
                {"plain": lambda run=run: run("plain_events"), "pruned": lambda run=run: run("events")}, RUNS
            )
            cells = [f"{times[each] * 1e3:.0f}" for each in ("plain", "pruned")]
            grid.add_row(name, str(sum(read)), *cells, f"{times['pruned'] / times['plain']:.2f}")
    finally:
        spark.stop()
    return grid


class _Pair:
    def __init__(self, table: pruner.Table) -> None:
        self.pruned = pruner_duckdb.connect({"events": table})
        self.plain = duckdb.connect()
        listed = ", ".join(f"'{file.removeprefix('file://')}'" for file in table.plan("true").files)
        self.plain.execute(f"CREATE VIEW events AS FROM read_parquet([{listed}])")


def _row(grid: Grid, name: str, text: str, table: pruner.Table, pair: _Pair) -> bool:
    numbers = count()

    def undetected() -> None:
        found, rewrite.may_have_blocks = rewrite.may_have_blocks, lambda _: False
        try:
            fetched(pair.pruned.execute, new=True)()
        finally:
            rewrite.may_have_blocks = found

    def fetched(run: Callable[[str], Any], *, new: bool) -> Callable[[], Any]:
        return lambda: run(text.format("events") + (f" -- {next(numbers)}" if new else "")).fetchall()

    assert fetched(pair.pruned.execute, new=True)() == fetched(pair.plain.execute, new=True)(), name
    scan = pair.pruned.last_plans[-1]
    times = medians(
        {
            "plain": fetched(pair.plain.execute, new=False),
            "new": fetched(pair.pruned.execute, new=True),
            "again": fetched(pair.pruned.execute, new=False),
            "none": undetected,
        },
        RUNS,
    )
    read = scan.left or scan.plan
    ratios = [times[each] / times["plain"] for each in ("new", "again")]
    cells = [f"{read.kept:,} of {table.plan('true').total:,}", f"{read.bytes_kept / 1e6:.1f}"]
    cells += [f"{times[each] * 1e3:.1f}" for each in ("plain", "new", "again")]
    to_none = times["new"] / times["none"]
    grid.add_row(name, *cells, *(f"{ratio:.3f}" for ratio in (*ratios, to_none)))
    if name in OTHERS:
        return to_none <= MOST_SHARE
    return read.kept <= MOST_FILES.get(name, FILES)


def _write(root: Path) -> None:
    """Files consecutive in time, four cities in each."""
    root.mkdir(parents=True)
    start = datetime.datetime(2024, 1, 1)
    minutes = 60 * 24 * 60 / FILES
    for number in range(FILES):
        first = start + datetime.timedelta(minutes=number * minutes)
        seconds = minutes * 60 / ROWS
        columns = {
            "ts": pa.array(
                [first + datetime.timedelta(seconds=row * seconds) for row in range(ROWS)], pa.timestamp("us")
            ),
            "v": pa.array([(number * 7919 + row * 31) % 100_003 for row in range(ROWS)], pa.int64()),
            "city": ["abcd"[row % 4] for row in range(ROWS)],
        }
        path = root / f"part-{number:06}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))
