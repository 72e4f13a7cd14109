"""`make demo-trino`: the same queries through a plain and a pruned catalog of a real Trino, over two indexed tables.

The Hudi table is that of `make demo`; the same flights are also stored as plain Parquet files, a Hive table.
Everything started here ends with the process: the service, and Trino.
"""

from __future__ import annotations

import re
import signal
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from demo.flights import source_table
from demo.tables import demo_tables
from tools.cache import say
from tools.java import MissingJavaError, trino_java
from tools.planner_service import planner_service
from tools.trino.client import Result, TrinoClient
from tools.trino.metastore import Metastore, hive_type
from tools.trino.plugin import plugin_jar
from tools.trino.server import TrinoServer, local_catalog, start_trino

WIDTH = 132
SCHEMA = "web"
FILES_PER_MONTH = 20
COLUMNS = ("carrier", "flight", "origin", "dest", "dep_delay", "distance", "departure")
MICROSECONDS = {"hive.timestamp-precision": "MICROSECONDS"}
QUERIES = {
    "point": "SELECT count(*), min(departure) FROM flights WHERE carrier = 'HA' "
    "AND departure = TIMESTAMP '2013-05-17 14:00:00'",
    "range": "SELECT origin, count(*) FROM flights WHERE departure >= TIMESTAMP '2013-07-04 10:00:00' "
    "AND departure < TIMESTAMP '2013-07-04 16:00:00' GROUP BY origin ORDER BY origin",
    "IN": "SELECT carrier, count(*), sum(dep_delay) FROM flights WHERE carrier IN ('OO', 'YV') GROUP BY 1 ORDER BY 1",
    "OR": "SELECT count(*), sum(distance) FROM flights WHERE (carrier = 'AS' AND month = 2) OR dep_delay > 1000",
    "join": "SELECT count(*) FROM flights a JOIN flights b ON a.dest = b.dest "
    "WHERE a.carrier = 'HA' AND a.month = 3 AND b.carrier = 'OO'",
    "not prunable": "SELECT count(*), sum(distance) FROM flights WHERE (distance + dep_delay) % 7 = 3",
}
"""What each query shows, and its text; it runs over both tables."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What the queries run against."""

    server: TrinoServer
    client: TrinoClient

    def run(self, catalog: str, sql: str) -> tuple[Result, int, int, str]:
        """Run a query; return its result, its splits, its physical bytes, and the plans logged since."""
        before = len(self.server.log)
        found = self.client.run(sql, catalog=catalog, schema=SCHEMA)
        splits = sum(self.client.splits_by_scan(found.query_id).values())
        plans = re.findall(r"kept (\d+) of (\d+) files", self.server.log[before:])
        kept = " + ".join(f"{kept} of {total}" for kept, total in plans)
        return found, splits, int(found.stats["physicalInputBytes"]), kept


def main() -> None:
    """Run the demo and print what it measured."""
    try:
        trino_java()
    except MissingJavaError as missing:
        raise SystemExit(str(missing)) from None
    # However this process ends, the programs that it started end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    console = Console(width=WIDTH)
    try:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
            stage = _stage(Path(folder), running)
            grids = [_grid(stage, catalog) for catalog in ("hudi", "hive")]
    except KeyboardInterrupt:
        raise SystemExit("stopped") from None
    for grid, _ in grids:
        console.print(grid)
    console.print(
        "A scan without a predicate that can prune is not planned, and a split can be a part of a large file."
    )
    if not all(equal for _, equal in grids):
        raise SystemExit("the answers differ: this must never happen")


def _stage(folder: Path, running: ExitStack) -> Stage:
    """Make and index the tables, start the service and Trino."""
    hudi, hive = demo_tables().flights, folder / "flights"
    say("Writing and indexing the tables")
    write_hive(hive)
    for root in (hudi, hive):
        table = pruner.open_table(str(root))
        if any(index.name == "flights_stats" for index in table.indexes()):
            table.refresh()
        else:
            table.create_index("flights_stats", on="*")
    config = folder / "pruner.toml"
    config.write_text(
        f'[tables.flights]\nuri = "{hive}"\naliases = ["pruned_hive.{SCHEMA}.flights"]\n'
        f'[tables.flights_hudi]\nuri = "{hudi}"\n',
        encoding="utf-8",
    )
    url = running.enter_context(planner_service(folder))
    say(f"`pruner serve` answers at {url}; starting Trino")
    catalogs = _catalogs(folder, url, hudi, hive)
    server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()])
    running.callback(server.stop)
    return Stage(server, TrinoClient(server.port))


