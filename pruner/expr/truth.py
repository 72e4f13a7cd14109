"""Tests of whole predicates, written with AND, OR, NOT and IS NULL alone: IS TRUE, `= TRUE`, IS DISTINCT FROM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.expr.constants import compare_alike
from pruner.expr.nodes import (
    And,
    Call,
    Column,
    Compare,
    Constant,
    In,
    IsNull,
    Like,
    Literal,
    Not,
    Operator,
    Or,
    conjunction,
    disjunction,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.expr.nodes import Expr


def is_predicate(node: Expr) -> bool:
    """Tell whether a node is true, false or null by its form, rather than a value of any type."""
    return isinstance(node, And | Compare | Constant | In | IsNull | Like | Not | Or)


def as_predicate(value: Expr) -> Expr | None:
    """A value that is true, false or null by its form; None for any other."""
    match value:
        case Literal(None | bool() as truth):
            return Constant(truth)
        case _:
            return value if is_predicate(value) else None


def is_true(predicate: Expr) -> Expr:
    """`predicate IS TRUE`, never null."""
    return conjunction((predicate, Not(IsNull(predicate))))


def is_false(predicate: Expr) -> Expr:
    """`predicate IS FALSE`, never null."""
    return conjunction((Not(predicate), Not(IsNull(predicate))))


def chosen(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """`CASE WHEN condition THEN then ELSE otherwise END` of truth values: NULL chooses the other branch."""
    met = is_true(condition)
    return disjunction((conjunction((met, then)), conjunction((Not(met), otherwise))))


def same_truth(left: Expr, right: Expr) -> Expr:
    """`left IS NOT DISTINCT FROM right` of two predicates, never null."""
    return disjunction(
        (
            conjunction((is_true(left), is_true(right))),
            conjunction((is_false(left), is_false(right))),
            conjunction((IsNull(left), IsNull(right))),
        )
    )


def compared_with_truth(node: Compare) -> Expr | None:
    """`(predicate) = TRUE` and the like as the predicate or its negation; None for any other comparison."""
    if node.operator not in (Operator.EQ, Operator.NE):
        return None
    predicate, constant = node.left, node.right
    if is_predicate(constant):
        predicate, constant = constant, predicate
    if (
        not is_predicate(predicate)
        or not isinstance(constant, Literal)
        or not isinstance(constant.value, bool)
    ):
        return None
    return predicate if (node.operator is Operator.EQ) is constant.value else Not(predicate)


def compared_coalesce(node: Compare, *, texts: bool) -> Expr | None:
    """`coalesce(value, constant) op constant` by whether the value is NULL; None for any other comparison.

    Args:
        node: the comparison.
        texts: texts are compared by their bytes.
    """
    operator, subject, constant = node.operator, node.left, node.right
    if isinstance(subject, Literal):
        operator, subject, constant = operator.mirrored, constant, subject
    match subject, constant:
        case (Call("coalesce", (value, Literal() as otherwise)), Literal() as limit):
            pass
        case _:
            return None
    if isinstance(value, Literal) or otherwise.value is None:
        return None
    decided = compare_alike(operator, otherwise, limit, texts=texts and _is_column(value))
    if decided is None:
        return None
    null = IsNull(value)
    return disjunction(
        (conjunction((Not(null), Compare(operator, value, limit))), conjunction((null, decided)))
    )


def _is_column(value: Expr) -> bool:
    """Tell whether a value is a column as it is stored, or as an engine's reader shows it."""
    return isinstance(value, Column) or (isinstance(value, Call) and value.function == "read_as")


def may_cast_to_null(predicate: Expr) -> bool:
    """Tell whether an engine that makes NULL of what it cannot cast may do so somewhere in a predicate."""
    return any(
        isinstance(part, Call) or (isinstance(part, Literal) and isinstance(part.value, str))
        for part in _parts(predicate)
    )


def _parts(predicate: Expr) -> Iterator[Expr]:
    """A predicate and everything in it."""
    pending = [predicate]
    while pending:
        part = pending.pop()
        yield part
        match part:
            case And(operands) | Or(operands):
                pending.extend(operands)
            case Compare(_, left, right):
                pending += (left, right)
            case In(operand, options):
                pending += (operand, *options)
            case Not(operand) | IsNull(operand) | Like(operand):
                pending.append(operand)
            case _:
                pass
