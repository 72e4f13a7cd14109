"""Rows that scans of `pruner_spark` have lost where one session made the frame and another one asked or reads."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.engines.spark_tables import everything_read, new_scans, rows_of, unordered
from tests.support.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_ZONE = "spark.sql.session.timeZone"
_CASE = "spark.sql.caseSensitive"
_EXCLUDED = "spark.sql.optimizer.excludedRules"
_FOLDING = "org.apache.spark.sql.catalyst.optimizer.ConstantFolding"


def _indexed(root: Path, *columns: pa.Array) -> Path:
    """A table with one file for each array of a column `A`."""
    root.mkdir()
    for number, values in enumerate(columns):
        pq.write_table(pa.table({"A": values}), root / f"{number}.parquet")
    pruner.open_table(root).create_index("stats", on="*")
    return root


def test_found_files_are_read_by_the_rules_of_the_session_of_the_relation(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A global view of a session that respects case, queried in one that does not: Spark 3.5.9 reads by the first.

    `FileSourceScanExec` gives `relation.sparkSession` to the reader, so `a` is NULL where files have `A`. The plan
    was made by the rules of the session that asked, and dropped every file for `a IS NULL`.
    """
    root = _indexed(tmp_path / "t", *(pa.array([n], pa.int32()) for n in (1, 2, 3)))
    first, second = spark.newSession(), spark.newSession()
    first.conf.set(_CASE, "true")
    second.conf.set(_CASE, "false")
    for schema, predicate, count, kept in (("a int", "a IS NULL", 3, 3), ("A int", "a = 2", 1, 1)):
        first.read.schema(schema).parquet(str(root)).createOrReplaceGlobalTempView("found_session")
        query = f"SELECT * FROM global_temp.found_session WHERE {predicate}"
        with everything_read(first), everything_read(second):
            expected = rows_of(second.sql(query))
        before = pruner_spark.last_plans(second)
        assert len(expected) == count
        assert unordered(rows_of(pruner_spark.sql(second, query))) == unordered(expected)
        assert [scan.kept for scan in new_scans(second, before)] == [kept]


def test_found_a_constant_that_follows_the_zone_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    """`CAST(TIMESTAMP_NTZ '…' AS TIMESTAMP)` by the zone of when the frame was made, run when the session has another.

    A cast keeps the zone that it was resolved with (ResolveTimeZone). Where ConstantFolding is switched off, the cast
    of a constant reaches the scan; it was taken to follow the zone of the moment.
    """
    moments = [datetime.datetime(2020, 1, 1, hour, tzinfo=datetime.UTC) for hour in (1, 7, 13, 19)]
    root = _indexed(tmp_path / "t", *(pa.array([moment], pa.timestamp("us", "UTC")) for moment in moments))
    excluded = {_EXCLUDED: _FOLDING}
    predicate = "A > TIMESTAMP_NTZ '2020-01-01 12:00:00'"
    for made, run, kept in (("Asia/Tokyo", "America/New_York", 4), ("Asia/Tokyo", "Asia/Tokyo", 3)):
        with settings(spark, excluded | {_ZONE: made}):
            plain = spark.read.parquet(str(root)).where(predicate)
            chosen = pruner_spark.read(spark, root).where(predicate)
        with settings(spark, excluded | {_ZONE: run}):
            before = pruner_spark.last_plans(spark)
            with everything_read(spark):
                expected = rows_of(plain)
            assert len(expected) == 3
            assert unordered(rows_of(chosen)) == unordered(expected)
            assert [scan.kept for scan in new_scans(spark, before)] == [kept]
