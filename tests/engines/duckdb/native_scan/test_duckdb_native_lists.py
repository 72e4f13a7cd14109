"""What DuckDB's native scan reports about the files in its lists, and how many lists are remembered.

A glob gives DuckDB the version of each file. A list of names does not, so DuckDB opens every file for a count(*)
although it caches the footers.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.engines.duckdb.duckdb_tables import indexed
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION, native

pytestmark = [NEEDS_EXTENSION, pytest.mark.slow]

LONG_AGO = 1_000_000_000
COUNT = "SELECT count(*) FROM t"
KEEP_FOOTERS = "SET parquet_metadata_cache = true"


def write(path: Path, rows: int, first: int = 0, *, modified: int = LONG_AGO) -> None:
    """A file with some rows; DuckDB does not trust files modified a moment ago."""
    values = range(first, first + rows)
    pq.write_table(pa.table({"x": [*values], "y": [f"text {value}" for value in values]}), path)
    os.utime(path, (modified, modified))


def folder(path: Path, rows: list[int]) -> Path:
    path.mkdir()
    for number, count in enumerate(rows):
        write(path / f"f{number}.parquet", count, 1000 * number)
    return path


def globbed(root: Path) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB over the same folder, with its own settings."""
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true)")
    return plain


def is_counted_by_footers(con: Any) -> bool:
    """Whether DuckDB plans a count of all rows without a scan."""
    plan = str(con.execute(f"EXPLAIN {COUNT}").fetchall())
    return "PRUNER_SCAN" not in plan and "PARQUET_SCAN" not in plan and "READ_PARQUET" not in plan


def footers(con: Any) -> Any:
    """Let a connection cache footers, and read them."""
    con.execute(KEEP_FOOTERS)
    con.execute("SELECT min(x), max(y) FROM t").fetchall()
    return con


@pytest.mark.parametrize("partitioned", [False, True])
def test_rows_are_counted_by_the_footers_that_duckdb_keeps(tmp_path: Path, partitioned: bool) -> None:
    root = folder(tmp_path / "t", [3, 4, 5, 6])
    if partitioned:
        for number in range(4):
            (root / f"day={number % 2}").mkdir(exist_ok=True)
            name = f"f{number}.parquet"
            (root / name).rename(root / f"day={number % 2}" / name)
    con, plain = footers(native({"t": indexed(root)})), footers(globbed(root))
    assert is_counted_by_footers(plain)
    assert is_counted_by_footers(con)
    assert con.execute(COUNT).fetchall() == plain.execute(COUNT).fetchall() == [(18,)]


def test_footers_are_used_from_the_moment_on_when_they_are_kept(tmp_path: Path) -> None:
    con = native({"t": indexed(folder(tmp_path / "t", [3, 4]))})
    for _ in range(3):
        assert con.execute(COUNT).fetchall() == [(7,)]
    assert not is_counted_by_footers(con)
    assert is_counted_by_footers(footers(con))
    con.execute("SET parquet_metadata_cache = false")
    assert not is_counted_by_footers(con)
    assert con.execute(COUNT).fetchall() == [(7,)]


def replaced_in_place(root: Path) -> None:
    write(root / "f1.parquet", 9)


def replaced_by_another(root: Path) -> None:
    """With the same size and time: only the inode differs."""
    size = (root / "f1.parquet").stat().st_size
    write(root / "new", 4, 7000)
    assert (root / "new").stat().st_size == size
    (root / "new").rename(root / "f1.parquet")


def swapped(root: Path) -> None:
    (root / "f0.parquet").rename(root / "aside")
    (root / "f1.parquet").rename(root / "f0.parquet")
    (root / "aside").rename(root / "f1.parquet")


def removed(root: Path) -> None:
    (root / "f1.parquet").unlink()


def added(root: Path) -> None:
    write(root / "f9.parquet", 2)


@pytest.mark.parametrize("change", [replaced_in_place, replaced_by_another, swapped, removed, added])
def test_kept_footers_of_files_that_changed_are_not_used(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    root = folder(tmp_path / "t", [3, 4, 5])
    con, plain = footers(native({"t": indexed(root)})), footers(globbed(root))
    for _ in range(2):
        assert con.execute(COUNT).fetchall() == [(12,)]
    change(root)
    for sql in (COUNT, "SELECT count(*), sum(x) FROM t", "SELECT count(*) FROM t WHERE x >= 7000", COUNT):
        assert con.execute(sql).fetchall() == plain.execute(sql).fetchall(), sql


def test_a_folder_that_may_not_be_listed_is_read_all_the_same(tmp_path: Path) -> None:
    root = folder(tmp_path / "t", [3, 4])
    con = footers(native({"t": indexed(root)}))
    con.execute(f"SET allowed_paths = ['{root}/f0.parquet', '{root}/f1.parquet']")
    con.execute("SET enable_external_access = false")
    assert con.execute(COUNT).fetchall() == [(7,)]


def test_a_database_with_more_tables_than_lists_are_remembered(tmp_path: Path) -> None:
    tables = {}
    for number in range(70):
        root = folder(tmp_path / f"t{number}", [1, 2])
        tables[f"t{number}"] = pruner.open_table(str(root))
    con = native(tables)
    for _ in range(2):
        for name in tables:
            assert con.execute(f"SELECT count(*), max(x) FROM {name}").fetchall() == [(3, 1001)]


def test_a_quiet_table_beside_one_that_changes_all_the_time(tmp_path: Path) -> None:
    """Nothing tells the extension that the quiet table is unchanged: one of its files was written a moment ago."""
    quiet, busy = folder(tmp_path / "quiet", [1, 2]), folder(tmp_path / "busy", [1])
    con = native({"quiet": indexed(quiet), "busy": indexed(busy)})
    for number in range(70):
        (quiet / "f0.parquet").touch()
        write(busy / f"n{number}.parquet", 1, number)
        assert con.execute("SELECT count(*) FROM busy").fetchall() == [(2 + number,)]
        if number % 23 == 0:
            assert con.execute("SELECT count(*) FROM quiet").fetchall() == [(3,)]
