"""DuckDB asks while it plans: tables as views over the native scan, also pruned by what joins learn."""

from __future__ import annotations

import gc
import random
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from pruner.errors import TableError
from pruner_duckdb.catalog.tables import KnownTable
from pruner_duckdb.native_scan import answering, connecting, library
from pruner_duckdb.native_scan.library import PATIENCE
from tests.engines.duckdb.duckdb_tables import (
    Compared,
    indexed,
    oracle,
    write_airports,
    write_flights,
    write_tree,
)
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION, native

pytestmark = NEEDS_EXTENSION


@pytest.fixture(scope="module")
def compared(tmp_path_factory: pytest.TempPathFactory) -> Compared:
    base = tmp_path_factory.mktemp("native")
    flights, airports = write_flights(base / "flights"), write_airports(base / "airports")
    con = native({"flights": indexed(flights), "airports": indexed(airports)})
    both = Compared(con, oracle({"flights": flights, "airports": airports}))
    both.both("SET TimeZone = 'UTC'")
    both.both("CREATE TABLE wanted AS SELECT unnest([7, 60, 61]) AS flight_id")
    both.both("CREATE TABLE holes AS SELECT unnest([7, NULL, 60]) AS flight_id")
    both.both("CREATE TABLE nothing AS SELECT 1 AS flight_id WHERE false")
    both.both("CREATE VIEW early AS SELECT * FROM flights WHERE early")
    both.both("CREATE MACRO carrier_of(i) AS (SELECT carrier FROM flights WHERE id = i)")
    both.both("CREATE MACRO near(i) AS TABLE SELECT * FROM flights WHERE id BETWEEN i - 1 AND i + 1")
    return both


def test_the_extension_is_there_where_it_can_be_built() -> None:
    assert library.reason_against() is None


