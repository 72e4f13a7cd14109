"""User-defined macros: those that are expressions of their parameters prune like these expressions, the content of
others is left to DuckDB, and no definition is used after the session has dropped or replaced it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from pruner_duckdb.shadow import macros
from tests.engines.duckdb.duckdb_tables import FLIGHTS_FILES, Compared, indexed, oracle, write_flights
from tests.support.running.profiles import IS_BRIEF

ALL = (FLIGHTS_FILES,)


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_flights(tmp_path_factory.mktemp("macros") / "flights")


@pytest.fixture
def compared(flights: Path) -> Iterator[Compared]:
    pruned = pruner_duckdb.connect({"flights": indexed(flights)})
    with pruned:
        compared = Compared(pruned, oracle({"flights": flights}))
        compared.both("SET TimeZone = 'UTC'")
        yield compared


LOOKED_THROUGH = {
    "CREATE MACRO small(x) AS x < 50": ("small(id)", "id < 50"),
    "CREATE TEMP MACRO small(x) AS x < 50": (
        "Small(id) AND small(id - 10)",
        "id < 50 AND id - 10 < 50",
    ),
    'CREATE MACRO "Small One"(x) AS x < 50': ('"small one"(id)', "id < 50"),
    "CREATE MACRO small(x) AS x < 50, (x, y) AS x < y": (
        "small(id, 70) AND small(id)",
        "id < 70 AND id < 50",
    ),
    "CREATE MACRO among(x, a, b) AS x BETWEEN a AND b": ("among(id, 60, b := 70)", "id BETWEEN 60 AND 70"),
    "CREATE MACRO loud(x) AS upper(left(x, 20))": (
        "loud(carrier) = 'C03A'",
        "upper(left(carrier, 20)) = 'C03A'",
    ),
    "CREATE MACRO kind(x) AS CASE WHEN x < 50 THEN 'low' ELSE 'high' END": (
        "kind(id) = 'low' AND id < 60",
        "CASE WHEN id < 50 THEN 'low' ELSE 'high' END = 'low' AND id < 60",
    ),
    "CREATE MACRO a_day(x) AS x::DATE": ("a_day(ts) = DATE '2024-01-03'", "ts::DATE = DATE '2024-01-03'"),
    'CREATE MACRO ends("user") AS "user" < 50': ("ends(id)", "id < 50"),
    "CREATE MACRO one_of(x) AS x IN (7, 60)": ("one_of(id)", "id IN (7, 60)"),
    "CREATE MACRO chosen(x) AS x IS NOT NULL AND NOT x > 49": ("chosen(id)", "NOT id > 49"),
}


@pytest.mark.rewriting
@pytest.mark.sampled(12)
@pytest.mark.parametrize("macro", LOOKED_THROUGH)
def test_a_macro_prunes_as_if_its_body_were_inlined(compared: Compared, macro: str) -> None:
    called, written = LOOKED_THROUGH[macro]
    compared.both(macro)
    wanted = compared.kept(f"SELECT count(*), min(id) FROM flights WHERE {written}")
    for _ in range(3):
        assert compared.kept(f"SELECT count(*), min(id) FROM flights WHERE {called}") == wanted
        assert compared.reasons() == [None]
    assert wanted < ALL


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_macro_of_macros_and_one_that_aggregates(compared: Compared) -> None:
    compared.both("CREATE MACRO doubled(x) AS x * 2")
    compared.both("CREATE MACRO small(x) AS doubled(x) < 100")
    compared.both("CREATE MACRO share(x) AS round(100 * sum(x::INT) FILTER (x IS NOT NULL) / count(*), 2)")
    wanted = compared.kept("SELECT count(*) FROM flights WHERE id * 2 < 100")
    for _ in range(2):
        assert compared.kept("SELECT share(id < 20), max(doubled(id)) FROM flights WHERE small(id)") == wanted
        compared.kept("SELECT doubled(id // 10) AS d, share(id < 20) FROM flights GROUP BY doubled(id // 10)")
        assert compared.reasons() == [None]


LEFT_TO_DUCKDB = {
    "CREATE MACRO m(x) AS x < (SELECT max(a) FROM wanted)": "m(id)",
    "CREATE MACRO m(x) AS x IN (SELECT a FROM wanted)": "m(id)",
    "CREATE MACRO m(x) AS x < getvariable('v')": "m(id)",
    "CREATE MACRO m(x) AS getvariable('v' || x[2:]) = 50": "m('v') AND id < 10",
    "CREATE MACRO m(x) AS x < now()": "m(seen) AND id < 10",
    "CREATE MACRO m(x) AS len(list_filter([x, 3], lambda y: y < 50)) = 2": "m(id)",
    "CREATE MACRO m(x) AS x < nextval('s') + 1000": "m(id)",
    "CREATE MACRO m(x) AS x.id < 50": "m(flights)",
    "CREATE MACRO m(x) AS x::kind < 'b'": "m(carrier[1:1]) IS NULL OR id < 5",
    "CREATE MACRO m(x, y := 50) AS x < y": "m(id)",
    "CREATE MACRO m(x) AS current_schema() = x": "m('main') AND id < 5",
}


@pytest.mark.rewriting
@pytest.mark.sampled(12)
@pytest.mark.parametrize("macro", LEFT_TO_DUCKDB)
def test_a_macro_that_is_more_than_an_expression_prunes_nothing(compared: Compared, macro: str) -> None:
    compared.both("CREATE TABLE wanted AS SELECT unnest([3, 7, 60]) AS a")
    compared.both("CREATE TYPE kind AS ENUM ('C', 'b')")
    compared.both("SET VARIABLE v = 50")
    compared.both("CREATE SEQUENCE s")
    compared.both(macro)
    for value in (50, 300):
        compared.both(f"SET VARIABLE v = {value}")
        compared.both(f"INSERT INTO wanted VALUES ({value})")
        for _ in range(2):
            assert compared.kept(f"SELECT count(*) FROM flights WHERE {LEFT_TO_DUCKDB[macro]}") == ALL
            assert None not in compared.reasons()


@pytest.mark.slow
def test_a_macro_named_like_a_function_inside_of_another_one(compared: Compared) -> None:
    compared.both("CREATE MACRO loud(x) AS upper(x)")
    statement = "SELECT count(*) FROM flights WHERE loud(carrier) = 'C03A'"
    for _ in range(3):
        assert compared.kept(statement) < ALL
    compared.both("CREATE MACRO upper(x) AS 'C03A'")
    for _ in range(3):
        assert compared.kept(statement) == ALL
    compared.both("DROP MACRO upper")
    assert compared.kept(statement) < ALL


CHANGES = [
    "CREATE OR REPLACE MACRO small(x) AS x < 150",
    "CREATE OR REPLACE MACRO small(x) AS x > 550",
    "CREATE OR REPLACE MACRO limit_of() AS 250",
    "CREATE OR REPLACE MACRO small(x) AS x < limit_of()",
    "CREATE OR REPLACE MACRO limit_of() AS 350",
    "CREATE TEMP MACRO limit_of() AS 450",
    "CREATE TEMP MACRO small(x) AS x = 451",
    "DROP MACRO temp.main.small",
    "DROP MACRO temp.main.limit_of",
    "CREATE SCHEMA other",
    "CREATE MACRO other.small(x) AS x = 7",
    "SET search_path = 'other,main,lake'",
    "DROP MACRO other.small",
    "SET search_path = 'main,lake'",
    "CREATE OR REPLACE MACRO small(x) AS x < (SELECT 50)",
    "CREATE OR REPLACE MACRO small(x) AS x < 50",
    "BEGIN",
    "CREATE OR REPLACE MACRO small(x) AS x > 500",
    "ROLLBACK",
    "DROP MACRO small",
    "CREATE MACRO small(y) AS y + 1 < 50",
    "CREATE OR REPLACE MACRO small(x) AS false",
    "CREATE OR REPLACE MACRO small(x) AS true",
]


@pytest.mark.slow
@pytest.mark.parametrize("handle", ["adapter", "native", "cursor", "its own"])
def test_each_change_of_a_macro_is_met_by_the_next_statement(
    compared: Compared, flights: Path, handle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(macros, "SECONDS_IN_VAIN", 0.0)
    own = duckdb.connect()
    pruned = compared.pruned
    if handle == "its own":
        pruned = pruner_duckdb.attach(own, {"flights": indexed(flights)})
    compared = Compared(pruned, compared.full)
    changed = {"native": pruned.native, "cursor": pruned.native.cursor(), "its own": own}.get(handle, pruned)
    also = compared.full.cursor() if handle == "cursor" else compared.full
    compared.both("CREATE MACRO small(x) AS x < 50")
    statements = (
        "SELECT count(*), min(id) FROM flights WHERE small(id)",
        "SELECT small(id) AS s, count(*) FROM flights WHERE NOT small(id) GROUP BY 1 ORDER BY 1",
        "SELECT count(*) FROM flights a JOIN flights b ON a.id = b.id AND small(b.id) WHERE a.id < 500",
    )
    for number, change in enumerate(["SELECT 1", *CHANGES]):
        for connection in (changed, also):
            try:
                connection.execute(change)
            except duckdb.Error:
                continue
        asked = (statements[number % len(statements)],) if IS_BRIEF else statements
        for sql in asked * 2:
            assert _outcome(pruned, sql) == _outcome(compared.full, sql), (sql, change)


def _outcome(con: Any, sql: str) -> object:
    try:
        return con.execute(sql).fetchall()
    except duckdb.Error as error:
        return type(error).__name__


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_macro_of_the_same_name_in_another_database(flights: Path) -> None:
    table = indexed(flights)
    counts: list[list[tuple[int, int]]] = []
    with pruner_duckdb.connect({"flights": table}) as one, pruner_duckdb.connect({"flights": table}) as other:
        one.execute("CREATE MACRO small(x) AS x < 50")
        other.execute("CREATE MACRO small(x) AS x < 70")
        for _ in range(3):
            for con in (one, other):
                found = con.execute("SELECT count(*) FROM flights WHERE small(id)").fetchall()
                counts.append([(found[0][0], con.last_plans[-1].kept)])
    assert counts == [[(50, 1)], [(70, 2)]] * 3


@pytest.mark.slow
def test_macros_of_a_file_that_was_opened_again(flights: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "own.duckdb")
    with duckdb.connect(path) as con:
        con.execute("CREATE MACRO  small ( x )  AS  x  <  50")
    with pruner_duckdb.connect({"flights": indexed(flights)}, path) as con:
        for _ in range(3):
            assert con.execute("SELECT count(*) FROM flights WHERE small(id)").fetchall() == [(50,)]
            assert con.last_plans[-1].kept == 1


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_statement_that_prunes_nothing_is_not_planned_again(compared: Compared) -> None:
    compared.both("CREATE TABLE wanted AS SELECT 50 AS a")
    compared.both("CREATE MACRO m(x) AS x < (SELECT max(a) FROM wanted)")
    plans: list[object] = []
    for _ in range(3):
        assert compared.kept("SELECT count(*) FROM flights WHERE m(id)") == ALL
        plans.append(compared.pruned.last_plans[-1].plan)
    assert plans[1] is plans[2]
    compared.both("CREATE OR REPLACE MACRO m(x) AS x < 50")
    assert compared.kept("SELECT count(*) FROM flights WHERE m(id)") < ALL


@pytest.mark.slow
@pytest.mark.rewriting
def test_functions_are_listed_seldom(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    listed: list[str] = []
    listing = macros._LIST  # pyright: ignore[reportPrivateUsage]
    compared.both("CREATE MACRO m(x) AS x < (SELECT 50)")
    compared.both("CREATE MACRO small(x) AS x < 50")
    method = type(compared.pruned._runner.method(lazy=False))  # pyright: ignore[reportPrivateUsage]
    plain = method.first_row

    def first_row(self: object, sql: object, parameters: list[object]) -> object:
        listed.extend(["listed"] * (sql == listing))
        return plain(self, sql, parameters)  # type: ignore[arg-type]  # pyright: ignore

    monkeypatch.setattr(method, "first_row", first_row)
    for number in range(3):
        compared.kept(f"SELECT count(*) FROM flights WHERE small(id) AND id <> {number}")
    assert len(listed) == 1
    for number in range(3):
        compared.kept(f"SELECT count(*) FROM flights WHERE m(id) AND id <> {number}")
    assert len(listed) == 2
