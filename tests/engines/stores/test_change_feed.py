"""DuckDB over a table with a change feed: files named are read, and unnamed changes have the declared effect."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.parquet.tables import write_file, write_tree

QUERY = "SELECT x FROM t WHERE x >= 0 ORDER BY x"


@pytest.fixture
def feed(tmp_path: Path) -> str:
    """The feed of a table with two files, with one event."""
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    place = str(tmp_path / "events")
    pruner.notify(root, feed=place)
    return place


@pytest.mark.slow
def test_what_is_named_is_read(tmp_path: Path, feed: str) -> None:
    root = tmp_path / "t"
    connection = pruner_duckdb.connect({"t": {"uri": str(root), "feed": feed}})
    assert connection.sql(QUERY).fetchall() == [(0,), (1,)]
    write_file(root / "c.parquet", x=[7])
    assert connection.sql(QUERY).fetchall() == [(0,), (1,)], "that is what the declaration believes"
    pruner.notify(root, ["c.parquet"], feed=feed)
    assert connection.sql(QUERY).fetchall() == [(0,), (1,), (7,)]


def test_a_file_that_went_and_was_not_named_is_met_by_a_whole_listing(tmp_path: Path, feed: str) -> None:
    root = tmp_path / "t"
    connection = pruner_duckdb.connect({"t": {"uri": str(root), "feed": feed}})
    assert connection.sql(QUERY).fetchall() == [(0,), (1,)]
    (root / "b.parquet").unlink()
    write_file(root / "c.parquet", x=[7])
    assert connection.sql(QUERY).fetchall() == [(0,), (7,)]


def test_without_another_try_the_engine_names_the_file_that_is_gone(tmp_path: Path, feed: str) -> None:
    root = tmp_path / "t"
    table = pruner.open_table(root, feed=feed)
    assert table.plan("x >= 0").kept == 2
    (root / "b.parquet").unlink()
    files = table.plan("x >= 0").files
    with pytest.raises(duckdb.IOException, match=r"b\.parquet"):
        duckdb.connect().sql(f"SELECT * FROM read_parquet({list(files)})").fetchall()
