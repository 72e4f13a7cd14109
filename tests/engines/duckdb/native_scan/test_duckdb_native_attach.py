"""The native scan in an existing connection, and over an object store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

import pruner_duckdb
from pruner.errors import PrunerError, TableError
from pruner_duckdb.native_scan.connecting import NativeConnection
from tests.engines.duckdb.duckdb_tables import indexed, write_airports, write_flights, write_tree
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION
from tests.support.stores.object_store import QUESTIONS, TABLE, ObjectStore, object_store, python_of_the_store
from tools.matrix import ROOT

pytestmark = NEEDS_EXTENSION

UNSIGNED: dict[str, Any] = {"allow_unsigned_extensions": "true"}


@pytest.mark.slow
def test_a_connection_that_allows_unsigned_extensions_gets_views(tmp_path: Path) -> None:
    table = indexed(write_flights(tmp_path / "flights"))
    own = duckdb.connect(config=UNSIGNED)
    own.execute("CREATE TABLE wanted AS SELECT unnest([7, 60, 61]) AS k")
    con: Any = pruner_duckdb.attach(own, {"flights": table, "web.flights": table}, native="on")
    assert isinstance(con, NativeConnection)
    assert con.unserved == {}
    for each in (con, own, own.cursor()):
        con.last_plans.clear()
        assert each.sql("SELECT id FROM flights JOIN wanted ON id = k ORDER BY id").fetchall() == [
            (7,),
            (60,),
            (61,),
        ]
        assert each.sql("SELECT id FROM web.flights WHERE id = 5").fetchall() == [(5,)]
        assert [(scan.table, scan.kept) for scan in con.last_plans] == [("flights", 2), ("web.flights", 1)]
    # The user's own setting is unchanged.
    assert own.execute("SELECT current_setting('allow_unsigned_extensions')").fetchall() == [(True,)]
    own.execute("BEGIN")
    assert own.execute("SELECT count(*) FROM flights").fetchall() == [(600,)]
    own.execute("ROLLBACK")


@pytest.mark.slow
def test_tables_that_are_not_served_are_read_the_other_way(tmp_path: Path) -> None:
    table = indexed(write_flights(tmp_path / "flights"))
    structs = {f"{n}.parquet": f"SELECT {n} AS a, {{'x{n}': {{'y{n}': 1}}}} AS s" for n in range(2)}
    own = duckdb.connect(config=UNSIGNED)
    con: Any = pruner_duckdb.attach(
        own,
        {"flights": table, "mixed": indexed(write_tree(tmp_path / "m", structs)), "lake.web.t": table},
        native="on",
    )
    assert set(con.unserved) == {"mixed", "lake.web.t"}
    con.last_plans.clear()
    assert con.execute("SELECT id, s.x1.y1 FROM flights JOIN mixed ON id = a WHERE a = 1").fetchall() == [
        (1, 1)
    ]
    assert {(scan.table, scan.kept) for scan in con.last_plans} == {("flights", 1), ("mixed", 1)}
    assert own.execute("SELECT id FROM flights WHERE id = 1").fetchall() == [(1,)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("database", "config", "reason"),
    [
        (":memory:", {}, "the database was opened with allow_unsigned_extensions = false"),
        ("x.db", UNSIGNED, "the views of the native scan would be left behind in a database file"),
        (":memory:", UNSIGNED | {"enable_external_access": "false"}, "enable_external_access = false"),
    ],
)
def test_other_connections_rewrite_statements(
    tmp_path: Path, database: str, config: dict[str, Any], reason: str
) -> None:
    place = database if database == ":memory:" else str(tmp_path / database)
    own = duckdb.connect(place, config=config)
    table = indexed(write_flights(tmp_path / "flights"))
    con = pruner_duckdb.attach(own, {"flights": table}, native="auto")
    assert isinstance(con, pruner_duckdb.Connection)
    assert reason in con.unserved["flights"]
    assert con.cursor().unserved == con.unserved
    with pytest.raises(TableError, match="the native scan is not available"):
        pruner_duckdb.attach(own, {"flights": table}, native="on")
    assert own.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
    assert pruner_duckdb.attach(own, {"flights": table}).unserved == {}


@pytest.mark.slow
def test_a_name_that_is_taken_is_refused_and_nothing_stays(tmp_path: Path) -> None:
    flights, airports = write_flights(tmp_path / "flights"), write_airports(tmp_path / "airports")
    own = duckdb.connect(config=UNSIGNED)
    own.execute("CREATE TABLE airports (x INTEGER)")
    for native in ("auto", "on"):
        with pytest.raises(PrunerError, match="already has a table or view named airports"):
            pruner_duckdb.attach(own, {"flights": str(flights), "airports": str(airports)}, native=native)
        assert own.execute("SELECT count(*) FROM duckdb_views() WHERE NOT internal").fetchall() == [(0,)]
    con: Any = pruner_duckdb.attach(own, {"flights": str(flights)}, native="on")
    assert con.execute("SELECT count(*) FROM flights").fetchall() == [(600,)]
    # One native scan per database: further tables are read by rewriting.
    more: Any = pruner_duckdb.attach(own, {"more": str(airports)}, native="auto")
    assert more.unserved == {"more": "the database has a native scan of other tables"}
    assert more.execute("SELECT count(*) FROM more JOIN flights ON flight = id").fetchall() == [(40,)]


_ASK = """
import json, os, sys
sys.path.append(json.loads(sys.argv[1]))
import duckdb, fsspec, pruner, pruner_duckdb
from obstore.fsspec import FsspecStore

