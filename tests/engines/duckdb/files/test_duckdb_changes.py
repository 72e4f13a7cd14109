"""Files that vanish between planning and reading cause one replan (rule R8).

Each scan logs one record after planning and before reading, so a handler of that record is where a cleaner
strikes here.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pytest

import pruner
import pruner_duckdb
from tests.engines.duckdb.duckdb_tables import write_tree
from tests.support.hudi.writer import CLEAN, COMPACT, HudiWriter, trips
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def between_planning_and_reading(strike: Callable[[], None], times: int = 1) -> Iterator[list[int]]:
    """Run `strike` after a plan was made and before its files are read; yields one item for each strike."""
    struck: list[int] = []

    class Cleaner(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.getMessage().startswith("scan of") and len(struck) < times:
                struck.append(1)
                strike()

    logger, handler = logging.getLogger("pruner"), Cleaner()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield struck
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def rewritten_by_a_cleaner(root: Path, name: str) -> Callable[[], None]:
    """A function that moves the rows of a file to a new one and removes the old."""

    def strike() -> None:
        shutil.copy(root / name, root / f"new-{name}")
        (root / name).unlink()

    return strike


def tree(root: Path) -> Path:
    return write_tree(
        root, {f"f{n}.parquet": f"SELECT {n} AS id, range AS r FROM range(10)" for n in range(3)}
    )


RUNS: dict[str, Callable[[pruner_duckdb.Connection, str], list[tuple[int]]]] = {
    "execute": lambda con, text: con.execute(text).fetchall(),
    "relation": lambda con, text: con.sql(text).fetchall(),
    "arrow": lambda con, text: [(row["id"],) for row in con.sql(text).to_arrow_table().to_pylist()],
    "one by one": lambda con, text: list(iter(con.sql(text).fetchone, None)),
}


@pytest.mark.sampled(12)
@pytest.mark.parametrize("max_staleness", [0, 3600])
@pytest.mark.parametrize("run", RUNS)
def test_a_file_that_vanished_is_met_by_planning_again(
    tmp_path: Path, run: str, max_staleness: float
) -> None:
    root = tree(tmp_path / "t")
    con = pruner_duckdb.connect({"t": pruner.open_table(str(root), max_staleness=max_staleness)})
    with between_planning_and_reading(rewritten_by_a_cleaner(root, "f1.parquet")) as struck:
        rows = RUNS[run](con, "SELECT id FROM t WHERE r = 3 ORDER BY id")
    assert rows == [(0,), (1,), (2,)]
    assert struck == [1]
    assert con.native.execute("SELECT 1").fetchall() == [(1,)]


def test_a_table_that_never_rests_is_planned_twice_and_no_more(tmp_path: Path) -> None:
    root = tree(tmp_path / "t")
    names = iter(["f1.parquet", "new-f1.parquet"])

    def strike() -> None:
        rewritten_by_a_cleaner(root, next(names))()

    con = pruner_duckdb.connect({"t": str(root)})
    with (
        between_planning_and_reading(strike, times=5) as struck,
        pytest.raises(duckdb.IOException),
    ):
        con.execute("SELECT id FROM t")
    assert struck == [1, 1]
    assert con.execute("SELECT count(*) FROM t").fetchall() == [(30,)]


def test_a_file_that_stays_missing_is_no_longer_part_of_the_table(tmp_path: Path) -> None:
    """A table without one of its files is a different table: the remaining files are read."""
    root = tree(tmp_path / "t")
    con = pruner_duckdb.connect({"t": str(root)})
    with between_planning_and_reading((root / "f1.parquet").unlink):
        assert con.execute("SELECT DISTINCT id FROM t ORDER BY id").fetchall() == [(0,), (2,)]


def test_a_table_of_broken_files_raises_duckdbs_error(tmp_path: Path) -> None:
    """No file has a readable schema then, whether the table was read before or not."""
    root = write_tree(tmp_path / "broken", {"only.parquet": "SELECT 1 AS id"})
    known = pruner_duckdb.connect({"broken": str(root)})
    assert known.execute("FROM broken").fetchall() == [(1,)]
    (root / "only.parquet").write_bytes(b"PAR1" + bytes(1000) + b"PAR1")
    with duckdb.connect() as plain, pytest.raises(duckdb.Error) as expected:
        plain.execute(f"FROM '{root}/only.parquet'")
    for connection in (known, pruner_duckdb.connect({"broken": str(root)})):
        for sql in ("FROM broken", "SELECT count(*) FROM broken WHERE id = 1"):
            with pytest.raises(duckdb.Error, match=r"Footer length.*only\.parquet") as found:
                connection.execute(sql).fetchall()
            assert found.type is expected.type


@pytest.mark.spark
@pytest.mark.parametrize(("name", "run"), [("mor_v6", "relation"), ("mor_v9", "execute")])
def test_log_files_that_were_compacted_and_cleaned_are_met_by_planning_again(
    spark: SparkSession, hudi_tables: KeptTables, tmp_path: Path, name: str, run: str
) -> None:
    root = hudi_tables.copy(name, tmp_path)
    after = tmp_path / "after" / name
    shutil.copytree(root, after)
    version = 6 if name.endswith("6") else 9
    writer = HudiWriter(spark, after, version, "MERGE_ON_READ", metadata=True)
    writer.upsert(trips(spark, [0, 3], ts=9, fare=5000), also=COMPACT)
    for ts in (10, 11):
        writer.upsert(trips(spark, [0, 3], ts=ts, fare=6000), also={**COMPACT, **CLEAN})
    gone = {path.relative_to(root) for path in root.rglob("*.log.*")} - {
        path.relative_to(after) for path in after.rglob("*.log.*")
    }
    assert gone, "the cleaner left all log files"

    def strike() -> None:
        shutil.rmtree(root)
        shutil.move(after, root)

    con = pruner_duckdb.connect({"t": str(root)})
    with between_planning_and_reading(strike) as struck:
        rows = RUNS[run](con, "SELECT id FROM t WHERE fare > 5999 ORDER BY id")
    assert rows == [(3,)]
    assert struck == [1]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("nested_first", [True, False])
def test_a_column_that_is_nested_in_some_files_only_fails_as_in_duckdb(
    tmp_path: Path, nested_first: bool
) -> None:
    root = write_tree(
        tmp_path / "t",
        {
            f"{'a' if nested_first else 'z'}.parquet": "SELECT 1 AS id, {'x': 1} AS v, [1] AS l",
            "m.parquet": "SELECT 2 AS id, 7 AS v, 3 AS l",
        },
    )
    table = pruner.open_table(str(root))
    table.create_index("ids", on="id")
    con = pruner_duckdb.connect({"t": table})
    for source in ("t", f"read_parquet('{root}/*', union_by_name = true)"):
        for columns in ("v", "l", "*"):
            with pytest.raises(duckdb.ConversionException, match="cast"):
                con.execute(f"SELECT {columns} FROM {source}").fetchall()
    assert con.execute("SELECT id FROM t ORDER BY id").fetchall() == [(1,), (2,)]
    assert con.execute("SELECT v, l FROM t WHERE id = 1").fetchall() == [({"x": 1}, [1])]
    con.execute("CREATE TABLE mine AS SELECT 1")
    assert con.native.execute("FROM mine").fetchall() == [(1,)]
