"""The predicates of the scans in an optimized plan.

One scan's predicate is in two places: the `table_filters` of its LOGICAL_GET and the LOGICAL_FILTER directly above. If
DuckDB numbers the rows for a join that depends on each of them, a part of it is above that numbering, too; and a join
needs only rows with one of its keys, where these are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pruner.expr.nodes import TRUE, Column, Expr, disjunction
from pruner_duckdb.decode.decode import Node, all_of, decode_expression, decode_table_filter
from pruner_duckdb.decode.join_keys import JoinKeys, KnownKeys, is_of_known_keys
from pruner_duckdb.decode.numbered import ConditionPushdown, Conditions, PlanColumn, takes_names
from pruner_duckdb.sql.queries import is_node

NO_KEYS: Final[KnownKeys] = {}
"""The known keys before those of any scan have been read."""


class UnknownPlanFormat(Exception):  # noqa: N818 - never reaches a user
    """The plan JSON does not look like those this module was made for."""


@dataclass(frozen=True)
class ScanConditions:
    """What a plan says about its scans, by the tables' names in the shadow database.

    `predicates` has for each scanned name the rows that its scans need: the OR over the scans of that name. `joined`
    has for each name the columns of other scans whose values, once known, would be a condition on it: one set for each
    comparison.
    """

    predicates: Mapping[str, Expr]
    joined: Mapping[str, frozenset[frozenset[PlanColumn]]]


def scan_conditions(plans: list[Node], text: str = "", keys: KnownKeys = NO_KEYS) -> ScanConditions:
    """Read what a plan says about its scans.

    Args:
        plans: `plans` of DuckDB's serialized, optimized statement.
        text: the statement.
        keys: the values of columns of scans that have been read.

    Raises:
        UnknownPlanFormat: a scan is not written as expected.
    """
    predicates: dict[str, list[Expr]] = {}
    joined: dict[str, frozenset[frozenset[PlanColumn]]] = {}
    for scan, conditions in _scans(plans, keys, looks_below=not takes_names(text)):
        name, expression, unread = _scan_predicate(scan, conditions)
        predicates.setdefault(name, []).append(expression)
        if unread:
            joined[name] = joined.get(name, frozenset()) | unread
    return ScanConditions(
        {name: TRUE if TRUE in each else disjunction(tuple(each)) for name, each in predicates.items()},
        joined,
    )


def scan_predicates(plans: list[Node], text: str = "") -> Mapping[str, Expr]:
    """Only the predicates of `scan_conditions`."""
    return scan_conditions(plans, text).predicates


_OF_ONE_SCAN = frozenset(
    ["LOGICAL_GET", "LOGICAL_FILTER", "LOGICAL_PROJECTION", "LOGICAL_AGGREGATE_AND_GROUP_BY"]
)
"""Operators above a scan that remove rows only by their conditions."""


def whole_predicate(plans: list[Node]) -> Expr | None:
    """The predicate of the only scan of a statement, if it is the whole condition of the statement.

    `scan_predicates` may leave out a condition that DuckDB turned into a join, or one on a part of a column. That keeps
    more rows than needed, and proves nothing about all of them.

    Args:
        plans: of a SELECT of constants over one table with a condition.

    Returns:
        None if the plan has anything besides the scan and its conditions.

    Raises:
        UnknownPlanFormat: the scan is not written as expected.
    """
    scans = list(_scans(plans, NO_KEYS, looks_below=False))
    if len(plans) != 1 or len(scans) != 1:
        return None
    node: Any = plans[0]
    while node.get("children"):
        if len(node["children"]) != 1 or node.get("type") not in _OF_ONE_SCAN:
            return None
        node = node["children"][0]
    scan, conditions = scans[0]
    data: Node = scan.get("function_data") or {}
    if node is not scan or data.get("table") is None:
        return None
    columns, by_scan_order = _scanned_columns(scan), bool(scan.get("table_filters_by_projection"))
    for entry in scan["table_filters"]["filters"]:
        known = not by_scan_order or (entry["key"] < len(columns) and columns[entry["key"]] is not None)
        if not known:
            return None
    return _scan_predicate(scan, conditions)[1]


def _scans(plans: list[Node], keys: KnownKeys, *, looks_below: bool) -> list[tuple[Node, list[Conditions]]]:
    """Every LOGICAL_GET with the conditions above it, whose references are to its columns.

    Args:
        plans: of the statement.
        keys: the values of columns of scans that have been read.
        looks_below: whether a numbering of rows is certain to be DuckDB's own.

    Raises:
        UnknownPlanFormat: an operator is not written as expected.
    """
    scans: list[Node] = []
    by_scan: dict[int, list[Conditions]] = {}  # by the identity of the scan
    try:
        descent = ConditionPushdown(plans, _width) if looks_below else None
        join_keys = JoinKeys(plans, _column_at, descent.width, keys) if descent else None
        pending: list[tuple[Any, Node | None]] = [(plan, None) for plan in plans]
        while pending:
            node, parent = pending.pop()
            conditions = Conditions(parent["expressions"]) if is_node(parent, "LOGICAL_FILTER") else None
            if is_node(node, "LOGICAL_GET"):
                scans.append(node)
                by_scan.setdefault(id(node), []).extend([conditions] if conditions else [])
            elif conditions and descent is not None and descent.starts_at(node):
                for scan, reached in descent.into(node, conditions):
                    by_scan.setdefault(id(scan), []).append(reached)
            elif descent is not None and join_keys is not None:
                for side, among in join_keys.conditions(node):
                    for scan, reached in descent.into(side, among):
                        if reached.is_about_one():
                            by_scan.setdefault(id(scan), []).append(reached)
            pending.extend((child, node) for child in node.get("children", ()))
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        raise UnknownPlanFormat(f"DuckDB's plan is not written as expected ({error!r})") from error
    return [(scan, by_scan[id(scan)]) for scan in scans]


def _scan_predicate(
    scan: Node, conditions: list[Conditions]
) -> tuple[str, Expr, frozenset[frozenset[PlanColumn]]]:
    """The table of a scan, its predicate, and the columns of other scans that would add conditions."""
    unread: set[frozenset[PlanColumn]] = set()
    try:
        data = scan.get("function_data")
        if not data or "table" not in data:
            return "", TRUE, frozenset()  # a table function
        columns = _scanned_columns(scan)
        output = _output_columns(scan, columns)
        parts = list(_table_filters(scan, columns))
        for condition in conditions:
            resolve = _resolver(output, condition)
            decoded = [decode_expression(expression, resolve) for expression in condition.expressions]
            # Without the keys of a join the scan does not change: no need to report that they are not understood.
            if condition.join_columns and not all(map(is_of_known_keys, decoded)):
                continue
            if condition.unread:
                unread.add(condition.unread)
            else:
                parts.extend(decoded)
        return data["table"], all_of(parts), frozenset(unread)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise UnknownPlanFormat(f"a scan in DuckDB's plan is not written as expected ({error!r})") from error


def _column_at(scan: Node, place: int) -> PlanColumn | None:
    """The column at a position of a table's scan; None for parts of structs, row ids, and types with details."""
    data = scan.get("function_data")
    if not data or "table" not in data:
        return None
    output = _output_columns(scan, _scanned_columns(scan))
    column = output[place] if 0 <= place < len(output) else None
    if column is None:
        return None
    (name,) = column.path
    data_type = scan["returned_types"][scan["names"].index(name)]
    return None if data_type.get("type_info") else PlanColumn(data["table"], name, data_type["id"])


