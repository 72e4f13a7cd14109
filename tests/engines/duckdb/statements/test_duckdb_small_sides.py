"""Joins with small tables: once read, the keys left in these prune the other side.

File n of the eight of `t` has the rows 10n to 10n+9, with one date, moment and name for each file. `d` has a row for
every tenth of them, in one file; `e` and `m` are other small tables, `s` has the same columns as `t` in two files.
"""

# ruff: noqa: E501 - one statement, one line: they are read as a table

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import hypothesis.strategies as st
import pytest
from hypothesis import given

import pruner_duckdb
from pruner_duckdb.rewrite import small_sides
from pruner_duckdb.sql.engine_faults import BUILDS_JOINS_SOUNDLY
from tests.engines.duckdb.duckdb_tables import (
    Compared,
    every_side_is_read,
    indexed,
    oracle,
    write_tree,
)

# The native scan asks again when a join starts: test_duckdb_native_joins.py.
pytestmark = [
    pytest.mark.rewriting,
    pytest.mark.skipif(
        not BUILDS_JOINS_SOUNDLY, reason="docs/duckdb.md: DuckDB 1.5 joins are left as they are"
    ),
]

ROWS = (
    "i::INT AS id, i::BIGINT AS wide, DATE '2024-01-01' + {n} AS day, TIMESTAMP '2024-01-01 10:00:00' + to_days({n}) AS ts, "
    "'n' || {n} AS name, CASE WHEN i % 10 > 0 THEN i::INT END AS maybe, {n} % 2 = 0 AS even, "
    "i::DOUBLE AS share, (i / 4)::DECIMAL(9, 2) AS price, TIMESTAMPTZ '2024-01-01 10:00:00+00' + to_hours(24 * {n}) AS seen"
)
DIMENSION = (
    "SELECT (i * 10)::INT AS k, (i * 10)::BIGINT AS wide, DATE '2024-01-01' + i::INT AS day, TIMESTAMP '2024-01-01 10:00:00' + to_days(i::INT) AS ts, "
    "'n' || i AS name, CASE WHEN i <> 3 THEN i * 10 END::INT AS maybe, i % 4 AS part, chr(97 + i::INT // 2) AS letter, i % 2 = 0 AS even, "
    "i::DOUBLE AS share, (i * 2.5)::DECIMAL(9, 2) AS price, {{'code': i}} AS inner FROM range({first}, {last}) r(i)"
)


@pytest.fixture
def always() -> Iterator[None]:
    with every_side_is_read():
        yield


def _roots(base: Path) -> dict[str, Path]:
    files = {
        f"{n}.parquet": f"SELECT {ROWS.format(n=n)} FROM range({10 * n}, {10 * n + 10}) r(i)"
        for n in range(8)
    }
    return {
        "t": write_tree(base / "t", files),
        "s": write_tree(base / "s", dict(list(files.items())[:2])),
        "d": write_tree(base / "d", {"all.parquet": DIMENSION.format(first=0, last=8)}),
        "m": write_tree(
            base / "m",
            {f"{n}.parquet": f"SELECT {20 * n}::INT AS k, 1 AS part, {n}::DOUBLE AS share" for n in range(4)},
        ),
        "e": write_tree(
            base / "e",
            {"all.parquet": "SELECT chr(97 + i::INT) AS letter, i AS region, i * 20 AS k FROM range(4) r(i)"},
        ),
    }


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    roots = _roots(tmp_path_factory.mktemp("small_sides"))
    return Compared(
        pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()}), oracle(roots)
    )


