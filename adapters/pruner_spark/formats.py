"""How Spark reads tables of each format: one row for each, told apart by the class of the file index in a relation."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pruner.errors import PrunerError, TableError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner_spark.leaves import Leaf

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
CATALOG_INDEX: Final = f"{_DATASOURCES}.CatalogFileIndex"
"""The file index of a table whose partitions a catalog keeps, with their types."""
READ_OPTIMIZED: Final = "READ_OPTIMIZED"
"""The type of a query in which Hudi reads base files alone."""

_PARQUET_FORMAT = f"{_DATASOURCES}.parquet.ParquetFileFormat"
_V2_TABLES = f"{_DATASOURCES}.v2."
_V2_REASON = (
    "Spark reads it through its V2 file source, whose scans cannot be pruned: add parquet to "
    "spark.sql.sources.useV1SourceList, where it is by default"
)


class NotPrunableError(PrunerError):
    """A relation that cannot be pruned; it is read as it is."""


@dataclass(frozen=True, slots=True)
class SparkFormat:
    """How Spark reads the tables of one format.

    Attributes:
        name: of the format, as `pruner.formats` has it.
        indexes: classes of the file indexes in relations over such tables.
        unpruned: classes of others, with the reason why their relations are not pruned.
        queries: types of queries that are pruned; empty where the format knows no types.
        as_of_option: the option of the reader that travels back in time.
        as_of_version: whether it takes a version, and a scan says of which version it is.
        as_of_names: whether it takes names of branches and tags, too.
        switch: a setting without which no scan is pruned, and why.
        needs: a class without which Spark cannot read it, the package that has it, and the extension that it is.
        keeps_files: whether a relation reads the files of the moment at which it was resolved, and not of its scan.
        types_folders: whether Spark itself decides the types of values in folder names.
        takes_keys: whether Spark tells a relation that reads the file groups of some keys alone from the whole one.
    """

    name: str
    indexes: tuple[str, ...]
    unpruned: Mapping[str, str] = field(default_factory=dict[str, str])
    queries: tuple[str, ...] = ()
    as_of_option: str | None = None
    as_of_version: bool = False
    as_of_names: bool = False
    switch: tuple[str, str] | None = None
    needs: tuple[str, str, str] | None = None
    keeps_files: bool = False
    types_folders: bool = False
    takes_keys: bool = True


HUDI: Final = SparkFormat(
    name="hudi",
    indexes=("org.apache.hudi.HoodieFileIndex",),
    unpruned={
        "org.apache.hudi.HoodieIncrementalFileIndex": "incremental reads are not pruned",
        "org.apache.hudi.cdc.HoodieCDCFileIndex": "reads of changes (CDC) are not pruned",
    },
    queries=("SNAPSHOT", READ_OPTIMIZED),
    as_of_option="as.of.instant",
    keeps_files=True,
)
PARQUET: Final = SparkFormat(
    name="parquet", indexes=(f"{_DATASOURCES}.InMemoryFileIndex", CATALOG_INDEX), types_folders=True
)
_DELTA = "org.apache.spark.sql.delta"
DELTA: Final = SparkFormat(
    name="delta",
    indexes=(f"{_DELTA}.files.TahoeLogFileIndex",),
    as_of_option="versionAsOf",
    as_of_version=True,
    switch=(
        "spark.databricks.delta.stats.skipping",
        "is off, and Delta prepares no scan that could be pruned: set it to true",
    ),
    needs=(
        f"{_DELTA}.DeltaLog",
        "io.delta:delta-spark_2.12:3.3.2",
        "io.delta.sql.DeltaSparkSessionExtension",
    ),
)
ICEBERG: Final = SparkFormat(
    name="iceberg",
    indexes=("org.apache.iceberg.spark.source.SparkTable",),
    queries=("SNAPSHOT",),
    as_of_option="versionAsOf",
    as_of_version=True,
    as_of_names=True,
    takes_keys=False,
    needs=(
        "org.apache.iceberg.spark.source.SparkTable",
        "org.apache.iceberg:iceberg-spark-runtime-3.5_2.12:1.11.0",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    ),
)
_ALL = (HUDI, PARQUET, DELTA, ICEBERG)


def spark_format(name: str) -> SparkFormat:
    """How Spark reads a format.

    Raises:
        TableError: no scan of such tables is pruned in Spark.
    """
    for each in _ALL:
        if each.name == name:
            return each
    raise TableError(f"tables of the format {name} are not read in Spark: read them with spark.read")


def format_of(leaf: Leaf) -> SparkFormat:
    """The format of the table that a relation reads.

    Raises:
        NotPrunableError: the listing of such a relation is not that of a table's snapshot.
    """
    kind = leaf.index
    for each in _ALL:
        if kind in each.unpruned:
            raise NotPrunableError(each.unpruned[kind])
        if kind in each.indexes:
            if each.queries and leaf.query_type not in each.queries:
                raise NotPrunableError("incremental reads are not pruned")
            if each is PARQUET and leaf.format != _PARQUET_FORMAT:
                raise NotPrunableError(f"files of the format {leaf.format_name} are not pruned")
            return each
    if kind.startswith(_V2_TABLES):
        raise NotPrunableError(_V2_REASON)
    raise NotPrunableError(f"relations over {kind.rsplit('.', 1)[-1]} are not pruned")
