"""INT96, Spark's own default for timestamps in plain Parquet: instants in microseconds, which prune as such."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from pruner_spark.catalyst.decode import decode
from pruner_spark.jvm import session_state
from pruner_spark.relations.agreement import schema_as_read
from tests.engines.spark.spark_tables import (
    everything_read,
    files_scanned,
    new_scans,
    rows_of,
    same,
    unordered,
)
from tests.soundness.kinds import KINDS
from tests.soundness.spark.spark_predicates import draw
from tests.soundness.tables import write_table
from tests.support.parquet.footers import written_by
from tests.support.spark.catalyst import condition, settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAYS = 6
PREDICATES = 40
PARQUET_MR = "parquet-mr version 1.13.1 (build 0)"
EVERYDAY = (
    "ts = TIMESTAMP '2024-01-03 12:00:00'",
    "ts >= '2024-01-05'",
    "ts < TIMESTAMP '2024-01-02 07:30:00'",
    "ts BETWEEN '2024-01-02 00:00:00' AND '2024-01-03 12:00:00.000001'",
    "ts IN (TIMESTAMP '2024-01-01 12:00:00', TIMESTAMP '2024-01-06 12:00:00.000002')",
    "CAST(ts AS DATE) = DATE '2024-01-04'",
    "ts >= DATE '2024-01-06' - INTERVAL 1 DAY",
    "ts > TIMESTAMP '2024-01-05 18:00:00' - INTERVAL 1 DAY",
    "ts IS NULL",
)
EDGES = (
    "ts = TIMESTAMP '1883-11-18 17:00:00'",
    "ts < TIMESTAMP '1900-01-01 00:00:00'",
    "ts >= '2024-01-01 00:00:00'",
    "s.ts < '1901-01-01'",
    "NOT (ts < '2024-01-01 12:00:00')",
    "ts <=> TIMESTAMP '2024-01-01 12:00:00'",
    "date_trunc('DAY', ts) = TIMESTAMP '2024-01-01 00:00:00'",
)


def _write(folder: Path) -> Path:
    """A file for each day: noon, a microsecond later, one that pyarrow cuts to microseconds; a NULL in the last."""
    folder.mkdir()
    for day in range(DAYS):
        noon = 1_704_110_400_000_000_000 + day * 86_400_000_000_000
        values = [noon, noon + 1000, noon + 2999, None if day == DAYS - 1 else noon + 3000]
        content = pa.table({"id": range(4), "ts": pa.array(values, pa.timestamp("ns"))})
        pq.write_table(content, folder / f"{day}.parquet", use_deprecated_int96_timestamps=True)
    return folder


@pytest.fixture(scope="module")
def days(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of one file for each day, as Spark writes it by default."""
    root = tmp_path_factory.mktemp("int96")
    days = root / "spark"
    for file in sorted(_write(root / "pyarrow").glob("*.parquet")):
        spark.read.parquet(str(file)).write.mode("append").parquet(str(days))
    physical = {pq.ParquetFile(file).schema.column(1).physical_type for file in days.glob("*.parquet")}
    assert physical == {"INT96"}
    pruner.open_table(days).create_index("stats", on="*")
    return days


def _compare(spark: SparkSession, folder: Path, predicates: tuple[str, ...]) -> list[tuple[int, int]]:
    """For each predicate, the number of files with a matching row, and of those left in its scan.

    The rows must be those of a scan of all files that computes the predicate as a column.
    """
    with everything_read(spark):
        columns = [f"({predicate}) AS p{k}" for k, predicate in enumerate(predicates)]
        every = spark.read.parquet(str(folder)).selectExpr("*", "_metadata.file_name AS `in file`", *columns)
        oracle = [row.asDict() for row in every.collect()]
        found: list[tuple[int, int]] = []
        for k, predicate in enumerate(predicates):
            matching = [row for row in oracle if row[f"p{k}"]]
            before = pruner_spark.last_plans(spark)
            rows = rows_of(pruner_spark.read(spark, folder).where(predicate).select("id", "ts"))
            assert unordered(rows) == unordered([(row["id"], row["ts"]) for row in matching]), predicate
            (scan,) = new_scans(spark, before)
            assert scan.reason is None
            assert scan.kept is not None
            found.append((len({row["in file"] for row in matching}), scan.kept))
    return found


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_everyday_conditions_prune(spark: SparkSession, days: Path, zone: str) -> None:
    """Exactly the files with a matching row are read, in the zone of the files' days and in another."""
    with settings(spark, {"spark.sql.session.timeZone": zone}):
        found = _compare(spark, days, EVERYDAY)
    assert [kept for _, kept in found] == [matching for matching, _ in found]
    assert max(kept for _, kept in found) < DAYS


@pytest.mark.parametrize(
    ("order", "files"), [("ts DESC LIMIT 4", 2), ("ts DESC LIMIT 3", 1), ("ts LIMIT 5", 3)]
)
def test_the_latest_rows_are_in_few_files(spark: SparkSession, days: Path, order: str, files: int) -> None:
    """NULL sorts first where the least come first: the last file has one."""
    found = pruner_spark.sql(spark, f"SELECT * FROM parquet.`{days}` ORDER BY {order}")
    same(found, spark.sql(f"SELECT * FROM parquet.`{days}` ORDER BY {order}"), ordered=True)
    assert files_scanned(found) == [files]


