"""Expressions whose truth is decided: constants, and tests of whole predicates (IS TRUE, IS DISTINCT FROM).

Expressions that are constants, and what can be decided about them without a row.
"""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.expr.exact.clock import day_number
from pruner.expr.nodes import (
    NULL,
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
    Operator,
    Or,
    conjunction,
    disjunction,
)
from pruner.expr.types import is_string, is_temporal

if TYPE_CHECKING:
    from collections.abc import Iterator


def compare_alike(
    operator: Operator, left: Literal, right: Literal, *, texts: bool = False
) -> Constant | None:
    """Decide a comparison of constants, such as `1 = 1` in generated predicates; None where their types are not alike.

    Args:
        operator: the comparison.
        left: a constant.
        right: another one.
        texts: texts are compared by their bytes. Otherwise they are not decided.
    """
    if left.value is None or right.value is None:
        return NULL if left.type == right.type else None
    integers = pa.types.is_integer(left.type) and pa.types.is_integer(right.type)
    alike = left.type == right.type and (
        (texts and is_string(left.type)) or pa.types.is_boolean(left.type) or is_temporal(left.type)
    )
    if not integers and not alike:
        return None
    try:
        first, second = _ordered(left), _ordered(right)
    except UnicodeEncodeError:
        return None
    order = (first > second) - (first < second)
    match operator:
        case Operator.EQ:
            return Constant(order == 0)
        case Operator.NE:
            return Constant(order != 0)
        case Operator.LT:
            return Constant(order < 0)
        case Operator.LE:
            return Constant(order <= 0)
        case Operator.GT:
            return Constant(order > 0)
        case Operator.GE:
            return Constant(order >= 0)


def _ordered(literal: Literal) -> Any:
    """A value that sorts as its type does."""
    match literal.value:
        case str() as text:
            return text.encode()
        case datetime.date() as date:
            return day_number(date)
        case value:
            return value


def of_one_type(options: list[Expr]) -> bool:
    """Tell whether all are constants of one type, including casts of literals: IN is then an OR of equalities."""
    constants = [
        option
        for option in options
        if isinstance(option, Literal)
        or (isinstance(option, Call) and option.type is not None and isinstance(option.arguments[0], Literal))
    ]
    return len(constants) == len(options) and len({constant.type for constant in constants}) == 1


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
    """`CASE WHEN condition THEN then ELSE otherwise END` of truth values: NULL selects the ELSE branch."""
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
    """`coalesce(value, constant) op constant`, split by whether the value is NULL; None for any other comparison.

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
    """Tell whether a predicate may contain a cast that yields NULL in an engine whose failed casts do so."""
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
