"""The portable statements through Spark: the same rows pruned and not, and as many files kept as can be proved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

import pruner_spark
from tests.engines.spark.spark_tables import (
    Lake,
    copy_tables,
    everything_read,
    files_scanned,
    index_all,
    new_scans,
    rows_of,
    unordered,
)
from tests.support.cases.statement_tables import statement_tables, write_parquet
from tests.support.cases.statements import Case, portable_cases
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

EVERY_CASE = ("parquet",)
"""Variants on which every statement runs; the others run one of each category."""
COMPILED = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
"""As users run it. Other Spark tests interpret their statements (`INTERPRETED` in tools/spark_sessions.py)."""


@pytest.fixture(scope="module", params=["parquet", "cow_v6", "cow_v9", "mor_v6", "mor_v9"])
def lake(
    request: pytest.FixtureRequest,
    spark: SparkSession,
    start_session: Callable[[], SparkSession],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lake]:
    root = tmp_path_factory.mktemp(request.param)
    if request.param == "parquet":
        write_parquet(root)
    else:
        copy_tables(statement_tables(start_session).path(request.param), root)
    index_all(root)
    with settings(spark, COMPILED if request.param == "parquet" else {}):
        yield Lake(spark, root, "parquet" if request.param == "parquet" else "hudi")
    for name in ("flights", "carriers", "airports"):
        spark.catalog.dropTempView(name)


def _cases(variant: str) -> list[Case]:
    if variant in EVERY_CASE:
        return portable_cases()
    first_of_each = {case.category: case for case in reversed(portable_cases())}
    return sorted(first_of_each.values(), key=lambda case: case.line)


def test_statements_read_the_same_rows_from_the_files_that_are_kept(
    lake: Lake, request: pytest.FixtureRequest
) -> None:
    variant: str = request.node.callspec.params["lake"]
    cases = _cases(variant)
    lake.plain()
    with everything_read(lake.spark):
        expected = [rows_of(lake.spark.sql(case.sql)) for case in cases]
    lake.pruned()
    problems: list[str] = []
    for case, rows in zip(cases, expected, strict=True):
        before = pruner_spark.last_plans(lake.spark)
        frame = lake.spark.sql(case.sql)
        found = rows_of(frame)
        scans = new_scans(lake.spark, before)
        if (found != rows) if case.ordered else (unordered(found) != unordered(rows)):
            problems.append(f"{case.name}: other rows")
        kept = sorted((scan.table.rsplit("/", 1)[-1], scan.kept, scan.total) for scan in scans)
        wanted = sorted((scan.table, scan.kept, scan.total) for scan in case.scans("spark"))
        if kept != wanted:
            problems.append(f"{case.name}: {kept}, not {wanted} {[scan.fallbacks for scan in scans]}")
        problems.extend(f"{case.name}: {scan.reason}" for scan in scans if scan.reason)
        # Spark itself prunes by partitions, and by those that a join leaves; then it reads fewer files than are kept.
        if sum(files_scanned(frame)) > sum(scan.kept or 0 for scan in scans):
            problems.append(f"{case.name}: {files_scanned(frame)} files were read")
    assert not problems, "\n".join(problems)
