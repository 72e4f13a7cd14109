"""UPDATE and DELETE read what they change: what their subqueries find is known before the table is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pruner_spark.jvm import java_session
from pruner_spark.key_lists import MOST_LISTED
from pruner_spark.relations.scans import LOGGER

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pruner_spark.jvm import JavaSide

MOST_BYTES = 10 * 1024 * 1024
"""Size of a subquery's answer, as Spark estimates it, up to which it is fetched: what Spark itself broadcasts."""


def answered(spark: SparkSession, side: JavaSide, query: Any) -> Any:
    """Return a query that runs at once with the answers of its subqueries in their places.

    The answers are those that the statement goes by: a subquery runs once, here, and not again. Those that may be
    large, depend on the row, or fail here stay as they are.

    Args:
        spark: the session.
        side: its Java machine.
        query: the analysed query, whose relations prune themselves.
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
            # Spark may never ask for the answer: `false AND id = (SELECT 1 / 0)`.
            LOGGER.info("a subquery is not answered beforehand: %s", error)
    return subqueries.answered()
