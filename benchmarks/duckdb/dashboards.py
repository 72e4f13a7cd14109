"""Everyday statements of analysts over plain DuckDB, rewritten and by the native scan, in turn in one process.

Most of them cannot be pruned: they show the cost of pruner being on. Plain DuckDB reads a glob, with `union_by_name`
where the files differ. A statement is run several times with the same text, as dashboards do.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from benchmarks.lakes.dashboard_lakes import FILES, ROWS_PER_FILE, Lake, lakes
from pruner_duckdb.scans import Scan

RUNS = 5
MOST_MEAN = 1.03
MOST_WORST = 1.15

STATEMENTS = {
    "point": "SELECT * FROM {t} t WHERE id = 123456",
    "points": "SELECT * FROM {t} t WHERE id IN (17, 512345, 999999)",
    "a day": "SELECT count(*), sum(amount) FROM {t} t WHERE ts::DATE = DATE '2023-03-05'",
    "a week": "SELECT cat, sum(amount) FROM {t} t WHERE ts >= '2023-05-01' AND ts < '2023-05-08' GROUP BY cat",
    "last hours": "SELECT max(ts), count(*) FROM {t} t WHERE ts > '2023-07-19 20:00:00'",
    "newest of a point": "SELECT * FROM {t} t WHERE id BETWEEN 70000 AND 70200 ORDER BY ts DESC LIMIT 5",
    "join of a week": "SELECT u.seg, sum(t.amount) FROM {t} t JOIN users u USING (uid)"
    " WHERE t.ts >= '2023-05-01' AND t.ts < '2023-05-08' GROUP BY ALL",
    "nothing": "SELECT count(*) FROM {t} t WHERE id < 0",
    # No index helps these.
    "count": "SELECT count(*) FROM {t} t",
    "count a column": "SELECT count(uid) FROM {t} t",
    "totals": "SELECT sum(amount), avg(amount), min(ts), max(ts) FROM {t} t",
    "group": "SELECT cat, count(*), sum(amount) FROM {t} t GROUP BY cat",
    "many groups": "SELECT uid, sum(amount) AS s FROM {t} t GROUP BY uid ORDER BY s DESC LIMIT 10",
    "month by month": "SELECT date_trunc('month', ts) AS m, sum(amount) FROM {t} t GROUP BY m ORDER BY m",
    "distinct": "SELECT count(DISTINCT uid) FROM {t} t",
    "top": "SELECT * FROM {t} t ORDER BY amount DESC LIMIT 10",
    "top of two": "SELECT id, amount FROM {t} t ORDER BY amount LIMIT 10",
    "newest": "SELECT * FROM {t} t ORDER BY ts DESC LIMIT 20",
    "first rows": "SELECT * FROM {t} t LIMIT 10",
    "text": "SELECT count(*) FROM {t} t WHERE txt LIKE '%99%'",
    "expression": "SELECT sum(amount) FROM {t} t WHERE uid % 7 = 3",
    "selective join": "SELECT count(*), sum(t.amount) FROM {t} t JOIN users u USING (uid) WHERE u.seg = 7",
    "join of all": "SELECT u.seg, sum(t.amount) FROM {t} t JOIN users u USING (uid) GROUP BY u.seg",
    "semi-join": "SELECT count(*) FROM {t} t WHERE uid IN (SELECT uid FROM users WHERE seg = 3)",
    "newest day": "SELECT count(*) FROM {t} t WHERE ts::DATE = (SELECT max(ts)::DATE FROM {t} t)",
    "above average": "SELECT count(*) FROM {t} t WHERE amount > (SELECT avg(amount) FROM {t} t)",
    "window": "SELECT * FROM (SELECT cat, ts, row_number() OVER (PARTITION BY cat ORDER BY ts DESC) AS n"
    " FROM {t} t) WHERE n <= 2",
    "with": "WITH d AS (SELECT cat, count(*) AS n FROM {t} t GROUP BY cat) SELECT max(n), min(n) FROM d",
}
"""By what they query; those up to "nothing" can be pruned."""

WAYS = ("rewritten", "native")
PRUNABLE = frozenset(list(STATEMENTS)[: list(STATEMENTS).index("nothing") + 1])


@dataclass(frozen=True)
class Taken:
    """Median wall time and CPU time of a statement in seconds; other load disturbs CPU time less."""

    clock: float
    processors: float


def run(console: Console) -> None:
    """Measure every statement over every table."""
    grid = Grid(
        title=f"{FILES} files of {ROWS_PER_FILE:,} rows; medians of {RUNS}: plain DuckDB, and each way with its ratio"
    )
    for heading in ("table", "statement", "plain, ms"):
        grid.add_column(heading, justify="right")
    for way in WAYS:
        for heading in (f"{way}, ms", "ratio", "of processor time", "files read"):
            grid.add_column(heading, justify="right")
    unpruned: dict[str, dict[str, tuple[float, float]]] = {way: {} for way in WAYS}
    with tempfile.TemporaryDirectory() as folder:
        users = Path(folder) / "users.parquet"
        for lake, name, plain, ours in _measured(list(lakes(Path(folder), users)), users):
            cells = [lake, name, f"{plain.clock * 1e3:.1f}"]
            for way, (taken, kept) in ours.items():
                ratios = taken.clock / plain.clock, taken.processors / plain.processors
                if name not in PRUNABLE:
                    unpruned[way][f"{lake}, {name}"] = ratios
                cells += [f"{taken.clock * 1e3:.1f}", *(f"{ratio:.2f}" for ratio in ratios), kept]
            grid.add_row(*cells)
    console.print(grid)
    for way, found in unpruned.items():
        for place, kind in enumerate(("on the clock", "of processor time") if found else ()):
            worst = max(found, key=lambda each: found[each][place])
            mean = statistics.mean(ratios[place] for ratios in found.values())
            console.print(
                f"what cannot be pruned, {way}, {kind}: mean ratio {mean:.3f} (aim {MOST_MEAN}), "
                f"worst {found[worst][place]:.2f} (aim {MOST_WORST}): {worst}"
            )


def _measured(
    tables: list[Lake], users: Path
) -> Iterator[tuple[str, str, Taken, Mapping[str, tuple[Taken, str]]]]:
    for lake in tables:
        table = pruner.open_table(str(lake.root))
        table.create_index("columns", on="*", if_not_exists=True)
        plain = duckdb.connect()
        ours: dict[str, Any] = {
            "rewritten": pruner_duckdb.connect({"t": table}),
            "native": pruner_duckdb.connect({"t": table}, native="auto"),
        }
        for connection in (plain, *ours.values()):
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(f"CREATE VIEW users AS FROM '{users}'")
        for name, statement in STATEMENTS.items():
            yield lake.name, name, *_statement(plain, ours, lake, statement)


def _statement(
    plain: duckdb.DuckDBPyConnection, ours: Mapping[str, Any], lake: Lake, statement: str
) -> tuple[Taken, Mapping[str, tuple[Taken, str]]]:
    named = statement.format(t="t").replace("t t", "t")
    contenders = [(plain, statement.format(t=lake.plain)), *((each, named) for each in ours.values())]
    clocks: list[list[float]] = [[] for _ in contenders]
    processors: list[list[float]] = [[] for _ in contenders]
    for number in range(1 + RUNS):
        for place, (connection, sql) in enumerate(contenders):
            if place:
                connection.last_plans.clear()
            began, busy = time.perf_counter(), time.process_time()
            rows(connection, sql)
            if number:
                clocks[place].append(time.perf_counter() - began)
                processors[place].append(time.process_time() - busy)
    first, *others = (Taken(*map(statistics.median, each)) for each in zip(clocks, processors, strict=True))
    kept = (_told(each.last_plans) for each in ours.values())
    return first, dict(zip(ours, zip(others, kept, strict=True), strict=True))


def _told(scans: Iterable[Scan]) -> str:
    """What the scans of a statement read; there are none where DuckDB answered from the footers of files."""
    return " + ".join(f"{scan.kept} of {scan.total}" for scan in scans) or "no scan"


def rows(connection: Any, sql: str) -> list[Any]:
    """All rows of a statement."""
    return connection.execute(sql).fetchall()