table, options, questions = json.loads(sys.stdin.read())
con = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
config = {"aws_" + key.removeprefix("aws_"): options[key] for key in options if key != "allow_http"}
tables = {"flights": {"uri": table, "storage_options": options}}
without = pruner_duckdb.attach(con.cursor(), tables, native="auto")
con = duckdb.connect(config={"allow_unsigned_extensions": "true", "autoinstall_known_extensions": "false"})
con.register_filesystem(FsspecStore("s3", config=config, client_options={"allow_http": True}))
con = pruner_duckdb.attach(con, tables, native="on")
print(json.dumps([without.unserved, con.unserved]))
for each in questions:
    con.last_plans.clear()
    ids = con.sql(f"SELECT id FROM flights WHERE {each} ORDER BY id").fetchall()
    print(json.dumps([ids, [scan.kept for scan in con.last_plans]]))
print(json.dumps(con.sql("SELECT count(*) FROM flights JOIN (SELECT unnest([311, 5000]) AS id) USING (id)").fetchall()))
print(json.dumps([scan.kept for scan in con.last_plans][-1:]))
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture(scope="module")
def store() -> Iterator[ObjectStore]:
    with object_store() as running:
        running.write()
        running.open().create_index("i", on=["id", "city"])
        yield running


@pytest.mark.processes
def test_files_of_an_object_store_are_read_by_what_the_session_reads_them_with(store: ObjectStore) -> None:
    """By a file system registered here: without a network this DuckDB has no httpfs."""
    packages = next(Path(python_of_the_store()).parent.parent.glob("lib/python*/site-packages"))
    run = subprocess.run(
        [sys.executable, "-c", _ASK, json.dumps(str(packages))],
        input=json.dumps([TABLE, dict(store.options), list(QUESTIONS)]),
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'adapters'}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    first, *answers, joined, kept = map(json.loads, run.stdout.splitlines())
    assert first[1] == {}
    assert "without its extension httpfs" in first[0]["flights"]
    for (ids, files), (rows, read) in zip(QUESTIONS.values(), answers, strict=True):
        assert [row[0] for row in rows] == ids
        assert read == ([len(files)] if files else read)
    assert joined == [[1]]
    assert kept == [1]
