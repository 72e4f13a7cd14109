"""The user's own macros: their definitions are copied to the databases that plan for the session.

A macro is usable there if it is one expression of its parameters, made of functions that those databases may evaluate.
A learned definition is only a guess: the session's own plan of a statement contains the expanded macro, and scans are
pruned only if that plan equals the one of the database that plans for the session. So a definition may be out of date,
or that of another macro of the same name.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from pruner_duckdb.sql.functions import FOLDABLE
from pruner_duckdb.sql.queries import Node, nodes_below
from pruner_duckdb.types import quote

if TYPE_CHECKING:
    from pruner_duckdb.shadow.answers import Ask
    from pruner_duckdb.shadow.shadow import Shadow

SECONDS_IN_VAIN = 60.0
"""How long a function that turned out to be no usable macro is not looked up again: DuckDB takes 17 ms to list all of
its functions. A statement that creates a macro ends that time.
"""

MOST_MACROS = 1024

_LIST = (
    "SELECT system.main.list([database_name, schema_name, function_name, system.main.to_json(parameters)::VARCHAR, "
    "macro_definition, system.main.to_json(parameter_types)::VARCHAR]) FROM system.main.duckdb_functions() "
    "WHERE NOT internal AND function_type = 'macro'"
)

_PARTS = frozenset(
    [
        "BETWEEN",
        "CASE",
        "CAST",
        "COLUMN_REF",
        "COMPARISON",
        "CONJUNCTION",
        "CONSTANT",
        "FUNCTION",
        "OPERATOR",
        "TYPE",
    ],
)
"""Classes of the expressions that a macro may contain: no query, no lambda, no window, no star."""


@dataclass(frozen=True, slots=True)
class Macros:
    """The macros of a session that a statement needs, each after those that it calls."""

    definitions: tuple[tuple[str, str], ...] = ()
    """Names, and what follows them in a CREATE MACRO."""

    @property
    def names(self) -> frozenset[str]:
        """Their names in lower case."""
        return frozenset(name for name, _ in self.definitions)


NO_MACROS = Macros()


@dataclass(frozen=True, slots=True)
class _Macro:
    text: str
    calls: frozenset[str]


class OwnMacros:
    """What is known about the macros of the sessions of one database."""

    def __init__(self, shadow: Shadow) -> None:
        self._shadow = shadow
        self._known: dict[str, _Macro] = {}
        self._in_vain: dict[str, float] = {}

    def called_by(self, functions: Iterable[str]) -> frozenset[str]:
        """The names of functions that are not DuckDB's own."""
        return frozenset(functions) - self._shadow.functions

    def of(self, names: Collection[str]) -> Macros:
        """The known macros of these names, with those that they call."""
        known = self._known
        needed: set[str] = set()
        pending = [name for name in sorted(names) if name in known]
        while pending:
            name = pending.pop()
            needed.add(name)
            pending += known[name].calls & known.keys() - needed
        # `known` is in the order in which they were understood: each after those that it calls.
        return Macros(tuple((name, macro.text) for name, macro in known.items() if name in needed))

    def look(self, names: Collection[str], ask: Ask) -> bool:
        """List the session's macros, unless one of the names was recently looked up in vain.

        Returns:
            Whether the known macros of these names differ from before.
        """
        now = time.monotonic()
        if not names or any(self._in_vain.get(name, now) > now for name in names):
            return False
        before = self.of(names)
        try:
            (listed,) = ask(_LIST, [])
        except duckdb.Error:  # the user's transaction was aborted
            return False
        self._known = _understood(listed or (), self._shadow)
        macros = self.of(names)
        if macros == before or not macros.names.issuperset(names):
            self._in_vain = {name: until for name, until in self._in_vain.items() if until > now}
            self._in_vain.update(dict.fromkeys(names, now + SECONDS_IN_VAIN))
        return macros != before

    def may_change(self, text: str) -> None:
        """Make macros be looked up again after a statement that may have created one."""
        lowered = text.lower()
        if "macro" in lowered or "function" in lowered:
            self._in_vain = {}


def _understood(listed: Sequence[Sequence[str | None]], shadow: Shadow) -> dict[str, _Macro]:
    """Macros by their names in lower case, each after those that it calls."""
    rows: dict[str, list[Sequence[str | None]]] = {}
    for row in listed[:MOST_MACROS]:
        rows.setdefault(str(row[2]).lower(), []).append(row)
    unread = {
        name: macro
        for name, overloads in rows.items()
        if name not in shadow.functions and (macro := _macro(overloads, shadow.tree)) is not None
    }
    known: dict[str, _Macro] = {}
    plain = FOLDABLE | shadow.aggregates
    while True:
        ready = [name for name, macro in unread.items() if macro.calls <= plain | known.keys()]
        if not ready:
            return known
        known.update((name, unread.pop(name)) for name in ready)


def _macro(overloads: Sequence[Sequence[str | None]], tree_of: Callable[[str], Any]) -> _Macro | None:
    """A macro with all of its overloads; None for one that is not understood."""
    if len({(database, schema) for database, schema, *_ in overloads}) != 1:
        return None  # which of them is meant depends on the session's search path
    texts: list[str] = []
    calls: set[str] = set()
    for _, _, _, names, definition, types in overloads:
        parameters: list[str] = json.loads(names or "[]")
        if definition is None or any(json.loads(types or "[]")):
            return None
        called = _calls(tree_of(f"SELECT ({definition})"), parameters)
        if called is None:
            return None
        calls |= called
        texts.append(f"({', '.join(map(quote, parameters))}) AS ({definition})")
    return _Macro(", ".join(texts), frozenset(calls))


def _calls(tree: Mapping[str, Any], parameters: Sequence[str]) -> frozenset[str] | None:
    """Functions that the body of a macro calls; None if it is more than an expression of its parameters."""
    statements: list[Any] = tree.get("statements") or []
    if len(statements) != 1 or statements[0]["node"].get("type") != "SELECT_NODE":
        return None
    node: Node = statements[0]["node"]
    items: list[Node] = node["select_list"]
    if len(items) != 1 or node["from_table"].get("type") != "EMPTY":
        return None
    allowed = {name.lower() for name in parameters}
    calls: set[str] = set()
    for part in nodes_below(items):
        match part.get("class"):
            case "FUNCTION" if not (part.get("schema") or part.get("catalog")):
                calls.add(str(part["function_name"]).lower())
            case "COLUMN_REF":
                names: list[str] = part["column_names"]
                if len(names) != 1 or names[0].lower() not in allowed:
                    return None
            case None:
                pass
            case kind if kind not in _PARTS or kind == "FUNCTION":
                return None
            case _:
                pass
    return frozenset(calls)
