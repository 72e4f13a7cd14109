"""Conditions of the expression form in DuckDB's SQL: at least the rows for which they are true."""

from __future__ import annotations

import datetime
from typing import Final

import pyarrow as pa

from pruner.expr.nodes import And, Column, Compare, Constant, Expr, In, IsNull, Like, Literal, Not, Or
from pruner.expr.walk import columns_of
from pruner_duckdb.types import quote, quote_text

_MICROSECONDS: Final = pa.timestamp("us")
_EPOCH: Final = datetime.date(1970, 1, 1)
_MOST_DAYS: Final = _EPOCH.toordinal()
"""Days before 1970 that Python's dates have."""

_CONSTANTS: Final = {True: "true", False: "false", None: "NULL"}


class _NotWritten(Exception):  # noqa: N818 - never leaves this module
    """A part has no SQL here."""


def written_condition(condition: Expr) -> tuple[str, frozenset[str]]:
    """The conjuncts that can be written, and the columns that stand in them.

    The others are left out: all rows for which the condition is true are among those for which the text is. It compares
    booleans, integers, text, dates and timestamps, and names functions so that no macro takes their place: not those
    of operators either, which a macro may be called as well, but for comparisons, IN and the logic.
    """
    texts: list[str] = []
    names: set[str] = set()
    for part in condition.operands if isinstance(condition, And) else (condition,):
        try:
            texts.append(_written(part))
        except _NotWritten:
            continue
        names.update(column.path[0] for column in columns_of(part))
    return " AND ".join(texts) or "true", frozenset(names)


def _written(node: Expr) -> str:
    match node:
        case Constant(value):
            return _CONSTANTS[value]
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
                return f'system.main."~~"({_value(column)}, {_text(pattern)})'
            return f"system.main.like_escape({_value(column)}, {_text(pattern)}, {_text(escape)})"
        case Column():
            return _value(node)
        case _:
            raise _NotWritten


def _value(node: Expr) -> str:
    match node:
        case Column((name,)):
            return quote(name)
        case Literal():
            return _literal(node)
        case _:
            raise _NotWritten


def _literal(literal: Literal) -> str:
    match literal.value:
        case None | bool():
            return _CONSTANTS[literal.value]
        case int() as number if literal.type == _MICROSECONDS:
            return f"system.main.make_timestamp({number}::BIGINT)"
        case int() as number if pa.types.is_integer(literal.type):
            return f"({number})"
        case int() as number if literal.type == pa.date32() and abs(number) < _MOST_DAYS:
            return _day(_EPOCH + datetime.timedelta(number))
        case str() as text if pa.types.is_string(literal.type):
            return f"{_text(text)}::VARCHAR"
        case datetime.date() as day:
            return _day(day)
        case _:
            raise _NotWritten


def _day(day: datetime.date) -> str:
    return f"DATE '{day.isoformat()}'"


def _text(text: str) -> str:
    if "\0" in text:
        raise _NotWritten
    return quote_text(text)
