"""Table macros of the session: their text with the arguments of a call substituted for the parameters.

DuckDB substitutes the parse trees of arguments for the names of parameters, wherever these are bare column names, and
resolves names only afterwards. Arguments that are substituted in the text yield the same trees.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any

from pruner.errors import PrunerError
from pruner_duckdb.sql.queries import NO_LOCATION, names_of_lambda, nodes_below
from pruner_duckdb.sql.select import Span, splice
from pruner_duckdb.sql.tokens import Token, depth_change, tokens

if TYPE_CHECKING:
    from pruner_duckdb.shadow.answers import Ask

_LIST = (
    "SELECT system.main.list([database_name, schema_name, function_name, system.main.to_json(parameters)::VARCHAR, "
    "macro_definition, system.main.to_json(parameter_types)::VARCHAR]) FROM system.main.duckdb_functions() "
    "WHERE NOT internal AND function_type = 'table_macro'"
)
_CREATES = re.compile(r"create\b.*\b(?:macro|function)\b.*\btable\b", re.IGNORECASE | re.DOTALL)
_BEFORE_KIND = frozenset(["or", "replace", "temp", "temporary", "persistent"])
_KINDS = frozenset(["macro", "function"])
_NOT_OF_TABLES = frozenset(["PIVOT", "SHOW_REF"])
"""Parts of a query in whose parse tree something other than a column may look like one."""

TreeOf = Callable[[str], Any]
"""The parse tree of a SELECT as DuckDB serializes it."""


@dataclass(frozen=True, slots=True)
class TableMacro:
    """One overload of a macro; `parameters` is None if they have types: then its calls are left to DuckDB."""

    database: str
    schema: str
    name: str
    query: str
    parameters: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class MacroCall:
    """A call as written: its position, and its arguments, named or positional."""

    span: Span
    arguments: tuple[tuple[str | None, str], ...]

    def values(self, parameters: Sequence[str]) -> dict[str, str] | None:
        """The arguments by the parameters' names in lower case; None where DuckDB may read the call differently."""
        names = [name.lower() for name in parameters]
        plain = [text for name, text in self.arguments if name is None]
        named = {name: text for name, text in self.arguments if name is not None}
        in_order = all(name is not None for name, _ in self.arguments[len(plain) :])
        values = {**dict(zip(names, plain, strict=False)), **named}
        fits = len(self.arguments) == len(names) == len(values) and values.keys() == set(names)
        return values if fits and in_order else None


def list_table_macros(ask: Ask) -> list[TableMacro]:
    """The session's table macros, one entry for each overload. DuckDB takes some 17 ms to list functions."""
    (rows,) = ask(_LIST, [])
    return [
        TableMacro(database, schema, name, query or "", _plain(json.loads(names), json.loads(types or "[]")))
        for database, schema, name, names, query, types in rows or ()
    ]


def _plain(names: Sequence[str] | None, types: Sequence[str | None]) -> tuple[str, ...] | None:
    return None if any(types) else tuple(names or ())


def calls_one_of(text: str, names: Iterable[str]) -> str | None:
    """One of the names that a text may call, both in lower case; None if it calls none of them."""
    return next((name for name in sorted(names) if name in text and _call_of(name).search(text)), None)


@cache
def _call_of(name: str) -> re.Pattern[str]:
    return re.compile(rf'(?<!\w){re.escape(name)}"?(?:\s|--[^\n]*\n|/\*.*?\*/)*\(', re.DOTALL)


def written_call(text: bytes, path: Sequence[str], start: int) -> MacroCall | None:
    """The call of a function that begins at a position of a text; None if it is written in another way."""
    words = list(tokens(text[start:]))
    name = [part for token in words[: 2 * len(path) - 1 : 2] for part in [token.identifier]]
    opening = 2 * len(path) - 1
    if name != [part.lower() for part in path] or [t.text for t in words[opening : opening + 1]] != ["("]:
        return None
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in words[opening:]:
        depth += depth_change(token)
        if depth == 0:
            arguments = tuple(_argument(text[start:], group) for group in groups if group)
            ordinality = [each.text.lower() for each in words if each.start >= token.stop][:1] == ["with"]
            return None if ordinality else MacroCall(Span(start, start + token.stop), arguments)
        if depth == 1 and token.text == ",":
            groups.append([])
        elif token is not words[opening]:
            groups[-1].append(token)
    return None


def _argument(text: bytes, group: Sequence[Token]) -> tuple[str | None, str]:
    signs = "".join(token.text for token in group[1:3])
    named = len(group) > 3 and group[0].kind == "name" and signs in (":=", "=>")
    first = group[3 if named else 0]
    return group[0].identifier if named else None, text[first.start : group[-1].stop].decode()


