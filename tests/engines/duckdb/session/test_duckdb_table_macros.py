"""Macros for a query over a pruner table: a call prunes like the query with its arguments written out, and a later
call, through any connection, reads the table as it is then.
"""

# ruff: noqa: E501 - one statement, one line: they are read as a table

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from pruner import PrunerError
from pruner_duckdb.catalog.table_macros import forms_created, with_arguments
from tests.engines.duckdb.duckdb_tables import (
    BEFORE_2,
    Compared,
    indexed,
    oracle,
    write_airports,
    write_flights,
    write_tree,
)


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    base = tmp_path_factory.mktemp("table_macros")
    return {"flights": write_flights(base / "flights"), "airports": write_airports(base / "airports")}


@pytest.fixture
def compared(roots: dict[str, Path]) -> Iterator[Compared]:
    with pruner_duckdb.connect({name: indexed(root) for name, root in roots.items()}) as pruned:
        compared = Compared(pruned, oracle(roots))
        compared.both("SET TimeZone = 'UTC'")
        yield compared


MACROS = {
    "m(x) AS TABLE SELECT id, carrier, x, x + 1, price AS p FROM flights WHERE id = x": {
        "FROM m(5)": (1,),
        "FROM m(2 + 3) AS q": (1,),
        "SELECT q.id, q.p FROM M(x := 60) AS q": (1,),
        "SELECT * FROM memory.main.m(5), main.m(60) AS q(a, b, c)": (1, 1),
        "FROM m((SELECT max(flight) FROM airports))": (4, 4, 12 if BEFORE_2 else 1, 4),
        "SELECT a.flight, q.p FROM airports a, m(a.flight) q WHERE a.flight < 50": (1, 12),
        "SELECT (SELECT max(id) FROM m(5))": (1,),
        "SELECT (SELECT max(id) FROM m(a.flight)) AS n FROM airports a WHERE zone_no = 0": (12, 1),
        "SELECT count(*) FROM m(5) TABLESAMPLE 100%": (1,),
        "WITH flights AS (SELECT 5 AS id, 'x' AS carrier, 1 AS price) FROM m(5)": (),
        "WITH w AS (FROM m(5)) SELECT count(*) FROM w": (1,),
        "SELECT id FROM m(5) UNION ALL SELECT id FROM m(6)": (1, 1),
        "SELECT id FROM m /* of */ (5)": (1,),
    },
    "m(low, high) AS TABLE WITH w AS (FROM flights WHERE id >= low), v AS (FROM w WHERE id < high) SELECT count(*), max(id) FROM v": {
        "FROM m(100, 150)": (1,),
        "FROM m(100, high := 150)": (1,),
        "FROM m(high := 150, low := 100)": (1,),
    },
    "m(x) AS TABLE SELECT id FROM flights WHERE id = x, (x, y) AS TABLE SELECT id, carrier FROM flights WHERE id IN (x, y)": {
        "FROM m(5)": (1,),
        "FROM m(5, 60)": (2,),
        "FROM m(y := 5, x := 60)": (2,),
    },
    "m(id) AS TABLE SELECT id, flights.id FROM flights WHERE flights.id = id": {"FROM m(5)": (1,)},
    "m(x) AS TABLE SELECT id, list_transform(extra.tags, lambda y: y + x) FROM flights WHERE id = x": {
        "FROM m(5)": (1,)
    },
    "m(x) AS TABLE SELECT id, carrier FROM flights WHERE id < 60 ORDER BY x DESC, id LIMIT x": {
        "FROM m(2)": (2,)
    },
    "m(x) AS TABLE SELECT id FROM flights WHERE id = x UNION ALL SELECT id + x FROM flights WHERE id = x": {
        "FROM m(3)": (1, 1),
        "CREATE OR REPLACE TABLE made AS FROM m(3); SELECT * FROM made": (1, 1),
    },
    "m(x) AS TABLE SELECT f.id, a.name FROM flights f JOIN airports a ON f.id = a.flight WHERE a.zone_no = x": {
        "FROM m(1)": (12, 1),
        "SELECT * FROM m(1) WHERE id < 60": (2, 1),
    },
    "m(x) AS TABLE SELECT id FROM flights WHERE id IN (SELECT x) AND EXISTS (SELECT 1 FROM airports a WHERE a.flight = x)": {
        "FROM m(5)": (1, 1)
    },
    "m(x) AS TABLE SELECT * REPLACE (id + x AS id) FROM flights WHERE id < x": {"SELECT id FROM m(40)": (1,)},
    "m(x) AS TABLE SELECT id, row_number() OVER (ORDER BY id + x) FROM flights WHERE id < 70 QUALIFY row_number() OVER (ORDER BY id) = x": {
        "FROM m(3)": (2,)
    },
    "m(x) AS TABLE SELECT id % x, count(*) FROM flights WHERE id < 70 GROUP BY id % x HAVING count(*) > x": {
        "FROM m(3)": (2,)
    },
    'm("a param") AS TABLE SELECT id, \'a param\' FROM flights WHERE id = "a param"': {
        "FROM m(2)": (1,),
        'FROM m("a param" := 60)': (1,),
    },
    "flights(x) AS TABLE FROM flights WHERE id = x": {
        "SELECT id FROM flights(5)": (1,),
        "SELECT count(*) FROM flights": (12,),
    },
    "m(unused) AS TABLE SELECT id FROM flights WHERE id = 5": {"FROM m(no_column)": (1,)},
    "m(x) AS TABLE SELECT id, t FROM flights, unnest(extra.tags) AS u(t) WHERE id = x": {"FROM m(5)": (1,)},
}


