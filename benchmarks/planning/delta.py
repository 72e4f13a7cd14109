"""Opening a Delta table and planning on its log, against deltalake and against Arrow reading the checkpoint.

Tables of 20,000 and 200,000 files (BENCH_FILES for others) with statistics of four columns. There is only the log: no
contender opens a data file. They take turns; CPU time is that of the whole process. Spark plans in another process,
where the time until the answer is measured: with no log state cached, and with its state cached.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from rich.console import Console

import pruner
from benchmarks.duckdb import deleted_rows
from benchmarks.timing import milliseconds
from pruner.arrow import compute
from pruner.tables.delta.source import DeltaSource
from tools.spark_sessions import delta_session, session_with_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = (20_000, 200_000)
RUNS = 5
SPARK_RUNS = 3
_TYPES = {"id": "long", "price": "double", "name": "string", "day": "date"}


def run(console: Console) -> None:
    """Measure opening, checks and plans of each size, and deleted rows in DuckDB."""
    given = os.environ.get("BENCH_FILES")
    with tempfile.TemporaryDirectory() as folder:
        spark = delta_session(session_with_jars(Path(folder)))
        for count in (int(given),) if given else FILES:
            _compare(console, spark, Path(folder) / str(count), count)
        spark.stop()
    deleted_rows.run(console)


def _compare(console: Console, spark: SparkSession, root: Path, count: int) -> None:
    _write(root, count)
    by_spark = _by_spark(spark, root, count // 2)
    title = f"a Delta table of {count:,} files"
    console.print(milliseconds(title, _measured(root, count), by_spark))


def _by_spark(spark: SparkSession, root: Path, half: int) -> dict[str, float]:
    """The time that Spark takes to plan a point condition by Delta's own skipping, which must keep one file."""
    java: Any = spark._jvm

    def planned() -> float:
        started = time.perf_counter()
        frame = spark.sql(f"SELECT * FROM delta.`{root}` WHERE id = {half * 10}")
        assert len(frame.inputFiles()) == 1
        return time.perf_counter() - started

    cold: list[float] = []
    for _ in range(SPARK_RUNS + 1):
        java.org.apache.spark.sql.delta.DeltaLog.clearCache()
        cold.append(planned())
    warm = [planned() for _ in range(RUNS + 1)]
    return {
        "open and plan by id, Spark with Delta's skipping": median(cold[1:]),
        "plan again, Spark with Delta's skipping": median(warm[1:]),
    }


def _measured(root: Path, count: int) -> dict[str, tuple[float, float]]:
    checkpoint = next((root / "_delta_log").glob("*.checkpoint.parquet"))
    half = count // 2
    values: dict[str, tuple[str, Any]] = {
        "id": (f"id = {half * 10}", half * 10),
        "name": (f"name = 'name-{half:09d}'", f"name-{half:09d}"),
        "price": (f"price = {half / 7}", half / 7),
    }
    opened = pruner.open_table(str(root))
    for column, (predicate, value) in values.items():
        assert opened.plan(predicate).kept == _by_deltalake(root, column, value)
    source = DeltaSource(str(root))
    known = source.snapshot()
    contenders: dict[str, Callable[[], Any]] = {
        "Arrow reads the checkpoint, all columns": lambda: pq.read_table(checkpoint),
        "open, this reader": lambda: DeltaSource(str(root)).snapshot(),
        "open, deltalake": lambda: DeltaTable(str(root)),
        "plan again, this reader": lambda: opened.plan(values["id"][0]).kept,
        "look with no commit, this reader": lambda: source.snapshot(known),
    }
    for column, (predicate, value) in values.items():
        contenders[f"open and plan by {column}, this reader"] = partial(_planned, root, predicate)
        by_deltalake = f"open and filter by {column}, deltalake (get_add_actions)"
        contenders[by_deltalake] = partial(_by_deltalake, root, column, value)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for turn in range(RUNS + 1):
        for name, contender in contenders.items():
            processor, wall = time.process_time(), time.perf_counter()
            contender()
            if turn:
                times[name].append((time.process_time() - processor, time.perf_counter() - wall))
    times["look with one commit, this reader"] = [_with_commit(root, source, turn) for turn in range(RUNS)]
    return {
        name: (median(each[0] for each in taken), median(each[1] for each in taken))
        for name, taken in times.items()
    }