JOINED = {
    # what the keys are
    "SELECT * FROM t JOIN d ON id = k WHERE part = 1": (2, 1),
    "SELECT * FROM d JOIN t ON id = k WHERE part = 1": (1, 2),
    "SELECT t.* FROM t, d WHERE t.wide = d.wide AND letter = 'b'": (2, 1),
    "SELECT t.* FROM t JOIN d USING (day) WHERE part IN (1, 2) AND letter <> 'a'": (3, 1),
    "SELECT t.* FROM t JOIN d USING (ts) WHERE d.name LIKE 'n%7'": (1, 1),
    "SELECT t.* FROM t JOIN d USING (name) WHERE d.day BETWEEN DATE '2024-01-03' AND DATE '2024-01-04'": (
        2,
        1,
    ),
    "SELECT t.* FROM t JOIN d USING (name) WHERE d.ts > TIMESTAMP '2024-01-07 00:00:00'": (2, 1),
    "SELECT t.* FROM t JOIN d USING (name) WHERE NOT (part = 1 OR part > 2) AND d.maybe IS NOT NULL": (4, 1),
    "SELECT t.* FROM t JOIN d USING (name) WHERE d.maybe IS NULL": (1, 1),
    "SELECT t.* FROM t JOIN d USING (maybe) WHERE part = 3": (1, 1),
    "SELECT t.* FROM t JOIN d USING (even) WHERE d.k = 10": (4, 1),
    "SELECT t.* FROM t JOIN d USING (name) WHERE d.even AND part < 2": (2, 1),
    "SELECT t.* FROM t JOIN d ON id = d.wide WHERE part = 1": (2, 1),
    "SELECT t.* FROM t JOIN d ON t.wide = d.k WHERE part = 1": (2, 1),
    "SELECT t.* FROM t JOIN d ON t.day = d.ts::DATE WHERE part = 1": (8, 1),
    "SELECT t.* FROM t JOIN d ON t.ts::DATE = d.day WHERE part = 1": (2, 1),
    "SELECT t.* FROM t JOIN d ON id = k AND t.name = d.name WHERE part = 1": (2, 1),
    "SELECT t.* FROM t JOIN d ON id = k": (8, 1),
    # conditions that cannot be written: the keys of all rows
    "SELECT t.* FROM t JOIN d ON id = k WHERE part = 1 AND length(letter) = 1": (2, 1),
    "SELECT t.* FROM t JOIN d ON id = k WHERE d.inner.code = 3": (8, 1),
    "SELECT t.* FROM t JOIN d ON id = k WHERE d.share = 3.0": (8, 1),
    "SELECT t.* FROM t JOIN d ON id = k WHERE d.price = 7.5": (8, 1),
    "SELECT t.* FROM t JOIN d ON id = k WHERE k > 10 * random() - 20 AND part = 1": (2, 1),
    # keys that are not read
    "SELECT t.* FROM t JOIN d USING (share) WHERE part = 1": (8, 1),
    "SELECT t.* FROM t JOIN d USING (price) WHERE part = 1": (8, 1),
    "SELECT t.* FROM t JOIN d ON id = k + 1 WHERE part = 1": (2, 1),
    "SELECT t.* FROM t JOIN d ON id = k * 2 WHERE part = 1": (8, 1),
    "SELECT t.* FROM t JOIN d ON id >= k WHERE part = 1": (7, 1),
    "SELECT t.* FROM t JOIN d ON id < k AND part = 1": (5, 1),
    "SELECT t.* FROM t JOIN d ON k < id AND part = 3": (5, 1),
    "SELECT t.* FROM t JOIN d ON t.day BETWEEN d.day AND d.day + 1 WHERE part = 1": (6, 1),
    "SELECT t.* FROM t JOIN d ON t.ts >= d.ts AND t.ts < d.ts + INTERVAL 1 DAY WHERE d.name = 'n2'": (1, 1),
    "SELECT t.* FROM t JOIN d ON t.name > d.name AND part = 3": (4, 1),
    "SELECT t.* FROM t JOIN d ON t.id <> d.k WHERE part = 3": (8, 1),
    "SELECT t.* FROM t LEFT JOIN d ON id >= k AND part = 3": (8, 1),
    "SELECT t.* FROM t ANTI JOIN (FROM d WHERE part = 3) ON id >= k": (8, 1),
    "SELECT t.* FROM t SEMI JOIN (FROM d WHERE part = 3) ON id >= k": (5, 1),
    "SELECT t.* FROM t WHERE id > ANY (SELECT k FROM d WHERE part = 3)": (8, 1),
    "SELECT t.* FROM t WHERE id > ALL (SELECT k FROM d WHERE part = 3)": (8, 1),
    "SELECT t.* FROM t JOIN d ON id = k + 10 WHERE d.name = 'n3'": (1, 1),
    "SELECT t.* FROM t JOIN d ON id = 10 + k WHERE d.name = 'n3'": (1, 1),
    "SELECT t.* FROM t JOIN d ON id = 80 - k WHERE d.name = 'n3'": (8, 1),
    "SELECT t.* FROM t JOIN d ON t.day = d.day - 2 WHERE part = 3": (2, 1),
    "SELECT t.* FROM t JOIN d ON t.day = d.day - INTERVAL 2 DAY WHERE part = 3": (2, 1),
    "SELECT t.* FROM t JOIN d ON id = k OR id = k + 1 WHERE part = 1": (8, 1),
    # kinds of joins
    "SELECT * FROM t LEFT JOIN d ON id = k AND part = 1": (8, 1),
    "SELECT * FROM t LEFT JOIN d ON id = k WHERE part = 1": (2, 1),
    "SELECT * FROM t RIGHT JOIN (FROM d WHERE part = 1) ON id = k": (2, 1),
    "SELECT * FROM t FULL JOIN (FROM d WHERE part = 1) ON id = k": (8, 1),
    "SELECT * FROM (FROM d WHERE part = 1) LEFT JOIN t ON id = k": (1, 2),
    "SELECT * FROM (FROM d WHERE part = 1) RIGHT JOIN t ON id = k": (1, 8),
    "SELECT * FROM t SEMI JOIN (FROM d WHERE part = 1) ON id = k": (2, 1),
    "SELECT * FROM t ANTI JOIN (FROM d WHERE part = 1) ON id = k": (8, 1),
    "SELECT * FROM (FROM d WHERE part = 1) SEMI JOIN t ON id = k": (1, 2),
    "SELECT * FROM (FROM d WHERE part = 1) ANTI JOIN t ON id = k": (1, 2),
    "SELECT * FROM t WHERE id IN (SELECT k FROM d WHERE part = 1)": (2, 1),
    "SELECT * FROM t WHERE id NOT IN (SELECT k FROM d WHERE part = 1)": (8, 1),
    "SELECT * FROM t WHERE EXISTS (SELECT 1 FROM d WHERE k = id AND part = 1)": (2, 1),
    "SELECT * FROM t WHERE NOT EXISTS (SELECT 1 FROM d WHERE k = id AND part = 1)": (8, 1),
    "SELECT * FROM t WHERE (id, name) IN (SELECT (k, name) FROM d WHERE part = 1)": (8, 1),
    "SELECT k, (SELECT max(share) FROM t WHERE id = k) FROM d WHERE part = 1": (2, 1),
    "SELECT k, k IN (SELECT maybe FROM t) FROM d WHERE part = 1": (8, 1),
    "SELECT * FROM t JOIN d ON t.maybe IS NOT DISTINCT FROM d.maybe WHERE part = 1": (1, 1),
    "SELECT * FROM t JOIN d ON t.maybe IS NOT DISTINCT FROM d.maybe WHERE part = 3": (8, 1),
    "SELECT * FROM t ASOF JOIN (FROM d WHERE part = 1) d ON t.name = d.name AND t.id >= d.k": (8, 1),
    "SELECT * FROM t POSITIONAL JOIN (FROM d WHERE part = 1)": (8, 1),
    # several sides
    "SELECT t.* FROM t JOIN d ON id = k JOIN e USING (letter) WHERE region = 1": (2, 1, 1),
    "SELECT t.* FROM t JOIN e ON id = e.k JOIN d ON t.name = d.name WHERE region = 1 AND part = 2": (1, 1, 1),
    "SELECT t.* FROM t JOIN d USING (name) JOIN e ON t.id = e.k WHERE part < 2 AND region > 1": (1, 1, 1),
    "SELECT count(*) FROM t a JOIN t b ON a.id = b.id JOIN d ON b.id = d.k WHERE part = 1": (2, 2, 1),
    "SELECT count(*) FROM t JOIN d ON t.id = k WHERE part = 1 AND t.id IN (SELECT k FROM e)": (1, 1, 1),
    "SELECT s.* FROM s JOIN d ON id = k WHERE part = 1": (1, 1),
    "SELECT * FROM t JOIN (SELECT k FROM d WHERE part = 1 UNION SELECT k FROM e WHERE region = 3) ON id = k": (
        3,
        1,
        1,
    ),
    "SELECT * FROM t JOIN (SELECT k FROM d WHERE part = 1 UNION ALL VALUES (75)) ON id = k": (3, 1),
    "SELECT * FROM t JOIN (SELECT k FROM d WHERE part = 1 EXCEPT SELECT k FROM e) ON id = k": (2, 1, 1),
    # where the keys come from
    "SELECT * FROM t JOIN (SELECT k, count(*) AS n FROM d WHERE part = 1 GROUP BY k) ON id = k": (2, 1),
    "SELECT * FROM t JOIN (SELECT max(k) AS k FROM d WHERE part = 1) ON id = k": (2, 1),
    "SELECT * FROM t JOIN (SELECT k FROM d WHERE part = 1 GROUP BY ROLLUP (k)) ON maybe IS NOT DISTINCT FROM k": (
        8,
        1,
    ),
    "SELECT * FROM t JOIN (SELECT DISTINCT k FROM d WHERE part = 1) ON id = k": (2, 1),
    "SELECT * FROM t JOIN (SELECT k FROM d WHERE part = 1 ORDER BY k LIMIT 1) ON id = k": (2, 1),
    "WITH w AS MATERIALIZED (FROM d WHERE part = 1) SELECT * FROM t JOIN w ON id = k WHERE t.name IN (SELECT name FROM w)": (
        1,
        2,
    ),
    "WITH w AS (FROM d WHERE part = 1) SELECT * FROM t JOIN w ON id = k": (1, 2),
    "SELECT * FROM t JOIN (SELECT d.k FROM d JOIN e USING (letter) WHERE region = 1) ON id = k": (2, 1, 1),
    "SELECT * FROM t JOIN (SELECT d.k FROM e LEFT JOIN d USING (letter) WHERE region = 1) ON id = k": (
        2,
        1,
        1,
    ),
    "SELECT * FROM t JOIN (SELECT d.k FROM e LEFT JOIN d ON d.letter = e.letter AND part = 1) ON maybe IS NOT DISTINCT FROM k": (
        8,
        1,
        1,
    ),
    "SELECT * FROM t JOIN (SELECT d.k FROM d RIGHT JOIN e ON d.letter = e.letter AND part = 1) ON maybe IS NOT DISTINCT FROM k": (
        8,
        1,
        1,
    ),
    "SELECT * FROM t JOIN (SELECT d.k FROM d FULL JOIN e ON d.letter = e.letter WHERE region = 1) ON id = k": (
        8,
        1,
        1,
    ),
    "SELECT * FROM t JOIN (SELECT k FROM d SEMI JOIN e USING (letter) WHERE part = 1) ON id = k": (2, 1, 1),
    "SELECT * FROM t JOIN (SELECT d.k FROM d, e WHERE part = 1) ON id = k": (2, 1, 1),
    "SELECT * FROM t JOIN (FROM d TABLESAMPLE 100% WHERE part = 1) ON id = k": (8, 1),
    "SELECT * FROM t, LATERAL (SELECT letter FROM d WHERE k = id AND part = 1)": (2, 1),
    # operators between the join and the scan
    "SELECT * FROM (SELECT id, max(share) FROM t GROUP BY id) JOIN d ON id = k WHERE part = 1": (2, 1),
    "SELECT * FROM (SELECT id FROM t UNION ALL SELECT id FROM s) JOIN d ON id = k WHERE part = 1": (2, 1, 1),
    "SELECT * FROM (SELECT id, row_number() OVER (ORDER BY id) AS n FROM t) JOIN d ON id = k WHERE part = 1": (
        8,
        1,
    ),
    # scalar subqueries
    "SELECT * FROM t WHERE id = (SELECT k FROM d WHERE d.name = 'n3')": (1, 1),
    "SELECT * FROM t WHERE id = (SELECT k FROM d WHERE d.name = 'n9')": (8, 0),
    "SELECT * FROM t WHERE id = (SELECT min(k) FROM d WHERE part = 1)": (2, 1),
    "SELECT * FROM t WHERE id = (SELECT arg_max(k, share) FROM d WHERE part = 1)": (2, 1),
    "SELECT * FROM t WHERE id = (SELECT max(k, 1)[1] FROM d WHERE part = 1)": (8, 1),
    "SELECT * FROM t WHERE id = (SELECT sum(k) FROM d WHERE part = 1)": (8, 1),
    "SELECT * FROM t WHERE day = (SELECT max(day) FROM d)": (1, 1),
    "SELECT * FROM t WHERE day = (SELECT max(day) FROM t)": (1, 8),
    "SELECT * FROM t WHERE day >= (SELECT max(day) - 2 FROM t)": (3, 8),
    "SELECT * FROM t WHERE day > (SELECT max(day) - INTERVAL 2 DAY FROM t)": (2, 8),
    "SELECT * FROM t WHERE ts > (SELECT max(ts) FROM t) - INTERVAL '25 hours'": (2, 8),
    "SELECT * FROM t WHERE (SELECT max(ts) - INTERVAL 1 MONTH FROM t) > ts": (1, 8),
    "SELECT * FROM t WHERE seen >= (SELECT max(seen) FROM t)": (1, 8),
    "SELECT * FROM t WHERE seen >= (SELECT max(seen) - INTERVAL '25 hours' FROM t)": (2, 8),
    "SELECT * FROM t WHERE seen >= (SELECT max(seen) - INTERVAL 1 DAY FROM t)": (4, 8),
    "SELECT * FROM t WHERE seen = (SELECT max(seen) - INTERVAL 1 DAY FROM t)": (8, 8),
    "SELECT * FROM t WHERE id > (SELECT max(id) FROM t WHERE day < DATE '2024-01-06')": (3, 5),
    "SELECT * FROM t WHERE name = (SELECT min(name) FROM t WHERE even)": (1, 4),
    "SELECT * FROM t WHERE id < (SELECT min(id) FROM t WHERE wide > 45)": (8, 4),
    "SELECT * FROM t JOIN (SELECT max(day) AS day, min(id) AS low FROM t) m ON t.day = m.day": (1, 8),
    "SELECT * FROM t JOIN (SELECT max(day) AS day FROM t GROUP BY even) m USING (day)": (8, 8),
    "SELECT * FROM t JOIN (SELECT max(day) FILTER (WHERE even) AS day FROM t) m USING (day)": (8, 8),
    "SELECT * FROM t JOIN (SELECT max(day) AS a, max(day) FILTER (WHERE id < 15) AS b FROM t) m ON t.day = m.b": (
        8,
        8,
    ),
    "WITH last AS (SELECT max(day) AS day FROM t) SELECT t.* FROM t, last WHERE t.day = last.day": (8, 1),
    "SELECT count(*) FROM t WHERE day = (SELECT max(day) FROM t WHERE id < 15) OR id = 70": (8, 2),
    "SELECT * FROM t WHERE maybe = (SELECT max(maybe) FROM t WHERE id > 500)": (8, 0),
    "SELECT * FROM t WHERE maybe IS NOT DISTINCT FROM (SELECT max(k) FROM d WHERE part = 1)": (8, 1),
    "SELECT * FROM t WHERE maybe IS NOT DISTINCT FROM (SELECT any_value(k) FROM d WHERE part = 1)": (8, 1),
    "SELECT * FROM t WHERE maybe IS NOT DISTINCT FROM (SELECT arg_max(k, share) FROM d WHERE part = 1 AND share > 99)": (
        8,
        0,
    ),
    "SELECT id, (SELECT max(letter) FROM d WHERE k = id AND part = 1) FROM t": (1, 8),
    # tables of the session have no snapshot
    "SELECT t.* FROM t JOIN own ON id = k": (8,),
    "SELECT t.* FROM t JOIN own ON id = own.k JOIN d ON id = d.k WHERE part = 1": (2, 1),
}


