"""Building blocks for adapters: predicates that engines' optimizers took apart, in the shape that binds best."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from pruner.expr.nodes import (
    Call,
    Column,
    Compare,
    Constant,
    Expr,
    In,
    Literal,
    Operator,
    disjunction,
)


def literal_of(scalar: Any) -> Literal:
    """The literal of a value of Arrow's: `pruner.expr.values` has the Python value of each type."""
    if pa.types.is_timestamp(scalar.type) or pa.types.is_time(scalar.type):
        return Literal(scalar.value, scalar.type)
    try:
        return Literal(scalar.as_py(), scalar.type)
    except OverflowError:  # a day outside Python's years
        return Literal(scalar.cast(pa.date32()).value, scalar.type)


def any_of(operands: tuple[Expr, ...]) -> Expr:
    """OR of any number of operands; equality comparisons of one value become one IN."""
    match operands:
        case [Compare(Operator.EQ, first, Literal()), _, *_]:
            options = [_equal_to(first, operand) for operand in operands]
            literals = tuple(option for option in options if option is not None)
            if len(literals) == len(operands):
                return In(first, literals)
        case _:
            pass
    return disjunction(operands)


def _equal_to(value: Expr, comparison: Expr) -> Literal | None:
    """The literal of `value = literal`; None for anything else."""
    match comparison:
        case Compare(Operator.EQ, left, Literal() as right) if left == value:
            return right
        case _:
            return None


def predicate(expression: Expr) -> Expr:
    """Return a boolean value as a predicate: a constant, or `column = true` for a bare column or cast."""
    match expression:
        case Literal(value=None | bool() as value):
            return Constant(value)
        case Column() | Call("cast" | "try_cast"):
            return Compare(Operator.EQ, expression, Literal(True, pa.bool_()))
        case _:
            return expression
