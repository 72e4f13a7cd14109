"""One commit on a large Hudi table: the snapshot and the first plan after it, by following and by full listing.

The table is made up: its files are one file under many names, its timeline is what Hudi writes in table version 6.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.lakes.records import integer_records
from pruner.metadata.segments import batch_table
from pruner.metadata.state import FILES
from pruner.metadata.table import MetadataTable
from pruner.storage.opening import open_store
from pruner.table import Table
from pruner.tables.hudi.source import HudiSource
from pruner.tables.source import TableSource
from tests.support.hudi.made_up.files import SyntheticTable
from tests.support.snapshots import assert_same

GROUPS = 100_000
PARTITIONS = 100
CHANGED = 100
COMMITS = 5
T = TypeVar("T")


def run(console: Console) -> None:
    """Update 100 file groups of a table of 100,000, several times; BENCH_GROUPS sets the number of file groups."""
    groups = int(os.environ.get("BENCH_GROUPS", str(GROUPS)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "trips"
        made = SyntheticTable(root)
        with console.status(f"{groups:,} file groups: making the files"):
            made.insert(f"city={number % PARTITIONS:03}" for number in range(groups))
        with console.status(f"{groups:,} file groups: writing the records"):
            table = _index(root)
        _measure(console, made, groups, table._source)


def _index(root: Path) -> Table:
    """Write one record for each slice, and the snapshot, as a refresh does. Returns the table with it loaded."""
    table = pruner.open_table(str(root))
    table.create_index("i", on="id", build=False)
    snapshot = table.snapshot().data
    metadata = MetadataTable(open_store(table.index_uri))
    (definition,) = metadata.state().definitions
    everything = np.arange(len(snapshot), dtype=np.int64)
    batch = metadata.write_segment(FILES, batch_table(snapshot, everything))
    records = integer_records(everything, everything)
    entry = metadata.write_segment("column_stats", records, definition=definition, field=("id",), batch=batch)
    identity = HudiSource(str(root)).identity()
    metadata.commit(lambda state: state.without_coverage(identity).with_segments([batch, entry]))
    table.refresh()
    return table


def _measure(console: Console, made: SyntheticTable, groups: int, warm: TableSource) -> None:
    taken: dict[str, list[float]] = {}

    def timed(what: str, call: Callable[[], T]) -> T:
        started = time.perf_counter()
        result = call()
        taken.setdefault(what, []).append(time.perf_counter() - started)
        return result

    warm.snapshot()
    keys = sorted(made.groups)
    for number in range(COMMITS):
        made.update(keys[number * CHANGED : (number + 1) * CHANGED])
        followed = timed("snapshot, a process that knew the one before", warm.snapshot)
        # Listing a large table repeatedly tells nothing more, and takes most of the time.
        again = number == 0 or groups <= GROUPS
        if again:
            listed = timed("snapshot, listed in full", HudiSource(str(made.root)).snapshot)
            assert_same(followed, listed)

        cold = pruner.open_table(str(made.root))
        kept = timed("open and plan, from the snapshot in the metadata table", partial(_kept, cold))
        if again:
            bare = pruner.open_table(str(made.root))
            bare._views._resumed = True  # as if nothing were cached
            assert kept == timed("open and plan, listed in full", partial(_kept, bare))
        assert kept == 1 + CHANGED * (number + 1), kept
    _print(console, taken, groups)


def _kept(table: Table) -> int:
    return table.plan("id = 7000").kept


def _print(console: Console, taken: dict[str, list[float]], groups: int) -> None:
    grid = Grid(
        title=f"after one commit to {CHANGED} of {groups:,} file groups; median ms of {COMMITS} commits"
    )
    for heading in ("what", "ms"):
        grid.add_column(heading, justify="left" if heading == "what" else "right")
    for what, times in taken.items():
        grid.add_row(what, f"{np.median(times) * 1e3:.0f}")
    console.print(grid)
