"""Writes real Hudi tables with Spark, one small change at a time.

Nothing happens that a test did not ask for: no cleaning, archiving or compaction by itself, and every insert
makes new file groups instead of filling small files, so that a table's slices follow from its list of writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

TableType = Literal["COPY_ON_WRITE", "MERGE_ON_READ"]
TableVersion = Literal[6, 8, 9]

QUIET: Mapping[str, str] = {
    "hoodie.write.auto.upgrade": "false",
    "hoodie.embed.timeline.server": "false",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.insert.shuffle.parallelism": "1",
    "hoodie.upsert.shuffle.parallelism": "1",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
    "hoodie.delete.shuffle.parallelism": "1",
}

SCHEDULE_COMPACTION: Mapping[str, str] = {
    "hoodie.compact.schedule.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
"""Write options: plan a compaction after this write and leave it pending."""

COMPACT: Mapping[str, str] = {
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "1",
}
"""Write options: compact after this write."""

SCHEDULE_CLUSTERING: Mapping[str, str] = {
    "hoodie.clustering.schedule.inline": "true",
    "hoodie.clustering.async.max.commits": "1",
}
"""Write options: plan a clustering after this write and leave it pending."""

CLUSTER: Mapping[str, str] = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
}
"""Write options: cluster after this write."""

CLEAN: Mapping[str, str] = {
    "hoodie.clean.automatic": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
"""Write options: delete the files of old slices after this write."""


@dataclass(frozen=True)
class HudiWriter:
    """One Hudi table and how it is written; every method is one commit."""

    spark: SparkSession
    path: Path
    version: TableVersion = 9
    table_type: TableType = "COPY_ON_WRITE"
    partition_by: str = "city"
    hive_style: bool = True
    key: str = "id"
    ordering: str = "ts"
    metadata: bool = False
    options: Mapping[str, str] = field(default_factory=dict[str, str])

    def insert(self, rows: DataFrame, also: Mapping[str, str] | None = None) -> None:
        """Add rows in file groups of their own."""
        self._write(rows, "insert", also)

    def bulk_insert(self, rows: DataFrame, also: Mapping[str, str] | None = None) -> None:
        """Add rows by Spark's own Parquet writer."""
        self._write(rows, "bulk_insert", also)

    def upsert(self, rows: DataFrame, also: Mapping[str, str] | None = None) -> None:
        """Replace the rows with the same keys: new base files, or log files in a merge-on-read table."""
        self._write(rows, "upsert", also)

    def delete(self, rows: DataFrame, also: Mapping[str, str] | None = None) -> None:
        """Delete the rows with the keys of `rows`, which have the table's columns."""
        self._write(rows, "delete", also)

    def overwrite_partitions(self, rows: DataFrame, also: Mapping[str, str] | None = None) -> None:
        """Replace all file groups of the partitions that `rows` touch (a replace commit)."""
        self._write(rows, "insert_overwrite", also)

    def all_options(self, operation: str) -> dict[str, str]:
        """Return the options of a write, for tests that write in their own way."""
        return {
            **QUIET,
            "hoodie.table.name": self.path.name,
            "hoodie.write.table.version": str(self.version),
            "hoodie.metadata.enable": str(self.metadata).lower(),
            "hoodie.datasource.write.table.type": self.table_type,
            "hoodie.datasource.write.operation": operation,
            "hoodie.datasource.write.recordkey.field": self.key,
            "hoodie.datasource.write.precombine.field": self.ordering,
            "hoodie.datasource.write.partitionpath.field": self.partition_by,
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            **self.options,
        }

    def _write(self, rows: DataFrame, operation: str, also: Mapping[str, str] | None = None) -> None:
        options = {**self.all_options(operation), **(also or {})}
        rows.write.format("hudi").options(**options).mode("append").save(str(self.path))


CITIES = ("berlin", "paris", "rome")
TRIP_SCHEMA = "id INT, city STRING, seats INT, fare DOUBLE, ts BIGINT"


def trips(
    spark: SparkSession,
    ids: Iterable[int],
    *,
    ts: int = 1,
    fare: float = 0.0,
    cities: Sequence[str | None] = CITIES,
) -> DataFrame:
    """Return rows of the usual table: dealt out to `cities` by id, every fifth fare NULL."""
    rows = [(i, cities[i % len(cities)], i % 7, None if i % 5 == 0 else float(fare + i), ts) for i in ids]
    return spark.createDataFrame(rows, TRIP_SCHEMA)


def rows_of(spark: SparkSession, rows: Sequence[tuple[Any, ...]], schema: str) -> DataFrame:
    """Return a DataFrame of literal rows in one Spark partition, so that their order in a file is known."""
    return spark.createDataFrame(list(rows), schema).coalesce(1)
