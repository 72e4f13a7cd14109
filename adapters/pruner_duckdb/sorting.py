"""Writing for pruning: a query whose rows come in the order of an index, so that few files hold a value of it."""

from __future__ import annotations

import os

from pruner import Table, open_table
from pruner.maintenance.ordering import order_by


def sort_for(query: str, on: str, *, table: str | os.PathLike[str] | Table | None = None) -> str:
    """Return a query with the same rows in the order of an index or expression, for COPY.

    Each file written from it then holds few of the values, so that a condition on them leaves more files out. COPY
    mixes the rows of several threads where it writes several files: `SET threads = 1` keeps them in order.

    Args:
        query: in DuckDB's SQL.
        on: an expression in DuckDB's SQL, or with `table` the name of an index.
        table: the table that has the index.

    Raises:
        IndexDefinitionError: the index is over every column, or over one that is gone.
        TableError: there is no such table.
        ConfigError: `pruner.toml` is wrong.
    """
    parts: list[str] | None = None
    if table is not None:
        known = table if isinstance(table, Table) else open_table(table)
        parts = order_by(known.indexes(), on, known.schema, "duckdb")
    body = query.strip().rstrip(";")
    return f"SELECT * FROM (\n{body}\n) AS unsorted ORDER BY {', '.join(parts or [f'({on})'])}"
