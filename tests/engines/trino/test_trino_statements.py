"""The portable statements through Trino: rows as through the plain catalog, from as few files as can be proved."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.cases.statement_tables import TABLES, statement_tables, write_parquet
from tests.support.cases.statements import Case, portable_cases
from tests.support.service.planner import running_service
from tests.support.trino.server import (
    STATIC,
    Trino,
    aged,
    index_all,
    register_statement_tables,
    statement_configuration,
)
from tools.trino.client import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.trino

EVERY_CASE = ("parquet", "mor_v9")
"""Variants on which every statement runs; the others run one of each category."""


@dataclass(frozen=True)
class Lake:
    """The three tables of one variant: a Trino schema that the service knows."""

    variant: str
    catalog: str


@pytest.fixture(
    scope="module", params=["parquet", "cow_v6", "cow_v8", "cow_v9", "mor_v6", "mor_v8", "mor_v9"]
)
def lake(
    request: pytest.FixtureRequest,
    trino: Trino,
    start_session: Callable[[], SparkSession],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Lake]:
    variant: str = request.param
    root = tmp_path_factory.mktemp(variant)
    hudi = variant != "parquet"
    if hudi:
        source = statement_tables(start_session).path(variant)
        for name in TABLES:
            shutil.copytree(source / name, root / name)
    else:
        aged(write_parquet(root))
    index_all(root)
    register_statement_tables(trino.metastore, variant, root, hudi=hudi)
    with running_service(statement_configuration(root, variant, hudi=hudi)) as url:
        trino.gate.target = url
        yield Lake(variant, "hudi" if hudi else "hive")


def _cases(variant: str) -> list[Case]:
    if variant in EVERY_CASE:
        return portable_cases()
    first_of_each = {case.category: case for case in reversed(portable_cases())}
    return sorted(first_of_each.values(), key=lambda case: case.line)


def _sorted(rows: Rows) -> Rows:
    return sorted(rows, key=repr)


def test_statements_read_the_same_rows_from_the_files_that_are_kept(lake: Lake, trino: Trino) -> None:
    """Without dynamic filters, whose timing varies, the splits of each scan are those of the plan."""
    problems: list[str] = []
    for case in _cases(lake.variant):
        plain = trino.run(case.sql, catalog=lake.catalog, schema=lake.variant, session=STATIC)
        trino.gate.forget()
        pruned = trino.run(case.sql, catalog=f"pruned_{lake.catalog}", schema=lake.variant, session=STATIC)
        if (plain.rows != pruned.rows) if case.ordered else (_sorted(plain.rows) != _sorted(pruned.rows)):
            problems.append(f"{case.name}: other rows")
        wanted = sorted((scan.table, scan.kept, scan.total) for scan in case.scans("trino"))
        asked = sorted((answer["table"], answer["kept"], answer["total"]) for answer in trino.gate.answers)
        # No plan is requested for a scan without a predicate.
        if asked != [scan for scan in wanted if scan[1] < scan[2] or scan in asked]:
            problems.append(f"{case.name}: plans {asked}, not {wanted}")
        # A scan with nothing left gets one empty split.
        splits = sorted(trino.splits_by_scan(pruned.query_id).values())
        if splits != sorted(max(kept, 1) for _, kept, _ in wanted):
            problems.append(f"{case.name}: splits {splits}, not {wanted}")
    assert not problems, "\n".join(problems)


def test_rows_come_at_all(lake: Lake, trino: Trino) -> None:
    """Trino does not report a table whose location or partitions it does not find; it has no rows then."""
    for name, rows in (("flights", 600), ("carriers", 8), ("airports", 12)):
        found = trino.run(
            f"SELECT count(*) FROM {name}", catalog=f"pruned_{lake.catalog}", schema=lake.variant
        )
        # Only base files: rows that Hudi updated or deleted in log files appear unchanged.
        before = 2 if lake.variant.startswith("mor") and name == "flights" else 0
        assert found.rows == [(rows + before,)]
