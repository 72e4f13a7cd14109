"""DataFrames and queries over pruned tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from pruner.catalog.names import settings_in_place
from pruner.errors import PrunerError, StorageError, TableError
from pruner.expr.nodes import TRUE, Expr
from pruner_spark.formats import HUDI, spark_format, table_behind
from pruner_spark.jvm import java_side
from pruner_spark.key_lists import require_alike, rows_with
from pruner_spark.tables import opened
from pruner_spark.wrapping import PLANNING_SECONDS, Chooser, Wrapper

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from pruner.catalog.settings import TableSettings
    from pruner_spark.relations.scans import Scan

Place = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
"""A path or URI, several roots of one Parquet table, or a name from `pruner.toml`."""


def read(
    spark: SparkSession,
    uri: Place,
    *,
    as_of: str | None = None,
    read_optimized: bool = False,
    index_uri: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    max_staleness: float | None = None,
    planning_seconds: float = PLANNING_SECONDS,
    **options: Any,
) -> DataFrame:
    """Return a table as a DataFrame whose scans prune themselves whenever they run.

    The files are those that Spark or Hudi resolves now; reading again sees later ones, as without pruner.

    Args:
        spark: the session that runs the queries.
        uri: the location of the table.
        as_of: Hudi: the instant to travel back to, as Hudi's option `as.of.instant` takes it. Delta: a version, or a
            moment such as 2026-11-27T08:30:00Z. Iceberg: a snapshot id, a branch, a tag, or such a moment.
        read_optimized: Hudi: read base files only.
        index_uri: location of the metadata table, if it is not beside the table.
        storage_options: options with which pruner opens the store; Spark has its own settings.
        max_staleness: age in seconds up to which a check of the table may be reused.
        planning_seconds: how long a scan waits for its plan before it runs unpruned.
        options: further options of Spark's reader.

    Raises:
        TableError: there is no such table, or its format is not supported.
        ConfigError: `pruner.toml` or an option is wrong.
        pyspark.errors.PySparkException: Spark cannot read it.
    """
    settings = settings_in_place(
        uri, index_uri=index_uri, storage_options=storage_options, max_staleness=max_staleness
    )
    frame = _resolved(spark, settings, as_of, read_optimized, options)
    return _wrapped(frame, partial(_always, settings), planning_seconds)


def read_with_keys(
    spark: SparkSession,
    uri: Place,
    keys: DataFrame,
    *,
    index_uri: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    planning_seconds: float = PLANNING_SECONDS,
    **options: Any,
) -> DataFrame:
    """Return all rows of the file groups that can hold one of the given keys.

    This is what a MERGE must read (docs/record_index.md): no row with one of the keys is missing. The keys are
    fetched now, and only make the scan smaller: join the rows with the keys, or filter them.

    Args:
        spark: the session that runs the queries.
        uri: the location of the table.
        keys: the columns that make up the key, by their names and with their types in the table.
        index_uri: location of the metadata table, if it is not beside the table.
        storage_options: options with which pruner opens the store; Spark has its own settings.
        planning_seconds: how long a scan waits for its plan before it runs unpruned.
        options: further options of Spark's reader.

    Raises:
        SchemaError: the table has no such column, has it with another type, or keys of this type are not supported.
        TableError: there is no such table, or its format is not supported.
        ConfigError: `pruner.toml` or an option is wrong.
        pyspark.errors.PySparkException: Spark cannot read the table, or cannot evaluate the keys.
    """
    settings = settings_in_place(uri, index_uri=index_uri, storage_options=storage_options)
    frame = _resolved(spark, settings, None, False, options)
    require_alike(keys, frame)
    return _wrapped(frame, partial(_always, settings), planning_seconds, keys=rows_with(keys))


def register(spark: SparkSession, name: str, uri: Place, **options: Any) -> None:
    """Create a temporary view over a table, for `spark.sql`; see `read` for the options.

    Raises:
        TableError: there is no such table, or its format is not supported.
        ConfigError: `pruner.toml` or an option is wrong.
    """
    read(spark, uri, **options).createOrReplaceTempView(name)


def prune(frame: DataFrame, *, planning_seconds: float = PLANNING_SECONDS) -> DataFrame:
    """Return a DataFrame with the same rows whose scans of indexed tables prune themselves.

    A relation is pruned where `pruner.toml` has its location or its catalog name (as `name` or in `aliases`), or
    where `<location>.pruner` holds an index.

    Raises:
        ConfigError: `pruner.toml` is wrong.
    """
    return _wrapped(frame, table_behind, planning_seconds, uncached=True)


def last_plans(spark: SparkSession) -> list[Scan]:
    """Return the newest scans of a session (64 at most), oldest first."""
    return java_side(spark).scans(spark)


def _resolved(
    spark: SparkSession,
    settings: TableSettings,
    as_of: str | None,
    read_optimized: bool,
    options: Mapping[str, Any],
) -> DataFrame:
    """The table as Spark or Hudi resolves it.

    Raises:
        TableError: there is no such table, or its format is not supported.
        pyspark.errors.PySparkException: Spark cannot read it.
    """
    format_name, refusal = _format(spark, settings)
    read_as = spark_format(format_name)
    if read_as.needs is not None and not java_side(spark).has_class(read_as.needs[0]):
        _, package, extension = read_as.needs
        raise TableError(
            f"{settings.uris[0]} is a {format_name} table, which this Spark session has no classes for: "
            f"add {package} to spark.jars.packages and {extension} to spark.sql.extensions"
        )
    reader = spark.read.format(format_name)
    if read_optimized:
        reader = reader.option("hoodie.datasource.query.type", "read_optimized")
    reader = reader.options(**options)
    if as_of is not None:
        if read_as.as_of_option is None:
            raise TableError(
                f"{settings.uris[0]} is a {format_name} table, which has no earlier snapshots: leave as_of out"
            )
        if read_as.as_of_version:
            version = opened(settings).snapshot(as_of).data.version
            # A branch is read with the table's current schema, its snapshot by id with the schema of that time.
            if version is not None and not (read_as.as_of_names and _is_name(as_of)):
                as_of = version.rpartition(" ")[2]
        reader = reader.option(read_as.as_of_option, as_of)
    first, *others = settings.in_store()
    try:
        return reader.load([first, *others] if others else first)
    except Exception:
        if refusal is not None:
            raise refusal from None
        opened(settings).snapshot()  # raises a clear error if the cause is that nothing there is Parquet
        raise


def _is_name(as_of: str) -> bool:
    """Tell whether a text is a name: neither a number nor a timestamp."""
    try:
        datetime.fromisoformat(as_of)
    except ValueError:
        return not as_of.lstrip("-").isdigit()
    return False


def _format(spark: SparkSession, settings: TableSettings) -> tuple[str, PrunerError | None]:
    """The format that Spark must read, and why pruner refuses the table, or None where it does not.

    A Hudi table that Spark can read and pruner cannot is read unpruned. Anything else that is refused is not a table,
    or cannot be read from its files alone.

    Raises:
        TableError: there is no such table, or its format is not supported.
        StorageError: the store refuses to be read, and it is not known to be a Hudi table.
    """
    try:
        return opened(settings).format, None
    except (TableError, StorageError) as refusal:
        if len(settings.uris) == 1 and java_side(spark).is_hudi(spark, settings.uris[0]):
            return HUDI.name, refusal
        raise


def _always(settings: TableSettings, _: Any) -> TableSettings:
    return settings


def _wrapped(
    frame: DataFrame,
    choose: Chooser,
    planning_seconds: float,
    *,
    uncached: bool = False,
    keys: Expr = TRUE,
) -> DataFrame:
    spark = frame.sparkSession
    wrapper = Wrapper(spark, java_side(spark), planning_seconds)
    java_frame: Any = frame._jdf  # pyright: ignore[reportPrivateUsage]
    analyzed = wrapper.analyzed(java_frame.queryExecution().analyzed(), uncached=uncached)
    chosen = wrapper.chosen(analyzed, choose, keys)
    return analyzed.frame(chosen) if chosen else frame
