"""Traversals of an expression: its nodes, the columns that they name, and conditions on some columns made opaque."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pruner.expr.nodes import (
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
    Or,
    conjunction,
    disjunction,
)
from pruner.expr.show import show


def nodes_of(expression: Expr) -> Iterator[Expr]:
    """Yield the expression and every node below it, in pre-order from left to right.

    The options of `In` are its values, not nodes below it.
    """
    pending = [expression]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(_below(node)))


def _below(node: Expr) -> tuple[Expr, ...]:
    match node:
        case Call(_, parts) | And(parts) | Or(parts):
            return parts
        case Compare(_, left, right):
            return left, right
        case In(operand) | IsNull(operand) | Like(operand) | Not(operand):
            return (operand,)
        case Column() | Literal() | Constant() | Opaque():
            return ()


def columns_of(expression: Expr) -> tuple[Column, ...]:
    """Return the columns that an expression names, each once; an opaque node has those it was given."""
    columns: dict[Column, None] = {}
    for node in nodes_of(expression):
        if isinstance(node, Column):
            columns[node] = None
        elif isinstance(node, Opaque):
            columns.update(dict.fromkeys(node.columns))
    return tuple(columns)


def without_columns(expression: Expr, unknown: Callable[[Column], bool], reason: str) -> Expr:
    """Return a predicate in which every condition on an unknown column is opaque; the logic around it stays.

    Args:
        expression: the predicate.
        unknown: tells whether a column is unknown.
        reason: why they are unknown, for reports.
    """
    match expression:
        case And(operands):
            return conjunction(tuple(without_columns(operand, unknown, reason) for operand in operands))
        case Or(operands):
            return disjunction(tuple(without_columns(operand, unknown, reason) for operand in operands))
        case Not(operand):
            return Not(without_columns(operand, unknown, reason))
        case _:
            columns = columns_of(expression)
            return Opaque(columns, show(expression), reason) if any(map(unknown, columns)) else expression
