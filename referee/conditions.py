"""Conditions of the cases as JSON, and how the readers' libraries write them.

A condition is a list: `["=", "x", 5]` with `=`, `<>`, `<`, `<=`, `>` or `>=`; `["in", "x", [1, 2]]`;
`["is null", "x"]`; `["starts with", "s", "ab"]`; `["and", c, …]`, `["or", c, …]` and `["not", c]`. A constant is a
number, a text, true or false, or one of `{"double": "nan"}`, `{"date": …}`, `{"timestamp": …}`, `{"instant": …}` (a
timestamp with time zone) and `{"decimal": …}` with its text.
"""

from __future__ import annotations

import datetime
import decimal
from typing import Any

Condition = list[Any]


class UnsupportedError(Exception):
    """A reader does not support the format or condition, and is not judged by it."""


_TYPES = {"double": "DOUBLE", "date": "DATE", "timestamp": "TIMESTAMP", "decimal": "DECIMAL(18, 2)"}


def sql(condition: Condition, **types: str) -> str:
    """The condition as SQL; `types` are names of types that differ in an engine."""
    match condition:
        case ["and" | "or" as word, *operands]:
            return "(" + f" {word.upper()} ".join(sql(each, **types) for each in operands) + ")"
        case ["not", operand]:
            return f"(NOT {sql(operand, **types)})"
        case ["is null", column]:
            return f"({column} IS NULL)"
        case ["in", column, values]:
            return f"({column} IN ({', '.join(_sql(each, types) for each in values)}))"
        case ["starts with", column, text]:
            return f"({column} LIKE {_sql(text + '%', types)})"
        case [operator, column, value]:
            return f"({column} {operator} {_sql(value, types)})"
        case _:
            raise ValueError(f"not a condition: {condition!r}")


def _sql(value: Any, types: dict[str, str]) -> str:
    match value:
        case bool():
            return str(value).upper()
        case int() | float():
            return repr(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case {"instant": text}:
            return f"CAST('{text}' AS {types.get('instant', 'TIMESTAMP WITH TIME ZONE')})"
        case dict():
            [(kind, text)] = value.items()
            return f"CAST('{text}' AS {types.get(kind, _TYPES[kind])})"
        case _:
            raise ValueError(f"not a constant: {value!r}")


def constant(value: Any) -> Any:
    """A constant as a Python value."""
    match value:
        case {"double": text}:
            return float(text)
        case {"date": text}:
            return datetime.date.fromisoformat(text)
        case {"timestamp": text} | {"instant": text}:
            return datetime.datetime.fromisoformat(text)
        case {"decimal": text}:
            return decimal.Decimal(text)
        case _:
            return value


class Expressions:
    """What a library's expressions need beyond Python's operators, as functions: see `expression`."""

    def __init__(
        self, column: Any, is_null: Any, is_in: Any, starts_with: Any, literal: Any = constant
    ) -> None:
        self.column = column
        self.is_null = is_null
        self.is_in = is_in
        self.starts_with = starts_with
        self.literal = literal


def expression(condition: Condition, made: Expressions) -> Any:
    """The condition as an expression of a library whose expressions have Python's operators and `&`, `|`, `~`."""
    match condition:
        case ["and", first, *rest]:
            found = expression(first, made)
            for each in rest:
                found &= expression(each, made)
            return found
        case ["or", first, *rest]:
            found = expression(first, made)
            for each in rest:
                found |= expression(each, made)
            return found
        case ["not", operand]:
            return ~expression(operand, made)
        case ["is null", column]:
            return made.is_null(made.column(column))
        case ["in", column, values]:
            return made.is_in(made.column(column), [made.literal(each) for each in values])
        case ["starts with", column, text]:
            return made.starts_with(made.column(column), text)
        case [operator, column, value]:
            left, right = made.column(column), made.literal(value)
            compared = {
                "=": lambda: left == right,
                "<>": lambda: left != right,
                "<": lambda: left < right,
                "<=": lambda: left <= right,
                ">": lambda: left > right,
                ">=": lambda: left >= right,
            }
            return compared[operator]()
        case _:
            raise ValueError(f"not a condition: {condition!r}")
