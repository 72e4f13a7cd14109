"""The questions that the DuckDB adapter asks sessions, recorded where it asks them."""

from __future__ import annotations

from typing import Any

import pytest

from pruner_duckdb.session.scope import Method


class Questions(list[tuple[str, list[object]]]):
    """The questions asked of sessions, with their values."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Record from now on."""
        super().__init__()
        first_row = Method.first_row

        def listening(method: Method, sql: Any, parameters: list[object]) -> tuple[Any, ...]:
            self.append((getattr(sql, "query", sql), parameters))
            return first_row(method, sql, parameters)

        monkeypatch.setattr(Method, "first_row", listening)

    def of(self, con: Any, sql: str) -> int:
        """How many questions a statement needs."""
        self.clear()
        con.execute(sql).fetchall()
        return len(self)

    def about(self, word: str, con: Any, sql: str) -> int:
        """How many texts that contain a word a session must plan for a statement."""
        self.of(con, sql)
        return sum(word in str(value) for _, values in self for value in values)
