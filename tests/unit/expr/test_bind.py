"""Binding nodes as adapters pass them: strictness, names, conflicts, bounds, session settings."""

from __future__ import annotations

import datetime
from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pytest

from pruner.errors import PredicateError, SchemaError
from pruner.expr.binding.bind import bind
from pruner.expr.bound.predicates import (
    BoundAnd,
    BoundExpr,
    BoundNot,
    BoundOr,
    CompareLeaf,
    InLeaf,
    IsNullLeaf,
    NotNullLeaf,
    Point,
    Unknown,
)
from pruner.expr.nodes import (
    FALSE,
    NULL,
    TRUE,
    And,
    Call,
    Column,
    Compare,
    Constant,
    Expr,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Opaque,
    Operator,
    Or,
)
from pruner.expr.semantics import NanOrder, Semantics
from pruner.expr.show import describe, show
from pruner.expr.text.sql import parse_predicate
from pruner.schema import Field, TableSchema
from tests.unit.expr.outcomes import outcomes
from tests.unit.expr.schemas import table_schema

DUCKDB = Semantics()
SPARK = Semantics.of("spark")
SCHEMA = table_schema(
    pa.schema(
        [
            ("n", pa.int32()),
            ("big", pa.int64()),
            ("x", pa.float64()),
            ("s", pa.string()),
            ("d", pa.date32()),
            ("ts", pa.timestamp("us")),
            ("price", pa.decimal128(9, 2)),
            ("Name", pa.int32()),
            ("list", pa.list_(pa.int32())),
        ]
    )
)
N = Column(("n",))
ONE = Literal(1, pa.int32())
N_IS_ONE = Compare(Operator.EQ, N, ONE)
DATE_FAR = Literal(5_000_000, pa.date32())


def bound_of(node: Expr, semantics: Semantics = DUCKDB, *, strict: bool = False) -> BoundExpr:
    return bind(node, SCHEMA, semantics, strict=strict)


def point_of(node: BoundExpr) -> Point:
    assert isinstance(node, CompareLeaf)
    return node.point


@pytest.mark.parametrize(
    "node",
    [
        Compare(Operator.EQ, Column(("nosuch",)), ONE),
        Compare(Operator.EQ, Column(("n", "part")), ONE),
        IsNull(Column(("nosuch",))),
        In(Column(("nosuch",)), (ONE,)),
        Like(Column(("nosuch",)), "a%"),
        Compare(Operator.EQ, N, Column(("nosuch",))),
    ],
)
def test_an_unknown_column_is_an_error_for_people_and_unknown_for_adapters(node: Expr) -> None:
    assert isinstance(bound_of(node), Unknown)
    with pytest.raises(SchemaError, match="no column"):
        bound_of(node, strict=True)


@pytest.mark.parametrize(
    "node",
    [
        Compare(Operator.EQ, N, Literal("abc", pa.string())),
        Compare(Operator.EQ, Column(("s",)), ONE),
        Compare(Operator.GT, Column(("d",)), ONE),
        In(N, (Literal("abc", pa.string()),)),
    ],
)
def test_a_mismatch_is_an_error_for_people_and_unknown_for_adapters(node: Expr) -> None:
    assert isinstance(bound_of(node), Unknown)
    with pytest.raises(PredicateError, match=r"column '.' of type \S+ cannot be compared with"):
        bound_of(node, strict=True)


def test_a_column_about_which_files_disagree_is_unknown() -> None:
    schema = TableSchema((Field(("n",), pa.int32(), conflict="int32 in a.parquet, string in b.parquet"),))
    for node in (
        N_IS_ONE,
        IsNull(N),
        In(N, (ONE,)),
        Compare(Operator.EQ, Call("cast", (N,), pa.int64()), ONE),
    ):
        bound = bind(node, schema, DUCKDB)
        assert isinstance(bound, Unknown)
        assert "string in b.parquet" in bound.reason


def test_names_follow_the_sessions_case_rule() -> None:
    node = Compare(Operator.EQ, Column(("NAME",)), ONE)
    assert isinstance(bound_of(node), CompareLeaf)
    assert isinstance(bound_of(node, replace(SPARK, case_sensitive=True)), Unknown)
    exact = Compare(Operator.EQ, Column(("Name",)), ONE)
    assert isinstance(bound_of(exact, replace(SPARK, case_sensitive=True)), CompareLeaf)


