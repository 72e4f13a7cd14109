"""The random tables through pruner and without it: what random statements run over."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import duckdb

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import Rows, indexed
from tests.engines.duckdb.random.random_tables import everything, without_sign_of_zero

FAILED_INSIDE = "InternalException"
"""DuckDB 2.0 fails this way over any Parquet files if a subquery that occurs twice filters on a field of a struct."""


class Pair:
    """The pruned connection and one that reads every row."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = roots
        self._tables = {name: indexed(root) for name, root in roots.items()}
        self.pruned = self._connect()
        self.full = everything(roots)

    def _connect(self) -> pruner_duckdb.Connection:
        return pruner_duckdb.connect(self._tables, config={"threads": 1})

    def connect_again(self) -> None:
        """Replace a database that DuckDB has closed because of an internal error."""
        self.pruned.close()
        self.pruned = self._connect()

    def without_pruner(self, sql: str) -> Rows | str:
        """The outcome of a statement in DuckDB over the same files, with its optimizer on."""
        with duckdb.connect(config={"threads": 1}) as plain:
            for name, root in self._roots.items():
                plain.execute(
                    f"CREATE VIEW {name} AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
                )
            return outcome(plain, sql)


class PlainReaders:
    """DuckDB without pruner over the same files, in each of the ways in which pruner makes it read them."""

    def __init__(self, roots: Mapping[str, Path]) -> None:
        self._roots = roots
        self._connections = self._connect()

    def _connect(self) -> list[duckdb.DuckDBPyConnection]:
        made: list[duckdb.DuckDBPyConnection] = []
        for option in ("", ", union_by_name = true"):
            plain = duckdb.connect(config={"threads": 1})
            for name, root in self._roots.items():
                scan = f"read_parquet('{root}/**/*.parquet', hive_partitioning = true{option})"
                plain.execute(f"CREATE VIEW {name} AS FROM {scan}")
            made.append(plain)
        return made

    def outcomes(self, sql: str) -> list[Rows | str]:
        """The outcome of a statement in each of them."""
        found = [outcome(each, sql) for each in self._connections]
        if FAILED_INSIDE in found:
            self._connections = self._connect()
        return found


def outcome(connection: Any, sql: str) -> Rows | str:
    """The rows, sorted independently of the plan, or the type of error that DuckDB reports."""
    try:
        rows = connection.execute(sql).fetchall()
    except duckdb.Error as error:
        return type(error).__name__
    return sorted((tuple(map(without_sign_of_zero, row)) for row in rows), key=repr)
