"""Where the parts of a statement end, for versions of DuckDB whose parser reports only where they start.

DuckDB 2.0 gives each node of `json_serialize_sql` a location and a length; 1.5 gives only a location, and none at all
to parameters. This module derives the missing lengths from the statement's tokens, so that later steps see one form. A
part that is not written as its node says gets no length: nothing is guessed.
"""

from __future__ import annotations

from collections.abc import Sequence

from pruner_duckdb.sql.queries import Node, nodes_below
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token, tokens, with_plain_spaces
from pruner_duckdb.types import quote_text

LENGTH = "query_location_length"
LOCATION = "query_location"


def has_lengths(serialized: str) -> bool:
    """Tell whether a serialized parse tree has the lengths of its nodes."""
    return f'"{LENGTH}":' in serialized  # within a string of the statement the quotes would be escaped


def add_lengths(root: Node, text: bytes) -> None:
    """Add the missing lengths of nodes and positions of parameters to a parse tree, in place.

    Args:
        root: `json_serialize_sql`'s tree of one statement.
        text: the statement.
    """
    shown = text.decode(errors="replace")
    if with_plain_spaces(shown) != shown:
        return  # DuckDB counted the bytes of another text
    located = [node for node in nodes_below(root) if LOCATION in node]
    words = _Tokens(text)
    for node in located:
        stop = words.end_of(node)
        if stop is not None:
            node[LENGTH] = stop - node[LOCATION]
    _place_parameters([node for node in located if node.get("type") == "VALUE_PARAMETER"], words.markers())


def _place_parameters(parameters: Sequence[Node], markers: Sequence[tuple[str, Token]]) -> None:
    """Give each parameter the position of a marker with its name; give none if the two do not correspond."""
    if sorted(str(node["identifier"]) for node in parameters) != sorted(name for name, _ in markers):
        return
    by_name: dict[str, list[Token]] = {}
    for name, marker in markers:
        by_name.setdefault(name, []).append(marker)
    for node in parameters:
        marker = by_name[str(node["identifier"])].pop()
        node[LOCATION] = marker.start
        node[LENGTH] = marker.stop - marker.start


class _Tokens:
    """The tokens of one statement, without white space and comments."""

    def __init__(self, text: bytes) -> None:
        self._all = list(tokens(text))
        self._at = {token.start: number for number, token in enumerate(self._all)}

    def end_of(self, node: Node) -> int | None:
        """Where a node's text ends; None for a kind whose end is not needed, or if it is not understood."""
        first = self._at.get(node[LOCATION])
        if first is None:
            return None
        match node.get("type"):
            case "BASE_TABLE":
                named = [node.get("catalog_name"), node.get("schema_name"), node.get("table_name")]
                path = [str(part) for part in named if part]
                after = first + 1 if self._is_file(first, path) else self._path(first, path)
            case "TABLE_FUNCTION" if not str(node.get("with_ordinality", "")).startswith("WITH_"):
                after = self._call(first, str(node["function"]["function_name"]))
            case "FUNCTION":
                return self._stop(self._call(first, str(node["function_name"])))
            case "COLUMN_REF":
                return self._stop(self._path(first, [str(part) for part in node["column_names"]]))
            case _:
                return None
        if after is None:
            return None
        tail = self._tail(after, node)
        return self._stop(after if tail is None else tail)

    def markers(self) -> list[tuple[str, Token]]:
        """The parameter markers with the names that DuckDB gives them: question marks are numbered."""
        markers: list[tuple[str, Token]] = []
        for token in self._all:
            if token.kind == "mark":
                markers.append((token.text[1:] or str(len(markers) + 1), token))
        return markers

    def _stop(self, after: int | None) -> int | None:
        """The byte after the token that precedes `after`."""
        return None if after is None else self._all[after - 1].stop

    def _text(self, number: int) -> str:
        return self._all[number].text if number < len(self._all) else ""

    def _identifier(self, number: int) -> str | None:
        return self._all[number].identifier if number < len(self._all) else None

    def _is_file(self, number: int, names: Sequence[str]) -> bool:
        """Tell whether a token is the name of a table written as a string: `FROM 'x.parquet'`."""
        return len(names) == 1 and self._text(number) == quote_text(names[0])

    def _path(self, number: int, names: Sequence[str]) -> int | None:
        """The token after a dotted name, if it spells exactly these parts."""
        for position, name in enumerate(names):
            if position:
                if self._text(number) != ".":
                    return None
                number += 1
            if self._identifier(number) != name.lower():
                return None
            number += 1
        return number

    def _call(self, number: int, name: str) -> int | None:
        """The token after a function call, whose name may be preceded by a schema or an argument."""
        while self._text(number + 1) == ".":
            number += 2
        if self._identifier(number) != name.lower() or self._text(number + 1) != "(":
            return None
        return self._group(number + 1)

    def _group(self, number: int) -> int | None:
        """The token after a bracketed group."""
        depth = 0
        for position in range(number, len(self._all)):
            token = self._all[position]
            if token.kind != "sign":
                continue
            depth += (token.text.encode()[0] in OPENING) - (token.text.encode()[0] in CLOSING)
            if depth == 0:
                return position + 1
        return None

    def _tail(self, number: int, node: Node) -> int | None:
        """The token after a reference's alias, column names and sample; None if they are not as expected."""
        alias = node.get("alias")
        if alias:
            number += self._identifier(number) == "as" and self._identifier(number + 1) == alias.lower()
            if self._identifier(number) != alias.lower():
                return None
            number += 1
        after: int | None = number
        if node.get("column_name_alias"):
            after = self._group(number) if self._text(number) == "(" else None
        if node.get("sample") and after is not None:
            after = self._sample(after)
        return after

    def _sample(self, number: int) -> int | None:
        """The token after `TABLESAMPLE …`: a size, optionally with a method, a unit and a seed."""
        if self._identifier(number) != "tablesample":
            return None
        number += 1
        method_first = self._identifier(number) is not None
        number += method_first
        after: int | None = self._group(number) if self._text(number) == "(" else number + 1
        if after is not None and (self._text(after) == "%" or self._identifier(after) in ("percent", "rows")):
            after += 1
        if after is not None and self._text(after) == "(" and not method_first:
            after = self._group(after)
        if after is not None and self._identifier(after) == "repeatable":
            after = self._group(after + 1)
        return after
