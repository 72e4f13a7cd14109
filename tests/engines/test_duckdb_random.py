"""Random statements over pruned tables give the rows of DuckDB with its optimizer off, and many of them prune."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

import pruner_duckdb
from tests.engines.duckdb_tables import Rows, indexed
from tests.engines.random_statements import statement
from tests.engines.random_tables import everything, without_sign_of_zero, write_random_tables
from tests.engines.tape import tapes
from tests.support import profiles

STATEMENTS = 2200
FAILED_INSIDE = "InternalException"
"""DuckDB 2.0 fails so over any Parquet files where a filter on a field of a struct stands in a subquery that is there
twice.
"""
PASSED: set[str] = set()
SEEN: Counter[str] = Counter()


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
        """Leave a database that DuckDB has ended because of an error inside."""
        self.pruned.close()
        self.pruned = self._connect()

    def without_pruner(self, sql: str) -> Rows | str:
        """What DuckDB, its optimizer on, makes of a statement over the same files."""
        with duckdb.connect(config={"threads": 1}) as plain:
            for name, root in self._roots.items():
                plain.execute(
                    f"CREATE VIEW {name} AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
                )
            return outcome(plain, sql)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return Pair(write_random_tables(tmp_path_factory.mktemp("random")))


def outcome(connection: Any, sql: str) -> Rows | str:
    """The rows in an order that no plan changes, or the kind of error that DuckDB reports."""
    try:
        rows = connection.execute(sql).fetchall()
    except duckdb.Error as error:
        return type(error).__name__
    return sorted((tuple(map(without_sign_of_zero, row)) for row in rows), key=repr)


def remember(kind: str, pruned: pruner_duckdb.Connection) -> None:
    """Count what a statement's scans read."""
    scans = list(pruned.last_plans)
    SEEN[kind] += 1
    SEEN[f"{kind}: prune"] += any(scan.kept < scan.total for scan in scans)
    SEEN[f"{kind}: fall back"] += any(scan.reason is not None for scan in scans)


@settings(max_examples=profiles.examples(STATEMENTS))
@given(sql=tapes().map(statement))
def test_random_statements_lose_no_row(pair: Pair, sql: str) -> None:
    if sql in PASSED:
        return
    pair.pruned.last_plans.clear()
    found = outcome(pair.pruned, sql)
    if found == FAILED_INSIDE:
        pair.connect_again()
        assert pair.without_pruner(sql) == FAILED_INSIDE, sql
        SEEN["fail inside"] += 1
        return
    assert found == outcome(pair.full, sql), sql
    PASSED.add(sql)
    remember("statements", pair.pruned)
    SEEN["statements: fail alike"] += isinstance(found, str)
    SEEN["statements: have rows"] += isinstance(found, list) and bool(found)


def test_the_random_statements_do_prune(record_property: Callable[[str, object], None]) -> None:
    """Guards the property above against passing because nothing is ever left out."""
    total = SEEN["statements"]
    counts = {name.partition(": ")[2]: SEEN[name] for name in sorted(SEEN) if name.startswith("statements: ")}
    record_property("figure", f"{total:,} random statements over pruned tables: {counts}")
    assert total >= 0.95 * profiles.examples(STATEMENTS), "hardly any is made twice"
    assert SEEN["fail inside"] <= 0.005 * total, "hardly ever"
    assert counts["prune"] > 0.35 * total, counts
    assert counts["have rows"] > 0.3 * total, counts
    assert counts["fall back"] < 0.05 * total, counts
    assert counts["fail alike"] < 0.05 * total, counts
