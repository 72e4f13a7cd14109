"""Forms of text that hold a list of constants: whether a value is in it, whether a text is like one of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from sqlglot import exp

from pruner.expr.constants import of_one_type
from pruner.expr.nodes import Expr, In, Literal, conjunction, disjunction

Node: TypeAlias = Any
"""A node of sqlglot's tree, which is not typed closely enough to be checked."""


def contained(operand: Expr, options: Sequence[Expr]) -> In | None:
    """`list_contains([…], value)`: without NULL in the list it is IN."""
    literals = tuple(each for each in options if isinstance(each, Literal) and each.value is not None)
    if not literals or len(literals) < len(options) or not of_one_type(list(options)):
        return None
    return In(operand, literals)


def like_each(node: Node, like: Callable[[Node], Expr]) -> Expr | None:
    """`LIKE ANY (…)` and `LIKE ALL (…)` as Spark has them; None for any other LIKE.

    `NOT LIKE ANY` is true where one pattern does not match, and `NOT LIKE ALL` where none does.

    Args:
        node: the LIKE.
        like: translates one with a single pattern.
    """
    patterns = node.expression
    if not isinstance(patterns, exp.Any | exp.All):
        return None
    listed: list[Node] = (
        patterns.this.expressions if isinstance(patterns.this, exp.Tuple) else [patterns.this.this]
    )
    if not isinstance(patterns.this, exp.Tuple | exp.Paren) or not all(
        isinstance(each, exp.Literal) and each.is_string for each in listed
    ):
        return None
    negate = node.args.get("negate")
    parts = tuple(like(exp.Like(this=node.this, expression=each, negate=negate)) for each in listed)
    return disjunction(parts) if isinstance(patterns, exp.Any) else conjunction(parts)
