"""Files that fastparquet wrote (`tests/support/fastparquet_files.py`): no row is lost, and other files are not read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_duckdb
import pruner_spark
from tests.engines.spark_tables import new_scans
from tests.support import plain_duckdb
from tests.support.fastparquet_files import FILES, FOLDER, VALUES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CASES: dict[str, dict[str, int]] = {
    "int96": {"x = TIMESTAMP '2024-03-10 03:00:00.000005'": 1, "x > TIMESTAMP '2024-03-10 06:00:00'": 1},
    "micros": {"x = TIMESTAMP '2024-03-10 03:00:00.000005'": 1, "x = '2024-03-10 02:00:00.000004'": 1},
    "instants": {"x = TIMESTAMPTZ '2024-03-10 03:00:00+00'": 1, "x < '2024-03-10 00:00:00+00'": 1},
    "times": {"x = TIME '05:00:00.000005'": 1, "x >= '08:00'": 1, "x < '04:00'": 1},
    "texts": {"x = 'é05'": 1, "x > 'é06'": 1, "x LIKE 'é0%'": 3},
    "bytes": {r"x = '\x05\x85'::BLOB": 1, r"x > '\x07'::BLOB": 1},
    "json": {
        """x = '{"n":5}'""": 2,
        """x > '{"n":6}'""": 1,
        "x IN ('{\"n\":0}', '{\"n\":10}')": 2,
        "x LIKE '{\"n\":1%'": 2,
    },
    "small": {"x = 50": 1, "x > 70": 1, "x IN (0, 110)": 2},
    "unsigned": {"x = 100": 1, "x > 140": 1, "x < 0": 0},
    "doubles": {"x = 0.5": 1, "x > 0.75": 2, "x IS NULL": 1},
    "flags": {"x": 1, "NOT x": 2},
}
"""For each table conditions, and how many of its three files are left."""

IN_SPARK: dict[str, dict[str, int]] = {
    "micros": {"x = TIMESTAMP_NTZ '2024-03-10 03:00:00.000005'": 1, "x IS NULL": 3},
    "instants": {"x = TIMESTAMP '2024-03-10 03:00:00Z'": 1},
    "texts": {"x = 'é05'": 1, "x LIKE 'é1%'": 1},
    "bytes": {"x = X'0585'": 1},
    "json": {"""x = '{"n":5}'""": 2},
    "small": {"x = 50": 1, "x IN (0, 110)": 2},
    "doubles": {"x = 0.5": 1},
    "flags": {"x": 1},
    # Of another writer than parquet-mr: a setting of the session may move them by its zone.
    "int96": {"x = TIMESTAMP '2024-03-10 03:00:00.000005Z'": 3},
    # Spark reads the 32 bits that are stored, of which the statistics of fastparquet are not believed.
    "unsigned": {"x = 100": 3},
}


def table_of(name: str, folder: Path, using: str) -> pruner.Table:
    shutil.copytree(FOLDER / name, folder / name)
    table = pruner.open_table(str(folder / name))
    table.create_index("i", on="x", using=using)
    return table


def test_each_table_is_asked_about() -> None:
    assert CASES.keys() == VALUES.keys()
    assert {path.name for path in FOLDER.iterdir()} == VALUES.keys()


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize("name", CASES)
def test_duckdb_finds_every_row_and_reads_no_other_file(tmp_path: Path, name: str, zone: str) -> None:
    table = table_of(name, tmp_path, "column_stats")
    source = f"read_parquet('{table.uri}/*.parquet')"
    with pruner_duckdb.connect({"t": table}) as connection, plain_duckdb.judge(zone) as judge:
        connection.execute(f"SET TimeZone = '{zone}'")
        for where, kept in CASES[name].items():
            found: Any = connection.execute(f"SELECT x FROM t WHERE {where} ORDER BY ALL").fetchall()
            assert found == judge.execute(f"SELECT x FROM {source} WHERE {where} ORDER BY ALL").fetchall(), (
                where
            )
            assert connection.last_plans[-1].kept == kept, where


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("bytes", "int96")])
def test_bitmaps_leave_as_few_files(tmp_path: Path, name: str) -> None:
    table = table_of(name, tmp_path, "bitmap")
    semantics = pruner.Semantics(engine="duckdb", zone="UTC")
    for where, kept in CASES[name].items():
        assert table.plan(where, semantics=semantics).kept <= kept, where


@pytest.mark.spark
@pytest.mark.parametrize("name", IN_SPARK)
def test_spark_finds_every_row_and_reads_no_other_file(
    tmp_path: Path, spark: SparkSession, name: str
) -> None:
    table = table_of(name, tmp_path, "column_stats")
    for where, kept in IN_SPARK[name].items():
        before = pruner_spark.last_plans(spark)
        found = pruner_spark.read(spark, table.uri).where(where).collect()
        assert sorted(map(repr, found)) == sorted(
            map(repr, spark.read.parquet(table.uri).where(where).collect())
        )
        (scan,) = new_scans(spark, before)
        assert FILES - (scan.files_dropped or 0) == kept, where
