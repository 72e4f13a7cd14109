"""Trino with the plugin against the same Trino without.

The added latency is what a query takes longer when nothing can be left out.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.records import ROWS_PER_FILE
from benchmarks.timing import medians
from tools.planner_service import planner_service
from tools.trino_client import TrinoClient
from tools.trino_metastore import Metastore
from tools.trino_plugin import plugin_jar
from tools.trino_server import local_catalog, start_trino

SCHEMA = "lake"
RUNS_BY_FILES = {20: 25, 2_000: 5}
KEPT = 3
AIM = "aim: less than 20 ms added to a query when nothing can be left out"


def run(console: Console) -> None:
    """Measure and print."""
    console.print(_trino())
    console.print(AIM)


def _trino() -> Grid:
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
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        folder = Path(scratch)
        metastore = Metastore(folder / "metastore")
        metastore.add_schema(SCHEMA)
        lines: list[str] = []
        for count in RUNS_BY_FILES:
            name = f"t{count}"
            _write(folder / name, count)
            pruner.open_table(folder / name).create_index("statistics", on="*")
            metastore.add_table(SCHEMA, name, folder / name, {"event": "bigint"})
            lines += [
                f"[tables.{name}]",
                f'uri = "{folder / name}"',
                f'aliases = ["pruned_hive.{SCHEMA}.{name}"]',
            ]
        (folder / "pruner.toml").write_text("\n".join(lines), encoding="utf-8")
        url = running.enter_context(planner_service(folder))
        catalogs = {
            "hive": local_catalog("hive", metastore.folder),
            "pruned_hive": local_catalog(
                "pruned_hive", metastore.folder, **{"pruner.url": url, "pruner.timeout": "30s"}
            ),
        }
        server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()])
        running.callback(server.stop)
        for count, runs in RUNS_BY_FILES.items():
            grid.add_row(*_compared(TrinoClient(server.port), count, runs))
    return grid


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
