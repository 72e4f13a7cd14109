"""Hudi tables through `pruner_spark`: logs, time travel, read-optimized, and tables that change before the scan."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError

import pruner
import pruner_duckdb
import pruner_spark
from tests.engines.spark.spark_tables import files_scanned, new_scans, rows_of, unordered
from tests.support.hudi.catalog import SCHEMA_ON_READ
from tests.support.hudi.timeline import completed
from tests.support.hudi.writer import CLEAN, COMPACT, HudiWriter, trips
from tests.support.spark.catalyst import settings
from tests.support.spark.oracle import UNPRUNED, spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

PREDICATES = (
    "fare >= 1000",
    "fare < 5",
    "id = 4",
    "fare IS NULL AND city = 'rome'",
    "seats IN (0, 3) OR id > 20",
)


def _index(path: Path) -> pruner.Table:
    table = pruner.open_table(path)
    table.create_index("stats", on="*", if_not_exists=True)
    table.refresh()
    return table


def _same(frame: DataFrame, expected: DataFrame, predicate: str) -> pruner_spark.Scan:
    """Run a predicate on both, compare the rows, and return the one scan."""
    spark = frame.sparkSession
    before = pruner_spark.last_plans(spark)
    chosen = frame.where(predicate).select("id", "city", "seats", "fare", "ts")
    rows = unordered(rows_of(chosen))
    wanted = expected.where(predicate).select("id", "city", "seats", "fare", "ts")
    assert rows == unordered(rows_of(wanted)), predicate
    (scan,) = new_scans(spark, before)
    assert scan.reason is None, scan.reason
    assert scan.kept is not None
    (read,) = files_scanned(chosen)
    assert read <= scan.kept, "more files were read than the plan keeps"
    return scan


@pytest.mark.parametrize("name", ["mor_v6", "mor_v8", "mor_v9", "mor_pending_compaction_v6"])
def test_values_that_an_update_moved_into_logs_are_found(
    spark: SparkSession, hudi_table: Callable[[str], Path], name: str
) -> None:
    path = hudi_table(name)
    _index(path)
    frame = pruner_spark.read(spark, path)
    scans = [_same(frame, spark_snapshot(spark, path), predicate) for predicate in PREDICATES]
    assert all(scan.total == len(pruner.open_table(path).snapshot().slices) for scan in scans)
    # With a pending compaction in version 6 nothing is settled, so nothing can be proved (rules R4 and R6).
    assert any((scan.files_dropped or 0) > 0 for scan in scans) == ("pending" not in name)


@pytest.mark.parametrize("name", ["cow_v6", "cow_v8", "cow_v9", "cow_special_values_v9"])
def test_copy_on_write(spark: SparkSession, hudi_table: Callable[[str], Path], name: str) -> None:
    path = hudi_table(name)
    _index(path)
    frame = pruner_spark.read(spark, path)
    scans = [_same(frame, spark_snapshot(spark, path), predicate) for predicate in PREDICATES]
    assert any((scan.files_dropped or 0) > 0 for scan in scans), "nothing was ever dropped"


def test_read_optimized_reads_base_files(spark: SparkSession, hudi_table: Callable[[str], Path]) -> None:
    path = hudi_table("mor_v9")
    _index(path)
    frame = pruner_spark.read(spark, path, read_optimized=True)
    for predicate in PREDICATES:
        _same(frame, spark_snapshot(spark, path, read_optimized=True), predicate)
    assert pruner_spark.last_plans(spark)[-1].plan.semantics.scan_mode == "read_optimized"  # type: ignore[union-attr]


@pytest.mark.parametrize("name", ["cow_v9", "mor_v6"])
def test_time_travel_does_not_use_what_came_later(
    spark: SparkSession, hudi_table: Callable[[str], Path], name: str
) -> None:
    """Trap T4: before the upsert, no row had a fare of 1000."""
    path = hudi_table(name)
    _index(path)
    for instant in completed(path, "commit", "deltacommit"):
        frame = pruner_spark.read(spark, path, as_of=instant.requested)
        for predicate in PREDICATES[:2]:
            _same(frame, spark_snapshot(spark, path, as_of=instant.requested), predicate)


def test_a_frame_older_than_the_table_keeps_its_rows_and_is_still_pruned(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Trap T4: commits after the frame was resolved; it reads the old slices, by the records of those."""
    writer = HudiWriter(spark, tmp_path / "t")
    writer.insert(trips(spark, range(12)))
    _index(writer.path)
    frame = pruner_spark.read(spark, writer.path)
    plain = spark_snapshot(spark, writer.path)
    unordered(rows_of(plain))  # makes Hudi list now
    writer.upsert(trips(spark, range(3), ts=2, fare=1000))
    writer.insert(trips(spark, range(12, 24), fare=100))
    for refreshed in (False, True):
        if refreshed:
            _index(writer.path)
        old = _same(frame, plain, "fare < 1.5")
        assert (old.kept, old.total) == (1, 3)
        assert _same(frame, plain, "fare = 1000").kept == 0
        new = pruner_spark.read(spark, writer.path)
        assert _same(new, spark_snapshot(spark, writer.path), "fare = 1001").kept == (2 if refreshed else 6)


