"""A Delta table with deleted rows in DuckDB, against DuckDB itself over the same files as if none were deleted.

60 files of 20,000 rows, 0, 1 and 10 % of each file's rows deleted by vectors. CPU time of the whole process; the two
take turns, and the ratio is the median of the turns' ratios.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import pruner_duckdb
from tests.support.delta.logs import Column, DeltaLog

FILES = 60
ROWS = 20_000
RUNS = 9
SHARES = (0, 1, 10)
STATEMENTS = {
    "sums": "SELECT k, sum(id), avg(price), count(*) FROM t GROUP BY k ORDER BY k",
    "join": "SELECT count(*), sum(a.price) FROM t a JOIN t b ON a.id = b.id + 1 WHERE b.k < 20",
    "top-k": "SELECT id, price, name FROM t ORDER BY price DESC, id LIMIT 20",
    "count(*)": "SELECT count(*) FROM t",
}
_COLUMNS = (Column("id", "long"), Column("k", "integer"), Column("price", "double"), Column("name", "string"))


def run(console: Console) -> None:
    """Measure each statement over tables with more and more deleted rows."""
    grid = Grid(title=f"deleted rows, {FILES} files of {ROWS:,} rows: processor time, plain DuckDB being 1")
    grid.add_column("deleted")
    for name in STATEMENTS:
        grid.add_column(name, justify="right")
    for share in SHARES:
        with tempfile.TemporaryDirectory() as folder:
            root = _written(Path(folder) / "t", FILES, share)
            plain = duckdb.connect()
            plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet')")
            with pruner_duckdb.connect({"t": str(root)}) as con:
                ratios = [f"{_ratio(con, plain, statement):.2f}" for statement in STATEMENTS.values()]
            grid.add_row(f"{share} %", *ratios)
    console.print(grid)


def _ratio(con: Any, plain: Any, statement: str) -> float:
    def taken(contender: Callable[[], Any]) -> float:
        started = time.process_time()
        contender()
        return time.process_time() - started

    ratios: list[float] = []
    for turn in range(RUNS + 1):
        ours = taken(lambda: con.execute(statement).fetchall())
        theirs = taken(lambda: plain.execute(statement).fetchall())
        if turn:
            ratios.append(ours / theirs)
    return median(ratios)


def _written(root: Path, count: int, share: int) -> Path:
    """Write a table; each file has the same number of rows deleted, at random."""
    of = np.random.default_rng(7)
    table = DeltaLog(root, _COLUMNS, features=("deletionVectors",))
    paths = table.append(*(_rows(of, number * ROWS) for number in range(count)))
    if share:
        size = ROWS * share // 100
        table.delete({path: of.choice(ROWS, size, replace=False).tolist() for path in paths})
    return root


def _rows(of: np.random.Generator, start: int) -> pa.Table:
    columns: dict[str, Any] = {
        "id": np.arange(start, start + ROWS),
        "k": of.integers(0, 1000, ROWS, dtype=np.int32),
        "price": of.random(ROWS),
        "name": [f"name {number}" for number in of.integers(0, 10**6, ROWS)],
    }
    return pa.table(columns)