def _width(scan: Node) -> int | None:
    """How many columns a scan has; None for a table function."""
    data = scan.get("function_data")
    return len(_output_columns(scan, _scanned_columns(scan))) if data and "table" in data else None


def _named(names: list[str], position: int) -> Column | None:
    return Column((names[position],)) if 0 <= position < len(names) else None


def _scanned_columns(scan: Node) -> list[Column | None]:
    """The columns that the scan reads, in its own order; None for those that are no plain columns (row ids, parts of
    structs).
    """
    names: list[str] = scan["names"]
    columns: list[Column | None] = []
    for entry in scan["column_indexes"]:
        position = entry["index"]
        plain: bool = not entry.get("child_indexes") and entry.get("index_type", "FULL_READ") == "FULL_READ"
        columns.append(_named(names, position) if plain else None)
    return columns


def _output_columns(scan: Node, columns: list[Column | None]) -> list[Column | None]:
    """The columns that the scan passes to the operator above."""
    chosen: list[int] = scan["projection_ids"]
    return [columns[position] for position in chosen] if chosen else columns


def _resolver(output: list[Column | None], conditions: Conditions) -> Callable[[Node], Column | None]:
    def resolve(reference: Node) -> Column | None:
        position = conditions.position(reference.get("index", -1))
        return output[position] if position is not None and 0 <= position < len(output) else None

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
