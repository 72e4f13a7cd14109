"""Every statement of `tests/spec/statements.txt` over Parquet: the rows of a full read, from as few files as it states.
Expected rows come from DuckDB with its optimizer off, over all files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import pruner
import pruner_duckdb
from tests.support.cases import spec
from tests.support.cases.statement_tables import TABLES, write_parquet
from tests.support.cases.statements import FILE, Case, all_cases
from tests.support.duckdb.statements import expected_scans, full_reader, indexed_tables, read_scans, rows
from tests.support.duckdb.ways import is_native, native_reads_are

CASES = {case.name: case for case in all_cases()}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_parquet(tmp_path_factory.mktemp("statements"))


@pytest.fixture(scope="module")
def tables(root: Path) -> dict[str, pruner.Table]:
    return indexed_tables(root)


class Pair:
    """The pruned connection and one that reads every file, with its optimizer off."""

    def __init__(self, root: Path, tables: dict[str, pruner.Table]) -> None:
        self.pruned = pruner_duckdb.connect(tables)
        self.full = full_reader({table: f"{root}/{table}/**/*.parquet" for table in TABLES})

    def check(self, case: Case, folder: Path) -> None:
        self.pruned.last_plans.clear()
        assert rows(self.pruned, case, folder / "pruned") == rows(self.full, case, folder / "full"), case.sql
        found = read_scans(self.pruned)
        if is_native():
            assert native_reads_are(found, expected_scans(case, native=True), expected_scans(case)), case.sql
        else:
            assert found == expected_scans(case), case.sql

    def close(self) -> None:
        self.pruned.close()
        self.full.close()


@pytest.fixture(scope="module")
def pair(root: Path, tables: dict[str, pruner.Table]) -> Iterator[Pair]:
    """Shared by statements that leave nothing behind: opening a pair costs more than running most of them."""
    with closing(Pair(root, tables)) as opened:
        yield opened


@pytest.mark.sampled(72)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case.statements) == 1])
def test_over_parquet(pair: Pair, tmp_path: Path, name: str) -> None:
    pair.check(CASES[name], tmp_path)


@pytest.mark.sampled(60)
@pytest.mark.parametrize("name", [name for name, case in CASES.items() if len(case.statements) > 1])
def test_several_over_parquet(root: Path, tables: dict[str, pruner.Table], tmp_path: Path, name: str) -> None:
    with closing(Pair(root, tables)) as own:
        own.check(CASES[name], tmp_path)


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
