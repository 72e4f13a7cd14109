"""Slices of real Hudi tables against those of Spark's own file index, in every state that writers leave."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
import pruner_spark
from pruner.errors import TableError
from pruner.formats.detect import open_table_source
from pruner.storage.opening import open_store
from pruner.tables.hudi.listing import instant_of
from pruner.tables.hudi.slices import list_slices
from pruner.tables.hudi.source import HudiSource
from pruner.tables.hudi.timeline import read_timeline
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.tables import table_names
from tests.support.hudi.timeline import completed, make_inflight
from tests.support.kept.tables import KeptTables
from tests.support.parquet.tables import slice_keys
from tests.support.spark.oracle import UNPRUNED, SparkSlice, spark_slices, spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pruner.tables.snapshot import Snapshot

pytestmark = pytest.mark.spark

REPLAYED = "mor_compacted_v6"
"""A table for which Hudi 1.2 lists the logs of earlier slices again with a compacted base file."""


Listed = tuple[str, str, str | None, tuple[str, ...]]
"""Partition path, file id, base file and log files of a slice, by their names."""


def listed(snapshot: Snapshot | pruner.PinnedSnapshot) -> set[Listed]:
    return {
        (
            entry.partition_path,
            entry.file_id,
            Path(entry.base_file).name if entry.base_file else None,
            tuple(sorted(Path(log).name for log in entry.log_files)),
        )
        for entry in snapshot.slices
    }


def from_spark(slices: list[SparkSlice]) -> set[Listed]:
    return {(entry.partition_path, entry.file_id, entry.base_file, entry.log_files) for entry in slices}


def snapshot_of(path: Path) -> Snapshot:
    snapshot = open_table_source([str(path)]).snapshot()
    for entry in snapshot.slices:
        assert all(Path(file).is_file() for file in (entry.base_file, *entry.log_files) if file)
    return snapshot


@pytest.mark.parametrize("name", [name for name in table_names() if name != REPLAYED])
def test_slices_are_those_of_spark(name: str, hudi_tables: KeptTables, spark_reads: SparkReads):
    path = hudi_tables.path(name)
    assert listed(snapshot_of(path)) == from_spark(spark_reads.slices(path))


PENDING_IN_VERSION_6 = r"mor_(pending_compaction|inflight)_v6"
"""Tables in which log files of running writes belong to slices too, in either listing (`attach_logs`)."""


@pytest.mark.parametrize(
    "name", [name for name in table_names() if not re.fullmatch(rf"{REPLAYED}|{PENDING_IN_VERSION_6}", name)]
)
def test_slices_by_names_and_timeline_alone_are_those_of_spark(
    name: str, hudi_tables: KeptTables, spark_reads: SparkReads
):
    """Pruner's own listing, by the names of files and the timeline alone, over tables that hudi-rs lists too."""
    path = hudi_tables.path(name)
    store = open_store(str(path), {})
    found = list_slices(store, read_timeline(store), None)
    names = {
        (entry.partition, entry.file_id, entry.base or None, tuple(sorted(entry.logs))) for entry in found
    }
    assert names == from_spark(spark_reads.slices(path))


def test_logs_that_were_compacted_are_not_listed_again(hudi_tables: KeptTables, spark: SparkSession):
    path = hudi_tables.path(REPLAYED)
    ours, theirs = listed(snapshot_of(path)), from_spark(spark_slices(spark, path))
    assert {entry[:3] for entry in ours} == {entry[:3] for entry in theirs}
    logs = {entry[:3]: set(entry[3]) for entry in theirs}
    assert all(set(entry[3]) <= logs[entry[:3]] for entry in ours)


@pytest.mark.parametrize("name", table_names("mor_compacted_v.*"))
def test_a_running_compaction_hides_its_base_files(
    name: str, hudi_tables: KeptTables, spark: SparkSession, tmp_path: Path
):
    path = hudi_tables.copy(name, tmp_path)
    make_inflight(path, completed(path, "commit")[-1])
    snapshot = snapshot_of(path)
    assert listed(snapshot) == from_spark(spark_slices(spark, path))
    with_logs = snapshot.has_logs
    assert with_logs.any()
    # From version 8 on, a log file's name says which slice it belongs to, whatever the outcome of the compaction.
    assert snapshot.coverable[with_logs].any() == (not name.endswith("_v6"))


def written_until(instant: str, slices: set[Listed]) -> set[Listed]:
    """The slices without log files of later instants."""
    return {
        (*entry[:3], tuple(name for name in entry[3] if (instant_of(name) or "") <= instant))
        for entry in slices
    }


