"""What the extension need not ask again: an unchanged table, and a question that was answered before.

Each test states what may change between two runs of a statement; the second one reads the table as it is then.
"""

from __future__ import annotations

import datetime
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner_duckdb.catalog.tables import KnownTable
from pruner_duckdb.native_scan import answering
from tests.engines.duckdb.duckdb_tables import indexed, oracle, write_flights, write_tree
from tests.engines.duckdb.native_scan.native_tables import NEEDS_EXTENSION, native
from tests.support.running.patience import until

pytestmark = NEEDS_EXTENSION

KINDS = ("_bind", "_static", "_dynamic")


class Asked:
    """How often Python was asked, by kind of question."""

    def __init__(self) -> None:
        self.kinds: list[str] = []

    def of(self, run: Callable[[], object]) -> list[str]:
        """The kinds of questions asked while `run` runs."""
        self.kinds.clear()
        run()
        return sorted(self.kinds)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    for kind in KINDS:
        answer = getattr(answering.TableAnswers, kind)

        def counting(self: Any, question: Any, kind: str = kind, answer: Any = answer) -> Any:
            found.kinds.append(kind)
            return answer(self, question)

        monkeypatch.setattr(answering.TableAnswers, kind, counting)
    return found


def learned(asked: Asked, run: Callable[[], object]) -> None:
    """Run something until it asks nothing any more: a table must be quiet for some milliseconds first."""
    until(lambda: not asked.of(run))


@contextmanager
def flights(tmp_path: Path) -> Iterator[tuple[Any, pruner.Table, Path]]:
    root = write_flights(tmp_path / "flights")
    table = pruner.open_table(str(root))
    table.create_index("ids", on=["id", "price"])
    con = native({"flights": table})
    try:
        yield con, table, root
    finally:
        con.close()


def kept(con: Any, sql: str, parameters: Any = None) -> tuple[list[tuple[Any, ...]], list[int]]:
    con.last_plans.clear()
    rows = con.execute(sql, parameters).fetchall()
    return sorted(rows), [each.kept for each in con.last_plans]


JOIN = "SELECT id FROM flights JOIN (VALUES (7), (60)) wanted(i) ON id = i WHERE price > -1"


@pytest.mark.slow
def test_a_statement_that_was_run_before_asks_nothing(tmp_path: Path, asked: Asked) -> None:
    with flights(tmp_path) as (con, _, _):
        for sql, files in (("SELECT id FROM flights WHERE id = 5", 1), (JOIN, 2)):
            first = kept(con, sql)
            assert first[1] == [files]
            learned(asked, lambda sql=sql: con.execute(sql).fetchall())
            assert asked.of(lambda sql=sql, first=first: _same(kept(con, sql), first)) == []
            # The other connections of the database know it, too; another spelling of the statement also asks nothing.
            assert asked.of(lambda sql=sql: con.cursor().execute(f"{sql}  -- again").fetchall()) == []
        assert asked.of(lambda: con.execute("SELECT id FROM flights WHERE id = 6").fetchall()) == ["_static"]
        assert "id = 6" in con.last_plans[-1].explain()


def _same(found: object, wanted: object) -> None:
    assert found == wanted


@pytest.mark.slow
def test_parameters_are_part_of_the_question(tmp_path: Path, asked: Asked) -> None:
    with flights(tmp_path) as (con, _, _):
        sql = "SELECT id FROM flights WHERE id = ?"
        con.execute("PREPARE p AS SELECT id FROM flights WHERE id BETWEEN ? AND ?")
        learned(asked, lambda: (con.execute(sql, [5]).fetchall(), con.execute("EXECUTE p(5, 6)").fetchall()))
        for number in (6, 599, 5, 305, 600, 305):
            rows = [(number,)] if number < 600 else []
            assert kept(con, sql, [number]) == (rows, [1] if rows else [0])
            found = kept(con, f"EXECUTE p({number}, {number + 60})")
            assert found[0] == [(each,) for each in range(number, min(number + 61, 600))]
            assert len(found[1]) == 1
            assert found[1][0] <= 3


