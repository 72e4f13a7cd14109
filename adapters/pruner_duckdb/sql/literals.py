"""Constants as typed SQL literals for the shadow's copy of a statement, and lists of them as IN.

`column = ANY([constants])`, which DuckDB plans as a join with a list, becomes the equivalent IN.

Only the shadow's copy of a statement is changed: the session runs what was written.
"""

from __future__ import annotations

import datetime
import math
import re
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, cast

from pruner_duckdb.sql.queries import Node, nodes_below
from pruner_duckdb.types import quote_text

_TO_ESCAPE: Final = re.compile(r'["\\\0]')
"""Characters that would need escapes in a text inside the text of a list."""

MOST_LISTED: Final = 16_384
"""With more values, planning takes longer than most scans."""


class NoLiteral(Exception):  # noqa: N818 - never reaches a user
    """A parameter that has no SQL literal of exactly the type that DuckDB gives it."""


def sql_literal(value: object) -> str:
    """Return a literal that binds like the parameter does.

    DuckDB treats a string parameter as an untyped string literal, and every other value as one of its own type.

    Raises:
        NoLiteral: the value's type is not known here, or it is NaN or infinite.
    """
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int():
            return f"(({value})::{_integer_type(value)})"
        case float() if math.isfinite(value):
            return f"({value!r}::DOUBLE)"
        case str() if "\0" not in value:
            return quote_text(value)
        case bytes():
            return "('" + "".join(f"\\x{byte:02X}" for byte in value) + "'::BLOB)"
        case Decimal() if value.is_finite():
            return _decimal(value)
        case datetime.date() | datetime.time():
            return _moment(value)
        case uuid.UUID():
            return f"('{value}'::UUID)"
        case list() | tuple() if value:
            return _list(cast("Sequence[object]", value))
        case _:
            raise NoLiteral(f"a parameter of type {type(value).__name__}")


def _list(values: Sequence[object]) -> str:
    """A list of integers, dates or texts as a cast of one text.

    DuckDB takes twenty times as long to parse one expression for each value.
    """
    if len(values) > MOST_LISTED:
        raise NoLiteral(f"a list of more than {MOST_LISTED:,} values")
    kinds = {type(value) for value in values}
    if kinds == {int} and all(-(2**63) <= value < 2**63 for value in cast("Sequence[int]", values)):
        type_ = (
            "BIGINT"
            if any(_integer_type(value) == "BIGINT" for value in cast("Sequence[int]", values))
            else "INTEGER"
        )
    elif kinds == {str} and not any(_TO_ESCAPE.search(value) for value in cast("Sequence[str]", values)):
        values, type_ = [f'"{value}"' for value in values], "VARCHAR"
    elif kinds == {datetime.date}:
        type_ = "DATE"
    else:
        raise NoLiteral(
            "a list of other values than integers, dates, or texts without quotes and backslashes"
        )
    # No parentheses around it: `x IN (list)` compares with the list itself.
    return f"CAST({quote_text('[' + ', '.join(map(str, values)) + ']')} AS {type_}[])"


def _moment(value: datetime.date | datetime.time) -> str:
    match value:
        case datetime.datetime() if value.tzinfo is None:
            return f"('{value.isoformat(' ')}'::TIMESTAMP)"
        case datetime.datetime():
            return f"('{_in_utc(value).isoformat(' ')}'::TIMESTAMPTZ)"
        case datetime.date():
            return f"('{value.isoformat()}'::DATE)"
        case _ if value.tzinfo is None:
            return f"('{value.isoformat()}'::TIME)"
        case _:
            raise NoLiteral("a parameter of a time of day with an offset")


def _in_utc(value: datetime.datetime) -> datetime.datetime:
    try:
        return value.astimezone(datetime.UTC)
    except OverflowError:
        raise NoLiteral("a moment before the year 1 or after the year 9999") from None


def _integer_type(value: int) -> str:
    if -(2**31) <= value < 2**31:
        return "INTEGER"
    if -(2**63) <= value < 2**63:
        return "BIGINT"
    if 0 <= value < 2**64:
        return "UBIGINT"
    if -(2**127) <= value < 2**127:
        return "HUGEINT"
    raise NoLiteral("an integer parameter of more than 128 bits")


def _decimal(value: Decimal) -> str:
    _, digits, exponent = value.as_tuple()
    scale = max(0, -int(exponent))
    width = max(len(digits) + max(0, int(exponent)), scale + 1)
    if width > 38:
        raise NoLiteral("a decimal parameter of more than 38 digits")
    return f"('{value:f}'::DECIMAL({width}, {scale}))"


_NUMBERS: Final = rb"-?[0-9]+(?:\s*,\s*-?[0-9]+)*"
_TEXTS: Final = rb"'[^']*'(?:\s*,\s*'[^']*')*"
_FEW: Final = 16
"""Most values that are written one by one."""
_MOST_NAMES: Final = 2
"""Most parts of a column's name: a longer name is edited separately, to remove what precedes them."""
_LISTED: Final = re.compile(
    rb"\s*=\s*ANY\s*\(\s*(?:(?:ARRAY\s*)?\[\s*(?P<listed>" + _NUMBERS + b"|" + _TEXTS + rb")\s*\]"
    rb"|(?P<parameter>\?|\$\w+))\s*\)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class AnyOfList:
    """The positions of such a comparison, its column and its constants in the text, in bytes.

    It holds only positions, since statements that differ in numbers share their parse. `parameter` is the parameter
    given as the list; None if constants are given.
    """

    start: int
    stop: int
    column_stop: int
    listed: tuple[int, int]
    parameter: str | None

    def as_in(self, text: bytes, value: object) -> str:
        """The comparison as IN, or, for many values, as `list_contains`: DuckDB parses it faster and makes it an IN.

        Args:
            text: the statement.
            value: the value of the parameter.

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
    """Extract such comparisons from a syntax tree: it keeps their lists, not the subqueries that the parser made."""
    lists: list[AnyOfList] = []
    for node in nodes_below(root) if b"any" in text.lower() else ():
        compared = _any_of_list(node, text) if node.get("type") == "SUBQUERY" else None
        if compared is not None:
            lists.append(compared)
            node["subquery"] = _list_inside(node)
    return tuple(lists)


def _any_of_list(node: Node, text: bytes) -> AnyOfList | None:
    child: Any = node.get("child")
    if node.get("subquery_type") != "ANY" or node.get("comparison_type") != "COMPARE_EQUAL" or not child:
        return None
    if child.get("type") != "COLUMN_REF" or len(child["column_names"]) > _MOST_NAMES:
        return None
    start = child.get("query_location", 0)
    end = start + child.get("query_location_length", 0)
    match = _LISTED.match(text, end)
    if match is None or not _is_said_of(node, text, start, match.end()):
        return None
    identifier = _parameter(node) if match["parameter"] else None
    if match["parameter"] and identifier is None:
        return None
    return AnyOfList(start, match.end(), end, match.span("listed"), identifier)


def _is_said_of(node: Node, text: bytes, start: int, stop: int) -> bool:
    """Tell whether a node spans a part of the text: DuckDB 2.0 reports its position, 1.5 that of its operator."""
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
    if {type(value) for value in values} not in ({int}, {str}):
        raise NoLiteral("a list of other values than numbers or texts")
    return values
