"""The fixture tables are what their names say; every other Hudi test relies on that."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.hudi.catalog import RAW_VALUES, SCHEMA_ON_READ, SPECIAL_VALUES
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.tables import table_names
from tests.support.hudi.timeline import completed, pending, table_property, table_version
from tests.support.kept.tables import KeptTables
from tests.support.spark.oracle import spark_slices, spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark


def fares(rows: Iterable[Row]) -> dict[int, float | None]:
    return {row["id"]: row["fare"] for row in rows}


def data_files(table: Path) -> set[str]:
    return {file.name for file in table.rglob("*.parquet") if ".hoodie" not in file.parts}


@pytest.mark.parametrize("name", table_names())
def test_version_and_type_are_those_of_the_name(hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    assert table_version(table) == int(name[-1])
    kind = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[name[:3]]
    assert table_property(table, "hoodie.table.type") == kind


@pytest.mark.parametrize("name", table_names("cow_.*"))
def test_rows_come_from_the_slices_that_spark_lists(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str
):
    table = hudi_tables.path(name)
    listed = {slice_.base_file for slice_ in spark_reads.slices(table)}
    assert {row["_hoodie_file_name"] for row in spark_reads.read(table).rows} == listed


@pytest.mark.parametrize("name", table_names(r"cow_v\d"))
def test_cow_has_old_slices_and_a_metadata_table(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    slices = spark_reads.slices(table)
    assert len(slices) == 6
    assert {s.base_file for s in slices} < data_files(table)
    assert (table / ".hoodie" / "metadata" / "files").is_dir()
    found = fares(spark_reads.read(table).rows)
    assert found.keys() == set(range(24)) - {12, 13}
    assert (found[1], found[4], found[14]) == (1001.0, 4.0, 114.0)


@pytest.mark.parametrize("name", table_names(r"cow_v\d"))
def test_time_travel_reads_the_first_commit(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    first = completed(table)[0].requested
    assert fares(spark_reads.read(table, as_of=first).rows).keys() == set(range(12))
    assert len(spark_reads.slices(table, as_of=first)) == 3


@pytest.mark.parametrize("name", table_names(r"mor_v\d"))
def test_mor_has_groups_with_and_without_logs(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    slices = spark_reads.slices(table)
    assert sorted(len(s.log_files) for s in slices) == [0, 0, 0, 0, 1, 1]
    merged = fares(spark_reads.read(table).rows)
    assert (merged[3], 1 in merged) == (1003.0, False)
    base = fares(spark_reads.read(table, read_optimized=True).rows)
    assert (base[3], base[1]) == (3.0, 1.0)


@pytest.mark.parametrize("name", table_names("mor_pending_compaction_.*"))
def test_pending_compaction_has_logs_on_both_sides(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str
):
    table = hudi_tables.path(name)
    assert len(pending(table, "compaction")) == 1
    logs = {s.partition_path: len(s.log_files) for s in spark_reads.slices(table)}
    assert logs == {"city=berlin": 2, "city=paris": 1, "city=rome": 1}
    found = fares(spark_reads.read(table).rows)
    assert (found[1], found[2], found[3]) == (1001.0, 2002.0, 3.0)


@pytest.mark.parametrize("name", table_names("mor_compacted_.*"))
def test_compaction_made_new_base_files(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    compaction = completed(table, "commit")[-1].requested
    slices = {s.partition_path: s for s in spark_reads.slices(table)}
    assert slices["city=berlin"].base_instant == compaction
    assert [len(s.log_files) for s in slices.values()] == [1, 0, 0]


@pytest.mark.parametrize("name", table_names("mor_inflight_.*"))
def test_running_delta_commit_has_a_log_that_is_not_read(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str
):
    table = hudi_tables.path(name)
    assert len(pending(table, "deltacommit")) == 1
    logs = [file for file in table.glob("city=*/.*.log.*") if not file.name.endswith(".crc")]
    assert len(logs) == 4
    found = fares(spark_reads.read(table).rows)
    assert (found[1], found[2]) == (1001.0, 2.0)


@pytest.mark.parametrize("name", table_names("cow_inflight_.*"))
def test_running_commit_has_base_files_that_are_not_read(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str
):
    table = hudi_tables.path(name)
    assert len(pending(table, "commit")) == 1
    slices = spark_reads.slices(table)
    assert len(slices) == 3
    assert len(data_files(table)) == 5
    assert fares(spark_reads.read(table).rows)[1] == 1.0


@pytest.mark.parametrize("version", [6, 8, 9])
def test_late_commit_leaves_the_newest_instant_alone(
    spark_reads: SparkReads, hudi_tables: KeptTables, version: int
):
    before = hudi_tables.path(f"cow_late_commit_before_v{version}")
    after = hudi_tables.path(f"cow_late_commit_after_v{version}")
    for table, ids in ((before, {*range(6), *range(9, 12)}), (after, set(range(12)))):
        assert fares(spark_reads.read(table).rows).keys() == ids
    requested = [[i.requested for i in completed(table)] for table in (before, after)]
    assert [len(instants) for instants in requested] == [2, 3]
    if version > 6:
        last = completed(after)
        assert last[1].completed is not None
        assert last[1].completed > (last[2].completed or "")


@pytest.mark.parametrize("name", table_names("mor_log_only_.*"))
def test_some_slices_have_no_base_file(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    slices = spark_reads.slices(hudi_tables.path(name))
    shapes = sorted((s.base_file is None, len(s.log_files)) for s in slices)
    assert shapes == [(False, 0)] * 3 + [(True, 1)] * 3


@pytest.mark.parametrize(
    ("name", "paths"),
    [
        ("cow_plain_partitions_v6", {"berlin", "paris", "rome"}),
        ("cow_plain_partitions_v9", {"berlin", "paris", "rome"}),
        ("cow_unpartitioned_v6", {""}),
        ("cow_unpartitioned_v9", {""}),
        ("cow_rounded_timestamp_v6", {f"at=2013-01-0{day}" for day in (1, 2, 3)}),
        ("cow_rounded_timestamp_v9", {f"at=2013-01-0{day}" for day in (1, 2, 3)}),
    ],
)
def test_partition_paths(spark_reads: SparkReads, hudi_tables: KeptTables, name: str, paths: set[str]):
    assert {s.partition_path for s in spark_reads.slices(hudi_tables.path(name))} == paths


def test_two_partition_columns_make_two_levels(spark_reads: SparkReads, hudi_tables: KeptTables):
    paths = {s.partition_path for s in spark_reads.slices(hudi_tables.path("cow_two_partition_columns_v9"))}
    assert "city=berlin/seats=0" in paths
    assert len(paths) == 9


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("cow_special_values_v6", SPECIAL_VALUES),
        ("cow_special_values_v9", SPECIAL_VALUES),
        ("cow_raw_values_v9", RAW_VALUES),
    ],
)
def test_special_partition_values_have_a_folder_each(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str, values: tuple[str | None, ...]
):
    slices = spark_reads.slices(hudi_tables.path(name))
    assert len({s.partition_path for s in slices}) == len(values)
    assert "city=__HIVE_DEFAULT_PARTITION__" in {s.partition_path for s in slices}


@pytest.mark.parametrize("name", table_names("cow_widened_.*"))
def test_widened_columns_read_wide(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    read = spark_reads.read(hudi_tables.path(name))
    assert read.types["seats"] == "bigint"
    assert read.types["fare"] == "double"
    rows = {row["id"]: row for row in read.rows}
    assert (rows[1]["seats"], rows[1]["fare"], rows[1]["note"]) == (1, 0.1, None)
    assert (rows[7]["seats"], rows[7]["note"]) == (3_000_000_007, "note 7")


def test_renamed_column_reads_its_old_values(spark: SparkSession, hudi_tables: KeptTables):
    frame = spark_snapshot(spark, hudi_tables.path("cow_renamed_v9"), options=SCHEMA_ON_READ)
    rows = {row["id"]: (row["price"], row["seats"]) for row in frame.collect()}
    assert (rows[1], rows[6]) == ((1.0, None), (600.0, 60))


@pytest.mark.parametrize("name", table_names("cow_(clustered|overwritten_partition)_.*"))
def test_replaced_groups_lie_about(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    assert len(completed(table, "replacecommit")) == 1
    read = {s.base_file for s in spark_reads.slices(table)}
    assert len(read) == 3
    assert read < data_files(table)


@pytest.mark.parametrize("name", table_names("cow_pending_clustering_.*"))
def test_clustering_is_pending(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    assert len(pending(table, "clustering", "replacecommit")) == 1
    assert len(spark_reads.slices(table)) == 6


@pytest.mark.parametrize("name", table_names("cow_cleaned_.*"))
def test_cleaner_deleted_old_files(hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    assert len(completed(table, "clean")) == 1
    commits = len(completed(table, "commit"))
    assert (commits, len(data_files(table))) == (4, 4)


@pytest.mark.parametrize("name", table_names("mor_rolled_back_.*"))
def test_dead_commit_was_rolled_back(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    table = hudi_tables.path(name)
    assert len(completed(table, "rollback")) == 1
    found = fares(spark_reads.read(table).rows)
    assert (found[1], found[2]) == (1.0, 2002.0)


def test_types_are_all_there(spark_reads: SparkReads, hudi_tables: KeptTables):
    types = spark_reads.read(hudi_tables.path("cow_types_v9")).types
    expected = {"boolean", "int", "bigint", "float", "double", "decimal(10,2)", "binary", "date", "timestamp"}
    assert expected <= set(types.values())
    assert types["place"] == "struct<name:string,zip:int>"


def test_a_copy_reads_like_the_original(spark: SparkSession, hudi_tables: KeptTables, tmp_path: Path):
    original = hudi_tables.path("mor_v9")
    copy = hudi_tables.copy("mor_v9", tmp_path)
    assert spark_slices(spark, copy) == spark_slices(spark, original)
    assert fares(spark_snapshot(spark, copy).collect()) == fares(spark_snapshot(spark, original).collect())


@pytest.mark.parametrize("name", table_names("mor_commit_time_.*"))
def test_the_last_commit_wins(spark_reads: SparkReads, hudi_tables: KeptTables, name: str):
    found = fares(spark_reads.read(hudi_tables.path(name)).rows)
    assert (found[0], found[1], found[2], found[4]) == (None, 1001.0, 2002.0, 3004.0)


@pytest.mark.parametrize("name", table_names("mor_partial_update_.*"))
def test_partial_updates_read_rows_that_no_file_holds(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str
):
    rows = spark_reads.read(hudi_tables.path(name)).rows
    assert {(row["seats"], row["fare"]) for row in rows} == {(100, 1.0), (1, 100.0), (None, None)}


@pytest.mark.parametrize("name", table_names("mor_merge_into_.*"))
def test_merge_into_writes_the_changed_columns_alone(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str
):
    table = hudi_tables.path(name)
    rows = {row["id"]: (row["seats"], row["fare"]) for row in spark_reads.read(table).rows}
    assert rows[1] == (77, 11.0)
    (log,) = [file for file in table.glob("*/.*.log.*") if not file.name.endswith(".crc")]
    content = log.read_bytes()
    assert b'"seats"' in content
    assert b'"fare"' not in content


@pytest.mark.parametrize("name", table_names("mor_late_delta_.*"))
def test_a_late_delta_commit_belongs_to_the_compacted_slice(
    spark_reads: SparkReads, hudi_tables: KeptTables, name: str
):
    (with_log,) = [entry for entry in spark_reads.slices(hudi_tables.path(name)) if entry.log_files]
    (log,) = with_log.log_files
    assert log.split("_")[1].split(".")[0] < with_log.base_instant
