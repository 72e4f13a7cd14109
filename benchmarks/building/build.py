"""Building an index, here and on Spark: from footers of many small files, from values of few large ones.

Beside each build is the time that the same tool takes just to read the same columns.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table as Grid

import pruner
from benchmarks.timing import medians
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL_FILES = 10_000
SMALL_ROWS = 100
LARGE_FILES = 12
LARGE_ROWS = 500_000
RUNS = 3
RANDOM = np.random.default_rng(5)

FROM_FOOTERS = ["id", "code"]
FROM_VALUES = ["x", "y"]
"""Writers treat NaN differently, so floating-point bounds are taken from the values."""


def run(console: Console) -> None:
    """Measure building here and on Spark, and a refresh after few changes."""
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        _write(small, SMALL_FILES, SMALL_ROWS)
        _write(large, LARGE_FILES, LARGE_ROWS)
        here = Tool("this machine, pyarrow", "local", _read_footers, _read_columns)
        grid = _grid()
        _add_rows(grid, here, small, large)
        session = hudi_session(Path(folder) / "spark")
        try:
            on_spark = Tool("Spark local[2]", session, partial(_scan, session), partial(_scan, session))
            _add_rows(grid, on_spark, small, large)
        finally:
            session.stop()
        console.print(grid)
        console.print(_refreshes(small))


@dataclass(frozen=True, slots=True)
class Tool:
    """Where an index is built, and how the same tool just reads the needed columns."""

    name: str
    run: Any
    read_small: Callable[[Path, list[str]], None]
    read_large: Callable[[Path, list[str]], None]


def _grid() -> Grid:
    grid = Grid(title=f"create_index over 2 columns; medians of {RUNS}, the metadata table on disk included")
    for heading in (
        "where",
        "records from",
        "files",
        "rows",
        "create_index",
        "just reading",
        "reading takes",
    ):
        grid.add_column(heading, justify="right")
    return grid


def _add_rows(grid: Grid, tool: Tool, small: Path, large: Path) -> None:
    footers = _seconds(small, FROM_FOOTERS, tool.run, tool.read_small)
    rates = _rates(footers, SMALL_FILES, "footers/s")
    grid.add_row(tool.name, "footers", f"{SMALL_FILES:,}", f"{SMALL_FILES * SMALL_ROWS:,}", *rates)
    values = _seconds(large, FROM_VALUES, tool.run, tool.read_large)
    rows = LARGE_FILES * LARGE_ROWS
    grid.add_row(tool.name, "values", f"{LARGE_FILES:,}", f"{rows:,}", *_rates(values, rows, "rows/s"))


def _refreshes(root: Path) -> str:
    """The cost of following a change of 1 % of the slices, against rebuilding."""
    table = pruner.open_table(str(root))
    few = SMALL_FILES // 100
    files = sorted(root.iterdir())

    def build() -> None:
        table.drop_index("built", if_exists=True)
        table.create_index("built", on=FROM_FOOTERS)

    def follow() -> None:
        for file in files[:few]:
            now = time.time_ns()
            os.utime(file, ns=(now, now - 10**10 - int(RANDOM.integers(10**9))))
        started = time.perf_counter()
        result = table.refresh()
        seconds.append(time.perf_counter() - started)
        assert result.indexed == few

    seconds: list[float] = []
    taken = medians({"build": build, "follow": follow}, RUNS)
    follows = statistics.median(seconds[1:])
    return (
        f"refresh after {few} of {SMALL_FILES:,} slices changed: {follows:.2f} s, "
        f"{follows / taken['build']:.0%} of a full build ({taken['build']:.2f} s)"
    )


def _write(root: Path, files: int, rows: int) -> None:
    root.mkdir()
    rng = np.random.default_rng(3)
    for number in track(range(files), f"writing {files:,} files", transient=True):
        columns = {
            "id": np.arange(number * rows, (number + 1) * rows),
            "code": rng.integers(0, 1000, rows).astype(str),
            "x": rng.normal(0, 1, rows),
            "y": rng.normal(0, 100, rows),
        }
        pq.write_table(pa.table(columns), root / f"part-{number:06}.parquet")


def _read_footers(root: Path, _: list[str]) -> None:
    for file in sorted(root.iterdir()):
        pq.read_metadata(file)


def _read_columns(root: Path, columns: list[str]) -> None:
    for file in sorted(root.iterdir()):
        for batch in pq.ParquetFile(file).iter_batches(columns=columns):
            assert batch.num_rows


def _scan(session: SparkSession, root: Path, columns: list[str]) -> None:
    frame = session.read.schema("id long, code string, x double, y double").parquet(str(root))
    frame.select(*columns).write.format("noop").mode("overwrite").save()


def _seconds(
    root: Path, columns: list[str], run: Any, read: Callable[[Path, list[str]], None]
) -> dict[str, float]:
    table = pruner.open_table(str(root))
    count = len(table.snapshot().slices)

    def create() -> None:
        table.drop_index("built", if_exists=True)
        result = table.create_index("built", on=columns, run=run)
        assert result is not None
        assert result.indexed == count

    return medians({"create": create, "read": lambda: read(root, columns)}, RUNS)


def _rates(seconds: dict[str, float], amount: int, unit: str) -> list[str]:
    shown = [f"{amount / seconds[name]:,.0f} {unit}" for name in ("create", "read")]
    return [*shown, f"{seconds['read'] / seconds['create']:.0%} of the time"]
