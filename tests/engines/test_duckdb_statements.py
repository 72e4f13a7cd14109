"""Every statement of `tests/spec/statements.txt` over Parquet: the rows of a full read, from as few files as it
says. Expected rows come from DuckDB with its optimizer off, over all files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

import pruner
import pruner_duckdb
from tests.support import spec
from tests.support.duckdb_statements import expected_scans, full_reader, indexed_tables, read_scans, rows
from tests.support.statement_tables import TABLES, write_parquet
from tests.support.statements import FILE, all_cases

CASES = {case.name: case for case in all_cases()}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parquet(tmp_path_factory.mktemp("statements"))


@pytest.fixture(scope="module")
def tables(root: Path) -> dict[str, pruner.Table]:
    return indexed_tables(root)


@pytest.mark.parametrize("name", CASES)
def test_over_parquet(root: Path, tables: dict[str, pruner.Table], tmp_path: Path, name: str) -> None:
    case = CASES[name]
    with pruner_duckdb.connect(tables) as pruned:
        full = full_reader({table: f"{root}/{table}/**/*.parquet" for table in TABLES})
        assert rows(pruned, case, tmp_path / "pruned") == rows(full, case, tmp_path / "full"), case.sql
        assert read_scans(pruned) == expected_scans(case), case.sql


def test_the_file_is_what_its_head_says(record_property: Callable[[str, object], None]) -> None:
    head = spec.comments(FILE).replace("\n        ", " ")
    named = Counter(case.category for case in CASES.values())
    assert [category for category in named if category not in head] == []
    portable = sum(case.portable for case in CASES.values())
    pruning = sum(case.prunes for case in CASES.values())
    assert len(CASES) >= 80
    assert portable >= 50
    assert pruning * 2 >= len(CASES)
    record_property("figure", f"{len(CASES)} statements, {portable} portable, {pruning} of them prune")
