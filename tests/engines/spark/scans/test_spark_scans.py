"""Scans of `pruner_spark` as such: planning failures, round trips, other ways of reading."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.java_gateway import GatewayClient

import pruner
import pruner_spark
from pruner.errors import TableError
from pruner_spark.relations.relation import PrunedRelation
from pruner_spark.relations.scans import KEPT_PLANS, Scan, ScanLog
from tests.engines.spark.spark_tables import (
    files_scanned,
    ids_of,
    indexed_numbers,
    new_scans,
    rows_of,
    unordered,
    write_numbers,
)
from tests.support.spark.catalyst import counted_calls, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TIME_OUT = "planning took longer than 300 ms"


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    return indexed_numbers(tmp_path / "numbers")


def _last(spark: SparkSession) -> pruner_spark.Scan:
    return pruner_spark.last_plans(spark)[-1]


def test_what_is_scanned_is_what_is_kept(spark: SparkSession, numbers: Path) -> None:
    frame = pruner_spark.read(spark, numbers).where("id IN (5, 42, 77)").select("id")
    assert unordered(rows_of(frame)) == [(42,), (5,), (77,)]
    scan = _last(spark)
    assert (scan.kept, scan.total, scan.files_listed, scan.files_unknown, scan.files_dropped) == (
        3,
        8,
        8,
        0,
        5,
    )
    assert files_scanned(frame) == [3]
    assert scan.fallbacks == ()
    assert "id IN" in scan.explain()


def test_startswith_prunes_as_like_does(spark: SparkSession, numbers: Path) -> None:
    frame = pruner_spark.read(spark, numbers)
    by_column = frame.where(frame["file_name"].startswith("f1"))
    by_text = [frame.where(text) for text in ("startswith(file_name, 'f1')", "file_name LIKE 'f1%'")]
    for chosen in (by_column, *by_text):
        assert len(rows_of(chosen)) == 11
        assert files_scanned(chosen) == [2]


def test_spark_s_v2_file_source_is_named(spark: SparkSession, numbers: Path) -> None:
    """Its scans list files themselves: they run unpruned, and `last_plans` says why."""
    with settings(spark, {"spark.sql.sources.useV1SourceList": ""}):
        before = pruner_spark.last_plans(spark)
        assert ids_of(pruner_spark.read(spark, numbers), "id = 5") == [5]
        spark.read.parquet(str(numbers)).createOrReplaceTempView("second_source")
        assert rows_of(pruner_spark.sql(spark, "SELECT id FROM second_source WHERE id = 5")) == [(5,)]
    spark.catalog.dropTempView("second_source")
    scans = new_scans(spark, before)
    assert [scan.plan for scan in scans] == [None, None]
    assert all("V2 file source" in (scan.reason or "") for scan in scans)


def test_a_plan_costs_as_many_round_trips_with_one_relation_as_with_twenty(
    spark: SparkSession, numbers: Path
) -> None:
    """All leaves are described in one call, and replaced in one."""
    spark.read.parquet(str(numbers)).createOrReplaceTempView("leaf")
    calls: list[int] = []
    for count in (1, 20):
        query = " UNION ALL ".join(["SELECT id FROM leaf WHERE id = 5"] * count)
        pruner_spark.sql(spark, query)
        with counted_calls(spark) as sent:
            frame = pruner_spark.sql(spark, query)
        calls.append(len(sent))
        assert rows_of(frame) == [(5,)] * count
        assert set(files_scanned(frame)) == {1}
    spark.catalog.dropTempView("leaf")
    assert calls[0] == calls[1]


def test_a_scan_logs_one_record(spark: SparkSession, numbers: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pruner"):
        ids_of(pruner_spark.read(spark, numbers), "id = 5")
    (record,) = [each for each in caplog.records if each.name == "pruner"]
    values: Any = record
    assert (values.pruner_kept, values.pruner_total, values.pruner_reason) == (1, 8, None)


def test_a_failing_planner_leaves_the_query_running(
    spark: SparkSession, numbers: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("the store is down\nwith details")

    frame = pruner_spark.read(spark, numbers)
    monkeypatch.setattr(PrunedRelation, "prune", fails)
    with caplog.at_level(logging.WARNING, "pruner"):
        assert [ids_of(frame, "id = 5") for _ in range(3)] == [[5]] * 3
    scans = pruner_spark.last_plans(spark)[-3:]
    assert {scan.reason for scan in scans} == {"planning failed: the store is down"}
    assert [record.getMessage() for record in caplog.records] == [
        f"scan of {numbers} is not pruned: planning failed: the store is down"
    ]


def test_a_planner_that_takes_too_long_is_not_waited_for(
    spark: SparkSession, numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = PrunedRelation.prune

    def slow(self: PrunedRelation, scan: Any) -> pruner_spark.Scan | None:
        time.sleep(1.5)
        return plan(self, scan)

    monkeypatch.setattr(PrunedRelation, "prune", slow)
    before = pruner_spark.last_plans(spark)
    frame = pruner_spark.read(spark, numbers, planning_seconds=0.3).where("id = 5").select("id")
    assert rows_of(frame) == [(5,)]
    assert files_scanned(frame) == [8]
    time.sleep(2.5)  # the late plan must change nothing and report nothing
    assert [scan.reason for scan in new_scans(spark, before)] == [TIME_OUT]


def test_without_an_index_everything_is_read(spark: SparkSession, tmp_path: Path) -> None:
    root = write_numbers(tmp_path / "bare")
    frame = pruner_spark.read(spark, root)
    assert ids_of(frame, "id = 5") == [5]
    assert _last(spark).kept == 8


def test_a_damaged_metadata_table_leaves_the_query_running(spark: SparkSession, numbers: Path) -> None:
    frame = pruner_spark.read(spark, numbers)
    assert ids_of(frame, "id = 5") == [5]
    assert _last(spark).kept == 1
    for entry in (numbers.parent / "numbers.pruner" / "log").iterdir():
        entry.write_bytes(b"{")
    assert ids_of(frame, "id = 5") == [5]
    assert _last(spark).kept == 8
    assert any("indexes are not used" in reason for reason in _last(spark).fallbacks)


def test_pruning_can_be_switched_off(
    spark: SparkSession, numbers: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    assert ids_of(pruner_spark.read(spark, numbers), "id = 5") == [5]
    assert (_last(spark).kept, _last(spark).reason) == (8, "switched off by PRUNER_DISABLED=1")


def test_files_that_came_after_the_frame_or_the_index(spark: SparkSession, numbers: Path) -> None:
    """A later file is read by frames that list it; a file that was rewritten in place is not taken for the old one."""
    old = pruner_spark.read(spark, numbers)
    assert ids_of(old, "id = 999") == []
    pq.write_table(
        pa.table({"id": pa.array([999], pa.int32()), "file_name": ["x"]}), numbers / "half=0/00100.parquet"
    )
    pq.write_table(
        pa.table({"id": pa.array([999], pa.int32()), "file_name": ["y"]}), numbers / "half=0/00002.parquet"
    )
    assert ids_of(pruner_spark.read(spark, numbers), "id = 999") == [999, 999]
    assert _last(spark).kept == 2


def test_later_filters_views_caching_and_joins_prune(spark: SparkSession, numbers: Path) -> None:
    pruner_spark.register(spark, "numbers", numbers)
    spark.sql("CREATE OR REPLACE TEMP VIEW few AS SELECT id, half FROM numbers WHERE id < 50")
    assert rows_of(spark.sql("SELECT id FROM few WHERE id > 45 AND half = 0")) == [
        (i,) for i in (46, 47, 48, 49)
    ]
    assert _last(spark).kept == 1
    cached = spark.table("few").where("id BETWEEN 10 AND 19").cache()
    assert cached.count() == 10
    assert _last(spark).kept == 1
    assert cached.where("id = 12").count() == 1
    cached.unpersist()
    wide = spark.table("numbers").cache()
    assert wide.where("id = 12").count() == 1
    assert wide.count() == 80
    wide.unpersist()
    for name in ("numbers", "few"):
        spark.catalog.dropTempView(name)


def test_read_uses_sparks_cache(spark: SparkSession, numbers: Path) -> None:
    cached = spark.read.parquet(str(numbers)).where("id < 20").cache()
    assert cached.count() == 20
    before = pruner_spark.last_plans(spark)
    assert ids_of(pruner_spark.read(spark, numbers).where("id < 20"), "half = 1") == list(range(10, 20))
    assert new_scans(spark, before) == []
    cached.unpersist()


def test_a_column_named_like_one_of_the_file(spark: SparkSession, numbers: Path) -> None:
    """`_metadata.file_name` arrives as a column `file_name`, which this table has as well."""
    frame = pruner_spark.read(spark, numbers)
    assert ids_of(frame, "_metadata.file_name = '00003.parquet' AND id > 35") == [36, 37, 38, 39]
    assert ids_of(frame, "_metadata.file_name = '00003.parquet'") == list(range(30, 40))
    assert ids_of(frame, "file_name = 'f33'") == [33]
    assert _last(spark).kept == 2, "0 has f0 to f9"


def test_columns_that_spark_reads_differently_prove_nothing(spark: SparkSession, numbers: Path) -> None:
    """Read recursively without partitions, `half` is a column that no file has: NULL in every row."""
    frame = spark.read.schema("id INT, half INT").option("recursiveFileLookup", "true").parquet(str(numbers))
    pruned = pruner_spark.prune(frame)
    for where in ("half IS NULL", "half IS NULL AND id < 10", "NOT (half = 1) AND id < 20", "id = 12"):
        assert ids_of(pruned, where) == ids_of(frame, where), where
    assert _last(spark).kept == 1
    text = spark.read.schema("id INT, half STRING").parquet(str(numbers))
    assert ids_of(pruner_spark.prune(text), "half = '01'") == ids_of(text, "half = '01'")
    assert ids_of(pruner_spark.prune(text), "half = '1' AND id < 15") == [10, 11, 12, 13, 14]
    assert _last(spark).kept == 2, "id alone proves it"


def test_one_folder_of_a_table_is_not_a_table(spark: SparkSession, numbers: Path) -> None:
    frame = spark.read.parquet(str(numbers / "half=1"))
    before = pruner_spark.last_plans(spark)
    assert ids_of(pruner_spark.prune(frame), "id < 20") == list(range(10, 20))
    assert new_scans(spark, before) == []


def test_parquet_has_no_earlier_snapshots(spark: SparkSession, numbers: Path) -> None:
    with pytest.raises(TableError, match="leave as_of out"):
        pruner_spark.read(spark, numbers, as_of="20240101000000")


def test_paths_without_a_table_are_refused_in_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.csv").write_text("id\n1\n", encoding="utf-8")
    for name, sentence in (
        ("empty", "is not a table: there are no Parquet files in it, and none of the folders .hoodie"),
        ("texts", "is not a table: there are no Parquet files in it, and none of the folders .hoodie"),
        ("missing", "no such path: "),
    ):
        with pytest.raises(TableError) as raised:
            pruner_spark.read(spark, tmp_path / name)
        message = str(raised.value)
        assert sentence in message
        assert str(tmp_path / name) in message
        assert "\n" not in message


def test_options_of_the_reader_hold_as_without_pruner(spark: SparkSession, numbers: Path) -> None:
    """Spark lists the files by them; the plan is that of the whole table, by `id` alone (files 3, 4 and 5)."""
    for options, rows in (
        ({"pathGlobFilter": "0000[0-3].parquet"}, 4),
        ({"basePath": str(numbers)}, 19),
        ({"modifiedAfter": "2000-01-01T00:00:00"}, 19),
        ({"mergeSchema": "true"}, 19),
    ):
        plain = spark.read.options(**options).parquet(str(numbers))
        expected = ids_of(plain, "id > 35 AND id < 55")
        assert len(expected) == rows
        before = pruner_spark.last_plans(spark)
        assert ids_of(pruner_spark.prune(plain), "id > 35 AND id < 55") == expected, options
        assert [scan.kept for scan in new_scans(spark, before)] == [3], options


@contextmanager
def _counted(monkeypatch: pytest.MonkeyPatch) -> Generator[list[str]]:
    """Commands to the JVM, except those that release objects, which Python's collector sends."""
    sent: list[str] = []
    send = GatewayClient.send_command

    def counting(self: Any, command: str, *rest: Any, **named: Any) -> Any:
        if not command.startswith("m\n"):
            sent.append(command)
        return send(self, command, *rest, **named)

    with monkeypatch.context() as patched:
        patched.setattr(GatewayClient, "send_command", counting)
        yield sent


