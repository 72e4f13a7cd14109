"""Statements with lambdas, list comprehensions and method-call syntax: their WHERE prunes like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb

FILES = 3

PRUNED = (
    "SELECT list_transform(xs, lambda x: x + 1) FROM t WHERE id = 3",
    "SELECT apply(xs, lambda x, i: x + i + id) FROM t WHERE id = 3",
    "SELECT list_filter(xs, lambda x: x > id), list_reduce(xs, lambda a, b: a + b) FROM t WHERE id = 3",
    "SELECT [x + 1 FOR x IN xs IF x > 3] FROM t WHERE id = 3",
    "SELECT [user + 1 FOR user IN xs] FROM t WHERE id = 3",
    "SELECT list_transform(xs, lambda user: user + 1) FROM t WHERE id = 3",
    "SELECT list_transform(xs, lambda x: list_sum([y + x FOR y IN xs])) FROM t WHERE id = 3",
    "SELECT list_transform(xs, lambda x: x::VARCHAR || current_setting('TimeZone')) FROM t WHERE id = 3",
    "SELECT xs.list_transform(lambda x: x + 1).list_sum() FROM t WHERE id = 3",
    "SELECT t.name.upper().lower() FROM t WHERE id = 3",
    "SELECT id FROM t WHERE name.starts_with('n1') AND id < 5",
    "SELECT id FROM t WHERE id = list_reduce([1, 2], lambda a, b: a + b)",
    "SELECT id FROM t WHERE list_sum([x FOR x IN xs IF x > 4]) > 0 AND id < 9",
)

NOT_PRUNED = (
    # Lambdas are not understood in a plan, nor are values in them that only the session knows.
    "SELECT id FROM t WHERE list_transform(xs, lambda x: x + 1) = list_transform(xs, lambda x: x + id) ORDER BY id",
    "SELECT id FROM t WHERE id = list_transform([3], lambda x: x + coalesce(getvariable('v'), 0))[1]",
)


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[pruner_duckdb.Connection]:
    writer = plain_duckdb.session()
    root = tmp_path / "t"
    root.mkdir()
    for number in range(FILES):
        query = f"SELECT {10 * number} + i AS id, [i, i + 1] AS xs, 'n' || i AS name FROM range(10) r(i)"
        writer.execute(f"COPY ({query}) TO '{root}/f{number}.parquet' (FORMAT parquet)")
    table = pruner.open_table(str(root))
    table.create_index("s", on=["id", "name"])
    with pruner_duckdb.connect({"t": table}) as opened:
        yield opened


def _expected(connection: pruner_duckdb.Connection, statement: str) -> object:
    connection.execute("CREATE OR REPLACE TEMP TABLE plain AS FROM t")
    return connection.native.execute(statement.replace("FROM t ", "FROM plain t ")).fetchall()


@pytest.mark.sampled(12)
@pytest.mark.parametrize("statement", PRUNED)
def test_the_condition_prunes(connection: pruner_duckdb.Connection, statement: str) -> None:
    found = connection.execute(statement).fetchall()
    scan = connection.last_plans[-1]
    assert (scan.kept, scan.reason) == (1, None)
    assert found == _expected(connection, statement)
    assert found


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("statement", NOT_PRUNED)
def test_nothing_is_made_of_what_a_lambda_says(connection: pruner_duckdb.Connection, statement: str) -> None:
    connection.execute("SET VARIABLE v = 10")
    found = connection.execute(statement).fetchall()
    assert connection.last_plans[-1].kept == FILES
    assert found == _expected(connection, statement)
    assert found


@pytest.mark.rewriting
def test_the_older_syntax_where_the_session_has_it(connection: pruner_duckdb.Connection) -> None:
    connection.execute("SET lambda_syntax = 'ENABLE_SINGLE_ARROW'")
    found = connection.execute("SELECT list_transform(xs, (x, i) -> x + i) FROM t WHERE id = 3").fetchall()
    assert (found, connection.last_plans[-1].kept) == ([([4, 6],)], 1)
    # Here it may be a JSON operator, and `user` the session's.
    found = connection.execute("SELECT list_transform(xs, user -> id) FROM t WHERE id = 3").fetchall()
    assert (found, connection.last_plans[-1].kept) == ([([3, 3],)], FILES)
    connection.execute("SET lambda_syntax = 'DISABLE_SINGLE_ARROW'")
    with pytest.raises(duckdb.BinderException, match="Deprecated lambda arrow"):
        connection.execute("SELECT list_transform(xs, x -> x + 1) FROM t WHERE id = 3")


def test_a_macro_of_the_name_is_the_users(connection: pruner_duckdb.Connection) -> None:
    connection.execute("CREATE TEMP MACRO list_reduce(a, b) AS 25")
    found = connection.execute("SELECT id FROM t WHERE id = list_reduce([1, 2], 3)").fetchall()
    assert found == [(25,)]
