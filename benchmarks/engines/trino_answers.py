"""What metadata answers in Trino: an Iceberg table through the stock connector and through the plugin, run in turn."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path

import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from rich.table import Table as Grid

import pruner
from benchmarks.timing import medians
from tools.java import AS_SERVERS
from tools.planner_service import planner_service
from tools.trino.client import Result, TrinoClient
from tools.trino.plugin import plugin_jar
from tools.trino.server import iceberg_catalog, start_trino

FILES = int(os.environ.get("PRUNER_BENCH_TRINO_FILES", "2000"))
RUNS = 9
SCHEMA = "ns"
STATEMENTS = {
    "count": "SELECT count(*) FROM events",
    "max": "SELECT max(ts), min(v), count(v) FROM events",
    "top 100": "SELECT ts, v FROM events ORDER BY ts DESC LIMIT 100",
    "top 100 of two": "SELECT count(*) FROM ((SELECT ts FROM events ORDER BY ts LIMIT 100) UNION ALL "
    "(SELECT ts FROM events ORDER BY ts DESC LIMIT 100))",
    "sum": "SELECT count(*), sum(v) FROM events",
    "top 100 of what is everywhere": "SELECT city, v FROM events ORDER BY city, v LIMIT 100",
    "max of a decimal": "SELECT max(CAST(v AS DECIMAL(20, 2))) FROM events",
}


def answers_in_trino(files: Path, scratch: Path) -> Grid:
    """Compare statements over the first `FILES` of the files in a folder; `scratch` is empty."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{scratch}/catalog.db", warehouse=f"file://{scratch}")
    catalog.create_namespace(SCHEMA)
    listed = sorted(files.glob("*.parquet"))[:FILES]
    table = catalog.create_table(f"{SCHEMA}.events", pq.read_schema(listed[0]))
    table.add_files([f"file://{path}" for path in listed])
    place = table.metadata_location.removeprefix("file://")
    pruner.open_table(place).create_index("columns", on="*", progress=False)
    (scratch / "pruner.toml").write_text(f'[tables.events]\nuri = "{place}"\n', encoding="utf-8")
    metastore = scratch / "metastore"
    metastore.mkdir()
    with ExitStack() as running:
        url = running.enter_context(planner_service(scratch))
        catalogs = {
            "iceberg": iceberg_catalog("iceberg", metastore),
            "pruned_iceberg": iceberg_catalog("pruned_iceberg", metastore, **{"pruner.url": url}),
        }
        server = start_trino(
            scratch / "server", catalogs, plugin_jars=[plugin_jar()], iceberg=True, java_options=AS_SERVERS
        )
        running.callback(server.stop)
        client = TrinoClient(server.port)
        for sql in (
            f"CREATE SCHEMA {SCHEMA}",
            f"CALL iceberg.system.register_table('{SCHEMA}', 'events', '{table.location()}')",
        ):
            client.run(sql, catalog="iceberg", schema=SCHEMA)
        return _compared(client)


def _compared(client: TrinoClient) -> Grid:
    grid = Grid(title=f"Trino, an Iceberg table of {FILES:,} files; medians in ms")
    for heading in ("statement", "splits", "plain", "pruned", "ratio"):
        grid.add_column(heading, justify="right")
    for name, sql in STATEMENTS.items():

        def run(catalog: str, sql: str = sql) -> Result:
            return client.run(sql, catalog=catalog, schema=SCHEMA)

        found, plain = run("pruned_iceberg"), run("iceberg")
        assert sorted(found.rows) == sorted(plain.rows), name
        times: Mapping[str, float] = medians(
            {"plain": lambda run=run: run("iceberg"), "pruned": lambda run=run: run("pruned_iceberg")}, RUNS
        )
        splits = sum(client.splits_by_scan(found.query_id).values())
        cells = [f"{times[each] * 1e3:.0f}" for each in ("plain", "pruned")]
        grid.add_row(name, str(splits), *cells, f"{times['pruned'] / times['plain']:.2f}")
    return grid
