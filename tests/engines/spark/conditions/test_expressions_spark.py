"""The functions that indexes may be over, against Spark: on their domains it yields what the kernel records."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from pruner.expr.derived.canonical import NotCanonical, canonical
from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.nodes import And, Column, Compare, Constant, In, IsNull, Literal, Not, Or
from pruner.expr.semantics import Semantics
from pruner.expr.show import show
from pruner.expr.text.sql import parse_predicate
from pruner_spark.catalyst.decode import decode
from pruner_spark.jvm import session_state
from tests.support.functions.expression_forms import FORMS, comparable, evaluated
from tests.support.functions.expression_values import rows
from tests.support.spark.catalyst import parquet_schema, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


MOMENTS = ("date_trunc", "timestamp_seconds")
DECIDED = frozenset({"if", "is equal", "is less", "is at most", "is null", "not", "both", "either"})
"""The optimizer turns `CASE … END = 'x'` into the condition itself."""
EPOCH = datetime.datetime(1970, 1, 1)
SESSIONS = (
    {"spark.sql.ansi.enabled": "true"},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.ansi.enabled": "false", "spark.sql.legacy.timeParserPolicy": "LEGACY"},
)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: " ".join(session.values()))
def test_spark_makes_what_is_recorded(spark: SparkSession, tmp_path: Path, session: dict[str, str]) -> None:
    table = rows("UTC")
    pq.write_table(table, tmp_path / "values.parquet")
    forms = {form.spark: form for form in FORMS if form.spark is not None}
    with settings(spark, {"spark.sql.session.timeZone": "UTC", **session}):
        frame = spark.read.parquet(str(tmp_path / "values.parquet"))
        # Timestamps as numbers: Python's client returns them in the zone of its own process.
        shown = [f"unix_micros({form})" if form.startswith(MOMENTS) else form for form in forms]
        found = frame.selectExpr("k", *(f"{each} AS v{at}" for at, each in enumerate(shown))).collect()
    found.sort(key=lambda row: row["k"])
    differing: dict[str, Any] = {}
    for at, (text, form) in enumerate(forms.items()):
        expected = [comparable(value) for value in evaluated(form, "spark", table)]
        made = [comparable(_moment(row[f"v{at}"], text)) for row in found[: len(expected)]]
        if made != expected:
            differing[text] = [pair for pair in zip(made, expected, strict=True) if pair[0] != pair[1]]
    assert not differing


def _constant(value: Any) -> str:
    match value:
        case str():
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case float():
            return f"double('{value!r}')"
        case datetime.datetime():
            return f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}'"
        case datetime.date():
            return f"DATE '{value}'"
        case _:
            return str(value)


def _called(node: Any) -> list[Any]:
    """The operands of a condition except columns, for which statistics answer."""
    match node:
        case Compare(_, left, Literal()) | IsNull(left) | In(left):
            return [] if isinstance(left, Column) else [left]
        case And(operands) | Or(operands):
            return [found for each in operands for found in _called(each)]
        case Not(operand):
            return _called(operand)
        case Constant():
            return []
        case _:
            return [node]


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_what_the_optimizer_makes_of_a_form_is_that_form(
    spark: SparkSession, tmp_path: Path, ansi: str
) -> None:
    """Or a condition on columns alone."""
    table = rows("UTC")
    pq.write_table(table, tmp_path / "values.parquet")
    schema = parquet_schema(tmp_path / "values.parquet")

    def form_of(expression: Any) -> str:
        return canonical(expression, lambda column: schema.find(column.path), "spark").text

    other: dict[str, Any] = {}
    with settings(spark, {"spark.sql.session.timeZone": "UTC", "spark.sql.ansi.enabled": ansi}):
        state = session_state(spark)
        forms = [form for form in FORMS if form.spark is not None and form.row not in DECIDED]
        value = {
            form.spark: next(v for v in evaluated(form, "spark", table) if v not in (None, ""))
            for form in forms
        }
        asked = [f"({form.spark} = {_constant(value[form.spark])}) AS x{k}" for k, form in enumerate(forms)]
        frame: Any = spark.read.parquet(str(tmp_path / "values.parquet")).selectExpr(*asked)
        listed = frame._jdf.queryExecution().optimizedPlan().projectList()
        for k, form in enumerate(forms):
            found = decode(listed.apply(k).child(), state, schema)
            text = form_of(parse_predicate(str(form.spark), Semantics(engine="spark", zone="UTC")))
            try:
                made = [form_of(each) for each in _called(found)]
            except NotCanonical as reason:
                made = [str(reason)]
            if made not in ([text], []):
                other[str(form.spark)] = (show(found), made)
    assert not other


def _moment(value: Any, form: str) -> Any:
    if value is None or not form.startswith(MOMENTS):
        return value
    return EPOCH + datetime.timedelta(microseconds=value)


def test_every_row_for_spark_is_proved_here() -> None:
    proved = {form.row for form in FORMS if form.spark is not None}
    assert {
        row.name for row in FUNCTIONS.values() for each in row.evaluations if "spark" in each.compared
    } <= proved
