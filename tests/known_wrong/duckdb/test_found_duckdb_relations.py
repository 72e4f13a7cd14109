"""Rows that relations of the DuckDB adapter have lost: files added after the relations were made."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pruner_duckdb
from pruner.errors import PrunerError
from tests.support.losses import indexed, write_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """One row with 0, one with 1, each in its own file."""
    return write_files(tmp_path / "t", pa.array([0]), pa.array([1]))


def add_file(folder: Path) -> None:
    """Commit another row with 0."""
    write_files(folder / "later", pa.array([0]))


def test_found_a_relation_over_a_variable_with_a_relation(folder: Path) -> None:
    """`sql("SELECT … FROM r")` gave DuckDB's own relation, with the files that `r` had read at that moment."""
    with pruner_duckdb.connect({"t": indexed(folder)}) as connection:
        zeros = connection.sql("SELECT x FROM t WHERE x = 0")
        over = connection.sql("SELECT x FROM zeros")
        assert over.fetchall() == [(0,)]
        add_file(folder)
        assert zeros.fetchall() == [(0,), (0,)]
        assert over.fetchall() == [(0,), (0,)]


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("method", ["create_view", "to_view"])
def test_found_views_of_relations(folder: Path, method: str) -> None:
    """A view of a relation kept the list of files; one over a pruned table is refused as CREATE VIEW is."""
    with pruner_duckdb.connect({"t": indexed(folder)}) as connection:
        relation = connection.sql("SELECT x FROM t WHERE x = 0")
        with pytest.raises(PrunerError, match=f"{method} would read only the files that the table has now"):
            getattr(relation, method)("v")


def test_found_relations_joined_with_each_other(folder: Path) -> None:
    """The parameters with the files had the same name in both, which DuckDB refuses."""
    with pruner_duckdb.connect({"t": indexed(folder)}) as connection:
        zeros, ones = (connection.sql(f"SELECT x FROM t WHERE x = {x}") for x in (0, 1))
        assert sorted(zeros.union(ones).fetchall()) == [(0,), (1,)]
        joined = zeros.set_alias("a").join(connection.sql("SELECT x FROM t").set_alias("b"), "a.x < b.x")
        assert joined.fetchall() == [(0, 1)]
