"""Texts that are read without the SQL parser mean what the parser would make of them."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
import sqlglot
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.tokenizer_core import TokenType

from pruner.errors import PredicateError
from pruner.expr.nodes import Expr
from pruner.expr.semantics import Semantics
from pruner.expr.text import sql
from pruner.expr.text.sql import KEYWORDS, PlainTexts, is_certain, read_plain
from tests.support.running.profiles import IS_BRIEF, examples

DIALECTS = ("duckdb", "spark", "trino")
WORDS = st.sampled_from(
    [
        "a",
        "Event",
        "_x1",
        "and",
        "not",
        "null",
        "true",
        "date",
        "timestamp",
        "current_date",
        "interval",
        "user",
        "case",
        "exists",
        "between",
        "x",
        "b",
        "n",
        "r",
        "u",
        "e",
        "rowid",
        "key",
        "if",
        "any",
        "map",
        "values",
        "cast",
    ]
)
CONSTANTS = st.one_of(
    st.integers(0, 10**19).map(str),
    st.sampled_from(["007", "1.5", "-1", "1e3", "5L", "1_000", "0x1F", "TRUE", "NULL", ".5", "5."]),
    st.text(" abcAND=<>0'\\%_-;/*\"`é", max_size=8).map(lambda text: f"'{text}'"),
)
SPACES = st.sampled_from([" ", "  ", "\n", "\t", "", "/**/", " -- x\n"])
SIGNS = st.sampled_from(["=", "<>", "!=", "<", "<=", ">", ">=", "==", "<=>", " LIKE "])


@st.composite
def comparisons(draw: st.DrawFn) -> str:
    space = draw(SPACES)
    if draw(st.booleans()):
        return f"{draw(WORDS)}{space}{draw(SIGNS)}{space}{draw(CONSTANTS)}"
    return f"{draw(WORDS)}{space}BETWEEN {draw(CONSTANTS)}{space} and {draw(CONSTANTS)}"


TEXTS = st.lists(comparisons(), min_size=1, max_size=3).map(" AND ".join)


def meant(parse: object, text: str, semantics: Semantics) -> Expr | str:
    try:
        return parse(text, semantics)  # type: ignore[operator]
    except PredicateError as error:
        return str(error)


@settings(max_examples=examples(300))
@given(text=TEXTS, other=TEXTS, dialect=st.sampled_from(DIALECTS))
def test_texts_mean_what_the_parser_makes_of_them(text: str, other: str, dialect: str) -> None:
    """Whatever was read before: `other` may have registered a shape."""
    semantics = Semantics.of(dialect)
    for each in (other, text):
        assert meant(sql.parse_predicate, each, semantics) == meant(sql._parse, each, semantics)


@settings(max_examples=examples(300))
@given(
    word=WORDS,
    sign=SIGNS,
    first=CONSTANTS,
    second=CONSTANTS,
    dialect=st.sampled_from(DIALECTS),
)
def test_a_shape_says_all_but_the_constants(
    word: str, sign: str, first: str, second: str, dialect: str
) -> None:
    semantics = Semantics.of(dialect)
    texts = [f"{word} {sign} {constant} AND y BETWEEN 1 AND {constant}" for constant in (first, second)]
    read = [read_plain(text, semantics.traits) for text in texts]
    parsed = [meant(sql._parse, text, semantics) for text in texts]
    if read[0] is not None and read[1] is not None and read[0].shape == read[1].shape:
        same = [each.expression == tree for each, tree in zip(read, parsed, strict=True) if each]
        assert same in ([True, True], [False, False])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_parser_is_asked_once_for_each_shape(dialect: str) -> None:
    semantics, texts = Semantics.of(dialect), PlainTexts()
    asked: list[str] = []

    def parsed(text: str) -> Expr:
        def parse() -> Expr:
            asked.append(text)
            return sql._parse(text, semantics)

        return texts.parse(text, semantics, parse)

    for constant in (5, 6, 7):
        text = f"carrier = 'A{constant}'  and  event BETWEEN {constant} AND 9"
        assert parsed(text) == sql._parse(text, semantics)
    assert len(asked) == 1
    parsed("carrier = 5 AND event BETWEEN 5 AND 9")
    assert len(asked) == 2, "a number is not a text"


@pytest.mark.slow
def test_shapes_that_never_come_again_do_not_stay_in_the_way() -> None:
    """A service that gets the time with each statement, and many handwritten statements."""
    texts, usual = PlainTexts(), Semantics.of("duckdb")
    asked: list[str] = []

    def parse(text: str, now: int | None) -> None:
        semantics = replace(usual, now=now)

        def parsed() -> Expr:
            asked.append(text)
            return sql._parse(text, semantics)

        assert texts.parse(text, semantics, parsed) == sql._parse(text, semantics)

    for now in (None, 1, 2, 3):
        parse(f"x = {now or 0}", now)
    assert len(asked) == 1
    for number in range(sql._SHAPES + 10):
        parse(f"x{number} = 1", None)
    asked.clear()
    parse("y = 1", None)
    parse("y = 2", None)
    assert asked == ["y = 1"]
    assert len(texts._understood) <= sql._SHAPES


NOT_PLAIN = """
a = 'it''s'|a = 'b\\'|a = 1.5|a = 5L|a = 1 -- b|a = 1;|a = b|NOT a = 1|a = 1 OR b = 2|(a = 1)|a.b = 1|"a" = 1|a = 'é'
a = 1AND b = 2|a = -1|a = 1 AND|AND a = 1||a IN (1)|a = '\t'
"""


@pytest.mark.parametrize(
    "text", [each for line in NOT_PLAIN.strip().splitlines() for each in line.split("|")]
)
def test_anything_else_is_for_the_parser(text: str) -> None:
    assert read_plain(text, Semantics.of("duckdb").traits) is None


def test_what_the_parser_makes_something_else_of_stays_with_it() -> None:
    """`current_date` looks like a column."""
    semantics, texts = Semantics.of("duckdb"), PlainTexts()
    for constant in ("'2024-01-01'", "'2024-01-02'"):
        text = f"current_date = {constant}"
        found = texts.parse(text, semantics, lambda text=text: sql._parse(text, semantics))
        read = read_plain(text, semantics.traits)
        assert read is not None
        assert found == sql._parse(text, semantics) != read.expression


def test_errors_are_the_parsers() -> None:
    with patch.object(sql, "_plain_texts", PlainTexts()), pytest.raises(PredicateError):
        sql.parse_predicate("a = 1 AND not = 2", Semantics.of("duckdb"))


@cache
def words_of_the_parser() -> frozenset[str]:
    """Every quoted word in the parser's source, and the words in the names of its functions, tokens and keywords."""
    texts = [path.read_text("utf-8") for path in Path(str(sqlglot.__file__)).parent.rglob("*.py")]
    quoted = [word for text in texts for word in re.findall(r'"([A-Za-z_][A-Za-z0-9_ ]*)"', text)]
    functions = [name for function in exp.ALL_FUNCTIONS for name in function.sql_names()]
    words = [*quoted, *functions, *TokenType.__members__, *keywords_of_the_parser()]
    return frozenset(word for each in words for word in each.upper().split() if not word[0].isdigit())


