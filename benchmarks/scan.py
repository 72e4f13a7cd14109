"""DuckDB over a glob, over the right list of files, and through the adapter, on many small files."""

from __future__ import annotations

import tempfile
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table as Grid

import pruner
import pruner_duckdb
from benchmarks.timing import medians

FILE_COUNTS = (2_000, 10_000)
ROWS_PER_FILE = 100
RUNS = 9
PINNED_SECONDS = 3600.0


def run(console: Console) -> None:
    """Measure a query that three files answer."""
    grid = Grid(title="DuckDB, a range that 3 files hold; medians in ms, ratios to the glob in the same run")
    for heading in (
        "files",
        "glob",
        "list of 3",
        "ratio",
        "con.sql pinned",
        "ratio",
        "con.sql fresh",
        "ratio",
    ):
        grid.add_column(heading, justify="right")
    for count in FILE_COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "events"
            write_files(root, count)
            grid.add_row(f"{count:,}", *_measure(root, count))
    console.print(grid)


def write_files(root: Path, count: int) -> None:
    """Write `count` files of `ROWS_PER_FILE` rows with ascending ids, 1,000 files to a folder."""
    rng = np.random.default_rng(7)
    for number in track(range(count), f"writing {count:,} files", transient=True):
        folder = root / f"batch={number // 1000}"
        folder.mkdir(parents=True, exist_ok=True)
        ids = np.arange(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE)
        columns = {"id": ids, "amount": rng.normal(100, 20, ROWS_PER_FILE)}
        pq.write_table(pa.table(columns), folder / f"part-{number:06}.parquet")


def _measure(root: Path, count: int) -> list[str]:
    table = pruner.open_table(str(root))
    table.create_index("ids", on="id")
    low = (count // 2) * ROWS_PER_FILE
    where = f"id BETWEEN {low - 10} AND {low + ROWS_PER_FILE + 10}"
    query = "SELECT count(*), sum(amount) FROM {} WHERE " + where
    files = list(table.plan(where).files)
    assert len(files) == 3, files
    plain = duckdb.connect()
    listed = "read_parquet([" + ", ".join(f"'{file}'" for file in files) + "])"
    pinned = pruner_duckdb.connect({"events": pruner.open_table(str(root), max_staleness=PINNED_SECONDS)})
    fresh = pruner_duckdb.connect({"events": pruner.open_table(str(root))})
    glob = query.format(f"read_parquet('{root}/**/*.parquet')")
    expected = plain.execute(glob).fetchall()
    for connection in (pinned, fresh):
        assert connection.sql(query.format("events")).fetchall()[0][0] == expected[0][0]
    times = medians(
        {
            "glob": lambda: plain.execute(glob).fetchall(),
            "list": lambda: plain.execute(query.format(listed)).fetchall(),
            "pinned": lambda: pinned.sql(query.format("events")).fetchall(),
            "fresh": lambda: fresh.sql(query.format("events")).fetchall(),
        },
        RUNS,
    )
    row = [f"{times['glob'] * 1e3:.0f}"]
    for name in ("list", "pinned", "fresh"):
        row += [f"{times[name] * 1e3:.2f}", f"{times['glob'] / times[name]:.0f}"]
    return row
