"""Joins with constants: their keys prune the other side if a row without one of them cannot be in the result.

File n of the four of `t` has the rows 10n to 10n+9, with one date, price and name for each file; `c` has the same rows.
"""

# ruff: noqa: E501 - one statement, one line: they are read as a table

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

import pruner
import pruner_duckdb
from pruner.expr.nodes import TRUE
from pruner_duckdb.decode.gets import scan_predicates
from pruner_duckdb.decode.join_keys import MOST_KEYS
from pruner_duckdb.shadow.shadow import Relation, Shadow
from tests.engines.duckdb.duckdb_tables import BEFORE_2, Compared, indexed, oracle, write_tree

# The native scan asks again when a join starts: test_duckdb_native_joins.py.
pytestmark = pytest.mark.rewriting


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    base = tmp_path_factory.mktemp("join_keys")
    columns = (
        "i::INT AS id, i::BIGINT AS wide, DATE '2024-01-01' + {n} AS day, TIMESTAMP '2024-01-01 10:00:00' + to_days({n}) AS ts, "
        "(10 + {n})::DECIMAL(9, 2) AS price, ({n} + 0.5)::DOUBLE AS share, {n}::FLOAT AS narrow, 'n' || {n} AS name, "
        "CASE WHEN i % 10 > 0 THEN i::INT END AS maybe, CASE WHEN i = 7 THEN 0.5::DOUBLE END AS lone, {{'code': {n}::INT}} AS inner"
    )
    roots = {
        name: write_tree(
            base / name,
            {
                f"{n}.parquet": f"SELECT {columns.format(n=n)} FROM range({10 * n}, {10 * n + 10}) r(i)"
                for n in range(4)
            },
        )
        for name in ("t", "c")
    }
    return Compared(
        pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()}), oracle(roots)
    )


