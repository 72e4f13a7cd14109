"""`make demo`: index a real Hudi table once, then run queries in DuckDB over all files and over the remaining ones.

"Not pruned" is DuckDB's own reader over every base file of the same snapshot, with DuckDB's own skipping on.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from demo.spark import spark_grid
from demo.tables import demo_tables
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from demo.tables import DemoTables

INDEX = "flights_stats"
HOURS = "departure_hour"
"""An index over an expression: no range of `departure` matches an hour of the day."""
RUNS = 7
WIDTH = 132


@dataclass(frozen=True, slots=True)
class Query:
    """One query of the demo: what it shows, and its text."""

    shows: str
    sql: str


QUERIES = (
    Query(
        "point",
        "SELECT count(*), min(departure), max(departure) FROM flights WHERE carrier = 'HA' "
        "AND departure = TIMESTAMPTZ '2013-05-17 10:00:00-04'",
    ),
    Query(
        "range",
        "SELECT origin, count(*) FROM flights WHERE departure >= TIMESTAMPTZ '2013-07-04 06:00:00-04' "
        "AND departure < TIMESTAMPTZ '2013-07-04 12:00:00-04' GROUP BY origin ORDER BY origin",
    ),
    Query(
        "IN",
        "SELECT carrier, count(*), avg(dep_delay) FROM flights WHERE carrier IN ('OO', 'YV') GROUP BY ALL ORDER BY 1",
    ),
    Query(
        "LIKE prefix",
        "SELECT count(*), count(DISTINCT dest) FROM flights WHERE carrier LIKE 'F%' AND dep_delay > 60",
    ),
    Query(
        "NULL",
        "SELECT month, count(*) FROM flights WHERE dep_time IS NULL AND carrier = 'HA' GROUP BY month ORDER BY 1",
    ),
    Query(
        "OR",
        "SELECT count(*), sum(distance) FROM flights WHERE (carrier = 'AS' AND month = 2) OR dep_delay > 1000",
    ),
    Query(
        "join",
        "SELECT a.name, count(*), max(f.dep_delay) FROM flights f JOIN airlines a ON f.carrier = a.carrier "
        "WHERE a.carrier = 'VX' AND f.departure >= TIMESTAMPTZ '2013-12-24 00:00:00-05' GROUP BY a.name",
    ),
    Query(
        "hour of day",
        "SELECT dest, count(*) FROM flights WHERE hour(departure AT TIME ZONE 'UTC') = 4 GROUP BY dest ORDER BY dest",
    ),
    Query("not prunable", "SELECT count(*), avg(air_time) FROM flights WHERE (distance + air_time) % 7 = 3"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Times of one query with all files and with the remaining ones: medians in seconds.

    `by_hudi` is how many files Hudi's own indexes keep, without pruner's.
    """

    query: Query
    by_hudi: int
    kept: int
    total: int
    bytes_kept: int
    unpruned: float
    pruned: float
    equal: bool


def main() -> None:
    """Run the demo and print what it measured."""
    tables = demo_tables()
    console = Console(width=WIDTH)
    table = pruner.open_table(str(tables.flights))
    _index(table, console)
    _index_hours(table, console)
    console.print(_introduction(table))
    connection = pruner_duckdb.connect({"flights": table})
    plain = duckdb.connect()
    _show_small_tables(connection, plain, tables)
    files = list(table.plan("true").files)
    plain.execute("CREATE VIEW flights AS SELECT * FROM read_parquet(" + _quoted_list(files) + ")")
    by_hudi = _kept_by_hudis_indexes(tables)
    outcomes = [
        _measure(query, kept, connection, plain) for query, kept in zip(QUERIES, by_hudi, strict=True)
    ]
    console.print(_grid(outcomes))
    console.print(f"\n[bold]pruner explain[/bold] {QUERIES[0].shows}\n")
    console.print(_explain(connection), highlight=False)
    grid, equal_in_spark = spark_grid(tables)
    console.print(grid)
    if not equal_in_spark or not all(outcome.equal for outcome in outcomes):
        raise SystemExit("the answers differ: this must never happen")


def _index(table: pruner.Table, console: Console) -> None:
    """Create the index with Spark the first time; afterwards everything is covered and no session is started."""
    known = any(index.name == INDEX for index in table.indexes())
    if known and not table.refresh(dry_run=True).files:
        return
    with tempfile.TemporaryDirectory() as folder, closing_session(Path(folder)) as spark:
        started = time.perf_counter()
        result = table.refresh(run=spark) if known else table.create_index(INDEX, on="*", run=spark)
        seconds = time.perf_counter() - started
    assert result is not None
    console.print(
        f"column_stats over every column, built by Spark {spark.version}: {result.indexed} file groups indexed now, "
        f"{result.already} covered before, {seconds:.2f} s"
    )


