"""Predicates over columns whose values the snapshot does not know as DuckDB reads them: they say nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pruner.expr.nodes import (
    And,
    Call,
    Column,
    Compare,
    Expr,
    In,
    IsNull,
    Like,
    Not,
    Opaque,
    Or,
    conjunction,
    disjunction,
)
from pruner.expr.show import show

_REASON = "DuckDB reads the column as another type than the index has"


def without(hidden: Collection[str], expression: Expr) -> Expr:
    """Return a predicate in which every test of a hidden column is opaque.

    Args:
        hidden: names of top-level columns.
        expression: the predicate.
    """
    match expression:
        case And(operands):
            return conjunction(tuple(without(hidden, each) for each in operands))
        case Or(operands):
            return disjunction(tuple(without(hidden, each) for each in operands))
        case Not(operand):
            return Not(without(hidden, operand))
        case _:
            found = tuple(dict.fromkeys(_columns(expression)))
            if not any(column.path[0] in hidden for column in found):
                return expression
            return Opaque(found, show(expression), _REASON)


def _columns(expression: Expr) -> Iterator[Column]:
    match expression:
        case Column():
            yield expression
        case Opaque(columns):
            yield from columns
        case Compare(_, left, right):
            yield from (*_columns(left), *_columns(right))
        case Call(_, arguments):
            for argument in arguments:
                yield from _columns(argument)
        case And(operands) | Or(operands):
            for operand in operands:
                yield from _columns(operand)
        case Not(operand) | IsNull(operand) | In(operand) | Like(operand):
            yield from _columns(operand)
        case _:
            return