def write_hive(root: Path) -> None:
    """Write the flights as a Hive table: a folder for each month, with files sorted by carrier and departure."""
    flights = source_table("flights.csv.zip")
    minutes = pc.multiply(flights["minute"].cast(pa.int64()), 60_000_000).cast(pa.duration("us"))
    departure = pc.add(flights["time_hour"], minutes).cast(pa.timestamp("us", "UTC"))
    flights = flights.append_column("departure", departure).sort_by(
        [("carrier", "ascending"), ("departure", "ascending")]
    )
    for month in range(1, 13):
        rows = flights.filter(pc.field("month") == month).select(COLUMNS)
        folder = root / f"month={month}"
        folder.mkdir(parents=True)
        size = -(-len(rows) // FILES_PER_MONTH)
        for number in range(FILES_PER_MONTH):
            pq.write_table(rows.slice(number * size, size), folder / f"part-{number:02}.parquet")


def _catalogs(folder: Path, url: str, hudi: Path, hive: Path) -> dict[str, dict[str, str]]:
    """A plain and a pruned catalog for each table; the tables are registered in two metastores of files."""
    catalogs: dict[str, dict[str, str]] = {}
    for connector, root, settings in (("hudi", hudi, {}), ("hive", hive, MICROSECONDS)):
        metastore = Metastore(folder / f"metastore_{connector}")
        metastore.folder.mkdir()
        metastore.add_schema(SCHEMA)
        file = next(path for path in sorted(root.rglob("*.parquet")) if ".hoodie" not in path.parts)
        columns = {field.name: hive_type(field.type) for field in pq.read_schema(file)} | {"month": "int"}
        metastore.add_table(SCHEMA, "flights", root, columns, partition_by="month", hudi=connector == "hudi")
        catalogs[connector] = local_catalog(connector, metastore.folder, **settings)
        asking = {"pruner.url": url, "pruner.timeout": "30s"}
        catalogs[f"pruned_{connector}"] = local_catalog(
            f"pruned_{connector}", metastore.folder, **settings, **asking
        )
    return catalogs


def _grid(stage: Stage, catalog: str) -> tuple[Grid, bool]:
    """Run all queries over one table both ways; return the measurements, and whether all rows were the same."""
    grid = Grid(
        title=f"Trino, connector.name={catalog} and connector.name=pruned_{catalog}, second run of each"
    )
    grid.add_column("query")
    for heading in ("splits", "pruned", "KB read", "pruned", "ms", "pruned", "files kept", "rows"):
        grid.add_column(heading, justify="right")
    equal = True
    for shows, sql in QUERIES.items():
        plain, splits, size, _, before = _timed(stage, catalog, sql)
        pruned, pruned_splits, pruned_size, kept, after = _timed(stage, f"pruned_{catalog}", sql)
        same = plain.rows == pruned.rows
        equal &= same
        counts = (f"{splits:,}", f"{pruned_splits:,}", f"{size / 1e3:,.0f}", f"{pruned_size / 1e3:,.0f}")
        grid.add_row(shows, *counts, f"{before:.0f}", f"{after:.0f}", kept, "same" if same else "DIFFER")
    return grid, equal


def _timed(stage: Stage, catalog: str, sql: str) -> tuple[Result, int, int, str, float]:
    stage.run(catalog, sql)
    started = time.perf_counter()
    stage.client.run(sql, catalog=catalog, schema=SCHEMA)
    milliseconds = (time.perf_counter() - started) * 1e3
    return *stage.run(catalog, sql), milliseconds


if __name__ == "__main__":
    main()
