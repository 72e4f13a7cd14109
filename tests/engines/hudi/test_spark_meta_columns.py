"""Conditions on Hudi's meta columns in Spark: they reach the plan, lose no row, and read no more than Hudi does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
from pruner.tables.hudi.avro_schema import META_COLUMNS
from tests.engines.spark.spark_tables import Rows, files_scanned, new_scans, rows_of, unordered
from tests.support.hudi.merging import merging_tables
from tests.support.hudi.states import all_tables
from tests.support.kept.tables import AllTables
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SKIPPING = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
CHOSEN = ("id", *META_COLUMNS)

LOST_BY_HUDI = ("cow_composite_v9", "_hoodie_record_key")
"""Hudi 1.2.0 itself finds no row by a composite key, so its reads are no measure there."""


@pytest.fixture(scope="module")
def indexed(start_session: Callable[[], SparkSession]) -> AllTables:
    """The tables with every index of Hudi's; read-only."""
    return all_tables(start_session)


def _planned(frame: DataFrame, condition: str, expected: DataFrame) -> pruner_spark.Scan:
    """Run a condition on both, compare the rows, and return the scan, which read what its plan keeps."""
    spark = frame.sparkSession
    before = pruner_spark.last_plans(spark)
    chosen = frame.where(condition).select(*CHOSEN)
    assert unordered(rows_of(chosen)) == unordered(rows_of(expected.where(condition).select(*CHOSEN)))
    (scan,) = new_scans(spark, before)
    assert scan.reason is None
    assert scan.plan is not None
    assert files_scanned(chosen) == [scan.kept]
    return scan


def _values(rows: Rows, column: str) -> list[str]:
    at = CHOSEN.index(column)
    return sorted({row[at] for row in rows})


@pytest.mark.parametrize(
    "name",
    [
        "cow_v6",
        "cow_clustered_v9",
        "mor_v6",
        "mor_v9",
        "mor_compacted_v9",
        "mor_log_only_v9",
        "mor_merge_into_v9",
    ],
)
def test_own_indexes_over_meta_columns_serve(
    name: str, spark: SparkSession, hudi_table: Callable[[str], Path]
) -> None:
    path = hudi_table(name)
    table = pruner.open_table(path)
    table.create_index("ranges", on=list(META_COLUMNS))
    table.create_index("keys", on="_hoodie_record_key", using="record_index")
    plain, frame = spark_snapshot(spark, path).cache(), pruner_spark.read(spark, path)
    rows = rows_of(plain.select(*CHOSEN))
    for column in META_COLUMNS:
        values = _values(rows, column)
        found, last = values[len(values) // 2], values[-1]
        scan = _planned(frame, f"{column} = '{found}'", plain)
        if column == "_hoodie_record_key":
            _kept_as_proved(scan, rows, column, lambda values, it=found: it in values)
            assert scan.kept == 1
        else:
            _kept_as_proved(scan, rows, column, lambda values, it=found: min(values) <= it <= max(values))
        scan = _planned(frame, f"{column} >= '{last}' OR {column} IS NULL", plain)
        _kept_as_proved(scan, rows, column, lambda values, it=last: max(values) >= it)
    plain.unpersist()


def _kept_as_proved(
    scan: pruner_spark.Scan, rows: Rows, column: str, is_possible: Callable[[list[str]], bool]
) -> None:
    """Check that a scan kept the file groups whose values allow it; logs also hold old versions of rows."""
    assert scan.plan is not None
    assert column in next(line for line in scan.explain().splitlines() if line.startswith("predicate"))
    groups: dict[str, list[str]] = {}
    for row in rows:
        group = row[CHOSEN.index("_hoodie_file_name")].split("_", maxsplit=1)[0]
        groups.setdefault(group, []).append(row[CHOSEN.index(column)])
    possible = {group for group, values in groups.items() if is_possible(values)}
    kept = {entry.file_id for entry in scan.plan.slices}
    widened = {entry.file_id for entry in scan.plan.snapshot.slices if entry.log_files}
    assert possible - widened <= kept <= possible | widened


@pytest.mark.parametrize("version", [6, 9])
def test_a_table_without_meta_columns_is_read_without_them(
    version: int, spark: SparkSession, start_session: Callable[[], SparkSession], tmp_path: Path
) -> None:
    path = merging_tables(start_session).copy(f"mor_no_meta_fields_v{version}", tmp_path)
    pruner.open_table(path).create_index("ranges", on="*")
    plain, frame = spark_snapshot(spark, path), pruner_spark.read(spark, path)
    assert frame.columns == plain.columns
    assert not set(META_COLUMNS) & set(frame.columns)
    assert unordered(rows_of(frame.where("id < 3"))) == unordered(rows_of(plain.where("id < 3")))


@pytest.mark.parametrize("name", ["cow_v6", "cow_composite_v9", "mor_v9"])
def test_no_more_is_read_than_by_hudis_own_skipping(
    name: str, spark: SparkSession, indexed: AllTables
) -> None:
    """Without an index of pruner's, plans use what Hudi's metadata table knows of the meta columns."""
    path = indexed.path(name)
    plain, frame = spark_snapshot(spark, path).cache(), pruner_spark.read(spark, path)
    rows = rows_of(plain.select(*CHOSEN))
    skipping = spark.read.format("hudi").options(**SKIPPING).load(str(path))
    for column in META_COLUMNS:
        values = _values(rows, column)
        for condition in (f"{column} = '{values[len(values) // 2]}'", f"{column} >= '{values[-1]}'"):
            scan = _planned(frame, condition, plain)
            by_hudi = skipping.where(condition).select(*CHOSEN)
            found = unordered(rows_of(by_hudi))
            if found != unordered(rows_of(plain.where(condition).select(*CHOSEN))):
                assert (name, column) == LOST_BY_HUDI
                continue
            # Hudi believes what it knows of log files; where that has lost rows, the plan says why pruner does not.
            doubted = name.startswith("mor") and "note: index hudi." in scan.explain()
            assert (scan.kept or 0) <= sum(files_scanned(by_hudi)) or doubted, condition
    plain.unpersist()
    assert not Path(f"{path}.pruner").exists()
