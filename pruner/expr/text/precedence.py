"""Signs that an engine binds otherwise than the parser.

sqlglot takes `&`, `^`, `|`, `<<` and `>>` from left to right, as DuckDB does. In Spark `n | 4 & 1` is `n | (4 & 1)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from sqlglot import exp

from pruner.expr.engines import SqlEngine

_RANKS: Final[Mapping[str, Mapping[type[Any], int]]] = {
    SqlEngine.SPARK: {
        exp.BitwiseLeftShift: 4,
        exp.BitwiseRightShift: 4,
        exp.BitwiseAnd: 3,
        exp.BitwiseXor: 2,
        exp.BitwiseOr: 1,
    }
}
"""How tightly the signs of an engine bind, from left to right among those of one rank."""


def binds_otherwise(node: Any, engine: str) -> bool:
    """Tell whether an engine would give a node of sqlglot's tree other operands than it has there."""
    ranks = _RANKS.get(engine, {})
    rank = ranks.get(_type_of(node))
    if rank is None:
        return False
    left, right = (ranks.get(_type_of(each), rank + 1) for each in (node.this, node.expression))
    return left < rank or right <= rank


def _type_of(node: Any) -> type[Any]:
    return cast("type[Any]", type(node))