JOINED = {
    # where the keys come from
    "SELECT * FROM t JOIN (VALUES (5), (7)) AS v(k) ON id = k": (1,),
    "SELECT t.* FROM t, (VALUES (5, 'a'), (25, 'b')) AS v(k, s) WHERE id = k": (2,),
    "SELECT * FROM t WHERE id IN (VALUES (5), (NULL), (35))": (2,),
    "SELECT * FROM t WHERE id IN (SELECT unnest([5, NULL, 12]))": (2,),
    "SELECT * FROM t WHERE id = ANY (SELECT unnest([5]))": (1,),
    "SELECT * FROM t JOIN (SELECT unnest([5, 6]) AS k, 'x' AS s) v ON id = k": (1,),
    "SELECT * FROM t JOIN (SELECT unnest([5, 6]) AS k, unnest(['n0', 'n3']) AS s) v ON id = k AND name = s": (
        1,
    ),
    "SELECT * FROM t JOIN (SELECT 's' AS s, unnest([15]) AS k) v ON id = k": (1,),
    "SELECT * FROM t JOIN (SELECT 5 AS k UNION ALL SELECT 36) v ON id = k": (2,),
    "SELECT * FROM t JOIN (SELECT 5 AS k UNION SELECT 5) v ON id = k": (1,),
    "SELECT * FROM t JOIN (VALUES (5), (25), (36) EXCEPT VALUES (25)) v(k) ON id = k": (3,),
    "SELECT * FROM t JOIN (VALUES (5), (25) INTERSECT VALUES (25)) v(k) ON id = k": (2,),
    "SELECT * FROM t JOIN (SELECT DISTINCT k FROM (VALUES (5), (5)) v(k)) ON id = k": (1,),
    "SELECT * FROM t JOIN (SELECT k, count(*) AS n FROM (VALUES (5), (5)) v(k) GROUP BY k) ON id = k": (1,),
    "SELECT * FROM t JOIN (SELECT k, s, count(*) FROM (VALUES (5, 'a'), (35, 'b')) v(k, s) GROUP BY ROLLUP (k, s)) ON id = k": (
        2,
    ),
    "SELECT * FROM t JOIN (SELECT * FROM (VALUES (5), (35)) v(k) ORDER BY k LIMIT 1) v ON id = k": (2,),
    "SELECT * FROM t JOIN (SELECT * FROM (VALUES (5), (35)) v(k) WHERE k > 9) v ON id = k": (1,),
    "SELECT * FROM t JOIN (SELECT s, k FROM (VALUES (5, 1), (35, 2)) v(k, s)) v ON id = k": (2,),
    "WITH w(k) AS (VALUES (5), (6)) SELECT * FROM t JOIN w ON id = k": (1,),
    "WITH w(k) AS MATERIALIZED (VALUES (5), (16)) SELECT * FROM t JOIN w ON id = k WHERE wide IN (FROM w)": (
        2,
    ),
    "WITH w(k) AS (VALUES (5)), x AS (SELECT k + 0 AS k, k AS j FROM w) SELECT * FROM t JOIN x ON id = j": (
        1,
    ),
    "SELECT * FROM t JOIN (VALUES (NULL::INT), (5)) v(k) ON id = k": (1,),
    # what they are compared with
    "SELECT * FROM t JOIN (VALUES (5), (6)) v(k) ON wide = k": (1,),
    "SELECT * FROM t JOIN (VALUES (5::BIGINT), (3000000000)) v(k) ON id = k": (1,),
    "SELECT * FROM t JOIN (VALUES ('2024-01-02'), ('2024-01-03')) v(k) ON day = k": (2,),
    "SELECT * FROM t JOIN (VALUES (DATE '2024-01-02')) v(k) ON day = k": (1,),
    "SELECT * FROM t JOIN (VALUES (TIMESTAMP '2024-01-02 10:00:00')) v(k) ON ts = k": (1,),
    "SELECT * FROM t JOIN (VALUES (DATE '2024-01-02')) v(k) ON ts::DATE = k": (1,),
    "SELECT * FROM t JOIN (VALUES (TIMESTAMP '2024-01-02')) v(k) ON date_trunc('day', ts) = k": (1,),
    "SELECT * FROM t JOIN (VALUES (11.00), (12.5)) v(k) ON price = k": (1,),
    "SELECT * FROM t JOIN (VALUES (11)) v(k) ON price = k": (1,),
    "SELECT * FROM t JOIN (VALUES (1.5), (2)) v(k) ON share = k": (1,),
    "SELECT * FROM t JOIN (VALUES (1.5::DOUBLE), ('nan'::DOUBLE)) v(k) ON share = k": (1,),
    "SELECT * FROM t JOIN (VALUES ('n1'), ('N2')) v(k) ON name = k": (1,),
    "SELECT * FROM t JOIN (VALUES (2)) v(k) ON t.inner.code = k": (1,),
    "SELECT * FROM t JOIN (VALUES (5), (6)) v(k) ON id + 1 = k": (1,),
    "SELECT * FROM t JOIN (VALUES (5, 'n0'), (15, 'n3')) v(k, s) ON id = k AND name = s": (1,),
    "SELECT * FROM t WHERE (id, name) IN (VALUES (5, 'n0'), (15, 'n3'))": (1,),
    "SELECT * FROM t JOIN (VALUES (5), (6)) v(k) ON maybe = k AND share > k - 9": (1,),
    # the kind of the join
    "SELECT * FROM t SEMI JOIN (VALUES (5)) v(k) ON id = k": (1,),
    "SELECT * FROM t ANTI JOIN (VALUES (5)) v(k) ON id = k": (4,),
    "SELECT * FROM t LEFT JOIN (VALUES (5)) v(k) ON id = k": (4,),
    "SELECT * FROM t RIGHT JOIN (VALUES (5), (99)) v(k) ON id = k": (1,),
    "SELECT * FROM t FULL JOIN (VALUES (5), (99)) v(k) ON id = k": (4,),
    "SELECT * FROM (VALUES (5), (99)) v(k) LEFT JOIN t ON id = k": (1,),
    "SELECT * FROM (VALUES (5), (99)) v(k) RIGHT JOIN t ON id = k": (4,),
    "SELECT * FROM (VALUES (5), (99)) v(k) SEMI JOIN t ON id = k": (1,),
    "SELECT * FROM (VALUES (5), (99)) v(k) ANTI JOIN t ON id = k": (1,),
    "SELECT * FROM (VALUES (5), (99)) v(k) WHERE k IN (SELECT id FROM t)": (1,),
    "SELECT * FROM (VALUES (5), (99)) v(k) WHERE k NOT IN (SELECT id FROM t)": (4,),
    "SELECT * FROM (VALUES (5), (99)) v(k) WHERE k NOT IN (SELECT maybe FROM t)": (4,),
    "SELECT * FROM (VALUES (5), (99)) v(k) WHERE NOT EXISTS (SELECT 1 FROM t WHERE id = k)": (1,),
    "SELECT k, k IN (SELECT maybe FROM t) FROM (VALUES (5), (99)) v(k)": (4,),
    "SELECT * FROM t WHERE id NOT IN (VALUES (5))": (4,),
    "SELECT * FROM t JOIN (VALUES (5), (6)) v(k) ON id <> k AND id < 8": (1,),
    "SELECT * FROM t JOIN (VALUES (5), (NULL)) v(k) ON maybe IS NOT DISTINCT FROM k": (4,),
    "SELECT * FROM t JOIN (VALUES (35)) v(k) ON id >= k": (1,),
    "SELECT * FROM t JOIN (VALUES (25), (35), (NULL)) v(k) ON id > k": (2,),
    "SELECT * FROM t JOIN (VALUES (5), (15)) v(k) ON k > id": (2,),
    "SELECT * FROM t JOIN (VALUES (5, 15)) v(low, high) ON id BETWEEN low AND high": (2,),
    "SELECT * FROM t JOIN (VALUES ('n2')) v(k) ON name >= k": (2,),
    "SELECT * FROM t JOIN (VALUES (2.5), (3.5)) v(k) ON share >= k": (4,),
    "SELECT * FROM t JOIN (VALUES (5)) v(k) ON id = k OR id = k + 30": (4,),
    "SELECT * FROM t POSITIONAL JOIN (VALUES (5)) v(k)": (4,),
    # correlated subqueries are joins, too
    "SELECT k, (SELECT max(share) FROM t WHERE id = k) FROM (VALUES (5), (99)) v(k)": (1,),
    "SELECT * FROM (VALUES (5), (6)) v(k), LATERAL (SELECT name FROM t WHERE id = k)": (1,),
    # operators between the join and the scan
    "SELECT * FROM (SELECT id AS i, name FROM t WHERE share < 9) JOIN (VALUES (5)) v(k) ON i = k": (1,),
    "SELECT * FROM (SELECT id, max(share) FROM t GROUP BY id) JOIN (VALUES (5)) v(k) ON id = k": (1,),
    "SELECT * FROM (SELECT name, max(id) AS m FROM t GROUP BY name) JOIN (VALUES (9)) v(k) ON m = k": (4,),
    "SELECT * FROM (SELECT id, name, count(*) FROM t GROUP BY CUBE (id, name)) JOIN (VALUES (5)) v(k) ON id = k": (
        4,
    ),
    "SELECT * FROM (SELECT DISTINCT id, name FROM t) JOIN (VALUES (5)) v(k) ON id = k": (1,),
    "SELECT * FROM (SELECT DISTINCT ON (name) name, id FROM t ORDER BY name, id DESC) JOIN (VALUES (9)) v(k) ON id = k": (
        4,
    ),
    "SELECT * FROM (SELECT id FROM t UNION ALL SELECT id + 1 FROM t) JOIN (VALUES (5)) v(k) ON id = k": (
        1,
        4,
    ),
    "SELECT * FROM (SELECT id FROM t UNION SELECT id FROM c) JOIN (VALUES (5)) v(k) ON id = k": (1, 1),
    "SELECT * FROM (SELECT id FROM t EXCEPT SELECT id FROM c WHERE id > 5) JOIN (VALUES (5)) v(k) ON id = k": (
        4,
        4,
    ),
    "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM t) JOIN (VALUES (25)) v(k) ON id = k": (
        4,
    ),
    "SELECT * FROM t JOIN c USING (id) JOIN (VALUES (5)) v(k) ON t.id = k": (1, 1),
    "SELECT * FROM t LEFT JOIN c ON c.id = t.id + 10 JOIN (VALUES (5)) v(k) ON t.id = k": (1, 4),
    "SELECT * FROM t LEFT JOIN c ON c.id = t.id + 10 JOIN (VALUES (15)) v(k) ON c.id = k": (
        4,
        4 if BEFORE_2 else 1,
    ),
    "SELECT * FROM t FULL JOIN c ON c.id = t.id + 10 JOIN (VALUES (15)) v(k) ON c.id = k": (
        4,
        4 if BEFORE_2 else 1,
    ),
    "SELECT count(*) FROM t JOIN (VALUES (5)) v(k) ON id = k JOIN (VALUES ('n0'), ('n2')) w(s) ON name = s": (
        1,
    ),
    "WITH a AS MATERIALIZED (FROM t) SELECT * FROM a JOIN (VALUES (5)) v(k) ON id = k UNION ALL SELECT *, 0 FROM a": (
        4,
    ),
    "SELECT count(*) >= 0 FROM (SELECT DISTINCT ON (name) id FROM t) JOIN (VALUES (9)) v(k) ON id = k": (4,),
    # keys that can be NULL where NULL is a value
    "SELECT * FROM t JOIN (SELECT unnest([5]) AS k, unnest([1, 2]) AS j) v ON maybe IS NOT DISTINCT FROM k": (
        4,
    ),
    "SELECT * FROM t JOIN (SELECT k FROM (VALUES (5)) v(k) GROUP BY ROLLUP (k)) w ON maybe IS NOT DISTINCT FROM k": (
        4,
    ),
    "SELECT * FROM t JOIN (SELECT k FROM (SELECT unnest([]::INT[]) AS k) GROUP BY CUBE (k) UNION ALL SELECT 5) w ON maybe IS NOT DISTINCT FROM k": (
        4,
    ),
    "SELECT * FROM t JOIN (SELECT k FROM (SELECT unnest(NULL::INT[]) AS k) GROUP BY GROUPING SETS ((k), ()) UNION SELECT 5) w ON maybe IS NOT DISTINCT FROM k": (
        4,
    ),
    "SELECT * FROM t JOIN (SELECT k FROM (VALUES (5)) v(k) GROUP BY k) w ON maybe IS NOT DISTINCT FROM k": (
        1,
    ),
    "SELECT * FROM t JOIN (VALUES ('x'), ('5')) v(k) ON maybe IS NOT DISTINCT FROM try_cast(k AS INT)": (4,),
    "SELECT * FROM t JOIN (VALUES ((2 ** 99)::HUGEINT)) v(k) ON maybe IS NOT DISTINCT FROM try_cast(k AS INT)": (
        4,
    ),
    "SELECT * FROM t JOIN (VALUES ((2 ** 99)::HUGEINT)) v(k) ON maybe::BIGINT IS NOT DISTINCT FROM try_cast(k AS BIGINT)": (
        4,
    ),
    "SELECT * FROM t JOIN (VALUES (DATE '2024-01-01')) v(k) ON lone IS NOT DISTINCT FROM try_cast(k AS DOUBLE)": (
        4,
    ),
    "SELECT * FROM t JOIN (VALUES (5.0), (2.5)) v(k) ON maybe IS NOT DISTINCT FROM try_cast(k AS INT)": (4,),
    "SELECT * FROM t JOIN (VALUES (5::BIGINT)) v(k) ON maybe IS NOT DISTINCT FROM try_cast(k AS INT)": (1,),
    # keys that are not known before the statement runs
    "SELECT * FROM t JOIN (VALUES (5), (6)) v(k) ON id = k + 1": (1,),
    "SELECT * FROM t JOIN (VALUES (5), (6)) v(k) ON id = k * 2": (4,),
    "SELECT * FROM t JOIN (VALUES (5), (6), (CASE WHEN random() < 2 THEN 7 END)) v(k) ON id = k": (4,),
    "SELECT * FROM t WHERE id IN (SELECT id FROM c WHERE id < 3)": (4, 1),
}

