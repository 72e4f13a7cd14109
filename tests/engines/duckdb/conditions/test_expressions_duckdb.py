"""The functions that indexes may cover, against a DuckDB session, and one form for all spellings."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pruner.expr.derived.canonical import NotCanonical, canonical
from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.schema import Field
from tests.support.duckdb.plain import judge
from tests.support.functions.expression_forms import FORMS, Form, comparable, evaluated
from tests.support.functions.expression_values import rows

TYPES = {
    **dict.fromkeys("pugc", pa.string()),
    "r": pa.float64(),
    "ts": pa.timestamp("us"),
    "n": pa.int32(),
    "m": pa.int64(),
    "x": pa.float64(),
    "s": pa.string(),
    "at": pa.timestamp("us", "UTC"),
    "since": pa.timestamp("us"),
    "ms": pa.timestamp("us"),
    **dict.fromkeys("hqw", pa.float64()),
    **dict.fromkeys("def", pa.date32()),
    **dict.fromkeys("jy", pa.string()),
    "b": pa.int32(),
    "t": pa.int64(),
}


WRITTEN = [form for form in FORMS if form.duckdb is not None]
"""The forms that DuckDB has."""


@pytest.mark.sampled(36)
@pytest.mark.parametrize("zone", ["UTC", None])
@pytest.mark.parametrize("form", WRITTEN, ids=lambda form: form.duckdb)
def test_duckdb_makes_what_is_recorded(form: Form, zone: str | None) -> None:
    table = rows(zone)
    session = judge()
    session.register("forms_rows", table)
    found = session.execute(f"SELECT {form.duckdb} FROM forms_rows ORDER BY k").fetchall()
    session.unregister("forms_rows")
    expected = [comparable(value) for value in evaluated(form, "duckdb", table)]
    assert [comparable(value) for (value,) in found[: len(expected)]] == expected


@pytest.mark.sampled(12)
@pytest.mark.parametrize("form", WRITTEN, ids=lambda form: form.duckdb)
def test_only_rows_that_say_so_make_a_value_of_nulls(form: Form) -> None:
    """A file without the columns has NULL in each: an index that evaluated nothing must not take the value for NULL."""
    table = rows(None)
    session = judge()
    session.register("nulls_rows", pa.table({each.name: pa.nulls(1, each.type) for each in table.schema}))
    ((found,),) = session.execute(f"SELECT {form.duckdb} FROM nulls_rows").fetchall()
    session.unregister("nulls_rows")
    expression = parse_predicate(form.duckdb or "", Semantics(engine="duckdb", zone="UTC"))
    functions = canonical(
        expression, lambda column: Field(column.path, table.schema.field(column.path[0]).type), "duckdb"
    ).functions
    assert found is None or any(each.evaluation.of_null for each in functions)


def test_every_row_for_duckdb_is_proved_here() -> None:
    proved = {form.row for form in WRITTEN}
    assert {
        row.name for row in FUNCTIONS.values() for each in row.evaluations if "duckdb" in each.compared
    } <= proved


def form_of(text: str, dialect: str) -> str:
    expression = parse_predicate(text, Semantics(engine=dialect, zone="UTC"))
    return canonical(expression, lambda column: Field(column.path, TYPES[column.path[0]]), dialect).text


@pytest.mark.sampled(7)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.duckdb or form.spark or form.trino)
def test_spellings_of_all_engines_come_to_one_form(form: Form) -> None:
    spelled = {dialect: getattr(form, dialect) for dialect in ("duckdb", "spark", "trino")}
    forms = {form_of(text, dialect) for dialect, text in spelled.items() if text is not None}
    assert len(forms) == 1


DIFFERENT = [
    ("strftime(ts, '%H')", "duckdb", "date_format(ts, 'hh')", "spark"),
    ("strftime(ts, '%M')", "duckdb", "date_format(ts, '%M')", "trino"),
    ("strftime(ts, '%Y')", "duckdb", "date_format(ts, 'YYYY')", "spark"),
    ("dayofweek(ts)", "duckdb", "dayofweek(ts)", "spark"),
    ("dayofweek(ts)", "duckdb", "day_of_week(ts)", "trino"),
    ("substring(s, 2, 3)", "duckdb", "substring(s, 0, 3)", "spark"),
    ("n + 1", "duckdb", "1 + n", "duckdb"),
    ("n % 8", "duckdb", "n % 80", "duckdb"),
    ("upper(s)", "duckdb", "lower(s)", "duckdb"),
    ("second(ts)", "duckdb", "extract(SECOND FROM ts)", "spark"),
]


@pytest.mark.parametrize(("one", "dialect", "other", "in_dialect"), DIFFERENT)
def test_i5_what_means_something_else_has_another_form(
    one: str, dialect: str, other: str, in_dialect: str
) -> None:
    """I5: engines use one name for several functions, and read patterns differently."""
    try:
        found = form_of(other, in_dialect)
    except NotCanonical:
        return
    assert form_of(one, dialect) != found


def test_constants_and_casts_that_change_nothing_do_not_matter() -> None:
    assert form_of("n + 1", "duckdb") == form_of("CAST(n AS BIGINT) + CAST(1 AS BIGINT)", "duckdb")
    assert form_of("x * 2", "duckdb") == form_of("x * 2.0", "duckdb")
    assert form_of("n * x", "duckdb") == form_of("CAST(n AS DOUBLE) * x", "duckdb")
    assert form_of("CAST(n AS DOUBLE) + CAST(m AS DOUBLE)", "duckdb") != form_of("n + m", "duckdb")
    assert form_of("year(CAST(ts AS DATE))", "duckdb") == form_of("year(ts)", "spark")
    assert form_of("hour(at::TIMESTAMP)", "duckdb") == form_of("hour(at)", "duckdb")
