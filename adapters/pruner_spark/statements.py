"""`pruner_spark.sql`: any statement of Spark's with the catalog's own names, and the statements about indexes.

MERGE INTO reads, of its target, only the file groups that can hold a key of its source.

The subqueries of UPDATE and DELETE run before the table is read, so that their results prune it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from pruner.catalog.names import Catalog
from pruner.ddl import execute, parse_statement
from pruner.errors import SchemaError, TableError
from pruner_spark.formats import leaves_of, table_behind
from pruner_spark.jvm import java_session, java_side
from pruner_spark.key_lists import MOST_LISTED, rows_with
from pruner_spark.reading import prune
from pruner_spark.relations.relation import sentence
from pruner_spark.relations.scans import LOGGER
from pruner_spark.tables import opened, settings_at
from pruner_spark.wrapping import PLANNING_SECONDS, Wrapper

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner import Table
    from pruner.ddl import SqlResult
    from pruner_spark.jvm import JavaSide
    from pruner_spark.wrapping import AnalyzedStatement

MOST_SOURCE_BYTES = 10 * 1024 * 1024
"""Size of a source, as Spark estimates it, up to which its rows are fetched: Spark's default limit for broadcasts."""

_BY_HUDI = "MERGE INTO reads no rows of its target: Hudi itself finds those of its record keys"
_WHOLE = "MERGE INTO reads its target whole"
_NO_KEY = f"{_WHOLE}: its condition compares no column of it with one of the source"
_LARGE = f"{_WHOLE}: its source may be larger than {MOST_SOURCE_BYTES >> 20} MiB"


class Merger:
    """One MERGE INTO of a session."""

    def __init__(self, spark: SparkSession, side: JavaSide, wrapper: Wrapper) -> None:
        self._spark = spark
        self._side = side
        self._wrapper = wrapper

    def pruned(self, plan: Any, source: Any, merging: Any) -> Any:
        """Return the statement with the fetched rows of its source, and a target that skips files without their keys.

        The source runs here, once: the keys are those of the very rows that are merged.

        Args:
            plan: the analyzed statement.
            source: the part of it that reads the rows to merge.
            merging: what it does (java/statements/Merging.java).

        Raises:
            ConfigError: `pruner.toml` cannot be read.
        """
        from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
        from pyspark.errors import PySparkException

        target = merging.target()
        if not self._wrapper.knows(target, table_behind):
            return plan
        reason = self._why_whole(merging)
        if reason is None:
            try:
                rows = self._rows(merging, source)
                if rows is not None:
                    return self._with_rows(plan, merging, source, rows)
                reason = _LARGE
            except (Py4JError, PySparkException) as error:
                reason = f"{_WHOLE}: its source cannot be fetched beforehand: {sentence(error)}"
        self._wrapper.leave(target, table_behind, reason)
        return plan

    def _why_whole(self, merging: Any) -> str | None:
        if not merging.joins():
            return _BY_HUDI
        return None if str(merging.columns()) else _NO_KEY

    def _rows(self, merging: Any, source: Any) -> Any:
        """The source as fetched rows; None if it is large."""
        execution = self._side.execution(java_session(self._spark), source)
        if int(str(execution.optimizedPlan().stats().sizeInBytes())) > MOST_SOURCE_BYTES:
            return None
        return merging.collected(execution.executedPlan().executeCollect())

    def _with_rows(self, plan: Any, merging: Any, source: Any, rows: Any) -> Any:
        factory, target = self._side.factory, merging.target()
        changed = factory.withSource(plan, source, rows)
        try:
            keys = rows_with(self._frame(merging.keys(rows)))
        except SchemaError as error:
            self._wrapper.leave(target, table_behind, f"{_WHOLE}: {error}")
            return changed
        return factory.withSource(changed, target, self._wrapper.wrap(target, table_behind, keys))

    def _frame(self, plan: Any) -> DataFrame:
        from pyspark.sql import DataFrame

        return DataFrame(self._side.factory.rows(java_session(self._spark), plan), self._spark)


MOST_BYTES = 10 * 1024 * 1024
"""Size of a subquery's result, as Spark estimates it, up to which it is fetched: Spark's default broadcast limit."""


def answered(spark: SparkSession, side: JavaSide, query: Any) -> Any:
    """Return a query, about to run, with its subqueries replaced by their results.

    The statement uses these results: a subquery runs once, here, and not again. Subqueries that may be large, depend
    on the row, or fail here stay unchanged.

    Args:
        spark: the session.
        side: the compiled classes in its JVM.
        query: the analyzed query, whose relations prune themselves.
    """
    from py4j.protocol import Py4JError  # pyright: ignore[reportMissingTypeStubs]
    from pyspark.errors import PySparkException

    session = java_session(spark)
    cached = not session.sharedState().cacheManager().isEmpty()
    subqueries = side.factory.subqueries(query, session.sessionState().conf(), cached)
    for number in range(subqueries.count()):
        try:
            execution = side.execution(session, subqueries.plan(number))
            if int(str(execution.optimizedPlan().stats().sizeInBytes())) <= MOST_BYTES:
                rows = execution.executedPlan().executeCollect()
                subqueries.answer(number, rows, MOST_LISTED)
        except (Py4JError, PySparkException) as error:
            # Spark may never need the result: `false AND id = (SELECT 1 / 0)`.
            LOGGER.info("a subquery is not answered beforehand: %s", error)
    return subqueries.answered()


