"""Evaluation of indexed expressions: which engines agree on a value, and statements reused for slice after slice."""

from __future__ import annotations

import datetime
import re
from typing import Any

import pyarrow as pa
import pytest

from pruner.expr.derived.canonical import canonical
from pruner.expr.nodes import Column, Expr
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.pipeline.evaluation import Evaluated, evaluate
from pruner.schema import Field

EVERYONE = ("duckdb", "spark", "trino")
TYPES = {
    "j": pa.string(),
    "s": pa.string(),
    "n": pa.int32(),
    "x": pa.float64(),
    "ts": pa.timestamp("us"),
    "d": pa.date32(),
}


def form_of(text: str, dialect: str = "duckdb") -> Expr:
    def find(column: Column) -> Field:
        return Field(column.path, TYPES[column.path[0]])

    return canonical(parse_predicate(text, Semantics(engine=dialect, zone="UTC")), find, dialect).expression


def made(text: str, value: Any, dialect: str = "duckdb") -> Evaluated:
    name = re.findall(r"@(\w+)", text)[0]
    values = pa.chunked_array([pa.array([value, None], TYPES[name])])
    return evaluate(form_of(text.replace("@", ""), dialect), {(name,): values})


JSON = "@j ->> '$.a'"
INSIDE: list[tuple[str, Any, Any]] = [
    (JSON, '{"a": "x", "b": {"a": 2}}', "x"),
    (JSON, '{"b": [1, {"a": 1}]}', None),
    ("round(@x)", 2.5, 3.0),
    ("round(@x, 2)", 2.671, 2.67),
    ("@n // 8", -9, -1),
    ("@s::DATE", "2024-02-29", datetime.date(2024, 2, 29)),
    ("CASE WHEN @n > 0 THEN 'plus' END", 0, None),
]
OUTSIDE: list[tuple[str, Any]] = [
    *(
        (JSON, text)
        for text in (
            "no json",
            "[1]",
            '"a"',
            '{"a": 1, "a": 2}',
            '{"a": "\\u0041"}',
            '{"a": "\\n"}',
            '{"a": 1.50}',
            '{"a": 1e3}',
            '{"a": -0}',
            '{"a": 12345678901234567890}',
            '{"a": {"b": 1}}',
            '{"a": [1]}',
            '{"a": 1,}',
            '{"a": 1, "b": NaN}',
            '{"a": 1, "b": [-Infinity]}',
            '{"a": 1, "b": ' + "[" * 300 + "]" * 300 + "}",
            '{"a": 1, "b": ' + "1" * 300 + "}",
            '{"a": 1, "b": "' + "x" * 60_000 + '"}',
        )
    ),
    ("round(@x)", 0.49999999999999994),
    ("round(@x)", -0.2),
    ("round(@x)", float("nan")),
    ("round(@x, 2)", 1.005),
    ("floor(@x)::BIGINT", 1e300),
    ("bit_count(@n)", -1),
    ("chr(@n)", 200),
    ("@s::DATE", "2024-2-9"),
    ("@s::DATE", "2024-02-30"),
    ("@s::DATE", "1582-10-10"),
    ("epoch_ms(@ts)", datetime.datetime(2024, 1, 1, microsecond=1)),
    ("epoch(@ts)", datetime.datetime(1969, 12, 31)),
    ("@d + 7", datetime.date(9999, 12, 30)),
    ("hour(@ts)", datetime.datetime(1899, 12, 31)),
]


@pytest.mark.parametrize(("text", "value", "expected"), INSIDE)
def test_values_inside_the_domain(text: str, value: Any, expected: Any) -> None:
    found = made(text, value)
    assert found.agreed == EVERYONE
    assert found.values is not None
    assert found.values.to_pylist() == [expected, None]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("text", "value"), OUTSIDE)
def test_nobody_agrees_about_values_outside(text: str, value: Any) -> None:
    assert made(text, value) == Evaluated(None, ())


@pytest.mark.parametrize("raw", [b"\xc3A", b"\xff", b"a\xffb", b"\x80"])
def test_text_that_is_no_utf8_is_not_evaluated(raw: bytes) -> None:
    """Spark takes C3 41 for one character, DuckDB and Trino for two; `upper` of it ends DuckDB's database."""
    values = pa.chunked_array([pa.array([raw, b"abc"]).view(pa.string())])
    for text in ("length(s)", "upper(s)", "md5(s)", "s || 'x'"):
        with pytest.raises(ValueError, match="UTF"):
            evaluate(form_of(text), {("s",): values})
        assert made(text.replace("(s", "(@s").replace("s ||", "@s ||"), "abc").agreed == EVERYONE


def test_a_database_that_ended_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    from pruner.pipeline import evaluation

    values = pa.chunked_array([pa.array([b"\xff"]).view(pa.string())])
    with monkeypatch.context() as patched:
        patched.setattr(evaluation, "_prepared", lambda values: values)
        with pytest.raises(ValueError, match="could not be evaluated"):
            evaluate(form_of("upper(s)"), {("s",): values})
    assert made("upper(@s)", "abc").agreed == EVERYONE


def test_the_domain_is_asked_for_at_every_node() -> None:
    """The domain of `upper` is ASCII alone, whatever is above and below it."""
    for text in ("length(upper(@s))", "left(upper(@s), 1)", "upper(trim(@s))", "md5(upper(@s))"):
        assert made(text, "abc").agreed == EVERYONE
        assert made(text, "straße") == Evaluated(None, ())


def test_one_statement_serves_slice_after_slice() -> None:
    form = form_of("n // 8")
    for start in (0, 800, -800):
        values = pa.chunked_array([pa.array([start], pa.int32()), pa.array([start + 8], pa.int32())])
        found = evaluate(form, {("n",): values}).values
        assert found is not None
        assert found.to_pylist() == [start // 8, start // 8 + 1]
    nothing = evaluate(form, {("n",): pa.chunked_array([], pa.int32())})
    assert nothing.agreed == EVERYONE
    assert evaluate(form, {("n",): pa.chunked_array([pa.array([9], pa.int64())])}).values == pa.array([1])


@pytest.mark.slow
def test_a_statement_that_fails_leaves_the_next_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    from pruner.pipeline import evaluation

    monkeypatch.setattr(evaluation, "_MOST_QUERIES", 2)
    for number in range(1, 6):
        with pytest.raises(ValueError, match="is not in the registry"):
            evaluate(form_of(f"n % {number}"), {("n",): pa.chunked_array([pa.array(["no number"])])})
        found = evaluate(form_of(f"n % {number}"), {("n",): pa.chunked_array([pa.array([7], pa.int32())])})
        assert found.values == pa.array([7 % number], pa.int64())
