"""What joins learn before the native scan starts: only the files that hold a joining row are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import duckdb
import pytest

from tests.engines.duckdb.duckdb_tables import answer, indexed, write_tree
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION, native

pytestmark = NEEDS_EXTENSION

FILES, ROWS = 60, 50
COLUMNS = """
    (i - 500)::INTEGER AS id,
    i::BIGINT * 1000003 - 7 AS sparse,
    (i // 50 % 250)::UTINYINT AS small,
    printf('name %06d', i) AS name,
    DATE '1969-06-01' + i::INTEGER AS day,
    TIMESTAMP '2020-02-02' + to_minutes(7 * i) AS ts,
    i / 2 - 300 AS half,
    (i * 1.25)::DECIMAL(12, 2) AS price,
    i::HUGEINT AS wide,
    md5((i // 50)::VARCHAR)::UUID AS uid"""
KEYS = ["id", "sparse", "small", "name", "day", "ts", "half", "price", "wide", "uid"]

UNDECIDED = {"wide", "small"}
"""The expression form has no literals of these types, or the index takes no such column: all files are read."""

DIMENSIONS = {
    "few": "SELECT 60 * i + 3 AS i FROM range(0, 40) r(i)",
    "hundred": "SELECT 27 * i + 11 AS i FROM range(0, 100) r(i)",
    "near": "SELECT i + 777 AS i FROM range(0, 100) r(i)",
    "dense": "SELECT i + 1234 AS i FROM range(0, 365) r(i)",
    "many": "SELECT 3 * i + 100 AS i FROM range(0, 400) r(i)",
    "apart": "SELECT i + 1000 * (i % 2) AS i FROM range(0, 600) r(i)",
    "outside": "SELECT i + 10000 AS i FROM range(0, 300) r(i)",
}
MOST_KEYS = 4 * FILES
"""In a list. Of more keys, ranges are known if they are numbers, otherwise at best the minimum and maximum."""

FORMS = {
    "join": "SELECT t.* FROM t JOIN {d} USING ({k})",
    "in": "SELECT * FROM t WHERE {k} IN (SELECT {k} FROM {d})",
    "semi": "SELECT * FROM t SEMI JOIN {d} USING ({k})",
    "where": "SELECT t.* FROM {d}, t WHERE t.{k} = {d}.{k} AND t.id > -1000",
    "aggregated": "SELECT t.* FROM t JOIN (SELECT {k} FROM {d} GROUP BY {k}) g ON t.{k} = g.{k}",
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, duckdb.DuckDBPyConnection]:
    root = write_tree(
        tmp_path_factory.mktemp("joins") / "t",
        {
            f"f{n:02}.parquet": f"SELECT {COLUMNS} FROM range({n * ROWS}, {(n + 1) * ROWS}) r(i)"
            for n in range(FILES)
        },
    )
    con, plain = native({"t": indexed(root)}), duckdb.connect()
    plain.execute(
        f"CREATE VIEW t AS SELECT * EXCLUDE filename FROM read_parquet('{root}/*.parquet', filename = true)"
    )
    plain.execute(f"CREATE VIEW located AS FROM read_parquet('{root}/*.parquet', filename = true)")
    for each in (con, plain):
        for name, keys in DIMENSIONS.items():
            each.execute(f"CREATE TABLE {name} AS SELECT {COLUMNS} FROM ({keys})")
    return con, plain


def holding(plain: duckdb.DuckDBPyConnection, condition: str) -> int:
    """How many files hold a row for which the condition is true."""
    sql = f"SELECT count(DISTINCT filename) FROM located AS t WHERE {condition}"
    return int(plain.execute(sql).fetchall()[0][0])


def read(con: Any, sql: str, parameters: Any = None) -> tuple[list[tuple[Any, ...]], list[int]]:
    """The rows of a statement, and how many files each started scan read."""
    con.last_plans.clear()
    rows = answer(con, sql, parameters)
    assert [scan.reason for scan in con.last_plans if scan.reason] == []
    return rows, [scan.kept for scan in con.last_plans]


@pytest.mark.sampled(20)
@pytest.mark.parametrize(
    ("key", "form"),
    [*((key, "join") for key in KEYS), *(("name", form) for form in FORMS), ("id", "in"), ("ts", "semi")],
)
def test_the_files_that_hold_a_joining_row_are_read(both: tuple[Any, Any], key: str, form: str) -> None:
    con, plain = both
    for name, keys in DIMENSIONS.items():
        sql = FORMS[form].format(d=name, k=key)
        rows, kept = read(con, sql)
        assert rows == answer(plain, sql), sql
        right = holding(plain, f"{key} IN (SELECT {key} FROM {name})")
        assert all(right <= each for each in kept), sql
        numbers = plain.execute(f"SELECT count(*) FROM ({keys})").fetchall()[0][0] > MOST_KEYS
        if key not in UNDECIDED and not (numbers and key in ("name", "uid")):
            between = holding(
                plain, f"{key} BETWEEN (SELECT min({key}) FROM {name}) AND (SELECT max({key}) FROM {name})"
            )
            exact = not numbers or key in ("id", "day", "price")
            assert kept in ([], [right if exact else between]), sql


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM t JOIN near n ON t.id = n.id JOIN hundred h ON t.name = h.name",
        "SELECT count(*) FROM t JOIN near n ON t.id = n.id WHERE t.ts IN (SELECT ts FROM hundred)",
        "SELECT count(*) FROM (SELECT * FROM near WHERE id % 3 > 0) n JOIN t USING (id) JOIN dense d ON t.day = d.day",
    ],
)
def test_a_star_reads_what_each_of_its_joins_leaves(both: tuple[Any, Any], sql: str) -> None:
    con, plain = both
    rows, kept = read(con, sql)
    assert rows == answer(plain, sql)
    assert kept in ([], [min(kept, default=0)])
    assert all(each <= holding(plain, "id IN (SELECT id FROM near)") for each in kept)


OUTER: Sequence[str] = [
    "SELECT t.id, d.id FROM t LEFT JOIN {d} d ON t.id = d.id",
    "SELECT t.id, d.id FROM t FULL JOIN {d} d ON t.id = d.id",
    "SELECT t.id FROM t ANTI JOIN {d} d ON t.id = d.id",
    "SELECT t.id FROM t WHERE t.id NOT IN (SELECT id FROM {d})",
    "SELECT t.id FROM t WHERE t.id IN (SELECT id FROM {d}) OR t.id < 0",
    "SELECT t.id, d.id FROM t JOIN {d} d ON t.id IS NOT DISTINCT FROM d.id",
    "SELECT t.id, d.id FROM t JOIN {d} d ON t.id < d.id WHERE d.id < 200",
    "SELECT t.id FROM t JOIN {d} d ON t.id::BIGINT = d.sparse",
    "SELECT t.id FROM t JOIN {d} d ON t.id::VARCHAR = d.id::VARCHAR",
    "SELECT t.id FROM t JOIN (SELECT nullif(id, 303) AS id FROM {d}) d ON t.id = d.id",
    "SELECT t.id FROM t JOIN {d} d ON t.id + 1 = d.id",
    "SELECT t.id FROM t JOIN {d} d ON t.id = d.id::BIGINT * 2",
    "SELECT t.id FROM t JOIN {d} d ON t.half = d.id",
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("sql", OUTER)
def test_no_other_join_loses_a_row(both: tuple[Any, Any], sql: str) -> None:
    con, plain = both
    for name in DIMENSIONS:
        rows, _ = read(con, sql.format(d=name))
        assert rows == answer(plain, sql.format(d=name)), name


@pytest.mark.slow
def test_the_limit_of_keys_is_raised_for_nobody_to_see(both: tuple[Any, Any]) -> None:
    con = both[0].cursor()
    limit, joined = (
        "SELECT current_setting('dynamic_or_filter_threshold')",
        "SELECT count(*) FROM t JOIN hundred USING (name)",
    )
    right = holding(both[1], "name IN (SELECT name FROM hundred)")

    def kept() -> list[int]:
        return read(con, joined)[1]

    assert kept() == [right]
    assert con.execute(limit).fetchall() == [(50,)]
    con.execute(f"PREPARE p AS {joined}")
    con.last_plans.clear()
    con.execute("EXECUTE p").fetchall()
    assert [scan.kept for scan in con.last_plans] == [right]
    with pytest.raises(duckdb.Error, match="division|zero|Conversion"):
        con.execute("SELECT (t.name || 'x')::INTEGER FROM t JOIN hundred USING (name)").fetchall()
    assert con.execute(limit).fetchall() == [(50,)]
    con.execute("SET dynamic_or_filter_threshold = 10")
    (whole,) = kept()
    assert whole > right
    assert con.execute(limit).fetchall() == [(10,)]
    con.execute("RESET dynamic_or_filter_threshold")
    assert kept() == [right]


def test_the_limit_of_a_relation_ends_with_it(both: tuple[Any, Any]) -> None:
    """A relation is bound when it is made, and planned when it runs: in between, the limit must not stay raised."""
    con = both[0].cursor()
    limit = "SELECT current_setting('dynamic_or_filter_threshold')"
    right = holding(both[1], "name IN (SELECT name FROM hundred)")
    lazy = con.sql("SELECT count(*) FROM t JOIN hundred USING (name)")
    assert con.sql(limit).fetchall() == [(50,)]
    con.last_plans.clear()
    lazy.fetchall()
    assert [scan.kept for scan in con.last_plans] == [right]
    assert con.execute(limit).fetchall() == [(50,)]
    other = con.sql("SELECT count(*) FROM t JOIN hundred USING (name)")
    con.execute("SET dynamic_or_filter_threshold = 70")
    other.fetchall()
    assert con.execute(limit).fetchall() == [(70,)]
    con.execute("RESET dynamic_or_filter_threshold")
    # Nothing runs after a statement that cannot be planned or lacks a value.
    for failing in ("SELECT missing FROM t", "SELECT * FROM t JOIN hundred USING (name) WHERE t.name = ?"):
        with pytest.raises(duckdb.Error):
            con.execute(failing)
        con.execute("SET dynamic_or_filter_threshold = 60")
        assert con.execute(limit).fetchall() == [(60,)]
        con.execute("RESET dynamic_or_filter_threshold")
        assert con.execute(limit).fetchall() == [(50,)]
