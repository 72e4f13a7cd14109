"""Names that mean several functions, told apart by the types of what they are called with, and conditions as calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pruner.expr.functions.function import DUCKDB, TRINO
from pruner.expr.nodes import And, Compare, Expr, IsNull, Literal, Not, Operator, Or


@dataclass(frozen=True, slots=True)
class Built:
    """A part of an expression in the one form, with its type as the asking engine has it."""

    expression: Expr
    type: pa.DataType


def by_type(name: str, arguments: list[Built], dialect: str | None) -> tuple[str, list[Built]]:
    """The function of the registry, and its arguments there."""
    if dialect is None or len(arguments) != 2:
        return name, arguments
    first, second = arguments
    match name:
        case "add" | "subtract" if pa.types.is_date(first.type):
            return _dates(name, first, second, dialect)
        # In DuckDB it comes to a timestamp.
        case "date_trunc" if pa.types.is_date(second.type) and dialect != DUCKDB:
            return "first day", arguments
        case "quotient" if dialect == TRINO and pa.types.is_signed_integer(first.type):
            return "whole quotient", arguments
        case _:
            return name, arguments


def _dates(name: str, date: Built, other: Built, dialect: str) -> tuple[str, list[Built]]:
    """A date and days, or, in DuckDB, the days between two dates."""
    if name == "subtract" and pa.types.is_date(other.type) and dialect == DUCKDB:
        return "days between", [date, other]
    if not isinstance(other.expression, Literal) or not isinstance(other.expression.value, int):
        return name, [date, other]
    days = other.expression.value * (1 if name == "add" else -1)
    return "days later", [date, Built(Literal(days, pa.int64()), pa.int64())]


_COMPARED: Final = {
    # operator: (row of the registry, whether operands change places, whether it is the negation)
    Operator.EQ: ("is equal", False, False),
    Operator.NE: ("is equal", False, True),
    Operator.LT: ("is less", False, False),
    Operator.GT: ("is less", True, False),
    Operator.LE: ("is at most", False, False),
    Operator.GE: ("is at most", True, False),
}


def as_calls(node: Compare | IsNull | Not | And | Or) -> tuple[str, tuple[Expr, ...], bool]:
    """A condition by its row of the registry, what it is of, and whether it is negated."""
    match node:
        case Compare(operator, left, right):
            name, swapped, negated = _COMPARED[operator]
            # `1 < a` is written with the constant first; rows have the column first where both orders are one.
            if name == "is equal" and isinstance(left, Literal):
                swapped = True
            return name, (right, left) if swapped else (left, right), negated
        case IsNull(operand):
            return "is null", (operand,), False
        case Not(operand):
            return "not", (operand,), False
        case And(operands):
            return "both", operands, False
        case Or(operands):
            return "either", operands, False