def keywords_of_the_parser() -> frozenset[str]:
    keywords = [each for name in DIALECTS for each in Dialect.get_or_raise(name).tokenizer_class.KEYWORDS]
    return frozenset(
        word for each in keywords for word in each.upper().split() if re.fullmatch(r"[A-Z_]\w*", word)
    )


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_words_that_are_no_keywords_are_columns_to_the_parser(dialect: str) -> None:
    semantics = Semantics.of(dialect)
    free = sorted(words_of_the_parser() - KEYWORDS)
    assert len(free) > 3000
    for word in free[:: 8 if IS_BRIEF else 1]:
        for text in (f"{word} = 'x'", f"{word.lower()} BETWEEN 1 AND 5 AND a <> 5 AND {word} < 'a'"):
            read = read_plain(text, semantics.traits)
            assert read is not None
            assert is_certain(read)
            assert read.expression == sql._parse(text, semantics)


def test_all_keywords_of_the_parser_are_known() -> None:
    assert keywords_of_the_parser() <= KEYWORDS
    for word in KEYWORDS:
        read = read_plain(f"a = 1 AND {word.title()} > 1", Semantics.of("duckdb").traits)
        assert read is None or not is_certain(read)


@settings(max_examples=examples(300))
@given(
    words=st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,9}", fullmatch=True), min_size=1, max_size=3),
    constant=CONSTANTS,
    dialect=st.sampled_from(DIALECTS),
)
def test_any_words_mean_what_the_parser_makes_of_them(words: list[str], constant: str, dialect: str) -> None:
    semantics = Semantics.of(dialect)
    text = " AND ".join(f"{word} >= {constant}" for word in words)
    assert meant(sql.parse_predicate, text, semantics) == meant(sql._parse, text, semantics)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("dialect", "space"), list(product(DIALECTS, " \t\n\r\v\f")))
def test_any_space_parts_words(dialect: str, space: str) -> None:
    semantics = Semantics.of(dialect)
    for text in ("a = 1 AND b < 'x'", "a BETWEEN 1 AND 12345678901 AND b = 007"):
        spaced = text.replace(" ", space)
        assert meant(sql.parse_predicate, spaced, semantics) == meant(sql._parse, spaced, semantics)


def test_an_engine_without_sql_is_given_no_text() -> None:
    with pytest.raises(PredicateError, match="has no SQL"):
        sql.parse_predicate("a = 1", Semantics.of("polars"))
