"""Where a bare scan replaces a table, its names have the same meaning as those of the table."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import duckdb
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import indexed, write_flights, write_tree

ADDED = (
    "filename",
    "file_index",
    "file_row_number",
    "file_row_group_number",
    "rowid",
    "FILENAME",
    '"filename"',
)
"""Columns that DuckDB adds to a scan for statements that name them."""

STATEMENTS = (
    *(f"SELECT {name} FROM t" for name in ADDED),
    "SELECT t.filename FROM t",
    "SELECT count(*) FROM t WHERE file_index = 0",
    "SELECT 1 AS filename FROM t WHERE filename = 1",
    "SELECT id AS filename FROM t ORDER BY filename, id",
    "SELECT * FROM (SELECT 'x' AS filename) s JOIN t USING (filename)",
    "SELECT count(*) FROM (SELECT 1 AS file_index) s NATURAL JOIN t",
    "SELECT count(*) FROM (SELECT 7 AS filename) s, t WHERE filename = 7",
    "SELECT count(*) FROM (SELECT 7 AS filename) s WHERE EXISTS (FROM t WHERE filename = 7)",
    "SELECT * FROM t ORDER BY id LIMIT 3",
    "SELECT * EXCLUDE (day) FROM t ORDER BY id LIMIT 3",
    "SELECT * EXCLUDE (filename) FROM t ORDER BY id LIMIT 3",
    "SELECT COLUMNS('f.*|i.*') FROM t ORDER BY id LIMIT 3",
    "SELECT COLUMNS(['filename']) FROM t",
    "SELECT COLUMNS(c -> c LIKE '%e%') FROM t ORDER BY id LIMIT 3",
    "SELECT t FROM t ORDER BY id LIMIT 2",
    "SELECT t['id'] AS f FROM t ORDER BY ALL LIMIT 2",
    "SELECT t.* FROM t ORDER BY id LIMIT 2",
    "SELECT u.id, t.id FROM t AS u ORDER BY u.id LIMIT 2",
    "SELECT u.* FROM t u ORDER BY id LIMIT 2",
    "SELECT a, b FROM t AS u(a, b) ORDER BY a LIMIT 2",
    "SELECT main.t.id FROM main.t WHERE id < 3 ORDER BY ALL",
    "SELECT main.t.id FROM main.t WHERE t.id < 3 ORDER BY ALL",
    "SELECT ID, Region FROM t WHERE iD < 3 ORDER BY ALL",
    "SELECT count(*) FROM t a NATURAL JOIN t b",
    "SELECT * FROM t a JOIN t b USING (id) ORDER BY id LIMIT 2",
    "SELECT * FROM t a POSITIONAL JOIN (SELECT id FROM t ORDER BY id) b WHERE a.id < 2 ORDER BY ALL",
    "SELECT max(id) FROM t WHERE id IN (SELECT id % 7 FROM t u WHERE u.region = t.region)",
    "SELECT count(*) FROM (VALUES (3)) v(n), LATERAL (SELECT id FROM t WHERE id % 7 = n)",
    "WITH t AS (FROM t WHERE id % 7 = 3) SELECT count(*), max(id) FROM t",
    "DESCRIBE t",
    "DESCRIBE SELECT * FROM t",
    "FROM (UNPIVOT (SELECT id, price FROM t) ON id, price) ORDER BY ALL LIMIT 3",
    "PIVOT (SELECT region, id FROM t) ON region IN ('de', 'us') USING max(id)",
    "SELECT id FROM t UNION BY NAME SELECT 'x' AS region ORDER BY ALL LIMIT 3",
    "SELECT count(*) FROM t WHERE id % 7 = 3 AND region = 'de'",
    "SELECT count(*) FROM t WHERE seen::DATE = DATE '2024-01-03'",
    "SELECT z FROM t",
)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, duckdb.DuckDBPyConnection]:
    """A pruned table below a folder that looks like a partition, and a view of the same rows."""
    root = write_flights(tmp_path_factory.mktemp("bare") / "flights")
    alone = duckdb.connect()
    alone.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true)")
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    for connection in (alone, pruned.native):
        connection.execute("SET TimeZone = 'UTC'")
    return pruned, alone


def answer(connection: Any, sql: str) -> tuple[object, ...]:
    """Names, types and rows, or the type of the error."""
    try:
        found = connection.execute(sql)
        return [(each[0], str(each[1])) for each in found.description], found.fetchall()
    except duckdb.Error as error:
        return (type(error),)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_names_mean_what_those_of_a_table_do(flights: tuple[Any, Any], sql: str) -> None:
    pruned, alone = flights
    assert answer(pruned, sql) == answer(alone, sql)


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("condition", ["id % 7 = 3", "seen::DATE > DATE '2020-01-03'", "sqrt(id) > 20"])
def test_conditions_that_can_fail_reach_the_scan(flights: tuple[Any, Any], condition: str) -> None:
    pruned, alone = flights
    (files,) = alone.execute("SELECT sql FROM duckdb_views() WHERE view_name = 't'").fetchall()[0]
    scan = files.partition("FROM ")[2].rstrip(";")
    for columns in ("count(*), max(price)", "*"):
        sql = f"EXPLAIN SELECT {columns} FROM {{}} WHERE {condition}"
        told = pruned.execute(sql.format("t")).fetchall()[0][1]
        if pruned.last_plans[-1].kept == pruned.last_plans[-1].total:
            assert told == alone.execute(sql.format(f"{scan} AS t")).fetchall()[0][1]
        else:
            assert "Filter ─" not in told


def test_a_folder_above_the_table_is_not_a_column(tmp_path: Path) -> None:
    files = {f"k={n}/f.parquet": f"SELECT {n} AS n" for n in range(2)}
    root = write_tree(tmp_path / "z=9" / "t", files)
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    assert pruned.sql("FROM t").columns == ["n", "k"]
    assert pruned.execute("SELECT count(*) FROM t WHERE n % 2 = 1 AND k = 1").fetchall() == [(1,)]
    with pytest.raises(duckdb.BinderException, match="z"):
        pruned.execute("SELECT z FROM t")


def test_a_count_opens_files_that_differ_in_one_scan(tmp_path: Path) -> None:
    """No column is read, so the columns do not matter."""
    files = {"a.parquet": "SELECT 1 AS n", "b.parquet": "SELECT 'x' AS n", "c.parquet": "SELECT [1] AS m"}
    root = write_tree(tmp_path / "t", files)
    pruned = pruner_duckdb.connect({"t": indexed(root)})
    plan = pruned.execute("EXPLAIN SELECT count(*) FROM t").fetchall()[0][1].upper()
    assert plan.count("FUNCTION: READ_PARQUET") <= 1
    assert "UNION" not in plan
    for sql in ("SELECT count(*) FROM t", "SELECT sum(1) FROM t", "SELECT count(*) FROM (SELECT 1 FROM t)"):
        assert pruned.execute(sql).fetchall() == [(3,)]
    assert pruned.execute("SELECT count(*), count(n), count(m) FROM t").fetchall() == [(3, 2, 1)]
    assert pruned.execute("SELECT count(*) FROM t a, t b").fetchall() == [(9,)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("columns", "row"),
    [("typeof(id), id", ("BIGINT", 5)), ("late", (None,)), ("n", (1,)), ("*", (5, 1, None))],
)
def test_a_scan_of_what_is_left_has_the_columns_of_the_table(
    tmp_path: Path, columns: str, row: tuple[object, ...]
) -> None:
    """The one file that is left has one column with another type, and lacks another."""
    files = {
        "a.parquet": "SELECT 5::INTEGER AS id, 1::INTEGER AS n",
        "b.parquet": "SELECT 60::BIGINT AS id, 2::INTEGER AS n, 'x' AS late",
    }
    pruned = pruner_duckdb.connect({"t": indexed(write_tree(tmp_path / "t", files))})
    assert pruned.execute(f"SELECT {columns} FROM t WHERE n = 1").fetchall() == [row]
    assert pruned.last_plans[-1].kept == 1


WHOLE_ROWS = (
    "SELECT * FROM t WHERE {}",
    "FROM t WHERE {}",
    "SELECT t.* FROM t, one WHERE {}",
    "SELECT COLUMNS('a|b') FROM t WHERE {}",
    "SELECT x.* FROM t AS x(p, q, r) JOIN (SELECT a FROM t WHERE {}) USING (a)",
    "WITH w AS (SELECT * FROM t WHERE {}) SELECT * FROM w",
    "SELECT 1, 'one', 2 UNION ALL SELECT * FROM t WHERE {} ORDER BY ALL",
    "SELECT #1, #3 FROM (SELECT * FROM t WHERE {})",
    "SELECT t FROM t WHERE {}",
    "SELECT DISTINCT * FROM t WHERE {} ORDER BY 1, 3 LIMIT 2",
)


def unordered(connection: Any, sql: str) -> tuple[object, ...]:
    """Names, types and rows in any order."""
    found = answer(connection, sql)
    return found if len(found) == 1 else (found[0], sorted(map(repr, cast("list[object]", found[1]))))


@pytest.fixture(scope="module")
def reordered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    """Files that have the same columns in different orders, and one that lacks a column."""
    files = {
        "a.parquet": "SELECT 1 AS a, 'x' AS s, 2 AS b",
        "b.parquet": "SELECT 3 AS b, 'y' AS s, 5 AS a",
        "c.parquet": "SELECT 3 AS b, 7 AS a",
        "d.parquet": "SELECT 8 AS a, 'z' AS s, 4 AS b",
    }
    root = write_tree(tmp_path_factory.mktemp("reordered") / "t", files)
    pruned, alone = pruner_duckdb.connect({"t": indexed(root)}), duckdb.connect()
    alone.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet', union_by_name = true)")
    for connection in (pruned, alone):
        connection.execute("CREATE TABLE one AS SELECT 1 AS k")
    return pruned, alone


@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    "condition", ["a = 5", "a IN (5, 7)", "a > 5", "b = 3 AND a < 7", "s = 'y'", "a < 9"]
)
def test_columns_keep_the_order_of_the_table_whichever_files_are_left(
    reordered: tuple[Any, Any], condition: str
) -> None:
    for sql in WHOLE_ROWS:
        found, wanted = (unordered(connection, sql.format(condition)) for connection in reordered)
        assert found == wanted, sql
    for connection in reordered:
        connection.execute("CREATE OR REPLACE TABLE copied (a INTEGER, s VARCHAR, b INTEGER)")
        connection.execute(f"INSERT INTO copied SELECT * FROM t WHERE {condition}")
    found, wanted = (unordered(connection, "FROM copied") for connection in reordered)
    assert found == wanted
