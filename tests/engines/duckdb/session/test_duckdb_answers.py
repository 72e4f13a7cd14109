"""A session is asked again only after something that may have changed its answer: counted in questions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pruner_duckdb
from pruner_duckdb.shadow.answers import AnswerCache, DatabaseChanges
from tests.engines.duckdb.duckdb_tables import FLIGHTS_FILES, indexed, write_flights
from tests.engines.duckdb.session.duckdb_questions import Questions

SMALL = "SELECT count(*) FROM flights WHERE id < 60 AND upper(carrier) >= 'C'"
JOIN = "SELECT count(*) FROM flights a JOIN flights b USING (id) WHERE a.id < 60"


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_flights(tmp_path_factory.mktemp("answers") / "flights")
    indexed(root)
    return root


@pytest.fixture
def con(flights: Path) -> Iterator[pruner_duckdb.Connection]:
    with pruner_duckdb.connect({"flights": indexed(flights)}) as con:
        con.execute("SET TimeZone = 'UTC'")
        yield con


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Questions:
    return Questions(monkeypatch)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sql", [SMALL, JOIN])
def test_statements_that_change_nothing_ask_nothing_again(
    con: pruner_duckdb.Connection, questions: Questions, sql: str
) -> None:
    con.execute(sql).fetchall()
    # One question for all scans, once the table's shape is known.
    assert questions.of(con, sql.replace("60", "61")) <= 1
    assert questions.of(con, sql) == 0
    assert questions.of(con, sql.replace("60", "62")) == 0
    assert len(con.sql(sql).fetchall()) == 1
    assert con.sql(sql).filter("true").columns
    assert con.description
    assert questions.of(con, sql) == 0
    assert con.last_plans[-1].kept == 2


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "before", ["EXPLAIN ", "explain analyze ", "EXPLAIN (FORMAT JSON) ", "EXPLAIN /* a */ "]
)
def test_what_explains_a_statement_asks_nothing_again(
    con: pruner_duckdb.Connection, questions: Questions, before: str
) -> None:
    con.execute(SMALL).fetchall()
    for sql in (SMALL, f"WITH few AS (FROM flights WHERE id < 60) {JOIN.replace('flights a', 'few a')}"):
        for _ in range(2):
            con.execute(before + sql).fetchall()
            assert con.last_plans[-1].reason is None
        assert questions.of(con, before + sql + ";") == 0
        assert len(con.sql(before + sql).fetchall()[0]) == 2
        assert con.sql(before + sql).columns == ["explain_key", "explain_value"]
        assert questions.of(con, before + sql) == 0


@pytest.mark.rewriting
def test_what_explains_a_change_is_met_like_one(con: pruner_duckdb.Connection, questions: Questions) -> None:
    con.execute(SMALL).fetchall()
    con.execute("EXPLAIN ANALYZE CREATE TEMP TABLE few AS SELECT * FROM flights WHERE id < 60").fetchall()
    assert questions.of(con, SMALL) == 1
    con.execute("EXPLAIN ANALYZE CREATE TEMP TABLE flights AS FROM few WHERE id < 7").fetchall()
    assert con.execute(SMALL).fetchall() == [(7,)]


@pytest.mark.rewriting
def test_a_statement_by_the_clock_asks_for_the_moment_alone(
    con: pruner_duckdb.Connection, questions: Questions
) -> None:
    sql = "SELECT count(*) FROM flights WHERE seen > now() - INTERVAL 1 DAY"
    con.execute(sql).fetchall()
    con.execute(sql).fetchall()
    assert questions.of(con, sql) == 1
    assert "now()" in questions[0][0]


@pytest.mark.slow
def test_a_view_over_tables_is_looked_up_once(con: pruner_duckdb.Connection, questions: Questions) -> None:
    con.execute("CREATE VIEW few AS SELECT * FROM flights WHERE id < 60")
    sql = "SELECT count(*) FROM few"
    con.execute(sql).fetchall()
    con.execute(sql).fetchall()
    assert questions.of(con, sql) == 0
    con.execute("CREATE OR REPLACE VIEW few AS SELECT * FROM flights WHERE id < 7")
    assert con.execute(sql).fetchall() == [(7,)]


THROUGH: dict[str, Callable[[Any, str], Any]] = {
    "execute": lambda con, sql: con.execute(sql),
    "sql": lambda con, sql: con.sql(sql),
    "several": lambda con, sql: con.execute(f"SELECT count(*) FROM flights; {sql}"),
    "executemany": lambda con, sql: con.executemany(sql, [[]]),
    "cursor": lambda con, sql: con.cursor().execute(sql),
    "native": lambda con, sql: con.native.execute(sql),
    "native of a cursor": lambda con, sql: con.cursor().native.execute(sql),
    "statement": lambda con, sql: con.execute(con.extract_statements(sql)[0]),
    "relation": lambda con, sql: con.sql("SELECT 1 AS x").query("r", sql),
    "lazy relation": lambda con, sql: con.sql("FROM flights").limit(1).native().query("r", sql),
    "method of a lazy relation": lambda con, sql: con.sql("SELECT id FROM flights LIMIT 1").query("r", sql),
}


@pytest.mark.rewriting
@pytest.mark.sampled(12)
@pytest.mark.parametrize("way", THROUGH)
def test_a_macro_made_in_any_way_is_met(con: pruner_duckdb.Connection, way: str) -> None:
    assert [con.execute(SMALL).fetchall() for _ in range(3)] == [[(60,)]] * 3
    THROUGH[way](con, "CREATE MACRO upper(x) AS 'A'")
    assert con.execute(SMALL).fetchall() == [(0,)]
    assert con.last_plans[-1].kept == FLIGHTS_FILES
    THROUGH[way](con, "DROP MACRO upper")
    assert con.execute(SMALL).fetchall() == [(60,)]


def test_a_handle_that_was_kept_is_met_whenever_it_changes_something(con: pruner_duckdb.Connection) -> None:
    kept = con.native
    for number in range(3):
        assert con.execute(SMALL).fetchall() == [(60,)]
        kept.execute(f"CREATE MACRO upper(x) AS 'A{number}'")
        assert con.execute(SMALL).fetchall() == [(0,)]
        kept.execute("DROP MACRO upper")


@pytest.mark.slow
def test_methods_of_the_connection_are_met(con: pruner_duckdb.Connection) -> None:
    for _ in range(2):
        assert con.execute(SMALL).fetchall() == [(60,)]
    con.begin().execute("CREATE TEMP TABLE flights AS SELECT 1 AS id, 'Z' AS carrier")
    assert con.execute(SMALL).fetchall() == [(1,)]
    con.rollback()
    assert con.execute(SMALL).fetchall() == [(60,)]
    con.register("flights", pa.table({"id": [2], "carrier": ["Z"]}))
    assert con.execute(SMALL).fetchall() == [(1,)]
    con.unregister("flights")
    assert con.execute(SMALL).fetchall() == [(60,)]
    con.create_function("is_first", lambda x: x < 1, [int], bool)
    assert con.execute("SELECT count(*) FROM flights WHERE is_first(id)").fetchall() == [(1,)]
    con.create_function("small", lambda x: x < 1, [int], bool)
    assert con.execute(SMALL).fetchall() == [(60,)]


@pytest.mark.slow
def test_a_session_that_others_may_change_is_asked_each_time(flights: Path, questions: Questions) -> None:
    own = duckdb.connect()
    with pruner_duckdb.attach(own, {"flights": indexed(flights)}) as con:
        for _ in range(3):
            con.execute(SMALL).fetchall()
        assert questions.of(con, SMALL) == 1
        own.execute("CREATE MACRO upper(x) AS 'A'")
        assert con.execute(SMALL).fetchall() == [(0,)]


@pytest.mark.slow
def test_a_file_that_another_handle_may_open_is_asked_each_time(flights: Path, tmp_path: Path) -> None:
    path = str(tmp_path / "own.duckdb")
    with pruner_duckdb.connect({"flights": indexed(flights)}, path) as con:
        for _ in range(3):
            assert con.execute(SMALL).fetchall() == [(60,)]
        with duckdb.connect(path) as other:
            other.execute("CREATE MACRO upper(x) AS 'A'")
        assert con.execute(SMALL).fetchall() == [(0,)]


@pytest.mark.rewriting
def test_databases_that_others_may_change_are_asked_each_time(
    con: pruner_duckdb.Connection, questions: Questions, tmp_path: Path
) -> None:
    con.execute(f"ATTACH '{tmp_path}/own.duckdb' AS own")
    for _ in range(3):
        con.execute(SMALL).fetchall()
    assert questions.of(con, SMALL) == 1


@pytest.mark.slow
@pytest.mark.rewriting
def test_statements_that_fail_or_read_more_ask_again(
    con: pruner_duckdb.Connection, questions: Questions
) -> None:
    con.execute(SMALL).fetchall()
    con.execute("CREATE TABLE own AS SELECT 3 AS id")
    con.execute(SMALL).fetchall()
    with pytest.raises(duckdb.Error):
        con.execute("SELECT error('no') FROM flights").fetchall()
    assert questions.of(con, SMALL) == 1
    con.execute("SELECT count(*) FROM flights JOIN own USING (id)").fetchall()
    assert questions.of(con, SMALL) == 0
    con.execute("SELECT count(*) FROM flights, pragma_table_info('own')").fetchall()
    assert questions.of(con, SMALL) == 1
    con.execute("CREATE TABLE few AS SELECT * FROM flights WHERE id < 3")
    assert questions.of(con, SMALL) == 1
    assert questions.of(con, SMALL) == 0


@pytest.mark.sampled(8)
@pytest.mark.rewriting
@pytest.mark.parametrize(
    ("called", "harmless"),
    [
        ("typeof(id)", True),
        ("unnest(list_sort([id, 3]))", True),
        ("unnest({'a': id, 'b': carrier})", True),
        ("to_json({'a': id})", True),
        ("json_group_array(id)", True),
        ("nextval('counted')", False),
        ("setseed(0.5)", False),
        ("current_setting('TimeZone')", False),
        ("getvariable('v')", False),
    ],
)
def test_functions_that_change_nothing(
    con: pruner_duckdb.Connection, questions: Questions, called: str, harmless: bool
) -> None:
    con.execute("CREATE SEQUENCE counted")
    sql = f"SELECT {called} FROM flights WHERE id < 60"
    for _ in range(2):
        con.execute(sql).fetchall()
        assert con.last_plans[-1].kept == 2 or not harmless
    con.execute(SMALL).fetchall()
    con.execute(sql).fetchall()
    assert (questions.of(con, SMALL) == 0) == harmless


def test_a_change_while_a_question_is_asked_is_met_afterwards() -> None:
    changes = DatabaseChanges(all_pass_here=True)
    answers = AnswerCache(changes)
    told = iter(range(9))

    def ask(sql: Any, values: list[object]) -> tuple[Any, ...]:
        if sql == "slow":
            with changes.during("CREATE TABLE t (x INTEGER)"):
                pass
        return (next(told),)

    assert answers.to("slow", [], ask) == (0,)
    assert answers.to("slow", [], ask) == (1,)
    assert answers.to("quick", [], ask) == (2,)
    assert answers.to("quick", [], ask) == (2,)
    with changes.during("CREATE TABLE u (x INTEGER)"):
        assert answers.to("quick", [], ask) == (3,)
    assert answers.to("quick", [], ask) == (4,)
    changes.handed_out()
    assert [answers.to("quick", [], ask) for _ in range(2)] == [(5,), (6,)]


def test_so_many_answers_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pruner_duckdb.shadow.answers.MOST_ANSWERS", 3)
    answers = AnswerCache(DatabaseChanges(all_pass_here=True))
    asked: list[Any] = []

    def ask(sql: Any, values: list[object]) -> tuple[Any, ...]:
        asked.append(sql)
        return (sql,)

    for sql in ["a", "b", "c", "a", "d", "a"]:
        assert answers.to(sql, [], ask) == (sql,)
    assert asked == ["a", "b", "c", "d", "a"]
