"""Traps in what a predicate means for a column: L3, L4, L5, L9, L11, L12, N4, and the literals of S6, S12, S14 and S18.

Each test requires two things of the bound predicate: that it leaves possible what an engine answers (soundness),
and that it excludes what can be excluded (power).
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pruner.errors import PredicateError
from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import BoundExpr, CompareLeaf, PrefixLeaf, Unknown
from pruner.expr.semantics import Engine, Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.expr.types import Unit
from pruner.schema import Field, TableSchema
from tests.unit.expr.duckdb.duckdb_oracle import check
from tests.unit.expr.outcomes import ANYTHING, outcomes
from tests.unit.expr.schemas import table_schema

ENGINES: list[Engine] = ["duckdb", "spark", "trino"]


def bound(predicate: str, data_type: pa.DataType, semantics: Semantics | None = None) -> BoundExpr:
    rules = semantics or Semantics()
    return bind(parse_predicate(predicate, rules), TableSchema((Field(("c",), data_type),)), rules)


def possible(
    predicate: str, data_type: pa.DataType, value: Any, engine: Engine = "duckdb"
) -> frozenset[bool | None]:
    return outcomes(bound(predicate, data_type, Semantics.of(engine)), value)


@pytest.mark.parametrize("engine", ENGINES)
def test_l3_negations_and_lists_with_null(engine: Engine) -> None:
    """L3: `!=`, NOT IN, NOT (a AND b) with NULLs; NULL inside an IN list (lance#4756, iceberg#7886, trino#30087)."""
    integer = pa.int32()
    assert possible("c <> 1", integer, None, engine) == {None}
    assert possible("c NOT IN (1, NULL)", integer, 2, engine) == {None}
    assert possible("c NOT IN (1, NULL)", integer, 1, engine) == {False}
    assert possible("c IN (1, NULL)", integer, 1, engine) == {True}
    assert possible("c IN (1, NULL)", integer, 2, engine) == {None}
    assert possible("c NOT IN (1, 2)", integer, 3, engine) == {True}
    assert possible("NOT (c > 1 AND c IS NULL)", integer, None, engine) == {None}
    assert possible("NOT (c = 1 AND NULL)", integer, 2, engine) == {True}
    assert possible("NOT (c = 1 AND NULL)", integer, 1, engine) == {None}
    for predicate in ("c NOT IN (1, NULL)", "NOT (c <> 1 AND c < 5)", "c IN (NULL)", "NOT (c = 1 OR NULL)"):
        assert check(predicate, [None, 0, 1, 2, 7], integer) is True


def test_l4_prefixes_and_escapes() -> None:
    """L4: LIKE 'p%' where a minimum lies below the prefix; LIKE with escapes; NOT LIKE (hudi#18791)."""
    text = pa.string()
    leaf = bound("c LIKE 'ab%'", text)
    assert isinstance(leaf, PrefixLeaf)
    assert leaf.prefix == b"ab"
    assert possible("c LIKE 'ab%'", text, b"aa") == {False}
    assert possible("c NOT LIKE 'ab%'", text, b"abc") == {False}
    assert possible("c NOT LIKE 'ab%'", text, None) == {None}
    # Without ESCAPE a backslash is literal in DuckDB and Trino, and an escape in Spark.
    assert possible(r"c LIKE 'a\%'", text, b"a\\x") == {True}
    assert possible(r"c LIKE 'a\%'", text, b"a\\x", "trino") == {True}
    assert possible(r"c LIKE 'a\%'", text, b"a\\x", "spark") == {False}
    assert possible(r"c LIKE 'a\%'", text, b"a%", "spark") == {True}
    # The part after a wildcard may not match: a NOT LIKE must keep such values.
    assert possible("c NOT LIKE 'a%z'", text, b"ab") == {True, False}
    for predicate in ("c LIKE 'a!%%' ESCAPE '!'", "c NOT LIKE 'a_c'", "c LIKE 'a%z'", "c LIKE 'é%'"):
        assert check(predicate, [b"a%", b"a%b", b"abc", b"az", b"", "éa".encode(), None], text) is True


def test_l5_a_narrowing_cast_speaks_of_values_that_fit_alone() -> None:
    """L5: values outside the narrower type wrap, fail or become NULL, so nothing is known of them."""
    anything = {True, False, None}
    assert possible("CAST(c AS INT) = 1", pa.int64(), 4294967297) == anything
    assert possible("CAST(c AS INT) = 1", pa.int64(), 1) == {True}
    assert possible("CAST(c AS SMALLINT) < 5", pa.int32(), 65536) == anything
    assert possible("CAST(c AS SMALLINT) < 5", pa.int32(), 5) == {False}
    assert possible("c + 1 > 0", pa.int32(), 2**31 - 1) == anything


@pytest.mark.parametrize("engine", ENGINES)
def test_l5_a_narrowing_cast_is_not_undone(engine: Engine) -> None:
    """L5: a narrowing cast treated as order-preserving: `cast(4294967297 as int) = 1` (hudi#19445)."""
    narrowing = [
        (pa.float64(), "CAST(c AS INT) = 1"),
        (pa.float64(), "CAST(c AS REAL) = 1"),
        (pa.decimal128(9, 2), "CAST(c AS DECIMAL(9, 1)) = 1.5"),
        (pa.decimal128(9, 2), "CAST(c AS DECIMAL(4, 2)) = 1.5"),
        (pa.decimal128(9, 2), "CAST(c AS INT) = 1"),
        (pa.int32(), "CAST(c AS DECIMAL(9, 2)) = 1"),
        (pa.timestamp("ns"), "CAST(c AS DATE) = DATE '2020-01-01'"),
        (pa.string(), "CAST(c AS INT) = 1"),
        (pa.decimal128(9, 2), "CAST(c AS VARCHAR(5)) = '1'"),
    ]
    for data_type, predicate in narrowing:
        assert isinstance(bound(predicate, data_type, Semantics.of(engine)), Unknown), predicate
    widening = [
        (pa.int32(), "CAST(c AS BIGINT) = 1"),
        (pa.int32(), "CAST(c AS DOUBLE) = 1e0"),
        (pa.float32(), "CAST(c AS DOUBLE) = 1e0"),
        (pa.int32(), "CAST(c AS DECIMAL(12, 2)) = 1"),
        (pa.decimal128(9, 2), "CAST(c AS DECIMAL(12, 4)) = CAST('1.5' AS DECIMAL(3, 1))"),
    ]
    for data_type, predicate in widening:
        assert isinstance(bound(predicate, data_type, Semantics.of(engine)), CompareLeaf), predicate


def test_l9_literals_of_another_type() -> None:
    """L9: float literal against an int column, text against a date, out of range (questdb#7320, paimon#4631)."""
    assert possible("c > 1.5", pa.int32(), 1) == {False}
    assert possible("c > 1.5", pa.int32(), 2) == {True}
    assert possible("c = 1.5", pa.int32(), 1) == {False}
    assert possible("c < 3000000000", pa.int32(), 2**31 - 1) == {True}
    assert possible("c = 4294967297", pa.int32(), 1) == {False}
    assert possible("c > -1e300", pa.int64(), -(2**63)) == {True}
    assert possible("c = 9007199254740992e0", pa.int64(), 2**53 + 1) == {True}
    assert possible("c = 9007199254740992", pa.int64(), 2**53 + 1) == {False}
    assert possible("c = 0.1", pa.float32(), pa.scalar(0.1, pa.float32()).as_py()) == {True}
    assert possible("c = 0.1e0", pa.float32(), pa.scalar(0.1, pa.float32()).as_py()) == {False}
    assert possible("c >= '2020-01-01'", pa.date32(), 18262) == {True}
    assert possible("c >= '2020-01-01'", pa.date32(), 18261) == {False}
    with pytest.raises(PredicateError, match="cannot be compared with 'abc'"):
        bound("c = 'abc'", pa.int32())
    for predicate in (
        "c < 9223372036854775808",
        "c >= 1e19",
        "c = 9223372036854775807e0",
        "c > 9223372036854775806.5",
    ):
        assert check(predicate, [2**63 - 1, 2**63 - 2, -(2**63), 0, None], pa.int64()) is True


def test_l11_a_literal_that_cannot_be_converted_is_only_unknown_to_adapters() -> None:
    """L11: speculative evaluation fails for rows that the query would never touch (ClickHouse#112231)."""
    schema = TableSchema((Field(("c",), pa.int32()),))
    rules = Semantics()
    expression = parse_predicate("c > 5 AND c = 'abc'", rules)
    kept = bind(expression, schema, rules, strict=False)
    assert outcomes(kept, 1) == {False}
    assert True in outcomes(kept, 6)


def test_l12_collation() -> None:
    """L12: collation and case-insensitive comparison (delta#3068, trino#8655)."""
    nocase = replace(Semantics(), collation="nocase")
    for predicate in ("c = 'a'", "c < 'a'", "c IN ('a')", "c LIKE 'a%'", "NOT c = 'a'"):
        assert outcomes(bound(predicate, pa.string(), nocase), b"A") == ANYTHING
        assert outcomes(bound(predicate, pa.string()), b"A") != ANYTHING


NAMES = [
    "a.b",
    "UPPER",
    "two words",
    "cost$",
    'say "hi"',
    "it's",
    "back`tick",
    "Größe",
    "価格",
    "a.b.c",
    "select",
    "1st",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("engine", ENGINES)
def test_n4_odd_names(engine: Engine, name: str) -> None:
    """N4: names with dots, upper case, spaces, `$`, a quote, another script (SPARK-25207, delta#6247, hudi#5804)."""
    quote = "`" if engine == "spark" else '"'
    quoted = quote + name.replace(quote, quote * 2) + quote
    # A path of the same name is beside it: the column `a.b` is not field b of a.
    schema = table_schema(
        pa.schema(
            [
                ("a", pa.struct([("b", pa.struct([("c", pa.int64())]))])),
                (name, pa.int32()),
                ("other", pa.int32()),
            ]
        )
    )
    rules = Semantics.of(engine)
    for operand in (quoted, f"({quoted})", f"CAST({quoted} AS BIGINT)"):
        leaf = bind(parse_predicate(f"{operand} = 1", rules), schema, rules)
        assert isinstance(leaf, CompareLeaf)
        assert leaf.field.path == (name,)


@pytest.mark.parametrize("engine", ENGINES)
def test_n4_nested_names(engine: Engine) -> None:
    """N4: nested fields by path, whose names contain dots and quotes."""
    quote = "`" if engine == "spark" else '"'
    schema = table_schema(
        pa.schema([("a", pa.struct([("b", pa.int32()), ("x.y", pa.int32())])), ("a.b", pa.int64())])
    )
    rules = Semantics.of(engine)
    paths = {
        "a.b": ("a", "b"),
        f"a.{quote}x.y{quote}": ("a", "x.y"),
        f"{quote}a.b{quote}": ("a.b",),
        "A.B": ("a", "b"),
    }
    for text, path in paths.items():
        leaf = bind(parse_predicate(f"{text} = 1", rules), schema, rules)
        assert isinstance(leaf, CompareLeaf)
        assert leaf.field.path == path


@pytest.mark.sampled(2)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("literal", ["-0.0", "0.0", "0", "-0e0", "0e0"])
def test_s6_signed_zero(engine: Engine, literal: str) -> None:
    """S6: -0.0 and +0.0 are equal (databend#20520, duckdb#24005, iceberg-rust#2398)."""
    for data_type in (pa.float32(), pa.float64()):
        leaf = bound(f"c = {literal}", data_type, Semantics.of(engine))
        assert isinstance(leaf, CompareLeaf)
        assert math.copysign(1, float(leaf.point.low or 0)) == 1
        for value in (0.0, -0.0):
            assert outcomes(leaf, value) == {True}
        assert outcomes(leaf, 1.0) == {False}
    assert check(f"c = {literal}", [0.0, -0.0, 1.0, None], pa.float64()) is True
    assert check(f"c < {literal}", [0.0, -0.0, 1.0, None], pa.float64()) is True


def test_s12_units_of_timestamps() -> None:
    """S12: maxima truncated to milliseconds, millis labeled micros (delta#7444, hudi#14161)."""
    literal = "TIMESTAMP '2020-01-01 00:00:00.123456'"
    second = 18262 * 86400
    assert possible(f"c >= {literal}", pa.timestamp("ms"), second * 1000 + 123) == {False}
    assert possible(f"c >= {literal}", pa.timestamp("ms"), second * 1000 + 124) == {True}
    assert possible(f"c = {literal}", pa.timestamp("ms"), second * 1000 + 123) == {False}
    assert possible(f"c = {literal}", pa.timestamp("us"), second * 10**6 + 123456) == {True}
    assert possible(f"c = {literal}", pa.timestamp("ns"), second * 10**9 + 123456000) == {True}
    assert possible(f"c <= {literal}", pa.timestamp("ns"), second * 10**9 + 123456001) == {False}
    units: list[tuple[Unit, int]] = [("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)]
    for unit, per_second in units:
        stored = second * per_second + per_second * 123456 // 10**6
        assert check(f"c <= {literal}", [stored - 1, stored, stored + 1, None], pa.timestamp(unit)) is True


def test_s14_before_1970() -> None:
    """S14: transforms before 1970 floor and do not truncate (iceberg#1680, trino#5273)."""
    assert possible("c < TIMESTAMP '1969-12-31 12:00:00'", pa.date32(), -1) == {True}
    assert possible("c < TIMESTAMP '1969-12-31 12:00:00'", pa.date32(), 0) == {False}
    assert possible("c <= TIMESTAMP '1969-12-31 23:59:59.5'", pa.timestamp("s"), -1) == {True}
    assert possible("c <= TIMESTAMP '1969-12-31 23:59:59.5'", pa.timestamp("s"), 0) == {False}
    assert possible("c = DATE '1969-12-31'", pa.date32(), -1) == {True}
    for predicate in (
        "c < TIMESTAMP '1969-12-31 12:00:00'",
        "c >= TIMESTAMP '1960-02-29 00:00:01'",
        "c = '1969-12-31'",
    ):
        assert check(predicate, [-1, 0, 1, -2, -3594, -3593, None], pa.date32()) is True


def test_s18_an_engine_that_rounds_timestamps_on_read() -> None:
    """S18: Trino's Hive connector reads milliseconds, so that .9996 is the next second there."""
    rules = replace(Semantics.of("trino"), timestamp_unit="ms")
    leaf = bound("c >= TIMESTAMP '2020-01-01 00:00:01'", pa.timestamp("us"), rules)
    second = (18262 * 86400 + 1) * 10**6
    assert True in outcomes(leaf, second - 400)
    assert outcomes(leaf, second - 2000) == {False}
    assert outcomes(leaf, second + 2000) == {True}
