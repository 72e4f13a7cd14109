"""A Hudi table that changes by every action that writers and services take, one at a time."""

from __future__ import annotations

import random
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.hudi.hurry import without_waits
from tests.support.hudi.timeline import completed, make_inflight, pending
from tests.support.hudi.writer import (
    CITIES,
    CLEAN,
    CLUSTER,
    COMPACT,
    SCHEDULE_CLUSTERING,
    SCHEDULE_COMPACTION,
    HudiWriter,
    TableType,
    TableVersion,
    trips,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOG_COMPACT = {"hoodie.log.compaction.inline": "true", "hoodie.log.compaction.blocks.threshold": "1"}
"""Write options: merge the log files of each slice into one after this write."""


@dataclass
class LiveTable:
    """One table and what was written to it; ids are never used twice."""

    spark: SparkSession
    path: Path
    version: TableVersion
    table_type: TableType
    next_id: int = 0
    ts: int = 1
    ids: list[int] = field(default_factory=list[int])

    @property
    def merge_on_read(self) -> bool:
        """Whether updates go to log files."""
        return self.table_type == "MERGE_ON_READ"

    @property
    def writer(self) -> HudiWriter:
        """Writes this table."""
        return HudiWriter(self.spark, self.path, self.version, self.table_type)

    def insert(self, count: int = 6) -> None:
        """Add rows in file groups of their own, one for each city."""
        new = list(range(self.next_id, self.next_id + count))
        self.writer.insert(trips(self.spark, new, ts=self._tick(), fare=10.0 * self.ts))
        self.next_id += count
        self.ids += new

    def upsert(self, ids: list[int] | None = None, also: dict[str, str] | None = None) -> None:
        """Update rows (the first)."""
        chosen = ids or self.ids[:1]
        self.writer.upsert(trips(self.spark, chosen, ts=self._tick(), fare=1000.0 * self.ts), also)

    def delete(self, ids: list[int] | None = None) -> None:
        """Delete rows (the last)."""
        chosen = ids or self.ids[-1:]
        self.writer.delete(trips(self.spark, chosen, ts=self._tick()))
        self.ids = [id_ for id_ in self.ids if id_ not in chosen]

    def insert_overwrite(self) -> None:
        """Replace all file groups of the first city."""
        city = [id_ for id_ in range(self.next_id, self.next_id + 4) if id_ % len(CITIES) == 0]
        self.writer.overwrite_partitions(trips(self.spark, city, ts=self._tick(), fare=7.0))
        self.ids = [id_ for id_ in self.ids if id_ % len(CITIES)] + city
        self.next_id += 4

    def drop_partition(self) -> None:
        """Drop the partition of the last city."""
        options = {"hoodie.datasource.write.partitions.to.delete": f"city={CITIES[-1]}"}
        rows = trips(self.spark, [self.next_id]).limit(0)
        writer = HudiWriter(self.spark, self.path, self.version, self.table_type, options=options)
        all_options = writer.all_options("delete_partition")
        rows.write.format("hudi").options(**all_options).mode("append").save(str(self.path))
        self.ids = [id_ for id_ in self.ids if id_ % len(CITIES) != len(CITIES) - 1]

    def cluster(self) -> None:
        """Insert, then rewrite all file groups."""
        self._insert_with(dict(CLUSTER))

    def plan_clustering(self) -> None:
        """Insert, then plan a clustering and leave it pending."""
        self._insert_with(dict(SCHEDULE_CLUSTERING))

    def clean(self) -> None:
        """Update, then delete the files of old slices."""
        self.upsert(also=dict(CLEAN))

    def compact(self) -> None:
        """Update, then merge all log files into base files."""
        self.upsert(also=dict(COMPACT))

    def plan_compaction(self) -> None:
        """Update, then plan a compaction and leave it pending."""
        self.upsert(also=dict(SCHEDULE_COMPACTION))

    def log_compact(self) -> None:
        """Update twice, then merge the log files of each slice into one log file."""
        self.upsert()
        self.upsert(also=LOG_COMPACT)

    def make_anew(self, version: TableVersion, count: int = 6) -> None:
        """Delete the table and write another one in its place, with the same keys."""
        shutil.rmtree(self.path)
        self.version, self.next_id, self.ids = version, 0, []
        self.insert(count)

    def roll_back(self) -> None:
        """Update, let that writer die, and write again: the next writer rolls the first back."""
        self.die()
        self.upsert(self.ids[1:2])

    def die(self) -> None:
        """Update, and leave the table as a writer does that died before it completed."""
        self.upsert()
        make_inflight(self.path)

    def restore(self) -> None:
        """Save the newest commit, update, and go back to what was saved."""
        saved = self.save()
        self.upsert()
        with without_waits(self.spark):
            self.spark.sql(
                f"CALL rollback_to_savepoint(path => '{self.path}', instant_time => '{saved}')"
            ).collect()

    def save(self) -> str:
        """Make a savepoint of the newest commit; return its instant."""
        saved = completed(self.path, "commit", "deltacommit", "replacecommit")[-1].requested
        self.spark.sql(f"CALL create_savepoint(path => '{self.path}', commit_time => '{saved}')").collect()
        return saved

    def some_ids(self, rng: random.Random, most: int) -> list[int]:
        """Some rows that are there."""
        return rng.sample(self.ids, min(most, len(self.ids)))

    @property
    def is_waiting(self) -> bool:
        """Whether a write or service is pending."""
        return bool(pending(self.path))

    def _insert_with(self, also: dict[str, str] | None) -> None:
        new = list(range(self.next_id, self.next_id + 3))
        self.writer.insert(trips(self.spark, new, ts=self._tick(), fare=10.0 * self.ts), also)
        self.next_id += 3
        self.ids += new

    def _tick(self) -> int:
        self.ts += 1
        return self.ts
