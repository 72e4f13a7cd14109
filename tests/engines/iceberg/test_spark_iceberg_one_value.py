"""Iceberg files that hold one value beside NULL and NaN: `<>` and NOT IN keep no more of them than Iceberg keeps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_duckdb
import pruner_spark
from tests.engines.spark.spark_tables import iceberg_files
from tests.support.spark.catalyst import settings
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

LONG = "a text of more than 16 bytes "
COLUMNS: dict[str, tuple[str, Callable[[int], str]]] = {
    "id": ("v", lambda v: f"{v}"),
    "n": ("CAST(v AS INT)", lambda v: f"{v}"),
    "s": ("concat('a', v)", lambda v: f"'a{v}'"),
    "wide": ("concat('ÄÖÜ', v)", lambda v: f"'ÄÖÜ{v}'"),
    "fits": ("concat('exactly 16 byte', v)", lambda v: f"'exactly 16 byte{v}'"),
    "long": (f"concat('{LONG}', v)", lambda v: f"'{LONG}{v}'"),
    "d": ("IF(id = 9, double('NaN'), (v - 1) / 2)", lambda v: f"CAST({(v - 1) / 2} AS DOUBLE)"),
    "f": ("CAST(v - 1 AS FLOAT)", lambda v: f"CAST({v - 1} AS FLOAT)"),
    "t": ("TIMESTAMP_NTZ '2024-01-01' + make_dt_interval(v)", lambda v: f"TIMESTAMP '2024-01-0{v + 1}'"),
    "day": ("date_add(DATE '2024-01-01', v)", lambda v: f"DATE '2024-01-0{v + 1}'"),
    "m": ("CAST(v AS DECIMAL(9, 2))", lambda v: f"{v}.00"),
    "flag": ("v = 1", lambda v: str(v == 1).lower()),
}
"""Columns by name: the expression for value v, and its literal in either engine."""

FLOORS = {("plain", "fits"): 1}
"""How many more files are kept than by Iceberg: a bound of 16 bytes may have been truncated (docs/iceberg.md)."""

PARTITIONS = {"plain": "", "parts": f"PARTITIONED BY ({', '.join(COLUMNS)})"}


@pytest.fixture(scope="module")
def ice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    """A session with both tables: files of two rows with one value, except one with NULL and one with another value."""
    session = iceberg_session(spark, tmp_path_factory.mktemp("one_value"))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    values = ", ".join(f"IF(id = 5, NULL, {text}) AS {name}" for name, (text, _) in COLUMNS.items())
    rows = (
        f"SELECT {values} FROM (SELECT id, CAST(IF(id = 7, 1, id DIV 2) AS INT) AS v FROM range(0, 12, 1, 6))"
    )
    for name, partitions in PARTITIONS.items():
        session.sql(f"CREATE TABLE ice.{name} USING iceberg {partitions} AS {rows}")
    return session


def _conditions(column: str, literal: Callable[[int], str]) -> list[str]:
    one, other = literal(1), literal(3)
    return [f"{column} NOT IN ({one}, {other})", f"{column} IS DISTINCT FROM {one}"]


@pytest.mark.parametrize("name", PARTITIONS)
def test_no_more_files_than_iceberg_keeps(ice: SparkSession, name: str) -> None:
    path = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "") / name
    asked = {
        text: column for column, (_, literal) in COLUMNS.items() for text in _conditions(column, literal)
    }
    rows = ice.sql(f"SELECT *, _file FROM ice.{name}")
    # From a read without a condition, by which Iceberg or Parquet could skip anything.
    truth = rows.selectExpr("_file", *asked).collect()
    table, read = pruner.open_table(str(path)), pruner_spark.read(ice, path)
    fewer = 0
    with (
        pruner_duckdb.connect({"t": table}) as pruned,
        settings(ice, {"spark.sql.adaptive.enabled": "false"}),
    ):
        for number, (condition, column) in enumerate(asked.items(), 1):
            matching = [row[0] for row in truth if row[number]]
            plan, found = table.plan(condition), iceberg_files(read.where(condition))
            left = found[0] if found else set[str]()
            assert {*matching} <= left, condition
            more = {*plan.files} - left  # which Iceberg itself leaves out
            assert len(more) == FLOORS.get((name, column), 0), condition
            counted = pruned.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchone()
            assert counted == (len(matching),), condition
            fewer += plan.kept < plan.total
    assert fewer > len(COLUMNS)
