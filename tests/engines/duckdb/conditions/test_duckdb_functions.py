"""Everyday conditions prune in `con.sql`: functions of columns, moments that move, rows, cases.

Each condition runs over a pruned table and in plain DuckDB: the rows are equal, and the number of files is as listed.
"""

from __future__ import annotations

import datetime
from pathlib import Path

import duckdb
import pytest

import pruner_duckdb
from pruner_duckdb.rewrite import remembered, rewrite
from tests.engines.duckdb.duckdb_tables import BEFORE_2, indexed, write_flights, write_tree

KEPT = {
    "id + 1 = 120": 1,
    "id * 2 >= 1100": 1,
    "-id > -50": 1,
    "abs(id - 300) < 10": 2,
    "id > 549.5": 1,
    "id IN (59, 169.0)": 2,
    "CAST(id AS VARCHAR) = '77'": 1,
    "coalesce(id, 0) > 560": 1,
    "id % 2 = 0 AND id + 5 < 60": 2,
    "isnan(delay)": 0,
    "(id, early) = (77, false)": 1,
    "(id, price) IN ((5, 6.25), (590, 737.5))": 2,
    "(id, price) < (40, 1.0)": 1,
    "(id, day) = (77, '2024-01-02')": 1,
    "(day, id) IN (('2024-01-02', 77), ('2024-01-12', 590::HUGEINT))": 2,
    "extra['code'] = 3": 1,
    "CASE WHEN id < 50 THEN price > 0 ELSE id = 599 END": 2,
    "lower(carrier) = 'c03a'": 2,
    "upper(carrier) = 'C05B'": 2,
    "left(carrier, 3) = 'C01'": 2,
    "substr(carrier, 1, 3) >= 'C05'": 2,
    "regexp_matches(carrier, '^C04[ab]')": 2,
    r"carrier SIMILAR TO 'C04x\Q\E*[ab]'": 2,
    "carrier SIMILAR TO 'C04x(?i)*A'": 2,
    "regexp_matches(carrier, '^C04x(?i){0}B')": 2,
    "year(ts) = 2024 AND month(ts) = 1 AND id < 50": 1,
    "year(ts) = 2023": 0,
    "month(ts) IN (2, 3)": 0,
    "ts::DATE BETWEEN DATE '2024-01-03' AND DATE '2024-01-04'": 2,
    "date_trunc('day', ts) = TIMESTAMP '2024-01-05'": 1,
    "ts + INTERVAL 1 DAY < TIMESTAMP '2024-01-03'": 1,
    "seen::DATE = DATE '2024-01-07'": 1,
    "date_trunc('day', seen) = TIMESTAMPTZ '2024-01-07 00:00:00+00'": 1,
    "epoch_ms(seen) <= 1704067200000": 1,
    "day + 3 > DATE '2024-01-14'": 1,
    "id % 600 = 3": 1,
    "strftime(ts, '%Y-%m-%d') = '2024-01-05'": 1,
    "day::VARCHAR LIKE '2024-01-0%'": 9,
    "mod(id, 300) BETWEEN 101 AND 102": 2,
    "price * 1.19 > 850": 1,
    "price * 2 < 10 + 5": 1,
    "100 - price > 90.5": 1,
    "id * 0.5 <= 20": 1,
    "hour(ts) = 3": 2,
    "isodow(day) = 3": 2,
    "day(ts) = 5": 1,
    "ts = make_timestamp(2024, 1, 5, 0, 0, 0.0)": 0,
    "day = make_date(2024, 1, 5)": 1,
    "seen AT TIME ZONE 'Europe/Berlin' < TIMESTAMP '2024-01-02'": 1,
    "(seen AT TIME ZONE 'America/New_York')::DATE = DATE '2024-01-05'": 1,
    "hour(seen AT TIME ZONE 'Europe/Berlin') = 3": 0,
    "list_contains([5, 77], id)": 2,
    "id = ANY([5, 77])": 2,
    "NOT (flights.id = any ( ARRAY [5, 599] )) AND id < 50": 1,
    "carrier = ANY(['C03a', 'C03b']) OR id = ANY([599])": 3,
    "(id = ANY([5, 77])) IS NULL": 0,
    "lower(carrier) LIKE 'c03%'": 2,
    "starts_with(upper(carrier), 'C05')": 2,
    "lower(carrier) NOT LIKE 'c%'": 12,
    "left(carrier, 3) LIKE 'C0%a'": 12,
    "day - INTERVAL 1 MONTH < TIMESTAMP '2023-12-02'": 1,
}


