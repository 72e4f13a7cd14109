"""Hudi tables after many commits: archived are the timelines of the table and of its metadata table, and both cleaned.

As beside the tables of `indexed`, there stand what Hudi reads of the metadata table and of the rows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hudi import indexed as hudi_indexed
from tests.support.hudi import states as hudi_states
from tests.support.hudi import timeline as hudi_timeline
from tests.support.hudi.indexed import indexed, rows, with_oracle
from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.writer import CLEAN, COMPACT, QUIET, TableVersion
from tests.support.kept.tables import AllTables, Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMITS = 10
"""After so many, both timelines have been archived more than once."""

ARCHIVED = {
    **CLEAN,
    "hoodie.archive.automatic": "true",
    "hoodie.metadata.compact.max.delta.commits": "4",
    "hoodie.timeline.compaction.batch.size": "2",
    "hoodie.commits.archival.batch": "1",
}
"""Clean and archive as early as can be. The metadata table is archived with its table, but in so few commits a writer
does not clean it."""


def clean_metadata(spark: SparkSession, table: Path, version: TableVersion) -> None:
    """Let Hudi's cleaner take the old files of the metadata table."""
    java: Any = spark._jvm
    settings = java.java.util.Properties()
    for key, value in {
        **QUIET,
        "hoodie.metadata.enable": "false",
        "hoodie.write.table.version": str(version),
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
    }.items():
        settings.setProperty(key, value)
    builder = java.org.apache.hudi.config.HoodieWriteConfig.newBuilder()
    builder = builder.withPath((table / ".hoodie" / "metadata").as_uri()).forTable(f"{table.name}_metadata")
    session: Any = spark
    client = java.org.apache.hudi.client.SparkRDDWriteClient(
        java.org.apache.hudi.client.common.HoodieSparkEngineContext(session._jsc),
        builder.withProperties(settings).build(),
    )
    try:
        client.clean()
    finally:
        client.close()


def cow_archived(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Copy-on-write: updates and inserts in turn, a delete among them."""
    table = indexed(spark, path, version, "COPY_ON_WRITE", options=ARCHIVED)
    table.insert(rows(spark, range(12)))
    for number in range(1, COMMITS):
        if number == COMMITS // 2:
            table.delete(rows(spark, [5, 7], ts=number + 1))
        elif number % 3:
            table.upsert(rows(spark, range(number % 4, 3 + number % 4), shift=10 * number, ts=number + 1))
        else:
            table.insert(rows(spark, range(30 * number, 30 * number + 3)))
    clean_metadata(spark, path, version)
    table.insert(rows(spark, range(900, 903)))


def mor_archived(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Merge-on-read: updates in log files, compactions among them, and inserts."""
    table = indexed(spark, path, version, "MERGE_ON_READ", options=ARCHIVED)
    table.insert(rows(spark, range(12)))
    for number in range(1, COMMITS):
        if number % 4:
            found = rows(spark, [number % 4, number % 4 + 3], shift=10 * number, ts=number + 1)
            table.upsert(found, also=COMPACT if number % 4 == 2 else None)
        else:
            table.insert(rows(spark, range(30 * number, 30 * number + 3)))
    clean_metadata(spark, path, version)
    table.insert(rows(spark, range(900, 903)))


_VERSIONS: dict[Callable[..., None], tuple[TableVersion, ...]] = {
    cow_archived: (6, 9),
    mor_archived: (6, 8, 9),
}
BUILDERS: dict[str, Builder] = {
    f"{build.__name__}_v{version}": partial(with_oracle, build, version=version)
    for build, versions in _VERSIONS.items()
    for version in versions
}
ALL: dict[str, Builder] = {**hudi_states.ALL, **BUILDERS}
"""The tables of `states`, too."""


def tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """Return the tables, kept on this machine."""
    return kept_hudi_tables("hudi-archived", start_spark, BUILDERS, __file__, hudi_indexed, hudi_timeline)


def all_tables(start_spark: Callable[[], SparkSession]) -> AllTables:
    """Return the tables of all these modules, kept on this machine."""
    return AllTables((tables(start_spark), *hudi_states.all_tables(start_spark).parts))
