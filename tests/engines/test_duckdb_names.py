"""Names of tables that our own Python variables bear, and statements as DuckDB's parser hands them out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import pruner_duckdb
from tests.engines.duckdb_tables import indexed
from tests.support.losses import write_files

OURS = ["values", "sql", "con", "copy", "self", "duckdb", "parameters", "method", "named", "ask"]


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    files = [pa.table({"x": [10 * n, 10 * n + 1]}) for n in range(3)]
    return write_files(tmp_path_factory.mktemp("names") / "t", *files)


@pytest.fixture
def con(table: Path) -> Iterator[pruner_duckdb.Connection]:
    with pruner_duckdb.connect({"t": indexed(table)}) as con:
        yield con


@pytest.mark.parametrize("name", OURS)
def test_a_table_may_bear_the_name_of_a_variable_of_ours(table: Path, name: str) -> None:
    """DuckDB reads data frames from variables of the frames that call it: also from ours."""
    with pruner_duckdb.connect({name: indexed(table)}) as con:
        for run in (con.execute, con.sql):
            assert run(f'SELECT x FROM "{name}" WHERE x = 10').fetchall() == [(10,)]
            (scan,) = con.last_plans
            assert (scan.kept, scan.reason) == (1, None)
            con.last_plans.clear()
        con.execute(f'CREATE VIEW v AS FROM "{name}"')
        assert con.sql("SELECT count(*) FROM v").fetchall() == [(6,)]


def test_a_variable_of_the_users_is_no_table(table: Path) -> None:
    flights = pa.table({"x": [77]})
    with pruner_duckdb.connect({"flights": indexed(table)}) as con:
        assert con.execute("SELECT max(x) FROM flights").fetchall() == [(21,)]
        assert con.sql("SELECT max(x) FROM flights").fetchall() == [(21,)]
    assert flights.num_rows == 1


def test_statements_of_the_parser_run_as_their_text_does(con: pruner_duckdb.Connection) -> None:
    text = "CREATE TABLE few AS SELECT x FROM t WHERE x > 20; SELECT x FROM t WHERE x = $x; EXPLAIN SELECT 1"
    create, select, unconcerned = con.extract_statements(text)
    con.execute(create)
    assert con.execute("FROM few").fetchall() == [(21,)]
    assert con.execute(select, {"x": 11}).fetchall() == [(11,)]
    assert con.sql(select, params={"x": 1}).fetchall() == [(1,)]
    assert [scan.kept for scan in con.last_plans] == [1, 1, 1]
    assert con.execute(unconcerned).fetchall()
    con.executemany("INSERT INTO few SELECT x + ? FROM t WHERE x = 21", [[1], [2]])
    assert sorted(con.execute("FROM few").fetchall()) == [(21,), (22,), (23,)]


def test_a_statement_of_the_parser_with_a_mistake_fails_as_its_text_does(
    con: pruner_duckdb.Connection,
) -> None:
    (statement,) = duckdb.extract_statements("SELECT nothing FROM t")
    with pytest.raises(duckdb.BinderException):
        con.execute(statement)
    with pytest.raises(duckdb.BinderException):
        con.sql(statement)
