"""Runs the cases of `tests/spec/statements.txt` in DuckDB: pruned, and over all rows with its optimizer off."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

import pruner
import pruner_duckdb
from tests.support.cases.statement_tables import TABLES
from tests.support.cases.statements import Case

Scans = list[tuple[str, int, int]]
Rows = list[tuple[Any, ...]]


def indexed_tables(root: Path, index_root: Path | None = None) -> dict[str, pruner.Table]:
    """Open the tables below `root` and index every column, beside the tables or below `index_root`."""
    tables: dict[str, pruner.Table] = {}
    for name in TABLES:
        index_uri = None if index_root is None else str(index_root / name)
        tables[name] = pruner.open_table(str(root / name), index_uri=index_uri)
        tables[name].create_index("stats", on="*")
    return tables


def full_reader(tables: Mapping[str, str]) -> duckdb.DuckDBPyConnection:
    """A connection with views over all files, that optimizes nothing."""
    connection = duckdb.connect()
    for name, pattern in tables.items():
        connection.execute(
            f"CREATE VIEW {name} AS FROM read_parquet('{pattern}', hive_partitioning = true, "
            "hive_types_autocast = false)"
        )
    connection.execute("PRAGMA disable_optimizer")
    return connection


def rows(connection: Any, case: Case, folder: Path) -> Rows:
    """Run a case in a session in UTC; rows in their order only where that counts."""
    folder.mkdir()
    connection.execute("SET TimeZone = 'UTC'")
    statements = [sql.replace("{folder}", str(folder)) for sql in case.statements]
    for sql in statements[:-1]:
        connection.execute(sql)
        if connection.description is not None:
            connection.fetchall()
    if case.parameters is None:
        # By way of Arrow: DuckDB fetches timestamps with a zone through a package that need not be there.
        table = connection.sql(statements[-1]).to_arrow_table()
        found = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
    else:
        found = connection.execute(statements[-1], case.parameters).fetchall()
    return found if case.ordered else sorted(found, key=repr)


def read_scans(connection: pruner_duckdb.Connection) -> Scans:
    """Table, kept and total of the scans of a connection, in the order in which they were planned."""
    return [(scan.table, scan.kept, scan.total) for scan in connection.last_plans]


def expected_scans(case: Case, native: bool = False) -> Scans:
    """The same as the file of statements has it, by the native scan where it is another number then."""
    engine = "native" if native and "native" in case.expected else "duckdb"
    return [(scan.table, scan.kept, scan.total) for scan in case.scans(engine)]
