"""Table names that pruner's own Python variables share, and statements as DuckDB's parser returns them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import Compared, indexed, oracle, write_tree
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


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", OURS)
def test_a_table_may_bear_the_name_of_a_variable_of_ours(table: Path, name: str) -> None:
    """DuckDB reads data frames from variables of the calling frames: pruner's included."""
    with pruner_duckdb.connect({name: indexed(table)}) as con:
        for run in (con.execute, con.sql):
            assert run(f'SELECT x FROM "{name}" WHERE x = 10').fetchall() == [(10,)]
            (scan,) = con.last_plans
            assert (scan.kept, scan.reason) == (1, None)
            con.last_plans.clear()
        con.execute(f'CREATE VIEW v AS FROM "{name}"')
        assert con.sql("SELECT count(*) FROM v").fetchall() == [(6,)]


@pytest.mark.sampled(2)
def test_a_users_variable_is_not_a_table(table: Path) -> None:
    flights = pa.table({"x": [77]})
    with pruner_duckdb.connect({"flights": indexed(table)}) as con:
        assert con.execute("SELECT max(x) FROM flights").fetchall() == [(21,)]
        assert con.sql("SELECT max(x) FROM flights").fetchall() == [(21,)]
    assert flights.num_rows == 1


@pytest.mark.sampled(2)
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


@pytest.mark.sampled(2)
def test_a_statement_of_the_parser_with_a_mistake_fails_as_its_text_does(
    con: pruner_duckdb.Connection,
) -> None:
    (statement,) = duckdb.extract_statements("SELECT nothing FROM t")
    with pytest.raises(duckdb.BinderException):
        con.execute(statement)
    with pytest.raises(duckdb.BinderException):
        con.sql(statement)


_VISITS = 4


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Compared]:
    """Files whose columns are named like functions of the session; `duckdb` is the user of every session."""
    root = write_tree(
        tmp_path_factory.mktemp("visits") / "visits",
        {
            f"{number}.parquet": f"""
                SELECT {number} AS id, ['duckdb', 'eve', 'main', 'zoe'][{number + 1}] AS "user",
                       DATE '2024-01-01' + {number} AS "current_date"
                FROM range(3)"""
            for number in range(_VISITS)
        },
    )
    with pruner_duckdb.connect({"visits": indexed(root)}) as pruned:
        compared = Compared(pruned, oracle({"visits": root}))
        compared.both("SET TimeZone = 'UTC'")
        compared.both("CREATE TABLE kinds AS SELECT range AS k FROM range(-1, 3)")
        compared.both("CREATE VIEW seen AS SELECT * FROM visits")
        compared.both("CREATE VIEW seen_with_names AS SELECT user, id FROM visits")
        compared.both("CREATE VIEW seen_by_eve AS SELECT id FROM visits WHERE user = 'eve'")
        yield compared


