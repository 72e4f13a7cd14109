"""Predicate text from outside: one sentence for anything that is not a predicate, within bounds of time and stack."""

from __future__ import annotations

import ast
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.dialects.dialect import Dialect

from pruner.errors import PredicateError
from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import BoundAnd, BoundOr, InLeaf
from pruner.expr.nodes import And, Compare, Expr, In, Not, Opaque, Or
from pruner.expr.semantics import Engine, Semantics
from pruner.expr.show import show
from pruner.expr.text.dialects import dialect_of, unescape_spark
from pruner.expr.text.scan import PARSED_CHARACTERS, scan
from pruner.expr.text.sql import parse_predicate
from pruner.limits import PREDICATE_TEXT_BYTES
from tests.support.running.profiles import examples
from tests.unit.expr.schemas import table_schema

DUCKDB = Semantics()
ENGINES: list[Engine] = ["duckdb", "spark", "trino"]
SCHEMA = table_schema(pa.schema([("a", pa.int32()), ("b", pa.int64()), ("c", pa.string())]))


def refused(text: str, engine: Engine = "duckdb") -> str:
    with pytest.raises(PredicateError) as caught:
        parse_predicate(text, Semantics.of(engine))
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert len(sentence) < 400
    return sentence


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("(" * 10_000 + "a = 1" + ")" * 10_000, "nested more than 100 deep, at line 1, column 101"),
        ("NOT " * 10_000 + "a = 1", "nested more than 100 deep"),
        ("a = " + "- " * 10_000 + "1", "nested more than 100 deep"),
        ("CASE WHEN " * 10_000, "nested more than 100 deep"),
        ("date(" * 40 + "a" + ")" * 40 + " = 1", "function calls are nested more than 10 deep"),
        ("a = 1 AND b = 'x", "the quote ' is never closed, at line 1, column 15"),
        ("a = 1 AND\nb = 'x", "line 2, column 5"),
        ("a = 1\0", "NUL character at line 1, column 6"),
        ("a = '\0'", "NUL character at line 1, column 6"),
        ("a = '\ud800'", "not valid Unicode"),
        ("", "empty"),
        (" \n\t", "empty"),
        ("a = = 1", "line 1, column 5"),
        ("a = 1 AND\n  b =\n  AND c", "line 3, column 3"),
    ],
)
def test_refusals(engine: Engine, text: str, part: str) -> None:
    assert part in refused(text, engine)


