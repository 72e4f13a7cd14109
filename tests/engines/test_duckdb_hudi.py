"""Hudi tables in DuckDB: the rows of Spark's reads from fewer files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner_duckdb
from tests.engines.duckdb_tables import Rows, answer, indexed
from tests.support.hudi_tables import HudiTables, table_names
from tests.support.spark import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COMPARED_TYPES = ("int", "bigint", "string", "boolean", "decimal", "date", "float", "double")


def compared_columns(frame: DataFrame) -> list[str]:
    """Columns whose values Spark and DuckDB hand out as the same Python objects."""
    return [
        name
        for name, kind in frame.dtypes
        if not name.startswith("_hoodie") and kind.split("(")[0] in COMPARED_TYPES
    ]


def comparable(value: Any) -> Any:
    """Floats by their bits; integers as text, because Spark makes text of a partition column that a key
    generator rounded.
    """
    if isinstance(value, float):
        return struct.pack("d", value)
    return str(value) if type(value) is int else value


def rows_of(frame: DataFrame, columns: list[str]) -> Rows:
    quoted = [f"`{name}`" for name in columns]
    return sorted((tuple(map(comparable, row)) for row in frame.selectExpr(*quoted).collect()), key=repr)


def rows_in(con: pruner_duckdb.Connection, table: str, columns: list[str]) -> Rows:
    quoted = ", ".join(f'"{name}"' for name in columns)
    rows = answer(con, f"SELECT {quoted} FROM {table}")
    return sorted((tuple(map(comparable, row)) for row in rows), key=repr)


@pytest.mark.parametrize("name", table_names("cow_.*"))
def test_copy_on_write_rows_are_those_of_spark(
    spark: SparkSession, hudi_tables: HudiTables, tmp_path: Path, name: str
) -> None:
    root = hudi_tables.copy(name, tmp_path)
    con = pruner_duckdb.connect({"t": indexed(root)})
    frame = spark_snapshot(spark, root)
    columns = compared_columns(frame)
    assert rows_in(con, "t", columns) == rows_of(frame, columns)
    for row in frame.limit(2).collect():
        wanted = frame.where(f"id = {row['id']}")
        assert con.execute(f"SELECT count(*) FROM t WHERE id = {row['id']}").fetchall() == [(wanted.count(),)]
    assert con.execute("SELECT count(*) FROM t WHERE id = -5").fetchall() == [(0,)]
    assert con.last_plans[-1].kept == 0


@pytest.mark.parametrize("name", table_names("mor_.*"))
def test_base_files_alone_are_read_where_they_are_asked_for(
    spark: SparkSession, hudi_tables: HudiTables, tmp_path: Path, name: str
) -> None:
    root = hudi_tables.copy(name, tmp_path)
    con = pruner_duckdb.connect({"base": {"uri": str(root), "read_optimized": True}})
    frame = spark_snapshot(spark, root, read_optimized=True)
    columns = compared_columns(frame)
    assert rows_in(con, "base", columns) == rows_of(frame, columns)
