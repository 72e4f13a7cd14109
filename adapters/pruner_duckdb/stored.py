"""Statements over tables of pruner that outlive their run: PREPARE, CREATE VIEW, CREATE MACRO … AS TABLE.

Their text is kept, never a list of files. Each EXECUTE becomes the statement itself with the values of its arguments
instead of its parameters, and the texts of views and macros replace their names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

import duckdb

from pruner.errors import PrunerError
from pruner_duckdb.catalog.table_macros import is_create_table_macro
from pruner_duckdb.catalog.tables import TableNames
from pruner_duckdb.catalog.views import SessionViews, is_create_view
from pruner_duckdb.rewrite.markers import without_gone
from pruner_duckdb.rewrite.statement import Statement
from pruner_duckdb.shadow.answers import DatabaseChanges
from pruner_duckdb.sql.select import Span, splice
from pruner_duckdb.sql.tokens import CLOSING, OPENING, Token, tokens
from pruner_duckdb.types import quote, quote_text

_CONCERNED = re.compile("prepare|deallocate", re.IGNORECASE)


class WrongArgumentsError(PrunerError):
    """The arguments of an EXECUTE do not match the parameters of its statement; DuckDB has an error of its own for it.

    `stand_in` is a PREPARE with the same name and the same parameters that reads nothing; `name` is that name, quoted.
    """

    def __init__(self, name: str, marks: Sequence[str]) -> None:
        super().__init__(f"prepared statement {name} takes other parameters")
        self.name = quote(name)
        self.stand_in = f"PREPARE {self.name} AS SELECT {', '.join(marks) or 1}"


_NOTHING_COUNTED = 'SELECT 0::BIGINT AS "Count" WHERE false'
_NOTHING_DONE = 'SELECT true AS "Success" WHERE false'
"""The result that the connection shows after a CREATE VIEW, and after a PREPARE."""


class StoredDefinitions:
    """What one DuckDB connection knows about such statements."""

    def __init__(
        self,
        native: duckdb.DuckDBPyConnection,
        tables: TableNames,
        views: SessionViews,
        changes: DatabaseChanges,
    ) -> None:
        self._native = native
        self._tables = tables
        self._views = views
        self._changes = changes
        self._prepared = PreparedStatements()

    def concern(self, text: str) -> bool:
        """Tell cheaply whether a text may read one of our tables, views or prepared statements."""
        return self._tables.mentioned_in(text) or self._views.mentioned_in(text) or self._prepared.any

    def run(self, statement: Statement) -> Any:
        """Run a statement that outlives its run, PREPARE or CREATE VIEW, if it reads one of the tables.

        Returns:
            What DuckDB returns for it; None for any other statement.
        """
        if not isinstance(statement.text, str):
            return None
        ours = statement.mentions_table or self._views.mentioned_in(statement.text)

        def run(sql: str) -> Any:
            with self._changes.during(sql):
                return statement.scope.call(statement.method.call, sql, statement.method.named(None))

        if ours and (is_create_view(statement.text) or is_create_table_macro(statement.text)):
            self._views.create(run, statement.first_row, statement.text)
            return run(_NOTHING_COUNTED)
        kept = self._prepared.keep(statement.text, lambda text: self.reads_tables(statement.with_text(text)))
        return run(_NOTHING_DONE) if kept else None

    def reads_tables(self, statement: Statement) -> bool:
        """Tell whether a statement names one of the tables, itself or through a view or a prepared statement."""
        if not isinstance(statement.text, str) or not self.concern(statement.text):
            return False
        return self.written_out(statement).form is not None

    def written_out(self, statement: Statement) -> Statement:
        """Replace an EXECUTE by its prepared statement, and the names of views by their texts.

        Raises:
            duckdb.Error: the arguments do not fit the statement.
            PrunerError: a name in a view would change its meaning.
        """
        if not isinstance(statement.text, str):
            return statement
        if self._prepared.any:
            found = statement.tokens
            try:
                text = self._prepared.executed(
                    statement.text, found, lambda value: _value_of(value, statement)
                )
            except WrongArgumentsError as error:
                self._refuse(statement.text, error)
                raise
            if text != statement.text:
                statement = replace(statement, text=text, executes=True)
        if self._views.mentioned_in(statement.text):
            text = self._views.expanded(statement.text, statement.answer)
            if text != statement.text:
                left, values = without_gone(text, statement.text, statement.parameters)
                statement = replace(statement, text=left, parameters=values, original=statement.written)
        return statement

    def _refuse(self, text: str, wrong: WrongArgumentsError) -> None:
        """Let DuckDB report what is wrong with the arguments of an EXECUTE.

        Raises:
            duckdb.Error: DuckDB's own error.
        """
        self._native.execute(wrong.stand_in)
        try:
            self._native.execute(text)
        except duckdb.Error as error:
            raise error from None
        finally:
            self._native.execute(f"DEALLOCATE {wrong.name}")


def _value_of(expression: str, statement: Statement) -> str:
    """A literal of an expression's value, with its type."""
    data_type, value = statement.first_row(
        "SELECT system.main.typeof(pruner_value), pruner_value::VARCHAR FROM "
        f"(SELECT ({expression}) AS pruner_value)",
        [],
    )
    return f"{'NULL' if value is None else quote_text(value)}::{data_type}"


