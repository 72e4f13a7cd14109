"""Columns that Spark reads as another type, or another number, than Arrow does (rule R11), on Spark itself.

The oracle is Spark over all files, with the predicates as columns so that nothing is pushed down; pruned rows come
from `pruner_spark.read`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import everything_read, new_scans
from tests.support.parquet.footers import written_by
from tests.support.parquet.types import converted, converted_only, int96, plain
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

PARQUET_MR = "parquet-mr version 1.13.1 (build 0)"
NOON = datetime.datetime(2024, 1, 1, 12)


def check(
    spark: SparkSession, folder: Path, expected: Mapping[str, tuple[int, int]], column: str = "x"
) -> None:
    """Compare pruned rows with Spark's own; `expected` holds the rows found and files kept for each predicate."""
    opened = pruner.open_table(str(folder))
    if not opened.indexes():
        opened.create_index("i", on=column)
    with everything_read(spark):
        wanted = spark.read.parquet(str(folder)).selectExpr(
            *(f"coalesce({text}, false)" for text in expected)
        )
        rows = [sum(row) for row in zip(*wanted.collect(), strict=True)]
        before = pruner_spark.last_plans(spark)
        pruned = [pruner_spark.read(spark, folder).where(text).count() for text in expected]
        scans = new_scans(spark, before)
    found = {text: (count, scan.kept) for text, count, scan in zip(expected, pruned, scans, strict=True)}
    assert pruned == rows
    assert found == expected, [scan.fallbacks for scan in scans]


@pytest.mark.parametrize(
    ("annotation", "value", "read"),
    [
        ("UINT_8", 300, 300),
        ("UINT_8", -1, -1),
        ("UINT_16", 70_000, 70_000),
        ("INT_8", 379, 123),
        ("INT_16", 70_000, 4_464),
    ],
)
def test_s24_numbers_that_do_not_fit(
    spark: SparkSession, tmp_path: Path, annotation: str, value: int, read: int
) -> None:
    """Unsigned ones are read as stored, signed ones wrapped."""
    for number in (value, 5, 6):
        converted(tmp_path / f"{number}.parquet", pa.array([number], pa.int32()), annotation)
    # A file of an unsigned column with a number that does not fit is unknown; Spark wraps what Arrow wraps.
    unsure = 2 if annotation.startswith("U") else 1
    check(spark, tmp_path, {f"x = {read}": (1, 1), "x = 5": (1, unsure), "x = 5 OR x = 6": (2, unsure + 1)})


@pytest.mark.parametrize("vectorized", ["true", "false"])
def test_s24_wider_integers_beside_numbers_that_do_not_fit(
    spark: SparkSession, tmp_path: Path, vectorized: str
) -> None:
    """In a column of INT32 an INT_8 of 379 is 379: the index had recorded 123."""
    plain(tmp_path / "0.parquet", pa.array([1000], pa.int32()))
    converted(tmp_path / "1.parquet", pa.array([379], pa.int32()), "INT_8")
    converted(tmp_path / "2.parquet", pa.array([70_000], pa.int32()), "INT_16")
    with settings(spark, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
        check(
            spark, tmp_path, {"x = 379": (1, 2), "x = 70000": (1, 2), "x = 123": (0, 2), "x = 1000": (1, 3)}
        )


def _days(folder: Path, *, nested: bool) -> None:
    """Milliseconds, microseconds with and without a logical type, and INT96, a day each, as Spark writes them."""
    for number in range(4):
        moments = pa.array([NOON + datetime.timedelta(days=number)], pa.timestamp("us"))
        instants = moments.cast(pa.timestamp("ms" if number == 0 else "us", "UTC"))
        values = moments if number == 3 else instants
        column = pa.StructArray.from_arrays([values, pa.array([number])], ["ts", "n"]) if nested else values
        write = (plain, plain, converted_only, int96)[number]
        written_by(write(folder / f"{number}.parquet", column), PARQUET_MR)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_timestamps_of_every_output_type_in_one_table(
    spark: SparkSession, tmp_path: Path, nested: bool, zone: str
) -> None:
    _days(tmp_path, nested=nested)
    column = "x.ts" if nested else "x"
    first = (NOON - datetime.timedelta(hours=0 if zone == "UTC" else 5)).isoformat(" ")
    expected = {
        f"{column} = TIMESTAMP '{first}'": (1, 1),
        f"{column} > TIMESTAMP '2024-01-03 23:00:00'": (1, 1),
        f"{column} < '2024-01-03 01:00:00'": (2, 2),
    }
    if nested:
        pruner.open_table(str(tmp_path)).create_index("i", on=["x.ts", "x.n"])
        expected["x.n = 2"] = (1, 1)
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        check(spark, tmp_path, expected, column)


@pytest.mark.parametrize("inferred", ["true", "false"])
def test_wall_clocks_in_plain_tables(spark: SparkSession, tmp_path: Path, inferred: str) -> None:
    """As TIMESTAMP_NTZ they prune; as instants, which a setting makes of them, they stay with the reason."""
    for number in range(3):
        plain(
            tmp_path / f"{number}.parquet",
            pa.array([NOON + datetime.timedelta(days=number)], pa.timestamp("us")),
        )
    chosen = {
        "spark.sql.parquet.inferTimestampNTZ.enabled": inferred,
        "spark.sql.session.timeZone": "Asia/Kolkata",
    }
    with settings(spark, chosen):
        as_read = "2024-01-02 12:00:00" if inferred == "true" else "2024-01-02 17:30:00"
        type_ = "TIMESTAMP_NTZ" if inferred == "true" else "TIMESTAMP"
        check(spark, tmp_path, {f"x = {type_} '{as_read}'": (1, 1 if inferred == "true" else 3)})
        scan = pruner_spark.last_plans(spark)[-1]
    assert any("Spark reads the column differently" in reason for reason in scan.fallbacks) == (
        inferred == "false"
    )