def test_a_literal_on_the_left_changes_the_operators_side() -> None:
    mirrored = {operator: operator.mirrored for operator in Operator}
    for operator, other in mirrored.items():
        assert bound_of(Compare(operator, ONE, N)) == bound_of(Compare(other, N, ONE))
    assert mirrored[Operator.LT] is Operator.GT


def test_nested_and_or_are_flat_and_constants_go() -> None:
    left = And((N_IS_ONE, And((IsNull(N), TRUE))))
    assert bound_of(left) == BoundAnd((bound_of(N_IS_ONE), bound_of(IsNull(N))))
    assert bound_of(Or((N_IS_ONE, Or((FALSE, IsNull(N)))))) == BoundOr(
        (bound_of(N_IS_ONE), bound_of(IsNull(N)))
    )
    assert bound_of(And((N_IS_ONE, FALSE))) == FALSE
    assert bound_of(Or((N_IS_ONE, TRUE))) == TRUE
    assert bound_of(And((N_IS_ONE, TRUE))) == bound_of(N_IS_ONE)
    assert bound_of(And((N_IS_ONE, NULL))) == BoundAnd((bound_of(N_IS_ONE), NULL))
    assert bound_of(And((TRUE, TRUE))) == TRUE
    assert bound_of(Or((FALSE, FALSE))) == FALSE
    double = Not(Not(And((N_IS_ONE, IsNull(N)))))
    assert bound_of(And((double, IsNull(Column(("s",)))))) == BoundAnd(
        (bound_of(N_IS_ONE), bound_of(IsNull(N)), bound_of(IsNull(Column(("s",)))))
    )


@pytest.mark.parametrize(("value", "negated"), [(True, False), (False, True), (None, None)])
def test_not_of_a_constant(value: bool | None, negated: bool | None) -> None:
    assert bound_of(Not(Constant(value))) == Constant(negated)
    assert bound_of(Literal(value, pa.bool_())) == Constant(value)


def test_what_is_not_understood_stays_below_its_not() -> None:
    opaque = Opaque((N,), "f(n)", "a reason")
    assert bound_of(Not(opaque)) == BoundNot(Unknown("f(n)", "a reason"))
    for node in (
        Call("f", (N,)),
        Compare(Operator.EQ, Call("f", (N,)), ONE),
        Compare(Operator.EQ, N, Column(("big",))),
    ):
        assert isinstance(bound_of(node), Unknown)


@pytest.mark.slow
def test_a_left_deep_chain_of_ten_thousand_is_bound() -> None:
    chain: Expr = N_IS_ONE
    for number in range(10_000):
        chain = Or((chain, Compare(Operator.EQ, N, Literal(number, pa.int32()))))
    bound = bound_of(chain)
    assert isinstance(bound, BoundOr)
    assert len(bound.operands) == 10_001


def test_depth_and_size_are_bounded() -> None:
    deep: Expr = N_IS_ONE
    for _ in range(300):
        deep = Not(And((deep, IsNull(N))))
    with pytest.raises(PredicateError, match="nested more than 200 deep"):
        bound_of(deep)
    with pytest.raises(PredicateError, match="more than 2,000,000 parts"):
        bound_of(In(N, (ONE,) * 2_000_000))


def test_lists() -> None:
    two = Literal(2, pa.int32())
    null = Literal(None, pa.null())
    field = SCHEMA.find(("n",))
    assert bound_of(In(N, (two, ONE, two))) == InLeaf(field, (Point(2, 2), Point(1, 1)))
    with_null = bound_of(In(N, (ONE, null)))
    assert isinstance(with_null, InLeaf)
    assert with_null.has_null
    only_null = bound_of(In(N, (null,)))
    assert isinstance(only_null, InLeaf)
    assert (only_null.points, only_null.has_null) == ((), True)
    typed_null = bound_of(In(N, (ONE, Literal(None, pa.int32()))))
    assert isinstance(typed_null, InLeaf)
    assert typed_null.has_null


