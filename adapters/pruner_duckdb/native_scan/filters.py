"""From filters as the extension writes them to one predicate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

from pruner.expr.build import any_of
from pruner.expr.nodes import Column, Compare, Expr, In, Opaque, Operator, conjunction
from pruner_duckdb.decode.constants import UndecodablePart, constants
from pruner_duckdb.decode.decode import decode_expression, decode_value
from pruner_duckdb.decode.shown import function_name
from pruner_duckdb.sql.trees import Node, nodes_below

_OWN_CATALOG = "system"
"""Where DuckDB's own functions are."""


def static_predicates(columns: Sequence[str | None], filters: Sequence[Any]) -> Iterable[Expr]:
    """The filters of a scan while it is optimized, all of which hold.

    Args:
        columns: names of the scanned columns, None for what is no plain column.
        filters: expressions over them; one that could not be written is a text.
    """

    def column_of(node: Node) -> Column | None:
        place = node.get("binding", {}).get("column_index", -1)
        name = columns[place] if isinstance(place, int) and 0 <= place < len(columns) else None
        return None if name is None else Column((name,))

    return (_predicate(each, column_of) for each in filters)


def dynamic_predicates(filters: Sequence[Mapping[str, Any]]) -> Iterable[Expr]:
    """What was learned of a scan until it starts: each over one column."""
    return map(_learned, filters)


def _learned(filter_: Mapping[str, Any]) -> Expr:
    """An expression, or the keys of a join: each of them, or the ends of ranges that hold them."""

    def column_of(_: Node) -> Column:
        return Column((filter_["column"],))

    if "expression" in filter_:
        return _predicate(filter_["expression"], column_of)
    try:
        operand = decode_value(filter_["input"], column_of)
        keys = constants(filter_["type"], filter_["keys" if "keys" in filter_ else "ends"])
    except UndecodablePart as reason:
        return Opaque((column_of({}),), "the keys of a join", str(reason))
    if "keys" in filter_:
        return In(operand, tuple(keys))
    ranges = list(zip(keys[::2], keys[1::2], strict=True))
    single = tuple(low for low, high in ranges if low == high)
    wide = [
        conjunction((Compare(Operator.GE, operand, low), Compare(Operator.LE, operand, high)))
        for low, high in ranges
        if low != high
    ]
    return any_of((*((In(operand, single),) if single else ()), *wide))


def _predicate(filter_: Any, column_of: Callable[[Node], Column | None]) -> Expr:
    if not isinstance(filter_, dict):
        return Opaque((), str(filter_), "DuckDB cannot write it as JSON")
    node = cast("Node", filter_)
    foreign = next((name for name in map(_foreign_function, nodes_below(node)) if name), None)
    if foreign is not None:
        return Opaque((), foreign, f"function {foreign} is not DuckDB's own")
    return decode_expression(node, column_of)


def _foreign_function(node: Node) -> str | None:
    """The name of a function that somebody put in the place of one of DuckDB's; None for anything else."""
    if node.get("expression_class") != "BOUND_FUNCTION":
        return None
    path: list[str] = node.get("qname", {}).get("path") or []
    return function_name(node) if len(path) > 1 and path[0] != _OWN_CATALOG else None
