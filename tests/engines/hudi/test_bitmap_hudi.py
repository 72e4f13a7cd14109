"""Bitmaps over real Hudi tables: maintained through commits as RFC-92 describes, and readable from Java."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap

import pruner
from tests.support.hudi.writer import HudiWriter, trips
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SEMANTICS = pruner.Semantics(engine="spark", zone="UTC")
COLUMNS = ["city", "seats", "fare"]
PREDICATES = [
    "seats = 3",
    "seats = 3 AND fare > 100",
    "fare IS NULL AND seats != 0",
    "NOT (seats IN (1, 2) OR fare < 50)",
    "city = 'paris' AND seats BETWEEN 2 AND 4",
    "fare = 1001",
]


@pytest.mark.parametrize("version", [6, 9])
def test_maintenance_equals_a_rebuild_from_zero(spark: SparkSession, tmp_path: Path, version: Any) -> None:
    """RFC-92, Maintaining the Index: initialize, insert, update, delete."""
    path = tmp_path / "trips"
    writer = HudiWriter(spark, path, version)
    writer.insert(trips(spark, range(12)))
    table = pruner.open_table(str(path))
    table.create_index("bits", on=COLUMNS, using="bitmap")
    _check(spark, table, path, tmp_path / "0")
    steps = [
        lambda: writer.insert(trips(spark, range(12, 24), fare=100)),
        lambda: writer.upsert(trips(spark, range(3), ts=2, fare=1000)),
        lambda: writer.delete(trips(spark, [4, 13], ts=3)),
    ]
    for number, step in enumerate(steps, 1):
        step()
        refreshed = table.refresh()
        assert refreshed.indexed > 0
        _check(spark, table, path, tmp_path / str(number))


def _check(spark: SparkSession, table: pruner.Table, path: Path, index_uri: Path) -> None:
    """The entries are those of an index built from scratch, and the rows those that Spark finds."""
    anew = pruner.open_table(str(path), index_uri=str(index_uri))
    anew.create_index("bits", on=COLUMNS, using="bitmap")
    assert list(table.inspect("bits", positions=100)) == list(anew.inspect("bits", positions=100))
    judgements = [f"({predicate}) AS p{number}" for number, predicate in enumerate(PREDICATES)]
    rows = spark_snapshot(spark, path).selectExpr("id", *judgements).collect()
    for number, predicate in enumerate(PREDICATES):
        expected = sorted(row["id"] for row in rows if row[f"p{number}"])
        plan = table.plan(predicate, semantics=SEMANTICS)
        assert plan.rows_exact
        assert plan.rows is not None
        found: list[int] = []
        for uri, positions in plan.rows.pairs():
            assert positions is not None
            assert len(positions), "a slice without a matching row was kept"
            ids = pq.ParquetFile(uri).read(columns=["id"]).column("id").to_pylist()
            found += [ids[position] for position in positions.tolist()]
        assert sorted(found) == expected


def test_keys_are_those_of_rfc_92(spark: SparkSession, tmp_path: Path) -> None:
    """RFC-92, Bitmap Metadata Structure: the file group id is `partition$file id`."""
    path = tmp_path / "trips"
    HudiWriter(spark, path, 9).insert(trips(spark, range(6)))
    table = pruner.open_table(str(path))
    table.create_index("bits", on="seats", using="bitmap")
    groups = {entry.file_id: entry.partition_path for entry in table.snapshot().slices}
    for entry in table.inspect("bits", "seats$2$"):
        column, value, partition, file_id = entry.key.split("$")
        assert (column, value, groups[file_id]) == ("seats", "2", partition)
        assert entry.cardinality == 1


def test_java_reads_the_bitmaps(spark: SparkSession, tmp_path: Path) -> None:
    """The portable format: Java's RoaringBitmap (Spark ships it) finds the same rows, in containers of every kind."""
    jvm: Any = spark.sparkContext._jvm  # pyright: ignore[reportPrivateUsage]
    sets = [
        [],
        [0],
        [1, 5, 70_000],
        list(range(200_000)),
        list(range(0, 200_000, 3)),
        list(range(65_530, 65_545)),
        [2**32 - 2],
    ]
    for positions in sets:
        blob = _blob(positions)
        read = jvm.org.roaringbitmap.RoaringBitmap()
        stream = jvm.java.io.DataInputStream(jvm.java.io.ByteArrayInputStream(bytearray(blob)))
        read.deserialize(stream)
        assert read.getLongCardinality() == len(positions)
        assert read.serializedSizeInBytes() == len(blob)
        ours = BitMap(positions)
        for rank in {0, len(positions) // 2, len(positions) - 1} if positions else ():
            assert read.select(rank) & 0xFFFFFFFF == ours[rank]


def _blob(positions: list[int]) -> bytes:
    from array import array

    from pruner.indexes.bitmap.packing import encode

    return encode(array("I", positions))
