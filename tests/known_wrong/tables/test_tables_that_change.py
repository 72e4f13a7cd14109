"""Traps of tables that change under an index: log files, failed writes, dropped partitions, moves, old builds."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import ConflictError
from pruner.indexes.column_stats.index import ColumnStats
from pruner.showing.words import counted
from pruner.tables.hudi.listing import OWN_CODE
from tests.support.hudi.timeline import completed, make_inflight
from tests.support.hudi.union_rows import union_rows
from tests.support.hudi.writer import HudiWriter, TableType, rows_of
from tests.support.kept.tables import KeptTables
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK = pruner.Semantics(engine="spark", zone="UTC")
READ_OPTIMIZED = pruner.Semantics(engine="trino", zone="UTC", scan_mode="read_optimized")


def _kept(table: pruner.Table, predicate: str, semantics: pruner.Semantics = SPARK) -> set[str]:
    return {entry.file_id for entry in table.plan(predicate, semantics=semantics).slices}


def _groups_with(path: Path, table: pruner.Table, column: str, value: object) -> set[str]:
    """The file groups in which some base or log file holds the value, read without any code of ours."""
    slices = table.snapshot().slices
    return {e.file_id for e in slices if any(row[column] == value for row in union_rows(path, e))}


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t1_a_new_log_file_uncovers_the_slice(hudi_table: Callable[[str], Path], version: int) -> None:
    """T1 (HUDI-8588, HUDI-6649): records of a slice do not cover a log file that was added later."""
    path = hudi_table(f"mor_commit_time_v{version}")
    last = completed(path)[-1]
    content = last.file.read_bytes()
    make_inflight(path, last)
    table = pruner.open_table(str(path))
    table.create_index("stats", on="*")
    last.file.write_bytes(content)
    assert all(entry.log_files for entry in table.snapshot().slices)
    updated = _groups_with(path, table, "fare", 3004.0)
    assert len(updated) == 1
    # In version 6 no slice with log files could be recorded while a write was pending.
    uncovered = {entry.file_id for entry in table.snapshot().slices} if version == 6 else updated
    assert _kept(table, "fare = 3004") == _kept(table, "id > 1000000") == uncovered
    assert table.refresh().indexed == len(uncovered)
    assert _kept(table, "fare = 3004") == updated
    assert _kept(table, "id > 1000000") == set()


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t1_a_log_file_that_moves_a_value_into_a_group(
    hudi_table: Callable[[str], Path], version: int
) -> None:
    """T1 (HUDI-8588, HUDI-6649): base statistics exclude a fare of 1003 that an update put into the log."""
    path = hudi_table(f"mor_v{version}")
    table = pruner.open_table(str(path))
    table.create_index("stats", on="*")
    updated = _groups_with(path, table, "fare", 1003.0)
    assert len(updated) == 1
    assert _kept(table, "fare = 1003") == updated
    in_base_files = [
        row["fare"] or 0 for f in path.glob("*/*.parquet") for row in pq.read_table(f).to_pylist()
    ]
    assert max(in_base_files) < 1003


def _add_column(spark: SparkSession, path: Path, column: str) -> None:
    allowed = "spark.sql.defaultColumn.allowedProviders"
    spark.conf.set(allowed, "hudi,parquet")
    try:
        spark.sql(f"CREATE TABLE {path.name} USING hudi LOCATION '{path.as_uri()}'")
        spark.sql(f"ALTER TABLE {path.name} ADD COLUMNS ({column})")
    finally:
        spark.sql(f"DROP TABLE IF EXISTS {path.name}")
        spark.conf.unset(allowed)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_t3_a_default_that_a_column_of_a_hudi_table_got_later(
    kind: TableType, spark: SparkSession, tmp_path: Path
) -> None:
    """T3 (iceberg#16692): Hudi 1.2 forgets the default of ALTER TABLE, and Spark reads NULL from older files.

    Other writers may put a default into the Avro schema of a table, which Spark cannot read at all; the column is then
    unknown for such files: see `test_t3_absent_counts_as_null_only_where_engines_read_null`.
    """
    path = tmp_path / "defaults"
    writer = HudiWriter(spark, path, 9, kind)
    old, new = "id INT, city STRING, ts BIGINT", "id INT, city STRING, ts BIGINT, b INT"
    writer.insert(rows_of(spark, [(1, "rome", 1), (2, "paris", 1)], old))
    _add_column(spark, path, "b INT DEFAULT 5")
    writer.upsert(rows_of(spark, [(2, "paris", 2, 7), (3, "berlin", 2, 7)], new))
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*", build=False)
    table.create_index("bits", on="b", using="bitmap", build=False)
    assert not table.refresh().failures
    rows = spark_snapshot(spark, path).collect()
    assert {row["id"]: row["b"] for row in rows if row["id"] > 1} == {2: 7, 3: 7}
    cities = {entry.file_id: entry.partition_path for entry in table.snapshot().slices}
    for engine in ("spark", "duckdb", "trino"):
        semantics = pruner.Semantics(engine=engine, zone="UTC")
        for row in rows:
            text = "b IS NULL" if row["b"] is None else f"b = {row['b']}"
            assert row["_hoodie_file_name"].split("_")[0] in _kept(table, text, semantics), text
        old_files = {"city=rome", "city=paris"} if kind == "MERGE_ON_READ" else {"city=rome"}
        for text, known in (("b = 5", set[str]()), ("b IS NULL", old_files), ("b = 6", set[str]())):
            assert {cities[each] for each in _kept(table, text, semantics)} == known, (engine, text)


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t4_time_travel_reads_by_the_schema_of_its_time(
    tmp_path: Path, hudi_tables: KeptTables, version: int
) -> None:
    """T4 (HUDI-8570, hudi#4896): columns that have changed since prune nothing in the past; the others do."""
    path = hudi_tables.path(f"cow_widened_v{version}")
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    first, last = completed(path)
    then, now = table.snapshot(as_of=first.requested), table.snapshot(as_of=last.requested)
    changed = {field.name for field in then.schema if field.conflict}
    assert changed == {"seats", "fare", "note"}
    assert then.plan("id > 1000", semantics=SPARK).kept == 0
    for text in ("seats > 1000", "note IS NOT NULL", "fare > 1000"):
        assert then.plan(text, semantics=SPARK).kept == len(then.slices) > 0
    assert not any(field.conflict for field in now.schema)
    assert now.plan("seats > 4000000000", semantics=SPARK).kept == 0


@pytest.mark.spark
@pytest.mark.parametrize("version", [8, 9])
def test_t5_records_of_a_write_that_failed_serve_nothing(
    hudi_table: Callable[[str], Path], version: int
) -> None:
    """T5 (hudi#7490): indexed while the write counted as completed, then undone: the slice has its old key again."""
    path = hudi_table(f"mor_compacted_v{version}")
    table = pruner.open_table(str(path))
    table.create_index("stats", on="*")
    covered = table.plan("fare = 2000", semantics=SPARK)
    make_inflight(path)
    undone = table.plan("fare = 2000", semantics=SPARK)
    assert undone.snapshot_id != covered.snapshot_id
    changed = set(undone.snapshot.keys.to_pylist()) - set(covered.snapshot.keys.to_pylist())
    assert len(changed) == 1
    kept = {undone.snapshot.keys[int(ordinal)].as_py() for ordinal in undone.ordinals}
    assert changed <= kept, "no record is about the slice without the log file"
    table.refresh()
    assert table.plan("fare = 2000", semantics=SPARK).kept == 0


@pytest.mark.spark
def test_t5_a_block_of_an_unfinished_write_is_not_recorded(tmp_path: Path, hudi_tables: KeptTables) -> None:
    """T5, T10 (hudi#7490, measured): version 6 appends to listed files; such a block makes the slice unknown."""
    path = hudi_tables.copy("mor_v6", tmp_path)
    (log,) = [f for f in path.glob("city=berlin/.*.log.*") if not f.name.endswith(".crc")]
    data = log.read_bytes()
    instant = completed(path, "deltacommit")[2].requested.encode()
    assert data.count(instant) > 1
    log.write_bytes(data + data.replace(instant, b"20991231235959999"))
    table = pruner.open_table(str(path))
    built = table.create_index("stats", on="*")
    assert built is not None
    assert {"20991231235959999" in failure.reason for failure in built.failures} == {True}
    uncovered = {e.file_id for e in table.snapshot().slices if any(log.name in name for name in e.log_files)}
    assert _kept(table, "fare > 1000000") == uncovered


@pytest.mark.spark
def test_t5_a_log_file_cut_short_is_not_recorded(tmp_path: Path, hudi_tables: KeptTables) -> None:
    """T5 (hudi#7490): a writer that dies leaves half a block; the slice stays and the report says why."""
    path = hudi_tables.copy("mor_v9", tmp_path)
    (log,) = [f for f in path.glob("city=berlin/.*.log.*") if not f.name.endswith(".crc")]
    whole = log.read_bytes()
    for data in (whole[:-3], whole + whole[:40], whole[:14] + struct.pack(">i", 9) + whole[18:]):
        log.write_bytes(data)
        table = pruner.open_table(str(path), index_uri=str(tmp_path / f"index{len(data)}"))
        built = table.create_index("stats", on="fare")
        assert built is not None
        assert len(built.failures) == 1
        assert table.plan("fare > 1000000", semantics=SPARK).kept == 1


def test_t6_a_partition_dropped_and_made_again(tmp_path: Path) -> None:
    """T6 (HUDI-8345, HUDI-8586): records of a partition belong to its files, not to its name."""
    for part, value in (("a", 1), ("b", 2)):
        (tmp_path / "t" / f"p={part}").mkdir(parents=True)
        pq.write_table(pa.table({"x": [value, value]}), tmp_path / "t" / f"p={part}" / "f.parquet")
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("stats", on="x")
    assert [Path(f).parent.name for f in table.plan("x = 1").files] == ["p=a"]
    shutil.rmtree(tmp_path / "t" / "p=a")
    assert table.plan("x = 1").kept == 0
    (tmp_path / "t" / "p=a").mkdir()
    pq.write_table(pa.table({"x": [7, 7]}), tmp_path / "t" / "p=a" / "f.parquet")
    assert [Path(f).parent.name for f in table.plan("x = 7").files] == ["p=a"]
    table.refresh()
    assert [Path(f).parent.name for f in table.plan("x = 7").files] == ["p=a"]
    assert table.plan("x = 1").kept == 0


@pytest.mark.spark
@pytest.mark.parametrize("name", ["cow_v9", "mor_v9", "mor_v6"])
def test_t7_statistics_follow_a_table_that_moved(tmp_path: Path, hudi_tables: KeptTables, name: str) -> None:
    """T7 (HUDI-8371): keys hold no absolute path, so the records of a moved table still match its slices."""
    here = hudi_tables.copy(name, tmp_path / "here")
    first = pruner.open_table(str(here))
    first.create_index("stats", on="*")
    expected = _kept(first, "id = 4")
    assert 0 < len(expected) < len(first.snapshot().slices)
    there = tmp_path / "a b" / "moved"
    shutil.copytree(here, there)
    shutil.copytree(f"{here}.pruner", f"{there}.pruner")
    shutil.rmtree(tmp_path / "here")
    moved = pruner.open_table(str(there))
    assert _kept(moved, "id = 4") == expected
    assert moved.refresh().indexed == 0


@pytest.mark.spark
@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
def test_t12_partial_updates_combine_columns_of_several_rows(
    tmp_path: Path, hudi_tables: KeptTables, using: str
) -> None:
    """T12 (measured): (1, 1) updated by (100, NULL) is read as (100, 1), a row that no file stores."""
    path = hudi_tables.path("mor_partial_update_v9")
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on=["seats", "fare"], using=using)
    berlin = {e.file_id for e in table.snapshot().slices if e.partition_path == "city=berlin"}
    paris = {e.file_id for e in table.snapshot().slices if e.partition_path == "city=paris"}
    assert _kept(table, "seats = 100 AND fare = 1") == berlin
    assert _kept(table, "seats = 1 AND fare = 100") == paris
    assert _kept(table, "seats = 100 AND fare = 100") == set()
    assert _kept(table, "seats = 50") == ({*berlin} if using == "column_stats" else set())
    plan = table.plan("seats IS NOT NULL AND fare IS NOT NULL", semantics=SPARK)
    assert not plan.all_match.any()


@pytest.mark.spark
@pytest.mark.parametrize("mode", ["CUSTOM", "NEXT_YEARS_MODE"])
def test_t12_a_merger_that_is_code_leaves_slices_with_logs_uncovered(
    tmp_path: Path, hudi_tables: KeptTables, mode: str
) -> None:
    """T12 (measured, R5): a custom merger can make values that no file stores; only slices without logs are known."""
    path = hudi_tables.copy("mor_v9", tmp_path)
    properties = path / ".hoodie" / "hoodie.properties"
    text = properties.read_text()
    properties.write_text(text.replace("merge.mode=EVENT_TIME_ORDERING", f"merge.mode={mode}"))
    table = pruner.open_table(str(path))
    table.create_index("stats", on="*")
    with_logs = {entry.file_id for entry in table.snapshot().slices if entry.log_files}
    plan = table.plan("fare > 1000000", semantics=SPARK)
    assert {entry.file_id for entry in plan.slices} == with_logs
    assert f"{OWN_CODE}: {counted(len(with_logs), 'file group')} kept" in plan.fallbacks


@pytest.mark.spark
@pytest.mark.parametrize("version", [8, 9])
def test_t13_a_delta_commit_that_completes_after_a_compaction(
    tmp_path: Path, hudi_tables: KeptTables, version: int
) -> None:
    """T13 (measured): its log, requested before the compaction, belongs to the slice that the compaction started."""
    path = hudi_tables.copy(f"mor_late_delta_v{version}", tmp_path)
    late = completed(path, "deltacommit")[1]
    content = late.file.read_bytes()
    make_inflight(path, late)
    table = pruner.open_table(str(path))
    table.create_index("stats", on="*")
    assert not any(entry.log_files for entry in table.snapshot().slices)
    late.file.write_bytes(content)
    (with_log,) = [entry for entry in table.snapshot().slices if entry.log_files]
    assert with_log.base_instant is not None
    assert late.requested < with_log.base_instant < (late.completed or "")
    assert with_log.file_id in _kept(table, "fare = 1001")
    assert table.refresh().indexed == 1
    assert with_log.file_id in _kept(table, "fare = 1001")
    assert _kept(table, "fare > 1000000") == set()


@pytest.mark.spark
@pytest.mark.parametrize("version", [6, 8, 9])
def test_t14_one_record_serves_both_kinds_of_scan(
    tmp_path: Path, hudi_tables: KeptTables, version: int
) -> None:
    """T14 (Trino 483): scans of base files alone still read a base row that an update replaced."""
    path = hudi_tables.path(f"mor_v{version}")
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("stats", on="*")
    replaced, update = _groups_with(path, table, "fare", 3.0), _groups_with(path, table, "fare", 1003.0)
    assert replaced == update
    for semantics in (SPARK, READ_OPTIMIZED):
        assert replaced <= _kept(table, "fare = 3", semantics)
        assert _kept(table, "fare = 1003", semantics) == update
        assert _kept(table, "id > 1000", semantics) == set()


def test_t15_an_index_made_anew_while_an_old_refresh_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """T15 (review): records bind to the definition's UUID, so those of the dropped index never serve the new one."""
    (tmp_path / "t").mkdir()
    for value in (1, 5):
        pq.write_table(pa.table({"x": [value], "y": [-value]}), tmp_path / "t" / f"{value}.parquet")
    other = pruner.open_table(str(tmp_path / "t"))
    table = pruner.open_table(str(tmp_path / "t"))
    table.create_index("i", on="x", build=False)
    record = ColumnStats.record_row
    replaced: list[bool] = []

    def replace_once(self: ColumnStats, *arguments: object) -> object:
        if not replaced:
            replaced.append(True)
            other.drop_index("i")
            other.create_index("i", on="y", build=False)
        return record(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ColumnStats, "record_row", replace_once)
    with pytest.raises(ConflictError, match="dropped"):
        table.refresh()
    assert replaced
    assert [index.fields[0].path for index in table.indexes()] == [("y",)]
    assert other.plan("x = 1").kept == 2
    assert other.plan("y = -1").kept == 2, "the new index has no records yet"
    other.refresh()
    assert other.plan("y = -1").kept == 1
