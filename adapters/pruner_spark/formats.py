"""How Spark reads tables of each format, and the leaves of a plan that scan their files.

The leaves of a plan that scan files, as java/statements/Description.java tells of them: all in one call.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pruner.errors import PrunerError, TableError
from pruner_spark.tables import indexed_behind

if TYPE_CHECKING:
    from pruner.catalog.settings import TableSettings


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf that scans files.

    `index` is the class of what lists its files, `roots` are the places that it lists, `names` are the parts of its
    name in the catalog, the table's last. `query_type` and `hudi_indexes` (the partitions of its metadata table) are
    Hudi's. `reader` is the session by whose settings Spark
    reads the files, whichever session runs the query.
    """

    position: int
    index: str
    roots: tuple[str, ...]
    names: tuple[str, ...]
    format: str
    format_name: str
    query_type: str | None
    hudi_indexes: tuple[str, ...]
    reader: str
    options: Mapping[str, str]
    data_schema: str
    partition_schema: str


def leaves_of(relations: Any) -> list[Leaf]:
    """Return the leaves that java/statements/Relations.java has found, in their order."""
    return told_leaves(json.loads(str(relations.described())))


def told_leaves(described: Sequence[Mapping[str, Any]]) -> list[Leaf]:
    """Return the leaves that were described."""
    return [_leaf(position, description) for position, description in enumerate(described)]


def _leaf(position: int, told: Mapping[str, Any]) -> Leaf:
    return Leaf(
        position=position,
        index=str(told["index"]),
        roots=tuple(told["roots"]),
        names=tuple(told.get("names", ())),
        format=str(told.get("format", "")),
        format_name=str(told.get("format_name", "")),
        query_type=told.get("query_type"),
        hudi_indexes=tuple(sorted(told.get("hudi_indexes", ()))),
        reader=str(told.get("reader", "")),
        options=told.get("options", {}),
        data_schema=str(told.get("data_schema", "")),
        partition_schema=str(told.get("partition_schema", "")),
    )


def table_behind(leaf: Leaf) -> TableSettings | None:
    """Return the table with an index behind a leaf, by the catalog's name or by its place.

    Raises:
        ConfigError: `pruner.toml` cannot be read.
    """
    names = [".".join(leaf.names[start:]) for start in range(len(leaf.names))]
    return indexed_behind(names, leaf.roots)


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
    for format_ in _ALL:
        if format_.name == name:
            return format_
    raise TableError(f"tables of the format {name} are not read in Spark: read them with spark.read")


def format_of(leaf: Leaf) -> SparkFormat:
    """The format of the table that a relation reads.

    Raises:
        NotPrunableError: the listing of such a relation is not that of a table's snapshot.
    """
    kind = leaf.index
    for format_ in _ALL:
        if kind in format_.unpruned:
            raise NotPrunableError(format_.unpruned[kind])
        if kind in format_.indexes:
            if format_.queries and leaf.query_type not in format_.queries:
                raise NotPrunableError("incremental reads are not pruned")
            if format_ is PARQUET and leaf.format != _PARQUET_FORMAT:
                raise NotPrunableError(f"files of the format {leaf.format_name} are not pruned")
            return format_
    if kind.startswith(_V2_TABLES):
        raise NotPrunableError(_V2_REASON)
    raise NotPrunableError(f"relations over {kind.rsplit('.', 1)[-1]} are not pruned")
