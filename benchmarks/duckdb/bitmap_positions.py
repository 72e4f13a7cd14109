"""Where it pays to pass row positions to DuckDB: `adapters/pruner_duckdb/read/reading.py` follows these figures.

The query is for one value that is in a given number of rows, spread over all files, once by the value alone and once
with the positions of its rows, which DuckDB applies to all files alike. Statistics exclude no row group: each holds a
smaller value, and greater ones.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.timing import medians

GROUP_ROWS = 122_880
"""Rows per row group, as DuckDB writes them."""

HOLDERS = (1, 4, 16, 64, 256)
SHAPES = ((1, 33), (4, 33), (16, 4))
"""Numbers of files, and of row groups in each."""

RUNS = 7


def run(console: Console) -> None:
    """Measure both ways for each number of rows and shape of the files."""
    grid = Grid(title=f"one value by DuckDB, without positions and with them; medians of {RUNS} in ms")
    for heading in ("files", "row groups each", "MiB each", "rows", "without", "with", "times faster"):
        grid.add_column(heading, justify="right")
    for files, groups in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            _shape(grid, Path(folder), files, groups)
    console.print(grid)


def _shape(grid: Grid, root: Path, files: int, groups: int) -> None:
    rng = np.random.default_rng(13)
    rows = groups * GROUP_ROWS
    for number in range(files):
        column = rng.integers(1000, 50_000, rows)
        column[::GROUP_ROWS] = 0
        for holders in HOLDERS:
            own = holders // files + (number < holders % files)
            column[rng.choice(np.flatnonzero(column >= 1000), own, replace=False)] = holders
        measure = pa.array(rng.normal(0, 1, rows))
        table = pa.table({"x": pa.array(column), "measure": measure})
        pq.write_table(table, root / f"part-{number:02}.parquet", row_group_size=GROUP_ROWS)
    table = pruner.open_table(str(root))
    table.create_index("bits", on="x", using="bitmap", options={"max_cardinality": 1_000_000}, force=True)
    size = (root / "part-00.parquet").stat().st_size / 2**20
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    for holders in HOLDERS:
        plan = table.plan(f"x = {holders}")
        assert plan.rows is not None
        found = [positions.tolist() for _, positions in plan.rows.pairs() if positions is not None]
        assert sum(map(len, found)) == holders
        listed = ", ".join(f"'{file}'" for file in plan.files)
        query = f"SELECT count(*), max(measure) FROM read_parquet([{listed}]) WHERE x = {holders}"
        told = ", ".join(map(str, sorted({position for each in found for position in each})))
        pointed = query.replace("])", "], file_row_number = true)") + f" AND file_row_number IN ({told})"
        assert connection.sql(query).fetchall() == connection.sql(pointed).fetchall()
        times = medians(
            {
                "without": lambda query=query: connection.sql(query).fetchall(),
                "with": lambda pointed=pointed: connection.sql(pointed).fetchall(),
            },
            RUNS,
        )
        shown = [f"{times[name] * 1e3:.1f}" for name in ("without", "with")]
        grid.add_row(
            f"{plan.kept} of {files}",
            f"{groups}",
            f"{size:.1f}",
            f"{holders}",
            *shown,
            f"{times['without'] / times['with']:.1f}",
        )
