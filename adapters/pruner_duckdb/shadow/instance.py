"""A private DuckDB instance, in the time zone and with the macros of the session for which it is asked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection
from typing import TypeAlias

import duckdb

from pruner_duckdb.types import quote

Definitions: TypeAlias = "tuple[tuple[str, str], ...]"
"""Names of macros, and what stands behind them in a CREATE MACRO."""

_MACROS = "pruner_macros"
"""The schema that holds macros of a session."""


class NotPlanned(Exception):  # noqa: N818 - never reaches a user
    """The shadow cannot plan the statement; `str()` is the reason."""


class Instance:
    """A DuckDB database in memory; calls are serialized by its lock."""

    def __init__(self) -> None:
        self.connection = duckdb.connect(":memory:", config={"threads": 1})
        self.lock = threading.RLock()
        self._zone: str | None = None
        self._macros: Definitions = ()
        self._finds_macros = False
        self._kept: frozenset[str] = frozenset()
        self._questions: dict[str, duckdb.Statement] = {}
        with contextlib.suppress(duckdb.CatalogException):  # older versions know one syntax
            # Both syntaxes are understood here: a session that refuses one says so itself.
            self.connection.execute("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")

    def question(self, sql: str) -> duckdb.Statement:
        """A query of ours as DuckDB's parser leaves it: parsing takes a third of what a short query takes.

        Any connection runs it, whatever its own parser would make of the text.
        """
        with self.lock:
            if sql not in self._questions:
                (self._questions[sql],) = self.connection.extract_statements(sql)
            return self._questions[sql]

    def keep_optimizers(self, kept: Collection[str]) -> None:
        """Let no other optimizers run."""
        with self.lock:
            every = [row[0] for row in self.connection.execute("FROM duckdb_optimizers()").fetchall()]
            disabled = ",".join(name for name in every if name not in kept)
            self.connection.execute(f"SET disabled_optimizers = '{disabled}'")
            self._kept = frozenset(kept)

    def ask_without(
        self, optimizers: Collection[str], sql: str, text: str, zone: str, macros: Definitions
    ) -> str:
        """The same as `ask`, with fewer optimizers for once."""
        with self.lock:
            kept = self._kept
            self.keep_optimizers(kept - frozenset(optimizers))
            try:
                return self.ask(sql, text, zone, macros)
            finally:
                self.keep_optimizers(kept)

    def ask(self, sql: str, text: str, zone: str | None = None, macros: Definitions = ()) -> str:
        """The one value of a query with one parameter, in a time zone and with macros where these matter."""
        with self.lock:
            if zone is not None:
                self._set_zone(zone)
                self._find_macros(macros)
            row = self.connection.execute(self.question(sql), [text]).fetchone()
        return str(row[0]) if row else ""

    def _set_zone(self, zone: str) -> None:
        if zone != self._zone:
            self.connection.execute("SET TimeZone = ?", [zone])
            self._zone = zone

    def _find_macros(self, macros: Definitions) -> None:
        """Let these macros be found, and no others."""
        if self._finds_macros and not macros:
            self.connection.execute("SET search_path = 'main'")
            self._finds_macros = False
        elif macros and macros != self._macros:
            self._make_macros(macros)
        elif macros and not self._finds_macros:
            self.connection.execute(f"SET search_path = 'main,{_MACROS}'")
            self._finds_macros = True

    def _make_macros(self, macros: Definitions) -> None:
        run = self.connection.execute
        run("SET search_path = 'main'")
        self._macros, self._finds_macros = (), False
        run(f"DROP SCHEMA IF EXISTS {_MACROS} CASCADE")
        run(f"CREATE SCHEMA {_MACROS}")
        run(f"SET search_path = 'main,{_MACROS}'")
        self._finds_macros = True
        try:
            for name, definition in macros:
                run(f"CREATE MACRO {_MACROS}.{quote(name)}{definition}")
        except duckdb.Error as error:
            raise NotPlanned(f"cannot hold a macro of the session ({first_line(error)})") from error
        self._macros = macros


def first_line(error: object) -> str:
    """The first line of an error."""
    return str(error).strip().split("\n", 1)[0]
