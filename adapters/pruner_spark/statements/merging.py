"""MERGE INTO reads what it changes: of its target the file groups that can hold a key of its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pruner.errors import SchemaError
from pruner_spark.jvm import java_session
from pruner_spark.key_lists import rows_with
from pruner_spark.leaves import table_behind
from pruner_spark.relations.planner import sentence

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner_spark.jvm import JavaSide
    from pruner_spark.wrapping import Wrapper

MOST_SOURCE_BYTES = 10 * 1024 * 1024
"""Size of a source, as Spark estimates it, up to which its rows are fetched: what Spark itself broadcasts."""

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
        """Return the statement with the rows of its source, and a target that leaves out what has none of their keys.

        The source runs here, once: its keys are those of the very rows that are merged then.

        Args:
            plan: the analysed statement.
            source: the part of it that reads what is merged.
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
        """The source as rows that are here; None of a large one."""
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
