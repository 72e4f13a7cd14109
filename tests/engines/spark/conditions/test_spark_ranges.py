"""Spark's optimizer and ranges: its forms of lists, of short ranges, and of windows relative to the current time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import new_scans
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SHORT_RANGES = (
    "id BETWEEN 500 AND 502",
    "id >= 500 AND id < 503",
    "id IN (500, 501, 502)",
    "id > 499 AND 502 >= id",
    "id = 500 OR id = 501 OR id = 502",
)


def _kept(frame: DataFrame, plain: DataFrame, condition: str) -> int:
    spark = frame.sparkSession
    before = pruner_spark.last_plans(spark)
    found = sorted(row[0] for row in frame.where(condition).select("id").collect())
    assert found == sorted(row[0] for row in plain.where(condition).select("id").collect()), condition
    (scan,) = new_scans(spark, before)
    assert scan.reason is None
    assert scan.kept is not None
    return scan.kept


@pytest.mark.parametrize("using", ["bloom_filter", "record_index"])
def test_a_short_range_is_looked_up_value_by_value(using: str, spark: SparkSession, tmp_path: Path) -> None:
    """Each file has numbers from the whole range, so no bounds tell them apart; 500 to 502 are in three of twenty."""
    root = tmp_path / "t"
    root.mkdir()
    for number in range(20):
        pq.write_table(pa.table({"id": pa.array(range(number, 2000, 20))}), root / f"{number:02}.parquet")
    pruner.open_table(root).create_index("ids", on="id", using=using)
    frame, plain = pruner_spark.read(spark, root), spark.read.parquet(str(root))
    most = 3 if using == "record_index" else 6  # a Bloom filter may match a value that it does not hold
    for condition in SHORT_RANGES:
        assert 3 <= _kept(frame, plain, condition) <= most, condition


def test_both_bounds_of_a_window_in_the_past_prune(spark: SparkSession, tmp_path: Path) -> None:
    """Spark evaluates `now()` before it requests the files: of 200 days the window is on two at most."""
    root = tmp_path / "t"
    root.mkdir()
    now = datetime.now(UTC).replace(tzinfo=None)
    for day in range(-50, 150):
        moment = now - timedelta(days=day)
        content = {
            "id": [day],
            "at": pa.array([moment.replace(tzinfo=UTC)], pa.timestamp("us", "UTC")),
            "wall": pa.array([moment], pa.timestamp("us")),
            "day": pa.array([moment.date()], pa.date32()),
        }
        pq.write_table(pa.table(content), root / f"{day:03}.parquet")
    pruner.open_table(root).create_index("stats", on="*")
    windows = {
        "at >= now() - INTERVAL 100 DAYS AND at < now() - INTERVAL 99 DAYS": 2,
        "at BETWEEN current_timestamp() - INTERVAL 100 DAYS AND current_timestamp() - INTERVAL 99 DAYS": 2,
        "wall >= now() - INTERVAL 100 DAYS AND wall < now() - INTERVAL 99 DAYS": 4,
        "wall >= localtimestamp() - INTERVAL 100 DAYS AND wall < localtimestamp() - INTERVAL 99 DAYS": 2,
        "day >= current_date() - 100 AND day < current_date() - 98": 4,
        "date_trunc('DAY', at) = date_trunc('DAY', now() - INTERVAL 100 DAYS)": 3,
    }
    for zone in ("UTC", "Asia/Kolkata"):
        with settings(spark, {"spark.sql.session.timeZone": zone}):
            frame, plain = pruner_spark.read(spark, root), spark.read.parquet(str(root))
            for condition, most in windows.items():
                assert 1 <= _kept(frame, plain, condition) <= most, (zone, condition)
