"""Every statement of `tests/spec/statements.txt`: the rows of a full read, from as few files as it says.

Expected rows come from DuckDB with its optimizer off: over the Parquet files themselves for a Parquet table,
over what Spark's snapshot read gave for a Hudi table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.statement_tables import TABLES, write_parquet
from tests.support.statements import Case, all_cases

CASES = {case.name: case for case in all_cases()}

Connections = Callable[[], tuple[pruner_duckdb.Connection, duckdb.DuckDBPyConnection]]


def full_reader(tables: dict[str, str]) -> duckdb.DuckDBPyConnection:
    """A connection with views over all files, that optimizes nothing."""
    connection = duckdb.connect()
    for name, pattern in tables.items():
        connection.execute(
            f"CREATE VIEW {name} AS FROM read_parquet('{pattern}', hive_partitioning = true, "
            "hive_types_autocast = false)"
        )
    connection.execute("PRAGMA disable_optimizer")
    return connection


def rows(connection: Any, case: Case, folder: Path) -> list[tuple[Any, ...]]:
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


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Connections:
    root = write_parquet(tmp_path_factory.mktemp("statements"))
    tables = {name: pruner.open_table(str(root / name)) for name in TABLES}
    for table in tables.values():
        table.create_index("stats", on="*")

    def connections() -> tuple[pruner_duckdb.Connection, duckdb.DuckDBPyConnection]:
        return pruner_duckdb.connect(tables), full_reader(
            {name: f"{root}/{name}/**/*.parquet" for name in TABLES}
        )

    return connections


@pytest.mark.parametrize("name", CASES)
def test_over_parquet(parquet: Connections, tmp_path: Path, name: str) -> None:
    case = CASES[name]
    pruned, full = parquet()
    assert rows(pruned, case, tmp_path / "pruned") == rows(full, case, tmp_path / "full"), case.sql
    expected = [(scan.table, scan.kept, scan.total) for scan in case.scans("duckdb")]
    assert [(scan.table, scan.kept, scan.total) for scan in pruned.last_plans] == expected, case.sql


def test_the_file_is_what_its_head_says(record_property: Callable[[str, object], None]) -> None:
    head = Path("tests/spec/statements.txt").read_text(encoding="utf-8").split("== portable")[0]
    named = Counter(case.category for case in CASES.values())
    for category in named:
        assert category in head.replace("\n#        ", ""), category
    portable = sum(case.portable for case in CASES.values())
    pruning = sum(case.prunes for case in CASES.values())
    assert len(CASES) >= 80
    assert portable >= 50
    assert pruning * 2 >= len(CASES)
    record_property("figure", f"{len(CASES)} statements, {portable} portable, {pruning} of them prune")
