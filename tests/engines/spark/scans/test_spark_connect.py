"""`connect_read`: a list of files through the public interface, from a predicate as text."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
from pruner.errors import TableError
from tests.engines.spark.spark_tables import files_scanned, rows_of, unordered
from tests.support.cases.statement_tables import write_parquet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    root = write_parquet(tmp_path) / "flights"
    pruner.open_table(root).create_index("stats", on="*")
    return root


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("id = 104", 1),
        ("region = 'us' AND id < 300", 1),
        ("dest IN ('AMS', 'SYD') OR id BETWEEN 298 AND 302", 4),
        ("upper(dest) = 'AMS'", 1),
        ("ts >= TIMESTAMP '2024-01-12 00:00:00'", 1),
    ],
)
def test_rows_come_from_the_files_that_are_left(
    spark: SparkSession, flights: Path, where: str, files: int
) -> None:
    frame = pruner_spark.connect_read(spark, flights, where)
    whole = spark.read.parquet(str(flights))
    assert frame.schema == whole.schema
    assert unordered(rows_of(frame)) == unordered(rows_of(whole.where(where)))
    assert files_scanned(frame) == [files]


def test_no_file_left_is_an_empty_frame_of_the_same_schema(spark: SparkSession, flights: Path) -> None:
    frame = pruner_spark.connect_read(spark, flights, "id = 5000")
    assert rows_of(frame) == []
    assert frame.schema == spark.read.parquet(str(flights)).schema


def test_what_pruner_cannot_parse_is_read_whole(
    spark: SparkSession, flights: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "pruner"):
        frame = pruner_spark.connect_read(spark, flights, "id = 104 AND _metadata.file_size > 0")
    assert rows_of(frame.select("id")) == [(104,)]
    assert caplog.records[0].getMessage().startswith(f"scan of {flights} is not pruned: ")


def test_hudi_tables_are_refused(spark: SparkSession, hudi_table: Callable[[str], Path]) -> None:
    with pytest.raises(TableError, match="not a Parquet table"):
        pruner_spark.connect_read(spark, hudi_table("cow_v9"), "id = 1")
