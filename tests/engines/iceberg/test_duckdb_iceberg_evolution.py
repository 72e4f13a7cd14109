"""Iceberg tables of files that another writer made: DuckDB returns the rows of a scan that skips nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

import pruner
import pruner_duckdb
from tests.support.iceberg.tables import IcebergLake

NAN = float("nan")
FILES: list[list[tuple[int, float | None, str | None]]] = [
    [(1, 5.0, "aa1"), (2, None, "aa2"), (3, 5.0, None)],
    [(4, NAN, "b"), (5, NAN, None)],
    [(6, 7.0, "cc1"), (7, NAN, "cc")],
    [(8, None, None)],
    [(9, 2.0, "zz")],
]
"""Rows of files of which PyIceberg finds one value of each partition field, by their statistics."""

CONDITIONS = (
    "p IS NULL",
    "p IS NOT NULL",
    "s IS NULL",
    "p = 5",
    "p = 'NaN'::DOUBLE",
    "p > 3",
    "NOT p < 7",
    "s LIKE 'cc%'",
    "s = 'zz'",
)


def _added(folder: Path, mode: str, statistics: bool) -> Any:
    """A table of files that were added to it, partitioned by what their statistics say."""
    lake = IcebergLake(folder)
    made = lake.catalog.create_table(
        "ns.added",
        Schema(
            iceberg.NestedField(1, "k", iceberg.LongType()),
            iceberg.NestedField(2, "p", iceberg.DoubleType()),
            iceberg.NestedField(3, "s", iceberg.StringType()),
        ),
        properties={"write.metadata.metrics.default": mode},
    )
    with made.update_spec() as spec:
        spec.add_identity("p")
        spec.add_field("s", "truncate[2]", "texts")
    places: list[str] = []
    for number, rows in enumerate(FILES):
        keys, numbers, texts = zip(*rows, strict=True)
        columns = {
            "k": pa.array(keys, pa.int64()),
            "p": pa.array(numbers, pa.float64()),
            "s": pa.array(texts, pa.string()),
        }
        pq.write_table(pa.table(columns), folder / f"{number}.parquet", write_statistics=statistics)
        places.append(f"file://{folder}/{number}.parquet")
    made.add_files(places)
    return made


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("mode", "statistics"), [("full", True), ("counts", True), ("none", True), ("full", False)]
)
def test_partition_values_that_were_made_of_statistics_hide_no_row(
    tmp_path: Path, mode: str, statistics: bool
) -> None:
    """Such a value is that of a file with NULLs beside it, and NULL of one with NaN, or without statistics."""
    made = _added(tmp_path, mode, statistics)
    opened = pruner.open_table(made.metadata_location)
    with duckdb.connect() as plain, pruner_duckdb.connect({"t": opened}) as pruned:
        plain.register("t", made.scan().to_arrow())
        for condition in CONDITIONS:
            for text in (
                f"SELECT k FROM t WHERE {condition} ORDER BY k",
                f"SELECT count(*) FROM t WHERE {condition}",
            ):
                assert pruned.execute(text).fetchall() == plain.execute(text).fetchall(), text
    if mode == "full" and statistics:
        assert len(opened.plan("s = 'zz'").ordinals) == 1
        assert len(opened.plan("s IS NULL").ordinals) == 3


@pytest.mark.slow
def test_maps_of_files_that_were_added_are_read(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    texts = iceberg.MapType(3, iceberg.StringType(), 4, iceberg.LongType(), value_required=False)
    made = lake.catalog.create_table(
        "ns.maps",
        Schema(
            iceberg.NestedField(1, "k", iceberg.LongType()),
            iceberg.NestedField(2, "m", texts),
        ),
    )
    maps = pa.array([[("a", 1), ("b", None)], None, []], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"k": [1, 2, 3], "m": maps}), tmp_path / "0.parquet")
    made.add_files([f"file://{tmp_path}/0.parquet"])
    with pruner_duckdb.connect({"t": made.metadata_location}) as pruned:
        found = pruned.execute("SELECT k, m FROM t WHERE k < 3 ORDER BY k").fetchall()
    assert found == [(1, {"a": 1, "b": None}), (2, None)]