@pytest.mark.slow
def test_an_installation_without_the_extension_says_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the wheel built without a compiler."""
    monkeypatch.setattr(library, "FOLDER", tmp_path)
    root = write_flights(tmp_path / "flights")
    con = pruner_duckdb.connect({"flights": indexed(root)}, native="auto")
    assert isinstance(con, pruner_duckdb.Connection)
    assert con.execute("SELECT id FROM flights WHERE id = 5").fetchall() == [(5,)]
    assert con.last_plans[-1].kept == 1
    for each in (con, con.cursor()):
        [(name, reason)] = each.unserved.items()
        assert name == "flights"
        assert reason.startswith(f"this installation has no extension for DuckDB {duckdb.__version__} on ")
        assert reason.endswith("(it has none: in a checkout `make setup` builds the one for 2.0.0, 2.0.1)")
    assert pruner_duckdb.connect({"flights": root}).unserved == {}
    with pytest.raises(TableError, match="not available, because this installation has no .*native='auto'"):
        pruner_duckdb.connect({"flights": root}, native="on")


KEPT = {
    "SELECT * FROM flights WHERE id = 5": (1,),
    "SELECT * FROM flights WHERE id = 5 OR id = 305": (2,),
    "SELECT count(DISTINCT id) FROM flights WHERE region = 'de' AND id < 100": (1,),
    # Conditions that may fail stay above the view.
    "SELECT id FROM flights WHERE id >= 549.5": (1,),
    "SELECT id FROM flights WHERE ts::DATE = DATE '2024-01-04'": (1,),
    "SELECT extra.tags FROM flights WHERE extra.code = 4": (1,),
    "SELECT id FROM (SELECT id AS n, * FROM early) WHERE n + 1 = 56": (1,),
    # Views, macros, prepared statements.
    "SELECT max(price) FROM early WHERE id < 60": (2,),
    "SELECT carrier_of(71)": (1,),
    "SELECT id FROM near(150)": (2,),
    # What joins learn.
    "SELECT id FROM flights WHERE id IN (SELECT flight_id FROM wanted)": (2,),
    "SELECT id FROM flights JOIN wanted ON id = flight_id": (2,),
    "SELECT id FROM flights JOIN holes ON id = flight_id": (2,),
    "SELECT id FROM flights SEMI JOIN wanted ON id = flight_id": (2,),
    "SELECT id FROM wanted LEFT JOIN flights ON id = flight_id": (2,),
    "SELECT id FROM flights WHERE id = (SELECT max(flight_id) FROM wanted)": (1,),
    "SELECT f.id FROM flights f JOIN airports a ON f.id = a.flight WHERE a.flight = 60": (1, 1),
    # What must not be inferred from joins.
    "SELECT id, flight_id FROM flights LEFT JOIN wanted ON id = flight_id": (12,),
    "SELECT id, flight_id FROM flights FULL JOIN wanted ON id = flight_id": (12,),
    "SELECT id FROM flights ANTI JOIN wanted ON id = flight_id": (12,),
    "SELECT id FROM flights WHERE id NOT IN (SELECT flight_id FROM wanted)": (12,),
    "SELECT id FROM flights WHERE id NOT IN (SELECT flight_id FROM holes)": (12,),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sql", KEPT)
def test_rows_and_files(compared: Compared, sql: str) -> None:
    assert compared.kept(sql) == KEPT[sql]


ROWS = [
    "SELECT id FROM flights WHERE id IN (SELECT flight_id FROM nothing)",
    "SELECT id FROM flights WHERE id NOT IN (SELECT flight_id FROM nothing)",
    "SELECT id FROM flights WHERE NOT EXISTS (FROM wanted WHERE flight_id = id)",
    "SELECT id, (SELECT count(*) FROM wanted WHERE flight_id < id) FROM flights WHERE id < 70",
    "SELECT id, (SELECT max(flight_id) FROM holes WHERE flight_id = id) FROM flights",
    "SELECT id FROM flights WHERE id IN (SELECT flight_id FROM holes) OR delay IS NULL",
    "SELECT f.id FROM flights f JOIN holes ON f.id IS NOT DISTINCT FROM flight_id",
    "SELECT f.id, g.id FROM flights f JOIN flights g ON f.id = g.id + 50 WHERE g.id < 60",
    "SELECT f.id, t FROM flights f, LATERAL (SELECT flight_id AS t FROM wanted WHERE flight_id = f.id)",
    "SELECT * EXCLUDE extra FROM flights ORDER BY id DESC LIMIT 7",
    "SELECT * EXCLUDE extra FROM flights WHERE id < 333 ORDER BY price DESC, id LIMIT 5",
    "SELECT * EXCLUDE extra FROM flights JOIN wanted ON id = flight_id ORDER BY ts DESC LIMIT 2",
    "SELECT * FROM (SELECT id FROM flights ORDER BY id LIMIT 70) JOIN wanted ON id = flight_id",
    "SELECT flight_id, id FROM wanted ASOF JOIN flights ON flight_id >= id",
    """WITH RECURSIVE r(i) AS (SELECT 3 UNION ALL SELECT i + 110 FROM r JOIN flights ON id = i WHERE i < 500)
       SELECT count(*), max(i) FROM r""",
    """WITH RECURSIVE r(i) AS (SELECT flight_id FROM wanted UNION SELECT id + 90 FROM r JOIN flights ON id = i)
       SELECT i FROM r""",
    """WITH f AS MATERIALIZED (SELECT * FROM flights WHERE id < 200)
       SELECT count(*) FROM f a JOIN f b ON a.id = b.id + 100 JOIN wanted ON a.id = flight_id + 100""",
    "SELECT region, count(*) FROM flights WHERE id IN (SELECT flight_id FROM wanted) GROUP BY ROLLUP (region)",
    "SELECT id FROM flights WHERE id > ALL (SELECT flight_id FROM wanted)",
    "SELECT id FROM flights WHERE id IN (SELECT flight_id FROM wanted EXCEPT SELECT 60)",
    "(SELECT id FROM flights WHERE id < 3) UNION ALL (SELECT flight FROM airports WHERE flight > 190)",
    "SELECT count(*) FROM flights f JOIN wanted ON f.id % 50 = flight_id % 50 WHERE f.id % 7 = 1",
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("sql", ROWS)
def test_rows(compared: Compared, sql: str) -> None:
    compared.kept(sql)


@pytest.mark.slow
def test_the_catalog_has_the_tables(tmp_path: Path) -> None:
    root = write_flights(tmp_path / "flights")
    con = native({"flights": root, "lake.web": root})
    plain = duckdb.connect()
    plain.execute(
        f"CREATE VIEW flights AS FROM read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
    )
    assert con.execute("SHOW TABLES").fetchall() == [("flights",)]
    assert con.execute("SELECT table_schema FROM information_schema.tables ORDER BY 1").fetchall() == [
        ("lake",),
        ("main",),
    ]
    # Threads sum a deviation in any order, so its last digit varies.
    summary = (
        "SELECT column_name, column_type, min, max, count FROM (SUMMARIZE SELECT id, region FROM flights)"
    )
    for described in ("DESCRIBE flights", summary):
        assert con.execute(described).fetchall() == plain.execute(described).fetchall()
    assert con.table("lake.web").columns == con.table("flights").columns


def test_every_way_to_run_a_statement_prunes(compared: Compared) -> None:
    con: Any = compared.pruned
    wanted = [(60,)]
    ways: list[Callable[[], Any]] = [
        lambda: con.execute("SELECT id FROM flights WHERE id = ?", [60]),
        lambda: con.execute("SELECT id FROM flights WHERE id = $i", {"i": 60}),
        lambda: con.sql("SELECT id FROM flights WHERE id = 60"),
        lambda: con.table("flights").filter("id = 60").project("id"),
        lambda: con.cursor().execute("SELECT id FROM flights WHERE id = 60"),
        lambda: con.execute("EXECUTE one(60)"),
    ]
    con.execute("PREPARE one AS SELECT id FROM flights WHERE id = $1")
    for way in ways:
        con.last_plans.clear()
        assert way().fetchall() == wanted
        assert [(each.kept, each.total) for each in con.last_plans] == [(1, 12)]
    frame = pa.table({"k": [60]})  # noqa: F841 - DuckDB finds it by its name
    assert con.sql("SELECT id FROM flights JOIN frame ON id = k").fetchall() == wanted


def test_a_relation_asks_whenever_it_runs(tmp_path: Path) -> None:
    root = write_flights(tmp_path / "flights")
    con = native({"flights": root})
    relation = con.sql("SELECT count(*) FROM flights WHERE id >= 0")
    con.execute("PREPARE p AS SELECT count(*) FROM flights")
    assert relation.fetchall() == [(600,)]
    write_tree(root, {"region=us/new.parquet": f"SELECT * EXCLUDE region FROM '{root}/region=us/*2.parquet'"})
    assert relation.fetchall() == con.execute("EXECUTE p").fetchall() == [(650,)]


@pytest.mark.slow
def test_one_statement_reads_one_snapshot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even when the table changes while the statement is bound."""
    root = write_tree(tmp_path / "t", {f"f{n}.parquet": f"SELECT {n} AS a" for n in range(3)})
    con = native({"t": indexed(root)})
    write_tree(root, {"g0.parquet": "SELECT 10 AS a"})
    asked: list[str] = []
    look = KnownTable.snapshot

    def changing(self: KnownTable) -> Any:
        found = look(self)
        asked.append(self.name)
        write_tree(root, {f"g{len(asked)}.parquet": f"SELECT {10 + len(asked)} AS a"})
        return found

    monkeypatch.setattr(KnownTable, "snapshot", changing)
    for _ in range(3):
        con.execute("BEGIN")
        con.last_plans.clear()
        asked.clear()
        both = con.execute(
            "SELECT (SELECT list(a ORDER BY a) FROM t), (SELECT list(a ORDER BY a) FROM t WHERE a + 0 < 100)"
        ).fetchall()
        con.execute("COMMIT")
        assert both[0][0] == both[0][1]
        assert len({each.snapshot_id for each in con.last_plans}) == 1
        binds = 2  # DuckDB prepares a statement, and binds it again when it runs
        assert 1 <= len(asked) <= binds


