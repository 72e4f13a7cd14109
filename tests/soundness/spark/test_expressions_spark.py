"""Indexes over expressions against Spark: the random conditions of DuckDB's test in Spark's spelling, no row lost.

The indexes are spelled for DuckDB, one for Spark. Spark answers a hundred conditions as columns of one query, into
which nothing is pushed. Plans come from the text, from what Spark's optimizer makes of it, and, for some, from scans.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_spark
from pruner_spark.catalyst.decode import decode
from pruner_spark.jvm import session_state
from tests.engines.spark.spark_tables import new_scans
from tests.soundness.test_expressions import EXPRESSIONS, FILES, USING, condition, write_files
from tests.support.running.profiles import examples, seed
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from pruner.expr.nodes import Expr
    from pruner_spark.session import SessionState

pytestmark = pytest.mark.spark

AT_ONCE = 100
SCANS = 20
"""One condition in so many is read through a scan as well."""
IN_SPARK = {
    # DuckDB's spelling: Spark's
    "strftime(ts, '%H')": "date_format(ts, 'HH')",
    "strftime(inst, '%H:%M')": "date_format(inst, 'HH:mm')",
    "strftime(d, '%Y-%m')": "date_format(d, 'yyyy-MM')",
    "isodow(inst)": "dayofweek(inst)",
    "inst::DATE": "CAST(inst AS DATE)",
    "n::VARCHAR": "CAST(n AS STRING)",
    "n // 8": "n DIV 8",
    "xor(n, m)": "(n ^ m)",
    "n & 12": "(n & 12)",
    "date_diff('day', d, d2)": "datediff(d2, d)",
    "d + 7": "date_add(d, 7)",
    "j ->> '$.a'": "get_json_object(j, '$.a')",
    "s2::DATE": "CAST(s2 AS DATE)",
    "floor(x)::BIGINT": "floor(x)",
    "isoyear(d)": "extract(YEAROFWEEK FROM d)",
    "TIMESTAMP '": "TIMESTAMP_NTZ '",
}
NOT_IN_SPARK = ("timezone(",)
OF_SPARK_ALONE = ("isodow(inst)",)
"""Expressions that mean something else in the other spelling: the index is spelled for Spark."""
CALENDAR = {"spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED"}
"""Files that do not name their writer hold moments before 1900."""


def in_spark(text: str) -> str:
    """A condition or expression in Spark's SQL."""
    for one, other in IN_SPARK.items():
        text = text.replace(one, other)
    return text


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    """Files with an index over each expression that Spark can write."""
    root = tmp_path_factory.mktemp("spark_expressions") / "t"
    write_files(root, random.Random(11))
    found = pruner.open_table(root)
    written = [each for each in EXPRESSIONS if not each.startswith(NOT_IN_SPARK)]
    for number, expression in enumerate(written):
        own = expression in OF_SPARK_ALONE
        on, dialect = (in_spark(expression), "spark") if own else (expression, "duckdb")
        using = USING[number % len(USING)]
        found.create_index(f"i{number}", on=on, using=using, dialect=dialect, build=False)
    found.create_index("numbers", on=["n", "ts"], build=False)
    assert not found.refresh().failures
    return pruner.open_table(root, max_staleness=3600)


def conditions(tape: random.Random) -> Iterator[str]:
    """Endless random conditions in Spark's SQL."""
    while True:
        text = condition(tape)
        if not any(name in text for name in NOT_IN_SPARK):
            yield in_spark(text)


def holding(frame: DataFrame, asked: Sequence[str]) -> list[set[str]]:
    """The files with a row for which each condition is true."""
    answers = [f"({each}) AS x{k}" for k, each in enumerate(asked)]
    rows = frame.selectExpr("_metadata.file_name AS f", *answers).collect()
    return [{row[0] for row in rows if row[k + 1]} for k in range(len(asked))]


def optimized(frame: DataFrame, asked: Sequence[str], schema: Any, state: SessionState) -> list[Expr]:
    """What Spark's optimizer makes of conditions, decoded."""
    columns: Any = frame.selectExpr(*(f"({each}) AS x{k}" for k, each in enumerate(asked)))
    listed = columns._jdf.queryExecution().optimizedPlan().projectList()
    return [decode(listed.apply(k).child(), state, schema) for k in range(listed.size())]


def files_of(plan: pruner.Plan) -> set[str]:
    return {Path(file).name for file in plan.files}


@pytest.mark.parametrize(
    ("zone", "ansi", "least"), [("UTC", "false", 0.5), ("America/New_York", "true", 0.25)]
)
def test_no_row_is_lost(
    spark: SparkSession,
    table: pruner.Table,
    zone: str,
    ansi: str,
    least: float,
    record_property: Callable[[str, object], None],
) -> None:
    """Spark answers without ANSI mode, in which a value that overflows would fail the whole query."""
    drawn = conditions(random.Random(f"{seed()} {zone}"))
    count, could, went, scanned = examples(100), 0, 0, 0
    session = {**CALENDAR, "spark.sql.session.timeZone": zone}
    pinned = table.snapshot()
    for start in range(0, count, AT_ONCE):
        asked = [next(drawn) for _ in range(min(AT_ONCE, count - start))]
        with settings(spark, {**session, "spark.sql.ansi.enabled": "false"}):
            matching = holding(spark.read.parquet(table.uri), asked)
            scanned += scans(spark, table, dict(zip(asked, matching, strict=True)))
        with settings(spark, {**session, "spark.sql.ansi.enabled": ansi}):
            state = session_state(spark)
            forms = optimized(spark.read.parquet(table.uri), asked, pinned.schema, state)
        for text, form, held in zip(asked, forms, matching, strict=True):
            for predicate in (text, form):
                kept = files_of(pinned.plan(predicate, semantics=state.semantics()))
                assert held <= kept, (text, form, sorted(held - kept))
            could += FILES - len(held)
            went += FILES - len(kept)
    record_property(
        "figure", f"Spark, {zone}: {count} conditions on expressions left out {went} of {could} files"
    )
    assert went >= least * could, (went, could)
    assert scanned


def scans(spark: SparkSession, table: pruner.Table, matching: dict[str, set[str]]) -> int:
    """Read through some conditions; returns how many files were dropped."""
    frame, before = pruner_spark.read(spark, table.uri), pruner_spark.last_plans(spark)
    for text in list(matching)[::SCANS]:
        rows = frame.where(text).selectExpr("_metadata.file_name").distinct().collect()
        assert {row[0] for row in rows} == matching[text], text
    # A condition that Spark itself finds never true reaches no scan.
    return sum(FILES - (scan.kept or 0) for scan in new_scans(spark, before))
