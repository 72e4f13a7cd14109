"""Conditions that are put on a relation after `sql` or `table` prune its scans as if they stood in the statement."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from pruner_duckdb.filtering import with_condition
from tests.engines.duckdb_tables import BEFORE_2, FLIGHTS_FILES, indexed, oracle, write_flights, write_tree


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flights(tmp_path_factory.mktemp("filters") / "flights")


@pytest.fixture
def pruned(flights: Path) -> Iterator[pruner_duckdb.Connection]:
    with pruner_duckdb.connect({"flights": indexed(flights)}) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture(scope="module")
def full(flights: Path) -> duckdb.DuckDBPyConnection:
    return oracle({"flights": flights})


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("statement", "conditions", "kept"),
    [
        ("SELECT * FROM flights", ["id = 70"], 1),
        ("FROM flights -- all of them", ["id < 120 -- some", "id >= 60"], 2),
        ("SELECT carrier, id FROM flights ORDER BY id DESC;", ["carrier LIKE 'C03%'"], 2),
        ("SELECT max(id) AS top, carrier FROM flights GROUP BY carrier", ["carrier = 'C03a'"], 2),
        ("SELECT max(id) AS top, carrier FROM flights GROUP BY carrier", ["top = 70"], FLIGHTS_FILES),
        ("SELECT * FROM flights ORDER BY id LIMIT 60", ["id = 590"], FLIGHTS_FILES),
        ("WITH f AS (SELECT id FROM flights) FROM f", ["id = 70 OR id = (((571)))"], 2),
        ("SELECT a.id FROM flights a LEFT JOIN flights b ON a.id = b.id + 100", ["id = 70"], 0),
    ],
)
def test_a_condition_that_comes_later_prunes(
    pruned: pruner_duckdb.Connection,
    full: duckdb.DuckDBPyConnection,
    statement: str,
    conditions: list[str],
    kept: int,
) -> None:
    relation, expected = pruned.sql(statement), full.sql(statement)
    for condition in conditions:
        relation, expected = relation.filter(condition), expected.filter(condition)
    assert (relation.columns, relation.types) == (expected.columns, expected.types)
    scans = statement.count("flights")
    pruned.last_plans.clear()
    assert sorted(relation.fetchall(), key=str) == sorted(expected.fetchall(), key=str)
    assert min(scan.kept for scan in pruned.last_plans) == kept
    assert len(pruned.last_plans) == scans


def test_what_follows_a_condition_and_names_of_the_relation(pruned: pruner_duckdb.Connection) -> None:
    def kept(relation: Any, rows: list[tuple[Any, ...]]) -> int:
        assert relation.fetchall() == rows
        return pruned.last_plans[-1].kept

    assert kept(pruned.table("flights").filter("id < 60").aggregate("count(*)"), [(60,)]) == 2
    assert kept(pruned.sql("FROM flights", alias="f").filter("f.id = 70").project("id"), [(70,)]) == 1
    with_values = pruned.sql("SELECT id FROM flights WHERE id > ?", params=[50])
    assert kept(with_values.filter("id < 52"), [(51,)]) == 1
    pruned.execute("CREATE VIEW late AS SELECT id AS number FROM flights")
    assert kept(pruned.view("late").filter("number = 599"), [(599,)]) == 1


@pytest.mark.parametrize(
    ("condition", "rows", "kept"),
    [
        (duckdb.ColumnExpression("id") == 70, 1, 1),
        (
            (duckdb.ColumnExpression("id") > 68)
            & (duckdb.ColumnExpression("id") < duckdb.ConstantExpression(71)),
            2,
            1,
        ),
        (duckdb.ColumnExpression("id").isin(70, 71), 2, 1),
        (~(duckdb.ColumnExpression("id") >= 1), 1, 1),
        (duckdb.SQLExpression("id = 70 OR id = 599"), 2, 2),
    ],
)
def test_expressions_are_conditions(
    pruned: pruner_duckdb.Connection, condition: duckdb.Expression, rows: int, kept: int
) -> None:
    relation = pruned.sql("SELECT id FROM flights")
    expected = pruned.sql("SELECT id FROM flights").native().filter(condition).order("id").fetchall()
    assert relation.filter(condition).order("id").fetchall() == expected
    assert len(expected) == rows
    assert pruned.last_plans[-1].kept == (FLIGHTS_FILES if BEFORE_2 else kept)


def test_what_is_not_plain_text_is_applied_to_the_rows(pruned: pruner_duckdb.Connection) -> None:
    twice = pruned.sql("SELECT id, id FROM flights")
    plain = pruned.native.sql("SELECT 1 AS id, 2 AS id")
    assert twice.filter("id = 70").columns == plain.filter("id = 1").columns


@pytest.mark.parametrize(
    "condition", ["id = 1) OR (true", "id = ?", "id = $pruner", "id = 1; DROP TABLE x", "no = 1"]
)
def test_what_duckdb_refuses_is_refused(pruned: pruner_duckdb.Connection, condition: str) -> None:
    with pytest.raises(duckdb.Error):
        pruned.sql("SELECT id FROM flights").filter(condition)


def test_two_texts_that_are_no_expression_and_statement() -> None:
    assert with_condition("SELECT 1 AS a", "a = 1) OR (true", "r") is None
    assert with_condition("SELECT 1 AS a) UNION (SELECT 2", "a = 1", "r") is None
    assert with_condition("SELECT 1 AS a; SELECT 2", "a = 1", "r") is None
    assert with_condition("SELECT $1 AS a", "a = $1", "r") is None
    assert with_condition("SELECT ')' AS a;", "a = ')'", 'r"r') == (
        "SELECT * FROM (SELECT ')' AS a\n) AS \"r\"\"r\" WHERE (a = ')'\n)"
    )


def test_a_filtered_relation_sees_later_files_and_the_session_of_its_run(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", {f"a{n}.parquet": f"SELECT {n} AS id" for n in range(4)})
    table = indexed(root)
    with pruner_duckdb.connect({"t": table}) as pruned:
        relation = pruned.sql("FROM t").filter("id = abs(2)")
        assert relation.fetchall() == [(2,)]
        assert pruned.last_plans[-1].kept == 1
        write_tree(root, {"late.parquet": "SELECT 2 AS id"})
        assert relation.fetchall() == [(2,), (2,)]
        assert pruned.last_plans[-1].kept == 2
        pruned.execute("CREATE MACRO abs(x) AS 3")
        assert relation.fetchall() == [(3,)]
        assert pruned.last_plans[-1].kept == 5