def test_a_compaction_between_planning_and_running_loses_nothing(spark: SparkSession, tmp_path: Path) -> None:
    writer = HudiWriter(spark, tmp_path / "t", 9, "MERGE_ON_READ")
    writer.insert(trips(spark, range(12)))
    writer.upsert(trips(spark, range(3), ts=2, fare=1000))
    _index(writer.path)
    frame = pruner_spark.read(spark, writer.path)
    plain = spark_snapshot(spark, writer.path)
    rows_of(plain)
    writer.upsert(trips(spark, [6], ts=3, fare=5000), also=COMPACT)
    _index(writer.path)
    for predicate in PREDICATES:
        _same(frame, plain, predicate)
    assert (
        _same(pruner_spark.read(spark, writer.path), spark_snapshot(spark, writer.path), "fare > 4000").kept
        == 1
    )


@pytest.mark.parametrize("listed", [True, False])
def test_a_clean_between_planning_and_running_loses_nothing(
    spark: SparkSession, tmp_path: Path, listed: bool
) -> None:
    """Whether or not Hudi had listed the table before: deleted files have the same effect as without pruner."""
    writer = HudiWriter(spark, tmp_path / "t")
    writer.insert(trips(spark, range(12)))
    _index(writer.path)
    frame = pruner_spark.read(spark, writer.path)
    plain = spark_snapshot(spark, writer.path)
    if listed:
        rows_of(plain)
        rows_of(frame)
    for round_ in range(3):
        also = CLEAN if round_ == 2 else None
        writer.upsert(trips(spark, range(0, 12, 3), ts=2 + round_, fare=1000), also=also)
    for predicate in ("city = 'paris' AND fare > 3", "city = 'berlin' AND fare > 1", "fare IS NULL"):
        assert _outcome(frame.where(predicate)) == _outcome(plain.where(predicate)), predicate


def _outcome(frame: DataFrame) -> Any:
    """The rows of a query, or that one of its files is gone."""
    try:
        return unordered(rows_of(frame.select("id", "fare")))
    except Py4JJavaError as error:
        if "FileNotFound" not in str(error):
            raise
        return "a file is gone"


def test_rows_of_a_commit_after_the_index_are_found(spark: SparkSession, tmp_path: Path) -> None:
    writer = HudiWriter(spark, tmp_path / "t", 9, "MERGE_ON_READ")
    writer.insert(trips(spark, range(12)))
    _index(writer.path)
    writer.insert(trips(spark, range(12, 24), fare=100))
    writer.upsert(trips(spark, [3], ts=2, fare=2000))
    frame = pruner_spark.read(spark, writer.path)
    for predicate in (*PREDICATES, "fare >= 2000", "fare > 100"):
        _same(frame, spark_snapshot(spark, writer.path), predicate)


