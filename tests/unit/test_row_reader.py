"""Rows of a plan read with pyarrow: only the row groups that hold some, only those rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    """Two files of 100 rows in row groups of 10; `x` is the position of the row modulo 25."""
    root = tmp_path / "t"
    root.mkdir()
    for name, start in (("a", 0), ("b", 1000)):
        columns = {"x": [i % 25 for i in range(100)], "id": list(range(start, start + 100))}
        pq.write_table(pa.table(columns), root / f"{name}.parquet", row_group_size=10)
    opened = pruner.open_table(str(root))
    opened.create_index("bits", on="x", using="bitmap")
    return opened


def test_only_the_row_groups_and_rows_that_match(table: pruner.Table) -> None:
    plan = table.plan("x = 7 AND x IS NOT NULL")
    assert [groups for _, groups in pruner.row_groups(plan)] == [[0, 3, 5, 8]] * 2
    read = pa.concat_tables(pruner.read_rows(plan, columns=["id"]))
    assert read.column("id").to_pylist() == [7, 32, 57, 82, 1007, 1032, 1057, 1082]


def test_files_without_known_rows_are_read_whole(table: pruner.Table) -> None:
    plan = table.plan("id >= 0")
    assert plan.rows is None
    assert [groups for _, groups in pruner.row_groups(plan)] == [list(range(10))] * 2
    assert sum(part.num_rows for part in pruner.read_rows(plan)) == 200


def test_nothing_is_read_where_nothing_matches(table: pruner.Table) -> None:
    assert list(pruner.read_rows(table.plan("x = 99"))) == []
