"""Hudi tables in DuckDB: the rows of Spark's reads from fewer files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import Rows, answer, indexed
from tests.support.hudi.spark_reads import Read, SparkReads
from tests.support.hudi.tables import table_names
from tests.support.kept.tables import KeptTables

pytestmark = pytest.mark.spark

COMPARED_TYPES = ("int", "bigint", "string", "boolean", "decimal", "date", "float", "double")


def compared_columns(read: Read) -> list[str]:
    """Columns whose values Spark and DuckDB return as the same Python objects."""
    return [
        name
        for name, kind in read.types.items()
        if not name.startswith("_hoodie") and kind.split("(")[0] in COMPARED_TYPES
    ]


def comparable(value: Any) -> Any:
    """Floats by their bits; integers as text, as Spark returns a partition column rounded by a key generator."""
    if isinstance(value, float):
        return struct.pack("d", value)
    return str(value) if type(value) is int else value


def rows_of(read: Read, columns: list[str]) -> Rows:
    return sorted((tuple(comparable(row[name]) for name in columns) for row in read.rows), key=repr)


def rows_in(con: pruner_duckdb.Connection, table: str, columns: list[str]) -> Rows:
    quoted = ", ".join(f'"{name}"' for name in columns)
    rows = answer(con, f"SELECT {quoted} FROM {table}")
    return sorted((tuple(map(comparable, row)) for row in rows), key=repr)


@pytest.mark.parametrize("name", table_names("cow_.*"))
def test_copy_on_write_rows_are_those_of_spark(
    spark_reads: SparkReads, hudi_tables: KeptTables, tmp_path: Path, name: str
) -> None:
    root = hudi_tables.copy(name, tmp_path)
    con = pruner_duckdb.connect({"t": indexed(root)})
    read = spark_reads.read(hudi_tables.path(name))
    columns = compared_columns(read)
    assert rows_in(con, "t", columns) == rows_of(read, columns)
    for id_ in {row["id"] for row in read.rows}:
        wanted = sum(row["id"] == id_ for row in read.rows)
        assert con.execute(f"SELECT count(*) FROM t WHERE id = {id_}").fetchall() == [(wanted,)]
    assert con.execute("SELECT count(*) FROM t WHERE id = -5").fetchall() == [(0,)]
    assert con.last_plans[-1].kept == 0


@pytest.mark.parametrize("name", table_names("mor_.*"))
def test_base_files_alone_are_read_where_they_are_asked_for(
    spark_reads: SparkReads, hudi_tables: KeptTables, tmp_path: Path, name: str
) -> None:
    root = hudi_tables.copy(name, tmp_path)
    con = pruner_duckdb.connect({"base": {"uri": str(root), "read_optimized": True}})
    read = spark_reads.read(hudi_tables.path(name), read_optimized=True)
    columns = compared_columns(read)
    assert rows_in(con, "base", columns) == rows_of(read, columns)
