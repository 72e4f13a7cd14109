"""Hudi tables with indexes of its own: after a restore, with an indexer beside the writers, and with odd keys.

As beside the tables of `indexed`, there stand what Hudi reads of the metadata table and of the rows.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

from tests.support.hudi import histories as hudi_histories
from tests.support.hudi import indexed as hudi_indexed
from tests.support.hudi import timeline as hudi_timeline
from tests.support.hudi.histories import ALONE, SERVED, statements
from tests.support.hudi.indexed import indexed, rows, with_oracle
from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.timeline import completed, make_inflight, pending, table_property
from tests.support.hudi.writer import CITIES, HudiWriter, TableVersion, rows_of
from tests.support.kept.tables import AllTables, Builder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOT_COMPACTED = {"hoodie.metadata.compact.max.delta.commits": "20"}
"""A restore behind a compaction of the metadata table would make that anew."""


def cow_restored(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """An update, a deletion and an insert that a restore took back, and an insert after it."""
    table = indexed(spark, path, version, "COPY_ON_WRITE", options={**SERVED, **NOT_COMPACTED})
    table.insert(rows(spark, range(12)))
    with statements(spark, path) as run:
        run("CREATE INDEX by_name ON {table} (name)")
        kept = completed(path, "commit")[-1].requested
        run(f"CALL create_savepoint(table => '{{table}}', commit_time => '{kept}')")
        table.upsert(rows(spark, range(3), shift=100, ts=2))
        table.delete(rows(spark, [5, 7], ts=3))
        run(f"CALL rollback_to_savepoint(table => '{{table}}', instant_time => '{kept}')")
    table.insert(rows(spark, range(60, 66)))


INDEXES = {
    "COLUMN_STATS": "hoodie.metadata.index.column.stats.enable",
    "BLOOM_FILTERS": "hoodie.metadata.index.bloom.filter.enable",
    "RECORD_INDEX": "hoodie.metadata.record.index.enable",
}
"""The option that switches an index on, by Hudi's name of it."""

LISTED = {
    **SERVED,
    **ALONE,
    **NOT_COMPACTED,
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.clean.failed.writes.policy": "LAZY",
    "hoodie.metadata.index.partition.stats.enable": "false",
    **dict.fromkeys(INDEXES.values(), "false"),
}
"""Writers that keep the list of files alone, and lock, so that an indexer may work beside them."""


@contextmanager
def indexer(table: HudiWriter, *names: str) -> Iterator[tuple[Any, Any]]:
    """Yield Hudi's client, which plans indexes and builds them beside writers, and its names of some indexes."""
    java: Any = table.spark._jvm
    settings = java.java.util.Properties()
    switched_on = {INDEXES[name]: "true" for name in names}
    for key, value in {
        **table.all_options("upsert"),
        **switched_on,
        "hoodie.metadata.index.async": "true",
        "hoodie.metadata.index.check.timeout.seconds": "3",
    }.items():
        settings.setProperty(key, value)
    builder = java.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
    config = builder.withPath(table.path.as_uri()).withProperties(settings).build()
    spark: Any = table.spark
    client = java.org.apache.hudi.client.SparkRDDWriteClient(
        java.org.apache.hudi.client.common.HoodieSparkEngineContext(spark._jsc), config
    )
    kinds = java.java.util.ArrayList()
    for name in names:
        kinds.add(java.org.apache.hudi.metadata.MetadataPartitionType.valueOf(name))
    try:
        yield client, kinds
    finally:
        client.close()


