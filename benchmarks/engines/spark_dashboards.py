"""Everyday statements over plain Spark and through pruner: as views, and by the names of a catalog."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

import pruner
import pruner_spark
from benchmarks.engines.engine_dashboards import Asked, Rows, chosen_lakes, files, report
from benchmarks.lakes.dashboard_lakes import Lake, lakes
from tools.java import AS_SERVERS
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CATALOG = "hive, by the catalog"


def run(console: Console) -> None:
    """Measure every statement over every table."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        users = folder / "users" / "users.parquet"
        tables = list(lakes(folder, users, files=files(), narrow=False))
        spark = hudi_session(folder / "spark", java_options=AS_SERVERS)
        try:
            spark.read.parquet(str(users.parent)).createOrReplaceTempView("users")
            report(console, "Spark", _asked(spark, tables))
        finally:
            spark.stop()


def _asked(spark: SparkSession, tables: list[Lake]) -> Iterator[Asked]:
    java: Any = spark._jvm  # pyright: ignore[reportPrivateUsage]
    processes = [int(java.java.lang.ProcessHandle.current().pid())]
    for lake in tables:
        if lake.name not in chosen_lakes():
            continue
        pruner.open_table(lake.root).create_index("columns", on="*", if_not_exists=True)
        options = {"mergeSchema": "true"} if lake.name == "evolved" else {}
        form = "hudi" if lake.name == "hudi" else "parquet"
        spark.read.format(form).options(**options).load(str(lake.root)).createOrReplaceTempView("plain_t")
        pruner_spark.register(spark, "pruned_t", lake.root, **options)
        yield Asked(
            lake.name,
            _asker(spark.sql, "plain_t"),
            _asker(spark.sql, "pruned_t"),
            lambda: _files_read(spark),
            processes,
        )
        if lake.name == "hive":
            columns = "id BIGINT, uid INT, cat STRING, amount DOUBLE, ts TIMESTAMP_NTZ, txt STRING, part INT"
            spark.sql(
                f"CREATE TABLE known ({columns}) USING parquet PARTITIONED BY (part) LOCATION '{lake.root}'"
            )
            spark.sql("MSCK REPAIR TABLE known")
            by_pruner = _asker(lambda sql: pruner_spark.sql(spark, sql), "known")
            yield Asked(CATALOG, _asker(spark.sql, "known"), by_pruner, lambda: _files_read(spark), processes)


def _asker(sql: Callable[[str], Any], name: str) -> Callable[[str], Rows]:
    return lambda statement: sql(statement.format(t=name, users="users")).collect()


def _files_read(spark: SparkSession) -> str:
    scans = pruner_spark.last_plans(spark)
    return f"{scans[-1].kept} of {scans[-1].total}" if scans else ""