@pytest.mark.slow
def test_a_table_may_get_files_of_other_schemas(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "t", {f"f{n}.parquet": f"SELECT {n} AS a, {{'x': 1}} AS s" for n in range(3)}
    )
    con = native({"t": indexed(root)})
    assert con.execute("SELECT a FROM t WHERE a = 1").fetchall() == [(1,)]
    write_tree(root, {"g.parquet": "SELECT 7::BIGINT AS a, 'x' AS b, {'x': 2} AS s"})
    assert sorted(con.execute("SELECT a, b, s.x FROM t").fetchall()) == [
        (0, None, 1),
        (1, None, 1),
        (2, None, 1),
        (7, "x", 2),
    ]
    con.last_plans.clear()
    assert con.execute("SELECT b FROM t WHERE a = 7").fetchall() == [("x",)]
    assert [each.kept for each in con.last_plans] == [1]
    write_tree(root, {"h.parquet": "SELECT 8 AS a, {'y': 3, 'x': 4} AS s"})
    con.last_plans.clear()
    assert con.execute("SELECT s.x, s.y FROM t WHERE a = 8").fetchall() == [(4, 3)]
    assert [each.kept for each in con.last_plans] == [2]  # files without index records yet
    # DuckDB fails if a file lacks a struct whose field is read: such files are read by a query.
    write_tree(root, {"i.parquet": "SELECT 9 AS a"})
    for _ in range(3):
        con.last_plans.clear()
        both = "SELECT list(s.y ORDER BY a) FROM t WHERE a > 7"
        assert con.execute(f"SELECT ({both}), ({both})").fetchall() == [([3, None], [3, None])]
        assert [(each.kept, str(each.reason)) for each in con.last_plans] in (
            [(6, "not all files have the struct s alike")] * times for times in (1, 2, 4)
        )


