"""A new session that pruner opened is not asked what a statement means, until something may have been defined in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import pruner_duckdb
from pruner_duckdb.shadow.answers import are_harmless, defines_nothing
from tests.engines.duckdb.duckdb_tables import FLIGHTS_FILES, indexed, write_flights
from tests.engines.duckdb.session.duckdb_questions import Questions

ASKED = "SELECT count(*) FROM flights WHERE id < 60 AND upper(carrier) >= 'C'"

DEFINES_NOTHING = [
    "",
    "SELECT 1",
    "  with x as (select 1) from x;\n",
    "FROM flights",
    "INSERT INTO t SELECT * FROM flights",
    "CREATE TABLE t AS SELECT 1 AS type",
    "create or replace temp view v as from t",
    "CREATE UNIQUE INDEX i ON t (x)",
    "COPY t TO 'x.parquet'",
    "SET TimeZone = 'UTC'",
    "SET SESSION threads = 2",
    "set time zone 'UTC'",
    "RESET memory_limit",
    "BEGIN TRANSACTION",
    "rollback",
    "append",
]

MAY_DEFINE = [
    "CREATE MACRO upper(x) AS 'A'",
    "CREATE OR REPLACE TEMP FUNCTION upper(x) AS 'A'",
    "CREATE TYPE kind AS ENUM ('a')",
    "CREATE SECRET s (TYPE s3)",
    "SELECT 1; CREATE MACRO upper(x) AS 'A'",
    "CREATE TABLE t (x INTEGER); CREATE MACRO upper(x) AS 'A';",
    "-- first\nCREATE MACRO upper(x) AS 'A'",
    "/* SELECT */ CREATE MACRO upper(x) AS 'A'",
    "PREPARE p AS SELECT 1",
    "EXECUTE p",
    "EXPLAIN ANALYZE CREATE MACRO upper(x) AS 'A'",
    "COPY FROM DATABASE a TO b",
    "copy\n from  database a to b",
    "UPDATE EXTENSIONS",
    "USE other",
    "SET schema = 'other'",
    "SET default_collation = 'nocase'",
    "SET VARIABLE v = 1",
    "SET lambda_syntax = 'DISABLE_SINGLE_ARROW'",
    "PRAGMA default_collation = nocase",
    "LOAD icu",
    "ATTACH 'x.duckdb'",
    "CALL pragma_version()",
    "create_function",
    "remove_function",
    "selected",
    "SETTING threads = 1",
    "SET threads_ = 1",
]


def test_statements_that_define_nothing_are_known_by_their_beginning() -> None:
    assert [text for text in DEFINES_NOTHING if not defines_nothing(text)] == []
    assert [text for text in MAY_DEFINE if defines_nothing(text)] == []


def test_few_settings_give_no_statement_another_meaning() -> None:
    assert are_harmless({})
    assert are_harmless({"threads": 1, "Memory_Limit": "1GB"})
    assert not are_harmless({"threads": 1, "default_collation": "nocase"})


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_flights(tmp_path_factory.mktemp("definitions") / "flights")
    indexed(root)
    return root


@pytest.fixture
def con(flights: Path) -> Iterator[pruner_duckdb.Connection]:
    with pruner_duckdb.connect({"flights": indexed(flights)}) as con:
        yield con


@pytest.fixture
def questions(monkeypatch: pytest.MonkeyPatch) -> Questions:
    return Questions(monkeypatch)


def compared(questions: Questions, con: pruner_duckdb.Connection, sql: str) -> int:
    """How many texts a session must plan to learn its meaning of a function."""
    return questions.about("upper", con, sql)


def test_a_new_session_is_asked_nothing_about_functions(
    con: pruner_duckdb.Connection, questions: Questions
) -> None:
    for number, between in enumerate(["SELECT 1", "CREATE TABLE t (x INTEGER)", "INSERT INTO t VALUES (1)"]):
        con.execute(between)
        assert compared(questions, con, f"{ASKED} AND id >= {number}") == 0
        assert con.last_plans[-1].kept == 2


@pytest.mark.sampled(4)
@pytest.mark.rewriting
@pytest.mark.parametrize(
    "definition",
    [
        "CREATE MACRO unused(x) AS x",
        "CREATE TYPE kind AS ENUM ('a', 'b')",
        "SET default_null_order = 'nulls_first'",
        "SELECT 1; CREATE MACRO unused(x) AS x",
        "CREATE SCHEMA s; CREATE MACRO s.unused(x) AS x; DROP SCHEMA s CASCADE",
    ],
)
def test_after_a_definition_the_session_is_asked(
    con: pruner_duckdb.Connection, questions: Questions, definition: str
) -> None:
    assert compared(questions, con, ASKED) == 0
    con.execute(definition)
    assert compared(questions, con, ASKED) > 0
    assert compared(questions, con, f"{ASKED} AND id >= 1") > 0
    assert con.last_plans[-1].kept == 2


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_session_that_was_set_up_by_somebody_else_is_asked(flights: Path, questions: Questions) -> None:
    with pruner_duckdb.attach(duckdb.connect(), {"flights": indexed(flights)}) as con:
        assert compared(questions, con, ASKED) > 0
    config = {"default_null_order": "nulls_first"}
    with pruner_duckdb.connect({"flights": indexed(flights)}, config=config) as con:
        assert compared(questions, con, ASKED) > 0
    with pruner_duckdb.connect({"flights": indexed(flights)}, config={"threads": 1}) as con:
        assert compared(questions, con, ASKED) == 0
        assert con.native is not None
        assert compared(questions, con, f"{ASKED} AND id >= 1") > 0


@pytest.mark.rewriting
def test_extensions_that_are_loaded_meanwhile_are_noticed(
    con: pruner_duckdb.Connection, questions: Questions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert compared(questions, con, ASKED) == 0
    shadow = con._runner.rewriter.shadow  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(shadow, "extensions", f"{shadow.extensions},more")
    assert compared(questions, con, f"{ASKED} AND id >= 1") > 0
    assert con.last_plans[-1].kept == 2


@pytest.mark.sampled(8)
@pytest.mark.rewriting
@pytest.mark.parametrize(
    "script",
    [
        ["SELECT 1; CREATE MACRO upper(x) AS 'A'"],
        ["CREATE TABLE t (x INTEGER); CREATE MACRO upper(x) AS 'A'"],
        ["/* SELECT */ CREATE MACRO upper(x) AS 'A'"],
        ["CREATE SCHEMA other", "CREATE MACRO other.upper(x) AS 'A'", "SET search_path = 'other,main'"],
        ["CREATE SCHEMA other", "CREATE MACRO other.upper(x) AS 'A'", "USE other"],
        ["ATTACH ':memory:' AS o", "CREATE MACRO o.main.upper(x) AS 'A'", "COPY FROM DATABASE o TO memory"],
    ],
)
def test_a_statement_means_what_the_session_makes_of_it(
    con: pruner_duckdb.Connection, script: list[str]
) -> None:
    assert [con.execute(ASKED).fetchall() for _ in range(2)] == [[(60,)]] * 2
    for each in script:
        con.execute(each)
    assert con.execute(ASKED).fetchall() == [(0,)]
    assert con.last_plans[-1].kept == FLIGHTS_FILES
    assert con.execute(f"{ASKED} AND id >= 1").fetchall() == [(0,)]
