"""Hudi tables with timestamps without a zone (Spark's TIMESTAMP_NTZ), whose schemas hudi-rs does not convert."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.writer import CITIES, CLUSTER, COMPACT, HudiWriter, TableVersion, rows_of
from tests.support.kept.tables import Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VERSIONS: tuple[TableVersion, ...] = (6, 8, 9)
SCHEMA = "id INT, city STRING, clock TIMESTAMP_NTZ, seen TIMESTAMP, ts BIGINT"
FIRST = datetime(2024, 3, 31, 1, 30)
"""An hour that clocks in Berlin skip half an hour later: a zone that is put in shows."""


def moment(number: int) -> datetime | None:
    """The wall clock of a row; every seventh row has none."""
    return None if number % 7 == 6 else FIRST + timedelta(hours=number, microseconds=1)


def rows(spark: SparkSession, ids: Iterable[int], *, later: int = 0, ts: int = 1) -> DataFrame:
    """Return rows of the table, their wall clocks `later` hours later."""
    found: list[tuple[Any, ...]] = []
    for id_ in ids:
        seen = FIRST + timedelta(hours=id_)
        found.append((id_, CITIES[id_ % len(CITIES)], moment(id_ + later), seen, ts))
    return rows_of(spark, found, SCHEMA)


def cow(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Copy-on-write: inserts, an update, and groups that a clustering replaced."""
    table = HudiWriter(spark, path, version)
    table.insert(rows(spark, range(9)))
    table.bulk_insert(rows(spark, range(9, 18)), also=CLUSTER)
    table.upsert(rows(spark, [0, 1], later=1000, ts=2))
    table.insert(rows(spark, range(18, 24)))


def mor(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Merge-on-read: a compaction, then updates and a delete in log files."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ")
    table.insert(rows(spark, range(9)))
    table.upsert(rows(spark, [0, 1], later=500, ts=2), also=COMPACT)
    table.insert(rows(spark, range(9, 18)))
    table.upsert(rows(spark, [3], later=1000, ts=3))
    table.delete(rows(spark, [4], ts=3))


def logs_alone(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Merge-on-read: file groups of log files alone, beside some that have base files."""
    table = HudiWriter(spark, path, version, "MERGE_ON_READ")
    # An index that finds keys in logs lets inserts go there; it lives in memory only, so no upsert follows.
    table.insert(rows(spark, range(9)), also={"hoodie.index.type": "INMEMORY"})
    table.insert(rows(spark, range(9, 18), later=700))


BUILDERS: dict[str, Builder] = {
    f"{kind.__name__}_v{version}": partial(kind, version=version)
    for kind in (cow, mor, logs_alone)
    for version in VERSIONS
}


def tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """Return the tables, kept on this machine."""
    return kept_hudi_tables("hudi-wall-clocks", start_spark, BUILDERS, __file__)
