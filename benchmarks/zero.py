"""First plans from Hudi's own column statistics, and look-ups in its record index: what they read and take.

The tables have no index of pruner's. BENCH_GROUPS is the number of file groups (10,000 and 100,000 unless given),
BENCH_KEYS that of record keys (1,000,000).
"""

from __future__ import annotations

import os
import random
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
from pruner.storage.opening import open_store
from pruner.tables.hfile.sources import Stored
from pruner.tables.hudi_metadata.indexes import HudiIndexes, StatCache
from pruner.tables.hudi_timeline import read_timeline
from tests.support.hudi_keys_synthetic import SyntheticKeys
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
    with tempfile.TemporaryDirectory() as folder:
        console.print(_key_grid(Path(folder) / "table", int(os.environ.get("BENCH_KEYS", "1000000"))))


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


KEY_GROUPS = 10
"""File groups of the record index: as many as Hudi makes of up to some ten million keys."""


def _key_grid(root: Path, keys: int) -> Grid:
    """Look-ups of random keys in a record index of so many, each with an index that was opened anew."""
    table = SyntheticTable(root)
    table.insert(f"city=c{number:03}" for number in range(PARTITIONS))
    metadata = SyntheticMetadata(root, partitions="column_stats,files,record_index")
    metadata.create([])
    groups = list(table.groups.values())
    names = [f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" for number in range(keys)]
    places = {name: groups[number % len(groups)] for number, name in enumerate(names)}
    SyntheticKeys(metadata, KEY_GROUPS).locate(places)
    stored = sum(path.stat().st_size for path in metadata.root.glob("record_index/*.hfile"))
    grid = Grid("keys looked up", "of", "index MB", "requests", "KB read", "share of the index", "CPU ms")
    rng = random.Random(1)
    for count in (1, 10, 1_000):
        wanted = rng.sample(names, count)
        with _counted() as sizes:
            started = time.process_time()
            indexes = HudiIndexes(str(root), {}, read_timeline(open_store(str(root), {})), StatCache())
            found = indexes.locations.find(wanted)
            counted = indexes.locations.count()
            spent = time.process_time() - started
        assert counted == keys
        assert all(found[name].file_id == places[name].file_id for name in wanted)
        read = sum(sizes)
        grid.add_row(
            f"{count:,}",
            f"{keys:,}",
            f"{stored / 1e6:.1f}",
            str(len(sizes)),
            f"{read / 1e3:.0f}",
            f"{read / stored:.2%}",
            f"{spent * 1000:.0f}",
        )
    return grid
