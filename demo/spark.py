"""The demo's queries in Spark: over the whole Hudi table, and pruned."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table as Grid

import pruner_spark
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from demo.tables import DemoTables

RUNS = 3
QUERIES = {
    "point": "SELECT count(*), min(departure), max(departure) FROM flights WHERE carrier = 'HA' "
    "AND departure = TIMESTAMP '2013-05-17 10:00:00-04:00'",
    "IN": "SELECT carrier, count(*), avg(dep_delay) FROM flights WHERE carrier IN ('OO', 'YV') "
    "GROUP BY carrier ORDER BY 1",
    "OR": "SELECT count(*), sum(distance) FROM flights WHERE (carrier = 'AS' AND month = 2) OR dep_delay > 1000",
    "join": "SELECT a.name, count(*), max(f.dep_delay) FROM flights f JOIN airlines a ON f.carrier = a.carrier "
    "WHERE a.carrier = 'VX' AND f.departure >= TIMESTAMP '2013-12-24 00:00:00-05:00' GROUP BY a.name",
    "exists": "SELECT count(*) FROM flights f WHERE dep_delay > 900 AND EXISTS "
    "(SELECT 1 FROM airlines a WHERE a.carrier = f.carrier AND a.name LIKE 'Hawaiian%')",
    "not prunable": "SELECT count(*), avg(air_time) FROM flights WHERE (distance + air_time) % 7 = 3",
}
"""What each query shows, and its text."""


def spark_grid(tables: DemoTables) -> tuple[Grid, bool]:
    """Run the queries both ways; return the measurements, and whether all answers were equal."""
    with tempfile.TemporaryDirectory() as scratch:
        spark = hudi_session(Path(scratch))
        try:
            return _measured(spark, tables)
        finally:
            spark.stop()


def _measured(spark: SparkSession, tables: DemoTables) -> tuple[Grid, bool]:
    grid = Grid(title=f"Spark {spark.version}, median of {RUNS} runs each, taken in turn")
    grid.add_column("query")
    for heading in ("file groups kept", "of", "all files, ms", "pruned, ms", "ratio", "answers"):
        grid.add_column(heading, justify="right")
    spark.read.parquet(str(tables.airlines)).createOrReplaceTempView("airlines")
    plain = spark.read.format("hudi").option("hoodie.enable.data.skipping", "false").load(str(tables.flights))
    pruned = pruner_spark.read(spark, tables.flights)
    equal = True
    for name, query in QUERIES.items():
        unpruned_times: list[float] = []
        pruned_times: list[float] = []
        same = True
        for _ in range(RUNS):
            plain.createOrReplaceTempView("flights")
            expected = _timed(spark, query, unpruned_times)
            pruned.createOrReplaceTempView("flights")
            same &= _timed(spark, query, pruned_times) == expected
        scan = pruner_spark.last_plans(spark)[-1]
        before, after = statistics.median(unpruned_times), statistics.median(pruned_times)
        times = (f"{before * 1e3:.0f}", f"{after * 1e3:.0f}", f"{before / after:.1f}")
        grid.add_row(name, f"{scan.kept}", f"{scan.total}", *times, "equal" if same else "DIFFER")
        equal &= same
    return grid, equal


def _timed(spark: SparkSession, query: str, times: list[float]) -> list[tuple[Any, ...]]:
    started = time.perf_counter()
    rows = [tuple(row) for row in spark.sql(query).collect()]
    times.append(time.perf_counter() - started)
    return rows
