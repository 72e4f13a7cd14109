"""`make demo-iceberg`: Spark writes an Iceberg table and deletes rows; Spark, DuckDB and Trino read it, pruned and not.

The orders and the queries are those of `make demo-delta`. Trino reads through the stock `iceberg` catalog and through
`pruned_iceberg`, which asks a service for plans.
"""

from __future__ import annotations

import signal
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
import pruner_spark
from demo.delta import FILES, QUERIES, orders
from tools.cache import say
from tools.java import MissingJavaError, trino_java
from tools.planner_service import planner_service
from tools.spark_sessions import iceberg_session, session_with_jars
from tools.trino.client import TrinoClient
from tools.trino.plugin import plugin_jar
from tools.trino.server import iceberg_catalog, start_trino

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = "web"
NAME = "ice.web.orders"


@dataclass(frozen=True, slots=True)
class Stage:
    """What the queries run against."""

    spark: SparkSession
    duckdb: pruner_duckdb.Connection
    trino: TrinoClient
    place: Path

    def in_trino(self, catalog: str, query: str) -> tuple[list[Any], int]:
        """Rows of a query in a catalog of Trino, and how many splits were read."""
        found = self.trino.run(query, catalog=catalog, schema=SCHEMA)
        return found.rows, sum(self.trino.splits_by_scan(found.query_id).values())


def main() -> None:
    """Run the demo and print what was read."""
    try:
        trino_java()
    except MissingJavaError as missing:
        raise SystemExit(str(missing)) from None
    # However this process ends, the programs that it started end with it.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        with tempfile.TemporaryDirectory() as folder, ExitStack() as running:
            grid, equal = _compared(_stage(Path(folder), running))
    except KeyboardInterrupt:
        raise SystemExit("stopped") from None
    Console(width=132).print(grid)
    if not equal:
        raise SystemExit("the answers differ: this must never happen")


def _stage(folder: Path, running: ExitStack) -> Stage:
    """Write and index the table, start the service and Trino."""
    say("Writing and indexing the table")
    whole = session_with_jars(folder / "spark")
    running.callback(whole.stop)
    spark = iceberg_session(whole, folder)
    # Trino opens no location without a scheme.
    spark.conf.set("spark.sql.catalog.ice.warehouse", f"file:{folder}")
    place = folder / "web" / "orders"
    orders(spark).writeTo(NAME).using("iceberg").tableProperty("format-version", "2").tableProperty(
        "write.delete.mode", "merge-on-read"
    ).create()
    spark.sql(f"DELETE FROM {NAME} WHERE customer = 'c000500'")
    pruner.open_table(place).create_index("by_customer", on="customer", using="bitmap")
    (folder / "pruner.toml").write_text(f'[tables.orders]\nuri = "{place}"\n', encoding="utf-8")
    url = running.enter_context(planner_service(folder))
    say(f"`pruner serve` answers at {url}; starting Trino")
    metastore = folder / "metastore"
    metastore.mkdir()
    asking = {"pruner.url": url, "pruner.timeout": "30s"}
    catalogs = {
        "iceberg": iceberg_catalog("iceberg", metastore),
        "pruned_iceberg": iceberg_catalog("pruned_iceberg", metastore, **asking),
    }
    server = start_trino(folder / "trino", catalogs, plugin_jars=[plugin_jar()], iceberg=True)
    running.callback(server.stop)
    con = running.enter_context(pruner_duckdb.connect({"orders": str(place)}))
    con.execute("SET TimeZone = 'UTC'")
    stage = Stage(spark, con, TrinoClient(server.port), place)
    stage.in_trino("iceberg", f"CREATE SCHEMA {SCHEMA}")
    stage.in_trino("iceberg", f"CALL system.register_table('{SCHEMA}', 'orders', 'file:{place}')")
    return stage


def _compared(stage: Stage) -> tuple[Grid, bool]:
    """Run each query five times; return what was read, and whether all answers were equal."""
    grid = Grid(
        title=f"An Iceberg table of {FILES} files: what Iceberg's own planning reads, and with pruner in three engines"
    )
    grid.add_column("query")
    headings = ("files, Iceberg's own", "Spark", "DuckDB", "splits, Trino's own", "Trino", "answers")
    for heading in headings:
        grid.add_column(heading, justify="right")
    all_equal = True
    spark = stage.spark
    for name, query in QUERIES.items():
        expected = [tuple(row) for row in spark.sql(query.replace("FROM orders", f"FROM {NAME}")).collect()]
        pruner_spark.register(spark, "orders", stage.place)
        in_spark = [tuple(row) for row in spark.sql(query).collect()]
        scan = pruner_spark.last_plans(spark)[-1]
        in_duckdb = stage.duckdb.sql(query).fetchall()
        plain, splits = stage.in_trino("iceberg", query)
        pruned, left = stage.in_trino("pruned_iceberg", query)
        equal = in_spark == expected == in_duckdb == plain == pruned
        all_equal &= equal
        listed = FILES if scan.files_listed is None else scan.files_listed
        counts = (listed, scan.kept, stage.duckdb.last_plans[-1].kept, splits, left)
        grid.add_row(name, *map(str, counts), "equal" if equal else "DIFFER")
    return grid, all_equal


if __name__ == "__main__":
    main()
