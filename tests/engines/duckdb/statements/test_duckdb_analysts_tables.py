"""More statements of analysts, over a hive table and one whose files differ: the results are DuckDB's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb

FILES = 6

STATEMENTS = (
    "SELECT id, lag(amount, 2, 0.0) OVER w, lead(id) OVER w FROM t WHERE id < 105 WINDOW w AS (ORDER BY id)",
    "PIVOT t ON cat USING sum(amount) AS s, max(id) AS m GROUP BY flag ORDER BY flag",
    "SELECT * FROM t PIVOT (sum(amount) FOR cat IN ('c0', 'c3') GROUP BY flag) ORDER BY ALL",
    "UNPIVOT (SELECT id, uid FROM t WHERE id < 3) ON COLUMNS(* EXCLUDE id) ORDER BY ALL",
    "SELECT u.uid, t.id FROM users u ASOF JOIN t ON u.uid = t.uid AND u.since >= t.ts ORDER BY ALL",
    "SELECT u.uid, l.id FROM users u, LATERAL (SELECT id FROM t WHERE t.uid = u.uid ORDER BY id LIMIT 1) l",
    "WITH RECURSIVE r(n) AS (SELECT min(id) FROM t UNION ALL SELECT n + 100 FROM r WHERE n < 500) "
    "SELECT r.n, t.cat FROM r JOIN t ON t.id = r.n ORDER BY ALL",
    "SELECT cat, flag, grouping(cat, flag), sum(id) FROM t WHERE id < 150 GROUP BY CUBE (cat, flag) ORDER BY ALL",
    "EXECUTE pt(100 + 1, upper('c1'))",
    "SELECT twice(id), twice(a := uid) FROM t WHERE twice(id) = 84",
    "SELECT r.id FROM recent r JOIN t ON r.id = t.id + 100 WHERE t.id = 450",
    "TABLE t ORDER BY id LIMIT 2",
    "table main.t UNION ALL SELECT * FROM recent ORDER BY id DESC, uid LIMIT 3",
    "TABLE t UNION ALL BY NAME TABLE recent ORDER BY id DESC, uid LIMIT 3",
    "((TABLE t) EXCEPT (table main.t LIMIT 598)) ORDER BY id",
    "WITH c AS (TABLE t LIMIT 1) TABLE c",
    "SELECT count(*), EXISTS (TABLE t) FROM (TABLE /* all of it */ t) WHERE id = 411",
    "SELECT 'union table t' AS a, id AS table FROM t WHERE id = 3 -- (TABLE t)",
    "CREATE OR REPLACE TEMP VIEW of_all AS TABLE t",
    "CREATE OR REPLACE TEMP TABLE copied AS TABLE t",
    "WITH t AS (SELECT 1 AS a) TABLE t ORDER BY 1",
    "(TABLE t WHERE id = 3)",
    "FROM summary(TABLE t)",
    "TABLE t FETCH FIRST 1 ROWS ONLY",
    "SELECT column_name, column_type FROM (DESCRIBE t)",
    "SUMMARIZE SELECT id, cat FROM t WHERE id < 200",
    "SELECT * FROM (SELECT id FROM t WHERE id < 4 ORDER BY id) a POSITIONAL JOIN "
    "(SELECT cat FROM t WHERE id BETWEEN 100 AND 103 ORDER BY id) b ORDER BY ALL",
    "SELECT * EXCLUDE ts REPLACE (id / 2 AS id) RENAME (cat AS category) FROM t WHERE id = 11",
    "FROM t SELECT max(COLUMNS(lambda c: c IN ('id', 'uid'))) WHERE id < 130",
    "SELECT unnest(st), m['k0'], xs[-1], list_sum(xs) FROM t WHERE id IN (410, 411) ORDER BY ALL",
    "SELECT [x * 2 FOR x IN xs IF x > 0], id + 1, -id, id::VARCHAR, NOT flag FROM t WHERE id = 411",
    "INSERT INTO sink BY NAME SELECT cat, id FROM t WHERE id = 307 RETURNING *",
    "MERGE INTO sink USING t ON sink.id = t.id AND t.id < 15 WHEN MATCHED THEN DELETE RETURNING merge_action, id",
    "SELECT id FROM (SELECT * FROM t WHERE id < 300) USING SAMPLE 10 ROWS (reservoir, 42)",
    "SELECT id FROM (FROM t TABLESAMPLE 20 ROWS (reservoir, 42)) WHERE id > 300",
    "SELECT id FROM t WHERE id > 300 USING SAMPLE 10 ROWS (reservoir, 42)",
    "SELECT id FROM t WHERE cat > 5 AND id < 4",
    "SELECT id FROM t WHERE id = (SELECT id FROM t WHERE id < 3)",
)


@pytest.fixture(scope="module", params=["hive", "evolved"])
def both(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Any, Any]]:
    kind: str = request.param
    root = tmp_path_factory.mktemp("analysts") / kind
    for number in range(FILES):
        _write(root, number, kind)
    table = pruner.open_table(str(root))
    table.create_index("s", on=["id", "ts", "cat"])
    options = {"hive": "hive_partitioning = true", "evolved": "union_by_name = true"}[kind]
    plain = duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/**/*.parquet', {options})")
    with pruner_duckdb.connect({"t": table}) as pruned:
        for session in (pruned, plain):
            session.execute("SET TimeZone = 'UTC'")
            session.execute(
                "CREATE TABLE users AS SELECT i::INTEGER AS uid, TIMESTAMP '2023-01-01' + to_days(i::INTEGER) AS since "
                "FROM range(5) r(i)"
            )
            session.execute("CREATE TABLE sink AS SELECT i AS id, 'c' AS cat FROM range(12, 20) r(i)")
            session.execute("CREATE MACRO twice(a) AS a * 2")
            session.execute("CREATE VIEW recent AS SELECT * FROM t WHERE id >= 500")
            session.execute("PREPARE pt AS SELECT count(*), max(id) FROM t WHERE id < $1 AND upper(cat) = $2")
        yield pruned, plain
    plain.close()


def _write(root: Path, number: int, kind: str) -> None:
    """One file; the first third of an evolved table has narrower ids and lacks columns."""
    place = root / f"part={number % 2}" if kind == "hive" else root
    place.mkdir(parents=True, exist_ok=True)
    older = kind == "evolved" and number < FILES // 3
    more = "" if older else ", {'a': i, 'b': 'q' || i} AS st, [i, i + 1] AS xs, map(['k' || i % 2], [i]) AS m"
    query = f"""SELECT ({number * 100} + i)::{"INTEGER" if older else "BIGINT"} AS id, (i * 79 % 50)::INTEGER AS uid,
        'c' || (i * 31 % 7) AS cat, (i * 37 % 1000 / 4)::DOUBLE AS amount, nullif(i % 3, 1) = 0 AS flag,
        TIMESTAMP '2023-01-01' + to_days({number}) + to_seconds(i) AS ts{more} FROM range(100) r(i)"""
    plain_duckdb.session().execute(f"COPY ({query}) TO '{place}/f{number}.parquet' (FORMAT parquet)")


def _outcome(con: Any, sql: str) -> object:
    try:
        con.execute(sql)
        columns = [(each[0], str(each[1])) for each in con.description or ()]
        return columns, sorted(map(repr, con.fetchall()))
    except duckdb.Error as error:
        return type(error).__name__, str(error)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_what_an_analyst_sees_is_duckdbs(both: tuple[Any, Any], sql: str) -> None:
    pruned, plain = both
    assert _outcome(pruned, sql) == _outcome(plain, sql)