@pytest.fixture
def owning(compared: Compared) -> Iterator[Compared]:
    compared.both("CREATE OR REPLACE TABLE own AS SELECT 10 AS k")
    yield compared
    compared.both("DROP TABLE own")


@pytest.mark.usefixtures("always")
@pytest.mark.sampled(10)
@pytest.mark.parametrize("sql", JOINED)
def test_keys_of_a_small_side_prune(owning: Compared, sql: str) -> None:
    owning.reads(sql, JOINED[sql])


NARROWED = "SELECT count(*) FROM t JOIN d ON id = k WHERE part = 1"
"""Reads two of the eight files of `t` if keys are read, and all of them if not."""


@pytest.fixture
def fresh(tmp_path: Path) -> Compared:
    """Tables that a test may change."""
    roots = _roots(tmp_path)
    return Compared(
        pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()}), oracle(roots)
    )


@contextmanager
def asking(connection: Any) -> Iterator[list[str]]:
    """The questions for keys that a connection asks its session."""
    asked: list[str] = []
    sides = connection._runner.rewriter._small_sides
    narrowed = sides.narrowed

    def noting(*arguments: Any) -> Any:
        *others, ask = arguments

        def noted(sql: str, parameters: list[object]) -> tuple[Any, ...]:
            asked.append(sql)
            return ask(sql, parameters)

        return narrowed(*others, noted)

    sides.narrowed = noting
    yield asked
    del sides.narrowed


