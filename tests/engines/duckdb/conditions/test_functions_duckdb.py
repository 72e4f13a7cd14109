"""The rules of `pruner.expr.functions` against DuckDB, over values at the edges of every type.

Each condition over a function is bound, from its text and from the output of DuckDB's optimizer, and checked against
DuckDB's answer for each value without its optimizer: no answer may be one that the bound form rules out. Where the
function raises an error for a value, its file must be kept, so that DuckDB raises it.
"""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from pruner.expr.binding.bind import bind
from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.nodes import TRUE, Expr
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.schema import Field, TableSchema
from pruner_duckdb.decode.gets import scan_predicates
from pruner_duckdb.shadow.shadow import Relation, Shadow
from tests.support.functions.conditions import conditions, constants
from tests.support.functions.forms import ARROW_TYPES, FORMS, Form, column, functions_in, values_of
from tests.support.running.profiles import examples, seed
from tests.unit.expr.outcomes import outcomes

SQL_TYPES = {
    "int16": "SMALLINT",
    "int32": "INTEGER",
    "int64": "BIGINT",
    "date": "DATE",
    "wall": "TIMESTAMP",
    "instant": "TIMESTAMPTZ",
    "text": "VARCHAR",
    "decimal": "DECIMAL(18, 2)",
}
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata", "Pacific/Apia", "Etc/GMT-5")
CASES = [(form, kind) for form in FORMS if "duckdb" in form.written for kind in form.types]
MOST_VALUES = 60


@cache
def database() -> duckdb.DuckDBPyConnection:
    """A connection that evaluates statements as written, without optimizing."""
    opened = duckdb.connect(config={"threads": 1})
    opened.execute("PRAGMA disable_optimizer")
    return opened


@cache
def shadow() -> Shadow:
    return Shadow()


class Judge:
    """DuckDB's answers for a function over some values; `fails` are the values for which it raises an error."""

    def __init__(self, function: str, kind: str, values: list[Any], zone: str) -> None:
        self._kind = kind
        database().execute(f"SET TimeZone = '{zone}'")
        self.fails = self._failing(function, values)
        self.values = [value for value in values if value not in self.fails]

    def ask(self, *expressions: str) -> list[tuple[Any, ...]]:
        """The results of the expressions for each value."""
        return self._run(self.values, expressions)

    def _run(self, values: list[Any], expressions: tuple[str, ...]) -> list[tuple[Any, ...]]:
        database().register("t", pa.table({"c": column(values, self._kind)}))
        return database().execute(f"SELECT {', '.join(expressions)} FROM t").fetchall()

    def _failing(self, function: str, values: list[Any]) -> list[Any]:
        try:
            self._run(values, (f"CAST({function} AS VARCHAR)",))
        except duckdb.Error:
            if len(values) == 1:
                return values
            half = len(values) // 2
            return self._failing(function, values[:half]) + self._failing(function, values[half:])
        return []


def asked_of(rng: random.Random, form: Form, judge: Judge, count: int) -> list[str]:
    """Conditions that compare a function with constants drawn from its own results."""
    function = form.written["duckdb"]
    shown = [row[0] for row in judge.ask(f"CAST({function} AS VARCHAR)")]
    return conditions(function, constants(rng, shown, form.result, _literal, count))


def _literal(text: str, result: str) -> str:
    quoted = "'" + text.replace("'", "''") + "'"
    prefix = {"date": "DATE ", "wall": "TIMESTAMP ", "instant": "TIMESTAMPTZ ", "text": ""}
    return f"({text})" if result == "number" else prefix[result] + quoted


def from_plan(condition: str, kind: str, zone: str, *, keep_form: bool) -> Expr:
    """The condition as in DuckDB's plan; TRUE where the plan says that there are no rows."""
    [table] = shadow().table_names([Relation((("c", SQL_TYPES[kind]),))])
    text = f"SELECT * FROM {table} WHERE {condition}"
    return scan_predicates(shadow().optimized_plans(text, zone, keep_form=keep_form)).get(table, TRUE)


def check(form: Form, kind: str, zone: str, rng: random.Random, count: int) -> int:
    """Check conditions over one function against DuckDB; returns for how many something was ruled out."""
    values = values_of(kind)
    judge = Judge(form.written["duckdb"], kind, rng.sample(values, min(MOST_VALUES, len(values))), zone)
    asked = asked_of(rng, form, judge, count)
    answers = list(zip(*judge.ask(*(f"({each})" for each in asked)), strict=True))
    semantics = Semantics(zone=zone)
    schema = TableSchema((Field(("c",), ARROW_TYPES[kind]),))
    claims = 0
    for condition, found in zip(asked, answers, strict=True):
        forms = {
            "text": parse_predicate(condition, semantics),
            "plan": from_plan(condition, kind, zone, keep_form=True),
            # DuckDB's own optimizer turns c + 1 = 5 into c = 4, so DuckDB itself then raises no overflow.
            "optimized": from_plan(condition, kind, zone, keep_form=False),
        }
        claimed = {
            name: bind(each, schema, semantics, strict=False) for name, each in forms.items() if each != TRUE
        }
        for name, bound in claimed.items():
            possible = {value: outcomes(bound, value) for value in judge.values}
            for value, answer in zip(judge.values, found, strict=True):
                assert answer in possible[value], f"{name}: {condition}, {zone}: c = {value!r} gives {answer}"
            for value in judge.fails if name != "optimized" else ():
                assert True in outcomes(bound, value), f"{name}: {condition}: c = {value!r} raises an error"
            claims += any(True not in each for each in possible.values())
    return claims


@pytest.mark.load
@pytest.mark.parametrize(("form", "kind"), CASES, ids=str)
def test_no_rule_rules_out_what_duckdb_answers(form: Form, kind: str):
    rng = random.Random(f"{seed()} {form} {kind}")
    zones = ZONES if kind in ("wall", "date", "instant") else ZONES[:1]
    count = max(1, examples(10) // 10)
    claims = sum(
        check(form, kind, zone, rng, count) for zone in rng.sample(zones, min(len(zones), 1 + count // 4))
    )
    assert claims, "every condition keeps every file"


def test_every_row_for_duckdb_is_proved_here():
    named = {
        each.title or row.name
        for row in FUNCTIONS.values()
        for each in row.preimages
        if "duckdb" in each.compared
    }
    assert named <= functions_in("duckdb")