def _rows(number: int, many: int = 3) -> pa.Table:
    return pa.table({"a": pa.array([number] * many, pa.int64()), "b": pa.array(["x"] * many)})


@pytest.mark.slow
def test_every_change_of_the_files_is_seen_at_once(tmp_path: Path, asked: Asked) -> None:
    root = tmp_path / "t"
    (root / "p=1").mkdir(parents=True)
    (root / "p=2").mkdir()
    for number in range(4):
        pq.write_table(_rows(number), root / f"p={1 + number % 2}" / f"f{number}.parquet")
    con = native({"t": indexed(root)})
    sql = "SELECT a, p FROM t WHERE a = 2"

    def now(rows: int) -> None:
        assert len(con.execute(sql).fetchall()) == rows

    learned(asked, lambda: con.execute(sql).fetchall())
    now(3)
    pq.write_table(_rows(2), root / "p=2" / "new.parquet")
    now(6)
    learned(asked, lambda: con.execute(sql).fetchall())
    # In place: the same number of bytes, and the modification time set back (trap T16).
    path = root / "p=1" / "f0.parquet"
    before = path.stat()
    pq.write_table(_rows(2), path)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size
    now(9)
    learned(asked, lambda: con.execute(sql).fetchall())
    (root / "p=1" / "f2.parquet").rename(root / "p=2" / "f2.parquet")
    assert sorted(con.execute(sql).fetchall()) == [(2, 1)] * 3 + [(2, 2)] * 6
    learned(asked, lambda: con.execute(sql).fetchall())
    (root / "p=1" / "f0.parquet").unlink()
    now(6)
    (root / "p=3" / "deeper").mkdir(parents=True)
    now(6)
    pq.write_table(_rows(2), root / "p=3" / "f9.parquet")
    now(9)


