"""What DuckDB is to run in the place of a statement over pruned tables."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from pruner_duckdb.read.reading import Sources
from pruner_duckdb.rewrite.markers import renamed
from pruner_duckdb.scans import Scan

_PARAMETER = re.compile(r"\$\w+")


@dataclass(frozen=True, slots=True)
class Rewritten:
    """What DuckDB is to run."""

    sql: str
    parameters: dict[str, Any] | list[Any] | None
    scans: tuple[Scan, ...]
    sources: Sources = field(default_factory=Sources)
    """What it reads besides files: DuckDB finds it under these names, as it finds data frames."""
    harmless: bool = False
    """Whether running it surely changes nothing in the session or the database."""
    lasting: bool = False
    """Whether the same answers of the session make the same rewriting."""
    begins_by: int | None = None
    """Up to when it may begin to run, in nanoseconds since 1970: it was planned for a `now()` of that time at the
    latest. None for a plan that serves at any time.
    """
    parsed: duckdb.Statement | None = None
    """The same as DuckDB's parser leaves it; None where it was not parsed beforehand."""

    @property
    def to_run(self) -> str | duckdb.Statement:
        """What DuckDB is given."""
        return self.sql if self.parsed is None else self.parsed

    @property
    def form(self) -> str:
        """The text, whatever the names of its parameters."""
        return _PARAMETER.sub("$", self.sql)

    def parsed_by(self, native: duckdb.DuckDBPyConnection) -> Rewritten:
        """The same, parsed: reading the text takes DuckDB a third of the time of a short query."""
        statements = native.extract_statements(self.sql)
        return replace(self, parsed=statements[0]) if len(statements) == 1 else self

    def with_other_markers(self) -> Rewritten | None:
        """The same with other names of parameters: DuckDB refuses to join relations that share one; None where they
        cannot be told apart from other text.
        """
        if not isinstance(self.parameters, dict):
            return self
        found = renamed(self.sql, self.parameters)
        return None if found is None else replace(self, sql=found[0], parameters=found[1])
