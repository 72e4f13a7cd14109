"""DuckDB plain, by rewritten statements and by the native scan, in turn in one process."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import duckdb
from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from benchmarks.duckdb.scan import write_files
from benchmarks.timing import medians

FILES = (10, 200)
RUNS = 41
KEYS = 100

STATEMENTS = {
    "new, one file": "SELECT * FROM t WHERE id = 1003 + {}",
    "new, unprunable": "SELECT count(*), sum(amount) FROM t WHERE amount > -1e6 - {}",
    "self join, unprunable": "SELECT count(*) FROM t a JOIN t b USING (id) WHERE a.amount + b.amount > -1e6 - {}",
    "IN (SELECT …), 3 keys": "SELECT sum(amount) FROM t WHERE id IN (SELECT k FROM few) AND amount > -1e6 - {}",
    f"join, {KEYS} near keys": "SELECT sum(amount) FROM t JOIN near ON id = k WHERE amount > -1e6 - {}",
    f"join, {KEYS} spread keys": "SELECT sum(amount) FROM t JOIN spread ON id = k WHERE amount > -1e6 - {}",
}
"""Each with its own literals, so that nothing is seen a second time."""


def run(console: Console) -> None:
    """Measure every statement over few and many files."""
    for files in FILES:
        grid = Grid(title=f"{files} files; medians in ms, and files read")
        for heading in (
            "statement",
            "plain",
            "rewritten",
            "native",
            "to plain",
            "files: rewritten",
            "native",
        ):
            grid.add_column(heading, justify="left" if heading == "statement" else "right")
        with tempfile.TemporaryDirectory() as folder:
            for row in _rows(Path(folder), files):
                grid.add_row(*row)
        console.print(grid)


def _rows(folder: Path, files: int) -> Iterator[tuple[str, ...]]:
    write_files(folder / "t", files)
    table = pruner.open_table(str(folder / "t"))
    table.create_index("stats", on=["id", "amount"])
    connections = _connections(table, folder / "t", files)
    numbers = count()
    for name, sql in STATEMENTS.items():
        kept: dict[str, str] = {}
        for way, con in connections.items():
            if way != "plain":
                con.last_plans.clear()
                con.execute(sql.format(next(numbers))).fetchall()
                kept[way] = " + ".join(str(scan.kept) for scan in con.last_plans)
        taken = medians({way: partial(_once, con, sql, numbers) for way, con in connections.items()}, RUNS)
        plain, rewritten, native = (1000 * taken[way] for way in ("plain", "rewritten", "native"))
        yield (
            name,
            f"{plain:.2f}",
            f"{rewritten:.2f}",
            f"{native:.2f}",
            f"{rewritten / plain:.2f}, {native / plain:.2f}",
            kept["rewritten"],
            kept["native"],
        )


def _connections(table: pruner.Table, root: Path, files: int) -> Mapping[str, Any]:
    plain: Any = duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/**/*.parquet')")
    connections = {
        "plain": plain,
        "rewritten": pruner_duckdb.connect({"t": table}),
        "native": pruner_duckdb.connect({"t": table}, native="on"),
    }
    ids = plain.execute("SELECT max(id) FROM t").fetchall()[0][0]
    for con in connections.values():
        con.execute("CREATE TABLE few AS SELECT unnest([1003, 1004, 2]) AS k")
        con.execute(f"CREATE TABLE near AS SELECT 1000 + i AS k FROM range({KEYS}) r(i)")
        con.execute(
            f"CREATE TABLE spread AS SELECT i * {max(1, ids // files // 3)} AS k FROM range({KEYS}) r(i)"
        )
    return connections


def _once(con: Any, sql: str, numbers: Iterator[int]) -> object:
    return con.execute(sql.format(next(numbers))).fetchall()