if (
    not BEFORE_2
):  # which also returns rows that are not among the first ones (1.5.6, even from its own tables)
    JOINED[
        "SELECT * FROM (SELECT id FROM t ORDER BY share DESC, id LIMIT 12) JOIN (VALUES (5), (28)) v(k) ON id = k"
    ] = (4,)


@pytest.mark.sampled(10)
@pytest.mark.parametrize("sql", JOINED)
def test_keys_of_a_join_prune(compared: Compared, sql: str) -> None:
    compared.reads(sql, JOINED[sql])


@pytest.mark.sampled(2)
def test_parameters_are_keys(compared: Compared) -> None:
    wanted = "SELECT id, name FROM t WHERE id IN (SELECT unnest(?))"
    compared.reads(wanted, (1,), [[5, 6]])
    compared.reads(wanted, (3,), [[5, 17, 38]])
    compared.reads("SELECT id FROM t JOIN (VALUES ($a), ($b)) v(k) ON id = k", (2,), {"a": 5, "b": 15})
    compared.reads("SELECT id FROM t WHERE day IN (SELECT unnest(?))", (1,), [[date(2024, 1, 3)]])
    # The same statement again, from the cache, with other keys.
    compared.reads(wanted, (1,), [[39]])


@pytest.mark.sampled(2)
def test_views_and_other_statements_have_joins(compared: Compared) -> None:
    compared.both("CREATE VIEW picked AS SELECT t.* FROM t JOIN (VALUES (5), (6)) v(k) ON id = k")
    compared.reads("SELECT * FROM picked", (1,))
    compared.both("CREATE TABLE made AS SELECT id FROM t WHERE id IN (SELECT unnest([5, 15]))")
    assert compared.kept("SELECT * FROM made m JOIN (VALUES (5)) v(k) ON id = k") == ()
    assert compared.pruned.execute("SELECT count(*) FROM made").fetchall() == [(2,)]