@pytest.fixture(scope="module")
def flights(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[pruner_duckdb.Connection, duckdb.DuckDBPyConnection]:
    root = write_flights(tmp_path_factory.mktemp("functions") / "flights")
    con = pruner_duckdb.connect({"flights": indexed(root)})
    con.execute("SET TimeZone = 'UTC'")
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'")
    plain.execute(f"CREATE VIEW flights AS FROM read_parquet('{root}/**/*.parquet')")
    return con, plain


KEPT_BEFORE_2 = {"(day, id) IN (('2024-01-02', 77), ('2024-01-12', 590::HUGEINT))": 12}
"""What DuckDB 1.5 shows differently (docs/duckdb.md)."""


@pytest.mark.rewriting
@pytest.mark.sampled(12)
@pytest.mark.parametrize("condition", KEPT)
def test_conditions_over_functions_prune(flights, condition: str):
    con, plain = flights
    query = f"SELECT id FROM flights WHERE {condition} ORDER BY id"
    assert con.execute(query).fetchall() == plain.execute(query).fetchall()
    scan = con.last_plans[-1]
    assert scan.reason is None
    assert scan.kept == (KEPT | KEPT_BEFORE_2 if BEFORE_2 else KEPT)[condition]


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("listed", ["[5, 77]", "[5, 98]", "[6, 599]", "?"])
def test_statements_that_differ_in_listed_numbers_have_plans_of_their_own(flights, listed: str):
    con, plain = flights
    query = f"SELECT id FROM flights WHERE id = ANY({listed}) ORDER BY id"
    for parameters in ([[7, 599]], [[7, 8]], [[600]]) if listed == "?" else ([],):
        assert con.execute(query, parameters).fetchall() == plain.execute(query, parameters).fetchall()
        assert con.last_plans[-1].kept <= 2


@pytest.mark.parametrize("listed", [[], [3, None], ["3"], [1.5]])
def test_lists_of_other_values_are_left_to_duckdb(flights, listed: list[object]):
    con, plain = flights
    query = "SELECT id FROM flights WHERE id = ANY(?) ORDER BY id"
    try:
        wanted: object = plain.execute(query, [listed]).fetchall()
    except duckdb.BinderException:
        with pytest.raises(duckdb.BinderException):
            con.execute(query, [listed])
    else:
        assert con.execute(query, [listed]).fetchall() == wanted


def test_an_error_of_a_function_is_still_one(flights):
    con, _ = flights
    with pytest.raises(duckdb.ConversionException):
        con.execute("SELECT count(*) FROM flights WHERE CAST(id AS UTINYINT) = 3").fetchall()


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each of the last ten days, and one for tomorrow, by DuckDB's clock."""
    root = tmp_path_factory.mktemp("days") / "events"
    files = {
        f"d{age + 1}.parquet": f"""
            SELECT now() - to_days({age}) AS seen, (now() - to_days({age}))::TIMESTAMP AS ts,
                   (now() - to_days({age}))::DATE AS day, {age} AS age"""
        for age in range(-1, 10)
    }
    root = write_tree(root, files)
    indexed(root)
    return root


MOVING = {
    "seen >= now() - INTERVAL 36 HOUR": 3,
    "ts > current_timestamp - INTERVAL '60' HOUR": 4,
    "ts > current_localtimestamp() - INTERVAL 60 HOUR": 4,
    "seen BETWEEN now() - INTERVAL 12 HOUR AND now()": 1,
    "seen < now()": 10,
    "seen >= now() - INTERVAL 100 HOUR AND seen < now() - INTERVAL 60 HOUR": 2,
    "ts BETWEEN localtimestamp - INTERVAL 100 HOUR AND localtimestamp - INTERVAL 60 HOUR": 2,
    "NOT (seen >= now() - INTERVAL 60 HOUR)": 7,
    "age < 100 AND seen >= get_current_timestamp() - INTERVAL 36 HOUR": 3,
    "age < 3 AND age(now()::TIMESTAMP, ts) < INTERVAL 9 DAY": 4,
    "ts > now() AT TIME ZONE 'UTC' - INTERVAL 60 HOUR": 4,
    "ts > timezone('UTC', now() - INTERVAL 60 HOUR)": 4,
    "ts > (current_timestamp AT TIME ZONE 'Pacific/Apia') - INTERVAL 60 HOUR": 3,
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("condition", MOVING)
def test_moments_that_move_prune_from_both_ends(days: Path, condition: str):
    con = pruner_duckdb.connect({"events": str(days)})
    con.execute("SET TimeZone = 'UTC'")
    query = f"SELECT age FROM events WHERE {condition} ORDER BY age"
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'")
    wanted = plain.execute(query.replace("events", f"'{days}/*.parquet'")).fetchall()
    assert con.execute(query).fetchall() == wanted
    assert con.last_plans[-1].kept == MOVING[condition]


WINDOW = "SELECT age FROM events WHERE seen BETWEEN now() - INTERVAL 100 HOUR AND now() - INTERVAL 60 HOUR ORDER BY age"


@pytest.mark.slow
def test_windows_of_views_and_prepared_statements(days: Path):
    con = pruner_duckdb.connect({"events": str(days)})
    con.execute(f"CREATE VIEW lately AS {WINDOW}")
    con.execute(f"PREPARE lately AS {WINDOW}")
    for text in (WINDOW, "FROM lately ORDER BY age", "EXECUTE lately", f"EXPLAIN ANALYZE {WINDOW}"):
        found = con.execute(text).fetchall()
        assert found == [(3,), (4,)] or text.startswith("EXPLAIN")
        assert con.last_plans[-1].kept == 2
    con.begin()
    assert con.execute(WINDOW).fetchall() == [(3,), (4,)]
    assert con.last_plans[-1].kept == 2
    con.rollback()


@pytest.mark.slow
@pytest.mark.rewriting
def test_what_may_run_later_has_no_latest_moment(days: Path):
    """A relation, even where the same text was run and remembered before, and a statement that writes rows."""
    con = pruner_duckdb.connect({"events": str(days)})
    con.execute(WINDOW).fetchall()
    assert con.last_plans[-1].kept == 2
    assert con.sql(WINDOW).fetchall() == [(3,), (4,)]
    assert con.last_plans[-1].kept == 6
    con.execute(f"CREATE TABLE found AS {WINDOW}")
    assert con.last_plans[-1].kept == 6
    assert con.execute(WINDOW).fetchall() == [(3,), (4,)]


@pytest.mark.rewriting
def test_a_statement_that_begins_too_late_for_its_plan_runs_again(
    days: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(rewrite, "BEGINS_WITHIN", -(10**9) * 86_400 * 3)
    con = pruner_duckdb.connect({"events": str(days)})
    for _ in range(2):
        assert con.execute(WINDOW).fetchall() == [(3,), (4,)]
        planned, run = list(con.last_plans)[-2:]
        assert planned.kept < 2
        assert "begun later" in (run.reason or "")
        assert run.kept == run.total


@pytest.mark.slow
def test_a_moment_is_no_riddle_beside_an_index_over_an_expression(tmp_path: Path):
    """With such an index a statement is also planned as written, before DuckDB replaces `now()` with a moment."""
    files = {
        f"d{age}.parquet": f"""
            SELECT now() - to_days({age}) AS seen, (now() - to_days({age}))::TIMESTAMP AS ts,
                   (now() - to_days({age}))::DATE AS day, {age} AS age"""
        for age in range(5)
    }
    root = write_tree(tmp_path / "events", files)
    indexed(root).create_index("hours", on="hour(ts)", using="bitmap")
    con = pruner_duckdb.connect({"events": str(root)})
    con.execute("SET TimeZone = 'UTC'")
    con.execute(
        "SELECT age FROM events WHERE seen > now() - INTERVAL 36 HOUR AND day >= current_date - 9 AND ts > "
        "localtimestamp - INTERVAL 9 DAY ORDER BY age"
    )
    assert con.fetchall() == [(0,), (1,)]
    plan = con.last_plans[-1].plan
    assert plan.kept == 2
    assert plan.fallbacks == () or BEFORE_2
    assert "case" not in plan.explain()


def test_days_prune_from_below(days: Path):
    con = pruner_duckdb.connect({"events": str(days)})
    # The files' days are UTC days; on a machine with another date, `current_date` would differ, too.
    con.execute("SET TimeZone = 'UTC'")
    for condition in (
        "day >= current_date - 1",
        "day >= today() - INTERVAL 1 DAY",
        "ts::DATE >= current_date - 1",
    ):
        found = con.execute(f"SELECT count(*) FROM events WHERE {condition}").fetchall()
        assert found >= [(2,)]
        # At midnight, and five minutes later, one more day may be read.
        assert con.last_plans[-1].kept in (3, 4)


@pytest.mark.rewriting
def test_a_moment_is_asked_for_each_time(days: Path, monkeypatch: pytest.MonkeyPatch):
    con = pruner_duckdb.connect({"events": str(days)})
    told: list[int] = []
    ask = remembered.transaction_start
    monkeypatch.setattr(
        remembered, "transaction_start", lambda session: told.append(ask(session)) or told[-1]
    )
    for _ in range(3):
        con.execute("SELECT count(*) FROM events WHERE seen >= now() - INTERVAL 36 HOUR").fetchall()
    assert told == sorted(set(told))
    assert len(told) == 3


@pytest.mark.rewriting
def test_a_transaction_keeps_its_moment(days: Path, monkeypatch: pytest.MonkeyPatch):
    con = pruner_duckdb.connect({"events": str(days)})
    told: list[int] = []
    ask = remembered.transaction_start
    monkeypatch.setattr(
        remembered, "transaction_start", lambda session: told.append(ask(session)) or told[-1]
    )
    con.execute("BEGIN")
    before = con.execute("SELECT epoch_us(now())").fetchall()[0][0] * 1000
    con.execute("SELECT count(*) FROM events WHERE seen >= now() - INTERVAL 36 HOUR").fetchall()
    con.execute("SELECT count(*) FROM events WHERE seen >= now() - INTERVAL 12 HOUR").fetchall()
    con.execute("ROLLBACK")
    assert told == [before, before]


def test_a_macro_named_like_a_moment_is_not_a_moment(days: Path):
    con = pruner_duckdb.connect({"events": str(days)})
    con.execute("CREATE MACRO now() AS TIMESTAMPTZ '2000-01-01 00:00:00+00'")
    found = con.execute("SELECT count(*) FROM events WHERE seen >= now()").fetchall()
    assert found == [(11,)]
    assert con.last_plans[-1].kept == 11


def test_a_column_named_like_a_moment_is_a_column(tmp_path: Path):
    root = write_tree(
        tmp_path / "t",
        {f"f{n}.parquet": f"SELECT DATE '2001-01-0{n}' AS current_date, {n} AS n" for n in (1, 2, 3)},
    )
    indexed(root)
    con = pruner_duckdb.connect({"t": str(root)})
    assert con.execute("SELECT n FROM t WHERE current_date = DATE '2001-01-02'").fetchall() == [(2,)]
    assert con.execute("SELECT n FROM t WHERE DATE '2001-01-03' >= current_date ORDER BY n").fetchall() == [
        (1,),
        (2,),
        (3,),
    ]


def test_a_lazy_relation_prunes_by_the_moment_it_was_made(days: Path):
    con = pruner_duckdb.connect({"events": str(days)})
    relation = con.sql("SELECT age FROM events WHERE seen >= now() - INTERVAL 36 HOUR ORDER BY age")
    assert relation.fetchall() == [(-1,), (0,), (1,)]


def test_the_dates_of_the_tests_are_those_of_the_session(days: Path):
    """The counts above rely on this: the files are as old as their names say."""
    newest = duckdb.connect().execute(f"SELECT max(seen) FROM '{days}/*.parquet'").fetchall()[0][0]
    assert newest > datetime.datetime.now(datetime.UTC)
