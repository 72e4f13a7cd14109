"""First plans from Hudi's own column statistics, and lookups in its record index: reads and times.

The tables have no index of pruner's. BENCH_GROUPS is the number of file groups (default 10,000 and 100,000),
BENCH_KEYS that of record keys (1,000,000).
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.hudi.own_record_index import counted_reads, key_grid
from benchmarks.timing import medians
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.hudi.made_up.metadata import Stat, SyntheticMetadata

SIZES = (10_000, 100_000)
PARTITIONS = 100
COLUMNS = ("id", "other", "third", "fourth")
"""Four columns have statistics, of which a plan uses one."""

DIALECT = "spark"
"""It takes a partition column from the path."""


def run(console: Console) -> None:
    """Measure tables of several sizes; BENCH_GROUPS=0 skips them."""
    given = os.environ.get("BENCH_GROUPS")
    if given != "0":
        _statistics(console, [int(given)] if given else SIZES)
    with tempfile.TemporaryDirectory() as folder:
        console.print(key_grid(Path(folder) / "table", int(os.environ.get("BENCH_KEYS", "1000000"))))


def _statistics(console: Console, sizes: Sequence[int]) -> None:
    grid = Grid(
        "file groups",
        "predicate",
        "first plan CPU s",
        "without CPU s",
        "HFiles MB",
        "requests",
        "MB read",
        "next plan ms",
        "kept",
    )
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            for row in _measured(Path(folder) / "table", size):
                grid.add_row(*row)
    console.print(grid)
    console.print(
        "first plan: listing the table, and its statistics of one column of four; without: listing alone"
    )


def _measured(root: Path, size: int) -> Iterator[list[str]]:
    write_table(root, size)
    stored = sum(path.stat().st_size for path in root.glob(".hoodie/metadata/**/*.hfile"))
    for predicate in (f"id = {size * 5}", f"id = {size * 5} AND city = 'c{size // 2 % PARTITIONS:03}'"):
        without = _timed(pruner.open_table(str(root), hudi_indexes=False), predicate)
        table = pruner.open_table(str(root))
        with counted_reads() as sizes:
            first = _timed(table, predicate)
        pinned = table.snapshot()
        again = medians({"plan": partial(pinned.plan, predicate, dialect=DIALECT)}, 20)["plan"]
        yield [
            f"{size:,}",
            predicate,
            f"{first:.2f}",
            f"{without:.2f}",
            f"{stored / 1e6:.1f}",
            str(len(sizes)),
            f"{sum(sizes) / 1e6:.2f}",
            f"{again * 1000:.2f}",
            str(table.plan(predicate, dialect=DIALECT).kept),
        ]


def _timed(table: Any, predicate: str) -> float:
    """CPU seconds of a first plan, since machines are shared."""
    started = time.process_time()
    table.plan(predicate, dialect=DIALECT)
    return time.process_time() - started


def write_table(root: Path, size: int) -> None:
    """Write a table of `size` file groups, each with ten ids, and the statistics of four columns."""
    table = SyntheticTable(root)
    table.insert(f"city=c{number % PARTITIONS:03}" for number in range(size))
    stats = [
        Stat(group.partition, group.base, column, number * 10, number * 10 + 9, values=10)
        for number, group in enumerate(table.groups.values())
        for column in COLUMNS
    ]
    SyntheticMetadata(root).create(stats)
