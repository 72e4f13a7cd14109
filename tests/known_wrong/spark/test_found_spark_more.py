"""Rows that scans of `pruner_spark` have lost where one session made the frame and another one queried or read it."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import everything_read, new_scans, rows_of, unordered
from tests.support.spark.catalyst import settings

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
    """A global view of a case-sensitive session, queried in a case-insensitive one: Spark 3.5.9 reads by the first.

    `FileSourceScanExec` gives `relation.sparkSession` to the reader, so `a` is NULL where files have `A`. The plan
    followed the rules of the querying session, and dropped every file for `a IS NULL`.
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
    """`CAST(TIMESTAMP_NTZ '…' AS TIMESTAMP)` in the zone in which the frame was made, run when the session has another.

    A cast keeps the zone that it was resolved with (ResolveTimeZone). With ConstantFolding switched off, the cast of a
    constant reaches the scan; it was evaluated in the session's current zone.
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


def test_found_cached_data_is_read_from_the_cache(spark: SparkSession, tmp_path: Path) -> None:
    """A cached frame kept its rows when its files changed, but `prune` of it read the files again.

    Spark 3.5.9 looks up cached plans by `sameResult`, which does not match a relation with another file index. The
    query failed on a deleted file.
    """
    root = _indexed(tmp_path / "t", *(pa.array([n], pa.int32()) for n in (1, 2, 3)))
    cached = spark.read.parquet(str(root)).where("A < 3").cache()
    assert cached.count() == 2
    (root / "1.parquet").unlink()
    cached.createOrReplaceTempView("found_cached")
    try:
        assert rows_of(pruner_spark.prune(cached).where("A = 2")) == [(2,)]
        assert rows_of(pruner_spark.sql(spark, "SELECT * FROM found_cached WHERE A = 2")) == [(2,)]
        before = pruner_spark.last_plans(spark)
        assert rows_of(pruner_spark.prune(spark.read.parquet(str(root)).where("A = 3"))) == [(3,)]
        assert [scan.kept for scan in new_scans(spark, before)] == [1]
    finally:
        cached.unpersist()
        spark.catalog.dropTempView("found_cached")


def test_found_read_uses_sparks_cache(spark: SparkSession, tmp_path: Path) -> None:
    """`read` of a plain table that Spark had cached read the files again, where `spark.read` used the cache."""
    root = _indexed(tmp_path / "t", *(pa.array([n], pa.int32()) for n in (1, 2, 3)))
    cached = spark.read.parquet(str(root)).cache()
    try:
        assert cached.count() == 3
        before = pruner_spark.last_plans(spark)
        assert rows_of(pruner_spark.read(spark, root).where("A = 2")) == [(2,)]
        assert new_scans(spark, before) == []
    finally:
        cached.unpersist()
    assert rows_of(pruner_spark.read(spark, root).where("A = 2")) == [(2,)]
    assert [scan.kept for scan in new_scans(spark, before)] == [1]


def test_found_a_frame_keeps_the_meaning_that_it_was_made_with(spark: SparkSession, tmp_path: Path) -> None:
    """A frame made while CHAR was read as STRING, and pruned after that, was analyzed again: CHAR was padded.

    Nodes above a replaced relation are new, and Spark 3.5.9 analyzes what is not marked as analyzed
    (`Analyzer.executeAndCheck`); ApplyCharTypePadding follows the current setting.
    """
    root = tmp_path / "t"
    root.mkdir()
    for number, text in enumerate(("ab", "cd", "ef")):
        pq.write_table(
            pa.table({"c": [text], "i": pa.array([number], pa.int32())}), root / f"{number}.parquet"
        )
    pruner.open_table(root).create_index("stats", on="i")
    spark.sql(f"CREATE TABLE found_char (c CHAR(4), i INT) USING parquet LOCATION '{root}'")
    try:
        with settings(spark, {"spark.sql.legacy.charVarcharAsString": "true"}):
            frame = spark.table("found_char").where("c LIKE 'ab' AND i < 1")
        expected = rows_of(frame)
        assert expected == [("ab", 0)]
        before = pruner_spark.last_plans(spark)
        assert rows_of(pruner_spark.prune(frame)) == expected
        assert [scan.kept for scan in new_scans(spark, before)] == [1]
    finally:
        spark.sql("DROP TABLE found_char")
