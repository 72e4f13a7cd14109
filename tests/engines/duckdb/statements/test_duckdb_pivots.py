"""PIVOT in parentheses and in WITH that finds its own values, and TABLE as a query: the results of plain DuckDB."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import indexed, write_tree

Both = tuple[pruner_duckdb.Connection, duckdb.DuckDBPyConnection]

FILES = 4
CHANGING = ("CREATE", "INSERT")

PIVOTS = (
    "FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag)",
    "SELECT * FROM (PIVOT t ON cat USING sum(amount)) AS p WHERE p.flag",
    # A result column of the PIVOT is named like a source column: the condition must not rule out any file.
    "SELECT * FROM (PIVOT t ON cat USING max(amount) GROUP BY flag) WHERE id < 40",
    "SELECT * FROM (PIVOT t ON cat USING max(amount) GROUP BY flag), t AS other WHERE other.id = 105",
    "WITH p AS (PIVOT t ON cat USING count(*) GROUP BY flag) SELECT * FROM p WHERE id > 3",
    "WITH a AS (SELECT * FROM t WHERE id < 120), p AS (PIVOT a ON cat USING count(*) GROUP BY flag) FROM p",
    "WITH p AS (PIVOT t ON cat USING count(*) GROUP BY flag) SELECT p.* FROM p JOIN t ON t.flag = p.flag "
    "WHERE t.id = 205",
    "FROM (WITH a AS (FROM t) PIVOT a ON cat USING sum(amount) GROUP BY flag)",
    "FROM (PIVOT (FROM t WHERE id < 150) ON cat USING sum(amount) GROUP BY flag)",
    "FROM (PIVOT (FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag)) ON flag USING sum(c0))",
    "SELECT * FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag) a JOIN "
    "(PIVOT_WIDER late ON cat USING max(amount) GROUP BY flag ORDER BY flag) b USING (flag)",
    "PIVOT (FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag)) ON flag USING sum(c0)",
    "CREATE OR REPLACE TABLE made AS FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag)",
    "CREATE OR REPLACE TABLE made AS PIVOT t ON cat USING sum(amount) AS s, max(id) AS m GROUP BY flag ORDER BY flag",
    "CREATE TABLE made AS PIVOT t ON cat USING sum(amount)",
    "CREATE TEMP TABLE made AS PIVOT (SELECT * FROM t WHERE id < 20) ON cat",
    "CREATE TABLE made AS (PIVOT late ON cat)",
    "CREATE TABLE IF NOT EXISTS made AS PIVOT_WIDER t ON cat WITH NO DATA",
    "CREATE TABLE made AS WITH c AS (FROM t WHERE id < 50) PIVOT c ON cat USING sum(amount) GROUP BY id",
    "CREATE TABLE made AS WITH t AS (SELECT 1 AS x, 'a' AS cat) PIVOT t ON cat USING sum(x)",
    "CREATE TABLE made AS PIVOT t ON nosuch",
    "INSERT INTO sink BY NAME PIVOT (FROM t WHERE id < 3) ON cat USING max(amount) GROUP BY flag RETURNING *",
    "INSERT INTO sink PIVOT t ON cat IN ('c0') USING max(amount) GROUP BY flag",
    "CREATE TABLE made AS UNPIVOT (SELECT id, amount FROM t WHERE id < 3) ON COLUMNS(*)",
    "CREATE TABLE made AS WITH c AS (FROM t WHERE id < 3) UNPIVOT (SELECT id, amount FROM c) ON id, amount",
    "CREATE TABLE made AS SUMMARIZE late",
    "CREATE TABLE made AS SUMMARIZE SELECT id FROM t WHERE id < 40",
    "CREATE OR REPLACE TABLE made AS DESCRIBE main.t;",
    "INSERT INTO sink SELECT flag, c0 FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag) RETURNING *",
    "SELECT (SELECT count(*) FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag)) AS n",
    "FROM (PIVOT t ON cat IN ('c0', 'id') USING sum(amount) GROUP BY flag)",
    "FROM (PIVOT t ON nosuch USING sum(amount))",
    "CREATE VIEW w AS FROM (PIVOT t ON cat USING sum(amount))",
    "SELECT * FROM (UNPIVOT (SELECT id, amount FROM t WHERE id < 3) ON COLUMNS(* EXCLUDE id))",
)

TABLES = (
    "SELECT * FROM t WHERE id < 2 UNION ALL TABLE late",
    "TABLE late UNION ALL BY NAME TABLE t",
    "TABLE late EXCEPT TABLE main.t",
    "SELECT * FROM (TABLE late) WHERE id = 305",
    "SELECT count(*) FROM (table t) AS x WHERE x.id = 5",
    "WITH x AS (TABLE t) SELECT count(*) FROM x WHERE id = 5",
    "WITH x AS (TABLE t), y AS NOT MATERIALIZED (TABLE x) TABLE y ORDER BY id LIMIT 2",
    "CREATE OR REPLACE TABLE made AS TABLE late",
    "SELECT id AS table FROM t WHERE id < 3 ORDER BY id",
    "SELECT EXISTS (TABLE late), 'TABLE late' AS n",
    "SELECT id FROM t UNION ALL TABLE late",
    "INSERT INTO rows_of_t TABLE late",
    "TABLE nosuch UNION ALL TABLE t",
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("pivots") / "t"
    write_tree(
        place,
        {
            f"f{n}.parquet": f"""SELECT {n * 100} + i AS id, CASE i % 3 WHEN 0 THEN 'c0' WHEN 1 THEN 'c1' ELSE 'id' END
            AS cat, (i * 37 % 100)::DOUBLE AS amount, i % 2 = 0 AS flag FROM range(60) r(i)"""
            for n in range(FILES)
        },
    )
    indexed(place)
    return place


@contextmanager
def _sessions(root: Path) -> Iterator[Both]:
    """Sessions of pruner and of plain DuckDB, with the same views and tables."""
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet')")
    with pruner_duckdb.connect({"t": indexed(root)}) as pruned:
        for session in (pruned, plain):
            session.execute("CREATE VIEW late AS SELECT * FROM t WHERE id >= 300")
            session.execute("CREATE TABLE sink (flag BOOLEAN, c0 DOUBLE)")
            session.execute(
                "CREATE TABLE rows_of_t AS SELECT 1 AS id, 'x' AS cat, 2.0 AS amount, true AS flag"
            )
        yield pruned, plain
    plain.close()


@pytest.fixture(scope="module")
def reading(root: Path) -> Iterator[Both]:
    with _sessions(root) as sessions:
        yield sessions


@pytest.fixture
def both(request: pytest.FixtureRequest, root: Path, sql: str) -> Iterator[Both]:
    """Statements that only read share their sessions; one that changes its session has its own."""
    if sql.startswith(CHANGING):
        with _sessions(root) as sessions:
            yield sessions
    else:
        yield request.getfixturevalue("reading")


def _outcome(con: Any, sql: str) -> object:
    try:
        con.execute(sql)
        columns = [(each[0], str(each[1])) for each in con.description or ()]
        return columns, sorted(map(repr, con.fetchall()))
    except duckdb.Error as error:
        return type(error).__name__, str(error).partition("\n")[0]


@pytest.mark.sampled(72)
@pytest.mark.parametrize("sql", [*PIVOTS, *TABLES])
def test_the_answer_is_duckdbs(both: tuple[Any, Any], sql: str) -> None:
    pruned, plain = both
    assert _outcome(pruned, sql) == _outcome(plain, sql)
    for after in ("FROM sink", "FROM rows_of_t", "FROM made"):
        assert _outcome(pruned, after) == _outcome(plain, after)


@pytest.mark.rewriting
@pytest.mark.parametrize("sql", [PIVOTS[2], PIVOTS[4]])
def test_a_pivot_that_finds_its_values_reads_every_file_and_says_why(both: tuple[Any, Any], sql: str) -> None:
    pruned, _ = both
    pruned.last_plans.clear()
    pruned.execute(sql).fetchall()
    assert {(scan.kept, scan.reason) for scan in pruned.last_plans} == {
        (FILES, "a PIVOT in brackets finds its values itself")
    }


@pytest.mark.sampled(4)
@pytest.mark.rewriting
@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("CREATE TABLE made AS PIVOT (FROM t WHERE id < 20) ON cat", 1),
        ("CREATE TABLE made AS WITH c AS (FROM t WHERE id < 50) PIVOT c ON cat", 1),
        ("EXPLAIN UNPIVOT (SELECT id, amount FROM t WHERE id < 3) ON COLUMNS(*)", 1),
        ("EXPLAIN CREATE TABLE made AS PIVOT t ON cat", FILES),
    ],
)
def test_a_pivot_behind_another_word_is_pruned_by_its_query(
    both: tuple[Any, Any], sql: str, kept: int
) -> None:
    pruned, _ = both
    pruned.last_plans.clear()
    pruned.execute(sql).fetchall()
    assert [(scan.kept, scan.reason) for scan in pruned.last_plans] == [(kept, None)]


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize(
    "sql", ["FROM (PIVOT t ON cat USING sum(amount) GROUP BY flag)", "TABLE late UNION TABLE late"]
)
def test_a_relation_of_it_sees_rows_that_come_later(root: Path, tmp_path: Path, sql: str) -> None:
    place = write_tree(
        tmp_path / "t", {"a.parquet": "SELECT 301 AS id, 'c0' AS cat, 1.0 AS amount, true AS flag"}
    )
    with pruner_duckdb.connect({"t": str(place)}) as con:
        con.execute("CREATE VIEW late AS SELECT * FROM t WHERE id >= 300")
        relation = con.sql(sql)
        before = relation.fetchall()
        write_tree(place, {"b.parquet": "SELECT 302 AS id, 'c1' AS cat, 2.0 AS amount, false AS flag"})
        assert len(relation.fetchall()) == len(before) + 1


def test_table_as_a_query_is_pruned(reading: tuple[Any, Any]) -> None:
    pruned, _ = reading
    pruned.last_plans.clear()
    pruned.execute("SELECT * FROM (TABLE late) WHERE id = 305 UNION ALL TABLE late").fetchall()
    assert [(scan.kept, scan.reason) for scan in pruned.last_plans] == [(1, None), (1, None)]
