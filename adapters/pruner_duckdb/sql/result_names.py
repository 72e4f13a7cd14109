"""Names of result columns that DuckDB derives from the text of an expression.

`SELECT (SELECT max(x) FROM t)` returns a column named `(SELECT max(x) FROM t)`. The replacement of `t` while the
statement runs must not appear there, so such an expression gets its original name as an alias.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any, cast

from pruner_duckdb.sql.queries import READ, nodes_below
from pruner_duckdb.sql.select import Node, Span, splice
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token, tokens
from pruner_duckdb.types import quote

_AFTER_ITEM = re.compile(
    ",|;|from|where|group|having|window|qualify|order|limit|offset|union|intersect|except|using",
    re.IGNORECASE,
)
"""Tokens that end an expression of a SELECT list."""

CALLS = frozenset(["FUNCTION"])
"""Nodes that are calls."""

_NAMED_OTHERWISE = frozenset(["STAR", "COLUMN_REF"])

Serialize = Callable[[str], str]
"""`json_serialize_sql` of a text."""

Deserialize = Callable[[str], str]
"""`json_deserialize_sql` of its result."""


def aliases(
    text: bytes,
    replaced: Sequence[int],
    serialize: Serialize,
    deserialize: Deserialize,
    kinds: frozenset[str] = READ,
) -> list[tuple[Span, str]]:
    """Return edits that add the original name as an alias to each expression of a SELECT list whose name would show a
    replacement.

    Args:
        text: one SELECT statement.
        replaced: where the replaced names begin.
        kinds: the types of the replaced nodes: tables unless given.
        serialize: parses a statement.
        deserialize: writes a parse tree as a statement.
    """
    serialized = serialize(text.decode())
    tree = json.loads(serialized)
    names: list[tuple[Span, str]] = []
    every = list(tokens(text))
    for item in _unnamed(tree, frozenset(replaced), kinds):
        name = _shown(item, tree, deserialize)
        place = min(_places(item, frozenset(replaced), kinds))
        item["alias"] = name
        wanted = without_places(tree)
        for stop in _ends(every, place):
            edit = Span(stop, stop), f" AS {quote(name)}"
            if without_places(json.loads(serialize(splice(text, [edit])))) == wanted:
                names.append(edit)
                break
        item["alias"] = ""
    return names


def _unnamed(tree: Node, replaced: frozenset[int], kinds: frozenset[str]) -> Iterator[Node]:
    """Expressions of SELECT lists that have no alias and contain a replacement."""
    for node in nodes_below(tree):
        if node.get("type") == "SELECT_NODE":
            for item in node["select_list"]:
                if (
                    not item["alias"]
                    and item["type"] not in _NAMED_OTHERWISE
                    and _places(item, replaced, kinds)
                ):
                    yield item


def _places(item: Node, replaced: frozenset[int], kinds: frozenset[str]) -> set[int]:
    return {
        node["query_location"]
        for node in nodes_below(item)
        if str(node.get("type")) in kinds and node.get("query_location") in replaced
    }


def _shown(item: Node, tree: Node, deserialize: Deserialize) -> str:
    """An expression as DuckDB writes it."""
    statement = copy(tree["statements"][0])
    alone = next(node for node in nodes_below(statement["node"]) if node.get("type") == "SELECT_NODE")
    statement["node"] = {
        **alone,
        "select_list": [item],
        "from_table": {"type": "EMPTY", "alias": "", "sample": None, "query_location": 0},
        "where_clause": None,
        "group_expressions": [],
        "group_sets": [],
        "having": None,
        "qualify": None,
        "sample": None,
        "modifiers": [],
        "cte_map": {"map": []},
    }
    return deserialize(json.dumps({"error": False, "statements": [statement]})).removeprefix("SELECT ")


def _ends(every: Sequence[Token], place: int) -> Iterator[int]:
    """Where an expression that contains a position may end: one candidate at its level, one per enclosing bracket."""
    at = next((n for n, token in enumerate(every) if token.start == place), None)
    if at is not None:
        yield _item_end(every, at)
    while at is not None:
        at = _closing(every, at)
        if at is None:
            return
        yield _item_end(every, at)


def _closing(every: Sequence[Token], at: int) -> int | None:
    """The bracket that closes the group containing a token."""
    depth = 0
    for number in range(at + 1, len(every)):
        depth += _change(every[number])
        if depth < 0:
            return number
    return None


def _item_end(every: Sequence[Token], at: int) -> int:
    """Where the list item that contains a token ends."""
    depth = 0
    last = every[at].stop
    for token in every[at + 1 :]:
        depth += _change(token)
        if depth < 0 or (depth == 0 and _AFTER_ITEM.fullmatch(token.text)):
            return last
        last = token.stop
    return last


def _change(token: Token) -> int:
    if token.kind != "sign":
        return 0
    sign = token.text.encode()[0]
    return (sign in OPENING) - (sign in CLOSING)


def without_places(tree: Any) -> Any:
    """A parse tree without the positions of its parts in the text."""
    if isinstance(tree, list):
        return [without_places(child) for child in cast("list[Any]", tree)]
    if isinstance(tree, dict):
        node = cast("Node", tree)
        return {
            key: without_places(child) for key, child in node.items() if not key.startswith("query_location")
        }
    return tree