def _edges(folder: Path) -> Path:
    """Old and new values, nested as well, in files without Spark's marks, with its version and with its legacy mark."""
    folder.mkdir()
    spark_says = {b"org.apache.spark.version": b"3.5.9"}
    legacy = {**spark_says, b"org.apache.spark.legacyINT96": b""}
    old = datetime.datetime(1883, 11, 18, 17, tzinfo=datetime.UTC)
    noon = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
    for number, (moment, marks) in enumerate(
        [(noon, {}), (noon, legacy), (old, {}), (old, spark_says), (old, legacy)]
    ):
        values = pa.array([moment, moment + datetime.timedelta(hours=5)], pa.timestamp("us", "UTC"))
        naive = values.cast(pa.timestamp("us"))
        columns = {
            "id": [2 * number, 2 * number + 1],
            "ts": naive,
            "s": pa.StructArray.from_arrays([naive], ["ts"]),
        }
        content = pa.table(columns).replace_schema_metadata(marks)
        pq.write_table(content, folder / f"{number}.parquet", use_deprecated_int96_timestamps=True)
        written_by(folder / f"{number}.parquet", PARQUET_MR)
    return folder


@pytest.mark.parametrize("mode", ["CORRECTED", "LEGACY"])
def test_old_values_are_those_of_the_calendar_that_spark_reads_by(
    spark: SparkSession, tmp_path: Path, mode: str
) -> None:
    """Files that name no calendar are read in the session's, so their old values drop nothing (trap S17)."""
    root = _edges(tmp_path / "t")
    pruner.open_table(root).create_index("stats", on=["id", "ts", "s.ts"])
    chosen = {
        "spark.sql.parquet.int96RebaseModeInRead": mode,
        "spark.sql.session.timeZone": "America/New_York",
    }
    with settings(spark, chosen):
        found = _compare(spark, root, EDGES)
    assert all(matching <= kept for matching, kept in found)
    # New values prune in every file that has some; the two files with unsettled old values stay.
    assert found[5] == (2, 4)


@pytest.mark.parametrize("converts", ["true", "false"])
def test_what_other_writers_wrote_proves_nothing(spark: SparkSession, tmp_path: Path, converts: str) -> None:
    """With `int96TimestampConversion` Spark shifts values of writers other than parquet-mr by the session's zone."""
    root = _write(tmp_path / "t")
    pruner.open_table(root).create_index("stats", on="*")
    chosen = {
        "spark.sql.parquet.int96TimestampConversion": converts,
        "spark.sql.session.timeZone": "America/New_York",
    }
    noon = "12:00:00" if converts == "true" else "07:00:00"
    with settings(spark, chosen):
        found = _compare(spark, root, (f"ts = TIMESTAMP '2024-01-03 {noon}'", "id = 7"))
    assert found == [(1, DAYS), (0, 0)]


def test_random_predicates_lose_nothing(
    spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    """Random instants, including old ones, and the predicates of tests/soundness over them."""
    rng = random.Random(int(pytestconfig.option.hypothesis_seed))
    table = write_table(rng, tmp_path / "t", 16, 1, [kind for kind in KINDS if kind.name == "timestamptz"])
    for file in table.files:
        pq.write_table(pq.read_table(file), file, use_deprecated_int96_timestamps=True)
        written_by(Path(file), PARQUET_MR)
    opened = pruner.open_table(str(table.root))
    opened.create_index("stats", on="*")
    predicates = [draw(rng, table) for _ in range(PREDICATES)]
    chosen = {
        "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
        "spark.sql.codegen.wholeStage": "false",
    }
    with settings(spark, chosen):
        frame = spark.read.parquet(str(table.root))
        columns = [f"coalesce(bool_or({text}), false) AS p{k}" for k, text in enumerate(predicates)]
        frame.selectExpr("_metadata.file_name AS `in file`", "*").createOrReplaceTempView("int96_rows")
        rows = spark.sql(f"SELECT `in file`, {', '.join(columns)} FROM int96_rows GROUP BY 1").collect()
        frame.createOrReplaceTempView("int96_plain")
        kept = [_kept(spark, opened.snapshot(), text) for text in predicates]
    files, dropped, without = {Path(file).name for file in table.files}, 0, 0
    for k, predicate in enumerate(predicates):
        matching = {row[0] for row in rows if row[k + 1]}
        if (left := kept[k]) is not None:
            assert matching <= left, predicate
            dropped, without = dropped + len(files - left), without + len(files - matching)
    assert dropped >= 0.4 * without > 0


def _kept(spark: SparkSession, pinned: pruner.PinnedSnapshot, text: str) -> set[str] | None:
    """The files that the plan of an optimized predicate keeps; None where the optimizer decided it by itself."""
    left = condition(spark.sql(f"SELECT 1 FROM int96_plain WHERE {text}"))
    if left is None:
        return None
    state = session_state(spark)
    schema = schema_as_read(pinned.schema, state.semantics())
    plan = pinned.plan(decode(left, state, schema), semantics=state.semantics())
    return {Path(file).name for file in plan.files}
