"""Building each type of index over the event lake, beside its floor: reading the same columns, or the footers, alone.

Both take turns; CPU time. These few files are read in this process, so that a profile of one more build shows where
its time goes. BENCH_FILES sets another number of files.
"""

from __future__ import annotations

import cProfile
import os
import pstats
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Final

import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.lakes.events import Events, Lake
from pruner.pipeline.slices import WORKER_SLICES
from pruner.table import Table

FILES: Final = 1_000
ROWS: Final = 400_000
RUNS: Final = 3
SHOWN: Final = 4
"""Number of functions shown of a profile."""

BUILDS: Final = {
    "column_stats": ["event_id", "created_at"],
    "bloom_filter": ["key"],
    "record_index": ["key"],
    "bitmap": ["zone", "type"],
}
"""Types of indexes and the columns on which they are built."""


@dataclass(frozen=True)
class Speed:
    """One type of index: CPU seconds to build it, those of its floor, and what was read and written."""

    using: str
    build: float
    floor: float
    column_bytes: int
    index_bytes: int
    profile: tuple[tuple[str, float], ...]


def run(console: Console) -> None:
    """Measure each type of index, and print."""
    files = min(int(os.environ.get("BENCH_FILES", str(FILES))), WORKER_SLICES - 1)
    grid = Grid(title=f"{files:,} files of {ROWS // files:,} rows, processor time, medians of {RUNS}")
    for heading in ("index", "build, s", "files/s", "MB/s of its columns", "floor, s", "times", "size, MB"):
        grid.add_column(heading, justify="right")
    found = measure(files, ROWS // files)
    for each in found:
        grid.add_row(
            each.using,
            f"{each.build:.2f}",
            f"{files / each.build:,.0f}",
            f"{each.column_bytes / each.build / 1e6:.1f}",
            f"{each.floor:.2f}",
            f"{each.build / each.floor:.1f}",
            f"{each.index_bytes / 1e6:.1f}",
        )
    console.print(grid)
    for each in found:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in each.profile)
        console.print(f"{each.using}, shares of the profile: {shares}")


def measure(files: int, rows: int, runs: int = RUNS) -> list[Speed]:
    """Build each index over a lake several times, and its floor in between."""
    with tempfile.TemporaryDirectory() as folder:
        lake = Lake(Path(folder), Events(files, rows))
        lake.write()
        root = lake.data("parquet")
        table = pruner.open_table(str(root), index_uri=f"{folder}/index")
        return [_speed(table, root, using, columns, runs) for using, columns in BUILDS.items()]


def _speed(table: Table, root: Path, using: str, columns: list[str], runs: int) -> Speed:
    count = len(list(root.iterdir()))

    def build() -> None:
        table.drop_index("built", if_exists=True)
        built = table.create_index("built", on=columns, using=using)
        assert built is not None
        assert built.indexed == count

    def floor() -> None:
        for file in sorted(root.iterdir()):
            if using == "column_stats":
                pq.read_metadata(file)
            else:
                pq.ParquetFile(file).read(columns)

    taken: dict[Callable[[], None], list[float]] = {build: [], floor: []}
    for _ in range(runs):
        for contender, seconds in taken.items():
            started = time.process_time()
            contender()
            seconds.append(time.process_time() - started)
    size = next(each.bytes for each in table.status().indexes if each.name == "built")
    speeds = [median(seconds) for seconds in taken.values()]
    return Speed(using, speeds[0], speeds[1], _bytes_of(root, columns), size, _profile(build))


def _profile(build: Callable[[], None]) -> tuple[tuple[str, float], ...]:
    """The functions with the most CPU time of their own in a build, with their shares."""
    profile = cProfile.Profile(time.process_time)
    profile.runcall(build)
    found: dict[tuple[str, int, str], tuple[int, int, float, float, Any]] = vars(pstats.Stats(profile))[
        "stats"
    ]
    own = {
        f"{Path(file).stem}.{name}" if line else name: taken
        for (file, line, name), (_, _, taken, _, _) in found.items()
    }
    total = sum(own.values())
    most = sorted(own.items(), key=lambda item: -item[1])[:SHOWN]
    return tuple((name, taken / total) for name, taken in most)


def _bytes_of(root: Path, columns: list[str]) -> int:
    """Compressed bytes of the columns in all files."""
    total = 0
    for file in root.iterdir():
        footer = pq.read_metadata(file)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            chunks = (group.column(at) for at in range(group.num_columns))
            total += sum(each.total_compressed_size for each in chunks if each.path_in_schema in columns)
    return total
