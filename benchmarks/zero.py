"""First plans from Hudi's own column statistics: what they read and take, and what the next plans take.

The table has no index of pruner's. BENCH_GROUPS is the number of its file groups (10,000 and 100,000 unless given).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.timing import medians
from pruner.tables.hfile.sources import Stored
from tests.support.hudi_metadata_synthetic import Stat, SyntheticMetadata
from tests.support.hudi_synthetic import SyntheticTable

SIZES = (10_000, 100_000)
PARTITIONS = 100
COLUMNS = ("id", "other", "third", "fourth")
"""Four columns have statistics, of which a plan asks one."""


@contextmanager
def _counted() -> Generator[list[int]]:
    """Gather the bytes of each read of an HFile."""
    sizes: list[int] = []
    plain = Stored.read

    def read(self: Stored, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        sizes.append(sum(length for _, length in ranges))
        return plain(self, ranges)

    with mock.patch.object(Stored, "read", read):
        yield sizes


def run(console: Console) -> None:
    """Measure tables of several sizes."""
    given = os.environ.get("BENCH_GROUPS")
    grid = Grid(
        "file groups",
        "first plan CPU s",
        "without CPU s",
        "HFiles MB",
        "requests",
        "MB read",
        "next plan ms",
        "kept",
    )
    for size in [int(given)] if given else SIZES:
        with tempfile.TemporaryDirectory() as folder:
            grid.add_row(*_measured(Path(folder) / "table", size))
    console.print(grid)
    console.print(
        "first plan: listing the table, and its statistics of one column of four; without: listing alone"
    )


def _measured(root: Path, size: int) -> list[str]:
    write_table(root, size)
    predicate = f"id = {size * 5}"
    without = _timed(pruner.open_table(str(root), hudi_indexes=False), predicate)
    table = pruner.open_table(str(root))
    with _counted() as sizes:
        first = _timed(table, predicate)
    pinned = table.snapshot()
    again = medians({"plan": lambda: pinned.plan(predicate)}, 20)["plan"]
    stored = sum(path.stat().st_size for path in root.glob(".hoodie/metadata/**/*.hfile"))
    return [
        f"{size:,}",
        f"{first:.2f}",
        f"{without:.2f}",
        f"{stored / 1e6:.1f}",
        str(len(sizes)),
        f"{sum(sizes) / 1e6:.1f}",
        f"{again * 1000:.2f}",
        str(table.plan(predicate).kept),
    ]


def _timed(table: Any, predicate: str) -> float:
    """Processor seconds of a first plan: machines are shared."""
    started = time.process_time()
    table.plan(predicate)
    return time.process_time() - started


def write_table(root: Path, size: int) -> None:
    """Write a table of so many file groups, each with ten ids, and the statistics of four columns."""
    table = SyntheticTable(root)
    table.insert(f"city=c{number % PARTITIONS:03}" for number in range(size))
    stats = [
        Stat(group.partition, group.base, column, number * 10, number * 10 + 9, values=10)
        for number, group in enumerate(table.groups.values())
        for column in COLUMNS
    ]
    SyntheticMetadata(root).create(stats)
