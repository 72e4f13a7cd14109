"""Spark Connect, and any session of which only the public interface may be used: a list of files.

There is no Java object behind a DataFrame of Spark Connect, so nothing can be planned when the scan runs. The plan
is made once, from a predicate that the program gives, and the frame reads the files that are left.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pruner.catalog.names import settings_in_place
from pruner.errors import PredicateError, SchemaError, TableError
from pruner.expr.semantics import Semantics
from pruner_spark.relations.scans import LOGGER
from pruner_spark.tables import opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner import Plan, Table

MOST_FILES = 1_000
"""Most files that are named one by one; Spark lists each of them, so above that the whole table is read."""

_PATTERN_SIGNS = frozenset("*?[]{}\\")


def connect_read(
    spark: SparkSession,
    uri: str | os.PathLike[str],
    where: str,
    *,
    index_uri: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: Any,
) -> DataFrame:
    """Return the rows of a Parquet table for which a predicate is true, read from the files that can hold them.

    This is weaker than `read`: the files are fixed now, later filters prune nothing, and the predicate must be given
    as text. Only public methods of Spark are used.

    Args:
        spark: the session, of Spark Connect or not.
        uri: the location of the table, or its name in `pruner.toml`.
        where: the predicate, in Spark's SQL; it is applied to the rows as well.
        index_uri: location of the metadata table, if it is not beside the table.
        storage_options: options with which pruner opens the store.
        options: options of Spark's reader.

    Raises:
        TableError: there is no such table, it has several roots, or it is not a Parquet table.
        ConfigError: `pruner.toml` is wrong.
        pyspark.errors.PySparkException: Spark refuses the predicate or cannot read the table.
    """
    settings = settings_in_place(uri, index_uri=index_uri, storage_options=storage_options)
    table = opened(settings)
    first, *others = settings.uris
    if table.format != "parquet" or others:
        raise TableError(
            f"{table.uri} is not a Parquet table with one root: read it with spark.read, unpruned"
        )
    place = first.rstrip("/")
    whole = spark.read.options(**options).parquet(place)
    files = _files_left(spark, table, where)
    if files is None:
        return whole.where(where)
    if not files:
        return whole.where(where).where("false")
    # Spark could infer other types from fewer paths, so the whole table's schema is given.
    reader = spark.read.options(**options).option("basePath", place).schema(whole.schema)
    return reader.parquet(*(place + file.removeprefix(table.uri) for file in files)).where(where)


def _files_left(spark: SparkSession, table: Table, where: str) -> list[str] | None:
    """The files to read; None, with a log record of the reason, to read all."""
    try:
        plan = table.plan(where, semantics=_semantics(spark))
    except (PredicateError, SchemaError) as error:  # Spark decides whether it is a mistake
        LOGGER.warning("scan of %s is not pruned: %s", table.uri, error)
        return None
    LOGGER.info("scan of %s: %d of %d files", table.uri, plan.kept, plan.total)
    return _nameable(table, plan)


def _nameable(table: Table, plan: Plan) -> list[str] | None:
    if plan.kept == plan.total:
        return None
    if plan.kept > MOST_FILES:
        LOGGER.warning("scan of %s is not pruned: more than %d files are left", table.uri, MOST_FILES)
        return None
    files = list(plan.files)
    if any(_PATTERN_SIGNS & set(file) for file in files):
        LOGGER.warning("scan of %s is not pruned: a path has signs that Spark takes for a pattern", table.uri)
        return None
    return files


def _semantics(spark: SparkSession) -> Semantics:
    conf: Any = spark.conf
    return Semantics(
        engine="spark",
        version=str(spark.version),
        zone=str(conf.get("spark.sql.session.timeZone")),
        ansi=str(conf.get("spark.sql.ansi.enabled")) == "true",
        case_sensitive=str(conf.get("spark.sql.caseSensitive")) == "true",
    )