@pytest.mark.slow
def test_the_table_function_has_the_columns_that_views_hide(tmp_path: Path) -> None:
    """A view over Parquet files hides file names; the function below it has them, and prunes as well."""
    root = write_flights(tmp_path / "flights")
    con, plain = native({"flights": indexed(root)}), duckdb.connect()
    source = f"read_parquet('{root}/**/*.parquet', hive_partitioning = true)"
    for sql, kept in (
        ("SELECT filename, id FROM {} WHERE id = 5", 1),
        ("SELECT filename, file_row_number, id FROM {} WHERE id BETWEEN 40 AND 60 ORDER BY id", 2),
        ("SELECT filename, count(*) FROM {} GROUP BY ALL ORDER BY ALL", 12),
        ("SELECT id FROM {} WHERE filename LIKE '%-03.parquet' AND file_row_number < 3 ORDER BY id", None),
        ("SELECT filename, id FROM {} f JOIN (VALUES (7), (60)) w(i) ON f.id = i ORDER BY id", 2),
    ):
        con.last_plans.clear()
        right = plain.execute(sql.format(source)).fetchall()
        assert right != []
        assert con.execute(sql.format("pruner_scan('flights')")).fetchall() == right, sql
        if kept is not None:
            assert [scan.kept for scan in con.last_plans] == [kept], sql


@pytest.mark.slow
def test_tables_that_are_not_served_are_read_the_other_way(tmp_path: Path) -> None:
    mixed = write_tree(
        tmp_path / "m",
        {"a.parquet": "SELECT 1 AS a", "b.parquet": "SELECT 2 AS a, {'x': 2, 'b': 3} AS s"},
    )
    con: Any = pruner_duckdb.connect(
        {
            "flights": indexed(write_flights(tmp_path / "flights")),
            "mixed": indexed(mixed),
            "absent": tmp_path / "absent",
            "stale": {"uri": str(mixed), "max_staleness": 5},
        },
        native="on",
    )
    assert set(con.unserved) == {"mixed", "absent", "stale"}
    con.last_plans.clear()
    sql = "SELECT f.id, s.b FROM flights f JOIN mixed m ON f.id = m.a WHERE m.a = 2"
    assert con.execute(sql).fetchall() == con.sql(sql).fetchall() == [(2, 3)]
    kept = {(each.table, each.kept, each.total) for each in con.last_plans}
    assert ("mixed", 1, 2) in kept
    assert ("flights", 1, 12) in kept
    with pytest.raises(TableError, match="absent"):
        con.execute("SELECT * FROM absent")
    assert con.cursor().execute("SELECT count(*) FROM stale").fetchall() == [(2,)]


@pytest.mark.slow
def test_it_is_off_unless_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_flights(tmp_path / "flights")
    assert isinstance(pruner_duckdb.connect({"flights": root}), pruner_duckdb.Connection)
    for native_ in ("auto", "on"):
        con = pruner_duckdb.connect({"flights": root}, native=native_)
        assert isinstance(con, connecting.NativeConnection)
    with pytest.raises(TableError, match="native is"):
        pruner_duckdb.connect({"flights": root}, native="yes")
    elsewhere: list[dict[str, Any]] = [
        {"database": str(tmp_path / "x.db")},
        {"config": {"allow_unsigned_extensions": "false"}},
    ]
    for refused in elsewhere:
        assert isinstance(
            pruner_duckdb.connect({"flights": root}, native="auto", **refused), pruner_duckdb.Connection
        )
        with pytest.raises(TableError, match="the native scan is not available, because the"):
            pruner_duckdb.connect({"flights": root}, native="on", **refused)
    monkeypatch.setenv(library.SWITCHED_OFF, "off")
    assert isinstance(pruner_duckdb.connect({"flights": root}, native="auto"), pruner_duckdb.Connection)


