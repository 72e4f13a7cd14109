"""Trino over the files that it lists itself, and over a table that became a table of another format."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
from tests.support.foreign_tables import FOREIGN_TABLES
from tests.support.parquet.tables import base_files, write_file

if TYPE_CHECKING:
    from tests.support.trino.tables import TrinoTables

pytestmark = pytest.mark.trino

FILES = (
    *("a.parquet", "b.PARQUET", "c.parq", "d.pq", "000000_0", "part-1", "z.snappy.parquet"),
    *("_x.parquet", ".x.parquet", "_dir/f.parquet", "h.parquet._COPYING_", "i.pidx"),
)
"""Files of every kind, each with one row."""


def test_trino_loses_no_file_that_it_lists(trino_tables: TrinoTables, tmp_path: Path) -> None:
    """Files that pruner does not count among the table's stay in the scan."""
    root = tmp_path / "t"
    for number, name in enumerate(FILES):
        write_file(root / name, n=[number])
        os.utime(root / name, (1_600_000_000, 1_600_000_000))
    table = trino_tables.register(root, {"n": "bigint"})
    result = table.trino.run(f"SELECT n FROM {table.name}", catalog="pruned_hive", schema=table.schema)
    listed = {FILES[row[0]]: row[0] for row in result.rows}
    ours = {Path(path).name for path in base_files(pruner.open_table(root).snapshot().data)}
    assert listed.keys() - ours == {"h.parquet._COPYING_", "i.pidx"}
    assert ours <= listed.keys()
    for name, kept in (("h.parquet._COPYING_", 2), ("i.pidx", 2), ("b.PARQUET", 3), ("000000_0", 3)):
        pruned = table.run(f"n = {listed[name]}")
        assert (pruned.rows, table.splits(pruned)) == ([(1,)], kept), name


def test_a_table_that_became_a_delta_table_is_read_whole(trino_tables: TrinoTables, tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number in range(4):
        write_file(root / f"{number}.parquet", n=[number])
        os.utime(root / f"{number}.parquet", (1_600_000_000, 1_600_000_000))
    table = trino_tables.register(root, {"n": "bigint"})
    pruned = table.run("n = 2")
    assert (pruned.rows, table.splits(pruned)) == ([(1,)], 1)
    for path, text in FOREIGN_TABLES["delta"].beside.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text)
    whole = table.run("n = 2")
    assert (whole.rows, table.splits(whole)) == ([(1,)], 4)
