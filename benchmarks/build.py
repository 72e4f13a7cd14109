"""Building an index: from footers of many small files, from values of few large ones, beside pyarrow."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import track
from rich.table import Table as Grid

import pruner
from benchmarks.timing import medians

SMALL_FILES = 10_000
SMALL_ROWS = 100
LARGE_FILES = 12
LARGE_ROWS = 500_000
RUNS = 3

FROM_FOOTERS = ["id", "code"]
FROM_VALUES = ["x", "y"]
"""What writers make of NaN differs, so bounds of floating point are taken from the values."""


def run(console: Console) -> None:
    """Measure both ways."""
    grid = Grid(title="create_index over 2 columns; medians of 3, the metadata table on disk included")
    for heading in ("records from", "files", "rows", "create_index", "pyarrow alone", "pyarrow takes"):
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "small", Path(folder) / "large"
        _write(small, SMALL_FILES, SMALL_ROWS)
        _write(large, LARGE_FILES, LARGE_ROWS)
        footers = _seconds(small, FROM_FOOTERS, pq.read_metadata)
        values = _seconds(large, FROM_VALUES, lambda file: _read(file, FROM_VALUES))
    grid.add_row(
        "footers",
        f"{SMALL_FILES:,}",
        f"{SMALL_FILES * SMALL_ROWS:,}",
        *_rates(footers, SMALL_FILES, "footers/s"),
    )
    rows = LARGE_FILES * LARGE_ROWS
    grid.add_row("values", f"{LARGE_FILES:,}", f"{rows:,}", *_rates(values, rows, "rows/s"))
    console.print(grid)


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


def _read(file: str, columns: list[str]) -> None:
    for batch in pq.ParquetFile(file).iter_batches(columns=columns):
        assert batch.num_rows


def _seconds(root: Path, columns: list[str], read: Callable[[str], Any]) -> dict[str, float]:
    table = pruner.open_table(str(root))
    files = [str(path) for path in sorted(root.iterdir())]
    table.snapshot()

    def create() -> None:
        table.drop_index("built", if_exists=True)
        result = table.create_index("built", on=columns)
        assert result is not None
        assert result.indexed == len(files)

    return medians({"create": create, "read": lambda: [read(file) for file in files]}, RUNS)


def _rates(seconds: dict[str, float], amount: int, unit: str) -> list[str]:
    shown = [f"{amount / seconds[name]:,.0f} {unit}" for name in ("create", "read")]
    return [*shown, f"{seconds['read'] / seconds['create']:.0%} of the time"]
