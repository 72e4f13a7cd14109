"""Hudi tables with TIMESTAMP_NTZ, which pruner lists itself: the slices and rows of Spark's snapshot read."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import pruner
import pruner_duckdb
import pruner_spark
from pruner.tables.hudi.source import HudiSource
from tests.engines.duckdb.duckdb_tables import indexed
from tests.engines.hudi.tables.test_hudi_listing import from_spark, listed
from tests.engines.spark.spark_tables import new_scans, rows_of, unordered
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.timeline import completed
from tests.support.hudi.wall_clocks import BUILDERS, FIRST, moment, tables
from tests.support.kept.tables import KeptTables
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = ("id", "city", "clock", "ts")
PREDICATES = {
    f"clock = {{}}'{moment(3)}'": "one moment",
    f"clock > {{}}'{FIRST + timedelta(days=10)}'": "updated rows alone",
    f"clock BETWEEN {{}}'{moment(9)}' AND {{}}'{moment(11)}'": "the second insert",
    "clock IS NULL": "no moment",
    "id = 4": "a key, deleted in the merge-on-read tables",
}
"""Predicates, to be filled with an engine's name for a timestamp without a zone."""


@pytest.fixture(scope="module")
def wall_clocks(start_session: Callable[[], SparkSession]) -> KeptTables:
    """The kept tables; read-only."""
    return tables(start_session)


@pytest.mark.parametrize("name", BUILDERS)
def test_slices_are_those_of_spark_now_and_as_of_each_instant(
    name: str, wall_clocks: KeptTables, spark_reads: SparkReads
) -> None:
    source = HudiSource(str(wall_clocks.path(name)))
    assert listed(source.snapshot()) == from_spark(spark_reads.slices(wall_clocks.path(name)))
    for instant in completed(wall_clocks.path(name)):
        as_of = instant.requested
        slices = from_spark(spark_reads.slices(wall_clocks.path(name), as_of=as_of))
        ours = listed(source.snapshot_at(as_of))
        assert {entry[:3] for entry in ours} == {entry[:3] for entry in slices}, as_of


@pytest.mark.parametrize("name", BUILDERS)
def test_duckdb_returns_sparks_rows_from_fewer_files(
    name: str, wall_clocks: KeptTables, spark_reads: SparkReads, tmp_path: Path
) -> None:
    con = pruner_duckdb.connect({"t": indexed(wall_clocks.copy(name, tmp_path))})
    rows = spark_rows(wall_clocks.path(name), spark_reads)
    assert sorted(con.execute(f"SELECT {', '.join(COLUMNS)} FROM t").fetchall(), key=repr) == rows
    oracle = duckdb.connect()
    oracle.execute("CREATE TABLE o (id INT, city VARCHAR, clock TIMESTAMP, ts BIGINT)")
    oracle.executemany("INSERT INTO o VALUES (?, ?, ?, ?)", rows)
    for predicate, about in PREDICATES.items():
        where = f"WHERE {predicate.format('TIMESTAMP ', 'TIMESTAMP ')}"
        found = con.execute(f"SELECT {', '.join(COLUMNS)} FROM t {where}").fetchall()
        assert sorted(found, key=repr) == sorted(oracle.execute(f"FROM o {where}").fetchall(), key=repr), (
            about
        )
        plan = con.last_plans[-1]
        assert plan.kept < plan.total, about


@pytest.mark.parametrize("name", [name for name in BUILDERS if not name.startswith("cow")])
def test_duckdb_returns_sparks_rows_as_of_each_instant(
    name: str, wall_clocks: KeptTables, spark_reads: SparkReads, capfd: pytest.CaptureFixture[str]
) -> None:
    """In version 6 a log file continues after the instant that is read, which hudi-rs is not given."""
    path = wall_clocks.path(name)
    for instant in completed(path):
        as_of = instant.requested
        con = pruner_duckdb.connect({"t": {"uri": path, "as_of": as_of}})
        found = con.execute(f"SELECT {', '.join(COLUMNS)} FROM t").fetchall()
        read = spark_reads.read(path, *COLUMNS, as_of=as_of)
        assert sorted(found, key=repr) == sorted((tuple(row) for row in read.rows), key=repr), as_of
    assert "panicked" not in capfd.readouterr().err


@pytest.mark.parametrize("name", ["mor_v6", "logs_alone_v9"])
def test_base_files_alone_are_those_of_sparks_read_optimized_query(
    name: str, wall_clocks: KeptTables, spark_reads: SparkReads
) -> None:
    path = wall_clocks.path(name)
    base_files = pruner_duckdb.connect({"t": {"uri": path, "read_optimized": True}})
    read = spark_reads.read(path, *COLUMNS, read_optimized=True)
    found = base_files.execute(f"SELECT {', '.join(COLUMNS)} FROM t").fetchall()
    assert sorted(found, key=repr) == sorted((tuple(row) for row in read.rows), key=repr)


def test_blocks_that_do_not_count_are_passed_over(
    wall_clocks: KeptTables, spark_reads: SparkReads, tmp_path: Path
) -> None:
    """hudi-rs would take every block of version 6 for a committed one."""
    root = wall_clocks.copy("mor_v6", tmp_path)
    *_, before, last = completed(root, "deltacommit")
    changed = 0
    for log in root.glob(f"*/.*{'.log.'}*"):
        content = log.read_bytes()
        if last.requested.encode() in content:
            log.write_bytes(content.replace(last.requested.encode(), b"2" * len(last.requested)))
            changed += 1
    assert changed
    found = pruner_duckdb.connect({"t": str(root)}).execute(f"SELECT {', '.join(COLUMNS)} FROM t").fetchall()
    read = spark_reads.read(wall_clocks.path("mor_v6"), *COLUMNS, as_of=before.requested)
    assert sorted(found, key=repr) == sorted((tuple(row) for row in read.rows), key=repr)


@pytest.mark.parametrize("name", ["cow_v6", "mor_v6", "mor_v9"])
def test_spark_returns_its_own_rows_from_fewer_files(
    name: str, wall_clocks: KeptTables, spark: SparkSession, tmp_path: Path
) -> None:
    path = wall_clocks.copy(name, tmp_path)
    pruner.open_table(path).create_index("stats", on="*")
    frame, oracle = pruner_spark.read(spark, path), spark_snapshot(spark, path)
    for predicate, about in PREDICATES.items():
        before = pruner_spark.last_plans(spark)
        text = predicate.format("TIMESTAMP_NTZ ", "TIMESTAMP_NTZ ")
        found = unordered(rows_of(frame.where(text).select(*COLUMNS)))
        assert found == unordered(rows_of(oracle.where(text).select(*COLUMNS))), about
        (scan,) = new_scans(spark, before)
        assert scan.reason is None
        assert (scan.files_dropped or 0) > 0, about


def spark_rows(path: Path, spark_reads: SparkReads) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in spark_reads.read(path, *COLUMNS).rows), key=repr)