@pytest.mark.parametrize(
    ("format_", "reason"),
    [
        ("latest_state", "incremental reads are not pruned"),
        ("cdc", "reads of changes (CDC) are not pruned"),
    ],
)
def test_incremental_and_change_reads_pass_through(
    spark: SparkSession, tmp_path: Path, format_: str, reason: str
) -> None:
    """Through `read`, `prune` and `sql`: the same rows, none of them pruned, and the reason recorded."""
    changes = {
        "hoodie.table.cdc.enabled": "true",
        "hoodie.table.cdc.supplemental.logging.mode": "data_before_after",
    }
    writer = HudiWriter(spark, tmp_path / "t", 9, options=changes)
    writer.insert(trips(spark, range(12)))
    writer.upsert(trips(spark, range(3), ts=2, fare=1000))
    _index(writer.path)
    options: dict[str, Any] = {
        **UNPRUNED,
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.query.incremental.format": format_,
        "hoodie.datasource.read.begin.instanttime": "000",
    }
    plain = spark.read.format("hudi").options(**options).load(str(writer.path))
    condition = "op = 'u'" if format_ == "cdc" else "id = 1"
    expected = unordered(rows_of(plain.where(condition)))
    assert len(expected) == (3 if format_ == "cdc" else 1)
    plain.createOrReplaceTempView("changed")
    before = pruner_spark.last_plans(spark)
    for frame in (
        pruner_spark.read(spark, writer.path, **options).where(condition),
        pruner_spark.prune(plain).where(condition),
        pruner_spark.sql(spark, f"SELECT * FROM changed WHERE {condition}"),
    ):
        assert unordered(rows_of(frame)) == expected
    spark.catalog.dropTempView("changed")
    assert [(scan.plan, scan.reason) for scan in new_scans(spark, before)] == [(None, reason)] * 3


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_update_and_delete_find_their_rows_pruned(spark: SparkSession, tmp_path: Path, kind: Any) -> None:
    """The rows to change come from a query over the table; MERGE INTO reads no rows of a target with a record key."""
    writer = HudiWriter(spark, tmp_path / "t", 9, kind)
    writer.insert(trips(spark, range(12)))
    writer.upsert(trips(spark, range(3), ts=2, fare=1000))
    _index(writer.path)
    spark.sql(f"CREATE TABLE changed_t USING hudi LOCATION '{writer.path.as_uri()}'")
    try:
        before = pruner_spark.last_plans(spark)
        pruner_spark.sql(spark, "UPDATE changed_t SET seats = 9 WHERE id = 1 AND fare >= 1000")
        pruner_spark.sql(spark, "DELETE FROM changed_t WHERE id = 0")
        update, delete = new_scans(spark, before)
        # berlin 0 3 6 9, paris 1 4 7 10, rome 2 5 8 11; Hudi's own statistics have the ids that the UPDATE wrote.
        assert [(update.kept, update.reason), (delete.kept, delete.reason)] == [(1, None), (1, None)]
        before = pruner_spark.last_plans(spark)
        pruner_spark.sql(
            spark,
            "MERGE INTO changed_t t USING (SELECT 3 AS id, 'berlin' AS city, 8 AS seats, 1D AS fare, 9L AS ts) s "
            "ON t.id = s.id WHEN MATCHED THEN UPDATE SET *",
        )
        (merge,) = new_scans(spark, before)
        assert merge.plan is None
        assert "MERGE INTO reads no rows of its target" in str(merge.reason)
    finally:
        spark.sql("DROP TABLE changed_t")
    rows = {row.id: row.seats for row in spark_snapshot(spark, writer.path).collect()}
    assert set(rows) == set(range(1, 12))
    assert (rows[1], rows[3]) == (9, 8)


def test_names_of_the_catalog_travel_in_time(spark: SparkSession, hudi_table: Callable[[str], Path]) -> None:
    """Trap T4, in SQL: TIMESTAMP AS OF reads the slices of that instant."""
    path = hudi_table("cow_v9")
    _index(path)
    spark.sql(f"CREATE TABLE travelled USING hudi LOCATION '{path.as_uri()}'")
    try:
        for instant in completed(path, "commit"):
            query = f"SELECT id FROM travelled TIMESTAMP AS OF '{instant.requested}' WHERE fare >= 1000"
            found = unordered(rows_of(pruner_spark.sql(spark, query)))
            then: Any = spark_snapshot(spark, path, as_of=instant.requested)
            assert found == unordered(rows_of(then.where("fare >= 1000").select("id")))
            assert pruner_spark.last_plans(spark)[-1].reason is None
    finally:
        spark.sql("DROP TABLE travelled")


def test_scans_say_that_hudi_s_own_skipping_is_off(spark: SparkSession, tmp_path: Path) -> None:
    """Only where Hudi has an index that could skip something, and would use it."""
    writer = HudiWriter(spark, tmp_path / "t", metadata=True)
    writer.insert(trips(spark, range(4)), {"hoodie.metadata.index.column.stats.enable": "true"})
    _index(tmp_path / "t")
    frame = pruner_spark.read(spark, tmp_path / "t")
    (note,) = _same(frame, spark_snapshot(spark, tmp_path / "t"), "id = 1").notes
    assert "Hudi's own data skipping (column_stats" in note
    option: Any = {"hoodie.enable.data.skipping": "false"}
    switched_off = pruner_spark.read(spark, tmp_path / "t", **option)
    assert _same(switched_off, spark_snapshot(spark, tmp_path / "t"), "id = 1").notes == ()


