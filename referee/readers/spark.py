"""Spark, and its readers of Delta and Iceberg where `SPARK_JARS` names their jars, separated by commas."""

from __future__ import annotations

import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from conditions import Condition, sql
from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]

_OF_JARS = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
}


@cache
def _session() -> Any:
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    if jars := os.environ.get("SPARK_JARS"):
        settings |= _OF_JARS | {"spark.jars": jars}
    made: Any = SparkSession.builder
    builder = made.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


@cache
def _named(metadata: str) -> str:
    """The folder of an Iceberg table, where Spark finds the metadata file by another name and a hint."""
    file = Path(metadata)
    shutil.copyfile(file, file.with_name("v1.metadata.json"))
    file.with_name("version-hint.text").write_text("1", "utf-8")
    return str(file.parent.parent)


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    if table_format == "iceberg":
        frame = _session().read.format("iceberg").load(_named(root))
    elif table_format == "delta":
        frame = _session().read.format("delta").load(root)
    else:
        frame = _session().read.option("mergeSchema", "true").parquet(root)
    text = sql(condition, timestamp="TIMESTAMP_NTZ", instant="TIMESTAMP")
    return [row["id"] for row in frame.where(text).select("id").collect()]
