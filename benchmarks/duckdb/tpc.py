"""TPC-H and TPC-DS over plain DuckDB, by rewritten statements and by the native scan, in turn in one process.

Most statements are short and read many tables, and little of them can be pruned: they show the cost of pruner being
on. Tables are Parquet files of at most some ten thousand rows; plain DuckDB reads them through views over globs.
Ratios are of CPU time, which a busy machine affects less than wall time. A new statement ends with its own comment,
so that nothing of it is seen a second time. `PRUNER_TPC_SCALE=1 PRUNER_TPC_SUITES=tpch` measures TPC-H at scale 1.
"""

from __future__ import annotations

import math
import os
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import duckdb
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from pruner_duckdb.native_scan.library import forget_answers, reason_against
from tools.tpc import SCALE, SUITES, tpc_data

RUNS = int(os.environ.get("PRUNER_TPC_RUNS", "3"))
MOST_WORST = 1.2
SECONDS_A_STATEMENT = 60
CONFIG = {"memory_limit": "2GB", "threads": 2}

Rows = list[tuple[Any, ...]]


WAYS = ("rewritten", "native")


@dataclass
class Compared:
    """One statement: the least CPU time in seconds of plain DuckDB and of each way, and how its answer differs.

    A way's time is given for the statement as a new one and for the same text again. The native scan caches by the
    conditions of scans, not by texts, so its time is also given with conditions not seen before.
    """

    name: str
    plain: float = math.inf
    new: dict[str, float] = field(default_factory=dict[str, float])
    again: dict[str, float] = field(default_factory=dict[str, float])
    first: dict[str, float] = field(default_factory=dict[str, float])
    files: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    differences: dict[str, str] = field(default_factory=dict[str, str])

    def ratio(self, kind: str, way: str) -> float:
        """A way's time relative to plain DuckDB's."""
        return getattr(self, kind)[way] / self.plain


def run(console: Console) -> None:
    """Measure both suites."""
    folder = tpc_data()
    for suite in SUITES.split(","):
        _show(console, suite, list(_suite(folder, suite)))


def _show(console: Console, suite: str, every: list[Compared]) -> None:
    ways = [way for way in WAYS if way in every[0].new]
    grid = Grid(
        title=f"{suite} at scale {SCALE}: processor time in ms; of {len(every)}, those above {MOST_WORST}"
    )
    for heading in ("statement", "plain", *(f"{kind}, {way}" for way in ways for kind in ("new", "again"))):
        grid.add_column(heading, justify="right")
    for each in every:
        if max(each.ratio(kind, way) for kind in ("new", "again") for way in ways) > MOST_WORST:
            cells = (f"{each.ratio(kind, way):.2f}" for way in ways for kind in ("new", "again"))
            grid.add_row(each.name, f"{each.plain * 1e3:.0f}", *cells)
    console.print(grid)
    for each in every:
        told = ", ".join(
            f"{kind}, {way} {each.ratio(kind, way):.2f}" for way in ways for kind in ("new", "again")
        )
        console.print(f"{each.name}: {each.plain * 1e3:.0f} ms; {told}")
    for way in ways:
        for kind in ("first", "new", "again") if way == "native" else ("new", "again"):
            ratios = {each.name: each.ratio(kind, way) for each in every}
            worst = max(ratios, key=lambda name: ratios[name])
            whole = sum(getattr(each, kind)[way] for each in every) / sum(each.plain for each in every)
            console.print(
                f"{suite}, {kind}, {way}: mean ratio {statistics.mean(ratios.values()):.2f}, median "
                f"{statistics.median(ratios.values()):.2f}, of all time {whole:.2f}, "
                f"worst {ratios[worst]:.2f} ({worst})"
            )
        kept, total = (sum(each.files[way][place] for each in every) for place in (0, 1))
        different = [f"{each.name}: {each.differences[way]}" for each in every if each.differences[way]]
        console.print(f"{suite}, {way}: {kept:,} of {total:,} files read by the scans that it tells")
        console.print(f"{suite}, {way}: answers that differ: {'; '.join(different) or 'none'}")


def _suite(folder: Path, suite: str) -> Iterator[Compared]:
    tables = {path.name: str(path) for path in sorted((folder / suite).iterdir()) if path.suffix != ".pruner"}
    plain = duckdb.connect(config=CONFIG)
    opened: dict[str, pruner.Table] = {}
    for name, root in tables.items():
        plain.execute(f"CREATE VIEW {name} AS FROM read_parquet('{root}/*.parquet')")
        opened[name] = pruner.open_table(root)
        opened[name].create_index("columns", on="*", if_not_exists=True)
    connections: dict[str, Any] = {"rewritten": pruner_duckdb.connect(opened, config=CONFIG)}
    if reason_against() is None:
        connections["native"] = pruner_duckdb.connect(opened, config=CONFIG, native="on")
    for path in sorted(folder.glob(f"{suite}-*.sql")):
        yield _statement(path.stem, path.read_text(encoding="utf-8").strip().rstrip(";"), plain, connections)


def _statement(
    name: str, sql: str, plain: duckdb.DuckDBPyConnection, connections: Mapping[str, Any]
) -> Compared:
    compared = Compared(name)
    for number in range(1 + RUNS):
        taken, expected = _timed(plain, sql)
        compared.plain = min(compared.plain, taken)
        for way, connection in sorted(connections.items(), reverse=number % 2 == 0):
            if way == "native":
                forget_answers()
                first, _ = _timed(connection, f"{sql}\n-- first {number}")
                compared.first[way] = min(compared.first.get(way, math.inf), first)
            connection.last_plans.clear()
            new, found = _timed(connection, f"{sql}\n-- {number}")
            scans = list(connection.last_plans)
            again, _ = _timed(connection, sql)
            compared.new[way] = min(compared.new.get(way, math.inf), new)
            if number:
                compared.again[way] = min(compared.again.get(way, math.inf), again)
            compared.files[way] = sum(scan.kept for scan in scans), sum(scan.total for scan in scans)
            compared.differences[way] = compared.differences.get(way) or difference(expected, found)
    return compared


def _timed(connection: Any, sql: str) -> tuple[float, Rows | str]:
    """CPU time and rows, or what went wrong."""
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


def difference(expected: Rows | str, found: Rows | str) -> str:
    if isinstance(expected, str) or isinstance(found, str):
        return "" if expected == found else f"{str(expected)[:60]} / {str(found)[:60]}"
    # Ties may come in any order, and sums of floats depend on the order of addition.
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
