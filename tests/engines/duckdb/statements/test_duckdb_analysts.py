"""Statement forms that analysts write and that no other test has: columns, types, values and errors are those of plain
DuckDB over the same files, and what can be pruned is.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import indexed, write_flights
from tests.support.duckdb.ways import is_native

STATEMENTS = {
    "SELECT id, sum(price) OVER (w ROWS 2 PRECEDING) FROM flights WHERE id < 90 WINDOW w AS (ORDER BY id)": 2,
    "SELECT * FROM flights WHERE id < 90 QUALIFY row_number() OVER (PARTITION BY early ORDER BY ts) = 1 ORDER BY 1": 2,
    "SELECT region, grouping(region), sum(id) FROM flights WHERE id > 333 GROUP BY ROLLUP (region) ORDER BY ALL": 6,
    "PIVOT (SELECT region, early, id FROM flights WHERE id < 90) ON region USING sum(id) GROUP BY early ORDER BY 1": 2,
    "UNPIVOT (SELECT price::DOUBLE p, delay FROM flights WHERE id = 7) ON p, delay INTO NAME k VALUE v ORDER BY k": 1,
    "SELECT * EXCLUDE (extra, seen) REPLACE (id * 2 AS id) FROM flights WHERE id = 8": 1,
    "SELECT * RENAME (id AS identifier) FROM flights WHERE identifier = 8": 1,
    "SELECT * LIKE 'c%' FROM flights WHERE id = 3": 1,
    "SELECT min(COLUMNS(* EXCLUDE extra)) FROM flights WHERE id > 560": 1,
    "SELECT DISTINCT ON (region) region, id FROM flights WHERE id < 160 ORDER BY region, id DESC": 4,
    "SELECT arg_max(id, ts), arg_min(id, price, 2), mode(region) FROM flights WHERE id < 50": 1,
    "SELECT quantile_cont(price, [0.25, 0.5]), histogram(early) FROM flights WHERE id BETWEEN 40 AND 90": 2,
    "SELECT id AS x, #1 FROM flights WHERE id < 3 ORDER BY #1 DESC": 1,
    "SELECT column_name, count FROM (SUMMARIZE SELECT id FROM flights WHERE id < 10)": 1,
    "SELECT date_diff('day', ts, TIMESTAMP '2024-01-12') d FROM flights WHERE d = 3 AND id < 60 ORDER BY ALL": 2,
    "VALUES (1), ((SELECT max(id) FROM flights WHERE id < 60))": 2,
    "SELECT (SELECT id FROM flights WHERE id < 3)": 1,
    "SELECT CAST(carrier AS INT) FROM flights WHERE id = 1": 1,
    "SELECT id FROM flights WHERE error('boom') = 1 AND id = 5": 1,
    "SELECT filename FROM flights WHERE id = 2": 12,
}

NATIVE = {
    "PIVOT (SELECT region, early, id FROM flights WHERE id < 90) ON region USING sum(id) GROUP BY early ORDER BY 1": [
        2,
        2,
    ],
    "SELECT * FROM flights WHERE id < 90 QUALIFY row_number() OVER (PARTITION BY early ORDER BY ts) = 1 ORDER BY 1": [
        2,
        2,
    ],
    "SELECT filename FROM flights WHERE id = 2": [],
}
"""With the native scan: the statement that finds a pivot's values is a scan, rows that are read late are another, and
views have no `filename`."""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    root: Path = write_flights(tmp_path_factory.mktemp("analysts") / "flights")
    plain = duckdb.connect()
    plain.execute(
        f"CREATE VIEW flights AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true, "
        "hive_types_autocast = false)"
    )
    with pruner_duckdb.connect({"flights": indexed(root)}) as pruned:
        for session in (pruned, plain):
            session.execute("SET TimeZone = 'UTC'")
        yield pruned, plain
    plain.close()


def _outcome(con: Any, sql: str) -> object:
    """Names, types and rows, or the error that ends the statement."""
    try:
        con.execute(sql)
        columns = [(each[0], str(each[1])) for each in con.description]
        return columns, repr(con.fetchall())
    except duckdb.Error as error:
        return type(error), str(error).split("\n", 1)[0]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("sql", STATEMENTS)
def test_as_plain_duckdb_has_it(both: tuple[Any, Any], sql: str) -> None:
    pruned, plain = both
    for _ in range(2):
        pruned.last_plans.clear()
        assert _outcome(pruned, sql) == _outcome(plain, sql)
        kept = [scan.kept for scan in pruned.last_plans]
        assert kept == (NATIVE.get(sql, [STATEMENTS[sql]]) if is_native() else [STATEMENTS[sql]])
