"""More Hudi tables with every index: those that statements define.

As beside the tables of `indexed`, there stand what Hudi reads of the metadata table and of the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hudi import indexed as hudi_indexed
from tests.support.hudi import timeline as hudi_timeline
from tests.support.hudi.indexed import ALL_INDEXES, indexed, rows, with_oracle
from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.writer import QUIET, TableVersion
from tests.support.kept.tables import Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFINITIONS = (
    "CREATE INDEX by_name ON {table} (name)",
    "CREATE INDEX by_seats ON {table} (seats)",
    "CREATE INDEX month_of_day ON {table} USING column_stats(day) OPTIONS(expr='month')",
    "CREATE INDEX upper_name ON {table} USING column_stats(name) OPTIONS(expr='upper')",
)

SERVED = {"hoodie.embed.timeline.server": "true"}
"""Without its server Hudi 1.2 fails to keep a secondary index: its tasks lose what they are told of base files."""

ALONE = {"hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider"}
"""What statements that create an index ask for."""


@contextmanager
def statements(spark: SparkSession, path: Path) -> Iterator[Callable[[str], Any]]:
    """Yield what runs a statement over a table; `{table}` stands for its name."""
    name = f"histories_{path.name}"
    settings = {**QUIET, **ALL_INDEXES, **SERVED, **ALONE, "hoodie.metadata.enable": "true"}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{path.as_uri()}'")
        yield lambda text: spark.sql(text.format(table=name))
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        for key in settings:
            spark.conf.unset(key)


def cow_defined(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Secondary and expression indexes that came later than the first rows; inserts, an update, a delete."""
    table = indexed(spark, path, version, "COPY_ON_WRITE", options=SERVED)
    table.insert(rows(spark, range(12)))
    with statements(spark, path) as run:
        for text in DEFINITIONS:
            run(text)
    table.insert(rows(spark, range(30, 42)))
    table.upsert(rows(spark, range(3), shift=100, ts=2))
    table.delete(rows(spark, [30, 31], ts=3))
    table.insert(rows(spark, range(60, 66)))


BUILDERS: dict[str, Builder] = {"cow_defined_v9": partial(with_oracle, cow_defined, version=9)}


def tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """Return the tables, kept on this machine."""
    return kept_hudi_tables("hudi-histories", start_spark, BUILDERS, __file__, hudi_indexed, hudi_timeline)
