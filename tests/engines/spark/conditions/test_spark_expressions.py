"""Spark's scans, pruned by an index over an expression after Catalyst has rewritten the condition."""

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
from pruner.metadata import MetadataTable
from pruner.storage.opening import open_store
from tests.support.hudi.writer import HudiWriter
from tests.support.spark.catalyst import settings
from tests.support.spark.oracle import spark_snapshot

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
    ("dates", "date(w)", "trino", "bitmap"),
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
    # Catalyst turns these into ranges of the column, which an index over its date answers.
    "CAST(w AS DATE) = DATE'2024-01-05'": 1,
    "w >= TIMESTAMP_NTZ'2024-01-23 00:00:00'": 2,
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
    """File k holds hour k of day k + 1 of January, with two rows of a few values each."""
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
    """The files with the indexes, and no index on a plain column."""
    table = pruner.open_table(write_hours(tmp_path_factory.mktemp("expressions") / "hours"))
    for name, expression, dialect, using in INDEXES:
        table.create_index(name, on=expression, using=using, dialect=dialect, build=False)
    assert not table.refresh().failures
    return table


def numbers(frame: DataFrame, where: str) -> list[int]:
    return sorted(row[0] for row in frame.where(where).select("n").collect())


def answers(plain: DataFrame, conditions: Iterable[str]) -> dict[str, list[int]]:
    """The numbers of the rows for which each condition is true: columns of one scan, without pushdown."""
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
    """S13: the hours of an instant differ in New York; those of a timestamp without a zone, or of a date, do not."""
    asked = {
        "date_format(ts, 'HH') = '09'": FILES,
        "dayofweek(ts) = 1": FILES,
        "hour(w) = 9": 1,
        # Spark formats instants alone: it first takes the other two for local times in New York.
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
    """Conditions come through joins, aggregates and CTEs, and by catalog names."""
    statements = {
        "SELECT date_format(ts, 'HH') AS h, count(*) FROM hourly WHERE hour(ts) BETWEEN 12 AND 13 GROUP BY h": 2,
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


def test_executors_write_the_same_bytes_as_a_local_build(
    spark: SparkSession, hours: pruner.Table, tmp_path: Path
) -> None:
    with settings(spark, {ZONE: "America/New_York"}):
        built = pruner.open_table(hours.uri, index_uri=str(tmp_path / "index"))
        for name, expression, dialect, using in INDEXES:
            built.create_index(name, on=expression, using=using, dialect=dialect, build=False)
        done = built.refresh(run=spark)
    assert (done.indexed, done.failures) == (FILES, ())
    here = segments(hours)
    assert {name: content == here[name] for name, content in segments(built).items()} == dict.fromkeys(
        here, True
    )
    assert all(len(content) > 1000 for content in here.values())


def segments(table: pruner.Table) -> dict[str, bytes]:
    """The one segment of each index except for its footer, which holds the ids of definition and batch."""
    state = MetadataTable(open_store(table.index_uri)).state()
    names = {definition.uuid: definition.name for definition in state.definitions}
    found: dict[str, bytes] = {}
    for entry in state.segments:
        if entry.definition is not None:
            content = (Path(table.index_uri) / entry.path).read_bytes()
            footer = int.from_bytes(content[-8:-4], "little")
            found[names[entry.definition]] = content[: -8 - footer]
    assert set(found) == {name for name, *_ in INDEXES}
    return found


def test_hour_of_day_of_a_hudi_table(spark: SparkSession, tmp_path: Path) -> None:
    """RFC-63: a file for each hour of each day, of which a time of day reads two of 24, on every day."""
    root, days, noon = tmp_path / "events", 3, "date_format(ts, 'HH') BETWEEN '12' AND '13'"
    with settings(spark, {ZONE: "UTC"}):
        moment = "timestamp_seconds(1704067200 + id * 900) AS ts"
        events = (
            spark.range(days * 96)
            .selectExpr("id", moment)
            .selectExpr("*", "date_format(ts, 'yyyyMMdd') AS day")
        )
        writer = HudiWriter(spark, root, partition_by="day")
        in_order = pruner_spark.sort_for(events, "date_format(ts, 'HH')", files=24)
        writer.bulk_insert(in_order, {"hoodie.bulkinsert.sort.mode": "NONE"})
        table = pruner.open_table(root)
        table.create_index("hour_idx", on="date_format(ts, '%H')", using="bitmap", dialect="trino")
        frame, plain = pruner_spark.read(spark, root), spark_snapshot(spark, root)
        for condition, rows, most in ((noon, days * 8, 4 * days), (f"{noon} AND day = '20240102'", 8, 4)):
            found = [
                sorted(row[0] for row in each.where(condition).select("id").collect())
                for each in (frame, plain)
            ]
            assert found[0] == found[1]
            assert len(found[0]) == rows
            scan = pruner_spark.last_plans(spark)[-1]
            assert (scan.total or 0) >= 20 * days
            assert (scan.files_left or 0) <= most


def test_writing_in_the_order_of_an_index_leaves_more_files_out(spark: SparkSession, tmp_path: Path) -> None:
    """RFC-63's appendix: the same rows, written in their original order and by the hour of the day."""
    moment = "timestamp_micros(hash(id) % 100000 * 60000000L + 1704067200000000L) AS ts"
    nine, index = "date_format(ts, 'HH') = '09'", "hour_idx"
    with settings(spark, {ZONE: "UTC"}):
        spark.range(20_000).selectExpr("id", moment).repartition(16).write.parquet(str(tmp_path / "before"))
        before = _indexed_by_hour(tmp_path / "before")
        frame = pruner_spark.read(spark, before.uri)
        pruner_spark.sort_for(frame, index, files=16).write.parquet(str(tmp_path / "after"))
        after = _indexed_by_hour(tmp_path / "after")
        kept: list[tuple[int, int]] = []
        counts: set[int] = set()
        for table in (before, after):
            counts.add(pruner_spark.read(spark, table.uri).where(nine).count())
            scan = pruner_spark.last_plans(spark)[-1]
            kept.append((scan.kept or 0, scan.total or 0))
        assert kept[0] == (16, 16)
        assert kept[1][0] <= 2
        assert kept[1][1] >= 12
        assert len(counts) == 1
        by_name = pruner_spark.sort_for(spark.read.parquet(before.uri), index, table=before.uri)
        assert {row[0] for row in by_name.selectExpr("date_format(ts, 'HH')").take(100)} == {"00"}
        assert pruner_spark.sort_for(frame, "-id").select("id").take(2) == [(19_999,), (19_998,)]


def _indexed_by_hour(root: Path) -> pruner.Table:
    table = pruner.open_table(root)
    table.create_index("hour_idx", on="strftime(ts, '%H')", using="bitmap")
    return table
