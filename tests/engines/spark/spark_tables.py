"""The tables of `tests/spec/statements.txt` for Spark, and what an executed query has read."""

from __future__ import annotations

import re
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

import pruner
import pruner_spark
from tests.support.cases.statement_tables import TABLES
from tests.support.spark.oracle import UNPRUNED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Rows = list[tuple[Any, ...]]

PUSHDOWN = "spark.sql.parquet.filterPushdown"


@dataclass(frozen=True)
class Lake:
    """The three tables in one folder, indexed; views of either kind are made over them by name."""

    spark: SparkSession
    root: Path
    format: str

    def pruned(self) -> None:
        """Make the names refer to pruned tables."""
        for name in TABLES:
            pruner_spark.register(self.spark, name, self.root / name)

    def plain(self) -> None:
        """Make the names refer to the tables as Spark reads them, with nothing skipped."""
        for name in TABLES:
            reader = self.spark.read.format(self.format).options(**UNPRUNED)
            reader.load(str(self.root / name)).createOrReplaceTempView(name)


def write_numbers(root: Path, files: int = 8) -> Path:
    """File n holds id 10n to 10n+9, a text, and n % 2 in its path."""
    for number in range(files):
        folder = root / f"half={number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        ids = range(10 * number, 10 * number + 10)
        content = {"id": pa.array(ids, pa.int32()), "file_name": pa.array([f"f{i}" for i in ids])}
        pq.write_table(pa.table(content), folder / f"{number:05}.parquet")
    return root


def indexed_numbers(root: Path) -> Path:
    """The table of `write_numbers` with an index on all its columns."""
    pruner.open_table(write_numbers(root)).create_index("stats", on="*")
    return root


def ids_of(frame: DataFrame, where: str) -> list[int]:
    """The ids of the rows that a condition selects."""
    return sorted(row[0] for row in frame.where(where).select("id").collect())


def index_all(root: Path) -> None:
    """Index every column of the three tables."""
    for name in TABLES:
        pruner.open_table(root / name).create_index("stats", on="*")


def copy_tables(source: Path, target: Path) -> Path:
    """Return a copy of the three tables, to write beside them."""
    for name in TABLES:
        shutil.copytree(source / name, target / name)
    return target


@contextmanager
def everything_read(spark: SparkSession) -> Generator[None]:
    """Switch Parquet's own pushdown off meanwhile: the oracle reads every row."""
    before = str(spark.conf.get(PUSHDOWN))
    spark.conf.set(PUSHDOWN, "false")
    try:
        yield
    finally:
        spark.conf.set(PUSHDOWN, before)


def rows_of(frame: DataFrame) -> Rows:
    """Return the rows as tuples."""
    return [tuple(row) for row in frame.collect()]


def unordered(rows: Rows) -> Rows:
    """Return the rows in an order that does not depend on that of their arrival."""
    return sorted(rows, key=repr)


class Both:
    """A pruned table, and the same table as Spark reads it."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        pruner_spark.register(spark, "t", root)
        spark.read.parquet(str(root)).createOrReplaceTempView("plain_t")

    def read(self, query: str) -> list[int]:
        """Compare a query; return how many files each of its scans has read."""
        wanted = self._spark.sql(re.sub(r"\bt\b", "plain_t", query))
        found = self._spark.sql(query)
        same(found, wanted, ordered="ORDER BY" in query)
        return files_scanned(found)

    def close(self) -> None:
        for name in ("t", "plain_t"):
            self._spark.catalog.dropTempView(name)


def same(found: DataFrame, wanted: DataFrame, *, ordered: bool) -> None:
    """Assert that two frames have equal schemas and rows."""
    told, rows = rows_of(found), rows_of(wanted)
    assert found.schema == wanted.schema
    assert repr(told) == repr(rows) if ordered else repr(unordered(told)) == repr(unordered(rows))


def new_scans(spark: SparkSession, before: list[pruner_spark.Scan]) -> list[pruner_spark.Scan]:
    """Return the scans that are not in `before`."""
    known = {id(scan) for scan in before}
    return [scan for scan in pruner_spark.last_plans(spark) if id(scan) not in known]


def files_scanned(frame: DataFrame) -> list[int]:
    """Return the number of files that each file scan of an executed query has read."""
    return [
        int(scan.metrics().apply("numFiles").value()) for scan in executed_scans(frame, "FileSourceScanExec")
    ]


def iceberg_files(frame: DataFrame) -> list[set[str]]:
    """Return the files left to each Iceberg scan of a query."""
    found: list[set[str]] = []
    for node in executed_scans(frame, "BatchScanExec"):
        tasks = iceberg_tasks(node.scan())
        found.append({tasks.get(k).file().location() for k in range(tasks.size())})
    return found


def iceberg_tasks(scan: Any) -> Any:
    """Return the list of tasks of an Iceberg scan, through a method that is not public."""
    kind = scan.getClass()
    while kind.getSimpleName() != "SparkPartitioningAwareScan":
        kind = kind.getSuperclass()
    nothing = java_gateway().new_array(java_gateway().jvm.java.lang.Class, 0)
    method = kind.getDeclaredMethod("tasks", nothing)
    method.setAccessible(True)
    return method.invoke(scan, None)


def java_gateway() -> Any:
    """The gateway to the JVM of the tests."""
    from pyspark import SparkContext

    context: Any = SparkContext._active_spark_context
    return context._gateway


def executed_scans(frame: DataFrame, kind: str) -> list[Any]:
    """Return the scans of one kind in the plan of a query."""
    java_frame: Any = frame._jdf
    found: list[Any] = []
    _collect(java_frame.queryExecution().executedPlan(), kind, found)
    return found


def _collect(node: Any, kind: str, found: list[Any]) -> None:
    name = node.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        _collect(node.executedPlan(), kind, found)
    elif name.endswith("QueryStageExec"):
        _collect(node.plan(), kind, found)
    elif name == kind:
        found.append(node)
    for each in (node.children(), node.subqueries()):
        for position in range(each.size()):
            _collect(each.apply(position), kind, found)
