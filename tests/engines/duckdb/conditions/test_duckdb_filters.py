"""Conditions applied to a relation after `sql` or `table` prune its scans as if the statement contained them."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from pruner_duckdb.catalog.tables import KnownTable, Pinned
from pruner_duckdb.relation import read_by, with_condition
from pruner_duckdb.shadow.shadow import Shadow
from tests.engines.duckdb.duckdb_tables import (
    BEFORE_2,
    FLIGHTS_FILES,
    indexed,
    oracle,
    write_flights,
    write_tree,
)


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


@pytest.mark.sampled(12)
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


@pytest.mark.slow
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


@pytest.mark.sampled(4)
@pytest.mark.rewriting
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
    twice = pruned.sql("SELECT id, id FROM flights").filter("id = 70")
    plain = pruned.native.sql("SELECT 1 AS id, 2 AS id").filter("id = 1")
    # DuckDB 1.5 leaves two columns of the same name unchanged until a statement reads them.
    assert twice.columns == (plain.select("*") if BEFORE_2 else plain).columns


@pytest.mark.sampled(32)
@pytest.mark.parametrize(
    "condition",
    [
        "id = 1) OR (true",
        "id = ?",
        "id = $pruner",
        "id = 1; DROP TABLE x",
        "no = 1",
        "",
        "SELECT true",
        "FROM flights",
        "TABLE flights",
        "VALUES (true)",
        "id = 1, true",
        "true LIMIT 0",
        "true ORDER BY 1",
        "true WHERE false",
        *(() if BEFORE_2 else ("id = 1 AS one",)),  # which ignores the name
        "*",
        "max(id) > 0",
        "no_such_function(id)",
        "unnamed_relation.id = 1",
        "unnamed_relation_.id = 1",
        "id IN (SELECT id FROM no_such_table)",
    ],
)
def test_what_duckdb_refuses_is_refused(
    pruned: pruner_duckdb.Connection, full: duckdb.DuckDBPyConnection, condition: str
) -> None:
    with pytest.raises(duckdb.Error) as plain:
        full.sql("SELECT id FROM flights").filter(condition)
    with pytest.raises(duckdb.Error) as found:
        pruned.sql("SELECT id FROM flights").filter(condition)
    assert found.type is plain.type
    assert str(found.value).split("\n")[0] == str(plain.value).split("\n")[0]


def test_what_is_given_otherwise_is_taken_or_refused_as_by_duckdb(pruned: pruner_duckdb.Connection) -> None:
    relation = pruned.sql("SELECT id FROM flights")
    assert relation.filter(filter_expr="id = 70").fetchall() == [(70,)]
    assert pruned.last_plans[-1].kept == 1
    for call in (
        relation.filter,
        lambda: relation.filter("id = 1", "id = 2"),
        lambda: relation.filter(condition="id = 1"),
    ):
        with pytest.raises(TypeError):
            call()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a table was listed, and a scan of it planned."""
    count = Counter[str]()

    def counting(owner: type, name: str) -> None:
        own = getattr(owner, name)

        def counted_one(*arguments: Any, **named: Any) -> Any:
            count[name] += 1
            return own(*arguments, **named)

        monkeypatch.setattr(owner, name, counted_one)

    counting(KnownTable, "snapshot")
    counting(Pinned, "plan")
    return count


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("condition", "scans"),
    [
        ("id = 70", 1),
        ("unnamed_relation IS NULL AND id = 70", 1),
        # Planning asks what metadata knows about the subquery with a plan of its own.
        ("id = (SELECT max(id) FROM flights WHERE id <= 70)", 2),
        ("id IN (SELECT 70)", 1),
    ],
)
def test_a_table_is_listed_once_and_planned_once(
    pruned: pruner_duckdb.Connection, counted: Counter[str], condition: str, scans: int
) -> None:
    text = "SELECT id, NULL AS unnamed_relation FROM flights"
    assert len(pruned.sql(text).fetchall()) == 600  # from now on the columns are known
    relation = pruned.sql(text)
    counted.clear()
    filtered = relation.filter(condition)
    assert not counted
    assert filtered.fetchall() == [(70, None)]
    assert counted == {"snapshot": 1, "plan": scans}
    assert filtered.fetchall() == [(70, None)]
    assert counted == {"snapshot": 2, "plan": scans}


@pytest.mark.slow
def test_what_only_the_session_knows_is_planned_once(
    pruned: pruner_duckdb.Connection, counted: Counter[str]
) -> None:
    pruned.execute("CREATE MACRO of_no_kind(x) AS x + (random() * 0)::INTEGER")
    relation = pruned.sql("SELECT id FROM flights")
    assert relation.filter("of_no_kind(id) = 70").fetchall() == [(70,)]
    counted.clear()
    assert relation.filter("of_no_kind(id) = 71 AND id < 80").fetchall() == [(71,)]
    assert counted["snapshot"] <= 2
    assert counted["plan"] == 1


def test_a_condition_does_not_mean_variables_of_the_statement(pruned: pruner_duckdb.Connection) -> None:
    def relation() -> Any:
        numbers = pruned.native.sql("SELECT 70 AS id UNION ALL SELECT 71").to_arrow_table()
        assert numbers.num_rows == 2
        return pruned.sql("SELECT id FROM flights JOIN numbers USING (id)")

    found = relation()
    assert sorted(found.filter("id > 0").fetchall()) == [(70,), (71,)]
    numbers = pruned.native.sql("SELECT 1 AS id").to_arrow_table()
    assert numbers.num_rows == 1
    with contextlib.suppress(duckdb.CatalogException):
        assert found.filter("id IN (SELECT id FROM numbers)").fetchall() == []


@pytest.mark.slow
def test_two_texts_that_are_no_expression_and_statement() -> None:
    parse = Shadow().parse
    for condition in ("a = 1) OR (true", "a = $1", "a = 1, true", "FROM t", "SELECT 1", "true LIMIT 1", ""):
        assert read_by(condition, parse) is None
    assert [each.path for each in read_by("a = (SELECT ',' FROM t)", parse) or ()] == [("t",)]
    assert with_condition("SELECT 1 AS a) UNION (SELECT 2", "a = 1", "r") is None
    assert with_condition("SELECT 1 AS a; SELECT 2", "a = 1", "r") is None
    assert "unnamed_relation__" in str(with_condition("SELECT 1 AS a", "Unnamed_Relation_.a = 1", ""))
    assert with_condition("SELECT ')' AS a;", "a = ')'", 'r"r') == (
        "SELECT * FROM (SELECT ')' AS a\n) AS \"r\"\"r\" WHERE (a = ')'\n)"
    )


@pytest.mark.slow
@pytest.mark.rewriting
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