@dataclass
class PreparedStatements:
    """The prepared statements of one DuckDB connection that read tables of pruner."""

    texts: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def any(self) -> bool:
        """Whether there are any."""
        return bool(self.texts)

    def keep(self, text: str, reads_tables: Callable[[str], bool]) -> bool:
        """Remember the statement of a PREPARE that reads tables of pruner, or forget that of a DEALLOCATE.

        Args:
            text: any statement.
            reads_tables: tells whether a statement reads them.

        Returns:
            False for a text that is left to DuckDB.
        """
        if not _CONCERNED.search(text):
            return False
        found = list(islice(tokens(text.encode()), 4))
        words = [token.text.lower() for token in found]
        if words[:1] == ["prepare"] and words[2:3] == ["as"]:
            name, statement = str(found[1].identifier), text.encode()[found[2].stop :].decode().strip()
            self.texts.pop(name, None)
            if not reads_tables(statement):
                return False
            self.texts[name] = statement
            return True
        names = [token.identifier for token in found if token.text.lower() not in ("prepare", ";")]
        if words[:1] == ["deallocate"] and len(names) == 2:
            return self.texts.pop(str(names[1]), None) is not None
        return False

    def executed(self, text: str, found: Sequence[Token], value_of: Callable[[str], str]) -> str:
        """Replace an EXECUTE of one of the statements, also one after EXPLAIN, by its statement; other text is returned
        unchanged.

        Args:
            text: any statement.
            found: its tokens.
            value_of: turns an expression whose value is the same for all rows into a literal of that value.

        Raises:
            WrongArgumentsError: the arguments do not fit the statement.
        """
        encoded = text.encode()
        found = [token for token in found if token.text != ";"]
        start = next((n for n, token in enumerate(found[:4]) if token.text.lower() == "execute"), None)
        if start is None or [t.text.lower() for t in found[:start]] not in (
            [],
            ["explain"],
            ["explain", "analyze"],
        ):
            return text
        name = found[start + 1].identifier if start + 1 < len(found) else None
        if name not in self.texts:
            return text
        values = _arguments(encoded, found[start + 2 :], value_of)
        before = encoded[: found[start].start].decode()
        return before + _with_arguments(str(name), self.texts[str(name)], values)


def _arguments(text: bytes, found: Sequence[Token], value_of: Callable[[str], str]) -> dict[str, str]:
    """The arguments of an EXECUTE by name or number; literals are kept as written."""
    groups: list[list[Token]] = [[]]
    depth = 0
    for token in found[1:-1]:
        sign = token.text.encode()[0] if token.kind == "sign" else 0
        depth += (sign in OPENING) - (sign in CLOSING)
        if depth == 0 and token.text == ",":
            groups.append([])
        else:
            groups[-1].append(token)
    values: dict[str, str] = {}
    for number, group in enumerate((group for group in groups if group), 1):
        signs = "".join(token.text for token in group[1:3])
        named = len(group) > 2 and signs[:2] in (":=", "=>")
        first = group[3 if named else 0] if len(group) > 3 or not named else group[-1]
        key = group[0].text.lower() if named else str(number)
        value = text[first.start : group[-1].stop].decode()
        literal = all(_is_literal(token) for token in group if token.start >= first.start)
        values[key] = value if literal else value_of(value)
    return values


def _is_literal(token: Token) -> bool:
    return token.kind != "name" or token.text.lower() in ("null", "true", "false")


def _with_arguments(name: str, text: str, values: dict[str, str]) -> str:
    """Replace parameters by arguments.

    Raises:
        WrongArgumentsError: a parameter lacks an argument, or an argument a parameter.
    """
    edits: list[tuple[Span, str]] = []
    wanted: set[str] = set()
    marks = [token for token in tokens(text.encode()) if token.kind == "mark"]
    for number, token in enumerate(marks, 1):
        key = token.text[1:].lower() or str(number)
        wanted.add(key)
        if key in values:
            edits.append((Span(token.start, token.stop), f"({values[key]})"))
    if wanted != set(values):
        raise WrongArgumentsError(name, [token.text for token in marks])
    return splice(text.encode(), edits)
