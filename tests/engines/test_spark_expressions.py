"""Scans of Spark that an index over an expression prunes, after what Catalyst makes of the condition."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.support.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILES = 24
MONDAY = datetime.datetime(2024, 1, 1)
ZONE = "spark.sql.session.timeZone"

INDEXES = (
    # index, expression, the dialect that spells it, type of index
    ("hour_text", "date_format(ts, '%H')", "trino", "bitmap"),
    ("hours", "hour(ts)", "duckdb", "bloom_filter"),
    ("weekdays", "dayofweek(ts)", "spark", "bitmap"),
    ("days", "dayofyear(ts)", "duckdb", "bitmap"),
    ("weeks", "week(ts)", "duckdb", "column_stats"),
    ("wall_hours", "hour(w)", "duckdb", "bitmap"),
    ("wall_text", "strftime(w, '%H')", "duckdb", "bitmap"),
    ("day_months", "strftime(d, '%d')", "duckdb", "bitmap"),
    ("capitals", "upper(s)", "duckdb", "bitmap"),
    ("joined", "s || '-' || s", "duckdb", "bitmap"),
    ("beginnings", "left(upper(s), 2)", "duckdb", "column_stats"),
    ("rests", "n % 8", "duckdb", "bitmap"),
    ("sums", "n + x * x", "duckdb", "column_stats"),
    ("texts", "n::VARCHAR", "duckdb", "bloom_filter"),
)

KEPT = {
    # condition: number of files kept. File k holds hour k, day k + 1 of January, n = 7k and 7k + 1.
    "date_format(ts, 'HH') = '09'": 1,
    "date_format(ts, 'HH') BETWEEN '12' AND '13'": 2,
    "hour(ts) = 9": 1,
    "extract(HOUR FROM ts) IN (3, 4)": 2,
    "hour(ts) = 9 OR upper(s) = 'K1A'": 2,
    "NOT (hour(w) <> 9)": 1,
    "dayofweek(ts) = 1": 3,
    "date_part('dow', ts) = 2": 4,
    "dayofyear(ts) IN (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)": 12,
    "weekofyear(ts) > 3": 3,
    "date_format(d, 'dd') = '05'": 1,
    "upper(s) IN ('K1A', 'K2A')": 2,
    "upper(s) <=> 'K1A'": 1,
    "upper(s) IS NULL": 0,
    "upper(s) LIKE 'K2%'": 5,
    "s || '-' || s = 'k3a-k3a'": 1,
    "concat(s, '-', s) = 'k3a-k3a'": 1,
    "left(upper(s), 2) = 'K3'": 1,
    "n % 8 = 7": 6,
    "mod(n, 8) IN (6, 7)": 9,
    "n + x * x > 250.0D": 3,
    "string(n) = '14'": 1,
}


def write_hours(root: Path) -> Path:
    """One file for each day of January and hour of the day, with two rows of a few values each."""
    root.mkdir()
    for k in range(FILES):
        start = MONDAY + datetime.timedelta(days=k, hours=k)
        moments = [start, start + datetime.timedelta(minutes=59)]
        content = {
            "ts": pa.array(moments, pa.timestamp("us", "UTC")),
            "w": pa.array(moments, pa.timestamp("us")),
            "d": pa.array([start.date()] * 2),
            "s": pa.array([f"k{k}a"] * 2),
            "n": pa.array([7 * k, 7 * k + 1], pa.int32()),
            "x": pa.array([k / 2, k / 2]),
        }
        pq.write_table(pa.table(content), root / f"{k:02}.parquet")
    return root


@pytest.fixture(scope="module")
def hours(tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    """The files with the indexes, and nothing about their columns as such."""
    table = pruner.open_table(write_hours(tmp_path_factory.mktemp("expressions") / "hours"))
    for name, expression, dialect, using in INDEXES:
        table.create_index(name, on=expression, using=using, dialect=dialect, build=False)
    assert not table.refresh().failures
    return table


def numbers(frame: DataFrame, where: str) -> list[int]:
    return sorted(row[0] for row in frame.where(where).select("n").collect())


def answers(plain: DataFrame, conditions: Iterable[str]) -> dict[str, list[int]]:
    """The numbers of the rows for which each condition is true: columns of one scan, into which nothing is pushed."""
    asked = list(conditions)
    found = plain.selectExpr("n", *(f"({each}) AS c{k}" for k, each in enumerate(asked))).collect()
    return {each: sorted(row[0] for row in found if row[k + 1]) for k, each in enumerate(asked)}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_scans_are_pruned_in_sparks_spelling(spark: SparkSession, hours: pruner.Table, ansi: str) -> None:
    with settings(spark, {ZONE: "UTC", "spark.sql.ansi.enabled": ansi}):
        frame, expected = pruner_spark.read(spark, hours.uri), answers(spark.read.parquet(hours.uri), KEPT)
        for condition, kept in KEPT.items():
            assert numbers(frame, condition) == expected[condition], condition
            scan = pruner_spark.last_plans(spark)[-1]
            assert (scan.kept, scan.total) == (kept, FILES), (condition, scan.fallbacks)


def test_another_zone_keeps_what_follows_the_clock(spark: SparkSession, hours: pruner.Table) -> None:
    """S13: hours of an instant are others in New York. Those of a timestamp without a zone, or of a date, are not."""
    asked = {
        "date_format(ts, 'HH') = '09'": FILES,
        "hour(ts) = 9": FILES,
        "dayofweek(ts) = 1": FILES,
        "hour(w) = 9": 1,
        # Spark formats instants alone: it reads the clock of New York into the other two first.
        "date_format(w, 'HH') = '09'": FILES,
        "date_format(d, 'dd') = '05'": FILES,
        "upper(s) = 'K1A'": 1,
    }
    with settings(spark, {ZONE: "America/New_York"}):
        frame, expected = pruner_spark.read(spark, hours.uri), answers(spark.read.parquet(hours.uri), asked)
        for condition, kept in asked.items():
            assert numbers(frame, condition) == expected[condition], condition
            scan = pruner_spark.last_plans(spark)[-1]
            assert scan.kept == kept, (condition, scan.fallbacks)
            reason = "is evaluated in UTC, and the session's time zone is America/New_York"
            assert any(reason in each for each in scan.fallbacks) == (kept == FILES), condition


def test_statements_over_a_pruned_table(spark: SparkSession, hours: pruner.Table) -> None:
    """Conditions come through joins, aggregates and CTEs, and by the names of the catalog."""
    statements = {
        "SELECT date_format(ts, 'HH') AS h, count(*) FROM hourly WHERE hour(ts) BETWEEN 12 AND 13 GROUP BY h": FILES,
        "WITH c AS (SELECT *, upper(s) AS u FROM hourly) SELECT count(*) FROM c WHERE u IN ('K1A', 'K2A')": 2,
        "SELECT h.n FROM hourly h JOIN (SELECT 14 AS m) j ON h.n = j.m WHERE date_format(h.ts, 'HH') = '02'": 1,
        "SELECT count(*) FROM hourly WHERE CASE WHEN n % 8 = 7 THEN upper(s) = 'K1A' ELSE FALSE END": 1,
    }
    with settings(spark, {ZONE: "UTC"}):
        for statement, kept in statements.items():
            spark.read.parquet(hours.uri).createOrReplaceTempView("hourly")
            plain = sorted(tuple(row) for row in spark.sql(statement).collect())
            assert sorted(tuple(row) for row in pruner_spark.sql(spark, statement).collect()) == plain
            assert pruner_spark.last_plans(spark)[-1].kept == kept, statement
        spark.catalog.dropTempView("hourly")