@pytest.mark.slow
def test_an_extension_of_other_sources_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_flights(tmp_path / "flights")
    monkeypatch.setattr(library, "fingerprint", lambda: "another")
    with pytest.raises(TableError, match="other sources"):
        pruner_duckdb.connect({"flights": root}, native="on")
    broken = tmp_path / library.NAME
    broken.write_bytes(b"no extension")
    monkeypatch.setattr(library, "place", lambda *_: broken)
    assert isinstance(pruner_duckdb.connect({"flights": root}, native="auto"), pruner_duckdb.Connection)


def test_no_other_extension_can_be_loaded_afterwards(compared: Compared, tmp_path: Path) -> None:
    path = library.place(duckdb.__version__, library.platform())
    (tmp_path / "other.duckdb_extension").write_bytes(path.read_bytes())
    con = compared.pruned.cursor()
    assert con.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(False,)]
    with pytest.raises(duckdb.Error, match=r"(?i)unsigned|signature"):
        con.execute(f"LOAD '{tmp_path}/other.duckdb_extension'")
    with pytest.raises(duckdb.Error, match=r"(?i)cannot"):
        con.execute("SET allow_unsigned_extensions = true")


@pytest.mark.slow
def test_statistics_of_the_last_file_that_is_left_do_not_count(tmp_path: Path) -> None:
    """Writers leave NaN out of the statistics by which DuckDB would find `x < 10` true of every row."""
    root = tmp_path / "t"
    root.mkdir()
    for n in range(3):
        pq.write_table(pa.table({"n": [n, n], "x": [1.0 + n, float("nan")]}), root / f"f{n}.parquet")
    con, plain = native({"t": indexed(root)}), duckdb.connect()
    plain.execute(f"CREATE VIEW t AS FROM read_parquet('{root}/*.parquet')")
    for condition in ("x < 10", "x > 10", "x = 'NaN'", "isnan(x)", "NOT x < 10"):
        sql = f"SELECT count(*) FROM t WHERE n = 1 AND {condition}"
        assert con.execute(sql).fetchall() == plain.execute(sql).fetchall(), sql


@pytest.fixture
def failing(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Any], list[str | None]]]:
    """Make plans fail in a given way; returns the reasons of a statement that then keeps all files."""

    def run(fail: Any) -> list[str | None]:
        for name in ("_static", "_dynamic"):
            monkeypatch.setattr(answering.TableAnswers, name, fail)
        con = compared.pruned
        con.last_plans.clear()
        sql = "SELECT id FROM flights JOIN wanted ON id = flight_id WHERE id < 100"
        assert sorted(con.execute(sql).fetchall()) == [(7,), (60,), (61,)]
        assert [each.kept for each in con.last_plans] == [12]
        return [each.reason for each in con.last_plans]

    yield run
    monkeypatch.undo()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, MemoryError, SystemExit])
def test_errors_keep_all_files(
    failing: Callable[[Any], list[str | None]], error: type[BaseException]
) -> None:
    def fail(*_: object) -> None:
        # Made here: pytest keeps its parameters, and a raised error keeps every object of its frames alive.
        raise error("no plan")

    (reason,) = failing(fail)
    assert "planning failed" in str(reason)


@pytest.mark.parametrize("fields", [(), ("1",), ("1", "0000ffff"), ("1", "zzzzzzzz")])
def test_answers_that_make_no_sense_keep_all_files(
    failing: Callable[[Any], list[str | None]], fields: tuple[str, ...]
) -> None:
    (reason,) = failing(lambda *_: fields)
    assert reason