_ABOUT_INDEXES = re.compile(
    r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*"
    r"(?:CREATE\s+(?:FUNCTION\s+)?INDEX|DROP\s+INDEX|REFRESH\s+INDEX|SHOW\s+INDEXES)\b",
    re.IGNORECASE | re.DOTALL,
)
_BY_DELTA = (
    "Delta itself finds the files of the target that UPDATE, DELETE and MERGE change, by its own statistics"
)
_INDEX_COLUMNS = (
    "name STRING, using STRING, columns ARRAY<STRING>, where STRING, covered LONG, coverable LONG, segments LONG, "
    "bytes LONG, created_at STRING, refreshed_at STRING, usable BOOLEAN, note STRING"
)
_DONE_COLUMNS = "statement STRING, table STRING, index STRING, changed BOOLEAN, indexed LONG, failed LONG"


def sql(
    spark: SparkSession,
    query: str,
    args: dict[str, Any] | list[Any] | None = None,
    *,
    planning_seconds: float = PLANNING_SECONDS,
) -> DataFrame:
    """Run a statement; each scan of a table that has an index prunes itself.

    These are pruned: queries, what INSERT, CREATE TABLE AS and MERGE read from, what MERGE joins with it, and what
    Hudi's UPDATE and DELETE read. Delta itself finds what its UPDATE, DELETE and MERGE change. Other commands run
    as in `spark.sql`. See `prune` for how a table's index is found. The subqueries of UPDATE and DELETE run first, so
    that their results prune. CREATE INDEX, DROP INDEX, REFRESH INDEX and SHOW INDEXES are pruner's own
    (docs/statements.md). They take a table's name in the catalog or in `pruner.toml`, or its location.

    Args:
        spark: the session.
        query: one statement.
        args: values of its parameters, as `spark.sql` takes them; a command with parameters runs unpruned.
        planning_seconds: how long a scan waits for its plan before it runs unpruned.

    Raises:
        PrunerError: a statement about indexes cannot be executed, or `pruner.toml` is wrong.
        pyspark.errors.PySparkException: Spark refuses the statement.
    """
    if _ABOUT_INDEXES.match(query):
        return _shown(spark, execute(parse_statement(query), _SparkTables(spark), dialect="spark"))
    session: Any = spark
    if args:
        return prune(session.sql(query, args), planning_seconds=planning_seconds)
    side = java_side(spark)
    wrapper = Wrapper(spark, side, planning_seconds)
    # The statement is analyzed once: the resulting plan runs unchanged, or with other relations in it.
    statement = wrapper.told(side.factory.statement(java_session(spark), query), uncached=True)
    if statement.changes:
        wrapper.leave(statement.target, table_behind, _BY_DELTA)
    if statement.leaves is None:
        return session.sql(query)
    chosen = wrapper.chosen(statement, table_behind)
    if statement.is_direct:
        return statement.frame(chosen) if chosen or statement.is_query else session.sql(query)
    changed = _changed(spark, side, wrapper, statement, chosen)
    return session.sql(query) if changed is None else wrapper.frame(changed)


def _changed(
    spark: SparkSession, side: JavaSide, wrapper: Wrapper, statement: AnalyzedStatement, chosen: str
) -> Any:
    """A statement that changes rows, with what it reads pruned; None where it must run unchanged."""
    plan, source = statement.plan, statement.source
    pruned, wrapped = plan, source
    merging = side.factory.merging(plan)
    if chosen:
        wrapped = statement.pruned(chosen)
        wrapped = wrapped if merging is not None else answered(spark, side, wrapped)
        pruned = side.factory.withSource(plan, source, wrapped)
        merging = side.factory.merging(pruned)
    if merging is not None:
        pruned = Merger(spark, side, wrapper).pruned(pruned, wrapped, merging)
    return None if pruned is plan else pruned


class _SparkTables:
    """Finds the tables of statements about indexes: pruner's names and locations first, then Spark's names."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._catalog = Catalog()

    def names(self) -> Sequence[str]:
        """The names in `pruner.toml`; DROP INDEX without a table searches them."""
        return self._catalog.names()

    def open(self, name: str) -> Table:
        """Open a table by its name or location.

        Raises:
            TableError: there is no such table, or the name is not that of one table over files.
        """
        try:
            return self._catalog.open(name)
        except TableError:
            roots = self._roots(name)
            if roots is None:
                raise
            return opened(settings_at(roots))

    def _roots(self, name: str) -> list[str] | None:
        """The root paths of the one relation behind a name of Spark's; None if there is no such name."""
        from pyspark.errors import AnalysisException, ParseException

        side = java_side(self._spark)
        try:
            frame: Any = self._spark.table(name)
        except (AnalysisException, ParseException):
            return None
        leaves = leaves_of(side.factory.relations(frame._jdf.queryExecution().analyzed()))
        if len(leaves) != 1:
            raise TableError(f"{name} is not one table over files: name the table that is to be indexed")
        return list(leaves[0].roots)


def _shown(spark: SparkSession, result: SqlResult) -> DataFrame:
    """The result of a statement about indexes, as rows."""
    if result.status is not None:
        names = [column.split(" ")[0] for column in _INDEX_COLUMNS.split(", ")]
        indexes = [tuple(_listed(row[name]) for name in names) for row in result.rows]
        return spark.createDataFrame(indexes, _INDEX_COLUMNS)
    built = result.refresh
    row = (
        result.statement,
        result.table,
        result.index,
        result.changed,
        None if built is None else built.indexed,
        None if built is None else len(built.failures),
    )
    return spark.createDataFrame([row], _DONE_COLUMNS)


def _listed(value: Any) -> Any:
    return list(cast("tuple[str, ...]", value)) if isinstance(value, tuple) else value
