"""DuckDB over a glob, over the right list of files, and through the adapter, on many small files.

Every query has its own literals, so that no statement is seen a second time.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from itertools import product
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
RUNS = 41
GLOB_RUNS = 4
PINNED_SECONDS = 3600.0
AIMS = {"list": 400, "pinned": 100, "fresh": 30}
"""How many times faster than the glob of 10,000 files."""

COLUMNS = {
    "list": "list of 3",
    "pinned": "con.sql pinned",
    "fresh": "con.sql fresh",
    "walk": "listing alone",
}


def run(console: Console) -> None:
    """Measure queries that three files answer."""
    grid = Grid(title="DuckDB, ranges that 3 files hold; medians in ms, ratios to the glob in the same run")
    for heading in ("files", "glob"):
        grid.add_column(heading, justify="right")
    for heading in COLUMNS.values():
        grid.add_column(heading, justify="right")
        grid.add_column("ratio", justify="right")
    measured: dict[int, dict[str, float]] = {}
    for count in FILE_COUNTS:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "events"
            write_files(root, count)
            measured[count] = times = _measure(root, count)
        cells = [f"{times['glob'] * 1e3:.0f}"]
        for name in COLUMNS:
            cells += [f"{times[name] * 1e3:.2f}", f"{times['glob'] / times[name]:.0f}"]
        grid.add_row(f"{count:,}", *cells)
    console.print(grid)
    largest = measured[FILE_COUNTS[-1]]
    for name, aim in AIMS.items():
        ratio = largest["glob"] / largest[name]
        console.print(f"{FILE_COUNTS[-1]:,} files, {COLUMNS[name]}: {ratio:.0f} times the glob (aim: {aim})")


def write_files(root: Path, count: int) -> None:
    """Write `count` files of `ROWS_PER_FILE` rows with ascending ids, 1,000 files to a folder."""
    rng = np.random.default_rng(7)
    for number in track(range(count), f"writing {count:,} files", transient=True):
        folder = root / f"batch={number // 1000}"
        folder.mkdir(parents=True, exist_ok=True)
        ids = pa.array(range(number * ROWS_PER_FILE, (number + 1) * ROWS_PER_FILE), pa.int64())
        amounts = pa.array(rng.normal(100, 20, ROWS_PER_FILE))
        pq.write_table(pa.table({"id": ids, "amount": amounts}), folder / f"part-{number:06}.parquet")


def _queries(count: int) -> Iterator[str]:
    """Statements over `{}`, each with its own range that the same three files hold."""
    start = (count // 2) * ROWS_PER_FILE
    for below, above in product(range(1, ROWS_PER_FILE), repeat=2):
        low, high = start - below, start + ROWS_PER_FILE - 1 + above
        yield f"SELECT count(*), sum(amount) FROM {{}} WHERE id BETWEEN {low} AND {high}"


def _measure(root: Path, count: int) -> dict[str, float]:
    table = pruner.open_table(str(root))
    table.create_index("ids", on="id")
    queries = _queries(count)
    files = list(table.plan(next(queries).partition("WHERE ")[2]).files)
    assert len(files) == 3, files
    plain = duckdb.connect()
    glob = f"read_parquet('{root}/**/*.parquet')"
    listed = "read_parquet([" + ", ".join(f"'{file}'" for file in files) + "])"
    pinned = pruner_duckdb.connect({"events": pruner.open_table(str(root), max_staleness=PINNED_SECONDS)})
    fresh = pruner_duckdb.connect({"events": pruner.open_table(str(root))})
    query = next(queries)
    (rows, total), *_ = plain.execute(query.format(glob)).fetchall()
    for connection in (pinned, fresh):
        (found, amount), *_ = connection.sql(query.format("events")).fetchall()
        assert found == rows
        assert abs(amount - total) < 1e-6 * total
        assert connection.last_plans[-1].kept == 3
    # Not in turn with the glob: a busy machine delays a process that just had all cores for a second.
    globs = {"glob": lambda: plain.execute(next(queries).format(glob)).fetchall()}
    before = medians(globs, GLOB_RUNS)["glob"]
    times = medians(
        {
            "list": lambda: plain.execute(next(queries).format(listed)).fetchall(),
            "pinned": lambda: pinned.sql(next(queries).format("events")).fetchall(),
            "fresh": lambda: fresh.sql(next(queries).format("events")).fetchall(),
            "walk": table.snapshot,
        },
        RUNS,
        warmups=2,
    )
    return times | {"glob": (before + medians(globs, GLOB_RUNS)["glob"]) / 2}
