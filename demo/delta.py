"""`make demo-delta`: Spark writes a Delta table and deletes rows; Spark and DuckDB read it, pruned and plain.

The orders are in time order, so that Delta's statistics cannot prune by customer, but an index of pruner's can.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
import pruner_spark
from tools.spark_sessions import delta_session, session_with_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = 40
ROWS = 200_000
QUERIES = {
    "one customer": "SELECT count(*), sum(amount) FROM orders WHERE customer = 'c004711'",
    "some customers": "SELECT customer, count(*) FROM orders WHERE customer IN ('c000001', 'c049999', 'c012345') "
    "GROUP BY customer ORDER BY customer",
    "customer and time": "SELECT max(id) FROM orders WHERE customer = 'c004711' AND placed < TIMESTAMP '2024-01-02'",
    "time alone": "SELECT count(*) FROM orders WHERE placed < TIMESTAMP '2024-01-01 12:00:00'",
    "deleted rows": "SELECT count(*) FROM orders WHERE customer = 'c000500'",
    "not prunable": "SELECT count(*) FROM orders WHERE id % 7 = 3",
}
"""What each query shows, and its text, the same in both engines."""


def main() -> None:
    """Run the demo and print what was read."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "orders"
        whole = session_with_jars(Path(folder) / "spark")
        try:
            spark = delta_session(whole)
            _write(spark, place)
            table = pruner.open_table(place)
            table.create_index("by_customer", on="customer", using="bitmap")
            grid, equal = _compared(spark, place)
        finally:
            whole.stop()
    Console(width=110).print(grid)
    if not equal:
        raise SystemExit("the answers differ: this must never happen")


def orders(spark: SparkSession) -> DataFrame:
    """The orders, one partition for each file."""
    return spark.range(0, ROWS, 1, FILES).selectExpr(
        "id",
        "concat('c', lpad(CAST(id * 7919 % 50000 AS STRING), 6, '0')) AS customer",
        "CAST(id % 997 / 10 AS DOUBLE) AS amount",
        "TIMESTAMP '2024-01-01 00:00:00' + make_dt_interval(0, 0, 0, id * 10) AS placed",
    )


def _write(spark: SparkSession, place: Path) -> None:
    """Write the orders, and delete those of one customer: Delta writes deletion vectors, and rewrites no file."""
    orders(spark).write.format("delta").option("delta.enableDeletionVectors", "true").save(str(place))
    spark.sql(f"DELETE FROM delta.`{place}` WHERE customer = 'c000500'")


def _compared(spark: SparkSession, place: Path) -> tuple[Grid, bool]:
    """Run each query four times; return what was read, and whether all answers were equal."""
    grid = Grid(
        title=f"A Delta table of {FILES} files: Spark {spark.version} alone, and with pruner in both engines"
    )
    grid.add_column("query")
    for heading in ("files by Delta's statistics", "with pruner in Spark", "in DuckDB", "answers"):
        grid.add_column(heading, justify="right")
    all_equal = True
    with pruner_duckdb.connect({"orders": str(place)}) as con:
        con.execute("SET TimeZone = 'UTC'")
        for name, query in QUERIES.items():
            spark.read.format("delta").load(str(place)).createOrReplaceTempView("orders")
            expected = [tuple(row) for row in spark.sql(query).collect()]
            pruner_spark.register(spark, "orders", place)
            in_spark = [tuple(row) for row in spark.sql(query).collect()]
            scan = pruner_spark.last_plans(spark)[-1]
            in_duckdb = con.sql(query).fetchall()
            equal = in_spark == expected == in_duckdb
            all_equal &= equal
            listed = FILES if scan.files_listed is None else scan.files_listed
            left = scan.kept if scan.files_left is None else scan.files_left
            counts = (listed, left, _kept(con))
            grid.add_row(name, *map(str, counts), "equal" if equal else "DIFFER")
    return grid, all_equal


def _kept(con: Any) -> int:
    return con.last_plans[-1].kept


if __name__ == "__main__":
    main()
