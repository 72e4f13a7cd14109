"""Hudi's own indexes on real tables after a restore, beside an indexer, and with odd keys: what they lead to.

`test_hudi_metadata.py` checks that random predicates lose no row, and that every record is what Hudi reads.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.hudi.states import all_tables
from tests.support.kept.tables import AllTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def states(start_session: Callable[[], SparkSession]) -> AllTables:
    """The tables; read-only."""
    return all_tables(start_session)


def _rows(path: Path, chosen: str) -> list[tuple[Any, ...]]:
    """Some columns of the rows as Spark reads them, each with its file group."""
    group = "split_part(_hoodie_file_name, '_', 1)"
    found: Any = duckdb.sql(f"SELECT {group}, {chosen} FROM '{path.with_name('rows.parquet')}/*.parquet'")
    return found.fetchall()


def _literal(value: str | int) -> str:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value)


def _opened(path: Path, scratch: Path) -> pruner.Table:
    """A table without an index of pruner's."""
    return pruner.open_table(path, index_uri=str(scratch / "index"))


@pytest.mark.parametrize("name", ["cow_restored_v9", "cow_escaped_v9"])
@pytest.mark.parametrize("column", ["_hoodie_record_key", "id", "name"])
def test_a_value_leads_to_its_file_groups(name: str, column: str, states: AllTables, tmp_path: Path) -> None:
    """The record index and the secondary index lead to the file groups of its rows, and to no others."""
    path = states.path(name)
    pinned = _opened(path, tmp_path).snapshot()
    groups: dict[Any, set[str]] = {}
    for group, value in _rows(path, column):
        groups.setdefault(value, set()).add(group)
    assert len(groups) >= 11
    for value, expected in groups.items():
        if value is None or "\0" in str(value):  # no statement contains NUL
            continue
        literal = _literal(value)
        kept = {entry.file_id for entry in pinned.plan(f"{column} = {literal}").slices}
        assert kept == expected, repr(value)
    nothing = _literal(4711 if isinstance(next(iter(groups)), int) else "nobody")
    # An index is consulted only while more than one file is left.
    assert pinned.plan(f"{column} = {nothing}").kept <= 1


def test_what_a_restore_took_back_is_in_no_index(states: AllTables, tmp_path: Path) -> None:
    """The names that the update wrote are gone, and the rows that it deleted are found again."""
    pinned = _opened(states.path("cow_restored_v9"), tmp_path).snapshot()
    taken_back = {name: pinned.plan(f"name = '{name}'").kept for name in ("n00100", "n00102")}
    assert taken_back == {"n00100": 0, "n00102": 0}
    assert [pinned.plan(f"id = {id_}").kept for id_ in (5, 7)] == [1, 1]


def test_an_index_that_is_planned_is_not_asked(states: AllTables, tmp_path: Path) -> None:
    """Those that the indexer has built are. Hudi 1.2 leaves out rows written meanwhile: their files are kept."""
    path = states.path("cow_indexed_later_v9")
    table = _opened(path, tmp_path)
    uses = table.status().hudi_indexes
    assert uses["column_stats"].startswith("used: ")
    assert uses["bloom_filters"].startswith("used for record keys")
    assert not uses.get("record_index", "not used").startswith("used")
    pinned = table.snapshot()
    for group, id_ in _rows(path, "id"):
        plan = pinned.plan(f"id = {id_}")
        assert group in {entry.file_id for entry in plan.slices}
        assert plan.kept < plan.total / 2
        assert "hudi.record_index" not in plan.to_json()


def test_an_index_in_flight_is_not_asked(states: AllTables, tmp_path: Path) -> None:
    """The indexer has built it, and waits for a writer whose rows are not in it."""
    path = states.path("cow_indexing_v9")
    table = _opened(path, tmp_path)
    uses = table.status().hudi_indexes
    assert uses["record_index"] == "not used: Hudi is building it"
    assert uses["column_stats"].startswith("used: ")
    pinned = table.snapshot()
    for group, id_ in _rows(path, "id"):
        plan = pinned.plan(f"id = {id_}")
        assert group in {entry.file_id for entry in plan.slices}
        assert "hudi.record_index" not in plan.to_json()


def test_duckdb_finds_odd_names(states: AllTables, tmp_path: Path) -> None:
    path = states.path("cow_escaped_v9")
    con = pruner_duckdb.connect({"t": {"uri": str(path), "index_uri": str(tmp_path / "index")}})
    asked = 0
    for _, name in _rows(path, "name"):
        if name is None or "\0" in name:  # no statement contains NUL
            continue
        literal = _literal(name)
        expected: Any = duckdb.sql(
            f"SELECT id FROM '{path.with_name('rows.parquet')}/*.parquet' WHERE name = {literal} ORDER BY id"
        )
        found = con.execute(f"SELECT id FROM t WHERE name = {literal} ORDER BY id").fetchall()
        assert found == expected.fetchall(), repr(name)
        plan = con.last_plans[-1].plan
        assert plan is not None
        assert plan.kept < plan.total
        asked += "hudi.secondary_index_by_name" in plan.explain()
    assert asked >= 5, "statistics alone would leave more than one file for these"