def test_a_with_that_reads_another_one_twice_and_so_on(compared: Compared) -> None:
    """It has more paths than could ever be walked, but few keys."""
    doubled = ", ".join(f"w{n} AS MATERIALIZED (FROM w{n - 1} UNION FROM w{n - 1})" for n in range(1, 40))
    sql = f"WITH w0(k) AS MATERIALIZED (VALUES (5), (6)), {doubled} SELECT id FROM t JOIN w39 ON id = k"
    compared.reads(sql, (1,))


def test_no_more_keys_than_are_looked_at() -> None:
    shadow = Shadow()
    (name,) = shadow.table_names([Relation((("id", "INTEGER"),))])
    for compared, keys, known in (
        ("id", MOST_KEYS, True),
        ("id", MOST_KEYS + 1, False),
        ("id::DOUBLE", 100, True),
        ("id::DOUBLE", 1_000, False),
    ):
        text = f"SELECT * FROM {name} WHERE {compared} IN (SELECT unnest({list(range(keys))}))"
        plans = shadow.optimized_plans(text, "UTC", keep_form=False)
        assert (scan_predicates(plans, text)[name] != TRUE) == known


def test_every_index_serves_keys(tmp_path: Path) -> None:
    """As for conditions: a Bloom filter and a bitmap find files that minima and maxima cannot tell apart."""
    root = write_tree(
        tmp_path / "t",
        {
            f"{n}.parquet": f"SELECT (i * 7919 % 1000 * 4 + {n})::INT AS id, 'w' || i % 3 || {n} AS word FROM range(200) r(i)"
            for n in range(4)
        },
    )
    table = pruner.open_table(str(root))
    table.create_index("ids", on="id", using="bloom_filter")
    table.create_index("words", on="word", using="bitmap")
    compared = Compared(pruner_duckdb.connect({"t": table}), oracle({"t": root}))
    compared.reads("SELECT * FROM t JOIN (VALUES ('w11'), ('w22')) v(k) ON word = k", (2,))
    assert compared.kept("SELECT * FROM t WHERE id IN (SELECT unnest([4, 8]))")[0] <= 2