def with_arguments(query: str, values: Mapping[str, str], tree_of: TreeOf) -> str | None:
    """Substitute arguments for parameters.

    Args:
        query: the query of the macro.
        values: arguments by the names of parameters in lower case.
        tree_of: parses a query.

    Returns:
        The query; None where it is not certain which names DuckDB would replace.
    """
    tree, text = tree_of(query), query.encode()
    if tree.get("error") or len(tree["statements"]) != 1:
        return None
    edits: dict[int, tuple[Span, str]] = {}
    for node in nodes_below(tree):
        if str(node.get("type")) in _NOT_OF_TABLES:
            return None
        if node.get("type") == "LAMBDA" and _lambda_hides(node, values):
            return None
        if node.get("type") == "FUNCTION" and str(node.get("schema")).lower() in values:
            return None  # `x.upper()`
        if node.get("type") != "COLUMN_REF" or len(node["column_names"]) != 1:
            continue
        value = values.get(str(node["column_names"][0]).lower())
        place = node.get("query_location", NO_LOCATION)
        if value is None:
            continue
        name = None if place >= NO_LOCATION else next(tokens(text[place:]), None)
        if name is None or name.identifier != str(node["column_names"][0]).lower():
            return None
        edits[place] = Span(place + name.start, place + name.stop), f"({value})"
    return splice(text, edits.values())


def _lambda_hides(node: Any, values: Mapping[str, str]) -> bool:
    """Tell whether a lambda may have a parameter with the same name as one of the macro's."""
    named = [*names_of_lambda(node), *(each for each in nodes_below(node["lhs"]) if each.get("column_names"))]
    return any(str(node["column_names"][0]).lower() in values for node in named)


def is_create_table_macro(text: str) -> bool:
    """Tell whether a text is a CREATE MACRO … AS TABLE."""
    return _CREATES.search(text) is not None and bool(forms_created(text))


def forms_created(text: str) -> list[tuple[tuple[str, ...] | None, str]]:
    """The overloads of a macro that a CREATE MACRO … AS TABLE creates: the names of the parameters, None if they have
    types or default values, and the query. Empty for any other text.
    """
    encoded = text.encode()
    all_tokens = [token for token in tokens(encoded) if token.text != ";"]
    words = [token.text.lower() for token in all_tokens]
    kind = next(islice((n for n, word in enumerate(words) if n and word not in _BEFORE_KIND), 1), 0)
    if words[:1] != ["create"] or not kind or words[kind] not in _KINDS:
        return []
    heads = list(_heads(all_tokens, words))
    if not heads:
        return []
    stops = [all_tokens[opening - 1].start for opening, _ in heads[1:]] + [all_tokens[-1].stop]
    return [
        (
            _parameters(all_tokens[opening + 1 : closing]),
            encoded[all_tokens[closing + 2].stop : stop].decode(),
        )
        for (opening, closing), stop in zip(heads, stops, strict=True)
    ]


def mentions(query: str, names: Set[str]) -> bool:
    """Tell whether one of the names, in lower case, occurs in a query."""
    return any(token.identifier in names for token in tokens(query.encode()))


def require_understood(forms: Sequence[tuple[tuple[str, ...] | None, str]], tree_of: TreeOf) -> None:
    """Make sure that calls of a macro can be expanded.

    Raises:
        PrunerError: some cannot.
    """
    for parameters, query in forms:
        if parameters is None:
            raise PrunerError(
                "a macro over a pruned table cannot have parameters with types or defaults: add a form with fewer "
                "parameters after a comma"
            )
        if with_arguments(query, dict.fromkeys(map(str.lower, parameters), "NULL"), tree_of) is None:
            raise PrunerError(
                "a macro over a pruned table cannot contain a PIVOT, a method of a parameter, or a lambda whose "
                "parameter has the name of one of the macro's: write a view, or rename the parameter"
            )


def _heads(all_tokens: Sequence[Token], words: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield where each parameter list that precedes AS TABLE begins and ends."""
    depth, opening = 0, 0
    for number, token in enumerate(all_tokens):
        depth += depth_change(token)
        if depth_change(token) > 0 and depth == 1:
            opening = number
        if depth_change(token) < 0 and depth == 0 and list(words[number + 1 : number + 3]) == ["as", "table"]:
            yield opening, number


def _parameters(words: Sequence[Token]) -> tuple[str, ...] | None:
    names = [token.identifier for token in words[::2]]
    commas = [token.text for token in words[1::2]]
    plain = all(commas) and set(commas) <= {","} and (not words or len(names) == len(commas) + 1)
    return tuple(name for name in names if name) if plain and all(names) else None
