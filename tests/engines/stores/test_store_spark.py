"""Spark over a table in an S3-compatible server: it builds the same index as locally, and scans read what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

import pruner_spark
from tests.support.stores.object_store import (
    FILES,
    QUESTIONS,
    TABLE,
    ObjectStore,
    figure,
    let_spark_reach,
    object_store,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

BY_SPARK = "s3://lake/built-by-spark.pruner"
S3A = TABLE.replace("s3://", "s3a://")


@pytest.fixture(scope="module")
def store(spark: SparkSession) -> Iterator[ObjectStore]:
    with object_store() as running:
        let_spark_reach(spark, running.options)
        running.write()
        running.open().create_index("i", on=["id", "city"])
        running.open(BY_SPARK).create_index("i", on=["id", "city"], run=spark)
        yield running


def test_spark_and_this_machine_build_the_same_index(store: ObjectStore) -> None:
    for question, (_, files) in QUESTIONS.items():
        kept = [store.open(place).plan(question, dialect="spark").files for place in (None, BY_SPARK)]
        assert list(kept[0]) == list(kept[1]) == [f"{TABLE}/{number}.parquet" for number in sorted(files)]


def test_spark_reads_with_its_own_credentials_and_pruner_with_its_options(
    spark: SparkSession, store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "another")
    question, (ids, _) = next(iter(QUESTIONS.items()))
    frame = pruner_spark.read(spark, S3A, storage_options=store.options).where(question)
    assert [row.id for row in frame.sort("id").collect()] == ids
    context: Any = spark.sparkContext
    settings = context._jsc.hadoopConfiguration()
    settings.set("fs.s3a.access.key", "another")
    try:
        with pytest.raises(Exception, match=r"403|Forbidden|InvalidAccessKeyId"):
            pruner_spark.read(spark, S3A, storage_options=store.options).where(question).collect()
    finally:
        settings.set("fs.s3a.access.key", store.options["aws_access_key_id"])


def test_scans_read_the_files_of_their_rows(
    spark: SparkSession, store: ObjectStore, record_property: Callable[[str, object], None]
) -> None:
    plain = spark.read.parquet(S3A)
    pruned = pruner_spark.read(spark, S3A, storage_options=store.options)
    for question, (ids, files) in QUESTIONS.items():
        store.proxy.forget()
        assert [row.id for row in pruned.where(question).sort("id").collect()] == ids
        assert store.files_read() == files
        assert [row.id for row in plain.where(question).sort("id").collect()] == ids
        assert store.files_read() == set(range(FILES)), "Spark itself asks every file"
    for who, frame in (("plain Spark", plain), ("pruned Spark", pruned)):
        store.proxy.forget()
        frame.where("id BETWEEN 310 AND 312").collect()
        record_property(*figure(f"{who} for one file of {FILES}", store.counted()))
