"""The predicates of the scans in an optimized plan.

One scan's predicate stands in two places: the `table_filters` of its LOGICAL_GET and the LOGICAL_FILTER
directly above.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pruner.expr.nodes import TRUE, Column, Expr, disjunction
from pruner_duckdb.decode import Node, all_of, decode_expression, decode_table_filter


class UnknownPlanFormat(Exception):  # noqa: N818 - never reaches a user
    """The plan JSON does not look like those this module was made for."""


def scan_predicates(plans: list[Node]) -> dict[str, Expr]:
    """Return for each scanned table name the rows that its scans want: the OR over the scans of that name.

    Args:
        plans: `plans` of DuckDB's serialized, optimized statement.

    Returns:
        Predicates by the table's name in the shadow database. A table that is not scanned has no entry.

    Raises:
        UnknownPlanFormat: a scan is not written as expected.
    """
    found: dict[str, list[Expr]] = {}
    for scan, above in _scans(plans):
        name, expression = _scan_predicate(scan, above)
        found.setdefault(name, []).append(expression)
    return {name: TRUE if TRUE in each else disjunction(tuple(each)) for name, each in found.items()}


def _scans(plans: list[Node]) -> Iterator[tuple[Node, Node | None]]:
    """Every LOGICAL_GET with the operator directly above it."""
    pending: list[tuple[Any, Node | None]] = [(plan, None) for plan in plans]
    while pending:
        node, parent = pending.pop()
        if node.get("type") == "LOGICAL_GET":
            yield node, parent
        pending.extend((child, node) for child in node.get("children", ()))


def _scan_predicate(scan: Node, above: Node | None) -> tuple[str, Expr]:
    try:
        data = scan.get("function_data")
        if not data or "table" not in data:
            return "", TRUE  # a table function
        columns = _scanned_columns(scan)
        output = _output_columns(scan, columns)
        parts = list(_table_filters(scan, columns))
        if above is not None and above["type"] == "LOGICAL_FILTER":
            resolve = _resolver(output)
            parts.extend(decode_expression(expression, resolve) for expression in above["expressions"])
        return data["table"], all_of(parts)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise UnknownPlanFormat(f"a scan in DuckDB's plan is not written as expected ({error!r})") from error


def _named(names: list[str], position: int) -> Column | None:
    return Column((names[position],)) if 0 <= position < len(names) else None


def _scanned_columns(scan: Node) -> list[Column | None]:
    """The columns that the scan reads, in its own order; None for what is no plain column (row ids, parts
    of structs).
    """
    names: list[str] = scan["names"]
    columns: list[Column | None] = []
    for entry in scan["column_indexes"]:
        position = entry["index"]
        plain: bool = not entry.get("child_indexes") and entry.get("index_type", "FULL_READ") == "FULL_READ"
        columns.append(_named(names, position) if plain else None)
    return columns


def _output_columns(scan: Node, columns: list[Column | None]) -> list[Column | None]:
    """The columns that the scan hands to the operator above."""
    chosen: list[int] = scan["projection_ids"]
    return [columns[position] for position in chosen] if chosen else columns


def _resolver(output: list[Column | None]) -> Any:
    def resolve(reference: Node) -> Column | None:
        position: int = reference.get("index", -1)
        return output[position] if 0 <= position < len(output) else None

    return resolve


def _table_filters(scan: Node, columns: list[Column | None]) -> Iterator[Expr]:
    filters = scan["table_filters"]
    # 2.0 numbers them by position among the scanned columns, 1.5 by position in the table.
    by_scan_order = bool(scan.get("table_filters_by_projection"))
    for entry in filters["filters"]:
        position: int = entry["key"]
        if by_scan_order:
            column = columns[position] if position < len(columns) else None
        else:
            column = _named(scan["names"], position)
        if column is not None:
            yield decode_table_filter(entry["value"], column)
    # Filters over several columns are repeated in the LOGICAL_FILTER above, where their references are plain.