def cow_indexed_later(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Two indexes that an indexer built, without the rows that came meanwhile; a third that is planned alone."""
    table = indexed(spark, path, version, "COPY_ON_WRITE", options=LISTED)
    table.insert(rows(spark, range(12)))
    with indexer(table, "COLUMN_STATS", "BLOOM_FILTERS") as (client, kinds):
        planned = _planned(table, client, kinds)
        table.insert(rows(spark, range(30, 36)))
        client.index(planned)
    kept = {INDEXES["COLUMN_STATS"]: "true", INDEXES["BLOOM_FILTERS"]: "true"}
    table.upsert(rows(spark, range(3), shift=100, ts=2), also=kept)
    with indexer(table, *INDEXES) as (client, kinds):
        _planned(table, client, kinds.subList(2, 3))
    table.insert(rows(spark, range(60, 66)), also=kept)


def cow_indexing(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """An indexer at work: it has made a record index, and waits for a writer that began before it."""
    kept = {INDEXES["COLUMN_STATS"]: "true", INDEXES["BLOOM_FILTERS"]: "true"}
    original = path.with_name(f"{path.name}_original")
    table = indexed(spark, original, version, "COPY_ON_WRITE", options={**LISTED, **kept})
    table.insert(rows(spark, range(12)))
    table.insert(rows(spark, range(30, 36)))
    make_inflight(original)
    with indexer(table, *INDEXES) as (client, kinds), ThreadPoolExecutor(1) as pool:
        at_work = pool.submit(client.index, _planned(table, client, kinds.subList(2, 3)))
        while not _waits(original) and not at_work.done():
            sleep(0.1)
        shutil.copytree(original, path)
        at_work.exception()
    shutil.rmtree(original)


def _planned(table: HudiWriter, client: Any, kinds: Any) -> str:
    """Let an indexer plan some indexes, and return the instant of the plan."""
    java: Any = table.spark._jvm
    return str(client.scheduleIndexing(kinds, java.java.util.ArrayList()).get())


def _waits(table: Path) -> bool:
    """Whether an indexer has made its index, and only waits for writers from before."""
    metadata = table / ".hoodie" / "metadata"
    running = table_property(table, "hoodie.table.metadata.partitions.inflight") or ""
    made = any((metadata / "record_index").glob("*.hfile"))
    return "record_index" in running and made and not pending(metadata)


KEYS = ("a", "a$b", "a\\b", "$", "\\", "\\$a", "Zürich", "😀", "a,b:c", " a", "a\0", "\uffff")
NAMES = ("", None, "a", "a$b", "a\\b", "$", "\\", "\\$a", "Zürich", "😀", "\0", "\\0")
"""Texts with what separates the parts of a secondary index's keys, and with what stands for NULL there."""


def odd_rows(spark: SparkSession, first: int = 0, *, ts: int = 1) -> DataFrame:
    """Return a row for each key from one on; each name is that of the key at its place and of some others."""
    found = [
        (key, CITIES[at % 2], NAMES[(at + ts - 1) % len(NAMES)], ts)
        for at, key in enumerate(KEYS)
        if at >= first
    ]
    return rows_of(spark, found, "id STRING, city STRING, name STRING, ts BIGINT")


def cow_escaped(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Record keys and indexed values with separators, escapes, nothing and NULL; names move from row to row."""
    table = indexed(spark, path, version, "COPY_ON_WRITE", options={**SERVED, **NOT_COMPACTED})
    table.insert(odd_rows(spark).limit(8))
    with statements(spark, path) as run:
        run("CREATE INDEX by_name ON {table} (name)")
    table.insert(odd_rows(spark, 8))
    table.upsert(odd_rows(spark, 6, ts=2))


BUILDERS: dict[str, Builder] = {
    f"{build.__name__}_v9": partial(with_oracle, build, version=9)
    for build in (cow_restored, cow_indexed_later, cow_indexing, cow_escaped)
}
ALL: dict[str, Builder] = {**hudi_indexed.BUILDERS, **hudi_histories.BUILDERS, **BUILDERS}
"""The tables of `indexed` and `histories`, too."""


def all_tables(start_spark: Callable[[], SparkSession]) -> AllTables:
    """Return the tables of all three modules, kept on this machine."""
    these = kept_hudi_tables(
        "hudi-states", start_spark, BUILDERS, __file__, hudi_histories, hudi_indexed, hudi_timeline
    )
    return AllTables((these, hudi_histories.tables(start_spark), hudi_indexed.tables(start_spark)))
