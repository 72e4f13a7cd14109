"""Spark over a table in MinIO with a change feed that MinIO itself fills: see `test_store_feed.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner_spark
from tests.support.stores.notifying import STEPS, NotifyingStore, notifying_store
from tests.support.stores.object_store import TABLE, let_spark_reach

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

S3A = TABLE.replace("s3://", "s3a://")


@pytest.fixture(scope="module")
def told(spark: SparkSession) -> Iterator[NotifyingStore]:
    with notifying_store() as running:
        let_spark_reach(spark, running.store.options)
        running.open().create_index("i", on=["id", "city"])
        yield running


def test_what_the_server_tells_is_read_by_the_next_scan(
    spark: SparkSession, told: NotifyingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A frame covers the files at the moment of its creation, as in plain Spark."""
    config = tmp_path / "pruner.toml"
    told.configure(config, monkeypatch, S3A)
    monkeypatch.setenv("PRUNER_CONFIG", str(config))

    def rows(frame: DataFrame, question: str) -> list[int]:
        return [row.id for row in frame.where(question).sort("id").collect()]

    assert rows(pruner_spark.read(spark, S3A), "id BETWEEN 310 AND 312") == [310, 311, 312]
    for what, change, question, expected in STEPS:
        change(told)
        assert len(rows(pruner_spark.read(spark, S3A), question)) == expected, what
    told.open().refresh()
    frame = pruner_spark.read(spark, S3A)
    told.store.proxy.forget()  # Spark has read the schema from a file
    assert rows(frame, "id BETWEEN 9010 AND 9012") == [9010, 9011, 9012]
    assert told.store.files_read() == {3}, "what a refresh covered is pruned"
