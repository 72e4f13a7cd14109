"""Statements outside pruned connections: recorded for `pruner advise --log`, and sorted for writing.

Sorting for pruning: a query returns its rows in the order of an index, so that few files hold any one of its values.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sqlglot import exp

from pruner import Table, open_table
from pruner.maintenance.ordering import order_by

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RUN = frozenset(["execute", "executemany", "sql", "query", "from_query"])
"""Methods whose first argument is a statement."""


class RecordingConnection:
    """Wraps a connection of DuckDB or of pruner; members not defined here are those of the connection."""

    def __init__(self, connection: Any, path: Path) -> None:
        self._connection = connection
        self._path = path

    def cursor(self) -> RecordingConnection:
        """Another connection to the same database, also recorded."""
        return RecordingConnection(self._connection.cursor(), self._path)

    duplicate = cursor

    def __enter__(self) -> RecordingConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._connection, name)
        return self._recorded(member) if name in _RUN else member

    def _recorded(self, method: Any) -> Any:
        def call(query: Any, *arguments: Any, **named: Any) -> Any:
            if isinstance(query, str):
                told = {"query": query, **_parameters(arguments, named)}
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(told) + "\n")
            result = method(query, *arguments, **named)
            return self if result is self._connection else result

        return call


def _parameters(arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a statement's parameters as SQL literals; empty if one of them has no literal."""
    given = named.get("parameters", named.get("params", arguments[0] if arguments else None))
    try:
        match given:
            case dict():
                values = cast("dict[str, Any]", given)
                return {"parameters": {name: _literal(value) for name, value in values.items()}}
            case list() | tuple() if given:
                return {"parameters": [_literal(value) for value in cast("Sequence[Any]", given)]}
            case _:
                return {}
    except ValueError:
        return {}


def _literal(value: Any) -> str:
    """A value in DuckDB's SQL.

    Raises:
        ValueError: it is a list, tuple or dict.
    """
    if isinstance(value, (list, tuple, dict)):
        raise ValueError
    return exp.convert(value).sql("duckdb")


def record(connection: Any, path: str | os.PathLike[str]) -> RecordingConnection:
    """Write each statement that runs through the returned connection to a file, as `pruner advise --log` reads it.

    A line is a JSON object with the text as `query`, and the values of its parameters as `parameters`: SQL literals in
    their order, or by name. Lists and other values without a literal are not recorded.

    Args:
        connection: one of DuckDB's, or of `pruner_duckdb.connect`.
        path: the file; lines are appended to it.
    """
    return RecordingConnection(connection, Path(path))


def sort_for(query: str, on: str, *, table: str | os.PathLike[str] | Table | None = None) -> str:
    """Return a query with the same rows in the order of an index or expression, for COPY.

    Each file written from it then holds few of the values, so that a condition on them skips more files. COPY mixes
    the rows of several threads when it writes several files: `SET threads = 1` keeps them in order.

    Args:
        query: in DuckDB's SQL.
        on: an expression in DuckDB's SQL, or, with `table`, the name of an index.
        table: the table that has the index.

    Raises:
        IndexDefinitionError: the index is over every column, or over one that no longer exists.
        TableError: there is no such table.
        ConfigError: `pruner.toml` is invalid.
    """
    parts: list[str] | None = None
    if table is not None:
        known = table if isinstance(table, Table) else open_table(table)
        parts = order_by(known.indexes(), on, known.schema, "duckdb")
    body = query.strip().rstrip(";")
    return f"SELECT * FROM (\n{body}\n) AS unsorted ORDER BY {', '.join(parts or [f'({on})'])}"