@pytest.mark.parametrize(
    "name", table_names("cow_v.|cow_late_commit_after_v.|cow_clustered_v.|mor_v6|mor_.*v[89]")
)
def test_time_travel_is_that_of_spark(name: str, hudi_tables: KeptTables, spark_reads: SparkReads):
    """As of each completed instant of the history: the same slices with the same log files, and every row from one.

    The comparison leaves out log files of later writes, which readers skip: Spark does not list them behind a pending
    compaction.
    """
    path = hudi_tables.path(name)
    source = HudiSource(str(path))
    ids = {source.snapshot().id}
    for instant in completed(path):
        snapshot = source.snapshot_at(instant.requested)
        slices = spark_reads.slices(path, as_of=instant.requested)
        until = instant.requested
        assert written_until(until, listed(snapshot)) == written_until(until, from_spark(slices)), until
        rows = spark_reads.read(path, as_of=instant.requested).rows
        groups = {row["_hoodie_file_name"].split("_", maxsplit=1)[0] for row in rows}
        assert groups <= {entry.file_id for entry in snapshot.slices}
        ids.add(snapshot.id)
    assert len(ids) == 1 + len(completed(path))


@pytest.mark.parametrize(
    "instant", ["", "now", "2013-01-01", "20130101", "20130101000000000", "2013010100000000000"]
)
def test_instants_that_the_table_never_had(instant: str, hudi_tables: KeptTables):
    with pytest.raises(TableError, match="instant|has no snapshot as of"):
        HudiSource(str(hudi_tables.path("cow_v9"))).snapshot_at(instant)


@pytest.mark.parametrize("name", table_names("cow_v.|mor_v."))
def test_a_copy_of_a_table_has_the_same_slices(name: str, hudi_tables: KeptTables, tmp_path: Path):
    here = HudiSource(str(hudi_tables.path(name)))
    there = HudiSource(str(hudi_tables.copy(name, tmp_path / "a b%20#é")))
    assert here.identity() == there.identity()
    assert slice_keys(here.snapshot()) == slice_keys(there.snapshot())
    assert here.snapshot().id == there.snapshot().id
    assert all(Path(entry.base_file or "").is_file() for entry in there.snapshot().slices)


def test_an_unchanged_table_gives_the_same_object(hudi_tables: KeptTables, tmp_path: Path):
    path = hudi_tables.copy("mor_v9", tmp_path)
    source = HudiSource(str(path))
    before = source.snapshot()
    assert source.snapshot(before) is before
    assert HudiSource(str(path)).snapshot(before) is before
    make_inflight(path)
    after = source.snapshot(before)
    assert after.id != before.id
    assert source.snapshot(before) is after


@pytest.mark.parametrize("name", ["cow_types_v9", "cow_widened_v9"])
def test_the_schema_is_that_of_spark(name: str, hudi_tables: KeptTables, spark: SparkSession):
    path = hudi_tables.path(name)
    schema = snapshot_of(path).schema
    from pyspark.sql.pandas.types import to_arrow_schema

    theirs = to_arrow_schema(spark_snapshot(spark, path).schema)
    assert [entry.path[0] for entry in schema.columns] == theirs.names
    assert schema.to_arrow().types == [
        pa.timestamp("us", "UTC") if pa.types.is_timestamp(type_) else type_ for type_ in theirs.types
    ]


def test_what_hudi_rs_raises_is_one_sentence(hudi_tables: KeptTables, tmp_path: Path):
    path = hudi_tables.copy("cow_v9", tmp_path)
    for commit in (path / ".hoodie" / "timeline").glob("*_*.commit"):
        commit.write_bytes(b"broken")
    with pytest.raises(TableError, match=r"cannot list the Hudi table .* completely: .+"):
        HudiSource(str(path)).snapshot()
    shutil.rmtree(path / ".hoodie")
    with pytest.raises(TableError, match="is not a Hudi table"):
        HudiSource(str(path))


@pytest.mark.parametrize("name", ["cow_v6", "cow_v9", "mor_v9"])
def test_a_base_file_of_a_task_that_ran_twice_loses_no_row(
    name: str, hudi_tables: KeptTables, spark: SparkSession, tmp_path: Path
):
    """Spark shows one of the two, depending on the order of the folder listing. DuckDB reads the committed one."""
    before = listed(snapshot_of(hudi_tables.path(name)))
    unpruned: dict[str, Any] = dict(UNPRUNED)
    for number, token in enumerate(("0-0-0", "99-99-99")):
        path = hudi_tables.copy(name, tmp_path / str(number))
        (entry, *_) = sorted(each for each in before if each[2] is not None)
        folder = path / entry[0]
        file_id, _, rest = str(entry[2]).split("_", 2)
        left = folder / f"{file_id}_{token}_{rest}"
        rows = pq.read_table(folder / str(entry[2]))
        pq.write_table(rows.slice(0, rows.num_rows - 1), left)
        pruner.open_table(str(path)).create_index("stats", on="*")
        assert listed(snapshot_of(path)) == before
        for where in ("id >= 0", "id = 1", "fare > 100", "fare IS NULL"):
            theirs = spark_snapshot(spark, path).where(where).select("id", "fare").collect()
            ours = pruner_spark.read(spark, str(path), **unpruned).where(where).select("id", "fare").collect()
            assert sorted(map(repr, ours)) == sorted(map(repr, theirs)), (token, where)
        con, whole = (pruner_duckdb.connect({"t": str(each)}) for each in (path, hudi_tables.path(name)))
        query = "SELECT id, fare FROM t ORDER BY ALL"
        assert con.execute(query).fetchall() == whole.execute(query).fetchall()
