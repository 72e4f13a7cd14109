"""Rows that scans of `pruner_spark` have lost: Spark took a column's values from elsewhere than the index did."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import everything_read, files_scanned, rows_of, unordered
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def _index(root: Path) -> Path:
    pruner.open_table(root).create_index("stats", on="*")
    return root


def _files_read(frame: DataFrame, predicate: str) -> list[int]:
    """Number of files that the pruned scan of a frame reads; its rows must be those of a full scan.

    Spark's own pushdown is off in both: with it Spark 3.5.9 compares statistics by name where it reads by field id.
    """
    with everything_read(frame.sparkSession):
        chosen = pruner_spark.prune(frame).where(predicate)
        assert unordered(rows_of(chosen)) == unordered(rows_of(frame.where(predicate))), predicate
    return files_scanned(chosen)


def _with_id(name: str, number: int) -> pa.Field[pa.DataType]:
    return pa.field(name, pa.int32(), metadata={"PARQUET:field_id": str(number)})


def test_found_a_column_with_a_default_is_not_null_in_older_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`ALTER TABLE … ADD COLUMN b INT DEFAULT 5`: Spark 3.5.9 reads 5 from files without b, where NULL was assumed.

    The value is in the column's metadata, EXISTS_DEFAULT (ResolveDefaultColumns); `b = 5` returned no row.
    """
    spark.sql(f"CREATE TABLE found_default (a INT) USING parquet LOCATION '{tmp_path / 't'}'")
    try:
        spark.sql("INSERT INTO found_default VALUES (1)")
        spark.sql("ALTER TABLE found_default ADD COLUMN b INT DEFAULT 5")
        spark.sql("ALTER TABLE found_default ADD COLUMN c INT")
        spark.sql("INSERT INTO found_default VALUES (2, 7, 3)")
        spark.sql("INSERT INTO found_default VALUES (3, NULL, NULL)")
        _index(tmp_path / "t")
        frame = spark.table("found_default")
        # The file without b stays; the records of the two that have it still apply.
        assert _files_read(frame, "b = 5") == [1]
        assert _files_read(frame, "b IS NOT NULL") == [2]
        assert _files_read(frame, "b IS NULL") == [2]
        assert _files_read(frame, "b = 7") == [2]
        assert _files_read(frame, "b = 7 AND a = 2") == [1]
        assert _files_read(frame, "c = 3") == [1]
    finally:
        spark.sql("DROP TABLE found_default")


def test_found_fields_of_structs_have_field_ids(spark: SparkSession, tmp_path: Path) -> None:
    """With `spark.sql.parquet.fieldId.read.enabled` s.x with the id 2 is read from the file's s.y (Spark 3.5.9)."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    root = tmp_path / "t"
    root.mkdir()
    type_ = pa.struct([_with_id("x", 1), _with_id("y", 2)])
    for number in (1, 2):
        rows = pa.array([{"x": number, "y": 100 * number}], type_)
        pq.write_table(pa.table({"s": rows, "id": pa.array([number])}), root / f"{number}.parquet")
    _index(root)
    fields = [
        StructField(name, IntegerType(), True, {"parquet.field.id": k}) for name, k in (("x", 2), ("y", 1))
    ]
    frame = spark.read.schema(StructType([StructField("s", StructType(fields))])).parquet(str(root))
    with settings(spark, {"spark.sql.parquet.fieldId.read.enabled": "true"}):
        assert _files_read(frame, "s.x = 100") == [2]
    assert _files_read(frame, "s.x = 1") == [1]


@pytest.mark.parametrize("enabled", ["TRUE", " true"])
def test_found_a_setting_is_spelled_otherwise(spark: SparkSession, tmp_path: Path, enabled: str) -> None:
    """Spark trims boolean settings and ignores their case; only `true` was understood."""
    from pyspark.sql.types import IntegerType, StructField, StructType

    root = tmp_path / "t"
    root.mkdir()
    for number in (1, 2):
        columns = [pa.array([number], pa.int32()), pa.array([100 * number], pa.int32())]
        content = pa.Table.from_arrays(columns, schema=pa.schema([_with_id("x", 1), _with_id("y", 2)]))
        pq.write_table(content, root / f"{number}.parquet")
    _index(root)
    schema = StructType([StructField("x", IntegerType(), True, {"parquet.field.id": 2})])
    with settings(spark, {"spark.sql.parquet.fieldId.read.enabled": enabled}):
        assert _files_read(spark.read.schema(schema).parquet(str(root)), "x = 100") == [2]


def test_found_a_partition_whose_place_has_another_value(spark: SparkSession, tmp_path: Path) -> None:
    """`ALTER TABLE … ADD PARTITION (p='a') LOCATION '…/p=b'`: the catalog's value counts, not the path's."""
    root = tmp_path / "t"
    for number, name in enumerate("abc"):
        (root / f"p={name}").mkdir(parents=True)
        for part in (1, 2):
            content = pa.table({"id": pa.array([10 * number + part], pa.int32())})
            pq.write_table(content, root / f"p={name}" / f"{part}.parquet")
    _index(root)
    spark.sql(
        f"CREATE TABLE found_moved (id INT, p STRING) USING parquet PARTITIONED BY (p) LOCATION '{root}'"
    )
    try:
        spark.sql(f"ALTER TABLE found_moved ADD PARTITION (p='a') LOCATION '{root / 'p=b'}'")
        spark.sql(f"ALTER TABLE found_moved ADD PARTITION (p='c') LOCATION '{root / 'p=c'}'")
        frame = spark.table("found_moved")
        assert _files_read(frame, "p = 'a'") == [2]
        assert _files_read(frame, "p = 'a' AND id = 11") == [1]
        assert _files_read(frame, "p > 'a' AND id = 22") == [1]
    finally:
        spark.sql("DROP TABLE found_moved")
