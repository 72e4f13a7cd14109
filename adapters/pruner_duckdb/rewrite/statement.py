"""A statement as it was asked for."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import duckdb

from pruner_duckdb.catalog.names import TableNames
from pruner_duckdb.session.scope import Method, Scope
from pruner_duckdb.shadow.predicates import Parameters
from pruner_duckdb.sql.forms import Form, Parse, form_of
from pruner_duckdb.sql.tokens import Token, tokens


@dataclass(frozen=True, eq=False)
class Statement:
    """One statement with all that decides what it means. What its text tells is worked out once.

    `text` is SQL, or whatever else DuckDB's own method takes: that reads no table of pruner. `executes` tells that it
    was an EXECUTE, of which DuckDB shows no place in its errors. `original` is its text before views were written out.
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
        """Its tokens; none of what is no SQL."""
        return tuple(tokens(self.text.encode())) if isinstance(self.text, str) else ()

    @cached_property
    def mentions_table(self) -> bool:
        """Whether it may read one of the tables at all, told cheaply."""
        return isinstance(self.text, str) and self.tables.mentioned_in(self.text)

    @cached_property
    def form(self) -> Form | None:
        """The statement taken apart, if it may read one of the tables and is of a kind that can."""
        if not self.mentions_table:
            return None
        form = form_of(self.text, self.parse)
        return form if form is not None and self.tables.read_by(form.select) else None

    @property
    def written(self) -> str:
        """Its text as somebody wrote it."""
        return self.original or str(self.text)

    def with_text(self, text: str) -> Statement:
        """The same with another text."""
        return self if text == self.text else replace(self, text=text)

    def first_row(self, sql: str | duckdb.Statement, parameters: list[object]) -> tuple[Any, ...]:
        """Ask its session: through its own method, since the other one may meet a result not fetched to its end."""
        return self.method.first_row(sql, parameters)

    def answer(self, sql: str | duckdb.Statement, parameters: list[object]) -> tuple[Any, ...]:
        """The same for a question whose answer changes only with the session or the catalog: it may be known."""
        return self.method.answer(sql, parameters)

    def call(self) -> Any:
        """Let DuckDB run it as it stands."""
        return self.scope.call(
            self.method.call, self.text, self.method.named(self.parameters), self.tables.plain
        )
