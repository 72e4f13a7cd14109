"""Properties of a query derived from its parse tree: which columns its `*` stands for, and whether names in it can mean
something other than columns.

DuckDB's parse trees and plans are used as Python reads them from JSON.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, TypeAlias, TypeGuard, cast

Node: TypeAlias = dict[str, Any]


def is_node(part: object, type_: str) -> TypeGuard[Node]:
    """Tell whether a part of a tree is an object of this type."""
    return isinstance(part, dict) and cast("Node", part).get("type") == type_


def nodes_below(part: Any) -> Iterator[Node]:
    """Every object of a JSON value, itself included, in no particular order."""
    pending: list[Any] = [part]
    while pending:
        part = pending.pop()
        if isinstance(part, list):
            pending.extend(cast("list[Any]", part))
        elif isinstance(part, dict):
            node = cast("Node", part)
            yield node
            pending.extend(node.values())


NO_LOCATION = 1 << 62
"""Locations from this number on mean that the parser kept none."""

READ = frozenset(["BASE_TABLE", "TABLE_FUNCTION"])
"""Nodes of what a query reads by name in FROM."""

_MORE_OF_A_STAR = (
    "exclude_list",
    "replace_list",
    "rename_list",
    "qualified_exclude_list",
    "columns",
    "expr",
    "alias",
)
_MORE_OF_A_SELECT = ("modifiers", "group_expressions", "group_sets", "having", "qualify", "sample")
"""Parts of a query that make the columns of `SELECT *` matter."""


def is_of_any_row(node: Node) -> bool:
    """Tell whether a node is `EXISTS (SELECT * FROM …)`, which depends on rows, not on their columns."""
    if node.get("type") != "SUBQUERY" or node.get("subquery_type") not in ("EXISTS", "NOT_EXISTS"):
        return False
    query = node["subquery"].get("node", {})
    return query.get("type") == "SELECT_NODE" and _is_of_whole_rows(query)


def _is_of_whole_rows(query: Node) -> bool:
    """Tell whether a query is `SELECT * FROM … WHERE …` and nothing more."""
    return (
        _shows_whole_rows(query["select_list"])
        and not any(query.get(key) for key in _MORE_OF_A_SELECT)
        and query.get("aggregate_handling") == "STANDARD_HANDLING"
    )


def _shows_whole_rows(items: list[Node]) -> bool:
    """Tell whether a select list is `*` and nothing more."""
    return (
        len(items) == 1
        and items[0].get("type") == "STAR"
        and not any(items[0].get(key) for key in (*_MORE_OF_A_STAR, "relation_name"))
    )


def shows_table(from_table: Node | None, visible: frozenset[str]) -> bool:
    """Tell whether `*` over a FROM may stand for columns of tables, and not only for those that a subquery names."""
    pending = [from_table]
    while pending:
        part = pending.pop()
        match (part or {}).get("type"):
            case "JOIN" if part is not None:
                pending += [part["left"], part["right"]]
            case "BASE_TABLE" if part is not None:
                if part.get("schema_name") or str(part["table_name"]).lower() not in visible:
                    return True
            case "SUBQUERY" | "EMPTY" | "TABLE_FUNCTION" | "EXPRESSION_LIST":
                pass
            case _:
                return True
    return False


def scope_of_child(query: Node, key: str, child: object) -> Node | None:
    """The query itself if a bare name in this part of it resolves to a column of its tables first; None otherwise.

    In LIMIT, `user` is the function whatever columns exist, and the condition of a join sees the tables that it joins.
    """
    if key == "from_table":
        join = cast("Node", child) if isinstance(child, dict) else {}
        two_tables = all(is_node(join.get(side), "BASE_TABLE") for side in ("left", "right"))
        return query if two_tables else None
    return query


def tables_in_scope(
    query: Node, name: str, tables: Container[int], ctes: Mapping[str, Node]
) -> Iterator[Node | None]:
    """Yield the tables of a query's FROM whose columns are all visible in the query by their own names, or by the names
    given there; and None for any part of the FROM that itself defines a column of the name.

    Args:
        query: the query.
        name: of the column, in lower case.
        tables: identities of the nodes that are tables, and not names of a WITH.
        ctes: queries in WITH, by their names.
    """
    pending: list[Node | None] = [query["from_table"] or {}]
    while pending:
        part = pending.pop()
        match None if part is None else part.get("type"):
            case None:
                yield None
            case "BASE_TABLE" if part is not None and id(part) in tables:
                yield part
            case _ if part is None or part.get("column_name_alias"):
                pass
            case "BASE_TABLE" if not part.get("schema_name"):
                pending += _behind(ctes.get(str(part["table_name"]).lower(), {}), name)
            case "JOIN":
                shows_right = part.get("join_type") not in ("SEMI", "ANTI")
                pending += [part["left"], part["right"]] if shows_right else [part["left"]]
            case "SUBQUERY":
                pending += _behind(part["subquery"].get("node", {}), name)
            case _:
                pass


def _behind(query: Node, name: str) -> Iterator[Node | None]:
    """Yield a query's FROM if `*` makes its columns the query's own, and None for a column of the name."""
    for item in query["select_list"] if query.get("type") == "SELECT_NODE" else ():
        if item.get("type") == "STAR":
            excluded = [
                *item["exclude_list"],
                *(excluded["column"] for excluded in item["qualified_exclude_list"]),
            ]
            other = any(item.get(key) for key in ("rename_list", "columns", "expr", "relation_name"))
            if not other and name not in map(str.lower, excluded):
                yield query["from_table"] or {}
        elif (item["alias"] or str(item.get("column_names", [""])[-1])).lower() == name:
            yield None


def path_of_call(function: Node) -> tuple[str, ...]:
    """The parts of a function's name."""
    parts = (function.get("catalog"), function.get("schema"), function.get("function_name"))
    return tuple(str(part) for part in parts if part)


def names_of_lambda(node: Node) -> list[Node]:
    """The column references in a lambda that are its parameters.

    For `x -> …` this is unknown: it may be an operator of JSON. Only there does the parser keep the position of `x`.
    """
    named = [part for part in nodes_below(node["lhs"]) if part.get("type") == "COLUMN_REF"]
    if any(part.get("query_location", NO_LOCATION) < NO_LOCATION for part in named):
        return []
    names = {part["column_names"][0] for part in named}
    inside = (part for part in nodes_below(node["expr"]) if part.get("type") == "COLUMN_REF")
    return [*named, *(part for part in inside if part["column_names"][0] in names)]