if BEFORE_2:  # which reads a comma after a query as one of its FROM
    MACROS = {macro: calls for macro, calls in MACROS.items() if ", (x, y) AS TABLE" not in macro}


@pytest.mark.rewriting
@pytest.mark.sampled(16)
@pytest.mark.parametrize("macro", MACROS)
def test_a_call_is_the_query_with_its_arguments(compared: Compared, macro: str) -> None:
    compared.both(f"CREATE MACRO {macro}")
    for statements, kept in MACROS[macro].items():
        *before, last = statements.split("; ")
        compared.pruned.last_plans.clear()
        for each in before:
            compared.both(each)
        read = tuple(scan.kept for scan in compared.pruned.last_plans)
        for _ in range(2):
            assert read + compared.kept(last) == kept
            names = [_names(connection, last) for connection in (compared.pruned, compared.full)]
            assert names[0] == names[1]


def _names(connection: Any, sql: str) -> list[str]:
    described = connection.execute(sql).description
    connection.fetchall()
    return [each[0] for each in described]


@pytest.mark.slow
def test_parameters_and_prepared_statements(compared: Compared) -> None:
    compared.both("CREATE MACRO m(x) AS TABLE SELECT id FROM flights WHERE id = x OR id = x + 100")
    assert compared.kept("FROM m(?)", [5]) == (2,)
    assert compared.kept("SELECT ?, * FROM m(?) WHERE id < ?", [7, 5, 50]) == (1,)
    assert compared.kept("FROM m($a) WHERE id < $b", {"a": 5, "b": 50}) == (1,)
    compared.both("PREPARE p AS SELECT * FROM m($1)")
    assert compared.kept("EXECUTE p(5)") == (2,)
    compared.both("CREATE MACRO second(x, y) AS TABLE SELECT id FROM flights WHERE id = y")
    assert compared.kept("FROM second(?, 7)", [5]) == (1,)
    assert compared.kept("FROM second(?, ?) WHERE id < ? LIMIT ?", [5, 7, 50, 9]) == (1,)
    assert compared.kept("FROM second($a, $b)", {"a": 5, "b": 7}) == (1,)
    for values in ([5, 7], {"a": 5}):
        with pytest.raises(duckdb.InvalidInputException, match="excess|were not provided"):
            compared.pruned.execute("FROM second(?, 7)", values)
    relation = compared.pruned.sql("FROM m(5)")
    assert sorted(relation.fetchall()) == [(5,), (105,)]


@pytest.mark.slow
@pytest.mark.rewriting
def test_macros_and_views_that_read_each_other(compared: Compared) -> None:
    compared.both("CREATE MACRO m(x) AS TABLE SELECT * FROM flights WHERE id < x")
    compared.both("CREATE MACRO n(x, y) AS TABLE SELECT id, carrier FROM m(x * 10) WHERE id > y")
    compared.both("CREATE VIEW early AS SELECT id FROM n(10, 60)")
    compared.both("CREATE MACRO o(x) AS TABLE SELECT * FROM early WHERE id = x")
    assert compared.kept("FROM n(10, 60)") == (1,)
    assert compared.kept("SELECT count(*) FROM early") == (1,)
    assert compared.kept("FROM o(70)") == (1,)
    assert compared.kept("SELECT count(*) FROM o(70) a JOIN early b USING (id)") == (1, 1)
    with pytest.raises(PrunerError, match="macro o reads flights, and a WITH of the statement has that name"):
        compared.pruned.execute("WITH flights AS (SELECT 1) FROM o(70), flights")
    compared.both("CREATE MACRO small(x) AS x < 50")
    compared.both("CREATE MACRO s(x) AS TABLE SELECT id FROM flights WHERE small(id) AND id > x")
    assert compared.kept("FROM s(40)") == (1,)


