"""Comparisons and LIKE patterns on text, binary and boolean columns, with DuckDB as the oracle."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.expr.bound.predicates import BoundExpr, CompareLeaf, NotNullLeaf, Point, PrefixLeaf, Unknown
from pruner.expr.exact.patterns import Pattern, split_pattern
from pruner.expr.nodes import Operator
from tests.support.running.profiles import examples
from tests.unit.expr.duckdb.duckdb_oracle import bound, check

OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
TEXTS = st.text(st.sampled_from([*"aAbz%_\\!' éß€😀\uffff\x01\n"]), max_size=4)
BYTES = st.binary(max_size=4)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.slow
@settings(max_examples=examples(300))
@given(data=st.data())
def test_comparisons_of_text(data: st.DataObject) -> None:
    texts = data.draw(st.lists(TEXTS, min_size=1, max_size=8))
    values = [text.encode() for text in texts]
    literal = quoted(data.draw(st.sampled_from(texts) | TEXTS))
    other = quoted(data.draw(TEXTS))
    predicate = data.draw(
        st.sampled_from(
            [
                f"c {data.draw(OPERATORS)} {literal}",
                f"c IN ({literal}, {other}, NULL)",
                f"c BETWEEN {literal} AND {other}",
            ]
        )
    )
    assert check(predicate, [*values, None], pa.string()) is True


@pytest.mark.sampled(2)
@pytest.mark.parametrize("function", ["upper", "lower"])
@pytest.mark.parametrize(
    "condition", ["LIKE '6%'", "LIKE '6'", "LIKE '-%'", "LIKE '60%'", "LIKE 'k%'", "= '6'", "= '6S'"]
)
def test_the_case_of_the_text_of_a_number(function: str, condition: str) -> None:
    check(f"{function}(CAST(c AS VARCHAR)) {condition}", [6, 7, 60, 61, 606, -6, None], pa.int32())


@settings(max_examples=examples(400))
@given(data=st.data())
def test_patterns(data: st.DataObject) -> None:
    pattern = data.draw(TEXTS)
    escape = data.draw(st.sampled_from(["", " ESCAPE '!'", " ESCAPE '\\'", " ESCAPE ''", " ESCAPE 'a'"]))
    start = pattern.replace("%", "").replace("_", "b").replace("!", "")
    values = [
        text.encode()
        for text in [*data.draw(st.lists(TEXTS, max_size=6)), pattern, start, start + "x", start[:1]]
    ]
    negated = data.draw(st.sampled_from(["", "NOT "]))
    check(f"c {negated}LIKE {quoted(pattern)}{escape}", [*values, None], pa.string())


@settings(max_examples=examples(100))
@given(values=st.lists(BYTES, min_size=1, max_size=6), literal=BYTES, operator=OPERATORS)
def test_comparisons_of_bytes(values: list[bytes], literal: bytes, operator: str) -> None:
    assert check(f"c {operator} x'{literal.hex()}'", [*values, literal, None], pa.binary()) is True
    escaped = "".join(f"\\x{byte:02X}" for byte in literal)
    assert check(f"c {operator} '{escaped}'::BLOB", [*values, literal, None], pa.binary()) is True


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "predicate",
    [
        "c",
        "NOT c",
        "c = true",
        "c <> false",
        "c > false",
        "c IS TRUE",
        "c IS NOT TRUE",
        "c IS FALSE",
        "c IS NOT FALSE",
        "c = 'true'",
        "c IN (true, NULL)",
        "c IS NULL",
        "c IS NOT NULL",
        "c IS DISTINCT FROM true",
        "c IS NOT DISTINCT FROM NULL",
        "(c IS TRUE) IS NOT FALSE",
    ],
)
def test_booleans(predicate: str) -> None:
    assert check(predicate, [True, False, None], pa.bool_()) is True


@pytest.mark.parametrize("predicate", ["c = 1", "c > 0", "c = 't'"])
def test_booleans_next_to_other_types_claim_nothing(predicate: str) -> None:
    assert check(predicate, [True, False, None], pa.bool_()) is False


def leaf(predicate: str) -> BoundExpr:
    return bound(predicate, pa.string())


@pytest.mark.parametrize(
    ("predicate", "prefix", "whole"),
    [
        ("c LIKE 'abc%'", b"abc", True),
        ("c LIKE 'abc%%'", b"abc", True),
        ("c LIKE 'abc%d'", b"abc", False),
        ("c LIKE 'ab_c'", b"ab", False),
        ("c LIKE 'ab!%c%' ESCAPE '!'", b"ab%c", True),
        ("c LIKE 'ab!_!!%' ESCAPE '!'", b"ab_!", True),
        ("c LIKE 'ß€😀%'", "ß€😀".encode(), True),
        ("c LIKE 'a\\%'", b"a\\", True),
    ],
)
def test_prefixes(predicate: str, prefix: bytes, whole: bool) -> None:
    found = leaf(predicate)
    assert isinstance(found, PrefixLeaf)
    assert (found.prefix, found.whole) == (prefix, whole)


@pytest.mark.parametrize(
    ("predicate", "text"), [("c LIKE ''", b""), ("c LIKE 'ab'", b"ab"), ("c LIKE '!%' ESCAPE '!'", b"%")]
)
def test_a_pattern_without_wildcards_is_an_equality(predicate: str, text: bytes) -> None:
    found = leaf(predicate)
    assert isinstance(found, CompareLeaf)
    assert (found.operator, found.point) == (Operator.EQ, Point(text, text))


@pytest.mark.parametrize("predicate", ["c LIKE '%'", "c LIKE '%%%'"])
def test_a_pattern_of_percents_is_true_unless_null(predicate: str) -> None:
    found = leaf(predicate)
    assert isinstance(found, NotNullLeaf)
    assert found.value


@pytest.mark.parametrize(
    "predicate",
    [
        "c LIKE '%a'",
        "c LIKE '_a'",
        "c ILIKE 'a%'",
        "c SIMILAR TO 'a|b'",
        "c SIMILAR TO '(a)'",
        "c LIKE 'a!' ESCAPE '!'",
        "c LIKE 'a!b%' ESCAPE '!'",
        "c LIKE 'ab%!' ESCAPE '!'",
        "c LIKE 'a%%' ESCAPE '%'",
        "c LIKE 'a%' ESCAPE 'xy'",
        "c LIKE c",
        "c COLLATE NOCASE = 'a'",
    ],
)
def test_patterns_that_nothing_is_concluded_from(predicate: str) -> None:
    assert isinstance(leaf(predicate), Unknown)


def test_pattern_parts() -> None:
    assert split_pattern("a%b", None) == Pattern("a", "%b")
    assert split_pattern("a\\%b", None) == Pattern("a\\", "%b")
    assert split_pattern("a\\%b", "\\") == Pattern("a%b", "")
