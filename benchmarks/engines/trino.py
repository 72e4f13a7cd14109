"""Trino with the plugin against the same Trino without.

The added latency is measured where nothing can be skipped: for a query that reads everything, and for one with a
LIMIT that the first files satisfy, which must wait for the plan first.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.lakes.records import ROWS_PER_FILE
from benchmarks.timing import medians
from tools.java import AS_SERVERS
from tools.planner_service import planner_service
from tools.trino.client import TrinoClient
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import local_catalog, start_trino

SCHEMA = "lake"
RUNS_BY_FILES = {20: 25, 2_000: 5}
MANY = max(RUNS_BY_FILES)
LIMITED_RUNS = 25
KEPT = 3
LIMIT = 10
AIM = (
    "aim: less than 20 ms added to a query when nothing can be left out, 10 ms to one with a LIMIT "
    "(2,000 immutable: the same files, declared never to change in place)"
)


def run(console: Console) -> None:
    """Measure and print."""
    with _running() as client:
        console.print(_whole(client))
        console.print(_limited(client))
    console.print(AIM)


def _whole(client: TrinoClient) -> Grid:
    """End to end: tables of real files, read whole and pruned."""
    grid = Grid(title=f"Trino over files of {ROWS_PER_FILE:,} rows, medians of runs in turn")
    headings = (
        "files",
        "splits",
        "3 kept",
        "plain, ms",
        "pruned, ms",
        "ratio",
        "all: plain, ms",
        "pruned, ms",
        "added, ms",
    )
    for heading in headings:
        grid.add_column(heading, justify="right")
    for count, runs in RUNS_BY_FILES.items():
        grid.add_row(*_compared(client, count, runs))
    return grid


def _limited(client: TrinoClient) -> Grid:
    """A condition that every file meets, and a LIMIT that the first one satisfies."""
    grid = Grid(title=f"Trino, WHERE event >= 0 LIMIT {LIMIT}, runs in turn")
    for heading in ("files", "plain, ms", "pruned, ms", "added, ms", "added, lowest tenths, ms", "plan, ms"):
        grid.add_column(heading, justify="right")
    for shown, table in (
        *((f"{count:,}", f"t{count}") for count in RUNS_BY_FILES),
        (f"{MANY:,} immutable", "settled"),
    ):
        grid.add_row(shown, *_limits_compared(client, table))
    return grid


def _limits_compared(client: TrinoClient, table: str) -> tuple[str, ...]:
    seconds: dict[str, list[float]] = {"hive": [], "pruned_hive": []}
    asked = plans = 0.0
    for run in range(LIMITED_RUNS + 3):
        if run == 3:
            asked, plans = _waited(client)
        for catalog, taken in seconds.items():
            sql = f"SELECT event FROM {table} WHERE event >= 0 LIMIT {LIMIT}"
            started = time.perf_counter()
            found = client.run(sql, catalog=catalog, schema=SCHEMA)
            taken.append(time.perf_counter() - started)
            assert len(found.rows) == LIMIT
    plain, pruned = (np.asarray(taken[3:]) * 1e3 for taken in seconds.values())
    lowest = np.percentile(pruned, 10) - np.percentile(plain, 10)
    more_asked, more_plans = _waited(client)
    return (
        f"{np.median(plain):.0f}",
        f"{np.median(pruned):.0f}",
        f"{np.median(pruned) - np.median(plain):.1f}",
        f"{lowest:.1f}",
        f"{(more_asked - asked) / max(1.0, more_plans - plans):.1f}",
    )


def _waited(client: TrinoClient) -> tuple[float, float]:
    """Milliseconds that scans have waited for plans so far, and the number of plans."""
    figures = {"PlanningMillis": 0.0, "Plans": 0.0}
    for line in client.metrics().splitlines():
        name, _, value = line.rpartition(" ")
        name = name.partition("_ATTRIBUTE_")[2]
        if line.startswith("JMX_lakepruner_") and name in figures:
            figures[name] += float(value)
    return figures["PlanningMillis"], figures["Plans"]


@contextmanager
def _running() -> Iterator[TrinoClient]:
    """A server with both catalogs over tables of each number of files, and the service."""
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        folder = Path(scratch)
        metastore = Metastore(folder / "metastore")
        metastore.add_schema(SCHEMA)
        lines: list[str] = []
        for name, count, more in (
            *((f"t{count}", count, "") for count in RUNS_BY_FILES),
            ("settled", MANY, 'files = "immutable"'),
        ):
            root = folder / (f"t{count}" if more else name)
            if not more:
                _write(root, count)
                pruner.open_table(root).create_index("statistics", on="*")
            metastore.add_table(SCHEMA, name, root, {"event": "bigint"})
            lines += [
                f"[tables.{name}]",
                f'uri = "{root}"',
                f'aliases = ["pruned_hive.{SCHEMA}.{name}"]',
                more,
            ]
        (folder / "pruner.toml").write_text("\n".join(lines), encoding="utf-8")
        url = running.enter_context(planner_service(folder))
        catalogs = {
            "hive": local_catalog("hive", metastore.folder),
            "pruned_hive": local_catalog(
                "pruned_hive", metastore.folder, **{"pruner.url": url, "pruner.timeout": "30s"}
            ),
        }
        server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()], java_options=AS_SERVERS)
        running.callback(server.stop)
        yield TrinoClient(server.port)


def _write(root: Path, count: int) -> None:
    root.mkdir()
    for number in range(count):
        rows = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE), pa.int64())
        pq.write_table(pa.table({"event": rows}), root / f"part-{number:05}.parquet")


def _compared(client: TrinoClient, count: int, runs: int) -> tuple[str, ...]:
    few, every = f"event < {KEPT * ROWS_PER_FILE}", "event >= 0"

    def asking(catalog: str, where: str, rows: int, splits: int) -> None:
        found = client.run(f"SELECT count(*) FROM t{count} WHERE {where}", catalog=catalog, schema=SCHEMA)
        assert found.rows == [(rows,)]
        assert found.stats["completedSplits"] >= splits

    for catalog, splits in (("hive", count), ("pruned_hive", KEPT)):
        found = client.run(f"SELECT count(*) FROM t{count} WHERE {few}", catalog=catalog, schema=SCHEMA)
        read = sum(client.splits_by_scan(found.query_id).values())
        assert read == splits, f"{catalog} read {read} splits of {count} files"
    contenders = {
        f"{catalog} {shown}": lambda catalog=catalog, where=where, rows=rows, splits=splits: asking(
            catalog, where, rows, splits
        )
        for catalog in ("hive", "pruned_hive")
        for shown, where, rows, splits in (
            ("few", few, KEPT * ROWS_PER_FILE, KEPT),
            ("every", every, count * ROWS_PER_FILE, count),
        )
    }
    times = {name: seconds * 1e3 for name, seconds in medians(contenders, runs, warmups=3).items()}
    return (
        f"{count:,}",
        f"{count:,}",
        f"{KEPT}",
        f"{times['hive few']:.0f}",
        f"{times['pruned_hive few']:.0f}",
        f"{times['hive few'] / times['pruned_hive few']:.1f}",
        f"{times['hive every']:.0f}",
        f"{times['pruned_hive every']:.0f}",
        f"{times['pruned_hive every'] - times['hive every']:.1f}",
    )
