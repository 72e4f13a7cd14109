"""Expressions that are constants, and what is decided about them without a row."""

from __future__ import annotations

import pyarrow as pa

from pruner.expr.nodes import Call, Constant, Expr, Literal, Operator


def compare_integers(operator: Operator, left: Literal, right: Literal) -> Constant | None:
    """Decide `1 = 1`, as generated predicates have it; None for anything but integers."""
    if not (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
        return None
    if not isinstance(left.value, int) or not isinstance(right.value, int):
        return None
    order = (left.value > right.value) - (left.value < right.value)
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


def of_one_type(options: list[Expr]) -> bool:
    """Constants of one type, casts of literals included: IN over them is the OR of equalities."""
    constants = [
        option
        for option in options
        if isinstance(option, Literal)
        or (isinstance(option, Call) and option.type is not None and isinstance(option.arguments[0], Literal))
    ]
    return len(constants) == len(options) and len({constant.type for constant in constants}) == 1