@pytest.mark.slow
def test_what_came_and_went_while_a_table_was_listed_is_not_remembered(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder looks as it did before the listing, which contains a file that is gone."""
    root = write_tree(tmp_path / "t", {f"f{n}.parquet": f"SELECT {n} AS a" for n in range(3)})
    con = native({"t": indexed(root)})
    passing = write_tree(tmp_path / "other", {"p.parquet": "SELECT 1 AS a"}) / "p.parquet"
    sql = "SELECT a FROM t WHERE a = 1"
    learned(asked, lambda: con.execute(sql).fetchall())
    look = KnownTable.snapshot

    def listing(self: KnownTable) -> Any:
        passing.rename(root / "p.parquet")
        found = look(self)
        (root / "p.parquet").rename(passing)
        return found

    for _ in range(5):
        (root / "empty").mkdir()
        (root / "empty").rmdir()
        time.sleep(0.05)  # long enough for any further change to be visible
        monkeypatch.setattr(KnownTable, "snapshot", listing)
        with pytest.raises(duckdb.IOException, match="was removed while the statement ran"):
            con.execute(sql).fetchall()
        monkeypatch.setattr(KnownTable, "snapshot", look)
        assert con.execute(sql).fetchall() == [(1,)]


@pytest.mark.slow
def test_a_prepared_statement_reads_what_is_there_when_it_runs(tmp_path: Path, asked: Asked) -> None:
    root = write_tree(tmp_path / "t", {f"f{n}.parquet": f"SELECT {n} AS a" for n in range(3)})
    con = native({"t": indexed(root)})
    con.execute("PREPARE p AS SELECT count(*) FROM t WHERE a >= ?")
    con.execute("PREPARE q AS SELECT count(DISTINCT a) FROM t WHERE a >= 1")
    learned(asked, lambda: (con.execute("EXECUTE p(1)").fetchall(), con.execute("EXECUTE q").fetchall()))
    for number in range(3, 6):
        write_tree(root, {f"f{number}.parquet": f"SELECT {number} AS a"})
        assert con.execute("EXECUTE p(1)").fetchall() == [(number,)]
        assert con.execute("EXECUTE q").fetchall() == [(number,)]
        assert con.execute(f"EXECUTE p({number})").fetchall() == [(1,)]
        learned(asked, lambda: con.execute("EXECUTE p(1)").fetchall())
    (root / "f5.parquet").unlink()
    assert con.execute("EXECUTE p(1)").fetchall() == [(4,)]
    assert con.execute("EXECUTE q").fetchall() == [(4,)]


@pytest.mark.slow
def test_a_link_to_other_files_is_seen_at_once(tmp_path: Path, asked: Asked) -> None:
    for name, value in (("one", 1), ("two", 2)):
        write_tree(tmp_path / name, {"f.parquet": f"SELECT {value} AS a", "g.parquet": "SELECT 9 AS a"})
    root = write_tree(tmp_path / "t", {"e.parquet": "SELECT 0 AS a"})
    (root / "there").symlink_to(tmp_path / "one")
    con = native({"t": indexed(root)})
    sql = "SELECT a FROM t WHERE a < 5 ORDER BY a"
    learned(asked, lambda: con.execute(sql).fetchall())
    assert con.execute(sql).fetchall() == [(0,), (1,)]
    (root / "there").unlink()
    (root / "there").symlink_to(tmp_path / "two")
    assert con.execute(sql).fetchall() == [(0,), (2,)]
    learned(asked, lambda: con.execute(sql).fetchall())
    write_tree(tmp_path / "two", {"h.parquet": "SELECT 3 AS a"})
    assert con.execute(sql).fetchall() == [(0,), (2,), (3,)]


@pytest.mark.slow
def test_a_table_that_becomes_another_formats_is_refused_at_once(tmp_path: Path, asked: Asked) -> None:
    root = write_tree(tmp_path / "above" / "t", {"f.parquet": "SELECT 1 AS a", "g.parquet": "SELECT 2 AS a"})
    con = native({"t": indexed(root)})
    sql = "SELECT a FROM t WHERE a = 1"
    for sign in (root / "_delta_log", tmp_path / "above" / "_delta_log"):
        learned(asked, lambda: con.execute(sql).fetchall())
        sign.mkdir()
        with pytest.raises(duckdb.IOException, match="Delta"):
            con.execute(sql).fetchall()
        sign.rmdir()
        assert con.execute(sql).fetchall() == [(1,)]
    learned(asked, lambda: con.execute(sql).fetchall())
    root.rename(tmp_path / "gone")
    with pytest.raises(duckdb.IOException):
        con.execute(sql).fetchall()
    (tmp_path / "gone").rename(root)
    assert con.execute(sql).fetchall() == [(1,)]


@pytest.mark.slow
def test_indexes_are_used_and_dropped_at_once(tmp_path: Path, asked: Asked) -> None:
    root = write_flights(tmp_path / "flights")
    con = native({"flights": root})
    sql = "SELECT id FROM flights WHERE id = 5"
    # By another table object, as in another process.
    other = pruner.open_table(str(root))

    def files() -> int:
        return kept(con, sql)[1][0]

    learned(asked, lambda: con.execute(sql).fetchall())
    assert files() == 12
    other.create_index("ids", on="id", build=False)
    assert files() == 12
    learned(asked, lambda: con.execute(sql).fetchall())
    other.refresh()
    assert files() == 1
    learned(asked, lambda: con.execute(sql).fetchall())
    other.drop_index("ids")
    assert files() == 12


@pytest.mark.slow
def test_the_session_is_part_of_the_question(tmp_path: Path, asked: Asked) -> None:
    """A text denotes a different moment in each zone."""
    root = tmp_path / "t"
    root.mkdir()
    first = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    for number in range(4):
        moments = [first + datetime.timedelta(hours=6 * number + each) for each in range(6)]
        pq.write_table(
            pa.table({"seen": pa.array(moments, pa.timestamp("us", "UTC"))}), root / f"f{number}.parquet"
        )
    con, plain = native({"t": indexed(root)}), oracle({"t": root})
    sql = "SELECT count(*) FROM t WHERE seen >= '2024-01-01 12:00:00'"
    casts = "SELECT count(*) FROM t WHERE seen::TIMESTAMP >= TIMESTAMP '2024-01-01 12:00:00'"
    for zone in ("UTC", "Asia/Tokyo", "America/New_York", "UTC", "Asia/Tokyo"):
        for each in (con, plain):
            each.execute(f"SET TimeZone = '{zone}'")
        learned(asked, lambda: (con.execute(sql).fetchall(), con.execute(casts).fetchall()))
        for text in (sql, casts):
            assert con.execute(text).fetchall() == plain.execute(text).fetchall()
    other = con.cursor()
    other.execute("SET TimeZone = 'America/New_York'")
    assert other.execute(sql).fetchall() != con.execute(sql).fetchall()


@pytest.mark.slow
def test_a_moment_of_the_statement_is_never_remembered(tmp_path: Path, asked: Asked) -> None:
    """An index over an expression sees conditions as written, with the moment in them."""
    root = tmp_path / "t"
    root.mkdir()
    now = datetime.datetime.now(datetime.UTC)
    for number in range(4):
        moments = [now - datetime.timedelta(days=10 * number, hours=each) for each in range(5)]
        pq.write_table(
            pa.table({"seen": pa.array(moments, pa.timestamp("us", "UTC"))}), root / f"f{number}.parquet"
        )
    table = pruner.open_table(str(root))
    table.create_index("moments", on="seen")
    table.create_index("days", on="date_trunc('day', seen)")
    con = native({"t": table})
    sql = "SELECT count(DISTINCT seen) FROM t WHERE seen > now() - INTERVAL 5 DAY"
    until(lambda: "_bind" not in asked.of(lambda: con.execute(sql).fetchall()))
    for _ in range(3):
        # As written, and once more as optimized by DuckDB, with a moment instead of now().
        assert asked.of(lambda: con.execute(sql).fetchall()) == ["_static", "_static"]
    assert con.execute(sql).fetchall() == [(5,)]
    assert con.last_plans[-1].kept == 1


@pytest.mark.slow
def test_pruning_is_switched_off_and_on_at_once(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    sql = "SELECT id FROM flights WHERE id = 5"
    with flights(tmp_path) as (con, _, _):
        learned(asked, lambda: con.execute(sql).fetchall())
        for _ in range(2):
            assert kept(con, sql) == ([(5,)], [1])
            monkeypatch.setenv("PRUNER_DISABLED", "1")
            assert kept(con, sql) == ([(5,)], [12])
            assert con.last_plans[-1].reason == "switched off by PRUNER_DISABLED=1"
            monkeypatch.delenv("PRUNER_DISABLED")


def test_a_failure_is_asked_again(tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    sql = "SELECT id FROM flights WHERE id = 5"
    with flights(tmp_path) as (con, _, _):
        plan = pruner.PinnedSnapshot.plan

        def failing(*_: Any, **__: Any) -> Any:
            raise OSError("the disk is away")

        monkeypatch.setattr(answering.TableAnswers, "_static", failing)
        assert kept(con, sql) == ([(5,)], [12])
        assert "the disk is away" in str(con.last_plans[-1].reason)
        monkeypatch.undo()
        assert pruner.PinnedSnapshot.plan is plan
        assert kept(con, sql) == ([(5,)], [1])


@pytest.mark.slow
def test_old_plans_are_forgotten_on_both_sides(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The extension identifies a plan by its number, so it must not remember it longer than Python does."""
    with flights(tmp_path) as (con, _, _):
        sql = "SELECT id FROM flights WHERE id = 5"
        learned(asked, lambda: con.execute(sql).fetchall())
        for number in range(1100):
            con.execute(f"SELECT 1 FROM flights WHERE id = {-number}").fetchall()
        assert asked.of(lambda: con.execute(sql).fetchall()) == ["_static"]
        assert kept(con, sql) == ([(5,)], [1])
        assert "id = 5" in con.last_plans[-1].explain()


@pytest.mark.slow
def test_a_table_that_rests_is_known_however_often_others_change(
    tmp_path: Path, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answering, "_KEPT_BINDS", 4)
    resting = write_flights(tmp_path / "resting")
    moving = write_tree(tmp_path / "moving", {"f.parquet": "SELECT 1 AS a", "g.parquet": "SELECT 2 AS a"})
    con = native({"resting": indexed(resting), "moving": indexed(moving)})
    learned(asked, lambda: con.execute("SELECT id FROM resting WHERE id = 5").fetchall())
    for number in range(10):
        write_tree(moving, {f"h{number}.parquet": f"SELECT {10 + number} AS a"})
        assert con.execute("SELECT max(a) FROM moving").fetchall() == [(10 + number,)]
    assert kept(con, "SELECT id FROM resting WHERE id = 7") == ([(7,)], [1])
    assert con.last_plans[-1].reason is None


@pytest.mark.slow
def test_threads_that_read_while_files_come_see_all_that_came_before(tmp_path: Path) -> None:
    """Each statement reads at least the files that existed when it began, and never half of a file."""
    root = write_tree(tmp_path / "t", {"f.parquet": "SELECT 0 AS a FROM range(10)"})
    con = native({"t": indexed(root)})
    written, stop, wrong = [1], threading.Event(), list[str]()

    def read() -> None:
        mine = con.cursor()
        while not stop.is_set():
            least = written[0]
            [(rows, files)] = mine.execute(
                "SELECT count(*), count(DISTINCT a) FROM t WHERE a >= 0"
            ).fetchall()
            if rows % 10 or files < least or rows != 10 * files:
                wrong.append(f"{rows} rows of {files} files, where there were {least}")

    threads = [threading.Thread(target=read) for _ in range(3)]
    for each in threads:
        each.start()
    try:
        for number in range(1, 40):
            part = tmp_path / "part"
            duckdb.execute(f"COPY (SELECT {number} AS a FROM range(10)) TO '{part}' (FORMAT parquet)")
            part.rename(root / f"g{number}.parquet")
            written[0] = number + 1
            if number % 10 == 0:
                pruner.open_table(str(root)).refresh()
    finally:
        stop.set()
        for each in threads:
            each.join()
    assert wrong == []


@pytest.mark.slow
def test_a_table_of_immutable_files_is_watched_by_its_folders(tmp_path: Path, asked: Asked) -> None:
    root = write_tree(tmp_path / "t", {"p=1/f.parquet": "SELECT 1 AS a", "p=2/g.parquet": "SELECT 2 AS a"})
    table = pruner.open_table(str(root), files="immutable")
    table.create_index("a", on="a")
    con = native({"t": table})
    sql = "SELECT a, p FROM t WHERE a < 5 ORDER BY a"
    learned(asked, lambda: con.execute(sql).fetchall())
    write_tree(root, {"p=1/h.parquet": "SELECT 3 AS a"})
    assert con.execute(sql).fetchall() == [(1, 1), (2, 2), (3, 1)]
    learned(asked, lambda: con.execute(sql).fetchall())
    (root / "p=2" / "g.parquet").unlink()
    assert con.execute(sql).fetchall() == [(1, 1), (3, 1)]


@pytest.mark.slow
def test_relations_and_cursors_read_what_is_there_when_they_run(tmp_path: Path, asked: Asked) -> None:
    root = write_tree(tmp_path / "t", {"f.parquet": "SELECT 1 AS a", "g.parquet": "SELECT 2 AS a"})
    con = native({"t": indexed(root)})
    learned(asked, lambda: con.sql("SELECT a FROM t WHERE a > 0 ORDER BY a").fetchall())
    lazy = con.sql("SELECT a FROM t WHERE a > 0 ORDER BY a")
    write_tree(root, {"h.parquet": "SELECT 3 AS a"})
    assert lazy.fetchall() == [(1,), (2,), (3,)]
    con.execute("BEGIN")
    assert con.execute("SELECT count(*) FROM t WHERE a > 0").fetchall() == [(3,)]
    write_tree(root, {"i.parquet": "SELECT 4 AS a"})
    assert con.execute("SELECT count(*) FROM t WHERE a > 0").fetchall() == [(4,)]
    con.execute("ROLLBACK")
    assert pruner_duckdb.connect({"t": root}).execute("SELECT count(*) FROM t WHERE a > 0").fetchall() == [
        (4,)
    ]
