"""A row whose partition column differs from its path: a global index with `update.partition.path=false`.

Hudi then updates a row that moves to another partition in its old file group, and the file holds the new value.
Spark and Trino show the path's value, DuckDB the file's: a plan must keep the file for both (R2).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_duckdb
from tests.support.hudi.writer import HudiWriter, trips
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MOVES_IN_PLACE = {
    "hoodie.index.type": "GLOBAL_SIMPLE",
    "hoodie.simple.index.update.partition.path": "false",
}


@pytest.fixture(scope="module")
def moved(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows 0 to 2, one for each of three partitions; row 0 of Berlin now says Paris."""
    path = tmp_path_factory.mktemp("moved") / "t"
    table = HudiWriter(spark, path, 9, options=MOVES_IN_PLACE)
    table.insert(trips(spark, range(3)))
    table.upsert(trips(spark, [0], ts=2, fare=1000, cities=("paris",)))
    return path


@pytest.mark.parametrize("indexed", [True, False])
def test_found_r2_rows_that_moved_within_their_partition(
    moved: Path, spark: SparkSession, tmp_path: Path, indexed: bool
) -> None:
    """Each engine finds the row by the value that it shows; other partitions are dropped where that is proven."""
    table = pruner.open_table(moved, index_uri=str(tmp_path / "index"))
    if indexed:
        table.create_index("stats", on="*")
    shown = {(row.id, row.city) for row in spark_snapshot(spark, moved).select("id", "city").collect()}
    assert shown == {(0, "berlin"), (1, "paris"), (2, "rome")}
    in_berlin = table.plan("city = 'berlin'", dialect="spark")
    assert [entry.partition_path for entry in in_berlin.slices] == ["city=berlin"]
    assert table.plan("city = 'paris'", dialect="spark").kept == 1

    with pruner_duckdb.connect({"trips": table}) as con:
        assert sorted(con.sql("SELECT id FROM trips WHERE city = 'paris'").fetchall()) == [(0,), (1,)]
        assert con.sql("SELECT id FROM trips WHERE city = 'berlin'").fetchall() == []
    # With paths alone, DuckDB's value of the column is unknown: nothing can be dropped.
    assert table.plan("city = 'paris'", dialect="duckdb").kept == (2 if indexed else 3)
    assert table.plan("city = 'oslo'", dialect="duckdb").kept == (0 if indexed else 3)
