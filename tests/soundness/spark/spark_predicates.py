"""Random predicates in Spark's SQL: those of all engines, and shapes that Spark's optimizer takes apart by itself."""

from __future__ import annotations

import random
from decimal import Decimal

from tests.soundness.kinds import Kind, Value
from tests.soundness.predicates import Predicate, Test, combined_sql, draw_predicate
from tests.soundness.tables import RandomTable

INTEGERS = ("int8", "int16", "int32", "int64")
NUMBERS = (*INTEGERS, "float", "double", "decimal(9,2)", "decimal(18,0)", "decimal(30,6)")


def name(column: str) -> str:
    """The column as Spark's SQL has it."""
    return f"`{column}`"


def literal(kind: Kind, value: Value) -> str:
    """The value as a constant of Spark's SQL."""
    if value is None:
        return "NULL"
    if isinstance(value, Decimal) and kind.name in INTEGERS:
        return f"{value:f}"
    if isinstance(value, bytes):
        return f"X'{value.hex()}'"
    text = kind.sql(value)
    if kind.name == "timestamp":
        return text.replace("TIMESTAMP ", "TIMESTAMP_NTZ")
    return text.replace("TIMESTAMPTZ ", "TIMESTAMP").replace("+00'", "+00:00'")


def sql(predicate: Predicate) -> str:
    """Write a predicate in Spark's SQL."""
    if isinstance(predicate, Test):
        return _test(predicate)
    return combined_sql(predicate.operator, [sql(each) for each in predicate.operands])


def _test(test: Test) -> str:
    column = name(test.column)
    if test.operator in ("null", "prefix"):
        return test.sql().replace(f'"{test.column}"', column)
    constants = [literal(test.kind, value) for value in test.operands]
    if test.operator == "in":
        return f"{column} IN ({', '.join(constants)})"
    return f"{column} {test.operator} {constants[0]}"


def draw(rng: random.Random, table: RandomTable) -> str:
    """A predicate: half as for all engines, half of Spark's own shapes over those."""

    def plain(depth: int = 2) -> str:
        return sql(draw_predicate(rng, table.columns, table.values, depth))

    match rng.randrange(20):
        case 0:
            return f"CASE WHEN {plain(1)} THEN {plain(1)} WHEN {plain(1)} THEN {plain(1)} ELSE {plain(1)} END"
        case 1:
            return f"coalesce({plain(1)}, {plain(1)})"
        case 2:
            return f"if({plain(1)}, {plain(1)}, {plain(1)})"
        case 3:
            return f"({plain(1)}) IS {rng.choice(['', 'NOT '])}{rng.choice(['TRUE', 'FALSE'])}"
        case 4 | 5 | 6 | 7 | 8:
            return _special(rng, table)
        case 9:
            return f"NOT ({_special(rng, table)} {rng.choice(['AND', 'OR'])} {plain(1)})"
        case _:
            return plain()


def _special(rng: random.Random, table: RandomTable) -> str:
    column, kind = rng.choice(list(table.columns.items()))
    values = table.values[column] or [kind.draw(rng, rng.random())]

    def constant() -> str:
        return literal(kind, kind.neighbours(rng, rng.choice(values)))

    quoted = name(column)
    negation = rng.choice(["", "NOT "])
    operator = rng.choice(["=", "!=", "<", "<=", ">", ">="])
    shapes = [
        f"{negation}({quoted} <=> {constant()})",
        f"{quoted} {negation}IN ({', '.join(constant() for _ in range(14))})",
        f"{quoted} {negation}BETWEEN {constant()} AND {constant()}",
        " OR ".join(f"{quoted} = {constant()}" for _ in range(5)),
        f"{constant()} {operator} {quoted}",
        f"{negation}(nullif({quoted}, {constant()}) IS NULL)",
        f"coalesce({quoted}, {constant()}) {operator} {constant()}",
    ]
    return rng.choice(shapes + _typed(rng, quoted, kind, operator, negation))


def _typed(rng: random.Random, column: str, kind: Kind, operator: str, negation: str) -> list[str]:
    """Shapes for one type: casts that keep, wrap or lose values, and functions that are not monotone."""
    number = rng.choice([0, 1, -1, 5, 100, 2**31, 4294967297])
    shapes: list[str] = []
    if kind.name in NUMBERS:
        shapes += [
            f"CAST({column} AS INT) {operator} {number % 2**31}",
            f"CAST({column} AS DOUBLE) {operator} CAST('{number}.5' AS DOUBLE)",
            f"{column} {operator} CAST('{number}' AS FLOAT)",
            f"{column} {operator} {number}.25",
            f"{column} {operator} '{number}'",
            f"{column} % 8 {operator} {number % 8}",
            f"-{column} {operator} {number}",
        ]
    if kind.name in INTEGERS:
        shapes += [
            f"CAST({column} AS {type_}) {operator} 5" for type_ in ("TINYINT", "BIGINT", "DECIMAL(25,3)")
        ]
    if kind.name in ("float", "double"):
        shapes += [
            f"{negation}isnan({column})",
            f"{column} {operator} CAST('NaN' AS {kind.name.upper()})",
            f"{column} {negation}IN (0, -0.0D, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, double('NaN'))",
        ]
    if kind.name == "string":
        shapes += [
            f"{negation}startswith({column}, 'b')",
            f"{negation}contains({column}, 'a')",
            f"{negation}({column} LIKE 'b_%')",
            f"upper({column}) {operator} 'CRAB'",
            f"substr({column}, 1, 1) {operator} 'c'",
        ]
    if kind.name in ("date", "timestamp", "timestamptz"):
        shapes += [
            f"{column} {operator} TIMESTAMP'2001-03-04 05:06:07'",
            f"{column} {operator} TIMESTAMP_NTZ'2001-03-04 00:00:00'",
            f"{column} {operator} DATE'2001-03-04'",
            f"CAST({column} AS DATE) {operator} DATE'2001-03-04'",
            f"CAST({column} AS DATE) {negation}IN (DATE'2001-03-04', DATE'1999-01-01')",
            f"{column} {negation}IN ('2001-03-04', '1999-01-01')",
            f"year({column}) {operator} 2001",
            f"date_format({column}, 'MM/dd/yyyy') {operator} '03/04/2001'",
            f"date_trunc('month', {column}) {operator} TIMESTAMP'2001-03-01'",
        ]
    return shapes
