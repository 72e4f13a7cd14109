"""How Spark reads tables of each format, and the leaves of a plan that scan their files.

java/statements/Description.java describes all leaves of a plan in one call.
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

    `index` is the class that lists its files, `roots` are the paths that it lists, `names` are the parts of its name in
    the catalog, the table's last. `query_type` and `hudi_indexes` (the partitions of its metadata table) are Hudi's.
    `reader` is the session whose settings Spark reads the files with, whichever session runs the query.
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
    """Return the leaves that java/statements/Relations.java has found, in order."""
    return told_leaves(json.loads(str(relations.described())))


def told_leaves(described: Sequence[Mapping[str, Any]]) -> list[Leaf]:
    """Return leaves from their descriptions."""
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
    """Return the indexed table behind a leaf, by its catalog name or its location.

    Raises:
        ConfigError: `pruner.toml` cannot be read.
    """
    names = [".".join(leaf.names[start:]) for start in range(len(leaf.names))]
    return indexed_behind(names, leaf.roots)


_DATASOURCES = "org.apache.spark.sql.execution.datasources"
CATALOG_INDEX: Final = f"{_DATASOURCES}.CatalogFileIndex"
"""The file index of a table whose partitions, with their types, are in a catalog."""
READ_OPTIMIZED: Final = "READ_OPTIMIZED"
"""The query type in which Hudi reads base files only."""

_PARQUET_FORMAT = f"{_DATASOURCES}.parquet.ParquetFileFormat"
_V2_TABLES = f"{_DATASOURCES}.v2."
_V2_REASON = (
    "Spark reads it through its V2 file source, whose scans cannot be pruned: add parquet to "
    "spark.sql.sources.useV1SourceList, where it is by default"
)


class NotPrunableError(PrunerError):
    """A relation cannot be pruned; it is read unpruned."""


@dataclass(frozen=True, slots=True)
class SparkFormat:
    """How Spark reads the tables of one format.

    Attributes:
        name: the format, as `pruner.formats` names it.
        indexes: classes of the file indexes in relations over such tables.
        unpruned: other classes of file indexes, with the reason why their relations are not pruned.
        queries: query types that are pruned; empty where the format has no query types.
        as_of_option: the reader option for time travel.
        as_of_version: whether that option takes a version, and a scan reports its version.
        as_of_names: whether that option also takes names of branches and tags.
        switch: a setting without which no scan is pruned, and why.
        needs: a class without which Spark cannot read the format, the package that has it, and its extension.
        keeps_files: whether a relation reads the files as of its resolution, not as of its scan.
        types_folders: whether Spark itself decides the types of values in folder names.
        takes_keys: whether Spark distinguishes a relation that reads only the file groups of some keys from the whole.
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
        TableError: pruner does not read tables of this format in Spark.
    """
    for format_ in _ALL:
        if format_.name == name:
            return format_
    raise TableError(f"tables of the format {name} are not read in Spark: read them with spark.read")


def format_of(leaf: Leaf) -> SparkFormat:
    """The format of the table that a relation reads.

    Raises:
        NotPrunableError: the relation does not list a snapshot of a table.
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
