"""Writing for pruning: rows in the order of an index, so that few files hold any one value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pruner import Table
from pruner.catalog.names import settings_in_place
from pruner.maintenance.ordering import order_by
from pruner_spark.formats import leaves_of, table_behind
from pruner_spark.jvm import java_side
from pruner_spark.tables import opened

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from pruner_spark.reading import Place


def sort_for(
    frame: DataFrame, on: str, *, table: Place | Table | None = None, files: int | None = None
) -> DataFrame:
    """Return the rows of a DataFrame in the order of an index or expression, ready to be written.

    Each file written from them then holds few of the values, so a condition on these skips more files.

    Args:
        frame: the rows.
        on: an expression in Spark's SQL, or the name of an index.
        table: the table that has the index. Unless given, the tables that the DataFrame reads are searched.
        files: the maximum number of files to write; unless given, Spark's own settings decide.

    Raises:
        IndexDefinitionError: the index is over every column, or Spark has no spelling for its expression.
        TableError: there is no such table.
        ConfigError: `pruner.toml` is wrong.
        pyspark.errors.PySparkException: Spark refuses the expression.
    """
    from pyspark.sql import functions

    parts = [functions.expr(part) for part in _parts(frame, on, table)]
    if files is None:
        return frame.sort(*parts)
    return frame.repartitionByRange(files, *parts).sortWithinPartitions(*parts)


def _parts(frame: DataFrame, on: str, table: Place | Table | None) -> list[str]:
    if on.casefold() not in (column.casefold() for column in frame.columns):
        for known in _tables(frame) if table is None else (_opened(table),):
            keys = order_by(known.indexes(), on, known.schema, "spark")
            if keys is not None:
                return keys
    return [on]


def _opened(table: Place | Table) -> Table:
    return table if isinstance(table, Table) else opened(settings_in_place(table))


def _tables(frame: DataFrame) -> Iterable[Table]:
    """The indexed tables that a DataFrame reads; none for a DataFrame of Spark Connect."""
    java_frame: Any = getattr(frame, "_jdf", None)
    if java_frame is None:
        return
    relations = java_side(frame.sparkSession).factory.relations(java_frame.queryExecution().analyzed())
    for leaf in leaves_of(relations):
        settings = table_behind(leaf)
        if settings is not None:
            yield opened(settings)
