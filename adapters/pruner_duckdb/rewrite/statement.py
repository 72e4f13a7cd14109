"""A statement as requested, and the statement over pruned tables that DuckDB runs instead."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import duckdb

from pruner_duckdb.catalog.tables import TableNames
from pruner_duckdb.read.reading import Sources
from pruner_duckdb.rewrite.markers import renamed
from pruner_duckdb.scans import Scan
from pruner_duckdb.session.scope import Method, Scope
from pruner_duckdb.shadow.predicates import Parameters
from pruner_duckdb.sql.forms import Parse, StatementProbe, form_of
from pruner_duckdb.sql.tokens import Token, tokens


@dataclass(frozen=True, eq=False)
class Statement:
    """One statement with everything that determines its meaning. What follows from its text is computed once.

    `text` is SQL, or whatever else DuckDB's own method accepts: that reads no table of pruner. `executes` means that it
    was an EXECUTE, for which DuckDB's errors show no position. `original` is its text before views were expanded.
    """

    text: Any
    parameters: Parameters
    method: Method
    scope: Scope
    tables: TableNames
    parse: Parse
    executes: bool = False
    original: str | None = None

    @cached_property
    def tokens(self) -> tuple[Token, ...]:
        """Its tokens; empty if it is no SQL text."""
        return tuple(tokens(self.text.encode())) if isinstance(self.text, str) else ()

    @cached_property
    def mentions_table(self) -> bool:
        """Whether it may read any of the tables; a cheap check."""
        return isinstance(self.text, str) and self.tables.mentioned_in(self.text)

    @cached_property
    def form(self) -> StatementProbe | None:
        """The parsed statement, if it may read one of the tables and is of a kind that can."""
        if not self.mentions_table:
            return None
        form = form_of(self.text, self.parse)
        return form if form is not None and self.tables.read_by(form.select) else None

    @property
    def written(self) -> str:
        """Its text as the user wrote it."""
        return self.original or str(self.text)

    def with_text(self, text: str) -> Statement:
        """The same with another text."""
        return self if text == self.text else replace(self, text=text)

    def first_row(self, sql: str | duckdb.Statement, parameters: list[object]) -> tuple[Any, ...]:
        """Ask its session, through its own method, since the other one may encounter a partially fetched result."""
        return self.method.first_row(sql, parameters)

    def answer(self, sql: str | duckdb.Statement, parameters: list[object]) -> tuple[Any, ...]:
        """The same for a query whose answer changes only with the session or the catalog: it may be cached."""
        return self.method.answer(sql, parameters)

    def call(self) -> Any:
        """Let DuckDB run it unchanged."""
        return self.scope.call(
            self.method.call, self.text, self.method.named(self.parameters), self.tables.plain
        )


_PARAMETER = re.compile(r"\$\w+")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What DuckDB is to run."""

    sql: str
    parameters: dict[str, Any] | list[Any] | None
    scans: tuple[Scan, ...]
    sources: Sources = field(default_factory=Sources)
    """What it reads besides files: DuckDB finds these under their names, as it finds data frames."""
    harmless: bool = False
    """Whether running it is certain to change nothing in the session or the database."""
    lasting: bool = False
    """Whether the same answers of the session always yield the same rewriting."""
    begins_by: int | None = None
    """The latest time at which it may begin to run, in nanoseconds since 1970: it was planned for a `now()` up to that
    time. None for a plan that is valid at any time.
    """
    parsed: duckdb.Statement | None = None
    """The statement parsed by DuckDB; None if it was not parsed beforehand."""

    @property
    def to_run(self) -> str | duckdb.Statement:
        """The text or parsed statement to pass to DuckDB."""
        return self.sql if self.parsed is None else self.parsed

    @property
    def form(self) -> str:
        """The text without the names of its parameters."""
        return _PARAMETER.sub("$", self.sql)

    def parsed_by(self, native: duckdb.DuckDBPyConnection) -> Rewritten:
        """The same, parsed: parsing the text takes DuckDB a third of the time of a short query."""
        statements = native.extract_statements(self.sql)
        return replace(self, parsed=statements[0]) if len(statements) == 1 else self

    def with_other_markers(self) -> Rewritten | None:
        """The same with other parameter names, because DuckDB rejects joins of relations that share one; None where
        they cannot be distinguished from other text.
        """
        if not isinstance(self.parameters, dict):
            return self
        renaming = renamed(self.sql, self.parameters)
        return None if renaming is None else replace(self, sql=renaming[0], parameters=renaming[1])
