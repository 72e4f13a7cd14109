"""The connection around DuckDB's: what it passes on, what it records, when it plans, and what it refuses."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
from pruner.errors import PrunerError, TableError
from tests.engines.duckdb.duckdb_tables import BEFORE_2, flights_query, indexed, write_flights, write_tree


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_flights(tmp_path_factory.mktemp("connection") / "flights")
    indexed(root)
    return root


@pytest.fixture
def con(flights: Path) -> pruner_duckdb.Connection:
    return pruner_duckdb.connect({"flights": str(flights)})


def add_file(root: Path, number: int) -> None:
    write_tree(root, {f"region=us/part-{number:02d}.parquet": flights_query(number)})


# What is read


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_table_is_a_path_a_table_or_options_under_any_name(flights: Path) -> None:
    con = pruner_duckdb.connect(
        {
            "a": str(flights),
            "lake.b": pruner.open_table(str(flights)),
            "C": {"uri": str(flights), "max_staleness": 60.0},
        }
    )
    for name in ("a", "lake.b", "LAKE.B", '"lake"."b"', "c", '"C"'):
        assert con.execute(f"SELECT count(*) FROM {name} WHERE id < 50").fetchall() == [(50,)]
        assert con.last_plans[-1].kept == 1
    assert con.execute("SELECT lake.b.id, b.day FROM lake.b WHERE lake.b.id = 5").fetchone()[0] == 5
    assert [scan.table for scan in con.last_plans][-1] == "lake.b"


def test_the_newest_plans_are_a_sequence(con: pruner_duckdb.Connection) -> None:
    for below in (10, 20, 30, 40):
        con.execute(f"SELECT count(*) FROM flights WHERE id < {below}").fetchall()
    plans = list(con.last_plans)
    assert len(plans) == 4
    for part in (slice(-3, None), slice(1, 3), slice(None), slice(None, None, -1), slice(10, 20)):
        assert con.last_plans[part] == plans[part]
    assert (con.last_plans[-1], con.last_plans[0]) == (plans[-1], plans[0])
    assert reversed(con.last_plans).__next__() == plans[-1]
    with pytest.raises(IndexError):
        con.last_plans[4]


@pytest.mark.slow
def test_an_existing_connection_is_attached_with_what_it_has(flights: Path) -> None:
    existing = duckdb.connect()
    existing.execute("CREATE TABLE mine AS SELECT 5 AS id")
    con = pruner_duckdb.attach(existing, {"flights": str(flights)})
    joined = "SELECT count(*) FROM mine JOIN flights USING (id) WHERE id < 50"
    assert con.execute(joined).fetchall() == [(1,)]
    assert con.last_plans[-1].kept == 1
    assert existing.execute("SELECT count(*) FROM mine").fetchall() == [(1,)]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", ["", " ", "a.", ".a", "a..b", 5, None])
def test_a_name_that_no_statement_could_use_is_refused(flights: Path, name: Any) -> None:
    with pytest.raises(PrunerError, match=r"not a valid table name: give a name, .* or 'web.flights'$"):
        pruner_duckdb.connect({name: str(flights)})


def test_a_name_that_exists_already_is_refused(flights: Path) -> None:
    existing = duckdb.connect()
    existing.execute("CREATE VIEW flights AS SELECT 1")
    with pytest.raises(PrunerError, match="already has a table or view named flights"):
        pruner_duckdb.attach(existing, {"flights": str(flights)})


def test_options_that_do_not_exist_are_refused(flights: Path) -> None:
    with pytest.raises(TableError, match="unknown option 'urll'"):
        pruner_duckdb.connect({"flights": {"urll": str(flights)}})
    with pytest.raises(TableError, match="'uri' is missing"):
        pruner_duckdb.connect({"flights": {"as_of": "1"}})


def test_names_that_differ_in_case_alone_are_refused(flights: Path) -> None:
    with pytest.raises(TableError, match="tables flights and Flights have the same name"):
        pruner_duckdb.connect({"flights": str(flights), "Flights": str(flights)})


def test_tables_are_opened_when_first_read(tmp_path: Path) -> None:
    con = pruner_duckdb.connect({"absent": str(tmp_path / "absent")})
    assert con.execute("SELECT 1").fetchall() == [(1,)]
    with pytest.raises(TableError):
        con.execute("SELECT * FROM absent")


# What is passed on


@pytest.mark.rewriting
def test_everything_else_is_duckdbs(con: pruner_duckdb.Connection) -> None:
    assert con.execute("SELECT 1, 'flights'").fetchall() == [(1, "flights")]
    assert con.begin() is con
    con.execute("CREATE TABLE x (i INTEGER)")
    con.executemany("INSERT INTO x VALUES (?)", [[1], [2]])
    con.commit()
    assert con.execute("SELECT sum(i) FROM x").fetchone() == (3,)
    assert con.description[0][0] == "sum(i)"
    with pytest.raises(duckdb.ParserException):
        con.execute("SELEC * FROM flights")
    with pytest.raises(duckdb.BinderException, match="nope"):
        con.execute("SELECT nope FROM flights")
    with pytest.raises(duckdb.CatalogException, match="nowhere"):
        con.execute("SELECT * FROM flights JOIN nowhere USING (id)")
    with pytest.raises(AttributeError):
        con.no_such_method()


def test_variables_of_the_caller_are_read_by_name(con: pruner_duckdb.Connection) -> None:
    mine = pa.table({"id": [5, 60, 1000]})
    few = con.sql("SELECT id FROM mine WHERE id < 100")
    assert few.columns == mine.column_names
    joined = "SELECT count(*) FROM {} JOIN flights USING (id)"
    assert con.sql(joined.format("mine")).fetchall() == [(2,)]
    assert con.sql(joined.format("few")).fetchall() == [(2,)]
    assert con.execute(joined.format("mine") + " WHERE id < 50").fetchall() == [(1,)]
    assert con.last_plans[-1].kept == 1


def test_a_cursor_knows_the_tables_and_not_the_variables_of_the_session(
    con: pruner_duckdb.Connection,
) -> None:
    con.execute("CREATE TEMP TABLE flights AS SELECT 1 AS id")
    assert con.execute("SELECT count(*) FROM flights").fetchall() == [(1,)]
    with con.cursor() as other:
        assert other.execute("SELECT count(*) FROM flights WHERE id < 50").fetchall() == [(50,)]


def test_statements_one_after_another(con: pruner_duckdb.Connection) -> None:
    assert con.execute("SELECT 1; SELECT count(*) FROM flights WHERE id < ?", [50]).fetchall() == [(50,)]
    relation = con.sql("CREATE TABLE y AS SELECT id FROM flights WHERE id < 3; SELECT count(*) FROM y")
    assert relation.fetchall() == [(3,)]


RUN_AT_ONCE = {
    "CREATE TABLE made AS SELECT id FROM flights WHERE id < 60": 2,
    "CREATE OR REPLACE TEMP TABLE made AS (SELECT id FROM flights WHERE id < 60)": 2,
    "INSERT INTO kept SELECT id FROM flights WHERE id < 60": 2,
    "INSERT INTO kept (id) WITH f AS (FROM flights) SELECT id FROM f WHERE id < 60": 2,
    "EXPLAIN SELECT id FROM flights WHERE id < 60": 2,
    "EXPLAIN ANALYZE SELECT id FROM flights WHERE id < 60": 2,
    "EXPLAIN ANALYZE (SELECT id FROM flights WHERE id < 60)": 2,
    "EXPLAIN (ANALYZE, FORMAT json) (SELECT id FROM flights WHERE id < 60)": 2,
    "EXPLAIN (SELECT id FROM flights WHERE id < 60) UNION (SELECT 7)": 2,
    "EXPLAIN ((SELECT id FROM flights WHERE id < 60 LIMIT 1))": 2,
    "COPY (SELECT id FROM flights WHERE id < 60 AND (id > 5)) TO '{out}'": 2,
    "DESCRIBE flights": 12,
    "SUMMARIZE SELECT id FROM flights WHERE id < 60": 2,
    "TABLE flights": 12,
    "DESCRIBE SELECT id FROM flights": 12,
}


@pytest.mark.sampled(8)
@pytest.mark.rewriting
@pytest.mark.parametrize("sql", RUN_AT_ONCE)
def test_statements_that_read_at_once_are_pruned_too(
    con: pruner_duckdb.Connection, tmp_path: Path, sql: str
) -> None:
    con.execute("CREATE TABLE kept (id INTEGER)")
    con.last_plans.clear()
    con.execute(sql.format(out=tmp_path / "out.parquet"))
    assert [scan.kept for scan in con.last_plans] == [RUN_AT_ONCE[sql]]
    if sql.startswith("INSERT"):
        assert con.execute("SELECT count(*) FROM kept").fetchall() == [(60,)]
    if sql.startswith("COPY"):
        assert duckdb.read_parquet(str(tmp_path / "out.parquet")).count("*").fetchall() == [(54,)]


REFUSED = {
    "CREATE MACRO m() AS (SELECT max(id) FROM flights)": "table flights cannot be read by a macro that returns a "
    "value: write a macro AS TABLE, or a view",
    "MERGE INTO kept USING flights ON kept.id = flights.id WHEN MATCHED THEN UPDATE SET id = "
    "(SELECT max(id) FROM flights)": "table flights cannot be read in this kind of statement",
    "PRAGMA table_info('flights')": "table flights cannot be named in PRAGMA: write DESCRIBE flights",
    "FROM query_table('flights')": "table flights cannot be named by a string: write FROM flights",
    "CREATE TABLE x (a INT REFERENCES flights (id))": "flights is not a DuckDB table: no foreign key can refer",
    "DROP TABLE flights": "table flights is not a DuckDB table: leave it out when the connection is made",
    "ANALYZE flights": "table flights is not a DuckDB table: ANALYZE does not apply to it",
    **dict.fromkeys(
        (
            "INSERT INTO flights VALUES (1)",
            "UPDATE flights SET id = 1",
            "DELETE FROM flights",
            "TRUNCATE flights",
            "ALTER TABLE flights ADD COLUMN x INT",
            "COPY flights FROM 'x.csv'",
            "COMMENT ON TABLE flights IS 'x'",
            "MERGE INTO flights USING kept ON kept.id = flights.id WHEN MATCHED THEN DELETE",
        ),
        "table flights is read-only here: change its files with the engine that writes them",
    ),
    "SELECT * FROM flights AT (VERSION => 3)": "AT is not supported here; give the table the option as_of",
}


@pytest.mark.sampled(16)
@pytest.mark.rewriting
@pytest.mark.parametrize("sql", REFUSED)
def test_what_cannot_be_answered_right_is_refused(con: pruner_duckdb.Connection, sql: str) -> None:
    con.execute("CREATE TABLE kept (id INTEGER)")
    with pytest.raises(PrunerError, match=REFUSED[sql]):
        con.execute(sql)
    assert not con.last_plans


@pytest.mark.sampled(3)
@pytest.mark.rewriting
@pytest.mark.parametrize("name", ["main2.flights", "db.main.flights", "lake.flights"])
def test_a_name_of_another_schema_is_missing_as_in_duckdb(con: pruner_duckdb.Connection, name: str) -> None:
    schema = name.removesuffix(".flights")
    message = f'"{name}" does not exist because schema "{schema}" does not exist.\nDid you mean "flights"?'
    if BEFORE_2 and "." in schema:
        message = f'Catalog "{schema.partition(".")[0]}" does not exist!'
    with pytest.raises((duckdb.CatalogException, duckdb.BinderException), match=re.escape(message)):
        con.execute(f"SELECT * FROM {name}")


@pytest.mark.slow
def test_a_part_of_a_name_is_missing_with_the_whole_one_as_suggestion(tmp_path: Path) -> None:
    con = pruner_duckdb.connect({"lake.web.items": str(write_flights(tmp_path / "items"))})
    with pytest.raises(duckdb.CatalogException, match='Did you mean "lake.web.items"'):
        con.execute("SELECT * FROM items")
    for values in ("VALUES (1)", "SELECT * FROM lake.web.items"):
        # DuckDB 1.5 looks for a catalog of that name first, and reports only that there is none.
        refused = r'Catalog "lake" does not exist' if BEFORE_2 else "table lake.web.items is read-only here"
        with pytest.raises((PrunerError, duckdb.BinderException), match=refused):
            con.execute(f"INSERT INTO lake.web.items {values}")


# When it plans


@pytest.mark.slow
def test_a_relation_sees_files_that_were_committed_after_it_was_made(tmp_path: Path) -> None:
    root = write_flights(tmp_path / "growing")
    indexed(root)
    con = pruner_duckdb.connect({"flights": str(root)})
    wanted = con.sql("SELECT count(*) FROM flights WHERE id >= 550")
    chained = con.sql("FROM flights").filter("id >= 550").aggregate("count(*)")
    assert wanted.fetchall() == [(50,)]
    assert chained.fetchall() == [(50,)]
    add_file(root, 12)
    assert wanted.fetchall() == [(100,)]
    assert chained.fetchall() == [(100,)]
    (root / "region=us/part-12.parquet").unlink()
    assert wanted.fetchall() == [(50,)]
    ids = con.table("flights").filter("id >= 550").project("id").order("id")
    assert ids.fetchall() == [(number,) for number in range(550, 600)]


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_relation_has_the_methods_of_duckdbs(con: pruner_duckdb.Connection) -> None:
    relation = con.sql("SELECT id, carrier FROM flights WHERE id < 3 ORDER BY id")
    assert relation.columns == ["id", "carrier"]
    assert relation.fetchall() == relation.fetchall() == [(0, "C00a"), (1, "C00b"), (2, "C00c")]
    assert relation.to_arrow_table().num_rows == 3
    assert relation.pl().height == 3
    assert relation.limit(1).project("carrier").fetchall() == [("C00a",)]
    assert relation.join(con.sql("SELECT 1 AS id"), "id").fetchall() == [(1, "C00b")]
    assert [relation.fetchone(), relation.fetchmany(5), relation.fetchone()] == [
        (0, "C00a"),
        [(1, "C00b"), (2, "C00c")],
        None,
    ]
    assert "C00b" in str(relation)
    assert len(relation.df()) == 3
    assert pa.table(relation).num_rows == 3


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_relation_scans_files_and_no_copy_of_their_rows(con: pruner_duckdb.Connection) -> None:
    """DuckDB 1.5 runs a relation that has a parameter at once, and continues with the rows as a list of VALUES."""
    for sql in ("FROM flights", "SELECT id, carrier FROM flights WHERE id < 60"):
        for _ in range(2):
            assert "PARQUET" in con.sql(sql).limit(3).explain()
        assert "PARQUET" in con.sql(sql).project("id").explain()
        assert len(con.execute(sql).fetchall()) == len(con.sql(sql).fetchall())


@pytest.mark.slow
@pytest.mark.rewriting
def test_rows_that_are_fetched_one_by_one_come_of_one_run(con: pruner_duckdb.Connection) -> None:
    """DuckDB 1.5 itself drops the unread rows of a relation when its connection runs another statement."""
    many = con.sql("SELECT a.id, b.id FROM flights a, flights b WHERE a.id < 50")
    scans = len(con.last_plans)
    first = [many.fetchone(), *many.fetchmany(2)]
    assert len(con.last_plans) == scans + 2
    con.execute("SELECT count(*) FROM flights").fetchall()
    con.sql("SELECT count(*) FROM flights").fetchall()
    rest = many.fetchmany(50 * 600)
    assert len({*first, *rest}) == 50 * 600
    assert [many.fetchone(), many.fetchmany(3)] == [None, []]
    late = con.sql("SELECT error(carrier) FROM flights WHERE id > 7")
    for fetch in (late.fetchone, late.fetchmany):
        with pytest.raises(duckdb.InvalidInputException, match="C0"):
            fetch()


def test_mistakes_in_a_relation_are_reported_when_it_is_made(con: pruner_duckdb.Connection) -> None:
    for _ in range(2):
        with pytest.raises(duckdb.BinderException, match="nope"):
            con.sql("SELECT nope FROM flights")
        con.execute("SELECT count(*) FROM flights").fetchall()


@pytest.mark.slow
def test_one_statement_reads_one_snapshot(con: pruner_duckdb.Connection) -> None:
    con.execute("SELECT count(*) FROM flights a, flights b WHERE a.id = 5 AND b.id = 60")
    first, second = con.last_plans
    assert first.plan.snapshot is second.plan.snapshot


# What is recorded


def test_each_scan_is_logged_once_and_remembered(
    con: pruner_duckdb.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "pruner"):
        con.execute("SELECT count(*) FROM flights a JOIN flights b USING (id) WHERE a.id = 5").fetchall()
        relation = con.sql("SELECT id FROM flights WHERE id = 5")
        relation.fetchall()
    records = [vars(record) for record in caplog.records if hasattr(record, "pruner_table")]
    found = [(record["pruner_table"], record["pruner_kept"], record["pruner_total"]) for record in records]
    assert found == [("flights", 1, 12)] * 3
    assert all(record["pruner_bytes"] > 0 and record["pruner_reason"] is None for record in records)
    assert [(scan.kept, scan.total) for scan in con.last_plans] == [(1, 12)] * 3
    assert "id" in con.last_plans[-1].explain()


@pytest.mark.slow
def test_only_the_newest_plans_are_remembered(con: pruner_duckdb.Connection) -> None:
    for number in range(70):
        con.execute(f"SELECT id FROM flights WHERE id = {number}")
    assert len(con.last_plans) == 64
    assert con.last_plans[-1].kept == 1


def test_pruning_can_be_switched_off(con: pruner_duckdb.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    assert con.execute("SELECT count(*) FROM flights WHERE id = 5").fetchall() == [(1,)]
    assert (con.last_plans[-1].kept, con.last_plans[-1].reason) == (12, "switched off by PRUNER_DISABLED=1")
    monkeypatch.setenv("PRUNER_DISABLED", "0")
    con.execute("SELECT count(*) FROM flights WHERE id = 5")
    assert con.last_plans[-1].kept == 1


@pytest.mark.parametrize("tables", ["lake/flights", ["lake/flights"]])
def test_tables_without_names_are_refused_in_one_sentence(tables: Any) -> None:
    with pytest.raises(TableError, match="tables are given by name, as in {'flights': 'lake/flights'}"):
        pruner_duckdb.connect(tables)


@pytest.mark.sampled(8)
@pytest.mark.rewriting
@pytest.mark.parametrize(
    "sql",
    [
        "SELECT id FROM flights WHERE 5 + 5 = 11",
        "SELECT count(*) FROM flights WHERE TRUE < FALSE",
        "SELECT id FROM flights WHERE id = NULL",
        "SELECT id FROM flights LIMIT 0",
        "SELECT id FROM flights WHERE id < 60 AND id > 70",
        "SELECT a.id FROM flights a LEFT JOIN (SELECT id FROM flights WHERE false) b USING (id) WHERE a.id < 60",
        "SELECT count(*) FROM flights",
        "SELECT id FROM flights WHERE id < 60 AND 5 + 5 = 10",
    ],
)
def test_a_scan_that_duckdb_removes_is_listed(con: pruner_duckdb.Connection, sql: str) -> None:
    """`last_plans` matches DuckDB's own plan of the statement."""
    for _ in range(2):
        con.last_plans.clear()
        shown = con.execute(f"EXPLAIN {sql}").fetchall()[0][1].upper().replace("_", " ")
        left_out = [scan.reason for scan in con.last_plans if scan.reason is not None]
        assert all("leaves the scan out" in reason for reason in left_out)
        assert bool(left_out) == ("EMPTY RESULT" in shown)
        assert any(not scan.is_unread for scan in con.last_plans) == ("PARQUET" in shown)
