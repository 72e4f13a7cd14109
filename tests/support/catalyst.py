"""Spark's optimized predicates over a Parquet table, as its scans get them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from pruner.schema import Field, TableSchema, flatten

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@contextmanager
def settings(spark: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Change settings of the session for a while."""
    before = {name: spark.conf.get(name, None) for name in values}
    try:
        for name, value in values.items():
            spark.conf.set(name, value)
        yield
    finally:
        for name, value in before.items():
            if value is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, value)


def condition(frame: DataFrame) -> Any:
    """Return the one condition that Spark's optimizer leaves above the scan of a frame; None where it leaves none."""
    java_frame: Any = frame._jdf
    plan = java_frame.queryExecution().optimizedPlan()
    while plan.nodeName() != "Filter":
        if plan.children().size() != 1:
            return None
        plan = plan.children().apply(0)
    return plan.condition()


def parquet_schema(file: Path) -> TableSchema:
    """The schema of a table that is this one file."""
    return TableSchema(tuple(Field(path, field.type) for path, field in flatten(pq.read_schema(file))))


@contextmanager
def counted_calls(spark: SparkSession) -> Iterator[list[str]]:
    """Collect the commands that go to the Java machine meanwhile, releases of objects aside."""
    client: Any = spark._sc._gateway._gateway_client  # pyright: ignore[reportOptionalMemberAccess]
    sent: list[str] = []
    send = client.send_command

    def counting(command: str, *arguments: Any, **options: Any) -> Any:
        if not command.startswith("m\nd\n"):
            sent.append(command)
        return send(command, *arguments, **options)

    client.send_command = counting
    try:
        yield sent
    finally:
        del client.send_command
