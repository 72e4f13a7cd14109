"""The hour of day of departures in three engines: one index, spelled for Trino, that serves DuckDB, Spark and Trino.

Each file holds the departures of one hour, as an hourly pipeline writes them. A query of one hour of the day needs
one file of 24, which no range of `ts` can tell.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing
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
import pruner_spark
from benchmarks.timing import medians
from tools.java import AS_SERVERS
from tools.planner_service import planner_service
from tools.spark import hudi_session
from tools.trino.client import TrinoClient
from tools.trino.metastore import Metastore
from tools.trino.plugin import plugin_jar
from tools.trino.server import local_catalog, start_trino

HOURS = 480
ROWS = 2_000
RUNS = 5
SCHEMA = "lake"
_START = 1_640_995_200_000_000
_HOUR = 3_600_000_000
EXPRESSION = "date_format(ts, '%H')"
Contenders = dict[str, Callable[[], Any]]


def run(console: Console) -> None:
    """Measure and print."""
    grid = Grid(title=f"One hour of the day, {HOURS} hourly files, medians of {RUNS} runs in turn")
    for heading in ("engine", "plain, ms", "pruned, ms", "ratio", "files read"):
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        folder = Path(scratch)
        root = folder / "flights"
        _write(root)
        table = pruner.open_table(root)
        table.create_index("hour_idx", on=EXPRESSION, using="bitmap", dialect="trino")
        kept = table.plan("hour_idx = '09'").kept
        for engine, make in (("DuckDB", _duckdb), ("Spark", _spark), ("Trino", _trino)):
            contenders = make(folder, root, running)
            files = contenders.pop("files", lambda: kept)
            assert contenders["plain"]() == contenders["pruned"](), engine
            times = medians(contenders, RUNS)
            plain, pruned = (times[name] * 1e3 for name in ("plain", "pruned"))
            ratio = f"{plain / pruned:.1f}"
            grid.add_row(engine, f"{plain:.0f}", f"{pruned:.0f}", ratio, f"{files()} of {HOURS}")
    console.print(grid)


def _write(root: Path) -> None:
    root.mkdir()
    for hour in range(HOURS):
        moments = _START + hour * _HOUR + np.arange(ROWS) * (_HOUR // ROWS)
        rows = {"ts": pa.array(moments, pa.timestamp("us")), "delay": pa.array(moments % 97)}
        pq.write_table(pa.table(rows), root / f"{hour:04}.parquet")


def _duckdb(_: Path, root: Path, running: ExitStack) -> Contenders:
    plain = running.enter_context(closing(duckdb.connect()))
    pruned = running.enter_context(closing(pruner_duckdb.connect({"flights": root})))
    asked = "SELECT count(*), sum(delay) FROM {} WHERE strftime(ts, '%H') = '09'"
    return {
        "plain": lambda: plain.execute(asked.format(f"'{root}/*.parquet'")).fetchall(),
        "pruned": lambda: pruned.execute(asked.format("flights")).fetchall(),
    }


def _spark(folder: Path, root: Path, running: ExitStack) -> Contenders:
    spark = hudi_session(folder / "spark", java_options=AS_SERVERS)
    running.callback(spark.stop)
    spark.conf.set("spark.sql.session.timeZone", "UTC")

    def asked(frame: Any) -> Any:
        found = frame.where("date_format(ts, 'HH') = '09'").selectExpr("count(*)", "sum(delay)").collect()
        return [tuple(row) for row in found]

    plain, pruned = spark.read.parquet(str(root)), pruner_spark.read(spark, root)
    return {"plain": lambda: asked(plain), "pruned": lambda: asked(pruned)}


def _trino(folder: Path, root: Path, running: ExitStack) -> Contenders:
    metastore = Metastore(folder / "metastore")
    metastore.add_schema(SCHEMA)
    metastore.add_table(SCHEMA, "flights", root, {"ts": "timestamp", "delay": "bigint"})
    names = f'[tables.flights]\nuri = "{root}"\naliases = ["pruned_hive.{SCHEMA}.flights"]\n'
    (folder / "pruner.toml").write_text(names, encoding="utf-8")
    url = running.enter_context(planner_service(folder))
    # Rounded timestamps are not what an index was made of.
    precise = {"hive.timestamp-precision": "MICROSECONDS"}
    ours = {"pruner.url": url, "pruner.timeout": "30s"}
    catalogs = {
        "hive": local_catalog("hive", metastore.folder, **precise),
        "pruned_hive": local_catalog("pruned_hive", metastore.folder, **precise, **ours),
    }
    server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()], java_options=AS_SERVERS)
    running.callback(server.stop)
    client = TrinoClient(server.port)
    sql = "SELECT count(*), sum(delay) FROM flights WHERE date_format(ts, '%H') = '09'"

    def asked(catalog: str) -> Any:
        return client.run(sql, catalog=catalog, schema=SCHEMA)

    def files() -> int:
        return sum(client.splits_by_scan(asked("pruned_hive").query_id).values())

    return {
        "plain": lambda: asked("hive").rows,
        "pruned": lambda: asked("pruned_hive").rows,
        "files": files,
    }
