"""`column = ANY([constants])`, which DuckDB plans as a join with a list, as the IN that means the same.

Only the shadow's copy of a statement is told so: the session runs what was written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, cast

from pruner_duckdb.sql.literals import NoLiteral, sql_literal
from pruner_duckdb.sql.trees import Node, nodes_below

_NUMBERS: Final = rb"-?[0-9]+(?:\s*,\s*-?[0-9]+)*"
_TEXTS: Final = rb"'[^']*'(?:\s*,\s*'[^']*')*"
_FEW: Final = 16
"""So many values at most are written one by one."""
_MOST_NAMES: Final = 2
"""Parts of a column's name: what stands in front of more than these is edited by itself."""
_LISTED: Final = re.compile(
    rb"\s*=\s*ANY\s*\(\s*(?:(?:ARRAY\s*)?\[\s*(?P<listed>" + _NUMBERS + b"|" + _TEXTS + rb")\s*\]"
    rb"|(?P<parameter>\?|\$\w+))\s*\)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AnyOfList:
    """Where such a comparison stands in the text, its column and its constants, as places in bytes.

    Places alone, since statements that differ in numbers share what is known of them. `parameter` is what stands for
    the list; None where constants do.
    """

    start: int
    stop: int
    column_stop: int
    listed: tuple[int, int]
    parameter: str | None

    def as_in(self, text: bytes, value: object) -> str:
        """The comparison as IN, or of many values as what DuckDB makes an IN of, whose text it reads faster.

        Args:
            text: the statement.
            value: that of the parameter.

        Raises:
            NoLiteral: the value is no list of numbers or texts.
        """
        first, last = self.listed
        column = text[self.start : self.column_stop].decode()
        if self.parameter is None:
            return f"({column} IN ({text[first:last].decode()}))"
        values = _numbers_or_texts(value)
        if len(values) > _FEW:
            return f"list_contains({sql_literal(values)}, {column})"
        return f"({column} IN ({', '.join(map(sql_literal, values))}))"


def take_any_lists(root: Node, text: bytes) -> tuple[AnyOfList, ...]:
    """Take such comparisons out of a syntax tree: their lists stay, the subqueries that the parser made of them go."""
    found: list[AnyOfList] = []
    for node in nodes_below(root) if b"any" in text.lower() else ():
        compared = _any_of_list(node, text) if node.get("type") == "SUBQUERY" else None
        if compared is not None:
            found.append(compared)
            node["subquery"] = _list_inside(node)
    return tuple(found)


def _any_of_list(node: Node, text: bytes) -> AnyOfList | None:
    child: Any = node.get("child")
    if node.get("subquery_type") != "ANY" or node.get("comparison_type") != "COMPARE_EQUAL" or not child:
        return None
    if child.get("type") != "COLUMN_REF" or len(child["column_names"]) > _MOST_NAMES:
        return None
    start = child.get("query_location", 0)
    end = start + child.get("query_location_length", 0)
    found = _LISTED.match(text, end)
    if found is None or not _is_said_of(node, text, start, found.end()):
        return None
    identifier = _parameter(node) if found["parameter"] else None
    if found["parameter"] and identifier is None:
        return None
    return AnyOfList(start, found.end(), end, found.span("listed"), identifier)


def _is_said_of(node: Node, text: bytes, start: int, stop: int) -> bool:
    """Tell whether a part of the text is what a node says: DuckDB 2.0 tells its place, 1.5 that of its operator."""
    place, length = node.get("query_location", 0), node.get("query_location_length")
    if length is not None:
        return place == start and place + length == stop
    return start < place < stop and text[place : place + 1] == b"="


def _list_inside(node: Node) -> Node:
    unnest = node["subquery"]["node"]["select_list"][0]
    return (unnest.get("arguments") or unnest["children"])[0]


def _parameter(node: Node) -> str | None:
    inner = _list_inside(node)
    inner = inner.get("expression", inner)
    return str(inner["identifier"]) if inner.get("type") == "VALUE_PARAMETER" else None


def _numbers_or_texts(value: object) -> list[object]:
    values = cast("list[object]", value) if isinstance(value, list) else []
    if {type(each) for each in values} not in ({int}, {str}):
        raise NoLiteral("a list of other values than numbers or texts")
    return values
