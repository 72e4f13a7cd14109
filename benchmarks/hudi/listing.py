"""A large Hudi table listed in full by a separate process: by pruner, by hudi-rs as pruner did before, and by Spark's
executors on this machine, each of which lists a part.

The table is made up: its files are one file under many names. hudi-rs takes 9.5 kB for each file group, so it is
skipped above `BENCH_HUDI_RS` of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table as Grid

from tests.support.hudi.made_up.files import SyntheticTable

PARTITIONS = 1000
COMMITS = 100
_OPENED = """
import json, sys, time
import hudi, numpy, pyarrow
from pruner.tables.hudi import full
from pruner.tables.hudi.source import HudiSource

def of_status(name):
    return next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith(name))

def open_question(*_, **__):
    raise full.TableError("asked for")

if sys.argv[2] == "hudi-rs":
    full._listing = open_question
source = HudiSource(sys.argv[1])
if sys.argv[2] == "Spark":
    from pruner.maintenance.shared_listing import share_listing
    from pruner.metadata.last_snapshot import LastSnapshot
    from pruner.metadata.table import MetadataTable
    from pruner.pipeline.spark import SparkRunner, spark_session
    from pruner.storage.opening import open_store

    full._is_seen_by_all = lambda _: True  # the executors are on this machine
    running = spark_session("local[*]")
    session = running.__enter__()
    session.range(0, 64, 1, 64).mapInArrow(lambda rows: rows, "id bigint").collect()  # workers of Python start
imports, started, clock = of_status("VmRSS"), time.process_time(), time.perf_counter()
if sys.argv[2] == "Spark":
    metadata = MetadataTable(open_store(sys.argv[1] + ".pruner"))
    share_listing(source, metadata, LastSnapshot(source, metadata), SparkRunner(session))
    assert source._known is not None
snapshot = source.snapshot()
taken, clock = time.process_time() - started, time.perf_counter() - clock
peak, kept = of_status("VmHWM"), of_status("VmRSS")
started = time.process_time()
assert all(source.snapshot(snapshot) is snapshot for _ in range(100))
again = (time.process_time() - started) * 10
if sys.argv[2] == "Spark":
    running.__exit__(None, None, None)
print(json.dumps([len(snapshot), f"{clock:.2f}", f"{taken:.2f}", peak - imports, kept - imports, f"{again:.2f}"]))
"""


def run(console: Console) -> None:
    """List tables of 10,000 and 100,000 file groups; BENCH_GROUPS names other sizes, separated by commas."""
    sizes = [int(size) for size in os.environ.get("BENCH_GROUPS", "10000,100000").split(",")]
    most = int(os.environ.get("BENCH_HUDI_RS", "100000"))
    grid = Grid(
        title="Hudi tables listed in full: time and MB above the imports of the process that asks, an unchanged table "
        "in ms of a processor"
    )
    for heading in ("by", "file groups", "clock, s", "processor, s", "peak", "kept", "unchanged"):
        grid.add_column(heading, justify="left" if heading == "by" else "right")
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "trips"
            with console.status(f"{size:,} file groups: making the files"):
                _make(root, size)
            for by in ("pruner", "Spark", *(("hudi-rs",) if size <= most else ())):
                grid.add_row(by, *map(str, _opened(root, by)))
    console.print(grid)


def _make(root: Path, size: int) -> None:
    made = SyntheticTable(root)
    for commit in range(COMMITS):
        made.insert(f"city={number % PARTITIONS:04}" for number in range(commit, size, COMMITS))


def _opened(root: Path, by: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", _OPENED, str(root), by], capture_output=True, check=True, text=True
    )
    return json.loads(done.stdout)