def _planned(root: Path, predicate: str) -> int:
    return pruner.open_table(str(root)).plan(predicate).kept


def _by_deltalake(root: Path, column: str, value: Any) -> int:
    adds: Any = pa.table(DeltaTable(str(root)).get_add_actions(flatten=True))
    low, high = (adds.column(f"{end}.{column}") for end in ("min", "max"))
    if column == "id":
        low, high = compute.cast(low, pa.int64()), compute.cast(high, pa.int64())
    kept = compute.and_(compute.less_equal(low, value), compute.greater_equal(high, value))
    return compute.sum(kept).as_py()


def _with_commit(root: Path, source: DeltaSource, turn: int) -> tuple[float, float]:
    version = source.snapshot().version
    number = int((version or "0 0").rpartition(" ")[2]) + 1
    commit = root / "_delta_log" / f"{number:020d}.json"
    commit.write_text(json.dumps({"add": _add(10**9 + turn)}) + "\n")
    processor, wall = time.process_time(), time.perf_counter()
    source.snapshot()
    return time.process_time() - processor, time.perf_counter() - wall


def _add(number: int) -> dict[str, Any]:
    low = {"id": number * 10, "price": number / 7, "name": f"name-{number:09d}", "day": "2024-01-01"}
    high = {
        "id": number * 10 + 9,
        "price": number / 7 + 1,
        "name": f"name-{number:09d}x",
        "day": "2024-02-01",
    }
    stats = {"numRecords": 10, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(_TYPES, 0)}
    return {
        "path": f"part-{number:09d}-5f1d6f0e-7c0b-4a4b-9d55-0d2f8c7e4f10.snappy.parquet",
        "partitionValues": {},
        "size": 1000,
        "modificationTime": 0,
        "dataChange": True,
        "stats": json.dumps(stats),
    }


def _write(root: Path, count: int) -> None:
    """A log of one commit without files, and a checkpoint of the next version."""
    log = root / "_delta_log"
    log.mkdir(parents=True)
    fields = [
        {"name": name, "type": type_, "nullable": True, "metadata": {}} for name, type_ in _TYPES.items()
    ]
    metadata: dict[str, Any] = {
        "id": "5f1d6f0e-7c0b-4a4b-9d55-0d2f8c7e4f10",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [],
        "configuration": {},
        "createdTime": 0,
    }
    protocol = {"minReaderVersion": 1, "minWriterVersion": 2}
    for version in range(2):
        text = json.dumps({"protocol": protocol}) + "\n" + json.dumps({"metaData": metadata}) + "\n"
        (log / f"{version:020d}.json").write_text(text)
    texts = pa.map_(pa.string(), pa.string())
    adds: Any = pa.array(
        [None, None, *({**_add(number), "partitionValues": []} for number in range(count))], _ADD
    )
    columns = [
        pa.array(
            [protocol, *[None] * (count + 1)],
            pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())]),
        ),
        pa.array(
            [
                None,
                {**metadata, "format": {"provider": "parquet", "options": []}, "configuration": []},
                *[None] * count,
            ],
            pa.struct(
                [
                    ("id", pa.string()),
                    ("format", pa.struct([("provider", pa.string()), ("options", texts)])),
                    ("schemaString", pa.string()),
                    ("partitionColumns", pa.list_(pa.string())),
                    ("configuration", texts),
                    ("createdTime", pa.int64()),
                ]
            ),
        ),
        adds,
    ]
    pq.write_table(
        pa.table(columns, names=["protocol", "metaData", "add"]), log / f"{1:020d}.checkpoint.parquet"
    )
    (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": count + 2}))


_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
    ]
)