def test_text_that_is_too_long_is_refused_before_anything_else() -> None:
    assert "bytes long and the limit is" in refused("a = '" + "ü" * (PREDICATE_TEXT_BYTES // 2) + "'")


@pytest.mark.slow
def test_long_text_besides_lists_is_refused() -> None:
    assert "besides plain IN lists" in refused(" AND ".join(["a = 1"] * (PARSED_CHARACTERS // 10 + 2)))


@pytest.mark.slow
def test_a_long_list_of_more_than_constants_is_refused() -> None:
    assert "besides plain IN lists" in refused(f"a IN ({', '.join(['1 + 1'] * (PARSED_CHARACTERS // 7))})")


@pytest.mark.slow
@pytest.mark.parametrize("word", ["AND", pytest.param("OR", marks=pytest.mark.load)])
def test_ten_thousand_operands(word: str) -> None:
    found = parse_predicate(f" {word} ".join(f"a = {number}" for number in range(10_000)), DUCKDB)
    assert isinstance(found, And | Or)
    assert len(found.operands) == 10_000
    bound = bind(found, SCHEMA, DUCKDB)
    assert isinstance(bound, BoundAnd | BoundOr)
    assert len(bound.operands) == 10_000


@pytest.mark.slow
def test_ten_thousand_values_are_read_as_fast_as_python_reads_them() -> None:
    text = f"a IN ({', '.join(map(str, range(10_000)))})"
    ours: list[float] = []
    pythons: list[float] = []
    for _ in range(5):
        started = time.process_time()
        bound = bind(parse_predicate(text, DUCKDB), SCHEMA, DUCKDB)
        ours.append(time.process_time() - started)
        assert isinstance(bound, InLeaf)
        assert len(bound.points) == 10_000
        started = time.process_time()
        ast.parse(text.replace("IN", "in"))
        pythons.append(time.process_time() - started)
    assert min(ours) < 4 * min(pythons), "usually as long"


@pytest.mark.load
@pytest.mark.parametrize("engine", ENGINES)
def test_a_million_values(engine: Engine) -> None:
    text = f"a NOT IN ({','.join(map(str, range(1_000_000)))}) AND b = 1"
    found = parse_predicate(text, Semantics.of(engine))
    assert isinstance(found, And)
    excluded = found.operands[0]
    assert isinstance(excluded, Not)
    assert isinstance(excluded.operand, In)
    values = [option.value for option in excluded.operand.options]
    assert values == list(range(1_000_000))


def test_the_place_of_an_error_behind_a_long_list_is_right() -> None:
    text = f"a IN ({', '.join(map(str, range(1000)))})\nAND b IN ({', '.join(map(str, range(1000)))}) AND AND"
    line = text.splitlines()[1]
    assert f"line 2, column {line.rindex('AND') + 1}" in refused(text)


@pytest.mark.parametrize("engine", ENGINES)
def test_long_lists_are_read_as_short_ones_are(engine: Engine) -> None:
    semantics = Semantics.of(engine)
    short = "1, -2, 2.50, 'x', DATE '2020-01-01', 3000000000"
    texts = (f"b IN ({short})", f"b IN ({', '.join([short] * 20)})")
    alone, many = (parse_predicate(text, semantics) for text in texts)
    assert isinstance(alone, In)
    assert isinstance(many, In)
    assert len(scan(texts[0], dialect_of(semantics).tokens).lists) == 0
    assert len(scan(texts[1], dialect_of(semantics).tokens).lists) == 1
    assert many.options == alone.options * 20


@pytest.mark.parametrize("engine", ENGINES)
def test_null_in_a_long_list_is_read_as_in_a_short_one(engine: Engine) -> None:
    semantics = Semantics.of(engine)
    texts = ("b IN (1, 2, NULL)", f"b IN (1, 2, NULL, {', '.join(['2'] * 200)})")
    alone, many = (parse_predicate(text, semantics) for text in texts)
    assert isinstance(alone, In) is isinstance(many, In) is (engine != "trino")
    options = [found.options for found in map(_listed, (alone, many))]
    assert options[1][: len(options[0])] == options[0]
    assert len(options[1]) == len(options[0]) + 200


def _listed(found: Expr) -> In:
    """The first list of a predicate, at any depth."""
    while isinstance(found, And | Or):
        found = found.operands[0]
    assert isinstance(found, In)
    return found


@pytest.mark.parametrize(
    "text",
    [
        f"c = 'b IN ({', '.join(['1'] * 200)})'",
        f"c = 1 /* b IN ({', '.join(['1'] * 200)}) */",
        f"c = 'it''s b IN ({', '.join(['1'] * 200)})'",
        f"c = 1 -- b IN ({', '.join(['1'] * 200)})",
        f"c = $$ b IN ({', '.join(['1'] * 200)}) $$",
        f'"c IN ({", ".join(["1"] * 200)})" = 1',
    ],
)
def test_what_only_looks_like_a_list_is_left_alone(text: str) -> None:
    found = parse_predicate(text, DUCKDB)
    assert isinstance(found, Compare)
    assert scan(text, dialect_of(DUCKDB).tokens).lists == ()


def test_a_function_named_like_the_operator_keeps_its_arguments() -> None:
    found = parse_predicate(f"f.in({', '.join(map(str, range(200)))}) = 1", DUCKDB)
    assert isinstance(found, Compare)
    assert isinstance(found.left, Opaque)
    assert "long_list" not in found.left.text


def test_a_column_named_like_a_placeholder_is_itself() -> None:
    found = parse_predicate(f"a IN (long_list_0) OR b IN ({', '.join(map(str, range(200)))})", DUCKDB)
    assert isinstance(found, Or)
    assert isinstance(found.operands[0], Opaque)
    assert isinstance(found.operands[1], In)
    assert len(found.operands[1].options) == 200


def test_ninety_parentheses_are_no_problem_from_many_threads() -> None:
    text = "(" * 90 + "a = 1" + ")" * 90
    usual = sys.getrecursionlimit()
    with ThreadPoolExecutor(8) as pool:
        found = set(
            pool.map(lambda number: parse_predicate(f"{text} AND b = {number % 3}", DUCKDB), range(64))
        )
    assert len(found) == 3
    assert sys.getrecursionlimit() == usual


def test_equal_text_is_parsed_once() -> None:
    first = parse_predicate("a = 1 AND b > 2", DUCKDB)
    assert parse_predicate("a = 1 AND b > 2", DUCKDB) is first
    assert parse_predicate("a = 1 AND b > 2", Semantics.of("spark")) == first


PIECES = [
    *"()[]{}'\"`,;=<>!-+*/.%_$?:@#\\~|&^ \n",
    *"ab1",
    "1.5",
    "'x'",
    "r'",
    "--",
    "/*",
    "*/",
    "CAST(",
    "AS INT)",
]
WORDS = ["IN", "NOT", "AND", "OR", "CASE", "WHEN", "END", "BETWEEN", "LIKE", "IS", "NULL", "TRUE", "DATE"]


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(
    text=st.lists(st.sampled_from([*PIECES, *WORDS]), max_size=25).map(" ".join) | st.text(max_size=30),
    engine=st.sampled_from(ENGINES),
)
def test_no_text_escapes_as_another_error(text: str, engine: Engine) -> None:
    semantics = Semantics.of(engine)
    try:
        found = parse_predicate(text, semantics)
    except PredicateError:
        return
    assert len(show(found)) <= 300
    bind(found, SCHEMA, semantics, strict=False)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (r"O\'Brien", "O'Brien"),
        (r"\\", "\\"),
        (r"\%\_", r"\%\_"),
        (r"\n\t\r\b\0\Z", "\n\t\r\b\0\x1a"),
        (r"\u00e9\U0001F600", "é😀"),
        (r"\uD83D\uDE00", "😀"),
        (r"\101\q\"", 'Aq"'),
    ],
)
def test_spark_escapes(body: str, value: str) -> None:
    assert unescape_spark(body) == value


def test_a_spark_escape_of_half_a_character_is_refused() -> None:
    assert "escape" in refused(r"c = '\uD83D'", "spark")


@pytest.mark.parametrize("engine", ENGINES)
def test_the_parser_is_taken_as_it_is(engine: Engine) -> None:
    """A compiled parser (`sqlglot[c]`) cannot be subclassed, and a changed class would affect all its users."""
    dialect = dialect_of(Semantics.of(engine))
    assert dialect.parser.parser_class is Dialect.get_or_raise(dialect.name).parser_class
    date_format = parse_predicate(
        "date_format(c, 'YYYY') = '2024' OR strftime(c, '%Y') > '2023'", Semantics.of(engine)
    )
    assert show(date_format) == "date_format(c, 'YYYY') = '2024' OR strftime(c, '%Y') > '2023'"


def test_a_function_that_stays_as_written_is_shown_so() -> None:
    """The report shows an unknown call as it was written."""
    found = parse_predicate("a = 1 OR strftime(c, '%Y') OVER () = '2024'", DUCKDB)
    assert "STRFTIME(c, '%Y') OVER ()" in show(found)