def test_little_is_read_without_keys(fresh: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading eight files of a few kilobytes takes no longer than asking."""
    with asking(fresh.pruned) as asked:
        fresh.reads(NARROWED, (8, 1))
        monkeypatch.setattr(small_sides, "LEAST_BYTES", 8 * small_sides.BYTES_OF_A_FILE)
        fresh.reads(NARROWED + " AND true", (8, 1))
        assert asked == []
        monkeypatch.setattr(small_sides, "TIMES_LARGER", 7)
        fresh.reads(NARROWED + " AND NOT false", (2, 1))
        assert len(asked) == 1


@pytest.mark.usefixtures("always")
def test_a_side_that_is_not_small_is_not_read(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    with asking(compared.pruned) as asked:
        monkeypatch.setattr(small_sides, "MOST_BYTES", 100)
        compared.reads(NARROWED + " AND 1 = 1", (8, 1))
        monkeypatch.setattr(small_sides, "MOST_BYTES", 1 << 20)
        monkeypatch.setattr(small_sides, "MOST_FILES", 0)
        compared.reads(NARROWED + " AND 2 = 2", (8, 1))
    assert asked == []


@pytest.mark.usefixtures("always")
def test_keys_are_asked_for_once(fresh: Compared) -> None:
    """The same statement is remembered; another one with the same condition finds the keys."""
    with asking(fresh.pruned) as asked:
        for sql in (NARROWED, NARROWED, NARROWED.replace("count(*)", "sum(id)")):
            fresh.reads(sql, (2, 1))
        assert len(asked) == 1
        fresh.reads(NARROWED.replace("part = 1", "part = 2"), (2, 1))
        assert len(asked) == 2


@pytest.mark.usefixtures("always")
def test_keys_of_other_files_are_other_keys(compared: Compared) -> None:
    """Conditions that are not written leave other files of a small side, and so other keys, for the same text."""
    for n in (0, 1, 2, 3, 2, 1):
        joined = f"SELECT t.id FROM t JOIN m ON id = k WHERE m.share = {n}.0"
        compared.reads(joined, (1, 1))
        compared.reads(
            f"{joined} UNION ALL SELECT -t.id FROM t JOIN m ON id = k WHERE m.share = {3 - n}.0", (1, 1, 1, 1)
        )
        compared.reads("SELECT t.id FROM t JOIN m ON id = k WHERE m.share = ?", (1, 1), [float(n)])


@pytest.mark.usefixtures("always")
def test_macros_take_no_part_in_keys(fresh: Compared) -> None:
    """Operators and functions that a question needs are DuckDB's own, whatever macros are named."""
    for name, body in {
        '"+"(a, b)': "DATE '2024-01-02'",
        '"~~"(a, b)': "false",
        "like_escape(a, b, c)": "false",
        "isfinite(a)": "true",
        "bool_and(a)": "true",
        "list(a)": "[1]",
        "epoch_us(a)": "1",
        "date_diff(a, b, c)": "1",
        "make_timestamp(a)": "TIMESTAMP '2000-01-01'",
    }.items():
        fresh.pruned.execute(f"CREATE MACRO {name} AS {body}")
    for condition, kept in {
        "d.day < DATE '2024-01-06'": 5,
        "prefix(d.name, 'n') AND part = 1": 2,
        "d.ts > TIMESTAMP '2024-01-07 00:00:00'": 2,
    }.items():
        for key in ("id = k", "t.day = d.day", "t.ts = d.ts"):
            fresh.reads(f"SELECT t.id FROM t JOIN d ON {key} WHERE {condition}", (kept, 1))


@pytest.mark.usefixtures("always")
def test_keys_are_those_of_the_snapshot(fresh: Compared, tmp_path: Path) -> None:
    """The next statement sees rows added to a small side or removed from it."""
    fresh.reads(NARROWED, (2, 1))
    write_tree(tmp_path / "d", {"more.parquet": "SELECT 75 AS k, 1 AS part"})
    fresh.full.execute("INSERT INTO d BY NAME SELECT 75 AS k, 1 AS part")
    fresh.reads(NARROWED, (3, 2))
    (tmp_path / "d" / "more.parquet").unlink()
    fresh.full.execute("DELETE FROM d WHERE k = 75")
    fresh.reads(NARROWED, (2, 1))


@pytest.mark.usefixtures("always")
def test_keys_are_read_in_a_transaction(fresh: Compared) -> None:
    fresh.both("BEGIN")
    fresh.reads(NARROWED, (2, 1))
    fresh.both("CREATE TABLE made AS SELECT id FROM t JOIN d ON id = k WHERE part = 1")
    fresh.both("COMMIT")
    assert fresh.kept("SELECT * FROM made") == ()


@pytest.mark.usefixtures("always")
def test_a_side_whose_files_are_gone(fresh: Compared, tmp_path: Path) -> None:
    """The error is the statement's own, which reads the same files."""
    fresh.reads(NARROWED, (2, 1))
    connection = pruner_duckdb.connect({name: str(tmp_path / name) for name in ("t", "d")})
    shutil.copy(tmp_path / "d" / "all.parquet", tmp_path / "kept")
    (tmp_path / "d" / "all.parquet").write_bytes(b"PAR1" + bytes(1000) + b"PAR1")
    with pytest.raises(duckdb.Error):
        connection.execute(NARROWED).fetchall()
    shutil.copy(tmp_path / "kept", tmp_path / "d" / "all.parquet")
    assert connection.execute(NARROWED).fetchall() == [(2,)]
    (tmp_path / "d" / "all.parquet").write_bytes(b"PAR1" + bytes(1001) + b"PAR1")
    connection.execute("BEGIN")
    with pytest.raises(duckdb.Error, match=r"all\.parquet"):
        connection.execute(NARROWED).fetchall()
    connection.execute("ROLLBACK")


def test_keys_that_leave_out_nothing_are_asked_for_ever_less(
    fresh: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(small_sides, "LEAST_BYTES", 0)
    monkeypatch.setattr(small_sides, "TIMES_LARGER", 0)
    with asking(fresh.pruned) as asked:
        for n in range(40):
            fresh.reads(f"SELECT count(*) FROM t JOIN d ON id = k WHERE part < {n + 10}", (8, 1))
        # After each of them, one, three, seven and fifteen statements pass without asking.
        assert len(asked) == 5
        asked.clear()
        for n in range(80):
            fresh.kept(f"SELECT {n}, count(*) FROM t JOIN d ON id = k WHERE part = 1")
        assert len(asked) == 1
    assert [scan.kept for scan in fresh.pruned.last_plans] == [2, 1]


@pytest.mark.usefixtures("always")
def test_infinite_days_and_moments_are_no_keys(tmp_path: Path) -> None:
    roots = _roots(tmp_path)
    rows = "SELECT d::DATE AS day, t::TIMESTAMP AS ts, p AS part FROM (VALUES ('2024-01-02', '2024-01-02 10:00:00', 1), {}) v(d, t, p)"
    roots["x"] = write_tree(
        tmp_path / "x", {"a.parquet": rows.format("('infinity', '-infinity', 2), (NULL, NULL, 1)")}
    )
    compared = Compared(
        pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()}), oracle(roots)
    )
    for column in ("day", "ts"):
        compared.reads(f"SELECT id FROM t JOIN x USING ({column})", (8, 1))
        compared.reads(f"SELECT id FROM t JOIN x USING ({column}) WHERE part = 1", (1, 1))