@pytest.mark.slow
def test_a_macro_that_changes_means_its_new_text(compared: Compared) -> None:
    compared.both("CREATE MACRO m(x) AS TABLE SELECT id FROM flights WHERE id = x")
    assert compared.kept("FROM m(5)") == (1,)
    compared.both("CREATE OR REPLACE MACRO m(x) AS TABLE SELECT id FROM flights WHERE id > 590 - x")
    assert compared.kept("FROM m(5)") == (1,)
    compared.both("CREATE TEMP MACRO m(x) AS TABLE SELECT id, 'temp' FROM flights WHERE id = x")
    assert compared.kept("FROM m(5)") == (1,)
    assert compared.kept("FROM main.m(5)") == (1,)
    compared.both("DROP MACRO TABLE m")
    assert compared.kept("FROM m(5)") == (1,)
    compared.both("DROP MACRO TABLE m")
    for connection in (compared.pruned, compared.full):
        with pytest.raises(duckdb.CatalogException, match="name m does not exist"):
            connection.execute("FROM m(5)")
    compared.both("CREATE MACRO m(x) AS TABLE SELECT x AS id")
    assert compared.kept("FROM m(5)") == ()


@pytest.mark.slow
def test_another_handle_of_the_database(roots: dict[str, Path], tmp_path: Path) -> None:
    file = str(tmp_path / "some.duckdb")
    tables = {"flights": indexed(roots["flights"])}
    with pruner_duckdb.connect(tables, database=file) as con:
        con.execute("CREATE MACRO m(x) AS TABLE SELECT id FROM flights WHERE id = x")
        con.execute("CREATE VIEW v AS FROM m(7)")
        assert con.execute("FROM m(5)").fetchall() == [(5,)]
    with (
        duckdb.connect(file) as plain,
        pytest.raises(duckdb.CatalogException, match="flights does not exist"),
    ):
        plain.execute("FROM m(5)")
    for how in ("execute", "sql"):
        with pruner_duckdb.connect(tables, database=file) as con:
            assert getattr(con, how)("FROM m(5)").fetchall() == [(5,)]
            assert getattr(con, how)("FROM v").fetchall() == [(7,)]
            assert {scan.kept for scan in con.last_plans} == {1}
    native = duckdb.connect(file)
    with pruner_duckdb.attach(native.cursor(), tables) as con:
        assert con.execute("FROM m(5)").fetchall() == [(5,)]
        native.execute("CREATE TEMP TABLE flights AS SELECT 5 AS id")
        native.execute("CREATE OR REPLACE MACRO m(x) AS TABLE SELECT id, 'new' FROM flights WHERE id = x")
        native.execute("DROP TABLE flights")
        assert con.execute("FROM m(60)").fetchall() == [(60, "new")]
        native.execute("DROP MACRO TABLE m")
        with pytest.raises(duckdb.CatalogException, match="m does not exist"):
            con.execute("FROM m(60)")


@pytest.mark.slow
@pytest.mark.rewriting
def test_macros_that_read_other_things_are_duckdbs(tmp_path: Path) -> None:
    """A table whose name is part of other words made every macro with default values be refused."""
    table = indexed(write_tree(tmp_path / "t", {"a.parquet": "SELECT 1 AS id"}))
    with pruner_duckdb.connect({"t": table}) as con:
        con.execute("CREATE MACRO given(a, b := 5) AS TABLE SELECT a + b AS title")
        assert con.execute("FROM given(1)").fetchall() == [(6,)]
        with pytest.raises(PrunerError, match="cannot have parameters with types or defaults"):
            con.execute('CREATE MACRO mine(a, b := 5) AS TABLE SELECT a + b FROM "T"')
        con.execute("CREATE VIEW v AS FROM t")
        with pytest.raises(PrunerError, match="cannot have parameters with types or defaults"):
            con.execute("CREATE MACRO mine(a, b := 5) AS TABLE SELECT a + b FROM v")


