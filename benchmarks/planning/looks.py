"""The cost of a snapshot of a large tree whose files never change in place, and the least cost of its parts.

BENCH_FILES files (default 100,000) in 10,000 folders. CPU time, so that a busy machine yields the same.
"""

from __future__ import annotations

import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.lakes.lake import LINKS_PER_FILE
from pruner.tables.feed.place import FeedSettings, announce
from pruner.tables.parquet.source import ParquetSource

FILES = 100_000
FOLDERS = 10_000
CHANGED = 100
RUNS = 7
TICK = 0.05
"""Longer than the clock's granularity, in seconds: files just written must age (rule R4)."""


def run(console: Console) -> None:
    """Measure a snapshot without changes, one that finds 100 new files, and the one after it."""
    count = int(os.environ.get("BENCH_FILES", str(FILES)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "visits"
        link(root, count)
        source = ParquetSource([str(root)], immutable=True)
        grid = Grid(title=f"looks at {count:,} files in {FOLDERS:,} folders, processor time")
        for heading in ("what", "ms"):
            grid.add_column(heading, justify="right" if heading == "ms" else "left")
        for what, seconds in _measured(root, source).items():
            grid.add_row(what, f"{1e3 * seconds:.1f}")
        console.print(grid)
        console.print(
            f"memory at its peak: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB"
        )


def _measured(root: Path, source: ParquetSource) -> dict[str, float]:
    found = {"first look, with every footer": _seconds(source.snapshot)}
    _settle(source)
    unchanged = [(_seconds(source.snapshot), _seconds(lambda: _stat_each(root))) for _ in range(RUNS)]
    found["unchanged"], found["one stat for each folder, alone"] = map(median, zip(*unchanged, strict=True))
    changed: list[float] = []
    after: list[float] = []
    listing: list[float] = []
    for turn in range(RUNS):
        add(root, turn)
        time.sleep(TICK)
        changed.append(_seconds(source.snapshot))
        listing.append(_seconds(lambda: _list_some(root)))
        time.sleep(TICK)
        after.append(_seconds(source.snapshot))
    found[f"{CHANGED} new files"] = median(changed)
    found[f"listing {CHANGED} folders with a stat for each file, alone"] = median(listing)
    found["the look after it"] = median(after)
    return found | _by_feed(root)


def _by_feed(root: Path) -> dict[str, float]:
    """The same snapshots of the same tree by a change feed that names each new file."""
    feed = f"{root}.feed"
    announce(feed, [str(root)], [])
    source = ParquetSource([str(root)], immutable=True, feed=FeedSettings(feed, confirm_after=3600))
    source.snapshot()
    _settle(source)
    unchanged = [_seconds(source.snapshot) for _ in range(RUNS)]
    changed: list[float] = []
    for turn in range(RUNS, 2 * RUNS):
        announce(feed, [str(root)], add(root, turn))
        time.sleep(TICK)
        changed.append(_seconds(source.snapshot))
    assert source.doubts() == ()
    return {
        "unchanged, by a change feed": median(unchanged),
        f"{CHANGED} new files, by a change feed": median(changed),
    }


def _settle(source: ParquetSource) -> None:
    """Take snapshots until every folder has been seen for longer than the clock's granularity."""
    for _ in range(2):
        time.sleep(TICK)
        source.snapshot()


def _seconds(run: Callable[[], object]) -> float:
    started = time.process_time()
    run()
    return time.process_time() - started


def _stat_each(root: Path) -> None:
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    try:
        for number in range(FOLDERS):
            os.stat(f"d={number}/", dir_fd=folder)
    finally:
        os.close(folder)


def _list_some(root: Path) -> None:
    for number in range(CHANGED):
        with os.scandir(root / f"d={number}") as entries:
            for entry in entries:
                entry.stat()


def link(root: Path, count: int, folders: int = FOLDERS) -> None:
    """Make the tree; some of its files are one file under many names."""
    root.mkdir()
    content = pa.table({"x": pa.array([1], pa.int64())})
    source = ""
    for number in range(folders):
        os.mkdir(f"{root}/d={number}")  # noqa: PTH102 - there can be a million of names
    for number in range(count):
        path = f"{root}/d={number % folders}/{number:07}.parquet"
        if number % LINKS_PER_FILE == 0:
            source = path
            pq.write_table(content, source)
        else:
            os.link(source, path)


def add(root: Path, turn: int) -> list[str]:
    """Put a new file into each of some folders, as writers do: whole, by a rename. Returns the paths."""
    content = pa.table({"x": pa.array([turn], pa.int64())})
    paths = [f"d={number}/new-{turn}.parquet" for number in range(CHANGED)]
    for path in paths:
        scratch = root.parent / "scratch.parquet"
        pq.write_table(content, scratch)
        scratch.rename(root / path)
    return paths