@pytest.mark.usefixtures("always")
def test_errors_of_a_join_stay(compared: Compared) -> None:
    """A subquery that returns two rows fails although no file holds their keys."""
    sql = "SELECT * FROM t WHERE id = (SELECT k + 1000 - 1000 FROM d WHERE part = 1)"
    for side in (compared.pruned, compared.full):
        with pytest.raises(duckdb.Error, match="More than one row"):
            side.execute(sql).fetchall()
    none = "SELECT * FROM t WHERE wide = (SELECT -id FROM s WHERE id > 500 OR id < 2)"
    for side in (compared.pruned, compared.full):
        with pytest.raises(duckdb.Error, match="More than one row"):
            side.execute(none).fetchall()


@pytest.mark.usefixtures("always")
def test_many_keys_are_looked_for_in_many_files(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each lookup takes time: with eight files, a thousand keys are not worth it."""
    joined = "SELECT t.id, {} FROM t JOIN d ON id = k WHERE d.letter < 'c'"
    monkeypatch.setattr(small_sides, "FEW_KEYS", 3)
    monkeypatch.setattr(small_sides, "KEYS_OF_A_FILE", 0)
    compared.reads(joined.format(11), (8, 1))
    monkeypatch.setattr(small_sides, "KEYS_OF_A_FILE", 1)
    compared.reads(joined.format(12), (4, 1))


@pytest.mark.usefixtures("always")
def test_no_more_sides_than_are_read(compared: Compared) -> None:
    joins = " ".join(f"JOIN d d{n} ON t.id = d{n}.k + 0 AND d{n}.part = 1" for n in range(6))
    with asking(compared.pruned) as asked:
        assert compared.kept(f"SELECT t.id FROM t {joins}")[0] == 2
    assert len(asked) <= small_sides.MOST_SIDES


@pytest.mark.usefixtures("always")
def test_more_keys_than_are_looked_at(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    for most, kept in ((4, 4), (3, 8)):
        monkeypatch.setattr(small_sides, "MOST_KEYS", most)
        compared.reads(f"SELECT t.id, {most} FROM t JOIN d ON id = k WHERE d.letter < 'c'", (kept, 1))


_NAMES = st.sampled_from(["k", "part", "maybe", "wide"])
_COMPARED = st.one_of(
    st.builds(
        lambda name, sign, value: f"{name} {sign} {value}",
        _NAMES,
        st.sampled_from(["=", "<", ">=", "<>"]),
        st.integers(-5, 80),
    ),
    st.builds(
        lambda name, values: f"{name} IN ({', '.join(map(str, values))})",
        _NAMES,
        st.lists(st.integers(0, 80), min_size=1, max_size=4),
    ),
    st.builds(lambda name, no: f"{name} IS{no} NULL", _NAMES, st.sampled_from(["", " NOT"])),
    st.builds(lambda text: f"name LIKE '{text}'", st.sampled_from(["n%", "%3", "n_", "n1", "N1"])),
    st.builds(lambda letter: f"letter > '{letter}'", st.sampled_from(["a", "b''", "c", "é"])),
    st.builds(
        lambda day, sign: f"day {sign} DATE '2024-01-0{day}'", st.integers(1, 9), st.sampled_from(["=", ">"])
    ),
    st.builds(lambda day: f"ts <= TIMESTAMP '2024-01-0{day} 10:00:00.5'", st.integers(1, 9)),
    st.sampled_from(
        ["even", "k = maybe", "k > part", "share < 4.5", "price = 5", "length(name) = 2", "k % 20 = 0"]
    ),
)
_CONDITIONS = st.recursive(
    _COMPARED,
    lambda inner: st.one_of(
        st.builds(
            lambda one, other, sign: f"({one} {sign} {other})", inner, inner, st.sampled_from(["AND", "OR"])
        ),
        st.builds(lambda one: f"(NOT {one})", inner),
    ),
    max_leaves=5,
)


@pytest.mark.usefixtures("always")
@given(
    condition=_CONDITIONS,
    key=st.sampled_from(
        ["id = k", "t.wide = d.k", "t.day = d.day", "t.ts = d.ts", "t.name = d.name", "t.maybe = d.maybe"]
    ),
)
def test_any_condition_on_a_small_side(compared: Compared, condition: str, key: str) -> None:
    """The rows are those of the oracle, and no file is read without a key that satisfies the condition."""
    names = ["k", "part", "maybe", "wide", "name", "letter", "day", "ts", "even", "share", "price"]
    qualified = condition
    for name in names:
        qualified = re.sub(rf"(?<![\w.']){name}\b(?!')", f"d.{name}", qualified)
    sql = f"SELECT t.id, d.k FROM t JOIN d ON {key} WHERE {qualified}"
    kept = compared.kept(sql)
    if any(word in condition for word in ("share", "price", "length", "%", "part", "wide")):
        return  # conditions that are not written, or compare integers of two widths
    ours, theirs = key.split(" = ")
    matching, keys = compared.full.execute(
        f"SELECT count(DISTINCT id // 10), (SELECT count({theirs}) FROM d WHERE {qualified}) "
        f"FROM t WHERE {ours} IN (SELECT {theirs} FROM d WHERE {qualified})"
    ).fetchall()[0]
    assert kept[0] <= (max(matching, 1) if keys else 8), sql


@pytest.fixture(scope="module")
def calendar(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """`c` has a file for every second day around month ends and clock changes; `l` has rows that give a last moment."""
    base = tmp_path_factory.mktemp("calendar")
    row = "SELECT {n} AS n, DATE '2024-01-25' + {n} AS day, TIMESTAMP '2024-01-25 23:30:00' + INTERVAL {n} DAY AS ts, TIMESTAMPTZ '2024-01-25 23:30:00+00' + to_hours(24 * {n}) AS seen"
    roots = {
        "c": write_tree(base / "c", {f"{n}.parquet": row.format(n=n) for n in range(0, 70, 2)}),
        "l": write_tree(base / "l", {f"{n}.parquet": row.format(n=n) for n in (7, 66)}),
    }
    return Compared(
        pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()}), oracle(roots)
    )


@pytest.mark.usefixtures("always")
@given(
    column=st.sampled_from(["day", "ts", "seen"]),
    other=st.sampled_from(["c", "l", "l WHERE n < 10"]),
    comparison=st.sampled_from(["<", "<=", ">", ">=", "="]),
    sign=st.sampled_from("+-"),
    interval=st.one_of(
        st.builds("INTERVAL ({}) MONTH".format, st.integers(-3, 3)),
        st.builds("INTERVAL ({}) DAY".format, st.integers(-40, 40)),
        st.builds("INTERVAL '{} minutes'".format, st.integers(-3000, 3000)),
        st.builds(
            "INTERVAL '{} months {} days {} hours'".format,
            st.integers(-2, 2),
            st.integers(-9, 9),
            st.integers(-30, 30),
        ),
    ),
    zone=st.sampled_from(
        ["UTC", "Europe/Berlin", "America/New_York", "Pacific/Kiritimati", "Pacific/Pago_Pago"]
    ),
)
def test_any_time_before_the_last_moment(
    calendar: Compared, column: str, other: str, comparison: str, sign: str, interval: str, zone: str
) -> None:
    """Instants are shifted by the calendar of the session's zone, which is not that of the keys."""
    calendar.both(f"SET TimeZone = '{zone}'")
    for last in (
        f"SELECT max({column}) {sign} {interval} FROM {other}",
        f"SELECT min({column}) {sign} {interval} FROM {other}",
    ):
        calendar.kept(f"SELECT n FROM c WHERE {column} {comparison} ({last})")