def test_an_empty_list_is_never_true_and_says_nothing_else() -> None:
    bound = bound_of(In(N, ()))
    assert outcomes(bound, 1) == {False}
    assert outcomes(bound, None) == {None, False}
    assert True in outcomes(bound_of(Not(In(N, ()))), None)


def test_null_literals_make_null() -> None:
    for operator in Operator:
        assert bound_of(Compare(operator, N, Literal(None, pa.null()))) == NULL
        assert bound_of(Compare(operator, N, Literal(None, pa.int32()))) == NULL


def test_casts_of_null_are_null() -> None:
    for column, type_ in (("ts", pa.timestamp("us", "UTC")), ("x", pa.float32()), ("n", pa.int64())):
        cast = Call("cast", (Literal(None, pa.timestamp("us")),), type_)
        assert bound_of(Compare(Operator.EQ, Column((column,)), cast)) == NULL
    assert bind(parse_predicate("CAST(NULL AS INT) = 1", DUCKDB), SCHEMA, DUCKDB) == NULL
    assert bind(parse_predicate("n = CAST(NULL AS INT)", DUCKDB), SCHEMA, DUCKDB) == NULL


def test_nan_where_it_has_no_order() -> None:
    trino = replace(Semantics.of("trino"), nan_order=NanOrder.UNORDERED)
    nan = Literal(float("nan"), pa.float64())
    for operator in Operator:
        bound = bound_of(Compare(operator, Column(("x",)), nan), trino)
        assert isinstance(bound, NotNullLeaf)
        assert bound.value is (operator is Operator.NE)
    assert isinstance(bound_of(In(Column(("x",)), (nan,)), trino), Unknown)
    assert isinstance(bound_of(Compare(Operator.LT, N, nan), trino), Unknown)
    assert point_of(bound_of(Compare(Operator.LT, Column(("x",)), nan))).nan
    assert isinstance(bound_of(Compare(Operator.LT, N, nan)), NotNullLeaf)


def test_text_by_another_collation_is_unknown() -> None:
    nocase = replace(DUCKDB, collation="nocase")
    for node in (
        Compare(Operator.EQ, Column(("s",)), Literal("a", pa.string())),
        In(Column(("s",)), (Literal("a", pa.string()),)),
        Like(Column(("s",)), "a%"),
    ):
        assert isinstance(bound_of(node, nocase), Unknown)
        assert not isinstance(bound_of(node), Unknown)


@pytest.mark.parametrize(("unit", "reach"), [(None, 0), ("us", 0), ("ns", 0), ("ms", 1000), ("s", 10**6)])
def test_literals_are_widened_for_an_engine_that_rounds(unit: str | None, reach: int) -> None:
    semantics = replace(Semantics.of("trino"), timestamp_unit=unit)
    literal = Literal(10**12, pa.timestamp("us"))
    found = point_of(bound_of(Compare(Operator.EQ, Column(("ts",)), literal), semantics))
    assert found == Point(10**12 - reach, 10**12 + reach, exact=reach == 0)


def test_functions_of_moments_that_the_engine_rounds_are_unknown_unless_the_rounding_is_undone() -> None:
    """Dates are not rounded."""
    trino, month = replace(Semantics.of("trino"), timestamp_unit="ms"), Literal(3, pa.int64())
    declared = Call("read_as", (Column(("ts",)),), pa.timestamp("ms"))
    unknown = {
        name: isinstance(bound_of(Compare(Operator.EQ, Call("month", (operand,)), month), trino), Unknown)
        for name, operand in {"bare": Column(("ts",)), "declared": declared, "date": Column(("d",))}.items()
    }
    assert unknown == {"bare": True, "declared": False, "date": False}


def test_dates_beyond_pythons_years() -> None:
    assert point_of(bound_of(Compare(Operator.LT, Column(("d",)), DATE_FAR))) == Point(5_000_000, 5_000_000)
    day = 86_400 * 10**6
    leaf = bound_of(Compare(Operator.LT, Column(("ts",)), Literal(-5_000_000, pa.date32())))
    assert point_of(leaf) == Point(-5_000_000 * day, -5_000_000 * day)
    assert describe(bound_of(Compare(Operator.LT, Column(("d",)), DATE_FAR))) == "d < day 5000000"


