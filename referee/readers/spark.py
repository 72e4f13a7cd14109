"""Spark, and its readers of Delta and Iceberg where `SPARK_JARS` names their jars, separated by commas."""

from __future__ import annotations

import os
from functools import cache
from typing import Any

from conditions import Condition, sql
from pyspark.sql import SparkSession  # pyright: ignore[reportMissingImports]


@cache
def _session() -> Any:
    settings = {
        "spark.jars": os.environ.get("SPARK_JARS", ""),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension"
        if "SPARK_JARS" in os.environ
        else "",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
    }
    made: Any = SparkSession.builder
    builder = made.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def ids(root: str, table_format: str, condition: Condition) -> list[int]:
    reader = _session().read.format(table_format)
    if table_format == "parquet":
        reader = reader.option("mergeSchema", "true")
    frame = reader.load(root.partition("/metadata/")[0]) if table_format == "iceberg" else reader.load(root)
    text = sql(condition, timestamp="TIMESTAMP_NTZ", instant="TIMESTAMP")
    return [row["id"] for row in frame.where(text).select("id").collect()]
