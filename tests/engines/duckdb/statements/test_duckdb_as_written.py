"""Names of columns and errors are those of the statement as written, not of what runs instead."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import indexed, write_airports, write_flights

NAMES = (
    "SELECT (SELECT max(id) FROM flights)",
    "SELECT (select max(id) from flights), 1 +  (select 2 from main.flights limit 1), a FROM u ORDER BY 1",
    "SELECT coalesce((SELECT id FROM flights ORDER BY 1 LIMIT 1),  0), 3 IN (SELECT id FROM flights)",
    "SELECT exists(FROM flights), NOT exists(FROM flights WHERE id < 0)",
    "SELECT (SELECT max(id) FROM flights) AS x, (SELECT min(id) FROM flights) y",
    "SELECT [(SELECT max(id) FROM flights)], $$from$$ IS NOT DISTINCT FROM (SELECT max(carrier) FROM flights)",
    "SELECT * FROM (SELECT (SELECT max(id) FROM flights), 1 AS one)",
    "WITH q AS (SELECT (SELECT max(id) FROM flights)) FROM q",
    "SELECT (SELECT (SELECT max(id) FROM flights u WHERE u.id < t.id) FROM flights t ORDER BY id DESC LIMIT 1)",
    "SELECT CASE WHEN a = 1 THEN (SELECT max(id) FROM flights WHERE id < 100) ELSE 3 END, a FROM u",
    "FROM u SELECT (SELECT max(id) FROM flights), b",
    "SELECT (SELECT max(id) FROM flights) UNION ALL SELECT 4 ORDER BY 1",
    "SELECT sum((SELECT max(id) FROM flights)) OVER (ORDER BY a) FROM u",
    "SELECT (SELECT max(id) FROM v), main.v.id FROM v ORDER BY ALL LIMIT 1",
    "SELECT main.flights.id, memory.main.flights.id, memory.flights.id FROM flights WHERE main.flights.id = 2",
    "SELECT main.flights.extra.code FROM main.flights WHERE memory.main.flights.id < 2 ORDER BY ALL",
    "SELECT x.id FROM x: flights WHERE id < 3 ORDER BY ALL",
    "SHOW flights",
    "SHOW main.flights",
    "FROM (SHOW flights)",
    "FROM (DESCRIBE flights)",
    "SELECT column_name FROM (DESCRIBE main.flights) WHERE column_type = 'INTEGER'",
    "SELECT count(*) FROM (SUMMARIZE flights)",
)

MISTAKES = (
    "SELECT idd FROM flights",
    "SELECT *\nFROM flihgts\nWHERE id = 1",
    "SELECT f.id FROM flights f JOIN airprots b ON f.id = b.flight WHERE f.id = 1",
    "SELECT\n  id,\n  price + 'a'\nFROM flights",
    "SELECT id FROM flights WHERE 'é' = 'x' AND iid = 3",
    "SELECT foo(id) FROM flights",
    "SELECT * FROM flights ORDER BY 19",
    "SELECT f.id, b.x FROM flights f JOIN airports b ON f.id = b.flight",
    "SELECT count(*) FROM flights WHERE ('x' || carrier[:0])::INTEGER = 3",
    "SELECT (SELECT idd FROM flights)",
    "SELECT id FROM flights GROUP BY carrier",
    "INSERT INTO u SELECT idd FROM flights",
    "SELECT id FROM flights WHERE id IN (SELECT flite FROM airports)",
)


@pytest.fixture(scope="module")
def connections(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, duckdb.DuckDBPyConnection]:
    """Pruned tables, and views of the same rows."""
    folder = tmp_path_factory.mktemp("written")
    roots = {"flights": write_flights(folder / "flights"), "airports": write_airports(folder / "airports")}
    alone = duckdb.connect()
    for name, root in roots.items():
        alone.execute(
            f"CREATE VIEW {name} AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
        )
    pruned = pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()})
    for connection in (pruned, alone):
        connection.execute("CREATE TABLE u AS SELECT 1 AS a, 2 AS b")
        connection.execute("CREATE VIEW v AS SELECT id FROM flights WHERE id % 7 = 1")
    return pruned, alone


@pytest.mark.sampled(9)
@pytest.mark.parametrize("sql", NAMES)
def test_columns_are_called_as_duckdb_calls_them(connections: tuple[Any, Any], sql: str) -> None:
    shown: list[object] = []
    for connection in connections:
        found = connection.execute(sql)
        shown.append(([(each[0], str(each[1])) for each in found.description], found.fetchall()))
    assert shown[0] == shown[1]


def test_names_with_parameters_and_whatever_the_numbers(connections: tuple[Any, Any]) -> None:
    for number in (100, 200):
        sql = f"SELECT (SELECT max(id) FROM flights WHERE id < ? AND id < {number})"
        shown = [each.execute(sql, [500]).description[0][0] for each in connections]
        assert shown[0] == shown[1]


def test_a_table_filled_by_name(connections: tuple[Any, Any]) -> None:
    pruned, _ = connections
    pruned.execute('CREATE TABLE named ("(SELECT max(id) FROM flights)" INTEGER)')
    pruned.execute("INSERT INTO named BY NAME SELECT (SELECT max(id) FROM flights)")
    assert pruned.execute("FROM named").fetchall() == [(599,)]
    pruned.execute("CREATE TABLE made AS SELECT (SELECT max(id) FROM flights)")
    assert pruned.sql("FROM made").columns == ["(SELECT max(id) FROM flights)"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("method", ["execute", "sql"])
@pytest.mark.parametrize("sql", MISTAKES)
def test_errors_are_about_the_statement_as_written(
    connections: tuple[Any, Any], sql: str, method: str
) -> None:
    told: list[tuple[str, ...]] = []
    for connection in connections:
        with pytest.raises(duckdb.Error) as error:
            getattr(connection, method)(sql).fetchall()
        told.append((error.type.__name__, *str(error.value).partition("\n\nLINE ")))
    assert told[0][:2] == told[1][:2]
    assert "read_parquet" not in told[0][3]
    if (
        told[1][3] and told[1][3].partition(": ")[2].split("\n")[0] in sql
    ):  # DuckDB 1.5 reports another position for relations
        assert told[0] == told[1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("method", ["execute", "sql"])
@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("SELECT id FROM flights WHERE id = ?", ["x"]),
        ("SELECT id\nFROM flights\nWHERE region = ? AND id > ? + 1", ["de", "x"]),
        ("SELECT ? + id FROM flights WHERE id = 3", ["x"]),
        ("SELECT id FROM flights WHERE region = ? AND ? < ts", ["de", 5]),
        ("SELECT upper(?) || region FROM flights WHERE id = ?", [1, 2]),
        ("SELECT id FROM flights WHERE id = ? AND nowhere(?)", [1, 2]),
        ("SELECT id FROM flights WHERE id = $1 AND id > $2", [1, "x"]),
        ("SELECT id FROM flights WHERE id = $a", {"a": "x"}),
        ("SELECT id FROM flights WHERE id = ? AND id = ?", [1]),
    ],
)
def test_errors_about_parameters_show_the_position(
    connections: tuple[Any, Any], sql: str, values: Any, method: str
) -> None:
    told: list[tuple[str, str]] = []
    for connection in connections:
        ask: Any = connection.execute if method == "execute" else partial(connection.sql, params=values)
        arguments = (sql, values) if method == "execute" else (sql,)
        with pytest.raises(duckdb.Error) as error:
            ask(*arguments).fetchall()
        told.append((error.type.__name__, str(error.value)))
    assert told[0] == told[1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "sql",
    [
        "FROM flights f(region) WHERE id_1 < 3",
        "SELECT region, region_1 FROM flights f(region) WHERE region < 3 ORDER BY ALL",
        "SELECT a, f.region FROM flights AS f(a, region) WHERE a = 3 ORDER BY ALL",
        "SELECT f FROM flights f(Region) WHERE region = 3",
        "SELECT count(*) FROM flights a(user), flights b(region) WHERE a.user = b.region AND b.region < 9",
        "SELECT user, current_date FROM flights f(user, current_date) WHERE user = 3",
    ],
)
def test_names_given_to_columns_may_be_those_of_others(connections: tuple[Any, Any], sql: str) -> None:
    shown: list[object] = []
    for connection in connections:
        try:
            found = connection.execute(sql)
            names = [(each[0], str(each[1])) for each in found.description]
            shown.append((names, sorted(map(str, found.fetchall()))))
        except duckdb.Error as error:
            shown.append(str(error))
    assert shown[0] == shown[1]


def test_a_place_in_a_long_line(connections: tuple[Any, Any]) -> None:
    pruned, _ = connections
    with pytest.raises(duckdb.BinderException) as error:
        pruned.execute(f"SELECT {'id, ' * 60} idd, {'id, ' * 60} id FROM flights")
    line, mark = str(error.value).splitlines()[-2:]
    assert line[mark.index("^") :].startswith("idd, id")
    assert "read_parquet" not in line
    assert len(line) < 140


@pytest.mark.parametrize(
    ("sql", "name", "type_"),
    [
        ("CREATE OR REPLACE VIEW w AS FROM flights", "Count", "BIGINT"),
        ("PREPARE p AS FROM flights", "Success", "BOOLEAN"),
        ("DEALLOCATE p", "Success", "BOOLEAN"),
    ],
)
def test_what_a_connection_shows_after_statements_without_rows(
    connections: tuple[Any, Any], sql: str, name: str, type_: str
) -> None:
    for connection in connections:
        found = connection.execute(sql)
        assert [(each[0], str(each[1])) for each in found.description] == [(name, type_)]
        assert found.fetchall() == []


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_table_that_is_called_as_what_show_lists(tmp_path: Path) -> None:
    pruned = pruner_duckdb.connect({"tables": indexed(write_airports(tmp_path / "t"))})
    pruned.execute("CREATE TABLE other (i INTEGER)")
    assert pruned.execute("SHOW tables").fetchall() == [("other",)]
    assert pruned.execute("FROM (SHOW tables)").fetchall() == [("other",)]
    assert pruned.execute('SELECT count(*) FROM (DESCRIBE "tables")').fetchall() == [(3,)]


@pytest.mark.sampled(24)
@pytest.mark.parametrize("before", [0, 9, 13, 14, 40])
@pytest.mark.parametrize("after", [0, 8, 12, 40])
@pytest.mark.parametrize("item", ["id, ", "'a bc', ", "carrier,", "/*ddddddddddddddddddddddddddddddddd*/id,"])
def test_long_lines_are_cut_where_duckdb_cuts_them(
    connections: tuple[Any, Any], before: int, after: int, item: str
) -> None:
    sql = f"SELECT {item * before}nowhere, {item * after}id FROM flights WHERE id = 3"
    told: list[str] = []
    for connection in connections:
        with pytest.raises(duckdb.Error) as error:
            connection.execute(sql)
        told.append(str(error.value))
    assert told[0] == told[1]


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "arguments", ["'x', 'de'", "[1], 'de'", "upper('x'), 'de'", "1, 'de', 3", "1", "700, 'de'"]
)
def test_errors_of_execute_show_no_position(connections: tuple[Any, Any], arguments: str) -> None:
    told: list[object] = []
    for connection in connections:
        connection.execute(
            "PREPARE wanted AS SELECT region::INTEGER FROM flights WHERE id < $1 AND region = $2"
        )
        with pytest.raises(duckdb.Error) as error:
            connection.execute(f"EXECUTE wanted({arguments})").fetchall()
        told.append((error.type.__name__, str(error.value)))
    assert told[0] == told[1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "sql",
    [
        "CREATE OR REPLACE VIEW made_here AS SELECT id FROM flights",
        "CREATE OR REPLACE TEMP VIEW made_of_view AS SELECT id FROM v",
        "PREPARE kept AS SELECT id FROM flights",
        "DEALLOCATE kept",
    ],
)
def test_sql_returns_what_duckdb_returns_of_what_outlives_it(connections: tuple[Any, Any], sql: str) -> None:
    shown: list[object] = []
    for connection in connections:
        relation = connection.sql(sql)
        if relation is None:  # as in DuckDB 1.5
            shown.append(None)
            continue
        shown.append(
            (relation.columns, [str(each) for each in relation.types], relation.fetchall(), str(relation))
        )
    assert shown[0] == shown[1]
