"""Traps of values in paths, through whole plans: kept where a row matches, dropped where the path proves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb


def _write(root: Path, folder: str, columns: dict[str, Any]) -> None:
    (root / folder).mkdir(parents=True)
    pq.write_table(pa.table(columns), root / folder / "data.parquet")


def _kept(table: pruner.Table, predicate: str, dialect: str) -> set[str]:
    return {entry.partition_path for entry in table.plan(predicate, dialect=dialect).slices}


def test_n2_texts_that_engines_read_differently_prune_only_where_the_reading_is_known(tmp_path: Path) -> None:
    """N2 (presto#1864, SPARK-24879): `k=01` is text for DuckDB and the number 1, like `k=1`, for Spark."""
    for value in ("01", "1", "10"):
        _write(tmp_path / "t", f"k={value}", {"x": [1]})
    table = pruner.open_table(str(tmp_path / "t"))
    assert _kept(table, "k = '01'", "duckdb") == {"k=01"}
    assert _kept(table, "k = '01'", "spark") == {"k=01", "k=1", "k=10"}
    assert _kept(table, "k = '01'", "trino") == {"k=01", "k=1", "k=10"}


def test_n2_the_default_partition_is_null(tmp_path: Path) -> None:
    """N2: `__HIVE_DEFAULT_PARTITION__` is NULL for every engine, and nothing else is."""
    for value in ("1", "2", "__HIVE_DEFAULT_PARTITION__"):
        _write(tmp_path / "t", f"k={value}", {"x": [1]})
    table = pruner.open_table(str(tmp_path / "t"))
    for dialect in ("duckdb", "spark", "trino"):
        assert _kept(table, "k IS NULL", dialect) == {"k=__HIVE_DEFAULT_PARTITION__"}
        assert _kept(table, "k IS NOT NULL", dialect) == {"k=1", "k=2"}
        assert _kept(table, "NOT k = 1", dialect) == {"k=2"}
        assert _kept(table, "k < 2", dialect) == {"k=1"}


@pytest.mark.parametrize("indexed", [False, True])
def test_n6_a_column_in_the_path_and_in_the_file_is_excluded_only_by_both(
    tmp_path: Path, indexed: bool
) -> None:
    """N6 (datafusion#15912): each engine chooses which of the two it reads, so the union counts (R2)."""
    for number, (folder, values) in enumerate({"k=1": [1, 1], "k=2": [7, 8], "k=3": [3, 3]}.items()):
        _write(tmp_path / "t", folder, {"k": values, "x": [number, number]})
    table = pruner.open_table(str(tmp_path / "t"))
    if indexed:
        table.create_index("stats", on="*")
    for dialect in ("duckdb", "spark", "trino"):
        assert _kept(table, "k = 7", dialect) == ({"k=2"} if indexed else {"k=1", "k=2", "k=3"})
        assert "k=2" in _kept(table, "k = 2", dialect)
        assert _kept(table, "k = 2", dialect) == ({"k=2"} if indexed else {"k=1", "k=2", "k=3"})
        assert _kept(table, "k > 2", dialect) == ({"k=2", "k=3"} if indexed else {"k=1", "k=2", "k=3"})


@pytest.mark.parametrize("indexed", [False, True])
def test_n6_duckdb_shows_the_path_and_is_pruned_by_it(tmp_path: Path, indexed: bool) -> None:
    """N6: the scans written for DuckDB specify which of the two values they show, so that one alone counts."""
    for folder, columns in {
        "k=1": {"x": [1, 2]},
        "k=2": {"k": [2, 2], "x": [3, 4]},
        "k=3": {"k": [1, 7], "x": [5, 6]},
        "k=__HIVE_DEFAULT_PARTITION__": {"k": [3, None], "x": [7, 8]},
    }.items():
        _write(tmp_path / "t", folder, columns)
    table = pruner.open_table(str(tmp_path / "t"))
    if indexed:
        table.create_index("stats", on="*")
        table.create_index("bits", on="k", using="bitmap")
    con, plain = pruner_duckdb.connect({"t": table}), plain_duckdb.session()
    plain.execute(
        f"CREATE TEMP TABLE t AS FROM read_parquet('{tmp_path}/t/**/*.parquet', hive_partitioning = true)"
    )
    for predicate, kept in (
        ("k = 1", 1),
        ("k = 3", 1),
        ("k = 7", 0),
        ("k IS NULL", 1),
        ("k > 1", 2),
        ("k IN (1, 3)", 2),
        ("k <> 2", 2),
        ("NOT (k > 1 AND k < 3)", 2),
        ("k = 3 OR x = 1", 2 if indexed else 4),
    ):
        rows = con.execute(f"SELECT x, k FROM t WHERE {predicate} ORDER BY x").fetchall()
        assert rows == plain.execute(f"SELECT x, k FROM t WHERE {predicate} ORDER BY x").fetchall(), predicate
        assert con.last_plans[-1].kept == kept, predicate


def test_n1_escaped_bytes_prune_where_they_are_taken_for_utf8(tmp_path: Path) -> None:
    """N1: `%C3%BC` is ü for DuckDB, and the two characters Ã¼ for Spark, which the plan then reports."""
    for number, value in enumerate(("Z%C3%BCrich", "Bern", "a%20b", "K%C3%B6ln")):
        _write(tmp_path / "t", f"city={value}", {"x": [number]})
    table = pruner.open_table(str(tmp_path / "t"))
    con, plain = pruner_duckdb.connect({"t": table}), plain_duckdb.session()
    files = f"read_parquet('{tmp_path}/t/**/*.parquet', hive_partitioning = true)"
    plain.execute(f"CREATE TEMP TABLE t AS SELECT * FROM {files}")
    for predicate, kept in (
        ("city = 'Zürich'", 1),
        ("city = 'ZÃ¼rich'", 0),
        ("city IN ('a b', 'Köln')", 2),
        ("city > 'K'", 3),
        ("city IS NULL", 0),
    ):
        rows = con.execute(f"SELECT x, city FROM t WHERE {predicate} ORDER BY x").fetchall()
        assert rows == plain.execute(f"SELECT x, city FROM t WHERE {predicate} ORDER BY x").fetchall()
        assert con.last_plans[-1].kept == kept, predicate
        for dialect in ("spark", "trino"):
            plan = table.plan(predicate, dialect=dialect)
            assert plan.kept == plan.total
            assert (
                f"partition column city: {dialect} may read the text of a folder otherwise" in plan.explain()
            )
        assert "may read the text" not in table.plan(predicate, dialect="duckdb").explain()
