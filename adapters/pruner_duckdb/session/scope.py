"""Calls DuckDB as if from the caller's frame: it reads data frames from variables, so the variables that it sees decide
what a name means.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

import duckdb

from pruner_duckdb.relation import LazyRelation
from pruner_duckdb.shadow.answers import AnswerCache

_CALL = compile("__pruner_call(__pruner_sql, **__pruner_named)", "<pruner>", "eval")
_CALL_AND_FETCH = compile("__pruner_call(__pruner_sql, **__pruner_named).fetchall()", "<pruner>", "eval")


@dataclass(frozen=True)
class Method:
    """One of the two ways to run a statement on a DuckDB connection."""

    native: duckdb.DuckDBPyConnection
    lazy: bool
    """Whether it is `sql`, which returns relations, and not `execute`."""
    answers: AnswerCache
    alias: str = ""

    @property
    def call(self) -> Callable[..., Any]:
        """DuckDB's own method."""
        return self.native.sql if self.lazy else self.native.execute

    def named(self, parameters: Any) -> dict[str, Any]:
        """The keyword arguments of a call with these parameters."""
        named: dict[str, Any] = {"alias": self.alias} if self.alias else {}
        if parameters is not None:
            named["params" if self.lazy else "parameters"] = parameters
        return named

    def first_row(self, sql: str | duckdb.Statement, parameters: list[object]) -> tuple[Any, ...]:
        """The only row of a query of ours, which sees no variables: a scalar function that binds a statement runs, and
        resolves tables, only when rows are fetched.
        """
        named = replace(self, alias="").named(parameters or None)
        return tuple(_evaluate(_CALL_AND_FETCH, self.call, sql, named, {})[0])

    def answer(self, sql: str | duckdb.Statement, parameters: list[object]) -> tuple[Any, ...]:
        """The same for a query whose answer changes only with the session or the catalog: it may be cached."""
        return self.answers.to(sql, parameters, self.first_row)


class Scope:
    """The variables that the caller of `sql` or `execute` sees: DuckDB reads data frames from them.

    A relation that was registered under a name takes precedence over a variable of that name.
    """

    def __init__(self, frame: FrameType | None, registered: Mapping[str, LazyRelation] | None = None) -> None:
        self._registered = registered or {}
        self._locals: Mapping[str, Any] = frame.f_locals if frame is not None else {}
        self._globals: Mapping[str, Any] = frame.f_globals if frame is not None else {}

    def keep(self, names: set[str]) -> None:
        """Keep only these variables, for later use."""
        self._locals = {name: self._locals[name] for name in names if name in self._locals}
        self._globals = {name: self._globals[name] for name in names if name in self._globals}

    def has_any(self, names: Iterable[str]) -> bool:
        """Tell whether a variable has one of the names, ignoring case."""
        variables = {name.lower() for name in (*self._globals, *self._locals)}
        return any(name.lower() in variables for name in names)

    def lazy_names(self) -> set[str]:
        """Names of variables that hold a `LazyRelation`."""
        names = (*self._globals.items(), *self._locals.items(), *self._registered.items())
        return {name for name, value in names if isinstance(value, LazyRelation)}

    def call(
        self,
        function: Callable[..., Any],
        sql: Any,
        named: dict[str, Any],
        tables: Container[str] = (),
        sources: Mapping[str, Any] | None = None,
    ) -> Any:
        """Call a method of DuckDB as if from the caller's frame, with `sources` in addition to the caller's variables;
        variables named like one of `tables` are hidden.
        """
        every = {**self._globals, **self._locals, **self._registered}
        lowered = (sql.query if isinstance(sql, duckdb.Statement) else str(sql)).lower()
        variables = {
            key: value.native() if isinstance(value, LazyRelation) else value
            for key, value in every.items()
            if not key.startswith("__")
            and key.lower() not in tables
            and (not isinstance(value, LazyRelation) or _names(lowered, key.lower()))
        }
        return _evaluate(_CALL, function, sql, named, {**variables, **(sources or {})})


def _evaluate(
    code: Any, function: Callable[..., Any], sql: Any, named: dict[str, Any], variables: Mapping[str, Any]
) -> Any:
    """Run code in its own frame: DuckDB sees these variables and none of this module's."""
    return eval(code, {"__builtins__": builtins}, {**variables, **_internal(function, sql, named)})


def called_as_by(
    frame: FrameType | None, function: Callable[..., Any], sql: Any, named: dict[str, Any]
) -> Any:
    """Run a statement so that DuckDB sees the variables of a frame unchanged, and none of this module's."""
    if frame is None:
        return function(sql, **named)
    return eval(_CALL, frame.f_globals, {**frame.f_locals, **_internal(function, sql, named)})


def _internal(function: Callable[..., Any], sql: Any, named: dict[str, Any]) -> dict[str, Any]:
    return {"__pruner_call": function, "__pruner_sql": sql, "__pruner_named": named}


def _names(text: str, variable: str) -> bool:
    """Tell whether a text may name a variable, both in lower case: a relation that it does not name must not run."""
    return re.search(rf"(?<!\w){re.escape(variable)}(?!\w)", text) is not None


NO_VARIABLES = Scope(None)
