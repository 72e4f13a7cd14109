"""Expressions of DuckDB's plan JSON as text for people."""

from __future__ import annotations

from pruner_duckdb.sql.trees import Node


def function_name(node: Node) -> str:
    """Unqualified name of a bound function."""
    path = node.get("qname", {}).get("path")
    return str(path[-1] if path else node.get("name", ""))


def summary(node: Node, limit: int = 200) -> str:
    """Show an expression to people, roughly as it would be written."""
    text = _shown(node)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _shown(node: Node, depth: int = 0) -> str:
    if depth > 8:
        return "…"
    below: list[Node] = node.get("children", [])
    children = [_shown(child, depth + 1) for child in below[:8]]
    match node.get("expression_class"):
        case "BOUND_CONSTANT":
            value = node.get("value", {})
            return "NULL" if value.get("is_null") else repr(value.get("value"))
        case "BOUND_REF" | "BOUND_COLUMN_REF":
            return str(node.get("alias"))
        case "BOUND_FUNCTION":
            name = function_name(node)
            if node.get("is_operator") and len(children) == 2:
                return f"{children[0]} {name} {children[1]}"
            return f"{name}({', '.join(children)})"
        case _:
            return f"{str(node.get('type')).lower()}({', '.join(children)})"
