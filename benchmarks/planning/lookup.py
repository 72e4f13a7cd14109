"""Point lookups in a separate process: what a first plan reads and how long it takes with bitmaps of many values.

The table has a UUID in each row and a `user_id` with a long tail, both unordered, and times that ascend with the
files. BENCH_ROWS is the number of rows (default 1,200,000), 6,000 per file.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.planning import keys

ROWS = 1_200_000
ROWS_PER_FILE = 6_000
RUNS = 3
AIM_SECONDS = 0.3
AIM_MEGABYTES = 200
_SECONDS_A_FILE = 600
_MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_maxrss, used.ru_utime + used.ru_stime)
"""


class Cold(NamedTuple):
    """One command in separate processes: median CPU seconds, greatest peak of memory in MB."""

    seconds: float
    megabytes: float


def run(console: Console) -> None:
    """Measure cold plans over bitmaps of a UUID and of a user, beside an empty process and DuckDB's full scan."""
    rows = int(os.environ.get("BENCH_ROWS", str(ROWS)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "events"
        wanted = write_table(root, rows)
        keys.measure(console, root, wanted)
        _measure(console, root, wanted)
    keys.growth(console)


def write_table(root: Path, rows: int) -> str:
    """Write the table; returns a UUID from its middle."""
    root.mkdir(parents=True)
    rng = np.random.default_rng(17)
    files = max(rows // ROWS_PER_FILE, 1)
    wanted = ""
    for number in range(files):
        ids = [str(uuid.UUID(bytes=rng.bytes(16))) for _ in range(ROWS_PER_FILE)]
        wanted = ids[17] if number == files // 2 else wanted
        start = number * _SECONDS_A_FILE
        columns: dict[str, Any] = {
            "uuid": ids,
            "user_id": (rng.pareto(0.6, ROWS_PER_FILE) * 50).clip(0, 1e9).astype(np.int64),
            "ts": pa.array(
                start + np.sort(rng.integers(0, _SECONDS_A_FILE, ROWS_PER_FILE)), pa.timestamp("s")
            ),
            "amount": rng.normal(100, 20, ROWS_PER_FILE),
        }
        pq.write_table(pa.table(columns), root / f"part-{number:05}.parquet")
    return wanted


def _measure(console: Console, root: Path, wanted: str) -> None:
    plain = _cold(["-c", "import pruner"])
    scan = _cold(
        [
            "-c",
            f"import duckdb; duckdb.sql(\"SELECT * FROM '{root}/*.parquet' WHERE uuid = '{wanted}'\").fetchall()",
        ]
    )
    table = pruner.open_table(str(root))
    refused = _refusal(table)
    table.create_index("times", on="ts")
    nothing = _cold(_plan(root, "amount = 1"))
    grid = Grid(title=f"one plan in a process of its own; medians of {RUNS} runs, greatest peaks")
    for heading in ("process", "processor s", "over the plan without an index", "MB at the peak"):
        grid.add_column(heading, justify="left" if heading == "process" else "right")
    grid.add_row("import pruner", f"{plain.seconds:.2f}", "", f"{plain.megabytes:.0f}")
    grid.add_row("pruner plan, no index asked", f"{nothing.seconds:.2f}", "", f"{nothing.megabytes:.0f}")
    for using in keys.USING:
        found = _cold(_plan(root, f"uuid = '{wanted}'"), PRUNER_CONFIG=_config(root, using))
        over = f"{found.seconds - nothing.seconds:+.2f}"
        grid.add_row(f"{using} on uuid", f"{found.seconds:.2f}", over, f"{found.megabytes:.0f}")
    for column, predicates in _predicates(wanted).items():
        started = time.perf_counter()
        table.create_index(column, on=column, using="bitmap", force=True)
        taken = time.perf_counter() - started
        size = next(each.bytes for each in table.status().indexes if each.name == column)
        console.print(f"bitmap on {column}: {size / 1e6:.1f} MB, built in {taken:.1f} s")
        for predicate in predicates:
            found = _cold(_plan(root, predicate))
            over = f"{found.seconds - nothing.seconds:+.2f}"
            grid.add_row(predicate, f"{found.seconds:.2f}", over, f"{found.megabytes:.0f}")
    grid.add_row("DuckDB, whole scan", f"{scan.seconds:.2f}", "", f"{scan.megabytes:.0f}")
    console.print(grid)
    console.print(f"aim for uuid: {AIM_SECONDS} s over the plan without an index, {AIM_MEGABYTES} MB")
    console.print(f"create_index without force: {refused}")


def _predicates(wanted: str) -> dict[str, list[str]]:
    of_user = "user_id = 7 AND ts BETWEEN '1970-01-01 01:00:00' AND '1970-01-01 02:00:00'"
    return {
        "uuid": [f"uuid = '{wanted}'", f"uuid IN ('{wanted}', '0')", "uuid BETWEEN 'aa00' AND 'aa01'"],
        "user_id": ["user_id = 1234567", "user_id = 51", of_user],
    }


def _refusal(table: pruner.Table) -> str:
    try:
        table.create_index("uuid", on="uuid", using="bitmap")
    except pruner.IndexDefinitionError as error:
        return str(error)
    table.drop_index("uuid")
    return "not refused, the table is small"


def _plan(root: Path, predicate: str) -> list[str]:
    return ["-m", "pruner", "plan", str(root), "--where", predicate]


def _config(root: Path, using: str) -> str:
    """Write a configuration file that gives the table the index built by `keys.measure`; returns its path."""
    path = root.with_name(f"{using}.toml")
    path.write_text(f'[tables.events]\nuri = "{root}"\nindex_uri = "{root}.{using}"\n', encoding="utf-8")
    return str(path)


def _cold(arguments: list[str], **environment: str) -> Cold:
    times: list[float] = []
    peaks: list[int] = []
    for _ in range(RUNS):
        done = subprocess.run(
            [sys.executable, "-c", _MEASURE, sys.executable, *arguments],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, **environment},
        )
        code, peak, seconds = done.stdout.split()
        assert code == "0", done.stderr
        times.append(float(seconds))
        peaks.append(int(peak))
    return Cold(median(times), max(peaks) / 1e3)
