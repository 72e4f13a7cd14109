"""UPDATE and DELETE with subqueries on Spark: the same rows change as without pruner, and fewer groups are read."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_spark
from pruner_spark import statements as merging
from tests.engines.spark.spark_tables import new_scans, rows_of, unordered
from tests.support.hudi.writer import HudiWriter, trips
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.support.hudi.writer import TableType

pytestmark = pytest.mark.spark

COLUMNS = ("id", "city", "seats", "fare", "ts")
GROUPS, EACH = 6, 10
WHOLE = -1

CASES = (
    # The change, and how many of six file groups the target's scan keeps.
    (
        "UPDATE {t} SET seats = 91 WHERE id IN (SELECT v FROM VALUES (3), (14), (3), (NULL), (900) AS s (v))",
        2,
    ),
    ("UPDATE {t} SET seats = 92 WHERE fare >= 0 AND id = (SELECT max(id) FROM {t})", 1),
    ("UPDATE {t} SET seats = 93 WHERE id > (SELECT avg(v) + 37 FROM VALUES (10), (30) AS s (v))", 1),
    ("DELETE FROM {t} WHERE id IN (SELECT id FROM {t} WHERE id BETWEEN 21 AND 22)", 1),
    ("DELETE FROM {t} WHERE id IN (SELECT v FROM VALUES (1) AS s (v) WHERE v > 5)", 0),
    ("UPDATE {t} SET seats = 94 WHERE id = (SELECT v FROM VALUES (1) AS s (v) WHERE v > 5)", 0),
    ("DELETE FROM {t} WHERE id IN (SELECT CAST(v AS STRING) FROM VALUES (47) AS s (v))", 1),
    # Not required of every row: read as before.
    # No row can be in the result of this one: Spark does not scan the table.
    ("DELETE FROM {t} WHERE id NOT IN (SELECT v FROM VALUES (1), (NULL) AS s (v))", 0),
    ("DELETE FROM {t} WHERE id NOT IN (SELECT id FROM {t} WHERE id <> 33)", WHOLE),
    ("UPDATE {t} SET seats = 95 WHERE id IN (SELECT v FROM VALUES (5) AS s (v)) OR seats = 93", WHOLE),
    # Not known for the table as a whole: the small side of Spark's join for it supplies the keys.
    (
        "UPDATE {t} SET seats = 96 WHERE EXISTS (SELECT 1 FROM VALUES (41) AS s (v) WHERE v = id)",
        1,
    ),
    (
        "UPDATE {t} SET seats = 97 WHERE id IN (SELECT v FROM VALUES (42, 1L), (43, 9L) AS s (v, w) WHERE w = ts)",
        1,
    ),
    ("UPDATE {t} SET seats = 98 WHERE (id, ts) IN (SELECT v, 1L FROM VALUES (44) AS s (v))", 1),
)


def _write(spark: SparkSession, path: Path, kind: TableType) -> Path:
    """A Hudi table of some file groups, each with its own range of keys."""
    options = HudiWriter(spark, path, 9, kind, partition_by="").all_options("bulk_insert")
    rows = trips(spark, range(GROUPS * EACH)).repartitionByRange(GROUPS, "id")
    unsorted = {"hoodie.bulkinsert.sort.mode": "NONE", "hoodie.bulkinsert.shuffle.parallelism": str(GROUPS)}
    rows.write.format("hudi").options(**{**options, **unsorted}).mode("append").save(str(path))
    return path


def _rows(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    return unordered(rows_of(spark_snapshot(spark, path).select(*COLUMNS)))


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_the_same_rows_change_and_fewer_groups_are_read(
    spark: SparkSession, tmp_path: Path, kind: TableType
) -> None:
    path = _write(spark, tmp_path / "t", kind)
    plain = Path(shutil.copytree(path, tmp_path / "plain" / "t"))
    table = pruner.open_table(path)
    table.create_index("stats", on="*")
    for name, place in (("plain_changed", plain), ("changed", path)):
        spark.sql(f"CREATE TABLE {name} USING hudi LOCATION '{place.as_uri()}'")
    try:
        # A merge-on-read table takes the same path, with log files instead of new base files.
        for sql, kept in CASES if kind == "COPY_ON_WRITE" else CASES[:3]:
            spark.sql(sql.format(t="plain_changed"))
            before = pruner_spark.last_plans(spark)
            pruner_spark.sql(spark, sql.format(t="changed"))
            scans = new_scans(spark, before)
            assert _rows(spark, path) == _rows(spark, plain), sql
            assert {scan.reason for scan in scans} <= {None}, sql
            # Where the table is in the subquery too, the target's scan comes last.
            wanted = len(table.snapshot().slices) if kept == WHOLE else kept
            assert (scans[-1].kept if scans else 0) == wanted, sql
            table.refresh()
    finally:
        spark.sql("DROP TABLE plain_changed")
        spark.sql("DROP TABLE changed")


def test_what_a_subquery_cannot_say_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = _write(spark, tmp_path / "t", "COPY_ON_WRITE")
    pruner.open_table(path).create_index("stats", on="*")
    spark.sql(f"CREATE TABLE changed USING hudi LOCATION '{path.as_uri()}'")
    listed = "UPDATE changed SET seats = {} WHERE id IN (SELECT {} FROM VALUES (3), (14) AS s (v))"
    try:
        with pytest.raises(Exception, match=r"(?i)more than one row"):
            pruner_spark.sql(
                spark, "DELETE FROM changed WHERE id = (SELECT v FROM VALUES (3), (14) AS s (v))"
            )
        with pytest.raises(Exception, match=r"(?i)divi"):
            pruner_spark.sql(
                spark, "DELETE FROM changed WHERE id = (SELECT raise_error('divided') FROM range(1))"
            )
        # What Spark turns into a join is pruned by the keys of its small side, unless they are not a plain column's.
        for number, name, key, kept in (
            (71, "MOST_BYTES", "CAST(v AS STRING)", GROUPS),
            (72, "MOST_LISTED", "CAST(v AS STRING)", GROUPS),
            (73, "MOST_BYTES", "v", 2),
            (74, "MOST_LISTED", "v", 2),
        ):
            with monkeypatch.context() as patch:
                patch.setattr(merging, name, 1)
                pruner_spark.sql(spark, listed.format(number, key))
            changed = spark_snapshot(spark, path).where(f"seats = {number}")
            assert sorted(row.id for row in changed.collect()) == [3, 14]
            assert pruner_spark.last_plans(spark)[-1].kept == kept
            pruner.open_table(path).refresh()
    finally:
        spark.sql("DROP TABLE changed")
    assert spark_snapshot(spark, path).count() == GROUPS * EACH
