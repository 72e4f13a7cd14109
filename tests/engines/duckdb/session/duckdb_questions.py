"""What the DuckDB adapter asks sessions, listened to where it asks."""

from __future__ import annotations

from typing import Any

import pytest

from pruner_duckdb.session.scope import Method


class Questions(list[tuple[str, list[object]]]):
    """The questions that sessions were asked, with their values."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Listen from now on."""
        super().__init__()
        first_row = Method.first_row

        def listening(method: Method, sql: Any, parameters: list[object]) -> tuple[Any, ...]:
            self.append((getattr(sql, "query", sql), parameters))
            return first_row(method, sql, parameters)

        monkeypatch.setattr(Method, "first_row", listening)

    def of(self, con: Any, sql: str) -> int:
        """How many a statement needs."""
        self.clear()
        con.execute(sql).fetchall()
        return len(self)

    def about(self, word: str, con: Any, sql: str) -> int:
        """How many texts with a word in them a session has to plan for a statement."""
        self.of(con, sql)
        return sum(word in str(value) for _, values in self for value in values)
