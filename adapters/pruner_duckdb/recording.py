"""The statements of any DuckDB connection, written down for `pruner advise --log`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_RUN = frozenset(["execute", "executemany", "sql", "query", "from_query"])
"""Methods whose first argument is a statement."""


class RecordingConnection:
    """Wraps a connection, of DuckDB or of pruner; what is not here is its own."""

    def __init__(self, connection: Any, path: Path) -> None:
        self._connection = connection
        self._path = path

    def cursor(self) -> RecordingConnection:
        """Another connection to the same database, written down as well."""
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
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps({"query": query}) + "\n")
            result = method(query, *arguments, **named)
            return self if result is self._connection else result

        return call


def record(connection: Any, path: str | os.PathLike[str]) -> RecordingConnection:
    """Write each statement that runs through the returned connection to a file, as `pruner advise --log` reads it.

    A line is a JSON object with the text as `query`. Values of parameters are not written down.

    Args:
        connection: one of DuckDB's, or of `pruner_duckdb.connect`.
        path: the file; lines are appended to it.
    """
    return RecordingConnection(connection, Path(path))
