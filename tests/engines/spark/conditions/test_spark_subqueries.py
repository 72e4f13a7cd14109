"""The replacements of subqueries in UPDATE and DELETE choose the rows that Spark's own subqueries choose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from pruner_spark.jvm import java_session, java_side
from pruner_spark.statements import answered
from tests.engines.spark.spark_tables import rows_of, unordered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CONDITIONS = (
    # With whether any of its subqueries is answered in advance.
    ("i IN (SELECT i FROM others) AND i = (SELECT max(i) FROM others)", True),
    # A statement has one timestamp, in all of its parts.
    ("current_timestamp() = (SELECT current_timestamp())", True),
    ("now() IN (SELECT now()) AND i IN (SELECT i FROM others)", True),
    ("(SELECT now()) = (SELECT max(localtimestamp()) FROM others) OR (SELECT now()) = (SELECT now())", True),
    ("current_timezone() = (SELECT current_timezone()) AND i = (SELECT max(i) FROM others)", True),
    # No row evaluates what fails.
    ("false AND i = (SELECT raise_error('failed') FROM range(1))", False),
    ("i > 100 AND i IN (SELECT CAST(raise_error('failed') AS INT) FROM others)", False),
    # By ANSI's rules these are errors of Spark's own, which reach Python unchanged.
    ("false AND i = (SELECT 1 / 0)", False),
    ("i > 100 AND i IN (SELECT CAST(s AS INT) FROM rows)", False),
)
OF_CACHED = (
    ("i IN (SELECT i FROM moments WHERE now() >= w)", False),
    ("now() = (SELECT now()) AND i = (SELECT max(i) FROM others)", True),
)


@pytest.fixture
def views(spark: SparkSession) -> Iterator[None]:
    rows = "VALUES (1, 'a'), (3, NULL), (NULL, 'b'), (4, 'c') AS s (i, s)"
    spark.sql(f"SELECT * FROM {rows}").createOrReplaceTempView("rows")
    spark.sql("SELECT * FROM VALUES (1), (3), (NULL), (3) AS s (i)").createOrReplaceTempView("others")
    spark.sql("SELECT i, now() AS w FROM others").createOrReplaceTempView("moments")
    yield
    for name in ("rows", "others", "moments"):
        spark.catalog.dropTempView(name)


def _outcome(make: Any) -> object:
    try:
        return unordered(rows_of(make()))
    except Exception as error:  # whatever Spark raises
        return type(error).__name__


def _compare(spark: SparkSession, condition: str, wanted: bool) -> None:
    from pyspark.sql import DataFrame

    query = f"SELECT * FROM rows WHERE {condition}"
    side = java_side(spark)
    session = java_session(spark)
    plan = side.factory.statement(session, query).plan()
    made = answered(spark, side, plan)
    assert bool(made.fastEquals(plan)) != wanted, condition
    made.setAnalyzed()
    found = _outcome(lambda: DataFrame(side.factory.rows(session, made), spark))
    assert found == _outcome(lambda: spark.sql(query)), condition


@pytest.mark.usefixtures("views")
def test_the_same_rows_are_chosen(spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "true")
    try:
        for condition, wanted in CONDITIONS:
            _compare(spark, condition, wanted)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


@pytest.mark.usefixtures("views")
def test_what_is_cached_is_found_in_the_cache(spark: SparkSession) -> None:
    spark.catalog.cacheTable("moments")
    try:
        for condition, wanted in OF_CACHED:
            _compare(spark, condition, wanted)
    finally:
        spark.catalog.uncacheTable("moments")
