"""Spark in `python -m benchmarks head-to-head`, at a small size: its answers, and the files that it opens for them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
import pytest

from benchmarks.lakes.events import Events, FileFormat, Lake
from benchmarks.peers.engine_readers import Spark
from benchmarks.peers.head_to_head import build
from benchmarks.peers.questions import WORKLOADS
from tests.support.cases.head_to_head import opened_for
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 6, 50
pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    lake = Lake(tmp_path_factory.mktemp("spark"), Events(FILES, ROWS))
    lake.write()
    lake.write_hudi(spark)
    return lake


def test_spark_writes_each_file_as_a_file_group(lake: Lake) -> None:
    files = sorted(lake.data("hudi").glob("*.parquet"))
    tables = [pl.read_parquet(file, columns=["event_id"]) for file in files]
    ids = sorted(sorted(each["event_id"].to_list()) for each in tables)
    assert ids == [list(range(start, start + ROWS)) for start in range(0, FILES * ROWS, ROWS)]


@pytest.mark.parametrize("kind", ["iceberg", "hudi"])
def test_spark_answers_alone_and_with_pruner(
    spark: SparkSession, lake: Lake, kind: FileFormat, tmp_path: Path
) -> None:
    """The formats that are opened differently: Hudi with options, Iceberg by its metadata file."""
    session = iceberg_session(spark, tmp_path) if kind == "iceberg" else spark
    build(lake, kind)
    some: Iterable[str] = ("key", "window")
    for index, asked in (
        (None, some),
        (f"{lake.folder}/{kind}.index", WORKLOADS if kind == "hudi" else some),
    ):
        reader = Spark(session, kind, index)
        reader.open(lake.location(kind))
        opened = opened_for(asked, reader, lake, kind)
        if index is not None:
            assert opened["key"] == 1
            assert opened["window"] <= 2
            assert opened.get("nothing", FILES) == FILES
