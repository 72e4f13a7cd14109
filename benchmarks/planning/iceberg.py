"""Opening an Iceberg table and planning on its manifests, against pyiceberg, fastavro, Polars and DuckDB reading them.

Tables of 20,000 and 200,000 files (BENCH_FILES for others) with bounds of eight columns. There is only metadata, and
the one data file that DuckDB's extension reads: no other contender opens it. They take turns; CPU time is that of the
whole process. pyiceberg caches the manifest lists that it has read. Spark plans in another process, where the time
until the answer is measured: by path, where it reads all metadata, and by a catalog that caches tables and manifests.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import fastavro
import polars as pl
from pyiceberg.expressions import EqualTo as _EqualTo
from pyiceberg.table import StaticTable
from rich.console import Console

import pruner
from benchmarks.planning.iceberg_tables import append, values_of, write_file_of, write_table
from benchmarks.timing import milliseconds
from pruner.tables.iceberg.manifests import DATA, ManifestFile, read_manifest
from pruner.tables.iceberg.source import IcebergSource
from referee.run import Reader
from tools.cache import cache_dir
from tools.spark_sessions import iceberg_session, session_with_jars

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILES = (20_000, 200_000)
RUNS = 3
EqualTo: Any = _EqualTo  # whose arguments have no types

DUCKDB = Reader(
    "duckdb-iceberg", "duckdb==1.5.5", (), ("duckdb-extension-avro==1.5.5", "duckdb-extension-iceberg==1.5.5")
)
_IN_DUCKDB = Path(__file__).with_name("iceberg_in_duckdb.py")

_NEW_PROCESS = {
    "pruner": "import pruner; assert pruner.open_table({root!r}).plan('id = {value}').kept == 1",
    "pyiceberg": "from pyiceberg.table import StaticTable; from pyiceberg.expressions import EqualTo; "
    "scan = StaticTable.from_metadata({metadata!r}).scan(row_filter=EqualTo('id', {value})); "
    "assert len(list(scan.plan_files())) == 1",
}


def run(console: Console) -> None:
    """Measure opening, checks and plans of each size."""
    given = os.environ.get("BENCH_FILES")
    with tempfile.TemporaryDirectory() as folder:
        spark = iceberg_session(session_with_jars(Path(folder) / "spark"), Path(folder))
        for setting in ("cache-enabled", "io.manifest.cache-enabled"):
            spark.conf.set(f"spark.sql.catalog.ice.{setting}", "true")
        for count in (int(given),) if given else FILES:
            _compare(console, spark, Path(folder) / f"files{count}" / "t", count)
        spark.stop()


def _compare(console: Console, spark: SparkSession, root: Path, count: int) -> None:
    write_table(root, count)
    write_file_of(root, count)
    by_spark = _by_spark(spark, root, values_of(count))
    title = f"an Iceberg table of {count:,} files"
    console.print(milliseconds(title, _measured(root, count), by_spark))


def _by_spark(spark: SparkSession, root: Path, value: int) -> dict[str, float]:
    """The seconds that Spark takes to plan a point condition by Iceberg's own metrics, which must keep one file."""
    ways: dict[str, Callable[[], DataFrame]] = {
        "open and plan, Spark with Iceberg's planning": lambda: spark.read.format("iceberg").load(str(root)),
        "plan again, Spark with Iceberg's planning": lambda: spark.table(f"ice.{root.parent.name}.t"),
    }
    return {
        what: median([_planned(opened, value) for _ in range(RUNS + 1)][1:]) for what, opened in ways.items()
    }


def _planned(opened: Callable[[], DataFrame], value: int) -> float:
    started = time.perf_counter()
    java_frame: Any = opened().where(f"id = {value}")._jdf
    scan = java_frame.queryExecution().executedPlan().collectLeaves().head()
    assert scan.inputPartitions().size() == 1
    return time.perf_counter() - started


def _measured(root: Path, count: int) -> dict[str, tuple[float, float]]:
    value = values_of(count)
    metadata = str(root / "metadata" / "v1.metadata.json")
    opened = pruner.open_table(str(root))
    assert opened.plan(f"id = {value}").kept == 1
    known_to_pyiceberg = StaticTable.from_metadata(metadata)
    source = IcebergSource(str(root))
    known = source.snapshot()
    manifests = [path.read_bytes() for path in sorted((root / "metadata").glob("m*.avro"))]

    def by_pyiceberg(table: StaticTable) -> int:
        return len(list(table.scan(row_filter=EqualTo("id", value)).plan_files()))

    contenders: dict[str, Callable[[], Any]] = {
        "decode the manifests, pruner": lambda: [_decoded(each) for each in manifests],
        "decode the manifests, polars.read_avro": lambda: [pl.read_avro(io.BytesIO(m)) for m in manifests],
        "decode the manifests, fastavro": lambda: [list(fastavro.reader(io.BytesIO(m))) for m in manifests],
        "new process, open and plan, pruner": lambda: _in_new_process("pruner", root, metadata, value),
        "new process, open and plan, pyiceberg": lambda: _in_new_process("pyiceberg", root, metadata, value),
        "open and plan, pruner": lambda: pruner.open_table(str(root)).plan(f"id = {value}").kept,
        "open and plan, pyiceberg": lambda: by_pyiceberg(StaticTable.from_metadata(metadata)),
        "plan again, pruner": lambda: opened.plan(f"id = {value}").kept,
        "plan again, pyiceberg": lambda: by_pyiceberg(known_to_pyiceberg),
        "look with no commit, pruner": lambda: source.snapshot(known),
    }
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for turn in range(RUNS + 1):
        for name, contender in contenders.items():
            processor, wall = _processor(), time.perf_counter()
            contender()
            if turn:
                times[name].append((_processor() - processor, time.perf_counter() - wall))
    python = str(DUCKDB.python(cache_dir() / "peers" / "iceberg"))
    asked = [_in_duckdb(python, metadata, value) for _ in range(RUNS)]
    times["open, plan and read the one file, DuckDB's extension"] = [
        (first, wall) for first, _, wall in asked
    ]
    times["the same again, DuckDB's extension"] = [(again, again) for _, again, _ in asked]
    times["plan after one append, pruner"] = [
        _after_append(root, opened, turn, value) for turn in range(RUNS)
    ]
    return {
        name: (median(each[0] for each in taken), median(each[1] for each in taken))
        for name, taken in times.items()
    }


def _decoded(data: bytes) -> None:
    read_manifest(data, ManifestFile("m.avro", 0, DATA, 1), "m.avro")


def _processor() -> float:
    """CPU time of this process, and of those that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def _in_new_process(contender: str, root: Path, metadata: str, value: int) -> None:
    code = _NEW_PROCESS[contender].format(root=str(root), metadata=metadata, value=value)
    subprocess.run([sys.executable, "-c", code], check=True)


def _in_duckdb(python: str, metadata: str, value: int) -> tuple[float, float, float]:
    """CPU seconds of the first and the second query, and wall seconds of the whole process."""
    started = time.perf_counter()
    command = [python, str(_IN_DUCKDB), metadata, str(value)]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    first, again = json.loads(found.stdout)
    return first, again, time.perf_counter() - started


def _after_append(root: Path, opened: pruner.Table, turn: int, value: int) -> tuple[float, float]:
    append(root, 2 + turn)
    processor, wall = _processor(), time.perf_counter()
    assert opened.plan(f"id = {value}").kept == 1
    return _processor() - processor, time.perf_counter() - wall
