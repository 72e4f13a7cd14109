"""Expressions that are constants, and what is decided about them without a row."""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from pruner.expr.exact.clock import day_number
from pruner.expr.nodes import NULL, Call, Constant, Expr, Literal, Operator
from pruner.expr.types import is_string, is_temporal


def compare_alike(
    operator: Operator, left: Literal, right: Literal, *, texts: bool = False
) -> Constant | None:
    """Decide a comparison of constants, as `1 = 1` in generated predicates; None where their types are not alike.

    Args:
        operator: the comparison.
        left: a constant.
        right: another one.
        texts: texts are compared by their bytes. Else nothing is decided of them.
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
    """A value in the order of its type."""
    match literal.value:
        case str() as text:
            return text.encode()
        case datetime.date() as date:
            return day_number(date)
        case value:
            return value


def of_one_type(options: list[Expr]) -> bool:
    """Constants of one type, casts of literals included: IN over them is the OR of equalities."""
    constants = [
        option
        for option in options
        if isinstance(option, Literal)
        or (isinstance(option, Call) and option.type is not None and isinstance(option.arguments[0], Literal))
    ]
    return len(constants) == len(options) and len({constant.type for constant in constants}) == 1