@pytest.mark.slow
def test_a_transaction_that_begins_with_the_macro_of_an_earlier_session(
    roots: dict[str, Path], tmp_path: Path
) -> None:
    """DuckDB 2.0 aborts a transaction in which a table is missing: no retry is possible in it."""
    file, tables = str(tmp_path / "some.duckdb"), {"flights": indexed(roots["flights"])}
    with pruner_duckdb.connect(tables, database=file) as con:
        con.execute("CREATE MACRO m(x) AS TABLE SELECT id FROM flights WHERE id = x")
    with pruner_duckdb.connect(tables, database=file) as con:
        con.execute("BEGIN")
        refusal = pytest.raises(
            PrunerError, match="table flights has ended the transaction: call a macro .* before BEGIN"
        )
        with nullcontext() if BEFORE_2 else refusal:
            assert con.execute("FROM m(5)").fetchall() == [(5,)]
        con.execute("ROLLBACK")
        assert con.execute("FROM m(5)").fetchall() == [(5,)]
        con.execute("BEGIN")
        assert con.execute("FROM m(7)").fetchall() == [(7,)]
        con.execute("COMMIT")


@pytest.mark.slow
def test_files_that_come_later_are_read(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "t", {"a.parquet": "SELECT 1 AS id", "b.parquet": "SELECT 2 AS id"})
    table = indexed(root)
    with pruner_duckdb.connect({"t": table}) as con:
        con.execute("CREATE MACRO m(x) AS TABLE SELECT id FROM t WHERE id >= x")
        relation = con.sql("FROM m(2)")
        assert relation.fetchall() == [(2,)]
        write_tree(tmp_path / "t", {"c.parquet": "SELECT 3 AS id"})
        assert sorted(relation.fetchall()) == [(2,), (3,)]
        assert sorted(con.execute("FROM m(2)").fetchall()) == [(2,), (3,)]


REFUSED = {
    "CREATE MACRO m(x, y := 5) AS TABLE FROM flights WHERE id IN (x, y)": "cannot have parameters with types or defaults",
    "CREATE MACRO m(x) AS TABLE PIVOT flights ON carrier IN ('a') USING max(id + x)": "cannot contain a PIVOT",
    "CREATE MACRO m(x) AS TABLE SELECT list_transform(extra.tags, lambda x: x + 1) FROM flights": "a lambda|no lambda",
    "CREATE MACRO m(x) AS TABLE SELECT x.upper() FROM flights": "a method of a parameter",
    "CREATE MACRO m(x) AS (SELECT max(id) FROM flights WHERE id < x)": "a macro that returns a value",
}
if not BEFORE_2:  # which has neither parameter types nor ORDINALITY
    REFUSED["FROM known(5) WITH ORDINALITY"] = (
        "macro known reads table flights, and this call of it is not understood"
    )
    REFUSED["CREATE MACRO m(x INTEGER) AS TABLE FROM flights WHERE id = x"] = (
        "cannot have parameters with types"
    )


@pytest.mark.sampled(7)
@pytest.mark.rewriting
@pytest.mark.parametrize("sql", REFUSED)
def test_what_is_not_understood_is_refused(compared: Compared, sql: str) -> None:
    compared.pruned.execute("CREATE MACRO known(x) AS TABLE FROM flights WHERE id = x")
    with pytest.raises(PrunerError, match=REFUSED[sql]):
        compared.pruned.execute(sql)
    # Nothing of it remains, and the session goes on.
    assert compared.pruned.execute("SELECT count(*) FROM known(5)").fetchall() == [(1,)]
    left = "SELECT count(*) FROM duckdb_functions() WHERE function_name = 'm' AND NOT internal"
    assert compared.pruned.execute(left).fetchall() == [(0,)]


@pytest.mark.slow
def test_mistakes_are_duckdbs(compared: Compared) -> None:
    compared.both("CREATE MACRO m(x) AS TABLE SELECT id FROM flights WHERE id = x")
    for sql in (
        "FROM m()",
        "FROM m(1, 2)",
        "FROM m(y := 1)",
        "FROM m(nothing)",
        "SELECT nothing FROM m(1)",
        "FROM m(1",
    ):
        told: list[str] = []
        for connection in (compared.pruned, compared.full):
            with pytest.raises(duckdb.Error) as caught:
                connection.execute(sql)
            told.append(str(caught.value).split("\n", 1)[0])
        assert told[0] == told[1]


