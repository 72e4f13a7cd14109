"""The text of filters in EXPLAIN, parsed into what the plugin would send, and shown in the expression form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.expr.nodes import And, Expr, Opaque
from pruner.expr.show import show
from pruner_trino.expressions import Expressions
from pruner_trino.filter_text import read_filter
from pruner_trino.messages import ScanColumn, TrinoNode
from tests.unit.trino.test_trino_decode import marked

TYPES = {"n": "integer", "n_0": "integer", "x": "double", "s": "varchar", "fixed": "char(3)", "b": "boolean"}
TYPES |= {"ts": "timestamp(6)", "day": "date", "path": "varchar"}
COLUMNS = {
    symbol: ScanColumn([symbol.removesuffix("_0")], type_, "hidden" if symbol == "path" else "regular")
    for symbol, type_ in TYPES.items()
}


def decoded(text: str) -> Expr:
    node: TrinoNode = read_filter(text, TYPES)
    return Expressions(COLUMNS).predicate(node)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(integer '42' < n_0)", "n > 42"),
        ("((integer '42' < n) AND (x <> double '5.0'))", "n > 42 AND x != 5.0"),
        ("(n IN (integer '1', integer '2'))", "n IN (1, 2)"),
        ("(n BETWEEN integer '1' AND integer '9')", "n >= 1 AND n <= 9"),
        ("((s IS NULL) OR (s = varchar 'it's'))", "s IS NULL OR s = 'it''s'"),
        ("$like(s, LikePattern '[na!%%][!]')", "s LIKE 'na!%%' ESCAPE '!'"),
        ("$like(s, LikePattern '[a]b%]')", "s LIKE 'a]b%'"),
        ("(fixed = char(3) 'a  ')", "fixed = 'a' OR (fixed LIKE 'a%' AND ?(padded = 'a': …))"),
        ("(b = boolean 'true')", "b = true"),
        ("$not((x IS NULL))", "NOT (x IS NULL)"),
        ("(n = null::integer)", "NULL"),
        ("(timestamp(6) '1970-02-01 00:00:00.500000' < ts)", "ts > 1970-02-01 00:00:00.500000"),
        ("(day <= date '1970-03-31')", "day <= 1970-03-31"),
        ("(CAST(n AS bigint) = bigint '5')", "CAST(n AS int64) = 5"),
        ("(n ≡ integer '5')", "n = 5 AND NOT (n IS NULL)"),
        ("((n = integer '5') AND $like(path, LikePattern '[%x]'))", "n = 5 AND ?($like(path): …)"),
        ("((n = integer '5') AND (CASE WHEN b THEN b ELSE (n = n_0) END))", "n = 5 AND ?(CASE WHEN b …: …)"),
        ("((n = integer '5') AND (random() < double '0.1'))", "n = 5 AND ?($less_than(): …)"),
        ("((n = integer '5') AND (x < y))", "n = 5 AND ?(x < y: …)"),
        ("(n = integer '99999999999')", "n = ?(a integer: …)"),
        ("(n = integer 'x')", "n = ?(integer 'x': …)"),
        ("n = integer '5'", "?(n = integer '5': …)"),
        ("(n = integer '5') AND (n = integer '6')", "?((n = integer '5')…: …)"),
        ("(n = integer '5'", "?((n = integer '5': …)"),
        ("(n → integer '5')", "?((n → integer '5'): …)"),
        ("", "?(: …)"),
    ],
)
def test_a_filter_of_explain_comes_to(text: str, expected: str) -> None:
    """`…` stands for anything, reasons above all."""
    parts = expected.split("…")
    shown = show(marked(decoded(text)))
    position = 0
    for part in parts:
        found = shown.find(part, position)
        assert found >= 0, shown
        position = found + len(part)
    assert shown.startswith(parts[0])
    assert shown.endswith(parts[-1])


def test_deep_filters_are_opaque_from_where_they_are_too_deep() -> None:
    """The parts beside them keep their meaning."""
    found = decoded(f"((n = integer '5') AND {'$not(' * 5000}b{')' * 5000})")
    assert isinstance(found, And)
    assert show(found.operands[0]) == "n = 5"


PIECES = [
    "(",
    ")",
    " AND ",
    " OR ",
    " IN ",
    " IS NULL",
    " = ",
    "n",
    "s",
    "CAST(",
    " AS ",
    "integer '5'",
    "varchar '",
]
PIECES += [
    "'",
    ", ",
    "$not(",
    "$like(",
    "LikePattern '[",
    "]'",
    "null::integer",
    " ",
    "CASE",
    "≡",
    " BETWEEN ",
]


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=30).map("".join))
def test_no_text_is_an_error(text: str) -> None:
    """Any content is read, or opaque."""
    assert isinstance(decoded(text), Expr)


@given(st.text(max_size=200))
def test_text_that_is_no_filter_is_opaque(text: str) -> None:
    """Nothing is guessed about it."""
    found = decoded("? " + text)
    assert isinstance(found, Opaque)
