"""Hudi's indexes that statements define, on real tables: each value leads to its file groups and no others.

`test_hudi_metadata.py` checks that no row is lost, by random predicates too, and that every record is what Hudi reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.hudi.histories import tables
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DEFINED = "cow_defined_v9"


@pytest.fixture(scope="module")
def histories(start_session: Callable[[], SparkSession]) -> KeptTables:
    """The tables; read-only."""
    return tables(start_session)


@pytest.fixture
def pinned(histories: KeptTables, tmp_path: Path) -> pruner.PinnedSnapshot:
    """The table with secondary and expression indexes, without an index of pruner's."""
    return pruner.open_table(histories.path(DEFINED), index_uri=str(tmp_path / "index")).snapshot()


def _groups(path: Path, value: str) -> dict[Any, set[str]]:
    """The file groups of each value of an expression, as Spark reads the rows."""
    group = "split_part(_hoodie_file_name, '_', 1)"
    found: Any = duckdb.sql(
        f"SELECT {value}, list(DISTINCT {group}) FROM '{path.with_name('rows.parquet')}/*.parquet' GROUP BY 1"
    )
    return {value: set(groups) for value, groups in found.fetchall()}


def _kept(pinned: pruner.PinnedSnapshot, predicate: str) -> set[str]:
    return {entry.file_id for entry in pinned.plan(predicate).slices}


def _literal(value: Any) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


@pytest.mark.parametrize("column", ["name", "seats"])
def test_a_value_leads_to_its_file_groups(
    column: str, histories: KeptTables, pinned: pruner.PinnedSnapshot
) -> None:
    groups = _groups(histories.path(DEFINED), column)
    assert len(groups) >= 20
    for value, expected in groups.items():
        if value is not None:
            assert _kept(pinned, f"{column} = {_literal(value)}") == expected, value
    some = [value for value in groups if value is not None][::5]
    chosen = ", ".join(map(_literal, some))
    assert _kept(pinned, f"{column} IN ({chosen})") == set[str]().union(*(groups[value] for value in some))
    nothing = _literal("nobody" if column == "name" else 500)
    assert _kept(pinned, f"{column} = {nothing}") == set()


def test_months_lead_to_the_files_around_them(histories: KeptTables, pinned: pruner.PinnedSnapshot) -> None:
    groups = _groups(histories.path(DEFINED), "month(day)")
    for month in range(1, 13):
        around = {
            group
            for groups_of in groups.values()
            for group in groups_of
            if min(each for each, of in groups.items() if group in of) <= month
            and max(each for each, of in groups.items() if group in of) >= month
        }
        assert _kept(pinned, f"month(day) = {month}") == around, month
    assert "hudi.expr_index_month_of_day" in pinned.plan("month(day) = 1").explain()


def test_status_names_what_is_used(histories: KeptTables, tmp_path: Path) -> None:
    uses = pruner.open_table(histories.path(DEFINED), index_uri=str(tmp_path)).status().hudi_indexes
    rows = sum(1 for _ in _rows(histories))
    assert uses["secondary_index_by_name"] == f"used for name: {rows} entries, as many as rows"
    assert uses["secondary_index_by_seats"] == f"used for seats: {rows} entries, as many as rows"
    assert uses["expr_index_month_of_day"] == "used for month(day)"
    assert uses["expr_index_upper_name"].startswith("not used: Hudi records neither")
    assert uses["partition_stats"].startswith("not used")


def _rows(histories: KeptTables) -> list[Any]:
    path = histories.path(DEFINED).with_name("rows.parquet")
    found: Any = duckdb.sql(f"SELECT id FROM '{path}/*.parquet'")
    return found.fetchall()


def test_duckdb_reads_one_file_for_a_name(histories: KeptTables, tmp_path: Path) -> None:
    path = histories.path(DEFINED)
    con = pruner_duckdb.connect({"t": {"uri": str(path), "index_uri": str(tmp_path / "index")}})
    for predicate in ("name = 'n00060'", "seats = 55", "month(day) = 3 AND name = 'n00060'"):
        rows: Any = duckdb.sql(
            f"SELECT id FROM '{path.with_name('rows.parquet')}/*.parquet' WHERE {predicate}"
        )
        expected = rows.fetchall()
        assert len(expected) == 1
        assert con.execute(f"SELECT id FROM t WHERE {predicate}").fetchall() == expected
        plan = con.last_plans[-1].plan
        assert plan is not None
        assert plan.kept == 1
    assert not Path(f"{path}.pruner").exists()
