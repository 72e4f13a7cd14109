"""A refresh after a hundred new files in a large tree of files that never change in place.

BENCH_FILES files (default 100,000), a hundred in each folder. CPU time of the whole refresh: it lists the table,
reads the new files, commits, and stores the last snapshot.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from statistics import median

from rich.console import Console

import pruner
from benchmarks.planning import looks

RUNS = 5


def run(console: Console) -> None:
    """Build an index, then add files and refresh it several times."""
    count = int(os.environ.get("BENCH_FILES", str(looks.FILES)))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "visits"
        looks.link(root, count, max(looks.CHANGED, count // 100))
        table = pruner.open_table(str(root), files="immutable")
        table.create_index("i", on="x")
        taken = [_refreshed(table, root, turn) for turn in range(RUNS)]
    console.print(
        f"refresh after {looks.CHANGED} new files among {count:,}: {1e3 * median(taken):.0f} ms of processor time"
    )


def _refreshed(table: pruner.Table, root: Path, turn: int) -> float:
    looks.add(root, turn)
    time.sleep(looks.TICK)
    started = time.process_time()
    result = table.refresh()
    assert result.indexed == looks.CHANGED
    return time.process_time() - started
