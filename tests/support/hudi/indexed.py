"""Hudi tables with every index of Hudi's own metadata table, and what Hudi itself makes of them.

Beside each table stand, written by Spark when it was built: `metadata.parquet`, the records of the metadata table as
Hudi's own reader gives them (`hudi_metadata`), and `rows.parquet`, the rows of a snapshot read without data skipping.
So what reads these tables can be compared with Hudi without a Java machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hudi import timeline as hudi_timeline
from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.timeline import make_inflight
from tests.support.hudi.writer import CITIES, CLUSTER, COMPACT, HudiWriter, TableVersion, rows_of
from tests.support.kept.tables import Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ALL_INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
}
"""Every index that a write option switches on; the metadata table is compacted after three commits."""

SCHEMA = (
    "id INT, city STRING, name STRING, seats INT, big BIGINT, fare DOUBLE, ratio FLOAT, price DECIMAL(10,2), "
    "flag BOOLEAN, day DATE, seen TIMESTAMP, ts BIGINT"
)
NAMES = ("Ab", "", "Zürich", "zebra", "a\uffffb", "😀", None)


def rows(
    spark: SparkSession, ids: Iterable[int], *, shift: int = 0, ts: int = 1, nan: bool = False
) -> DataFrame:
    """Return rows whose values lie close together for neighbouring ids; `shift` moves them."""
    found: list[tuple[Any, ...]] = []
    for id_ in ids:
        at = id_ + shift
        found.append(
            (
                id_,
                CITIES[id_ % 3],
                NAMES[at % 7] if at % 2 else f"n{at:05}",
                at - 5,
                at * 10**10,
                float("nan") if nan and id_ % 4 == 0 else at / 2 - 3,
                None if id_ % 5 == 0 else at / 4 + 1,
                Decimal(at * 37 - 100).scaleb(-2),
                None if id_ % 6 == 0 else at % 2 == 0,
                date(2024, 1, 1) + timedelta(days=at),
                datetime(2024, 1, 1, 12) + timedelta(hours=at, microseconds=1),
                ts,
            )
        )
    return rows_of(spark, found, SCHEMA)


def indexed(spark: SparkSession, path: Path, version: TableVersion, type_: Any, **more: Any) -> HudiWriter:
    """Return a writer of a table with every index."""
    options = {**ALL_INDEXES, **more.pop("options", {})}
    return HudiWriter(spark, path, version, type_, metadata=True, options=options, **more)


def cow(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Copy-on-write: inserts, one of them with NaN, an update, a delete, a commit that was rolled back."""
    table = indexed(spark, path, version, "COPY_ON_WRITE")
    table.insert(rows(spark, range(12)))
    table.insert(rows(spark, range(30, 42), nan=True))
    table.upsert(rows(spark, range(3), shift=100, ts=2))
    table.delete(rows(spark, [30, 31], ts=3))
    table.insert(rows(spark, range(60, 66)))
    make_inflight(path)
    table.insert(rows(spark, range(70, 76)))


def mor(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Merge-on-read: a compaction, then updates and a delete in log files."""
    table = indexed(spark, path, version, "MERGE_ON_READ")
    table.insert(rows(spark, range(12)))
    table.upsert(rows(spark, [0, 1], shift=100, ts=2), also=COMPACT)
    table.insert(rows(spark, range(30, 42), nan=True))
    table.upsert(rows(spark, [3, 30], shift=200, ts=3))
    table.delete(rows(spark, [4], ts=4))


def cow_composite(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Not partitioned, with a composite key; clustering replaced the first file groups."""
    unpartitioned = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    }
    table = indexed(
        spark, path, version, "COPY_ON_WRITE", key="id,city", partition_by="", options=unpartitioned
    )
    table.insert(rows(spark, range(6)))
    table.insert(rows(spark, range(30, 36)), also=CLUSTER)
    table.insert(rows(spark, range(60, 66)))


def cow_evolved(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Old files hold int and float where the table says bigint and double, and lack a column; one text is long."""
    table = indexed(
        spark, path, version, "COPY_ON_WRITE", options={"hoodie.write.set.null.for.missing.columns": "true"}
    )
    old = [(i, CITIES[i % 3], i, 0.1 * i, 1) for i in range(6)]
    new = [(i, CITIES[i % 3], 3_000_000_000 + i, 0.1 * i, 1, f"note {i}") for i in range(6, 12)]
    long = [(i, CITIES[i % 3], i, 1.0 + i, 1, "x" * 5000 if i == 13 else None) for i in range(12, 18)]
    wide = "id INT, city STRING, seats BIGINT, fare DOUBLE, ts BIGINT, note STRING"
    table.insert(rows_of(spark, old, "id INT, city STRING, seats INT, fare FLOAT, ts BIGINT"))
    table.insert(rows_of(spark, new, wide))
    table.insert(rows_of(spark, long, wide))


def with_oracle(
    build: Callable[..., None], spark: SparkSession, path: Path, *, version: TableVersion
) -> None:
    """Build a table, and write beside it what Hudi reads of it."""
    build(spark, path, version=version)
    uri = path.as_uri()
    records = spark.sql(f"SELECT * FROM hudi_metadata('{uri}')")
    records.coalesce(1).write.parquet(str(path.with_name("metadata.parquet")))
    plain = spark.read.format("hudi").option("hoodie.metadata.enable", "false")
    snapshot = plain.option("hoodie.enable.data.skipping", "false").load(uri)
    snapshot.coalesce(1).write.parquet(str(path.with_name("rows.parquet")))


_VERSIONS: dict[Callable[..., None], tuple[TableVersion, ...]] = {
    cow: (6, 9),
    mor: (6, 8, 9),
    cow_composite: (9,),
    cow_evolved: (6, 9),
}
BUILDERS: dict[str, Builder] = {
    f"{build.__name__}_v{version}": partial(with_oracle, build, version=version)
    for build, versions in _VERSIONS.items()
    for version in versions
}


def tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """Return the tables, kept on this machine."""
    return kept_hudi_tables("hudi-indexed", start_spark, BUILDERS, __file__, hudi_timeline)
