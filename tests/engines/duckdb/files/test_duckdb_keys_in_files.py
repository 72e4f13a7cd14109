"""Files that hold a column named like the key of their folders: each row shows the folder's value, as in plain DuckDB.

They are read natively, so DuckDB knows as much about the key as about any other. When it asks for the statistics of
whole files, it takes those of the file's own column for the key's; a pruned list must not trigger this.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.support.duckdb import plain as plain_duckdb

KINDS: dict[str, tuple[tuple[str, str | None], ...]] = {
    # Folder, and the file's value of `part`; None for no such column.
    "the same": (("1", "1"), ("2", "2"), ("3", "3")),
    "the first has none": (("1", None), ("2", "2"), ("3", "3")),
    "the last has none": (("1", "1"), ("2", "2"), ("3", None)),
    "another value": (("1", "100"), ("2", "3"), ("3", "1")),
    "another value in the last": (("1", None), ("2", None), ("3", "1")),
    "NULL": (("1", "NULL::INTEGER"), ("2", "2"), ("3", "3")),
    "text": (("1", "'zz'"), ("2", "'b'"), ("3", None)),
    "text in folders": (("a", "7"), ("b", "8"), ("c", None)),
    "a fraction": (("1", "1.25::DOUBLE"), ("2", "2::DOUBLE"), ("3", "0")),
    "days": (("2024-01-01", "DATE '2024-02-01'"), ("2024-01-02", "DATE '2024-01-02'"), ("2024-01-03", None)),
    "a list": (("1", "[1, 2]"), ("2", "[2]"), ("3", None)),
    "several in a folder": (("1", "5"), ("1", None), ("2", "7"), ("2", "2")),
}

STATEMENTS = (
    "SELECT max(part), min(part) FROM t",
    "SELECT max(part), min(part) FROM t WHERE id < 5",
    "SELECT part, count(*), max(x) FROM t GROUP BY ALL ORDER BY ALL",
    "SELECT part, count(*) FROM t WHERE id BETWEEN 12 AND 15 GROUP BY ALL",
    "SELECT id, part FROM t ORDER BY part DESC, id LIMIT 3",
    "SELECT * FROM t ORDER BY x DESC, id LIMIT 4",
    "SELECT * FROM t WHERE id < 9 ORDER BY part, id LIMIT 2",
    "SELECT * EXCLUDE (part) FROM t ORDER BY id LIMIT 3",
    "SELECT typeof(part), typeof(x), count(part) FROM t WHERE id IN (3, 4) GROUP BY ALL",
    "SELECT count(*) FROM t WHERE part = (SELECT max(part) FROM t WHERE id < 8)",
    "SELECT count(*) FROM t WHERE part >= (SELECT max(part) FROM t)",
    "SELECT count(*) FROM t a JOIN (SELECT DISTINCT part FROM t WHERE id = 3) b USING (part)",
    "SELECT a.part, count(*) FROM t a JOIN t b ON a.part = b.part AND a.id = b.id GROUP BY ALL ORDER BY ALL",
    "SELECT count(*) FROM t WHERE part IN (SELECT part FROM t WHERE id >= 20)",
    "SELECT count(*) FILTER (WHERE part::VARCHAR IN ('1', 'a', '2024-01-01')), count(*) FROM t WHERE id < 7",
    "SELECT count(*) FROM t WHERE part IS NULL",
    "SELECT part FROM t WHERE part::VARCHAR = '1' OR part::VARCHAR = 'b' ORDER BY id LIMIT 1",
    "SELECT DISTINCT part FROM t WHERE id < 8 AND x < 6",
    "SELECT id FROM t QUALIFY row_number() OVER (PARTITION BY part ORDER BY id) = 1 ORDER BY id",
    "DESCRIBE SELECT * FROM t",
)


def _tree(root: Path, kind: tuple[tuple[str, str | None], ...], place: str, key: str = "part") -> Path:
    writer = plain_duckdb.session()
    for number, (folder, own) in enumerate(kind):
        path = root / f"{key}={folder}"
        path.mkdir(parents=True, exist_ok=True)
        columns = [f"{10 * number} + i AS id", "i * 1.5::DOUBLE AS x"]
        if own is not None:
            columns.insert({"first": 0, "between": 1, "last": 2}[place], f"{own} AS part")
        query = f"SELECT {', '.join(columns)} FROM range(10) r(i)"
        writer.execute(f"COPY ({query}) TO '{path}/f{number}.parquet' (FORMAT parquet)")
    return root


def _judge_of(root: Path) -> duckdb.DuckDBPyConnection:
    """A plain DuckDB session with all rows of a tree in table `t`; the files are read once, not by each statement.

    Without its optimizer DuckDB uses no statistics.
    """
    judge = plain_duckdb.judge()
    all_files = f"read_parquet('{root}/**/*.parquet', hive_partitioning = true, union_by_name = true)"
    judge.execute(f"CREATE TEMP TABLE t AS FROM {all_files}")
    return judge


def _answer(connection: Any, sql: str) -> Any:
    try:
        found = connection.sql(sql)
        return found.columns, list(map(str, found.types)), found.fetchall()
    except duckdb.Error as error:
        return type(error).__name__


@pytest.mark.sampled(36)
@pytest.mark.parametrize(("place", "indexed"), [("first", True), ("between", False), ("last", True)])
@pytest.mark.parametrize("kind", KINDS)
def test_each_row_shows_the_folders_value(tmp_path: Path, kind: str, place: str, indexed: bool) -> None:
    root = _tree(tmp_path / "t", KINDS[kind], place)
    table = pruner.open_table(str(root))
    if indexed:
        table.create_index("s", on=["id", "x"])
    connection = pruner_duckdb.connect({"t": table})
    judge = _judge_of(root)
    for statement in STATEMENTS:
        assert _answer(connection, statement) == _answer(judge, statement), statement


@pytest.mark.slow
def test_they_are_one_native_scan_unless_one_such_file_is_left(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", KINDS["another value"], "last")
    table = pruner.open_table(str(root))
    table.create_index("s", on=["id", "x"])
    connection = pruner_duckdb.connect({"t": table})
    of_all = "\n".join(map(str, connection.sql("EXPLAIN FROM t ORDER BY x LIMIT 1").fetchall()))
    assert "READ_PARQUET" in of_all
    assert "Union" not in of_all.title()
    of_one = connection.execute("SELECT part, max(part) OVER () FROM t WHERE id < 5 LIMIT 1").fetchall()
    assert of_one == [(1, 1)]
    assert [scan.kept for scan in connection.last_plans][-1] == 1


def test_a_maximum_of_one_such_file_is_not_the_files_own(tmp_path: Path) -> None:
    """DuckDB sees in statistics that all rows match, and answers with those of the file's column, 100; pruner does not.

    Without floating point, since a file that may hold NaN is read differently.
    """
    writer = plain_duckdb.session()
    for folder, own in ((1, 100), (2, 3)):
        (tmp_path / "t" / f"part={folder}").mkdir(parents=True)
        query = f"SELECT 10 * {folder} + i AS id, i AS n, {own} AS part FROM range(10) r(i)"
        writer.execute(f"COPY ({query}) TO '{tmp_path}/t/part={folder}/f.parquet' (FORMAT parquet)")
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("s", on="id")
    connection = pruner_duckdb.connect({"t": table})
    of_one = connection.execute("SELECT max(part) FROM t WHERE id < 20 AND n IS NOT NULL").fetchall()
    assert (of_one, [scan.kept for scan in connection.last_plans]) == ([(1,)], [1])


@pytest.mark.slow
def test_a_key_that_differs_by_case_from_the_files_column(tmp_path: Path) -> None:
    root = _tree(tmp_path / "t", KINDS["another value"], "between", key="Part")
    table = pruner.open_table(str(root))
    table.create_index("s", on=["id"])
    connection = pruner_duckdb.connect({"t": table})
    judge = _judge_of(root)
    for statement in STATEMENTS:
        assert _answer(connection, statement) == _answer(judge, statement), statement