def test_round_trips_do_not_depend_on_the_number_of_files(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> None:
    counts: dict[int, list[int]] = {}
    for files in (10, 400):
        root = write_numbers(tmp_path / f"t{files}", files)
        pruner.open_table(root).create_index("stats", on="*")
        frame = pruner_spark.read(spark, root)
        for where in ("id = 7", "id < 50", "id >= 0", "id <> 3"):
            chosen = frame.where(where).agg({"id": "count"})
            for _ in range(2):
                chosen = frame.where(where).agg({"id": "count"})
                with _counted(monkeypatch) as sent:
                    chosen.collect()
            counts.setdefault(files, []).append(len(sent))
    record_property("figure", f"Spark: py4j commands of one query and its scan: {counts[400]}")
    assert counts[10] == counts[400]
    assert max(counts[400]) < 30


def test_scans_are_in_the_order_in_which_they_began() -> None:
    """Java does not wait until a scan without a plan is known: it may become known after later ones."""
    log = ScanLog()
    for number in (1, None, 4, 5, 2, 3, 6):
        log.add("session", Scan("t", None, number=number))
    assert [scan.number for scan in log.scans("session")] == [1, None, 2, 3, 4, 5, 6]
    for number in range(100, 100 + KEPT_PLANS):
        log.add("session", Scan("t", None, number=number))
    log.add("session", Scan("t", None, number=99))
    kept = [scan.number for scan in log.scans("session")]
    assert kept == list(range(100, 100 + KEPT_PLANS))
