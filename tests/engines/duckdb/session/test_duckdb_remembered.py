"""Reused rewritings: between two equal statements anything may happen to the session, to its other handles and to the
tables, and the second one still returns the rows of plain DuckDB.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import duckdb
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import pruner_duckdb
from pruner_duckdb.rewrite import remembered
from pruner_duckdb.rewrite.remembered import parameters_key
from tests.engines.duckdb.duckdb_tables import Rows, flights_query, indexed, write_flights, write_tree
from tests.support.running.profiles import IS_BRIEF, examples

if TYPE_CHECKING:
    from pruner.planning.plan import Plan


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_flights(tmp_path_factory.mktemp("remembered") / "flights")
    indexed(root)
    return root


Change: TypeAlias = "str | Callable[[Session], None]"
"""SQL, or a change to the table."""


class Session:
    """A session over pruned tables and one of plain DuckDB that reads the same files; every change applies to both."""

    def __init__(self, written: Path, scratch: Path, *, adapter: bool = False) -> None:
        self.root = scratch / "flights"
        shutil.copytree(written, self.root, copy_function=shutil.copy2)
        # A copied index would prune nothing: it does not know the copies of its files.
        self.table = indexed(self.root)
        self.con = pruner_duckdb.connect({"flights": self.table})
        self.changed: Any = self.con if adapter else self.con.native
        self.plain = duckdb.connect()
        self.plain.execute("CREATE SCHEMA lake")
        self.plain.execute(
            f"CREATE VIEW lake.flights AS FROM read_parquet('{self.root}/**/*.parquet', hive_partitioning = true, "
            "hive_types_autocast = false)"
        )
        # Searched last, as pruner's tables are.
        self.plain.execute("SET search_path = 'main,lake'")
        self.files = 12
        self.change("SET TimeZone = 'UTC'")
        self.change("CREATE TABLE wanted AS SELECT unnest([7, 60, 61]) AS flight_id")
        self.change("CREATE MACRO chosen(x) AS x < 9")
        self.change("CREATE SEQUENCE counted")

    def change(self, change: Change) -> None:
        """Through the adapter, or past it: other handles may do anything."""
        if not isinstance(change, str):
            change(self)
            return
        for handle in (self.changed, self.plain) if change else ():
            try:
                handle.execute(change)
            except duckdb.Error:
                continue

    def rows(self, sql: str, values: Any, *, lazily: bool) -> tuple[Rows | str, Rows | str]:
        def run(method: Callable[..., Any], name: str) -> Rows | str:
            try:
                return sorted(method(sql, **({name: values} if values else {})).fetchall(), key=repr)
            except duckdb.Error as error:
                return type(error).__name__

        ours = run(self.con.sql, "params") if lazily else run(self.con.execute, "parameters")
        return ours, run(self.plain.execute, "parameters")

    def commit(self) -> None:
        write_tree(self.root, {f"region=us/part-{self.files:02d}.parquet": flights_query(self.files % 12)})
        self.files += 1
        self.table.refresh()

    def remove(self) -> None:
        (self.root / "region=de/part-00.parquet").unlink(missing_ok=True)

    def reindex(self) -> None:
        self.table.drop_index("stats")
        indexed(self.root)


STATEMENTS: list[tuple[str, list[Any] | None]] = [
    ("SELECT count(*), min(id) FROM flights WHERE id = 60", None),
    ("SELECT id FROM flights WHERE id IN (7, 60) AND carrier >= 'C'", None),
    ("SELECT id FROM flights WHERE upper(carrier) = 'C01A' AND id < 70", None),
    ("SELECT id FROM flights WHERE id / 100 = 1 AND abs(id) < 220", None),
    ("SELECT id FROM flights WHERE seen = TIMESTAMPTZ '2024-01-02 00:00:00'", None),
    ("SELECT count(*) FROM flights WHERE seen >= '2024-01-11' AND seen < '2024-01-12'", None),
    ("SELECT id FROM flights JOIN wanted ON id = flight_id WHERE id < 65", None),
    ("SELECT id FROM flights WHERE id = ?", [60]),
    ("SELECT id FROM flights WHERE carrier = ? AND id < ?", ["C01a", 70]),
    (
        "WITH f AS (FROM flights) SELECT count(*) FROM f a, f b WHERE a.id = 7 AND b.id BETWEEN 60 AND 90",
        None,
    ),
    ("SELECT id FROM flights WHERE EXISTS (SELECT 1 FROM wanted WHERE id < 2 AND flight_id = 7)", None),
    ("SELECT id FROM flights WHERE carrier = 'c01A' AND id < 70", None),
    ("SELECT count(*) FROM flights WHERE ts::DATE = current_date - 1", None),
    ("SELECT id FROM flights WHERE chosen(id) AND id < 70", None),
]

CHANGES: list[Change] = [
    "SET TimeZone = 'America/New_York'",
    "SET TimeZone = 'UTC'",
    "SET default_collation = 'nocase'",
    "SET default_collation = ''",
    "SET integer_division = true",
    "SET integer_division = false",
    "SET preserve_identifier_case = 'fold_to_lower_case'",
    "SET ieee_floating_point_ops = false",
    "CREATE OR REPLACE MACRO upper(x) AS lower(x)",
    "CREATE OR REPLACE MACRO abs(x) AS 0 - x",
    "CREATE OR REPLACE TEMP MACRO upper(x) AS 'C01A'",
    "CREATE MACRO count(x) AS 42",
    "DROP MACRO upper",
    "DROP MACRO abs",
    "DROP MACRO TABLE IF EXISTS flights",
    "CREATE OR REPLACE MACRO chosen(x) AS x > 60",
    "CREATE OR REPLACE MACRO bound() AS 8",
    "CREATE OR REPLACE MACRO chosen(x) AS abs(x) < bound()",
    "CREATE OR REPLACE TEMP MACRO chosen(x) AS x IN (SELECT flight_id FROM wanted)",
    "DROP MACRO temp.main.chosen",
    "DROP MACRO bound",
    "CREATE TEMP TABLE flights AS SELECT 60 AS id, 'C01a' AS carrier, TIMESTAMPTZ '2024-01-02' AS seen",
    "CREATE TEMP VIEW flights AS SELECT 7 AS id, 'C01a' AS carrier, now() AS seen",
    "CREATE TABLE flights AS SELECT 60 AS id, 'x' AS carrier, now() AS seen",
    "DROP TABLE flights",
    "DROP TABLE memory.main.flights",
    "DROP VIEW temp.main.flights",
    "CREATE OR REPLACE TABLE wanted AS SELECT 'sixty' AS flight_id",
    "CREATE OR REPLACE TABLE wanted AS SELECT 60::TINYINT AS flight_id, 61 AS id",
    "CREATE OR REPLACE TABLE wanted AS SELECT 64 AS flight_id",
    "INSERT INTO wanted SELECT 8",
    "CREATE OR REPLACE TEMP TABLE wanted AS SELECT 3 AS flight_id",
    "CREATE TYPE date AS ENUM ('a')",
    "CREATE SCHEMA other; CREATE TABLE other.flights AS SELECT 60 AS id, 'C01a' AS carrier, now() AS seen",
    "BEGIN",
    "ROLLBACK",
    "COMMIT",
    Session.commit,
    Session.remove,
    Session.reindex,
]


@pytest.mark.slow
@settings(max_examples=examples(6), phases=[Phase.explicit, Phase.generate])
@given(data=st.data())
def test_whatever_changed_between_two_equal_statements(
    written: Path, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    session = Session(written, tmp_path_factory.mktemp("session"), adapter=data.draw(st.booleans()))
    chosen = data.draw(
        st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=2, unique_by=lambda each: each[0])
    )
    for change in data.draw(st.lists(st.sampled_from(["", *CHANGES]), min_size=1, max_size=6)):
        session.change(change)
        for sql, values in chosen:
            for lazily in (False, True, False):
                ours, plain = session.rows(sql, values, lazily=lazily)
                assert ours == plain, (sql, change)


@pytest.mark.slow
@pytest.mark.rewriting
@pytest.mark.parametrize("adapter", [False, True])
def test_each_change_in_turn(written: Path, tmp_path: Path, adapter: bool) -> None:
    session = Session(written, tmp_path, adapter=adapter)
    every = (2 if adapter else 1) * (4 if IS_BRIEF else 1)
    for change in ["", *CHANGES]:
        session.change(change)
        for sql, values in STATEMENTS[::every]:
            ours, plain = session.rows(sql, values, lazily=False)
            assert ours == plain, (sql, change)


@pytest.fixture
def session(written: Path, tmp_path: Path) -> Session:
    return Session(written, tmp_path)


OTHERS: list[tuple[str, list[Any] | None]] = [
    ("SELECT typeof(id), to_json({'a': id}), hash(id) % 7 FROM flights WHERE id = 60", None),
    ("SELECT unnest(list_sort([id, 3])), row_number() OVER (ORDER BY id) FROM flights WHERE id < 70", None),
    ("SELECT unnest({'a': id, 'b': carrier}) FROM flights WHERE id = 60", None),
    ("SELECT json_group_array(id), list_median(list(id)) FROM flights WHERE id = 7 GROUP BY id % 2", None),
    ("SELECT count(*) FROM flights WHERE id IN list_concat([60], [61, 62]) AND id < 70", None),
]
"""With functions that are not evaluated while planning."""


def plans(session: Session, sql: str, values: Any, change: Change = "") -> tuple[list[Plan], list[Plan]]:
    """The plans of two equal statements, with a change between them."""
    session.con.execute("SELECT count(*) FROM flights").fetchall()
    found: list[list[Plan]] = []
    for _ in range(2):
        session.con.last_plans.clear()
        session.con.execute(sql, values).fetchall()
        found.append([scan.plan for scan in session.con.last_plans])
        session.change(change)
    return found[0], found[1]


@pytest.mark.rewriting
@pytest.mark.sampled(12)
@pytest.mark.parametrize(("sql", "values"), [*(STATEMENTS[n] for n in (0, 2, 3, 5, 6, 7, 8)), *OTHERS])
def test_a_statement_seen_before_has_the_plan_it_had(session: Session, sql: str, values: Any) -> None:
    ours, plain = session.rows(sql, values, lazily=False)
    assert ours == plain
    # If nothing is pruned, no row can be missing either, whatever is remembered.
    assert all(scan.reason is None and scan.kept < scan.total for scan in session.con.last_plans)
    first, second = plans(session, sql, values)
    assert all(again is plan for plan, again in zip(first, second, strict=True))


@pytest.mark.sampled(9)
@pytest.mark.parametrize(
    ("sql", "values", "change"),
    [
        (STATEMENTS[0][0], None, Session.commit),
        (STATEMENTS[0][0], None, Session.reindex),
        (STATEMENTS[0][0], None, "SET TimeZone = 'Asia/Tokyo'"),
        (STATEMENTS[6][0], None, "CREATE OR REPLACE TABLE wanted AS SELECT 64::BIGINT AS flight_id"),
        ("SELECT id FROM flights WHERE id > getvariable('v')", None, ""),
        ("SELECT id, nextval('counted') FROM flights WHERE id < 7", None, ""),
        ("SELECT id, current_setting('TimeZone') FROM flights WHERE id < 7", None, ""),
        ("SELECT id, uuid(), setseed(0.5) FROM flights WHERE id < 7", None, ""),
        ("SELECT id FROM flights WHERE list_contains(?, id)", [[1, 2]], ""),
    ],
)
def test_what_may_have_another_plan_is_planned_again(
    session: Session, sql: str, values: Any, change: Change
) -> None:
    first, second = plans(session, sql, values, change)
    assert not any(again is plan for plan, again in zip(first, second, strict=True))


MOMENTS = [
    "SELECT id FROM flights WHERE ts > now()::TIMESTAMP",
    "SELECT id FROM flights WHERE day = current_date",
]


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("sql", MOMENTS)
def test_a_plan_by_the_clock_serves_for_a_while(
    session: Session, sql: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = plans(session, sql, None)
    assert all(again is plan for plan, again in zip(first, second, strict=True))
    monkeypatch.setattr(remembered, "SECONDS_OF_A_MOMENT", 0.0)
    first, second = plans(session, sql.replace("id", "ts"), None)
    assert not any(again is plan for plan, again in zip(first, second, strict=True))


@pytest.mark.sampled(2)
@pytest.mark.rewriting
@pytest.mark.parametrize("sql", MOMENTS)
def test_a_transaction_that_began_before_a_plan_by_the_clock_has_one_of_its_own(
    session: Session, sql: str
) -> None:
    earlier, outside = (session.con.cursor().execute("SET TimeZone = 'UTC'") for _ in range(2))
    earlier.execute("BEGIN").execute("SELECT now()")
    (first,), (again,) = plans(session, sql, None)
    session.con.last_plans.clear()
    outside.execute(sql).fetchall()
    earlier.execute(sql).fetchall()
    shared, own = (scan.plan for scan in session.con.last_plans)
    assert first is again is shared
    assert own is not first


@pytest.mark.slow
def test_a_row_committed_between_two_equal_statements_is_there(session: Session) -> None:
    sql = "SELECT count(*) FROM flights WHERE id BETWEEN 0 AND 9"
    assert [session.con.execute(sql).fetchall() for _ in range(3)] == [[(10,)]] * 3
    session.commit()
    assert session.con.execute(sql).fetchall() == [(20,)]
    session.remove()
    assert session.con.execute(sql).fetchall() == [(10,)]


@pytest.mark.slow
def test_switched_off_between_two_equal_statements(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    session.con.execute(STATEMENTS[0][0]).fetchall()
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    session.con.execute(STATEMENTS[0][0]).fetchall()
    assert session.con.last_plans[-1].kept == session.con.last_plans[-1].total


@pytest.mark.slow
def test_relations_of_one_statement_can_be_joined(session: Session) -> None:
    for _ in range(3):
        one, other = (session.con.sql("SELECT id FROM flights WHERE id < 3").set_alias(name) for name in "ab")
        assert len(one.join(other, "a.id = b.id").fetchall()) == 3


@pytest.mark.slow
@pytest.mark.rewriting
def test_so_many_rewritings_are_remembered(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "REMEMBERED_REWRITINGS", 3)
    for number in (0, 1, 2, 3, 1, 4):
        session.con.execute(f"SELECT {number} FROM flights WHERE id < 0").fetchall()
    assert _remembered(session) == ["3", "1", "4"]


@pytest.mark.slow
@pytest.mark.rewriting
def test_rewritings_with_so_many_files_are_remembered(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remembered, "MOST_FILES", 25)
    for number in (0, 1, 2, 1):
        session.con.execute(f"SELECT {number} FROM flights").fetchall()
    # Twelve files each.
    assert _remembered(session) == ["2", "1"]
    session.con.execute("SELECT 3 FROM flights a JOIN flights b USING (id)").fetchall()
    assert _remembered(session) == ["3"]


def _remembered(session: Session) -> list[str]:
    """The numbers that the remembered statements select, newest last."""
    kept = session.con._runner.rewriter._remembered._entries  # pyright: ignore[reportPrivateUsage]
    return [str(key)[9] for key in kept]


@pytest.mark.parametrize(
    "values",
    [
        [1, 1.0, True, Decimal(1), Decimal("1.0"), "1", b"1"],
        [0.0, -0.0, 0, False],
        [
            datetime(2024, 1, 1, tzinfo=UTC),
            datetime(2024, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))),
            datetime(2024, 1, 1),
        ],
        [None, "None"],
    ],
)
def test_parameters_are_distinguished(values: list[Any]) -> None:
    keys = [parameters_key([value]) for value in values] + [parameters_key({"0": value}) for value in values]
    assert None not in keys
    assert len(set(keys)) == len(keys)


def test_parameters_that_may_change_are_not_remembered() -> None:
    class Text(str):
        __slots__ = ()

    for value in ([1], {"a": 1}, Text("a"), object(), (1, 2)):
        assert parameters_key([value]) is None
