"""Deleted rows of Delta tables in DuckDB: none is ever shown, whichever files DuckDB leaves out by itself.

Rows are deleted by file and position. Where DuckDB leaves files out, it renumbers the rest, so that a file would get
another file's number.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from pruner_duckdb.rewrite import remembered
from tests.support.delta.logs import Column, DeltaLog

COLUMNS = (Column("id", "long"), Column("p", "integer"), Column("x", "double"), Column("v", "string"))


def rows(start: int, count: int, p: int | None = None) -> pa.Table:
    numbers = range(start, start + count)
    held: dict[str, Any] = {"id": list(numbers)}
    if p is not None:
        held["p"] = pa.array([p] * count, pa.int32())
    return pa.table(
        held | {"x": [each % 7 / 2 for each in numbers], "v": [f"v{each % 50}" for each in numbers]}
    )


def written(folder: Path, partitioned: tuple[str, ...] = (), count: int = 12) -> DeltaLog:
    """Twelve files of 300 rows in four partitions."""
    table = DeltaLog(folder, COLUMNS, partitioned, features=("deletionVectors", "typeWidening"))
    for at in range(count):
        if partitioned:
            table.append(rows(at * 300, 300), values={"p": str(at % 4)})
        else:
            table.append(rows(at * 300, 300, at % 4))
    return table


def held_by(table: DeltaLog, path: str) -> pa.Table:
    return pq.read_table(table.root / path, partitioning=None)


def rewritten(table: DeltaLog, path: str, held: pa.Table, **options: Any) -> None:
    """Rewrite a file of the table, and add it to the log with its size."""
    pq.write_table(held, table.root / path, **options)
    add = table.files[path].add
    add["size"] = (table.root / path).stat().st_size
    table.commit({"add": add})


def in_row_groups(table: DeltaLog) -> None:
    for path in table.files:
        rewritten(table, path, held_by(table, path), row_group_size=70)


def plain(folder: Path) -> DeltaLog:
    table = written(folder)
    in_row_groups(table)
    return table


def in_folders(folder: Path) -> DeltaLog:
    return written(folder, ("p",))


def by_the_log_alone(folder: Path) -> DeltaLog:
    """Partition values are in the log alone, in no path."""
    table = written(folder, ("p",))
    for path in list(table.files):
        held = table.files.pop(path)
        moved = path.rpartition("/")[2]
        shutil.move(table.root / path, table.root / moved)
        table.commit({"remove": {"path": path, "deletionTimestamp": 1, "dataChange": True}})
        held.add = {**held.add, "path": moved}
        table.files[moved] = held
        table.commit({"add": held.add})
    return table


def below_a_folder_like_a_partition(folder: Path) -> DeltaLog:
    return written(folder / "p=9" / "t")


def of_several_kinds(folder: Path) -> DeltaLog:
    """Files of three kinds, each of which is a separate scan."""
    table = written(folder)
    for at, path in enumerate(table.files):
        held = held_by(table, path)
        if at % 3 == 1:
            held = held.set_column(1, "p", held.column("p").cast(pa.int16()))
        if at % 3 == 2:
            held = held.drop_columns(["v"])
        rewritten(table, path, held)
    return table


def with_columns_of_duckdbs_names(folder: Path) -> DeltaLog:
    table = written(folder)
    for path in table.files:
        held = held_by(table, path)
        for name in ("filename", "file_index", "file_row_number"):
            held = held.append_column(name, pa.array([5] * 300))
        rewritten(table, path, held)
    return table


LAYOUTS = (
    plain,
    in_folders,
    by_the_log_alone,
    below_a_folder_like_a_partition,
    of_several_kinds,
    with_columns_of_duckdbs_names,
)


def delete(table: DeltaLog, of: random.Random) -> None:
    """Delete some rows of most files, all rows of one file, and none of two."""
    paths = list(table.files)
    of.shuffle(paths)
    some = {path: of.sample(range(300), of.choice([1, 2, 30, 200])) for path in paths[3:]}
    table.delete({paths[0]: range(300), **some})


@pytest.fixture(scope="module", params=LAYOUTS, ids=lambda layout: layout.__name__)
def both(request: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Any, Any]]:
    """A table with deleted rows, in pruned DuckDB and in plain DuckDB over all of its rows."""
    layout: Callable[[Path], DeltaLog] = request.param
    table = layout(tmp_path_factory.mktemp("deleted") / "t")
    delete(table, random.Random(layout.__name__))
    pruner.open_table(table.root).create_index("ids", on="id", using="bitmap")
    with duckdb.connect() as alone, pruner_duckdb.connect({"t": str(table.root)}) as con:
        alone.register("t", table.rows())
        for each in (alone, con):
            each.execute("CREATE TABLE few AS SELECT * FROM (VALUES (1, 310), (3, 950)) w(p, id)")
        yield con, alone


CONDITIONS = (
    "p = 2",
    "p IN (1, 3)",
    "p <> 0",
    "p > 1 AND id % 2 = 0",
    "CASE WHEN p = 3 THEN id > 1000 ELSE p = 1 END",
    "p = 1 OR id = 4",
    "id BETWEEN 250 AND 950",
    "id IN (3, 305, 1199, 3599)",
    "x > 2.5 AND v LIKE 'v1%'",
    "p = (SELECT max(p) FROM few)",
    "p IN (SELECT p FROM few)",
    "p NOT IN (SELECT p FROM few)",
    "id IN (SELECT id FROM few)",
    "id IN (SELECT max(id) FROM t GROUP BY p)",
)
READS = (
    "SELECT * FROM t WHERE {}",
    "SELECT count(*), sum(id), min(x), max(v) FROM t WHERE {}",
    "SELECT count(*) FROM t WHERE {}",
    "SELECT p, count(*), sum(id) FROM t WHERE {} GROUP BY p",
    "SELECT id, v FROM t WHERE {} ORDER BY p DESC, id LIMIT 40",
    "SELECT * FROM t WHERE {} ORDER BY x DESC, id LIMIT 7 OFFSET 3",
)
JOINS = (
    "SELECT t.* FROM t JOIN few USING (p)",
    "SELECT t.id FROM few JOIN t ON few.p = t.p AND t.id > few.id ORDER BY t.id LIMIT 60",
    "SELECT count(*), sum(t.id) FROM t SEMI JOIN few ON t.p = few.p",
    "SELECT count(*), sum(t.id) FROM t ANTI JOIN few ON t.p = few.p",
    "SELECT few.p, count(t.id) FROM few LEFT JOIN t USING (p) GROUP BY ALL",
    "SELECT count(*) FROM t a JOIN t b ON a.id = b.id + 300 AND a.p > b.p",
    "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM few WHERE few.p = t.p AND few.id < t.id)",
    "SELECT p, id, row_number() OVER (PARTITION BY p ORDER BY id) FROM t QUALIFY row_number() OVER (PARTITION BY p"
    " ORDER BY id) <= 5",
    "SELECT p, id FROM t WHERE p >= 2 UNION ALL SELECT p, id FROM t WHERE p < 1",
    "SELECT max(id) FROM t WHERE p = (SELECT p FROM few ORDER BY p LIMIT 1)",
)


def same(both: tuple[Any, Any], query: str) -> None:
    found, wanted = (each.execute(query).fetchall() for each in both)
    assert sorted(map(repr, found)) == sorted(map(repr, wanted)), query


@pytest.mark.sampled(84)
@pytest.mark.parametrize("condition", CONDITIONS)
def test_no_deleted_row_meets_a_condition(both: tuple[Any, Any], condition: str) -> None:
    for read in READS:
        same(both, read.format(condition))


@pytest.mark.sampled(6)
def test_no_deleted_row_is_joined(both: tuple[Any, Any]) -> None:
    for query in JOINS:
        same(both, query)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_random_statements(both: tuple[Any, Any], seed: int) -> None:
    of = random.Random(seed)
    for _ in range(20):
        condition = of.choice((" AND ", " OR ")).join(f"({each})" for each in of.sample(CONDITIONS, 2))
        same(both, of.choice(READS).format(condition))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("layout", "key"), [(plain, "file_index"), (of_several_kinds, "file_index"), (in_folders, "filename")]
)
def test_files_go_by_their_names_where_duckdb_may_leave_some_out(
    tmp_path: Path, layout: Callable[[Path], DeltaLog], key: str
) -> None:
    table = layout(tmp_path / "t")
    delete(table, random.Random(1))
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        shown: str = con.execute("EXPLAIN SELECT sum(id) FROM t").fetchall()[0][1]
    other = "filename" if key == "file_index" else "file_index"
    assert f"{key} =" in shown
    assert f"{other} =" not in shown


def vectors(table: DeltaLog) -> list[Path]:
    return list(table.root.glob("deletion_vector_*.bin"))


@pytest.mark.slow
@pytest.mark.rewriting
def test_deleted_rows_are_read_once_for_a_statement_that_comes_again(tmp_path: Path) -> None:
    table = plain(tmp_path / "t")
    delete(table, random.Random(2))
    query = "SELECT count(*), sum(id) FROM t WHERE x > 1"
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        before = con.execute(query).fetchall()
        con.execute(query).fetchall()  # the first statement over a table reads more
        kept = {path: path.read_bytes() for path in vectors(table)}
        for path in kept:
            path.unlink()
        assert con.execute(query).fetchall() == before
        with pytest.raises(pruner.PrunerError, match="is missing"):
            con.execute("SELECT max(v) FROM t WHERE x > 1").fetchall()
        for path, data in kept.items():
            path.write_bytes(data)
        (path,) = list(table.files)[:1]
        table.delete({path: range(300)})
        wanted = _over(table).execute(query).fetchall()
        assert con.execute(query).fetchall() == wanted != before


def _over(table: DeltaLog) -> Any:
    alone = duckdb.connect()
    alone.register("t", table.rows())
    return alone


@pytest.mark.slow
@pytest.mark.rewriting
def test_relations_of_one_statement_over_deleted_rows_can_be_joined(tmp_path: Path) -> None:
    table = plain(tmp_path / "t")
    delete(table, random.Random(3))
    (wanted,) = _over(table).execute("SELECT count(*) FROM t WHERE id < 900").fetchall()
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        for _ in range(3):
            one, other = (con.sql("SELECT id FROM t WHERE id < 900").set_alias(name) for name in "ab")
            assert len(one.join(other, "a.id = b.id").fetchall()) == wanted[0]


@pytest.mark.slow
@pytest.mark.rewriting
def test_remembered_deleted_rows_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A deleted row takes a ninth of the memory of a file."""
    table = plain(tmp_path / "t")
    table.delete({path: range(100) for path in table.files})  # 1,200 rows of 16 bytes: as much as 128 files
    with pruner_duckdb.connect({"t": str(table.root)}) as con:
        kept = con._runner.rewriter._remembered._entries  # pyright: ignore[reportPrivateUsage]
        for most, left in ((139, []), (140, ["3"]), (2 * 140, ["3", "4"]), (2 * 140, ["4", "5"])):
            monkeypatch.setattr(remembered, "MOST_FILES", most)
            number = left[-1] if left else "3"
            for _ in range(2):
                con.execute(f"SELECT {number} FROM t WHERE x > 1").fetchall()
            assert [str(key)[9] for key in kept] == left
