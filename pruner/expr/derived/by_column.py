"""Which indexed expressions are functions of one column that never fall (`pruner.expr.functions.rising`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.functions.function import Argument, Evaluate
from pruner.expr.functions.registry import row_for
from pruner.expr.functions.rising import Rising, in_storage
from pruner.expr.nodes import Call, Column, Expr, Literal

if TYPE_CHECKING:
    from pruner.schema import Field


def rising(expression: Expr, field: Field, column: Field) -> Rising | None:
    """An expression as a function of a column that never falls; None where it may, or is over another column.

    Args:
        expression: in the canonical form.
        field: stands for its values.
        column: as the engine reads it.
    """
    found = _function(expression, column)
    if found is None:
        return None
    evaluate, _ = found
    return Rising(field, in_storage(evaluate, column.type, field.type))


def _function(node: Expr, column: Field) -> tuple[Evaluate, pa.DataType] | None:
    match node:
        case Column(path):
            return (lambda value: value, column.type) if path == column.path else None
        case Call(name, arguments):
            return _call(name, arguments, column)
        case _:
            return None


def _call(name: str, arguments: tuple[Expr, ...], column: Field) -> tuple[Evaluate, pa.DataType] | None:
    inner: Evaluate | None = None
    judged: list[Argument] = []
    for each in arguments:
        if isinstance(each, Literal):
            judged.append(Argument(each.type, each.value))
            continue
        found = _function(each, column)
        if found is None or inner is not None:
            return None
        inner, type_ = found
        judged.append(Argument(type_))
    row = row_for(name, judged)
    outer = None if row is None or row.rises is None else row.rises(judged)
    if row is None or outer is None or inner is None:
        return None
    return _composed(outer, inner), row.result(judged)


def _composed(outer: Evaluate, inner: Evaluate) -> Evaluate:
    return lambda value: outer(inner(value))