def test_a_plan_that_takes_too_long_keeps_all_files(
    compared: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = library.Library(library.place(duckdb.__version__, library.platform()))
    done = threading.Event()
    monkeypatch.setattr(answering.TableAnswers, "_static", lambda *_: done.wait(60) and ())
    con = compared.pruned
    con.last_plans.clear()
    opened.open(0.05)
    try:
        assert len(con.execute("SELECT id FROM flights WHERE id < 60").fetchall()) == 60
    finally:
        done.set()
        opened.open(PATIENCE)
    assert [(each.kept, each.reason) for each in con.last_plans] == [(12, "planning took too long")]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("asked", ["_bind", "_static"])
def test_an_interrupted_statement_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str) -> None:
    root = write_flights(tmp_path / "flights")
    con = native({"flights": indexed(root)})
    # Without a change since the connection was made, nothing would be asked.
    (root / "region=new").mkdir()
    done = threading.Event()

    def interrupt(*_: object) -> tuple[str, ...]:
        con.interrupt()
        done.wait(20)
        return ()

    monkeypatch.setattr(answering.TableAnswers, asked, interrupt)
    with pytest.raises(duckdb.InterruptException):
        con.execute("SELECT count(DISTINCT carrier) FROM flights WHERE id < 100").fetchall()
    done.set()
    monkeypatch.undo()
    assert con.execute("SELECT id FROM flights WHERE id = 1").fetchall() == [(1,)]