@pytest.mark.sampled(16)
@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("user = 'eve'", 1),
        ("USER IN ('eve', 'zoe') AND upper(user) <> 'ZOE'", 2),
        ("\"user\" LIKE 'ev%'", 1),
        ("current_date < '2024-01-03'", 2),
        ("current_date::TIMESTAMP >= '2024-01-04' AND user > 'a'", 1),
        # Calls stay calls, and so do names that no column has.
        ("user() = 'eve'", _VISITS),
        ("user = current_schema", _VISITS),
        ("user = current_schema AND id = 2", 1),
    ],
)
def test_a_column_with_the_name_of_a_function(visits: Compared, condition: str, kept: int) -> None:
    for _ in range(2):
        visits.reads(f"SELECT id FROM visits WHERE {condition}", (kept,))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        ("SELECT v.id FROM visits v JOIN kinds k ON v.id = k.k WHERE user = 'eve'", (1,)),
        (
            "SELECT count(*) FROM visits v LEFT JOIN kinds k ON v.id = k.k AND user = 'x' WHERE user < 'e'",
            (1,),
        ),
        (
            "SELECT v.id FROM kinds, visits v, kinds k2 WHERE kinds.k = v.id AND k2.k = 1 AND user = 'zoe'",
            (1,),
        ),
        ("SELECT id FROM visits SEMI JOIN kinds ON id = k WHERE user = 'eve'", (1,)),
        ("SELECT k FROM kinds WHERE k IN (SELECT id FROM visits WHERE user = 'eve')", (1,)),
        ("WITH w AS (SELECT id FROM visits WHERE user = 'eve') SELECT * FROM w WHERE id >= 0", (1,)),
        ("SELECT id FROM (SELECT * FROM visits) WHERE current_date < '2024-01-02'", (1,)),
        ("SELECT id FROM visits WHERE user = 'eve' UNION ALL SELECT k FROM kinds ORDER BY 1", (1,)),
        ("SELECT id FROM seen WHERE user = 'eve'", (1,)),
        ("SELECT id FROM seen_by_eve", (1,)),
        # A query in FROM or WITH names its columns by its own text.
        ("SELECT * FROM (SELECT id, user FROM visits) WHERE user = 'eve'", (1,)),
        ("SELECT * FROM (SELECT id, upper(user) AS user FROM visits) WHERE user = 'EVE'", (1,)),
        ("SELECT user FROM (SELECT * EXCLUDE (id) FROM visits) WHERE user = 'eve'", (1,)),
        ("SELECT user FROM (SELECT * REPLACE (lower(user) AS user) FROM visits) WHERE user = 'eve'", (1,)),
        ("WITH w AS (FROM visits) SELECT user FROM w WHERE user = 'eve'", (1,)),
        (
            "WITH w AS (SELECT id, user FROM visits), v AS (FROM w) SELECT user FROM v WHERE user = 'eve'",
            (1,),
        ),
        ("SELECT user FROM seen_with_names s JOIN kinds ON s.id = k WHERE user = 'eve'", (1,)),
        ("SELECT * FROM (SELECT user AS current_date, id FROM visits) WHERE current_date = 'zoe'", (1,)),
    ],
)
def test_such_a_column_in_joins_subqueries_and_views(
    visits: Compared, sql: str, kept: tuple[int, ...]
) -> None:
    for _ in range(2):
        visits.reads(sql, kept)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("sql", "kept"),
    [
        # The name is not a column of the tables that the condition can see.
        ("SELECT k FROM kinds SEMI JOIN visits ON id = k WHERE user > 'eve'", (_VISITS,)),
        (
            "SELECT count(*) FROM kinds a JOIN kinds b ON a.k = b.k AND user = 'x' JOIN visits ON id = a.k",
            (_VISITS,),
        ),
        ("SELECT v.id FROM visits v WHERE v.id IN (SELECT k FROM kinds WHERE user = 'duckdb')", (_VISITS,)),
        ("SELECT user FROM (SELECT id FROM visits WHERE id = 1)", (1,)),
        ("SELECT id FROM (SELECT id FROM visits) WHERE user = 'eve'", (_VISITS,)),
        ("SELECT id FROM (SELECT * EXCLUDE (user) FROM visits) WHERE user = 'eve'", (_VISITS,)),
        ("SELECT id FROM (SELECT id, user AS u FROM visits) WHERE user = 'eve'", (_VISITS,)),
        ("WITH w AS (SELECT id FROM visits) SELECT id FROM w WHERE user = 'eve'", (_VISITS,)),
        ("WITH w(a, b) AS (SELECT id, user FROM visits) SELECT a FROM w WHERE user = 'eve'", (_VISITS,)),
        ("SELECT a FROM (SELECT id, user FROM visits) w(a, b) WHERE user = 'eve'", (_VISITS,)),
        ("SELECT a FROM (SELECT * FROM visits) w(a, b, c) WHERE user = 'eve'", (_VISITS,)),
        ("SELECT a FROM (SELECT * FROM visits) w(a, b, c) WHERE user = 'duckdb' AND a >= 0", (_VISITS,)),
        (
            "SELECT id FROM (WITH w AS (SELECT 1 AS user) SELECT id FROM visits, w) WHERE user = 'eve'",
            (_VISITS,),
        ),
        ("SELECT id FROM visits UNION SELECT k FROM kinds ORDER BY id LIMIT length(user)", (_VISITS,)),
        ("SELECT user FROM visits v(id, u, c) WHERE u > user", (_VISITS,)),
        ("SELECT id FROM visits WHERE user = (SELECT user)", (_VISITS,)),
        ("SELECT v.id FROM visits v JOIN (VALUES (user)) w(u) ON v.user = w.u", (_VISITS,)),
        ("SELECT v.id FROM visits v WHERE v.user = 'eve'", (1,)),
        ("SELECT user FROM visits v(user) WHERE user = 2", (1,)),
        (
            "SELECT current_date FROM visits v(user, current_date) WHERE current_date = 'eve' AND user >= 0",
            (1,),
        ),
        ("SELECT id FROM visits ORDER BY user, id LIMIT length(user)", (_VISITS,)),
        ("SELECT max(id) AS user FROM visits WHERE user = 'zoe' GROUP BY user", (1,)),
    ],
)
def test_where_such_a_name_is_the_function(visits: Compared, sql: str, kept: tuple[int, ...]) -> None:
    visits.reads(sql, kept)
