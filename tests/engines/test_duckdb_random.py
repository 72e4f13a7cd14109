"""Random statements over pruned tables give the rows of DuckDB with its optimizer off, and many of them prune."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings

import pruner_duckdb
from tests.engines.duckdb_tables import Rows, indexed
from tests.engines.random_statements import statements
from tests.engines.random_tables import everything, without_sign_of_zero, write_random_tables
from tests.support import profiles

STATEMENTS = 2000
EXAMPLES = 2600
"""More than statements, because hypothesis makes some twice."""
PASSED: set[str] = set()
SEEN: Counter[str] = Counter()


class Pair:
    """The pruned connection and one that reads every row."""

    def __init__(self, pruned: pruner_duckdb.Connection, full: duckdb.DuckDBPyConnection) -> None:
        self.pruned = pruned
        self.full = full


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    roots = write_random_tables(tmp_path_factory.mktemp("random"))
    return Pair(
        pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()}, config={"threads": 1}),
        everything(roots),
    )


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


@settings(max_examples=profiles.examples(EXAMPLES))
@given(sql=statements())
def test_random_statements_lose_no_row(pair: Pair, sql: str) -> None:
    if sql in PASSED:
        return
    pair.pruned.last_plans.clear()
    found = outcome(pair.pruned, sql)
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
    assert total >= profiles.examples(EXAMPLES) * STATEMENTS / EXAMPLES
    assert counts["prune"] > 0.35 * total, counts
    assert counts["have rows"] > 0.3 * total, counts
    assert counts["fall back"] < 0.05 * total, counts
    assert counts["fail alike"] < 0.05 * total, counts
