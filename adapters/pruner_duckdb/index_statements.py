"""Statements about indexes over a table of pruner: CREATE, DROP, REFRESH INDEX and SHOW INDEXES, in DuckDB's SQL.

DuckDB has statements of these names for its own tables and keeps them. A statement is about an index of pruner if it
names a table of pruner that DuckDB itself does not find.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from pruner.ddl import CreateIndex, DropIndex, SqlResult, StatementError, execute, parse_statement
from pruner.errors import TableError
from pruner_duckdb.session.session import session_state
from pruner_duckdb.types import quote_text

if TYPE_CHECKING:
    from pruner import Table
    from pruner_duckdb.catalog.tables import KnownTable, TableNames
    from pruner_duckdb.rewrite.statement import Statement
    from pruner_duckdb.shadow.shadow import Shadow

_ABOUT_INDEXES: Final = re.compile(
    r"\s*(?:CREATE\s+(?:FUNCTION\s+)?INDEX|DROP\s+INDEX|REFRESH\s+INDEX|SHOW\s+INDEXES)\b", re.IGNORECASE
)
_SHOWN: Final = ("name", "using", "columns", "where", "covered", "coverable", "bytes", "usable", "note")


def shown_instead(statement: Statement, shadow: Shadow) -> str | None:
    """Run a statement about an index of pruner; returns a query whose rows report the result, None for any other.

    Raises:
        PrunerError: the statement cannot be parsed or executed.
    """
    if not statement.mentions_table or not _ABOUT_INDEXES.match(statement.text):
        return None
    known = _table_in(statement, shadow)
    if known is None:
        return None
    return _rows(execute(parse_statement(statement.text), _OneTable(known), dialect="duckdb"))


def _table_in(statement: Statement, shadow: Shadow) -> KnownTable | None:
    """The table of pruner that a statement is about, if any."""
    names = statement.tables
    try:
        parsed = parse_statement(statement.text)
    except StatementError:
        named = re.search(r"\b(?:ON|FROM|IN)\s+(?:TABLE\s+)?([\w.\"]+)", statement.text, re.IGNORECASE)
        written = named.group(1) if named else None
    else:
        written = parsed.table
        if isinstance(parsed, CreateIndex | DropIndex) and written is None:
            return None
    path = None if written is None else _path(written, names)
    if path is None or session_state(statement.first_row, shadow, [path]).known:
        return None
    return names[path]


def _path(written: str, names: TableNames) -> tuple[str, ...] | None:
    name = names.called(written, whole=True)
    return None if name is None else tuple(name.lower().split("."))


class _OneTable:
    """The table that the statement names: see `pruner.ddl.execute.Tables`."""

    def __init__(self, known: KnownTable) -> None:
        self._known = known

    def names(self) -> Sequence[str]:
        """Its name."""
        return [self._known.name]

    def open(self, name: str) -> Table:
        """Open it.

        Raises:
            TableError: it is read as of a past instant.
        """
        if self._known.as_of is not None:
            raise TableError(
                f"table {self._known.name} is read as of {self._known.as_of}: indexes describe its present state"
            )
        return self._known.table


def _rows(result: SqlResult) -> str:
    """The result of a statement, as a query of constants."""
    if result.status is not None:
        rows = [[row[name] for name in _SHOWN] for row in result.rows]
        values = ", ".join(f"({', '.join(map(_constant, row))})" for row in rows)
        names = ", ".join(f'"{name}"' for name in _SHOWN)
        nothing = ", ".join(f'NULL::VARCHAR AS "{name}"' for name in _SHOWN)
        return f"SELECT * FROM (VALUES {values}) t({names})" if rows else f"SELECT {nothing} WHERE false"
    built = result.refresh
    indexed, failed = (0, 0) if built is None else (built.indexed, len(built.failures))
    return (
        f'SELECT {_constant(result.statement)} AS statement, {_constant(result.table)} AS "table", '
        f'{_constant(result.index)} AS "index", {_constant(result.changed)} AS changed, '
        f"{indexed}::BIGINT AS indexed, {failed}::BIGINT AS failed"
    )


def _constant(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool() | int():
            return str(value)
        case tuple():
            texts = cast("tuple[str, ...]", value)
            return f"[{', '.join(map(quote_text, texts))}]::VARCHAR[]"
        case _:
            return quote_text(str(value))
