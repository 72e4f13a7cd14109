"""What outlives its statement reads the table as it is at run time: views, prepared statements, registered relations,
cursors. None of them keeps a list of files.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import pruner_duckdb
from pruner.errors import PrunerError
from tests.engines.duckdb.duckdb_tables import flights_query, indexed, write_flights, write_tree

COUNT = "SELECT count(*) FROM {} WHERE id >= 550"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = write_flights(tmp_path / "flights")
    indexed(root)
    return root


@pytest.fixture
def con(root: Path) -> pruner_duckdb.Connection:
    return pruner_duckdb.connect({"flights": str(root)})


def prepared(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.execute("PREPARE few AS SELECT count(*) FROM flights WHERE id >= ?")
    return lambda: con.execute("EXECUTE few(550)").fetchall()


def view(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.execute("CREATE VIEW lately AS SELECT * FROM flights")
    return lambda: con.execute(COUNT.format("lately")).fetchall()


def view_of_a_view(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.execute(
        "CREATE VIEW lately AS SELECT * FROM flights; CREATE TEMP VIEW more (id) AS SELECT id FROM lately"
    )
    return lambda: con.cursor().execute(COUNT.format("lately")).fetchall()


def relation_of_a_view(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.execute("CREATE VIEW lately AS SELECT * FROM flights")
    relation = con.sql(COUNT.format("main.lately"))
    return relation.fetchall


def view_by_name(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.execute("CREATE VIEW lately AS SELECT * FROM flights WHERE id >= 550")
    relation = con.view("lately").aggregate("count(*)")
    return relation.fetchall


def registered(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.register("lately", con.sql("SELECT id FROM flights WHERE id >= 550"))
    return lambda: con.execute(COUNT.format("lately")).fetchall()


def relation_of_a_registered_one(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.register("lately", con.sql("SELECT id FROM flights WHERE id >= 550"))
    relation = con.sql(COUNT.format("lately"))
    return relation.fetchall


def relation_of_a_prepared_one(con: pruner_duckdb.Connection) -> Callable[[], object]:
    con.execute("PREPARE few AS SELECT count(*) FROM flights WHERE id >= $low")
    relation = con.sql("EXECUTE few(low := 550)")
    return relation.fetchall


OUTLIVING = [
    prepared,
    view,
    view_of_a_view,
    relation_of_a_view,
    view_by_name,
    registered,
    relation_of_a_registered_one,
    relation_of_a_prepared_one,
]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("make", OUTLIVING)
def test_files_that_come_and_go_are_seen(
    con: pruner_duckdb.Connection,
    root: Path,
    make: Callable[[pruner_duckdb.Connection], Callable[[], object]],
) -> None:
    run = make(con)
    assert run() == [(50,)]
    assert con.last_plans[-1].kept == 1
    write_tree(root, {"region=us/part-12.parquet": flights_query(12)})
    assert run() == [(100,)]
    (root / "region=us/part-12.parquet").unlink()
    (root / "region=us/part-11.parquet").unlink()
    assert run() == [(0,)]
    assert con.last_plans[-1].kept == 0


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_pivot_reads_the_files_of_the_moment_it_runs(con: pruner_duckdb.Connection, root: Path) -> None:
    relation = con.sql("PIVOT (SELECT region, id FROM flights WHERE id >= 550) ON region USING count(*)")
    assert len(relation.fetchall()) == 50
    write_tree(root, {"region=us/part-12.parquet": flights_query(12)})
    assert len(relation.fetchall()) == 100


@pytest.mark.slow
def test_a_view_is_kept_in_the_database(root: Path, tmp_path: Path) -> None:
    file = str(tmp_path / "some.duckdb")
    with pruner_duckdb.connect({"lake.flights": str(root)}, database=file) as con:
        con.execute("CREATE VIEW early (number) AS SELECT id FROM lake.flights WHERE id < 100")
        assert con.execute("SHOW TABLES").fetchall() == [("early",)]
        assert (
            con.execute("SELECT schema_name FROM duckdb_schemas() WHERE schema_name = 'lake'").fetchall()
            == []
        )
    with duckdb.connect(file) as alone, pytest.raises(duckdb.CatalogException, match="flights"):
        alone.execute("SELECT * FROM early")
    with pruner_duckdb.connect({"lake.flights": str(root)}, database=file) as con:
        assert con.execute("SELECT count(*) FROM early WHERE number >= 50").fetchall() == [(50,)]
        assert con.last_plans[-1].kept == 1
        con.execute("DROP VIEW early")
        with pytest.raises(duckdb.CatalogException, match="early"):
            con.execute("SELECT * FROM early")


@pytest.mark.slow
def test_views_that_other_handles_made_or_renamed_are_found(con: pruner_duckdb.Connection) -> None:
    con.execute("CREATE VIEW a AS SELECT id FROM flights WHERE id < 100")
    con.native.cursor().execute("ALTER VIEW a RENAME TO other_name")
    assert con.execute("SELECT count(*) FROM other_name").fetchall() == [(100,)]
    con.native.cursor().execute("ALTER VIEW other_name RENAME TO third_name")
    assert con.sql("SELECT count(*) FROM third_name JOIN flights USING (id) WHERE id = 5").fetchall() == [
        (1,)
    ]


@pytest.mark.slow
def test_a_view_in_a_transaction_goes_with_it(con: pruner_duckdb.Connection) -> None:
    con.execute("BEGIN")
    con.execute("CREATE VIEW a AS SELECT id FROM flights")
    assert con.execute("SELECT count(*) FROM a WHERE id < 50").fetchall() == [(50,)]
    con.execute("ROLLBACK")
    with pytest.raises(duckdb.CatalogException, match="name a does not exist"):
        con.execute("SELECT * FROM a")


@pytest.mark.slow
@pytest.mark.rewriting
def test_a_view_in_another_database(con: pruner_duckdb.Connection) -> None:
    con.execute("ATTACH ':memory:' AS other")
    con.execute("CREATE VIEW other.main.a AS SELECT id FROM flights WHERE id < 100")
    with pytest.raises(PrunerError, match="belongs to another schema"):
        con.execute("SELECT * FROM other.main.a")
    con.execute("USE other")
    assert con.execute("SELECT count(*) FROM a").fetchall() == [(100,)]
    assert con.last_plans[-1].kept == 2


@pytest.mark.rewriting
def test_names_in_a_view_never_mean_another_thing(con: pruner_duckdb.Connection) -> None:
    con.execute("CREATE VIEW a AS SELECT id FROM flights")
    with pytest.raises(PrunerError, match="a WITH of the statement has that name"):
        con.execute("WITH flights AS (SELECT 1 AS id) SELECT * FROM a, flights")
    with pytest.raises(PrunerError, match="would hide the table flights"):
        con.execute("CREATE VIEW flights AS SELECT * FROM flights")
    assert con.execute("WITH a AS (SELECT 1 AS id) SELECT count(*) FROM a").fetchall() == [(1,)]


@pytest.mark.slow
def test_a_view_of_the_tables_name_that_does_not_read_it_hides_it(con: pruner_duckdb.Connection) -> None:
    for _ in range(2):
        con.execute("CREATE TEMP VIEW flights AS SELECT 7 AS id")
        assert con.execute("FROM flights").fetchall() == [(7,)]
        con.execute("DROP VIEW flights")
        assert con.execute("SELECT count(*) FROM flights").fetchall() == [(600,)]


@pytest.mark.rewriting
def test_a_view_that_duckdb_refuses_leaves_nothing(con: pruner_duckdb.Connection) -> None:
    with pytest.raises(duckdb.BinderException, match="nope"):
        con.execute("CREATE VIEW a AS SELECT nope FROM flights")
    assert con.execute("SHOW TABLES").fetchall() == []
    assert con.execute("SELECT count(*) FROM flights WHERE id < 50").fetchall() == [(50,)]


@pytest.mark.slow
@pytest.mark.rewriting
def test_arguments_of_prepared_statements(con: pruner_duckdb.Connection) -> None:
    con.execute("PREPARE few AS SELECT count(*) FROM flights WHERE id < $1 AND carrier <> $2")
    assert con.execute("EXPLAIN EXECUTE few(50, 'a, (')").fetchall()
    assert con.last_plans[-1].kept == 1
    alone = duckdb.connect()
    alone.execute("PREPARE few AS SELECT $1, $2")
    for arguments in ("(5)", "", "(5, 'x', 7)", "(x := 5, y := 6)"):
        with pytest.raises(duckdb.InvalidInputException) as told:
            alone.execute(f"EXECUTE few{arguments}")
        for sql in (f"EXECUTE few{arguments}", f"EXPLAIN EXECUTE few{arguments}"):
            with pytest.raises(duckdb.InvalidInputException, match=re.escape(str(told.value))):
                con.execute(sql)
    assert con.execute("EXECUTE few(50, 'x')").fetchall() == [(50,)]
    with pytest.raises(duckdb.BinderException, match="does not exist"):
        con.cursor().execute("EXECUTE few(5, 'x')")
    con.execute("DEALLOCATE few")
    with pytest.raises(duckdb.BinderException, match="does not exist"):
        con.execute("EXECUTE few(5, 'x')")
    con.execute("PREPARE few AS SELECT count(*) FROM flights")
    con.execute("PREPARE few AS SELECT 42")
    assert con.execute("EXECUTE few").fetchall() == [(42,)]


def test_executemany_reads_the_tables(con: pruner_duckdb.Connection) -> None:
    con.execute("CREATE TABLE kept (id INTEGER)")
    con.executemany("INSERT INTO kept SELECT id FROM flights WHERE id = ?", [[5], [60], [7000]])
    assert con.execute("FROM kept").fetchall() == [(5,), (60,)]
    assert [scan.kept for scan in con.last_plans] == [1, 1, 0]


@pytest.mark.rewriting
def test_a_registered_relation_is_logged_once_for_each_time_it_is_read(
    con: pruner_duckdb.Connection, caplog: pytest.LogCaptureFixture
) -> None:
    con.register("lately", con.sql("SELECT id FROM flights WHERE id < 100"))
    with caplog.at_level(logging.INFO, "pruner"):
        joined = "SELECT count(*) FROM lately JOIN flights USING (id) WHERE flights.id < 50"
        assert con.execute(joined).fetchall() == [(50,)]
    assert sorted(vars(record)["pruner_kept"] for record in caplog.records) == [1, 2]
    con.unregister("lately")
    with pytest.raises(duckdb.CatalogException, match="lately"):
        con.execute("SELECT * FROM lately")
