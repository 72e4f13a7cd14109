"""DuckDB's parse trees and plans as Python reads them from JSON."""

from __future__ import annotations

from collections.abc import Iterator
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
