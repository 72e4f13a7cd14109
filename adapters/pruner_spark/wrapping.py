"""Puts file indexes that prune themselves into Spark's plans."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pruner.errors import PrunerError
from pruner_spark.agreement import spark_columns
from pruner_spark.jvm import java_session, session_id
from pruner_spark.planner import sentence
from pruner_spark.relation import PrunedRelation, Shape
from pruner_spark.scans import Scan
from pruner_spark.tables import identity, indexed_behind, opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner.catalog.config import TableSettings
    from pruner_spark.jvm import JavaSide

PLANNING_SECONDS = 30.0
"""How long a scan waits for its plan before it runs unpruned."""

_DATASOURCES = "org.apache.spark.sql.execution.datasources"
_CATALOG_INDEX = f"{_DATASOURCES}.CatalogFileIndex"
_PARQUET_INDEXES = (f"{_DATASOURCES}.InMemoryFileIndex", _CATALOG_INDEX)
_PARQUET_FORMAT = f"{_DATASOURCES}.parquet.ParquetFileFormat"
_HUDI_INDEX = "org.apache.hudi.HoodieFileIndex"
_CHANGES = {
    "org.apache.hudi.HoodieIncrementalFileIndex": "incremental reads are not pruned",
    "org.apache.hudi.cdc.HoodieCDCFileIndex": "reads of changes (CDC) are not pruned",
}
_PRUNED_INDEX = "pruner.spark.PrunedFileIndex"
_VALUE_OPTIONS = ("datetimeRebaseMode", "int96RebaseMode")


class NotPrunableError(PrunerError):
    """A relation that cannot be pruned; it is read as it is."""


Chooser = Callable[[Any], "TableSettings | None"]
"""Gives the table behind a leaf of a plan (`LogicalRelation`), or None to leave it as it is."""


class Wrapper:
    """Wraps the relations of one session's plans."""

    def __init__(self, spark: SparkSession, side: JavaSide, planning_seconds: float) -> None:
        self._spark = spark
        self._side = side
        self._patience = max(1, int(planning_seconds * 1000))

    def wrap(self, plan: Any, choose: Chooser, *, uncached: bool = False) -> Any:
        """Return an analysed plan whose relations prune themselves, where `choose` gives a table.

        With `uncached` the parts of the plan that Spark has cached stay as they are: another relation in them would
        have them read again, and what was cached may be gone, or other rows by now.

        Raises:
            ConfigError: `pruner.toml` cannot be read.
            PrunerError: the file index does not fit the running Spark.
        """
        factory = self._side.factory
        found = factory.relations(self._past_the_cache(plan) if uncached else plan)
        leaves: list[Any] = [found.get(position) for position in range(found.size())]
        wrapped = [(leaf, other) for leaf in leaves if (other := self._wrapped(leaf, choose)) is not None]
        if not wrapped:
            return plan
        originals, others = self._side.new_list(), self._side.new_list()
        for leaf, other in wrapped:
            originals.add(leaf)
            others.add(other)
        return factory.replace(plan, originals, others)

    def _past_the_cache(self, plan: Any) -> Any:
        """The plan with what Spark has cached in the place of how it was made."""
        cache = java_session(self._spark).sharedState().cacheManager()
        return plan if cache.isEmpty() else self._side.with_cached(cache, plan)

    def leave(self, plan: Any, choose: Chooser, reason: str) -> None:
        """Record of each indexed relation in a plan why it is read as it is.

        Raises:
            ConfigError: `pruner.toml` cannot be read.
        """
        found = self._side.factory.relations(plan)
        for position in range(found.size()):
            if (settings := choose(found.get(position))) is not None:
                self._side.log.add(session_id(self._spark), Scan(_name(settings), None, reason))

    def frame(self, plan: Any) -> DataFrame:
        """Return the DataFrame of a plan; a command runs at once, as in `spark.sql`."""
        from pyspark.sql import DataFrame

        # It has been analysed: to do it again, by the settings of now, could change what it means.
        plan.setAnalyzed()
        return DataFrame(self._side.rows_of(java_session(self._spark), plan), self._spark)

    def _wrapped(self, leaf: Any, choose: Chooser) -> Any:
        relation = leaf.relation()
        kind = str(relation.location().getClass().getName())
        if kind == _PRUNED_INDEX:
            return None
        settings = choose(leaf)
        if settings is None:
            return None
        try:
            _check(relation, kind)
            return self._pruned(leaf, relation, kind == _HUDI_INDEX, settings)
        except PrunerError as error:
            self._side.log.add(session_id(self._spark), Scan(_name(settings), None, sentence(error)))
            return None

    def _pruned(self, leaf: Any, relation: Any, hudi: bool, settings: TableSettings) -> Any:
        table = opened(settings)
        if hudi != (table.format == "hudi"):
            raise NotPrunableError(
                f"{table.uri} is a {table.format} table, which Spark reads as something else"
            )
        index = _without_own_skipping(relation.location(), self._side) if hudi else relation.location()
        shape = self._shape(relation, index, hudi)
        session = session_id(self._spark)
        reader = relation.sparkSession()
        pruned = PrunedRelation(_name(settings), table, shape, reader, session, self._side.slices)
        key = (session, str(reader.sessionUUID()), identity(settings), repr(shape))
        number = self._side.planner.name_of(key, pruned)
        keys = self._side.hudi_keys if hudi else self._side.file_keys
        return self._side.leaf_with(leaf, self._side.index(index, number, keys, self._patience, self._spark))

    def _shape(self, relation: Any, index: Any, hudi: bool) -> Shape:
        options = relation.options()
        found = {key: value for key in _VALUE_OPTIONS if (value := _option(options, key)) is not None}
        as_of = _option(options, "as.of.instant") if hudi else None
        optimized = hudi and str(index.getQueryType().name()) == "READ_OPTIMIZED"
        return Shape(
            columns=spark_columns(
                json.loads(relation.dataSchema().json()),
                json.loads(relation.partitionSchema().json()),
                catalogued=str(index.getClass().getName()) == _CATALOG_INDEX,
            ),
            mode="read_optimized" if optimized else "snapshot",
            as_of=None if as_of is None else self._side.hudi_instant(as_of),
            options=tuple(sorted(found.items())),
        )


