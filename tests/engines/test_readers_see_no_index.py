"""Before and after CREATE INDEX every reader sees the same rows, from the table's folder and globs above it (N9)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import pruner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = list[tuple[Any, ...]]


def _write(lake: Path) -> Path:
    table = lake / "trips"
    table.mkdir(parents=True)
    for number in range(3):
        pq.write_table(pa.table({"id": [number, number + 10], "s": ["a", "b"]}), table / f"{number}.parquet")
    return table


def _by_duckdb(pattern: str) -> Rows:
    return duckdb.execute(f"SELECT id, s FROM read_parquet('{pattern}') ORDER BY ALL").fetchall()


def _by_polars(pattern: str) -> Rows:
    return pl.scan_parquet(pattern).select("id", "s").sort("id", "s").collect().rows()


def _by_pyarrow(folder: Path) -> Rows:
    found = ds.dataset(folder, format="parquet").to_table(columns=["id", "s"]).sort_by("id")
    return list(zip(found["id"].to_pylist(), found["s"].to_pylist(), strict=True))


def _all_without_spark(lake: Path, table: Path) -> list[Rows]:
    return [
        _by_duckdb(f"{table}/*.parquet"),
        _by_duckdb(f"{lake}/**/*.parquet"),
        _by_polars(f"{table}/*.parquet"),
        _by_polars(f"{lake}/**/*.parquet"),
        _by_polars(f"{table}/"),
        _by_pyarrow(table),
    ]


def test_duckdb_polars_and_pyarrow(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    table = _write(lake)
    before = _all_without_spark(lake, table)
    assert {len(rows) for rows in before} == {6}
    pruner.open_table(str(table)).create_index("stats", on="*")
    assert (lake / "trips.pruner").is_dir()
    assert _all_without_spark(lake, table) == before


@pytest.mark.spark
def test_spark(tmp_path: Path, spark: SparkSession) -> None:
    lake = tmp_path / "lake"
    table = _write(lake)

    def read() -> list[list[Any]]:
        whole = spark.read.parquet(str(table))
        globbed = (
            spark.read.option("recursiveFileLookup", "true")
            .option("pathGlobFilter", "*.parquet")
            .parquet(str(lake))
        )
        return [frame.orderBy("id", "s").collect() for frame in (whole, globbed)]

    before = read()
    assert {len(rows) for rows in before} == {6}
    pruner.open_table(str(table)).create_index("stats", on="*")
    assert read() == before
