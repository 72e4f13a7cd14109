"""TPC-H and TPC-DS over plain DuckDB and through the adapter, in turn in one process.

Most statements are short and read many tables, and little of them can be pruned: they show what being switched on
costs. Tables are Parquet files of at most some ten thousand rows; plain DuckDB reads them through views over globs.
Ratios are of processor time, which a busy machine moves less than the clock.
"""

from __future__ import annotations

import math
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import duckdb
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from tools.tpc import SCALE, tpc_data

RUNS = 3
MOST_WORST = 1.2
SECONDS_A_STATEMENT = 60
CONFIG = {"memory_limit": "2GB", "threads": 2}

Rows = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Compared:
    """One statement: processor time in seconds of plain DuckDB, of the first run through the adapter, and of later
    ones; and what differs between the answers, if anything does.
    """

    name: str
    plain: float
    new: float
    again: float
    difference: str


def run(console: Console) -> None:
    """Measure both suites."""
    folder = tpc_data()
    for suite in ("tpch", "tpcds"):
        _show(console, suite, list(_suite(folder, suite)))


def _show(console: Console, suite: str, every: list[Compared]) -> None:
    grid = Grid(
        title=f"{suite} at scale {SCALE}: processor time in ms; of {len(every)}, those above {MOST_WORST}"
    )
    for heading in ("statement", "plain", "new", "again", "new ratio", "ratio"):
        grid.add_column(heading, justify="right")
    for each in every:
        ratio = each.again / each.plain
        if ratio > MOST_WORST:
            times = (f"{taken * 1e3:.0f}" for taken in (each.plain, each.new, each.again))
            grid.add_row(each.name, *times, f"{each.new / each.plain:.2f}", f"{ratio:.2f}")
    console.print(grid)
    for kind in ("new", "again"):
        ratios = {each.name: getattr(each, kind) / each.plain for each in every}
        worst = max(ratios, key=lambda name: ratios[name])
        whole = sum(getattr(each, kind) for each in every) / sum(each.plain for each in every)
        console.print(
            f"{suite}, {kind}: mean ratio {statistics.mean(ratios.values()):.2f}, median "
            f"{statistics.median(ratios.values()):.2f}, of all time {whole:.2f}, worst {ratios[worst]:.2f} ({worst})"
        )
    different = [f"{each.name}: {each.difference}" for each in every if each.difference]
    console.print(f"{suite}: answers that differ: {'; '.join(different) or 'none'}")


def _suite(folder: Path, suite: str) -> Iterator[Compared]:
    tables = {path.name: str(path) for path in sorted((folder / suite).iterdir()) if path.suffix != ".pruner"}
    plain = duckdb.connect(config=CONFIG)
    opened: dict[str, pruner.Table] = {}
    for name, root in tables.items():
        plain.execute(f"CREATE VIEW {name} AS FROM read_parquet('{root}/*.parquet')")
        opened[name] = pruner.open_table(root)
        opened[name].create_index("columns", on="*", if_not_exists=True)
    pruned = pruner_duckdb.connect(opened, config=CONFIG)
    for path in sorted(folder.glob(f"{suite}-*.sql")):
        yield _statement(path.stem, path.read_text(encoding="utf-8").strip().rstrip(";"), plain, pruned)


def _statement(
    name: str, sql: str, plain: duckdb.DuckDBPyConnection, pruned: pruner_duckdb.Connection
) -> Compared:
    theirs: list[float] = []
    ours: list[float] = []
    difference = ""
    for _ in range(1 + RUNS):
        taken, expected = _timed(plain, sql)
        theirs.append(taken)
        taken, found = _timed(pruned, sql)
        ours.append(taken)
        difference = difference or _difference(expected, found)
    return Compared(name, min(theirs), ours[0], min(ours[1:]), difference)


def _timed(connection: Any, sql: str) -> tuple[float, Rows | str]:
    """Processor time and rows, or what went wrong."""
    timer = threading.Timer(SECONDS_A_STATEMENT, connection.interrupt)
    timer.start()
    began = time.process_time()
    try:
        rows: Rows | str = connection.execute(sql).fetchall()
    except duckdb.Error as error:
        rows = f"{type(error).__name__} {str(error).splitlines()[0]}"
    finally:
        taken = time.process_time() - began
        timer.cancel()
    return taken, rows


def _difference(expected: Rows | str, found: Rows | str) -> str:
    if isinstance(expected, str) or isinstance(found, str):
        return "" if expected == found else f"{str(expected)[:60]} / {str(found)[:60]}"
    # Ties may come in any order, and sums of floats differ with the order in which they are made.
    one, other = sorted(expected, key=_key), sorted(found, key=_key)
    if len(one) != len(other):
        return f"{len(one)} rows / {len(other)}"
    pairs = (pair for rows in zip(one, other, strict=True) for pair in zip(*rows, strict=True))
    unequal = [(a, b) for a, b in pairs if not _same(a, b)]
    return f"{unequal[0][0]} / {unequal[0][1]}" if unequal else ""


def _key(row: tuple[Any, ...]) -> list[str]:
    return [f"{value:.6g}" if isinstance(value, float) else str(value) for value in row]


def _same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return math.isclose(one, other, rel_tol=1e-6, abs_tol=1e-9) or (math.isnan(one) and math.isnan(other))
    return cast("bool", one == other)
