"""Tables whose version changed during their history, as of every instant: plans and rows against Spark's.

Spark reads each instant with Hudi's own pruning off. It refuses an instant whose files a cleaner deleted, if the
cleaner keeps commits; where it keeps versions of files, Spark returns the remaining rows, and pruner refuses.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_duckdb
from pruner.errors import TableError
from tests.engines.hudi.tables.test_hudi_listing import from_spark, listed
from tests.engines.hudi.test_duckdb_merged import comparable
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.timeline import completed
from tests.support.hudi.versions import AGED, BUILDERS, HELD, WRITES, tables
from tests.support.kept.tables import KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

CLEANED = "Cleaner cleaned up the timestamp of interest"
COLUMNS = (
    "_hoodie_commit_time",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "id",
    "city",
    "seats",
    "fare",
    "ts",
    "_hoodie_file_name",
)
TRIMMED = "cow_trimmed"


@pytest.fixture(scope="module")
def versions(start_session: Callable[[], SparkSession]) -> KeptTables:
    """The tables; read-only."""
    return tables(start_session)


def instants(path: Path) -> list[str | None]:
    return [*sorted({each.requested for each in completed(path, *WRITES)}), None]


def refused_by_spark(spark_reads: SparkReads, path: Path, instant: str | None) -> bool:
    """Tell whether Spark refuses the instant because of a cleaner."""
    try:
        spark_reads.slices(path, as_of=instant)
    except Exception as error:
        if CLEANED in str(error):
            return True
        raise
    return False


def rows_in_duckdb(path: Path, index: Path, instant: str | None) -> list[Any]:
    options = {"uri": str(path), "index_uri": str(index), **({"as_of": instant} if instant else {})}
    with pruner_duckdb.connect({"t": options}) as con:
        found = con.execute(f"SELECT {', '.join(COLUMNS)} FROM t").fetchall()
    return comparable_rows(found)


def comparable_rows(rows: list[Any]) -> list[Any]:
    return sorted((tuple(map(comparable, row)) for row in rows), key=repr)


def groups_by(rows: list[Any], column: str) -> dict[Any, set[str]]:
    """The file groups of each value of a column."""
    found: dict[Any, set[str]] = {}
    for row in rows:
        found.setdefault(row[column], set()).add(row["_hoodie_file_name"].split("_", maxsplit=1)[0])
    return found


@pytest.mark.parametrize("name", [name for name in BUILDERS if name != TRIMMED])
def test_each_instant_is_read_as_spark_reads_it(
    versions: KeptTables, spark_reads: SparkReads, tmp_path: Path, name: str
) -> None:
    path = versions.path(name)
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    read = 0
    for instant in instants(path):
        if refused_by_spark(spark_reads, path, instant):
            with pytest.raises(TableError, match="cleaner keeps what was written from"):
                table.snapshot(instant)
            continue
        pinned = table.snapshot(instant)
        ours, theirs = listed(pinned), from_spark(spark_reads.slices(path, as_of=instant))
        assert {entry[:3] for entry in ours} == {entry[:3] for entry in theirs}, instant
        rows = spark_reads.read(path, *COLUMNS, as_of=instant).rows
        assert rows_in_duckdb(path, tmp_path / "index", instant) == comparable_rows(rows), instant
        for value, groups in groups_by(rows, "ts").items():
            kept = {entry.file_id for entry in pinned.plan(f"ts = {value}").slices}
            assert groups <= kept, (instant, value)
        read += 1
    assert read >= 2


@pytest.mark.parametrize("name", [name for name in BUILDERS if name.startswith("cow")])
def test_plans_of_the_newest_rows_are_as_sharp_as_ever(
    versions: KeptTables, spark_reads: SparkReads, tmp_path: Path, name: str
) -> None:
    path = versions.path(name)
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="ts")
    values = groups_by(spark_reads.read(path, *COLUMNS).rows, "ts")
    for value in values:
        around = {
            group
            for group in set[str]().union(*values.values())
            if min(each for each in values if group in values[each]) <= value
            and max(each for each in values if group in values[each]) >= value
        }
        assert {entry.file_id for entry in table.plan(f"ts = {value}").slices} == around, value
    assert table.plan("ts = 1000").kept == 0


def test_an_instant_whose_files_are_gone_is_refused_though_spark_returns_the_rest(
    versions: KeptTables, spark_reads: SparkReads, tmp_path: Path
) -> None:
    """The cleaner keeps versions of files, and records no instants. No row was ever deleted."""
    path = versions.path(TRIMMED)
    refused = 0
    for instant in instants(path):
        rows = spark_reads.read(path, *COLUMNS, as_of=instant).rows
        if {row["id"] for row in rows} >= set(range(4)):
            assert rows_in_duckdb(path, tmp_path / "index", instant) == comparable_rows(rows), instant
            continue
        refused += 1
        with pytest.raises(
            TableError, match=r"cannot be read as of \d+: Hudi's cleaner deleted files of \d+"
        ):
            rows_in_duckdb(path, tmp_path / "index", instant)
    assert 0 < refused < len(instants(path)) - 1


@pytest.mark.parametrize("name", AGED)
def test_t20_an_instant_whose_files_an_archived_clean_deleted_is_refused(
    versions: KeptTables, spark_reads: SparkReads, tmp_path: Path, name: str
) -> None:
    """Every instant that ever existed, against the rows that the table held when it was the newest."""
    path = versions.path(name)
    held = json.loads((path.parent / HELD).read_text())
    outcomes: Counter[str] = Counter()
    for instant, rows in sorted(held.items()):
        try:
            found = spark_reads.read(path, *COLUMNS, as_of=instant).rows
        except Exception as error:
            found, outcome = [], str(error)
            assert CLEANED in outcome or "as of" in outcome, outcome
        if sorted([row["id"], row["ts"]] for row in found) == rows:
            assert rows_in_duckdb(path, tmp_path / "index", instant) == comparable_rows(found), instant
            outcomes["read"] += 1
            continue
        with pytest.raises(TableError) as refused:
            rows_in_duckdb(path, tmp_path / "index", instant)
        told = str(refused.value)
        cleaned = re.search(r"cannot be read as of \d+: Hudi's cleaner deleted files of \d+", told)
        assert cleaned or "its timeline begins with" in told
        outcomes["cleaned" if cleaned else "older than the timeline"] += 1
    assert outcomes["read"] >= 2, outcomes
    # The cleans that are left in the timeline cover only a few instants.
    assert outcomes["cleaned"] > len(completed(path, "clean")), outcomes


DOWNGRADED = "mor_down_with_late_write"


def test_a_copy_whose_files_have_new_times_is_read_alike(
    versions: KeptTables, spark_reads: SparkReads, tmp_path: Path
) -> None:
    """Hudi 1.2 would assign every log file to the newest slice; the plan of the compaction says otherwise."""
    path = versions.path(DOWNGRADED)
    copy = tmp_path / path.name
    shutil.copytree(path, copy, copy_function=shutil.copyfile)
    for instant in instants(path):
        rows = spark_reads.read(path, *COLUMNS, as_of=instant).rows
        assert rows_in_duckdb(copy, tmp_path / "index", instant) == comparable_rows(rows), instant


@pytest.mark.parametrize("name", [".notes.cdc", "part-0.parquet"])
def test_hudi_rs_does_not_list_what_was_downgraded(
    versions: KeptTables, spark_reads: SparkReads, tmp_path: Path, name: str
) -> None:
    """hudi-rs lists where files have foreign names; here it would take old logs for slices without a base file."""
    path = versions.copy(DOWNGRADED, tmp_path)
    folder = next(path.glob("city=*"))
    (folder / name).write_bytes(b"x")
    (folder / f".{name}.log.1").write_bytes(b"x")
    for instant in instants(path):
        with pytest.raises(TableError, match="Hudi did not write the file"):
            pruner.open_table(str(path)).snapshot(instant)


def test_a_plan_of_a_compaction_that_cannot_be_read_is_no_guess(versions: KeptTables, tmp_path: Path) -> None:
    path = versions.copy(DOWNGRADED, tmp_path)
    for plan in (path / ".hoodie").glob("*.compaction.requested"):
        plan.write_bytes(b"broken")
    with pytest.raises(
        TableError, match=r"completely: \.hoodie/\d+\.compaction\.requested is not understood"
    ):
        pruner.open_table(str(path)).snapshot()
