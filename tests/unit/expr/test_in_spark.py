"""Index expressions written for Spark: read back, they are the same expressions."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from pruner.expr.derived.canonical import Canonical, canonical
from pruner.expr.derived.in_sql import NotInSpark, in_spark
from pruner.expr.derived.indexed import derived_field
from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.schema import Field
from tests.support.functions.expression_forms import FORMS, Form
from tests.support.functions.expression_values import rows

TYPES = {field.name: field.type for field in rows("UTC").schema} | {"a `b`": pa.string()}


def form_of(text: str, dialect: str) -> Canonical:
    expression = parse_predicate(text, Semantics(engine=dialect, zone="UTC"))
    return canonical(expression, lambda column: Field(column.path, TYPES[column.path[0]]), dialect)


def in_sparks_sql(text: str, dialect: str) -> str:
    return in_spark(derived_field(form_of(text, dialect)))


READ_BACK = [
    form for form in FORMS if form.spark and form.row not in ("add", "subtract", "multiply", "negate")
]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("form", READ_BACK, ids=lambda form: form.spark)
def test_what_spark_reads_is_what_the_index_is_over(form: Form) -> None:
    assert form.spark is not None
    written = in_sparks_sql(form.spark, "spark")
    assert form_of(written, "spark").text == form_of(form.spark, "spark").text


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("strftime(ts, '%Y-%m-%dT%H')", "date_format(`ts`, \"yyyy-MM-dd'T'HH\")"),
        ("n + m * 3", "try_add(`n`, try_multiply(`m`, (3)))"),
        ("-n - x", "try_subtract(double(try_subtract(0, `n`)), `x`)"),
        ("x * 0.5", "try_multiply(`x`, double('0.5'))"),
        ("isodow(ts)", "(weekday(`ts`) + 1)"),
        ("dayofweek(ts)", "(dayofweek(`ts`) - 1)"),
        ("\"a `b`\" || 'it''s \\'", "(`a ``b``` || 'it\\'s \\\\')"),
    ],
)
def test_what_duckdb_wrote(text: str, written: str) -> None:
    assert in_sparks_sql(text, "duckdb") == written


def test_what_spark_cannot_write_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FUNCTIONS, "upper", replace(FUNCTIONS["upper"], in_spark=""))
    with pytest.raises(NotInSpark, match=r"upper\(s\) has no spelling in Spark"):
        in_sparks_sql("lower(upper(s))", "duckdb")