def test_a_column_that_schema_on_read_widened_prunes(spark: SparkSession, tmp_path: Path) -> None:
    """Older files hold INT where the table now has BIGINT: the values and their order are unchanged."""
    writer = HudiWriter(spark, tmp_path / "t", 9)
    writer.insert(trips(spark, range(6)))
    with settings(spark, SCHEMA_ON_READ):
        spark.sql(f"CREATE TABLE widened USING hudi LOCATION '{writer.path.as_uri()}'")
        try:
            spark.sql("ALTER TABLE widened ALTER COLUMN seats TYPE BIGINT")
            spark.sql(
                "INSERT INTO widened (id, ts, fare, seats, city) VALUES (6, 1, 6.0, 3000000006, 'lisbon')"
            )
        finally:
            spark.sql("DROP TABLE widened")
        table = _index(writer.path)
        frame, expected = pruner_spark.read(spark, writer.path), spark_snapshot(spark, writer.path)
        # berlin 0 3, paris 1 4, rome 2 5, lisbon alone.
        wanted = {"seats = 5": 1, "seats > 3000000000": 1, "seats < 2": 2, "seats = 2147483648": 0}
        assert {each: _same(frame, expected, each).kept for each in wanted} == wanted
        rows = {each: sorted(row.id for row in expected.where(each).collect()) for each in wanted}
    with pruner_duckdb.connect({"t": table}) as con:
        for each, kept in wanted.items():
            found = con.sql(f"SELECT id FROM t WHERE {each} ORDER BY id").fetchall()
            assert ([id_ for (id_,) in found], con.last_plans[-1].kept) == (rows[each], kept)


RENAMED = {  # conditions, and the partitions whose file groups stay
    "price = 9": {"berlin", "paris", "rome", "oslo"},
    "price < 5": {"berlin", "paris", "rome"},
    "price > 1000": {"berlin", "paris", "rome"},
    "seats = 90": {"berlin", "paris", "rome", "oslo"},
    "seats IS NULL": {"berlin", "paris", "rome"},
    "seats = 60 AND id = 6": {"lisbon"},
    "id = 4": {"paris", "rome"},
}


def test_columns_that_schema_on_read_renamed_prune_in_later_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`fare` became `price`, `seats` was dropped and added again: berlin, paris and rome are from before.

    With schema-on-read, Spark reads `price` there from `fare` and has no `seats`. Without it, and in DuckDB, both are
    matched by name.
    """
    writer = HudiWriter(spark, tmp_path / "t", 9)
    writer.insert(trips(spark, range(6)))
    with settings(spark, SCHEMA_ON_READ):
        spark.sql(f"CREATE TABLE renamed USING hudi LOCATION '{writer.path.as_uri()}'")
        try:
            spark.sql("ALTER TABLE renamed RENAME COLUMN fare TO price")
            spark.sql("ALTER TABLE renamed DROP COLUMN seats")
            spark.sql("ALTER TABLE renamed ADD COLUMNS (seats INT)")
            values = "(6, 1, 6.0, 60, 'lisbon'), (9, 1, 9.0, 90, 'oslo')"
            spark.sql(f"INSERT INTO renamed (id, ts, price, seats, city) VALUES {values}")
        finally:
            spark.sql("DROP TABLE renamed")
        _index(writer.path)
        evolved = {each: _renamed_rows(spark, writer.path, each) for each in RENAMED}
    by_name = {each: _renamed_rows(spark, writer.path, each) for each in RENAMED}
    # Rows 1 to 4 have a fare.
    assert evolved["price < 5"] == [1, 2, 3, 4]
    assert evolved["seats IS NULL"] == [0, 1, 2, 3, 4, 5]
    assert by_name["price < 5"] == by_name["seats IS NULL"] == []
    with pruner_duckdb.connect({"t": writer.path}) as con:
        for each, partitions in RENAMED.items():
            found = con.sql(f"SELECT id FROM t WHERE {each} ORDER BY id").fetchall()
            assert ([id_ for (id_,) in found], con.last_plans[-1].kept) == (by_name[each], len(partitions))


def _renamed_rows(spark: SparkSession, path: Path, predicate: str) -> list[int]:
    """The ids that a condition finds, pruned and unpruned, where the scan keeps the file groups in `RENAMED`."""
    before = pruner_spark.last_plans(spark)
    frame = pruner_spark.read(spark, path).where(predicate).select("id")
    found = sorted(row.id for row in frame.collect())
    assert found == sorted(row.id for row in spark_snapshot(spark, path).where(predicate).collect()), (
        predicate
    )
    (scan,) = new_scans(spark, before)
    assert (scan.reason, scan.kept) == (None, len(RENAMED[predicate])), predicate
    plan = pruner.open_table(path).plan(predicate, dialect="spark")
    assert {each.partition_path for each in plan.slices} == {f"city={city}" for city in RENAMED[predicate]}
    return found