def test_literals_of_the_columns_own_domain() -> None:
    assert point_of(
        bound_of(Compare(Operator.EQ, Column(("price",)), Literal(Decimal("1.5"), pa.decimal128(38, 2))))
    ) == Point(150, 150)
    day = Literal(datetime.date(1969, 12, 31), pa.date32())
    assert point_of(bound_of(Compare(Operator.EQ, Column(("d",)), day))) == Point(-1, -1)
    wide = Literal(10**40, pa.int64())
    assert isinstance(bound_of(Compare(Operator.EQ, Column(("big",)), wide)), NotNullLeaf)


def test_unsigned_columns_are_left_to_engines_that_have_them() -> None:
    schema = TableSchema((Field(("u",), pa.uint32()),))
    node = Compare(Operator.GT, Column(("u",)), ONE)
    assert isinstance(bind(node, schema, DUCKDB), CompareLeaf)
    trino = Semantics.of("trino")
    assert isinstance(bind(node, schema, trino), Unknown)
    assert isinstance(bind(In(Column(("u",)), (ONE, ONE)), schema, trino), Unknown)


def test_more_than_38_digits() -> None:
    """DuckDB rounds both sides to the scale that is left; elsewhere nothing is concluded."""
    node = Compare(Operator.EQ, Column(("price",)), Literal(Decimal(5), pa.decimal128(38, 0)))
    assert point_of(bound_of(node)) == Point(400, 600, exact=False)
    assert isinstance(bound_of(node, SPARK), Unknown)


def test_is_null_of_nested_types_is_unknown() -> None:
    assert isinstance(bound_of(IsNull(Column(("list",)))), Unknown)
    assert isinstance(bound_of(IsNull(N)), IsNullLeaf)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("n IN (1, 2, 3, 4, 5, 6, 7) AND s LIKE 'a%'", "n IN (1, 2, 3, 4, 5, … 7 values) AND s LIKE 'a%'"),
        ("NOT (n = 1 OR s = 'it''s')", "NOT (n = 1 OR s = 'it''s')"),
        ("price >= 1.50 AND d < DATE '2020-01-01'", "price >= 1.50 AND d < 2020-01-01"),
        ("ts < TIMESTAMP '1969-12-31 23:59:59.5'", "ts < 1969-12-31 23:59:59.500000"),
        ("lower(s) = 'x'", "s IN (about 'X', about 'x')"),
        ("year(d) = 2020", "year(d) = 2020"),
    ],
)
def test_descriptions(text: str, shown: str) -> None:
    assert describe(bind(parse_predicate(text, DUCKDB), SCHEMA, DUCKDB)) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("n IN (1, 2) AND CAST(big AS INTEGER) = 1", "n IN (1, 2) AND CAST(big AS int32) = 1"),
        ("s LIKE 'a!%' ESCAPE '!' OR NOT n IS NULL", "s LIKE 'a!%' ESCAPE '!' OR NOT (n IS NULL)"),
        ("measure(n, big) > 1.5", "measure(n, big) > 1.5"),
    ],
)
def test_texts_of_expressions(text: str, shown: str) -> None:
    assert show(parse_predicate(text, DUCKDB)) == shown


@pytest.mark.slow
def test_texts_are_short() -> None:
    wide = Or(tuple(Compare(Operator.EQ, N, Literal(number, pa.int32())) for number in range(10_000)))
    long = Compare(Operator.EQ, Column(("s",)), Literal("x" * 10**6, pa.string()))
    for node in (wide, long):
        assert len(show(node)) <= 300
        assert len(describe(bound_of(node))) <= 300


@pytest.mark.parametrize("item", ["item", "element"])
def test_a_list_is_called_as_its_own_schema_calls_it(item: str):
    """Arrow's list types are equal whatever their items are called."""
    schema = table_schema(pa.schema([("tags", pa.list_(pa.field(item, pa.string())))]))
    found = bind(Compare(Operator.EQ, Column(("tags",)), Literal("x", pa.string())), schema, DUCKDB)
    assert isinstance(found, Unknown)
    assert found.reason == f"columns of type list<{item}: string> are not supported"
