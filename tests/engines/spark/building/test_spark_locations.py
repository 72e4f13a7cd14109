"""Keys in a Spark DataFrame: each gets the location that it has in an Arrow table of the same keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_dataframe_of_keys(spark: SparkSession, tmp_path: Path) -> None:
    root = tmp_path / "t"
    for number in range(6):
        (root / f"p={number % 2}").mkdir(parents=True, exist_ok=True)
        columns: dict[str, Any] = {
            "id": list(range(100 * number, 100 * number + 100)),
            "s": [f"k{each}" for each in range(100)],
        }
        pq.write_table(pa.table(columns), root / f"p={number % 2}" / f"{number}.parquet")
    table = pruner.open_table(root)
    table.create_index("keys", on=["id", "s"], using="record_index")
    rows = [(each, f"k{each % 100}") for each in range(0, 900, 7)]
    keys = spark.createDataFrame(rows, "id long, s string").repartition(3)
    located = table.tag_location(keys)
    expected = table.tag_location(pa.table({"id": [row[0] for row in rows], "s": [row[1] for row in rows]}))
    assert sorted(map(tuple, located.collect()), key=repr) == sorted(
        (tuple(row.values()) for row in expected.to_pylist()), key=repr
    )
    assert located.filter("file_id IS NULL").count() == sum(row[0] >= 600 for row in rows)
    (root / "p=0" / "0.parquet").unlink()
    with pytest.raises(Exception, match="the table changed while keys were located"):
        located.collect()
