"""Spark's optimized predicates over a Parquet table, as its scans get them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

import pruner
from pruner.schema import Field, TableSchema, flatten
from pruner_spark.catalyst.decode import decode
from pruner_spark.jvm import session_state

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


def matching_and_kept(spark: SparkSession, folder: Path, predicate: str) -> tuple[set[str], set[str]]:
    """Names of the files with a matching row, by a full scan of Spark, and of those that its predicate's plan keeps.

    The scan computes the predicate as a column, so that nothing of it is pushed down.
    """
    frame = spark.read.parquet(str(folder))
    rows = frame.selectExpr("_metadata.file_name AS `in file`", f"({predicate}) AS matches").collect()
    frame.createOrReplaceTempView("planned_by_catalyst")
    left = condition(spark.sql(f"SELECT 1 FROM planned_by_catalyst WHERE {predicate}"))
    assert left is not None, "Spark decided the predicate by itself"
    table = pruner.open_table(str(folder))
    if not table.indexes():
        table.create_index("stats", on="*")
    pinned, state = table.snapshot(), session_state(spark)
    plan = pinned.plan(decode(left, state, pinned.schema), semantics=state.semantics())
    return {row[0] for row in rows if row[1]}, {Path(file).name for file in plan.files}
