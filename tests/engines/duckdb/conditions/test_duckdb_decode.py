"""What DuckDB's optimizer pushes to a scan, decoded: SQL beside the expected expression."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import TYPE_CHECKING, cast

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.expr.nodes import (
    And,
    Call,
    Column,
    Compare,
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
from pruner_duckdb.decode.calls import cast_literal
from pruner_duckdb.decode.gets import scan_predicates
from pruner_duckdb.shadow.predicates import Draft, Predicates
from pruner_duckdb.shadow.shadow import Relation, Shadow
from tests.support.duckdb import plain as plain_duckdb

if TYPE_CHECKING:
    from pruner.expr.values import LiteralValue

RELATION = Relation(
    (
        ("unused", "INTEGER"),
        ("i", "INTEGER"),
        ("b", "BIGINT"),
        ("h", "HUGEINT"),
        ("s", "VARCHAR"),
        ("bl", "BLOB"),
        ("d", "DATE"),
        ("ts", "TIMESTAMP"),
        ("tz", "TIMESTAMP WITH TIME ZONE"),
        ("dec", "DECIMAL(18, 2)"),
        ("f", "FLOAT"),
        ("x", "DOUBLE"),
        ("flag", "BOOLEAN"),
        ("st", 'STRUCT("in ner" INTEGER, t VARCHAR)'),
        ("l", "INTEGER[]"),
    )
)
INT, B, H, S, D, TS, TZ, DEC, X, FLAG = (
    Column((name,)) for name in ("i", "b", "h", "s", "d", "ts", "tz", "dec", "x", "flag")
)
INNER = Column(("st", "in ner"))


def int32(value: int) -> Literal:
    return Literal(value, pa.int32())


def text(value: str) -> Literal:
    return Literal(value, pa.string())


def eq(left: Expr, right: Expr) -> Compare:
    return Compare(Operator.EQ, left, right)


EXACT: dict[str, Expr] = {
    "i = 5": eq(INT, int32(5)),
    "5 < i": Compare(Operator.GT, INT, int32(5)),
    "i <> 5": Compare(Operator.NE, INT, int32(5)),
    "i IS NULL": IsNull(INT),
    "i IS NOT NULL": Not(IsNull(INT)),
    "i IN (1, 7, NULL)": In(INT, (int32(1), int32(7), Literal(None, pa.int32()))),
    "i NOT IN (1, 7)": Not(In(INT, (int32(1), int32(7)))),
    "i = 1 OR i = 7": In(INT, (int32(1), int32(7))),
    "i > 1 OR s = 'q'": Or((Compare(Operator.GT, INT, int32(1)), eq(S, text("q")))),
    "i BETWEEN 2 AND 4": And((Compare(Operator.GE, INT, int32(2)), Compare(Operator.LE, INT, int32(4)))),
    "i IS NOT DISTINCT FROM 5": And((eq(INT, int32(5)), Not(IsNull(INT)))),
    "i IS DISTINCT FROM 5": Not(And((eq(INT, int32(5)), Not(IsNull(INT))))),
    "b = 9223372036854775807": eq(B, Literal(9223372036854775807, pa.int64())),
    "h = -5": eq(H, Literal(-5, pa.int64())),
    "h = 170141183460469231731687303715884105727": eq(H, Literal(2**127 - 1, pa.int64())),
    "s = 'O''Brien ü'": eq(S, text("O'Brien ü")),
    "s LIKE '%ab'": Like(S, "%ab"),
    "s LIKE '%a\\_b%'": Like(S, "%a\\_b%"),
    "contains(s, '5%')": Like(S, "%5\\%%", "\\"),
    "s LIKE 'a!%%' ESCAPE '!'": Like(S, "a!%%", "!"),
    "s NOT LIKE '_b'": Not(Like(S, "_b")),
    "bl = '\\x00\\x5Ca'::BLOB": eq(Column(("bl",)), Literal(b"\x00\\a", pa.binary())),
    "d = '1969-12-31'": eq(D, Literal(-1, pa.date32())),
    "ts > '1970-01-01 00:00:00.000001'": Compare(Operator.GT, TS, Literal(1, pa.timestamp("us"))),
    "tz = '1970-01-01 02:00:00'": eq(TZ, Literal(3_600_000_000, pa.timestamp("us", "UTC"))),
    "dec = -12.34": eq(DEC, Literal(Decimal("-12.34"), pa.decimal128(18, 2))),
    "x = 0.30000000000000004": eq(X, Literal(0.30000000000000004, pa.float64())),
    "x = 'inf'": eq(X, Literal(float("inf"), pa.float64())),
    "f = 0.1": eq(Column(("f",)), Literal(0.10000000149011612, pa.float32())),
    "flag": eq(FLAG, Literal(True, pa.bool_())),
    "NOT flag": Not(eq(FLAG, Literal(True, pa.bool_()))),
    'st."in ner" = 3': eq(INNER, int32(3)),
    "i::DOUBLE > 2.5::DOUBLE": Compare(
        Operator.GT, Call("cast", (INT,), pa.float64()), Literal(2.5, pa.float64())
    ),
    "try_cast(s AS INTEGER) = 5": eq(Call("try_cast", (S,), pa.int32()), int32(5)),
    "upper(s) = 'X'": eq(Call("upper", (S,), pa.string()), text("X")),
}
"""Conditions whose decoded form must equal this form, or have it among its conjuncts."""

OPAQUE = (
    "CASE WHEN random() < 0.5 THEN s ELSE 'y' END = 'x'",
    "l = [1, 2]",
    "row(i, b) = row(1, 2)",
    "d = 'infinity'",
    "ts < '-infinity'",
    "random() < 0.5",
)
"""Conditions that have no exact form."""


@pytest.fixture(scope="module")
def shadow() -> Shadow:
    return Shadow()


def decoded(shadow: Shadow, condition: str, *, keep_form: bool) -> Expr:
    (table,) = shadow.table_names([RELATION])
    plans = shadow.optimized_plans(
        f"SELECT 1 FROM {table} WHERE {condition}", "Europe/Berlin", keep_form=keep_form
    )
    return scan_predicates(plans)[table]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("condition", EXACT)
def test_conditions_come_out_exactly(shadow: Shadow, condition: str) -> None:
    found = [decoded(shadow, condition, keep_form=keep) for keep in (False, True)]
    expected = EXACT[condition]
    wanted = set(expected.operands) if isinstance(expected, And) else {expected}
    assert any(wanted <= (set(each.operands) if isinstance(each, And) else {each}) for each in found), found


@pytest.mark.parametrize("condition", OPAQUE)
def test_what_has_no_exact_form_is_opaque(shadow: Shadow, condition: str) -> None:
    def opaque(expression: Expr) -> bool:
        match expression:
            case Opaque():
                return True
            case And(operands):
                return any(map(opaque, operands))
            case Compare(_, left, right):
                return opaque(left) or opaque(right)
            case Not(operand):
                return opaque(operand)
            case _:
                return False

    assert opaque(decoded(shadow, condition, keep_form=True))


def test_an_operand_that_is_not_understood_stays_in_its_or(shadow: Shadow) -> None:
    found = decoded(
        shadow, "i = 5 OR CASE WHEN b + random() < 1 THEN flag::VARCHAR ELSE s END = 'x'", keep_form=True
    )
    assert isinstance(found, Or)
    compared = found.operands[1]
    assert isinstance(compared, Compare)
    assert isinstance(compared.left, Opaque)
    assert {column.path for column in compared.left.columns} == {("b",), ("flag",), ("s",)}


def test_a_nan_literal_is_read(shadow: Shadow) -> None:
    found = decoded(shadow, "x > 'nan'::DOUBLE AND s = 'NAN: \\ \" NAN'", keep_form=False)
    assert isinstance(found, And)
    comparisons = [part for part in found.operands if isinstance(part, Compare)]
    values = {part.left: part.right.value for part in comparisons if isinstance(part.right, Literal)}
    assert values[S] == 'NAN: \\ " NAN'
    number = values[X]
    assert isinstance(number, float)
    assert math.isnan(number)


def test_a_date_reaches_back_before_christ(shadow: Shadow) -> None:
    found = decoded(shadow, "d = '0044-03-15 (BC)'", keep_form=False)
    days = datetime.date(1, 1, 1).toordinal() - datetime.date(1970, 1, 1).toordinal()
    assert isinstance(found, Compare)
    assert isinstance(found.right, Literal)
    assert isinstance(found.right.value, int)
    assert found.right.value < days


def test_the_form_as_written_is_looked_for_where_it_is_wanted(shadow: Shadow) -> None:
    """An index over an expression needs the user's form; a range of the column can be derived without it."""
    select = shadow.parse("SELECT 1 FROM t WHERE date_trunc('month', ts) = TIMESTAMP '2024-03-01'")
    (reference,) = select.references
    draft = Draft(select, {reference: RELATION}, (reference,), None)
    predicates = Predicates(shadow)
    (rewritten,) = predicates.of(draft, "UTC", as_written=False).expressions
    (both,) = predicates.of(draft, "UTC", as_written=True).expressions
    assert isinstance(rewritten, And)
    assert isinstance(both, And)
    assert set(rewritten.operands) < set(both.operands)
    kept = [each.left for each in both.operands if isinstance(each, Compare)]
    assert any(isinstance(each, Call) and each.function == "date_trunc" for each in kept)