def test_pruning_can_be_switched_off(compared: Compared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    for sql in ("SELECT id FROM flights WHERE id = 5", "SELECT carrier FROM flights"):
        assert compared.kept(sql) == (12,)
        assert compared.reasons() == ["switched off by PRUNER_DISABLED=1"]


@pytest.mark.slow
def test_a_new_connection_can_be_used_in_any_way_at_once(tmp_path: Path) -> None:
    """DuckDB makes no relation while a result has not been read to its end."""
    root = write_flights(tmp_path / "flights")
    assert native({"flights": root}).sql("SELECT count(*) FROM flights").fetchall() == [(600,)]
    assert native({"flights": root}).table("flights").limit(2).fetchall() != []


def test_a_table_that_cannot_be_listed_has_its_own_sentence(tmp_path: Path) -> None:
    root = write_flights(tmp_path / "flights")
    con = native({"flights": root})
    (root / "_delta_log").mkdir()
    (root / "_delta_log" / "00000000000000000000.json").write_text("{}")
    with pytest.raises(duckdb.IOException) as error:
        con.execute("SELECT * FROM flights")
    first = str(error.value).split("\n", 1)[0]
    assert first.startswith(f"IO Error: pruner: table flights cannot be read: {root} is a Delta table")
    assert "planning failed" not in first


@pytest.mark.slow
def test_tables_of_a_closed_database_are_forgotten(tmp_path: Path) -> None:
    shared = connecting._shared()  # pyright: ignore[reportPrivateUsage]
    root = write_flights(tmp_path / "flights")
    before = len(shared._databases)  # pyright: ignore[reportPrivateUsage]
    for _ in range(5):
        with native({"flights": root}) as con:
            assert con.execute("SELECT count(*) FROM flights").fetchall() == [(600,)]
        del con
    gc.collect()
    shared.settle()
    assert len(shared._databases) <= before  # pyright: ignore[reportPrivateUsage]


@pytest.mark.slow
def test_the_first_statement_waits_for_no_import(tmp_path: Path) -> None:
    root = write_flights(tmp_path / "flights")
    indexed(root).create_index("bits", on="carrier", using="bitmap")
    script = f"""
        import sys, pruner_duckdb
        con = pruner_duckdb.connect({{"flights": {str(root)!r}}}, native="on")
        before = set(sys.modules)
        con.execute("SELECT * FROM flights WHERE id = 7 AND carrier = 'x'").fetchall()
        con.execute("SELECT count(*) FROM flights JOIN (SELECT 7 AS id) USING (id)").fetchall()
        print(sorted(each for each in set(sys.modules) - before if each.startswith("pruner")))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


@pytest.mark.slow
def test_after_a_fork(tmp_path: Path) -> None:
    root = write_flights(tmp_path / "flights")
    script = f"""
        import os, pruner_duckdb
        con = pruner_duckdb.connect({{"flights": {str(root)!r}}}, native="on")
        count = "SELECT count(*) FROM flights WHERE id < 100"
        assert con.execute(count).fetchall() == [(100,)]
        child = os.fork()
        if child == 0:
            own = pruner_duckdb.connect({{"flights": {str(root)!r}}}, native="on")
            right = own.execute(count).fetchall() == [(100,)] and len(own.last_plans) > 0
            os._exit(0 if right else 3)
        assert os.waitpid(child, 0)[1] == 0
        assert con.execute(count).fetchall() == [(100,)]
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (0, "")


THREADS, STATEMENTS = 8, 150


@pytest.mark.slow
def test_threads_and_cursors(tmp_path: Path) -> None:
    """Statements of all kinds side by side, while callbacks run the garbage collector."""
    con = native({"flights": indexed(write_flights(tmp_path / "flights"))})
    con.execute("CREATE TABLE wanted AS SELECT unnest([7, 60, 61]) AS k")
    wrong: list[object] = []

    def work(seed: int) -> None:
        chance, cursor = random.Random(seed), con.cursor()
        for turn in range(STATEMENTS):
            i = chance.randrange(600)
            try:
                match turn % 5:
                    case 0:
                        found, right = (
                            cursor.execute("SELECT id FROM flights WHERE id = ?", [i]).fetchall(),
                            [(i,)],
                        )
                    case 1:
                        found, right = (
                            cursor.sql(f"SELECT count(*) FROM flights WHERE id < {i}").fetchall(),
                            [(i,)],
                        )
                    case 2:
                        cursor.execute("SELECT id FROM flights JOIN wanted ON id = k ORDER BY id")
                        found, right = [cursor.fetchone(), *cursor.fetchmany(5)], [(7,), (60,), (61,)]
                    case 3:
                        cursor.execute(f"SELECT id FROM flights WHERE id >= {i} ORDER BY id")
                        found, right = cursor.fetchone(), (i,)
                    case _:
                        own = cursor.cursor()
                        found, right = own.execute("SELECT max(id) FROM flights").fetchall(), [(599,)]
                        own.close()
                        gc.collect(0)
            except duckdb.Error as error:
                found, right = error, None
            if found != right:
                wrong.append((found, right))

    threads = [threading.Thread(target=work, args=(seed,), daemon=True) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads), "threads wait for each other"
    assert wrong == []


WRITTEN_KEPT = {
    "SELECT id FROM flights WHERE upper(carrier) = 'C05B'": 2,
    "SELECT id FROM flights WHERE date_trunc('day', ts) = TIMESTAMP '2024-01-04'": 1,
    "SELECT id FROM flights WHERE ts::DATE = DATE '2024-01-04' AND id < 170": 1,
    "SELECT id FROM (SELECT * FROM flights WHERE id > 40) f WHERE upper(carrier) = 'C00A'": 2,
    "SELECT id FROM flights WHERE upper(carrier) = 'NONE' OR id = 3": 1,
}
UNNEST_KEPT = {
    "SELECT id, x FROM flights, unnest([1, 2]) u(x) WHERE id = 5 AND x = 2": 1,
    "SELECT id, unnest([1, 2]) FROM flights WHERE id IN (5, 305)": 2,
    "SELECT * FROM (SELECT id, unnest(extra.tags) AS x FROM flights) WHERE id = 7 AND x > 3": 1,
}
UNNEST_ROWS = [
    "SELECT id, x FROM flights, unnest(extra.tags) u(x) WHERE id = 5",
    "SELECT id, x FROM flights LEFT JOIN LATERAL (SELECT unnest(extra.tags) AS x) u ON x < 3 WHERE id < 60",
    "SELECT id, x FROM flights, LATERAL (SELECT id + 1 AS x UNION ALL SELECT 5) WHERE x = 5 OR id = 70",
    "SELECT id, (SELECT max(t) FROM unnest(extra.tags) u(t) WHERE t > 5) FROM flights WHERE id < 9",
    "SELECT id, x FROM flights, unnest(extra.tags) u(x) WHERE x = 5",
    "SELECT id, x FROM flights, unnest([id, 5]) u(x) WHERE x = 5 AND x = id",
    "SELECT id, x FROM flights LEFT JOIN unnest([1, 2]) u(x) ON id = x",
    "SELECT id FROM flights WHERE id IN (SELECT unnest(extra.tags))",
]


@pytest.mark.slow
def test_indexes_over_expressions_see_conditions_as_they_are_written(tmp_path: Path) -> None:
    root = write_flights(tmp_path / "flights")
    table = indexed(root)
    table.create_index("upper", on="upper(carrier)", using="bitmap", dialect="duckdb")
    table.create_index("days", on="date_trunc('day', ts)", dialect="duckdb")
    both, other = (
        Compared(native({"flights": table}), oracle({"flights": root})),
        pruner_duckdb.connect({"flights": table}),
    )
    for sql, kept in WRITTEN_KEPT.items():
        assert both.kept(sql) == (kept,), sql
        other.execute(sql).fetchall()
        assert other.last_plans[-1].kept == kept, sql


@pytest.mark.sampled(2)
@pytest.mark.parametrize("sql", [*UNNEST_KEPT, *UNNEST_ROWS])
def test_conditions_beside_unnest(compared: Compared, sql: str) -> None:
    kept = compared.kept(sql)
    if sql in UNNEST_KEPT:
        assert kept == (UNNEST_KEPT[sql],)


@pytest.mark.slow
def test_a_file_that_is_removed_while_the_statement_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removed after planning: the statement fails with one sentence, and finds the other files when it runs again."""
    root = write_flights(tmp_path / "flights")
    con = native({"flights": indexed(root)})
    con.execute("PREPARE p AS SELECT count(*), sum(id) FROM flights WHERE id >= 100")
    relation = con.sql("SELECT count(*), sum(id) FROM flights WHERE id >= 100")
    right = (
        oracle({"flights": root}).execute("SELECT count(*), sum(id) FROM flights WHERE id >= 150").fetchall()
    )
    ways: list[Callable[[], Any]] = [lambda: con.execute("EXECUTE p").fetchall(), relation.fetchall]
    (gone,) = root.rglob("part-02.parquet")
    content, start = gone.read_bytes(), answering.TableAnswers._static  # pyright: ignore[reportPrivateUsage]

    def removing(self: Any, question: Any) -> Any:
        answer = start(self, question)
        gone.unlink(missing_ok=True)
        return answer

    for way in ways:
        gone.write_bytes(content)
        monkeypatch.setattr(answering.TableAnswers, "_static", removing)
        with pytest.raises(
            duckdb.IOException, match="table flights: .*part-02.parquet was removed while the stat"
        ):
            way()
        monkeypatch.undo()
        assert way() == right


@pytest.mark.slow
def test_a_statement_that_reads_alone_is_planned_again_where_a_file_was_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_flights(tmp_path / "flights")
    con = native({"flights": indexed(root)})
    con.execute("CREATE TABLE kept (n BIGINT)")
    (gone,) = root.rglob("part-02.parquet")
    content, start = gone.read_bytes(), answering.TableAnswers._static  # pyright: ignore[reportPrivateUsage]
    asked: list[Any] = []

    def rows(con: Any, sql: str, parameters: Any, frame: Any) -> Any:
        return con.execute(sql, parameters).fetchall()

    def removing(self: Any, question: Any) -> Any:
        asked.append(answer := start(self, question))
        gone.unlink(missing_ok=True)
        return answer

    def removed(run: Callable[[], Any]) -> Any:
        gone.write_bytes(content)
        asked.clear()
        with monkeypatch.context() as patched:
            patched.setattr(answering.TableAnswers, "_static", removing)
            return run()

    for sql, parameters in (
        ("SELECT count(*), sum(id) FROM flights WHERE id >= 100", None),
        ("SELECT count(*), sum(id) FROM flights WHERE id >= ?", [101]),
        (
            "WITH x AS (FROM flights WHERE id >= 102) SELECT count(DISTINCT id) FROM x JOIN flights USING (id)",
            None,
        ),
        ("SELECT count(*) FROM frame, flights WHERE id >= 103 AND k > id", None),
    ):
        seen = (sql, parameters, pa.table({"k": [230, 700]}))
        found = removed(lambda seen=seen: rows(con, *seen))
        assert len(asked) > 1, sql
        assert found == rows(oracle({"flights": root}), *seen), sql
    # What writes, or consists of several statements, fails with one sentence and has done nothing twice.
    for sql in (
        "INSERT INTO kept SELECT id FROM flights WHERE id >= 104",
        "INSERT INTO kept VALUES (1); SELECT count(*), sum(id) FROM flights WHERE id >= 105",
    ):
        with pytest.raises(duckdb.IOException, match="was removed while the statement ran"):
            removed(lambda sql=sql: con.execute(sql).fetchall())
    assert con.execute("FROM kept").fetchall() == [(1,)]
