"""The statements of `tests/spec/statements.txt` over Hudi tables: copy-on-write and merge-on-read, versions 6 and 9.

Expected rows: those of Spark's snapshot read, queried by DuckDB with its optimizer off. The values in log files lie
within those of their slices, so slices with logs are pruned just as well.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.cases.statement_tables import HUDI_VARIANTS, TABLES, arrow_rows, statement_tables
from tests.support.cases.statements import Case, all_cases
from tests.support.duckdb.statements import (
    Rows,
    expected_scans,
    full_reader,
    indexed_tables,
    read_scans,
    rows,
)
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CATEGORIES = tuple(dict.fromkeys(case.category for case in all_cases() if case.category != "shape"))
"""The categories whose statements name their columns: Hudi's tables have columns of their own, too."""

STATED = tuple(name for name in HUDI_VARIANTS if not name.endswith("_v8"))
"""To pruner, files of version 8 are like those of version 9: `test_hudi_listing.py` has both."""


@pytest.fixture(scope="module")
def variants(start_session: Callable[[], SparkSession]) -> KeptTables:
    return statement_tables(start_session)


@pytest.fixture(scope="module", params=HUDI_VARIANTS)
def variant(request: pytest.FixtureRequest, variants: KeptTables) -> Path:
    return variants.path(request.param)


@pytest.fixture(scope="module")
def tables(variant: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pruner.Table]:
    return indexed_tables(variant, tmp_path_factory.mktemp("indexes"))


def test_spark_reads_the_rows_of_the_other_formats(variant: Path) -> None:
    for name in TABLES:
        con = duckdb.connect()
        con.execute("SET TimeZone = 'UTC'")
        con.register("wanted", arrow_rows(name))
        con.execute(f"CREATE VIEW found AS FROM read_parquet('{variant}/expected/{name}/*.parquet')")
        for one, other in (("wanted", "found"), ("found", "wanted")):
            assert con.execute(f"SELECT count(*) FROM (FROM {one} EXCEPT ALL FROM {other})").fetchall() == [
                (0,)
            ]


@pytest.fixture(scope="module")
def expected(variants: KeptTables, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Case], Rows]:
    """Expected rows of a case, computed once: the test above shows that Spark reads the same rows from each variant."""
    folder = tmp_path_factory.mktemp("expected")
    tables = {table: f"{variants.path('cow_v9')}/expected/{table}/*.parquet" for table in TABLES}

    @cache
    def of_line(line: int) -> Rows:
        case = next(case for case in all_cases() if case.line == line)
        return rows(full_reader(tables), case, folder / str(line))

    return lambda case: of_line(case.line)


@pytest.mark.parametrize("variant", STATED, indirect=True)
@pytest.mark.parametrize("category", CATEGORIES)
def test_over_hudi(
    variant: Path,
    tables: dict[str, pruner.Table],
    expected: Callable[[Case], Rows],
    tmp_path: Path,
    category: str,
) -> None:
    for case in all_cases():
        if case.category != category:
            continue
        with pruner_duckdb.connect(tables) as pruned:
            assert rows(pruned, case, tmp_path / str(case.line)) == expected(case), case.sql
            assert read_scans(pruned) == expected_scans(case), case.sql
