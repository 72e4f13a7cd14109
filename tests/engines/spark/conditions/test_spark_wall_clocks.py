"""Columns without a zone in Spark: cast to instants in the session's zone, cut to units, compared with instants.

The cast does not keep the order of values where a clock is put forward: Spark makes 02:30, which the clock never
shows, a later instant than 03:10.
"""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from pruner.expr.exact.clock import walls_of_instant
from tests.engines.spark.spark_tables import new_scans
from tests.support.running.profiles import IS_FIXED, seed
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ZONE = "spark.sql.session.timeZone"
CLOCKS = {
    "Europe/Berlin": (datetime(2023, 3, 26, 2), datetime(2023, 10, 29, 3)),
    "America/New_York": (datetime(2023, 3, 12, 2), datetime(2023, 11, 5, 2)),
    "Australia/Lord_Howe": (datetime(2023, 10, 1, 2), datetime(2023, 4, 2, 2)),
    "America/Sao_Paulo": (datetime(2018, 11, 4), datetime(2018, 2, 18)),
    "Pacific/Apia": (datetime(2011, 12, 30), datetime(2012, 4, 1, 4)),
    "Asia/Tehran": (datetime(2022, 3, 22), datetime(2022, 9, 22)),
}
"""Zones, and the local times when their clocks are put forward and back."""
UNITS = ("YEAR", "QUARTER", "MONTH", "MM", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND")


def _write(root: Path, moments: list[list[datetime]]) -> Path:
    """Each list is one file."""
    root.mkdir()
    for number, some in enumerate(moments):
        content = {"id": [number] * len(some), "ts": pa.array(some, pa.timestamp("us"))}
        pq.write_table(pa.table(content), root / f"{number:03}.parquet")
    return root


def _scan(frame: DataFrame, plain: DataFrame, condition: str) -> pruner_spark.Scan:
    spark = frame.sparkSession
    before = pruner_spark.last_plans(spark)
    found = sorted(row[0] for row in frame.where(condition).select("id").collect())
    assert found == sorted(row[0] for row in plain.where(condition).select("id").collect()), condition
    (scan,) = new_scans(spark, before)
    assert scan.reason is None
    return scan


@pytest.fixture(scope="module")
def months(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each of eight months, with an index over the day alone."""
    root = _write(
        tmp_path_factory.mktemp("months") / "t", [[datetime(2023, month, 3, 4)] for month in range(1, 9)]
    )
    pruner.open_table(root).create_index("day", on="CAST(ts AS DATE)", dialect="spark")
    return root


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Asia/Kolkata", "+05:00"])
def test_a_column_without_a_zone_is_compared_by_the_sessions_clock(
    zone: str, spark: SparkSession, months: Path
) -> None:
    with settings(spark, {ZONE: zone}):
        frame, plain = pruner_spark.read(spark, months), spark.read.parquet(str(months))
        may, june = "TIMESTAMP '2023-05-01 00:00:00'", "TIMESTAMP '2023-06-01 00:00:00'"
        for condition, kept in {
            f"date_trunc('MONTH', ts) = {may}": 1,
            f"date_trunc('MONTH', ts) IN ({may}, {june})": 2,
            "date_trunc('QUARTER', ts) = TIMESTAMP '2023-04-01 00:00:00'": 3,
            f"date_trunc('DAY', ts) >= {june}": 3,
            f"date_trunc('HOUR', ts) < {may}": 4,
            f"ts >= {may} AND ts < {june}": 1,
            "ts IN (TIMESTAMP '2023-05-03 04:00:00', TIMESTAMP '2023-07-03 04:00:00')": 2,
            f"NOT (ts < {june})": 3,
            "date_trunc('MONTH', ts) = TIMESTAMP_NTZ '2023-05-01 00:00:00'": 1,
        }.items():
            assert _scan(frame, plain, condition).kept == kept, condition


def test_a_cast_follows_the_zone_in_which_it_was_written(spark: SparkSession, tmp_path: Path) -> None:
    """A DataFrame keeps the zone of its session at its creation; the scan runs in another."""
    root = _write(tmp_path / "t", [[datetime(2023, 5, 3, hour)] for hour in range(24)])
    pruner.open_table(root).create_index("stats", on="ts")
    for condition in (
        "ts = TIMESTAMP '2023-05-03 12:00:00'",
        "year(CAST(ts AS TIMESTAMP)) = 2023 AND date_trunc('HOUR', ts) = TIMESTAMP '2023-05-03 12:00:00'",
        "unix_micros(CAST(ts AS TIMESTAMP)) = unix_micros(TIMESTAMP '2023-05-03 12:00:00')",
        "CAST(ts AS TIMESTAMP) IN (TIMESTAMP '2023-05-03 12:00:00', TIMESTAMP '2023-05-03 13:00:00')",
    ):
        with settings(spark, {ZONE: "Asia/Kolkata"}):
            frame = pruner_spark.read(spark, root).where(condition)
            plain = spark.read.parquet(str(root)).where(condition)
            assert pruner_spark.read(spark, root).where(condition).count() > 0
            assert (pruner_spark.last_plans(spark)[-1].kept or 0) <= 2
        with settings(spark, {ZONE: "UTC"}):
            assert sorted(frame.collect()) == sorted(plain.collect()) != [], condition


def _zones(count: int) -> list[str]:
    return random.Random(seed()).sample(list(CLOCKS), count if IS_FIXED else len(CLOCKS))


@pytest.mark.parametrize("zone", _zones(2))
def test_nothing_is_lost_where_clocks_change(zone: str, spark: SparkSession, tmp_path: Path) -> None:
    """A file for every twenty minutes around the hours that do not exist and those that occur twice."""
    steps = range(-9, 10)
    moments = [[change + timedelta(minutes=20 * step)] for change in CLOCKS[zone] for step in steps]
    root = _write(tmp_path / "t", [*moments, [datetime(1950, 1, 1)], [datetime(2200, 1, 1)]])
    pruner.open_table(root).create_index("stats", on="ts")
    asked = [some[0] for some in moments[4:16:3]]
    shown = [f"TIMESTAMP '{moment}'" for moment in asked]
    conditions = [f"ts {operator} {moment}" for moment in shown for operator in ("=", "<", ">=")]
    conditions += [f"date_trunc('{unit}', ts) <= {shown[1]}" for unit in UNITS]
    conditions += [f"date_trunc('{unit}', ts) = date_trunc('{unit}', {shown[2]})" for unit in UNITS]
    conditions += [f"date_trunc('{unit}', ts) > {shown[0]}" for unit in UNITS[-4:]]
    conditions += [f"ts IN ({', '.join(shown)})", f"NOT (date_trunc('HOUR', ts) <= {shown[3]})"]
    kept: dict[str, int] = {}
    with settings(spark, {ZONE: zone}):
        frame = pruner_spark.read(spark, root)
        every = [f"coalesce({condition}, false) AS c{k}" for k, condition in enumerate(conditions)]
        rows = spark.read.parquet(str(root)).selectExpr("id", *every).collect()
        for k, condition in enumerate(conditions):
            found = {row[0] for row in frame.where(condition).select("id").collect()}
            assert found == {row["id"] for row in rows if row[f"c{k}"]}, condition
            plan = pruner_spark.last_plans(spark)[-1].plan
            assert plan is not None
            kept[condition] = plan.kept
    assert all(count < len(moments) + 2 for count in kept.values()), kept


def test_bounds_of_a_cast_to_an_instant_hold_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Local times before the first or after the last that clocks can show at an instant are cast to their own side."""
    out_of_order = 0
    for zone in (*CLOCKS, "UTC", "+05:00"):
        changes = _changes(zone)
        walls = sorted({change + timedelta(minutes=10 * k) for change in changes for k in range(-170, 171)})
        file = tmp_path / f"{zone.replace('/', '_').replace(':', '')}.parquet"
        pq.write_table(pa.table({"c": pa.array(walls, pa.timestamp("us"))}), file)
        with settings(spark, {ZONE: zone}):
            frame = spark.read.parquet(str(file))
            rows = frame.selectExpr(
                "unix_micros(CAST(CAST(c AS STRING) || 'Z' AS TIMESTAMP))",
                "unix_micros(CAST(c AS TIMESTAMP))",
            )
            pairs = sorted((row[0], row[1]) for row in rows.collect())
        out_of_order += sum(later[1] < earlier[1] for earlier, later in pairwise(pairs))
        for instant in {pair[1] + more for pair in pairs[::37] for more in (-1, 0, 1)}:
            low, high = (each // 1000 for each in walls_of_instant(instant * 1000, zone))
            assert all(cast < instant for wall, cast in pairs if wall < low), (zone, instant)
            assert all(cast > instant for wall, cast in pairs if wall > high), (zone, instant)
    assert out_of_order, "no value was cast out of order, so that nothing was tried"


def _changes(zone: str) -> list[datetime]:
    """Some of the local times at clock changes from 1975 to 2035."""
    if "/" not in zone:
        return [datetime(2020, 1, 1)]
    rules, found = ZoneInfo(zone), list(CLOCKS[zone])
    moment = datetime(1975, 1, 1, tzinfo=UTC)
    while moment.year < 2035:
        later = moment + timedelta(days=1)
        if moment.astimezone(rules).utcoffset() != later.astimezone(rules).utcoffset():
            found.append(later.astimezone(rules).replace(tzinfo=None))
        moment = later
    return found[:2] + found[2::9]
