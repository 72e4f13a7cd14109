"""Random conditions on an Iceberg table in Spark: no file with a match is left out, and none stays that Iceberg drops.

Spark says once which rows match all of them, over rows that are in no file; then each is planned, and the files that
its scan is left with are held against it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
from tests.engines.delta.test_spark_delta_random import AT_ONCE, FILES, ROW, ROWS, condition
from tests.engines.spark.spark_tables import iceberg_files, new_scans
from tests.support import profiles
from tests.support.catalyst import settings
from tests.support.delta_writer import FILE
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

NAME = "ice.random.t"
PROPERTIES = "'format-version'='3', 'write.delete.mode'='merge-on-read', 'write.delete.granularity'='file'"


@dataclass(frozen=True)
class Kept:
    """A table with an index, and its rows with their files."""

    spark: SparkSession
    path: Path
    truth: DataFrame


@pytest.fixture(scope="module")
def kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    warehouse = tmp_path_factory.mktemp("random")
    ice = iceberg_session(spark, warehouse)
    rows = ice.range(0, FILES * ROWS, 1, FILES).selectExpr(*ROW)
    rows.createOrReplaceTempView("rows")
    for statement in (
        f"CREATE TABLE {NAME} USING iceberg PARTITIONED BY (p) TBLPROPERTIES ({PROPERTIES}) AS "
        "SELECT * FROM rows WHERE id < 72",
        f"ALTER TABLE {NAME} RENAME COLUMN k TO other",
        f"ALTER TABLE {NAME} RENAME COLUMN other TO k",
        f"ALTER TABLE {NAME} ADD PARTITION FIELD days(t)",
        f"ALTER TABLE {NAME} ADD PARTITION FIELD truncate(3, s)",
        f"ALTER TABLE {NAME} DROP PARTITION FIELD p",
        f"INSERT INTO {NAME} SELECT * FROM rows WHERE id >= 72",
        f"DELETE FROM {NAME} WHERE id IN (3, 40, 41, 95)",
    ):
        ice.sql(statement)
    path = warehouse / "random" / "t"
    pruner.open_table(str(path)).create_index("some", on=["k", "s"], using="bitmap")
    frame = ice.sql(f"SELECT *, _file AS {FILE} FROM {NAME}")
    # Rows that are here: whatever Iceberg or Parquet could skip by, they are no longer in its files.
    return Kept(ice, path, ice.createDataFrame(frame.collect(), frame.schema).coalesce(1))


def test_conditions_lose_nothing_and_keep_no_more_than_iceberg(kept: Kept) -> None:
    random = Random(profiles.seed())
    conditions = [condition(random) for _ in range(profiles.examples(120))]
    with settings(kept.spark, {"spark.sql.adaptive.enabled": "false"}):
        for start in range(0, len(conditions), AT_ONCE):
            some = conditions[start : start + AT_ONCE]
            for text, files in zip(some, _matching(kept, some), strict=True):
                _check(kept, text, files)


def _matching(kept: Kept, conditions: list[str]) -> list[set[str]]:
    """The files that hold a row for which each condition is true."""
    columns = [f"({text}) AS c{number}" for number, text in enumerate(conditions)]
    rows = [(row[0], row[1:]) for row in kept.truth.selectExpr(FILE, *columns).collect()]
    return [{file for file, is_true in rows if is_true[number]} for number in range(len(conditions))]


def _check(kept: Kept, text: str, matching: set[str]) -> None:
    before = pruner_spark.last_plans(kept.spark)
    frame = pruner_spark.read(kept.spark, kept.path).where(text)
    found = iceberg_files(frame)
    left = found[0] if found else set()
    # Iceberg itself loses rows that are NaN (docs/iceberg.md): what is lost here must be lost by it.
    if not matching <= left:
        (own,) = iceberg_files(kept.spark.table(NAME).where(text))
        assert "d " in text or "d)" in text, text
        assert matching & own <= left, f"{text} loses {sorted(matching & own - left)}"
    for scan in new_scans(kept.spark, before):
        assert scan.reason is None, (text, scan.reason)
        assert scan.files_unknown in (0, None), text
        if scan.files_listed is not None and scan.kept is not None and not _beyond(text):
            assert scan.kept <= scan.files_listed, (
                f"{text}: Iceberg itself lists {scan.files_listed}, {scan.kept} are kept"
            )


def _beyond(text: str) -> bool:
    """Whether Iceberg may know more of a condition.

    It believes bounds of days before 1582, takes conditions on whole partitions out of the filter above its scan,
    forgets that -0.0 equals 0.0 in Spark, and believes counts of NULL inside structs (docs/iceberg.md).
    """
    return any(name in text for name in ("day", "p ", "(p", "d ", "d)", "st."))
