"""`pruner demo`: queries in DuckDB over an example table, with and without pruning."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pruner.cli.commands.queries import duckdb_adapter
from pruner.cli.output import print_columns, printable, write_line
from pruner.errors import PrunerError
from pruner.showing.words import data_size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pruner.table import Table

RUNS = 7

QUERIES = {
    "point": "SELECT tail, delay FROM flights WHERE carrier = 'HA' AND departure >= '2024-05-17' "
    "AND departure < '2024-05-19' ORDER BY ALL",
    "range": "SELECT origin, count(*) FROM flights WHERE departure >= '2024-07-04 06:00:00+00' "
    "AND departure < '2024-07-04 12:00:00+00' GROUP BY origin ORDER BY origin",
    "IN": "SELECT carrier, count(*), max(delay) FROM flights WHERE carrier IN ('OO', 'YV') GROUP BY ALL ORDER BY 1",
    "LIKE prefix": "SELECT count(*), count(DISTINCT destination) FROM flights WHERE carrier LIKE 'F%' AND delay > 60",
    "NULL": "SELECT month, count(*) FROM flights WHERE delay IS NULL AND carrier = 'MQ' GROUP BY month ORDER BY 1",
    "OR": "SELECT count(*), sum(distance) FROM flights WHERE (carrier = 'AS' AND month = 2) OR delay > 267",
    "join": "SELECT a.name, count(*) FROM flights f JOIN airlines a ON f.carrier = a.carrier "
    "WHERE a.carrier = 'VX' AND f.departure >= '2024-12-24' GROUP BY a.name",
    "one plane": "SELECT count(*), min(departure) FROM flights WHERE tail = 'N12345'",
    "hour of day": "SELECT count(*) FROM flights WHERE hour(departure AT TIME ZONE 'UTC') = 4",
    "not prunable": "SELECT count(*), avg(air_time) FROM flights WHERE (distance + air_time) % 7 = 3",
}
"""What `make demo` shows, over the example table."""

EXPLAINED = "point"

_AIRLINES = (
    "CREATE VIEW airlines AS SELECT * FROM (VALUES ('AA', 'American'), ('DL', 'Delta'), ('HA', 'Hawaiian'), "
    "('UA', 'United'), ('VX', 'Virgin America')) AS a(carrier, name)"
)


class _Outcome(NamedTuple):
    """What a query read, and how long it took in milliseconds with all files and with those that were left."""

    kept: int
    total: int
    read: int
    unpruned: float
    pruned: float
    equal: bool


@dataclass(frozen=True)
class _Sides:
    """The same table in two connections: pruned, and by DuckDB's own reader of Parquet files."""

    pruned: Any
    plain: Any


def demo() -> None:
    """Query an example table in DuckDB, pruned and not pruned; takes ten seconds."""
    adapter = duckdb_adapter()
    from pruner.catalog.names import open_table
    from pruner.examples import example

    with tempfile.TemporaryDirectory(prefix="pruner-demo-") as folder:
        place = example("flights", Path(folder) / "flights")
        table = open_table(place)
        pruned: Any = adapter.connect({"flights": table}, config={})
        plain: Any = adapter.connect({}, config={})
        sides = _Sides(pruned, plain.native)
        _index(table)
        _prepare(sides, place)
        outcomes = {name: _measured(sides, sql) for name, sql in QUERIES.items()}
        _print_outcomes(outcomes)
        _print_explanation(sides)
    differing = [name for name, outcome in outcomes.items() if not outcome.equal]
    if differing:
        raise PrunerError(
            f"the answers to {', '.join(differing)} differ with and without pruning: report this fault"
        )
    write_line("")
    write_line("The table is gone again. To have it for yourself:")
    write_line("""  python -c "import pruner; pruner.example('flights', 'lake/flights')\"""")


def _index(table: Table) -> None:
    """Index the table as `make demo` does, with a filter for single planes besides."""
    started = time.perf_counter()
    table.create_index("stats", on="*", progress=False)
    table.create_index("hours", on="hour(departure)", using="bitmap", progress=False)
    table.create_index("planes", on="tail", using="bloom_filter", progress=False)
    seconds = time.perf_counter() - started
    status = table.status()
    stored = sum(index.bytes for index in status.indexes)
    write_line(
        f"flights: 180,000 made-up flights in {status.slices:,} Parquet files, {data_size(_size(table))}; "
        f"three indexes made in {seconds:.1f} s, {data_size(stored)}"
    )
    for index in status.indexes:
        write_line(f"  {index.name}: {index.using}")
    write_line("")


def _size(table: Table) -> int:
    return table.plan("true").bytes_total


def _prepare(sides: _Sides, place: str) -> None:
    """Let both sides name the same tables; hours and days are those of UTC on any machine."""
    files = f"{place}/**/*.parquet".replace("'", "''")
    sides.plain.execute(f"CREATE VIEW flights AS FROM read_parquet('{files}', hive_partitioning = true)")
    for connection in (sides.plain, sides.pruned):
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute(_AIRLINES)


def _measured(sides: _Sides, sql: str) -> _Outcome:
    """Run a query both ways in turn, so that a machine that slows down slows both."""
    times: tuple[list[float], list[float]] = ([], [])
    expected: list[tuple[Any, ...]] = []
    timings: list[tuple[Any, ...]] = []
    for _ in range(RUNS):
        expected = _timed(lambda: sides.plain.execute(sql).fetchall(), times[0])
        timings = _timed(lambda: sides.pruned.execute(sql).fetchall(), times[1])
    plan = sides.pruned.last_plans[-1].plan
    unpruned, pruned = map(statistics.median, times)
    return _Outcome(plan.kept, plan.total, plan.bytes_kept, unpruned, pruned, timings == expected)


def _timed(run: Callable[[], list[tuple[Any, ...]]], times: list[float]) -> list[tuple[Any, ...]]:
    started = time.perf_counter()
    rows = run()
    times.append((time.perf_counter() - started) * 1e3)
    return rows


def _print_outcomes(outcomes: dict[str, _Outcome]) -> None:
    write_line(f"Each query {RUNS} times with DuckDB alone and with pruner, in turn; medians")
    write_line("")
    print_columns(
        ("query", "files read", "of", "MB read", "DuckDB, ms", "pruned, ms", "ratio", "answers"),
        (
            (name, outcome.kept, outcome.total, *_figures(outcome), "equal" if outcome.equal else "DIFFER")
            for name, outcome in outcomes.items()
        ),
    )


def _figures(outcome: _Outcome) -> Iterator[float]:
    yield round(outcome.read / 1e6, 2)
    yield round(outcome.unpruned, 1)
    yield round(outcome.pruned, 1)
    yield round(outcome.unpruned / outcome.pruned, 1)


def _print_explanation(sides: _Sides) -> None:
    """Show which clause dropped which files in one of the queries, as `pruner explain` does."""
    write_line("")
    write_line(f"{EXPLAINED}: {QUERIES[EXPLAINED]}")
    write_line("")
    sides.pruned.execute(QUERIES[EXPLAINED])
    for line in sides.pruned.last_plans[-1].plan.explain().split("\n"):
        write_line(printable(line))
