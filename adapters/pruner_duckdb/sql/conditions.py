"""Conditions of the expression form as DuckDB SQL that matches at least the rows for which they are true."""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa

from pruner.expr.exact.clock import date_of, day_number
from pruner.expr.nodes import And, Column, Compare, Constant, Expr, In, IsNull, Like, Literal, Not, Or
from pruner.expr.walk import columns_of
from pruner_duckdb.sql.literals import NoLiteral, sql_literal
from pruner_duckdb.types import quote

_MICROSECONDS: Final = pa.timestamp("us")
_MOST_DAYS: Final = -day_number(datetime.date.min)
"""Number of days before 1970 that Python's dates can represent."""


def written_condition(condition: Expr) -> tuple[str, frozenset[str]]:
    """The conjuncts that can be written as SQL, and the columns in them.

    The others are left out: the text is true for every row for which the condition is true. It compares booleans,
    integers, text, dates and timestamps, and names functions so that no macro can replace them. That includes the
    functions of operators, since a macro may have such a name, too; except for comparisons, IN and the logic.
    """
    texts: list[str] = []
    names: set[str] = set()
    for part in condition.operands if isinstance(condition, And) else (condition,):
        try:
            texts.append(_written(part))
        except NoLiteral:
            continue
        names.update(column.path[0] for column in columns_of(part))
    return " AND ".join(texts) or "true", frozenset(names)


def _written(node: Expr) -> str:
    match node:
        case Constant(value):
            return sql_literal(value)
        case And(operands):
            return f"({' AND '.join(map(_written, operands))})"
        case Or(operands):
            return f"({' OR '.join(map(_written, operands))})"
        case Not(operand):
            return f"(NOT {_written(operand)})"
        case IsNull(operand):
            return f"({_written(operand)} IS NULL)"
        case Compare(operator, left, right):
            return f"({_value(left)} {operator.value} {_value(right)})"
        case In(operand, options) if options:
            return f"({_value(operand)} IN ({', '.join(map(_literal, options))}))"
        case Like(Column() as column, pattern, escape):
            if escape is None:
                return f'system.main."~~"({_value(column)}, {sql_literal(pattern)})'
            return f"system.main.like_escape({_value(column)}, {sql_literal(pattern)}, {sql_literal(escape)})"
        case Column():
            return _value(node)
        case _:
            raise NoLiteral("what is no condition of columns and constants")


def _value(node: Expr) -> str:
    match node:
        case Column((name,)):
            return quote(name)
        case Literal():
            return _literal(node)
        case _:
            raise NoLiteral("what is no condition of columns and constants")


def _literal(literal: Literal) -> str:
    match literal.value:
        case None | bool():
            return sql_literal(literal.value)
        case int() as number if literal.type == _MICROSECONDS:
            return f"system.main.make_timestamp({number}::BIGINT)"
        case int() as number if literal.type == pa.date32() and abs(number) <= _MOST_DAYS:
            return sql_literal(date_of(number))
        case int() as number if pa.types.is_integer(literal.type):
            return sql_literal(number)
        case str() as text if pa.types.is_string(literal.type):
            return f"{sql_literal(text)}::VARCHAR"
        case datetime.date() as day:
            return sql_literal(day)
        case _:
            raise NoLiteral(f"a constant of type {literal.type}")