def _index_hours(table: pruner.Table, console: Console) -> None:
    """Create the index over the hour of the day in this process."""
    if any(index.name == HOURS for index in table.indexes()):
        return
    started = time.perf_counter()
    result = table.create_index(HOURS, on="hour(departure)", using="bitmap")
    assert result is not None
    seconds = time.perf_counter() - started
    console.print(
        f"bitmap over hour(departure), built here: {result.indexed} file groups indexed, {seconds:.2f} s"
    )


@contextmanager
def closing_session(scratch: Path) -> Iterator[SparkSession]:
    """A local Spark session that ends with the block."""
    session = hudi_session(scratch)
    try:
        yield session
    finally:
        session.stop()


def _introduction(table: pruner.Table) -> str:
    status = table.status()
    size = sum(index.bytes for index in status.indexes)
    data = table.snapshot().data.sizes.sum()
    return (
        f"flights: {table.format} table, {status.slices} file groups, {data / 1e6:.1f} MB in the latest file slices; "
        f"index {size / 1e3:.0f} kB beside the table"
    )


def _show_small_tables(connection: Any, plain: duckdb.DuckDBPyConnection, tables: DemoTables) -> None:
    statement = f"CREATE VIEW airlines AS SELECT * FROM read_parquet({_quoted(str(tables.airlines))})"
    connection.execute(statement)
    plain.execute(statement)


def _kept_by_hudis_indexes(tables: DemoTables) -> list[int]:
    """How many files each query reads with Hudi's own indexes, as if pruner had built none."""
    with tempfile.TemporaryDirectory() as nowhere:
        connection = pruner_duckdb.connect({"flights": {"uri": str(tables.flights), "index_uri": nowhere}})
        _show_small_tables(connection, duckdb.connect(), tables)
        found: list[int] = []
        for query in QUERIES:
            connection.sql(query.sql).fetchall()
            found.append(connection.last_plans[-1].kept)
        return found


def _measure(query: Query, by_hudi: int, connection: Any, plain: duckdb.DuckDBPyConnection) -> Outcome:
    """Run a query both ways in turn, so that a machine that slows down slows both."""
    unpruned: list[float] = []
    pruned: list[float] = []
    expected: list[tuple[Any, ...]] = []
    found: list[tuple[Any, ...]] = []
    for _ in range(RUNS):
        expected = _timed(lambda: plain.execute(query.sql).fetchall(), unpruned)
        found = _timed(lambda: connection.sql(query.sql).fetchall(), pruned)
    plan = connection.last_plans[-1]
    return Outcome(
        query=query,
        by_hudi=by_hudi,
        kept=plan.kept,
        total=plan.total,
        bytes_kept=plan.plan.bytes_kept,
        unpruned=statistics.median(unpruned),
        pruned=statistics.median(pruned),
        equal=found == expected,
    )


def _timed(run: Callable[[], list[tuple[Any, ...]]], times: list[float]) -> list[tuple[Any, ...]]:
    started = time.perf_counter()
    rows = run()
    times.append(time.perf_counter() - started)
    return rows


def _grid(outcomes: list[Outcome]) -> Grid:
    grid = Grid(title=f"DuckDB {duckdb.__version__}, median of {RUNS} runs each, taken in turn")
    grid.add_column("query")
    for heading in (
        "by Hudi's indexes",
        "files kept",
        "of",
        "MB read",
        "all files, ms",
        "pruned, ms",
        "ratio",
        "answers",
    ):
        grid.add_column(heading, justify="right")
    for outcome in outcomes:
        grid.add_row(
            outcome.query.shows,
            f"{outcome.by_hudi:,}",
            f"{outcome.kept:,}",
            f"{outcome.total:,}",
            f"{outcome.bytes_kept / 1e6:.2f}",
            f"{outcome.unpruned * 1e3:.1f}",
            f"{outcome.pruned * 1e3:.1f}",
            f"{outcome.unpruned / outcome.pruned:.1f}",
            "equal" if outcome.equal else "DIFFER",
        )
    return grid


def _explain(connection: Any) -> str:
    connection.sql(QUERIES[0].sql).fetchall()
    return connection.last_plans[-1].explain()


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted_list(paths: list[str]) -> str:
    return "[" + ", ".join(_quoted(str(Path(path))) for path in paths) + "]"


if __name__ == "__main__":
    main()
