"""Statements about indexes: CREATE INDEX, DROP INDEX, REFRESH INDEX, SHOW INDEXES (docs/statements.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.catalog.names import Catalog, TableLike
from pruner.ddl.execute import SqlResult, execute
from pruner.ddl.parser import (
    CreateIndex,
    DropIndex,
    IndexedItem,
    RefreshIndex,
    ShowIndexes,
    Statement,
    parse_statement,
)
from pruner.ddl.tokens import StatementError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pruner.pipeline.requests import Progress

__all__ = [
    "CreateIndex",
    "DropIndex",
    "IndexedItem",
    "RefreshIndex",
    "ShowIndexes",
    "SqlResult",
    "Statement",
    "StatementError",
    "execute",
    "parse_statement",
    "sql",
]


def sql(
    statement: str,
    tables: Mapping[str, TableLike] | None = None,
    *,
    dialect: str | None = None,
    progress: Progress | None = None,
) -> SqlResult:
    """Run one statement about indexes.

    Args:
        statement: CREATE INDEX, DROP INDEX, REFRESH INDEX or SHOW INDEXES (docs/statements.md).
        tables: tables by the names that the statement uses: a `Table`, a path or URI, a list of roots, or a
            mapping with the keys of docs/configuration.md. Other names are looked up in `pruner.toml`; anything else is
            taken as a path or URI.
        dialect: engine in whose SQL expressions are written: duckdb (default), spark, trino.
        progress: called with the progress while an index is built.

    Returns:
        What was done; `rows` has the indexes for SHOW INDEXES.

    Raises:
        StatementError: the statement cannot be parsed; an `IndexDefinitionError` with the position and token.
        PrunerError: it cannot be executed.

    """
    return execute(parse_statement(statement), Catalog(tables), progress, dialect=dialect)
