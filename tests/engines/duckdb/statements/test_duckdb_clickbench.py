"""ClickBench's 43 queries over a small table of the same kind, by rewritten statements and by the native scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks.duckdb.clickbench import COLUMNS, COUNTER, USER, opened, questions, write_hits
from benchmarks.duckdb.tpc import difference

FILES, ROWS = 12, 2500
QUESTIONS = questions(FILES * ROWS)


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    root = tmp_path_factory.mktemp("clickbench") / "hits"
    assert write_hits(root, FILES, ROWS) == FILES * ROWS
    return opened(root, {})


def read(con: Any, sql: str) -> tuple[list[tuple[Any, ...]], int]:
    con.last_plans.clear()
    rows = con.execute(sql).fetchall()
    return rows, sum(scan.read for scan in con.last_plans)


@pytest.mark.slow
def test_the_table_is_as_wide_as_the_published_one(connections: dict[str, Any]) -> None:
    found = connections["plain"].execute("SELECT column_name, column_type FROM (DESCRIBE hits)").fetchall()
    assert found == list(COLUMNS.items())
    assert len(found) == 105
    assert len(QUESTIONS) == 43


@pytest.mark.slow
@pytest.mark.parametrize("number", range(43))
def test_answers_are_those_of_plain_duckdb(connections: dict[str, Any], number: int) -> None:
    plain = connections["plain"]
    right = plain.execute(QUESTIONS[number]).fetchall()
    for way, con in connections.items():
        if con is not plain:
            for _ in range(2):  # the second time from memory
                assert difference(right, con.execute(QUESTIONS[number]).fetchall()) == "", way


@pytest.mark.slow
def test_questions_about_one_counter_or_visitor_read_the_files_that_hold_it(
    connections: dict[str, Any],
) -> None:
    def holding(condition: str) -> int:
        files = f"SELECT count(DISTINCT filename) FROM hits WHERE {condition}"
        view = (
            connections["plain"].execute("SELECT sql FROM duckdb_views() WHERE view_name = 'hits'").fetchone()
        )
        source = view[0].split(" FROM ", 1)[1].rstrip(";").replace(")", ", filename = true)")
        return connections["plain"].execute(files.replace("hits", source)).fetchone()[0]

    july = holding(f"CounterID = {COUNTER}")
    assert 0 < july < FILES // 2
    for way in connections.keys() - {"plain"}:
        con = connections[way]
        for number in range(36, 43):
            assert 0 < read(con, QUESTIONS[number])[1] <= july, (way, number)
        rows, files = read(con, QUESTIONS[19])
        assert set(rows) == {(USER,)}
        wrongly = 2  # false positives of the Bloom filters, the same each time
        assert holding(f"UserID = {USER}") <= files <= holding(f"UserID = {USER}") + wrongly, way


@pytest.mark.slow
def test_the_table_is_the_same_each_time(tmp_path: Path, connections: dict[str, Any]) -> None:
    write_hits(tmp_path / "hits", 2, 50)
    write_hits(tmp_path / "again", 2, 50)
    for name in ("hits_0.parquet", "hits_1.parquet"):
        first, second = (
            connections["plain"].execute(f"FROM read_parquet('{tmp_path / each / name}')").fetchall()
            for each in ("hits", "again")
        )
        assert first == second
