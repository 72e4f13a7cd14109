"""Expressions of indexes in Spark's SQL, to order rows by: where an index has no value, the order has none.

Instants are read by the session's clock. The index is in UTC, so that the order is another one than that of its
values; but rows of one value lie together here, too, but for the hours at which a clock changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.expr.derived.canonical import parsed, shown
from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.functions.shapes import in_letters
from pruner.expr.nodes import Call, Column, Expr, Literal

if TYPE_CHECKING:
    from pruner.schema import Field


class NotInSpark(Exception):  # noqa: N818 - callers make a sentence of it
    """A function that Spark has no spelling for here; `str()` says which."""


def in_spark(field: Field) -> str:
    """The expression of an index.

    Raises:
        NotInSpark: it has a function that is not known there.
    """
    return _written(parsed(field.expression or ""))


def _written(node: Expr) -> str:
    match node:
        case Column(path):
            return ".".join("`" + part.replace("`", "``") + "`" for part in path)
        case Literal(str() as value):
            return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
        case Literal(float() as value):
            return f"double('{value!r}')"
        case Literal(value):
            return f"({value})"
        case Call("format", (moment, Literal(str() as pattern))):
            letters = in_letters(pattern)
            quote = '"' if "'" in letters else "'"
            return FUNCTIONS["format"].in_spark.format(_written(moment), f"{quote}{letters}{quote}")
        case Call("whole", (Call("floor" | "ceil" as name, (operand,)),)):
            return f"{name}({_written(operand)})"
        case Call("json field", (operand, Literal(str() as field))):
            return f"get_json_object({_written(operand)}, '$.{field}')"
        case Call("round", arguments):
            return f"round({', '.join(map(_written, arguments))})"
        case Call("if", (condition, value, *others)):
            last = "".join(f" ELSE {_written(each)}" for each in others)
            return f"(CASE WHEN {_written(condition)} THEN {_written(value)}{last} END)"
        case Call(name, arguments) if name in FUNCTIONS and FUNCTIONS[name].in_spark:
            return FUNCTIONS[name].in_spark.format(*map(_written, arguments))
        case _:
            raise NotInSpark(f"{shown(node)} has no spelling in Spark here")