def test_macros_over_other_tables_are_left_to_duckdb(compared: Compared) -> None:
    compared.both("CREATE TABLE own AS SELECT range AS id FROM range(9)")
    compared.both("CREATE MACRO m(x, y := 7) AS TABLE SELECT id FROM own WHERE id BETWEEN x AND y")
    assert compared.kept("FROM m(5)") == ()
    assert compared.kept("SELECT m.id FROM m(5, y := 6) m JOIN flights f ON f.id = m.id WHERE f.id < 50") == (
        1,
    )


def test_forms_of_a_macro() -> None:
    assert forms_created(
        'CREATE OR REPLACE TEMP MACRO m(a, "B b") AS TABLE SELECT (a), b, (c) AS table_; '
    ) == [(("a", "b b"), " SELECT (a), b, (c) AS table_")]
    assert forms_created(
        "create function s.m() as table from t where f(x := 1), (a, b := 2) as table from u"
    ) == [
        ((), " from t where f(x := 1)"),
        (None, " from u"),
    ]
    assert forms_created("CREATE MACRO m(a) AS a + 1") == []
    assert forms_created("CREATE TABLE m AS TABLE t") == []


def test_arguments_take_the_place_of_names_that_stand_alone() -> None:
    con = duckdb.connect()

    def tree_of(text: str) -> object:
        import json

        return json.loads(con.execute("SELECT json_serialize_sql(?)", [text]).fetchall()[0][0])

    text = "SELECT x, t.x, \"X\", 'x', x + 1 AS x, f(x := x) FROM t x WHERE x IN (SELECT X FROM x)"
    assert with_arguments(text, {"x": "1 -- 2\n"}, tree_of) == (
        "SELECT (1 -- 2\n), t.x, (1 -- 2\n), 'x', (1 -- 2\n) + 1 AS x, f(x := (1 -- 2\n)) FROM t x "
        "WHERE (1 -- 2\n) IN (SELECT (1 -- 2\n) FROM x)"
    )
    assert with_arguments("SELECT 1; SELECT 2", {}, tree_of) is None
    assert with_arguments("no query", {}, tree_of) is None


IN_BRACKETS = (
    "(SELECT id FROM flights ORDER BY id LIMIT 5) ORDER BY id DESC LIMIT 3",
    "((FROM flights SELECT id ORDER BY id LIMIT 9)) ORDER BY 1 OFFSET 7",
    "((SELECT id FROM flights WHERE id < 70) ORDER BY id LIMIT 5) ORDER BY id DESC LIMIT 3",
    "SELECT * FROM ((SELECT id FROM flights ORDER BY id LIMIT 5) ORDER BY id DESC LIMIT 3) z ORDER BY id LIMIT 2",
    "WITH c AS ((SELECT id FROM flights ORDER BY id LIMIT 5) ORDER BY id DESC LIMIT 3) FROM c ORDER BY id",
    "((SELECT id FROM flights WHERE id = 5) UNION ALL (SELECT id FROM flights WHERE id = 9)) ORDER BY id DESC LIMIT 1",
    "(SELECT id FROM flights WHERE id = 5) UNION ALL (SELECT id FROM flights WHERE id = 9) ORDER BY id DESC LIMIT 1",
    "(SELECT list(id ORDER BY id) AS ids FROM (SELECT id FROM flights WHERE id < 5)) OFFSET 0",
)
"""DuckDB writes such a query into its catalog without the parentheses."""
if BEFORE_2:  # which refuses an ORDER BY over an ORDER BY
    IN_BRACKETS = tuple(query for query in IN_BRACKETS if "UNION" in query or query.endswith("OFFSET 0"))


@pytest.mark.sampled(18)
@pytest.mark.parametrize("kind", ["VIEW defined", "MACRO defined() AS TABLE"])
@pytest.mark.parametrize("query", IN_BRACKETS)
def test_a_definition_in_brackets_with_an_order_is_read_back(
    compared: Compared, kind: str, query: str
) -> None:
    create = f"CREATE {kind} {query}" if kind.startswith("MACRO") else f"CREATE {kind} AS {query}"
    compared.both(create)
    call = "FROM defined()" if kind.startswith("MACRO") else "FROM defined"
    assert compared.pruned.sql(call).fetchall() == compared.full.execute(call).fetchall()