def table_behind(side: JavaSide, leaf: Any) -> TableSettings | None:
    """Return the table with an index behind a leaf of a plan, by the catalog's name or by its place."""
    names: list[str] = []
    catalogued = leaf.catalogTable()
    if catalogued.isDefined():
        identifier = catalogued.get().identifier()
        parts = [str(identifier.table())]
        for part in (identifier.database(), identifier.catalog()):
            if part.isDefined():
                parts.insert(0, str(part.get()))
        names = [".".join(parts[start:]) for start in range(len(parts))]
    roots = str(side.factory.roots(leaf.relation().location())).split("\n")
    return indexed_behind(names, roots)


def _check(relation: Any, kind: str) -> None:
    """Refuse relations over files whose listing is not that of a table's snapshot.

    Raises:
        NotPrunableError: the relation is of such a kind.
    """
    if kind in _CHANGES:
        raise NotPrunableError(_CHANGES[kind])
    if kind == _HUDI_INDEX:
        if str(relation.location().getQueryType().name()) not in ("SNAPSHOT", "READ_OPTIMIZED"):
            raise NotPrunableError("incremental reads are not pruned")
    elif kind not in _PARQUET_INDEXES:
        raise NotPrunableError(f"relations over {kind.rsplit('.', 1)[-1]} are not pruned")
    elif str(relation.fileFormat().getClass().getName()) != _PARQUET_FORMAT:
        raise NotPrunableError(f"files of the format {relation.fileFormat().toString()} are not pruned")


def _without_own_skipping(index: Any, side: JavaSide) -> Any:
    """Hudi's index with its own data skipping off, which lost rows in Hudi 1.2 (hudi issues, `upper(city)`)."""
    return index.copy(
        index.spark(),
        index.metaClient(),
        index.schemaSpec(),
        side.factory.withOption(index.options(), "hoodie.enable.data.skipping", "false"),
        index.fileStatusCache(),
        index.includeLogFiles(),
        index.shouldEmbedFileSlices(),
    )


def _name(settings: TableSettings) -> str:
    return settings.name or settings.uris[0]


def _option(options: Any, key: str) -> str | None:
    found = options.get(key)
    return str(found.get()) if found.isDefined() else None