def test_two_shapes_get_two_tables_and_the_same_shape_twice_gets_two(shadow: Shadow) -> None:
    other = Relation((("a", "INTEGER"),))
    first, second, third = shadow.table_names([RELATION, RELATION, other])
    assert len({first, second, third}) == 3
    assert shadow.table_names([RELATION, other]) == [first, third]


TYPES = {
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "DECIMAL(4,1)": pa.decimal128(4, 1),
    "DECIMAL(18,6)": pa.decimal128(18, 6),
    "DECIMAL(38,10)": pa.decimal128(38, 10),
    "DOUBLE": pa.float64(),
    "DATE": pa.date32(),
}


@given(
    st.one_of(
        st.tuples(st.just("INTEGER"), st.integers(-(2**31), 2**31 - 1)),
        st.tuples(st.just("BIGINT"), st.integers(-(2**63), 2**63 - 1)),
        st.tuples(st.just("BIGINT"), st.integers(2**53 - 3, 2**53 + 3)),
        st.tuples(st.just("DECIMAL(4,1)"), st.decimals(-999, 999, places=1)),
        st.tuples(st.just("DECIMAL(38,10)"), st.decimals(-(10**27), 10**27, places=10)),
        st.tuples(st.just("VARCHAR"), st.dates().map(str)),
        st.tuples(
            st.just("VARCHAR"),
            st.sampled_from(["2024-02-30", "2024-1-1", "24-01-01", "-0001-01-01", "0000-01-01", "today"]),
        ),
    ),
    st.sampled_from(sorted(TYPES)),
)
def test_casts_of_literals_are_those_of_duckdb(typed: tuple[str, object], target: str) -> None:
    source, value = typed
    literal = Literal(cast("LiteralValue", value), TYPES.get(source, pa.string()))
    folded = cast_literal(literal, TYPES[target])
    if folded is None:
        return
    sql = f"SELECT CAST('{value}'::{source} AS {target})"
    [(found,)] = plain_duckdb.session().execute(sql).fetchall()
    expected = (found - datetime.date(1970, 1, 1)).days if target == "DATE" else found
    assert (folded.value, folded.type) == (expected, TYPES[target])


def test_casts_that_change_nothing_are_made() -> None:
    """So that the property above does not hold vacuously."""
    assert cast_literal(int32(7), pa.float64()) == Literal(7.0, pa.float64())
    assert cast_literal(int32(7), pa.decimal128(4, 1)) == Literal(Decimal("7.0"), pa.decimal128(4, 1))
    assert cast_literal(text("1970-02-01"), pa.date32()) == Literal(31, pa.date32())
    assert cast_literal(Literal(2**53 + 1, pa.int64()), pa.float64()) is None
    assert cast_literal(Literal(2**99, pa.int64()), pa.int64()) is None, "of a HUGEINT"
    assert cast_literal(int32(1000), pa.decimal128(4, 1)) is None
    assert cast_literal(Literal(Decimal("2.5"), pa.decimal128(2, 1)), pa.int32()) is None
