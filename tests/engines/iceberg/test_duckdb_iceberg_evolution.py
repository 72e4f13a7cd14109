"""Iceberg tables of files from another writer: DuckDB returns the rows of a scan that skips nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyiceberg import transforms
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema

import pruner
import pruner_duckdb
from tests.support.duckdb.plain import keep
from tests.support.iceberg.manifests import repacked, unpacked
from tests.support.iceberg.tables import IcebergLake

NAN = float("nan")
FILES: list[list[tuple[int, float | None, str | None]]] = [
    [(1, 5.0, "aa1"), (2, None, "aa2"), (3, 5.0, None)],
    [(4, NAN, "b"), (5, NAN, None)],
    [(6, 7.0, "cc1"), (7, NAN, "cc")],
    [(8, None, None)],
    [(9, 2.0, "zz")],
]
"""Rows of files for which PyIceberg derives one value of each partition field from their statistics."""

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
    """Such a value comes from a file that also has NULLs; it is NULL for a file with NaN, or without statistics."""
    made = _added(tmp_path, mode, statistics)
    opened = pruner.open_table(made.metadata_location)
    with duckdb.connect() as plain, pruner_duckdb.connect({"t": opened}) as pruned:
        keep(plain, made.scan().to_arrow())
        for condition in CONDITIONS:
            for text in (
                f"SELECT k FROM t WHERE {condition} ORDER BY k",
                f"SELECT count(*) FROM t WHERE {condition}",
            ):
                assert pruned.execute(text).fetchall() == plain.execute(text).fetchall(), text
    if mode == "full" and statistics:
        assert len(opened.plan("s = 'zz'").ordinals) == 1
        assert len(opened.plan("s IS NULL").ordinals) == 3


def test_pages_without_an_order_show_each_row_once(tmp_path: Path) -> None:
    """Files with and without a column are read by queries of their own, but in the order of the files."""
    lake, places = IcebergLake(tmp_path), list[str]()
    columns = (
        iceberg.NestedField(1, "k", iceberg.LongType()),
        iceberg.NestedField(2, "y", iceberg.LongType()),
    )
    made = lake.catalog.create_table("ns.pages", Schema(*columns))
    for number in range(8):
        keys = pa.array(range(number * 10, number * 10 + 10), pa.int64())
        rows = pa.table({"k": keys, "y": keys} if number % 2 else {"k": keys})
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        places.append(f"file://{tmp_path}/{number}.parquet")
    made.add_files(places)
    found: list[tuple[int, int | None]] = []
    with pruner_duckdb.connect({"t": pruner.open_table(made.metadata_location)}) as pruned:
        for start in range(0, 80, 16):
            found += pruned.execute(f"SELECT k, y FROM t LIMIT 16 OFFSET {start}").fetchall()
            assert pruned.last_plans[-1].read <= (start + 16) // 10 + 1
    assert found == [(k, k if k // 10 % 2 else None) for k in range(80)]


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


def _shifted(values: Any) -> list[Any]:
    """Days in a zone three hours behind."""
    return [(value - timedelta(hours=3) - EPOCH).days for value in values.to_pylist()]


def _clamped(values: Any) -> list[Any]:
    return [max(value.year - EPOCH.year, 0) for value in values.to_pylist()]


def _towards_zero(values: Any) -> list[Any]:
    return [int(value / 10) * 10 for value in values.to_pylist()]


def _utf8_bytes(values: Any) -> list[Any]:
    return [value.encode()[:3].decode() for value in values.to_pylist()]


EPOCH = datetime(1970, 1, 1)
MOMENTS = [datetime(1968, 5, 3), datetime(2024, 3, 1, 1), datetime(2024, 3, 1, 23), datetime(2031, 1, 1, 12)]
WHEN = (
    "v = '1968-05-03'",
    "v < '1969-01-01'",
    "v = '2024-03-01 01:00:00'",
    "v < '2024-03-01 12:00:00'",
    "v = '2031-01-01 12:00:00'",
)


class Wrong(NamedTuple):
    """What a writer got wrong; `kept` is the number of files, of `total`, that must stay for the last condition."""

    type: iceberg.IcebergType
    transform: Callable[[], transforms.Transform[Any, Any]]
    made: Callable[[Any], list[Any]]
    values: list[Any]
    conditions: tuple[str, ...]
    kept: int
    total: int


WRONG = {
    "days of another zone": Wrong(
        iceberg.TimestampType(), transforms.DayTransform, _shifted, MOMENTS, WHEN, 3, 4
    ),
    "years that are none before 1970": Wrong(
        iceberg.TimestampType(), transforms.YearTransform, _clamped, MOMENTS, WHEN, 1, 3
    ),
    "numbers cut towards zero": Wrong(
        iceberg.IntegerType(),
        partial(transforms.TruncateTransform, 10),
        _towards_zero,
        [-1, -9, 5, -30, 40],
        ("v = -9", "v < 0", "v > -5 AND v < 0", "NOT v >= 0", "v <> 5", "v = 40"),
        2,
        3,
    ),
    "texts cut by bytes": Wrong(
        iceberg.StringType(),
        partial(transforms.TruncateTransform, 3),
        _utf8_bytes,
        ["aéx", "aé", "aéz", "zz", "b"],
        ("v = 'aéx'", "v <> 'aé'", "v > 'aé' AND v < 'aéy'", "v LIKE 'aé_'", "NOT v <= 'aé'", "v = 'b'"),
        1,
        3,
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("name", "mode"),
    [*((name, "full") for name in WRONG), (list(WRONG)[1], "none"), (list(WRONG)[3], "none")],
)
def test_partition_values_that_a_writer_got_wrong_hide_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, mode: str
) -> None:
    """Bounds outside a partition contradict it; without bounds, zero and short texts say less than they seem to."""
    case = WRONG[name]
    made, transform = _partitioned(tmp_path, case.type, case.transform(), mode)
    type_ = pa.string() if isinstance(transform.result_type(case.type), iceberg.StringType) else pa.int32()
    monkeypatch.setattr(
        type(transform), "pyarrow_transform", lambda *_: lambda column: pa.array(case.made(column), type_)
    )
    made.append(pa.table({"v": pa.array(case.values, made.schema().as_arrow().field(0).type)}))
    opened = pruner.open_table(made.metadata_location)
    with duckdb.connect() as plain, pruner_duckdb.connect({"t": opened}) as pruned:
        plain.register("t", made.scan().to_arrow())
        for condition in case.conditions:
            text = f"SELECT * FROM t WHERE {condition} ORDER BY ALL"
            found = pruned.execute(text).fetchall()
            assert found == plain.execute(text).fetchall() != [], condition
    plan = opened.plan(case.conditions[-1])
    assert (plan.kept, plan.total) == (case.kept, case.total)


def _partitioned(folder: Path, type_: iceberg.IcebergType, transform: Any, mode: str) -> tuple[Any, Any]:
    """An empty table with one column, `v`, and the transform that partitions it."""
    made = IcebergLake(folder).catalog.create_table(
        "ns.wrong",
        Schema(iceberg.NestedField(1, "v", type_, required=False)),
        partition_spec=PartitionSpec(PartitionField(1, 1000, transform, "part")),
        properties={"write.metadata.metrics.default": mode},
    )
    return made, transform


@pytest.mark.parametrize("mode", ["full", "none"])
def test_infinity_that_a_partition_has_as_zero_hides_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Trino 483 writes it so, and reads the column from the partition; DuckDB and indexes read it from the file."""
    transform = transforms.IdentityTransform()
    made, _ = _partitioned(tmp_path, iceberg.DoubleType(), transform, mode)
    monkeypatch.setattr(
        type(transform),
        "pyarrow_transform",
        lambda *_: lambda column: pc.if_else(pc.is_finite(column), column, 0.0),
    )
    made.append(pa.table({"v": [float("inf"), 1.5, 2.5, float("-inf")]}))
    opened = pruner.open_table(made.metadata_location)
    for using in ("column_stats", "bloom_filter", "bitmap"):
        opened.create_index(using, on="v", using=using)
    with duckdb.connect() as plain, pruner_duckdb.connect({"t": opened}) as pruned:
        plain.register("t", made.scan().to_arrow())
        for condition in (
            "v = 0",
            "v > 2",
            "v < -1e300",
            "v = 'inf'::DOUBLE",
            "v <> 0",
            "NOT v < 2",
            "v = 1.5",
        ):
            text = f"SELECT * FROM t WHERE {condition} ORDER BY ALL"
            assert pruned.execute(text).fetchall() == plain.execute(text).fetchall(), condition
        aggregates = "SELECT max(v), min(v), count(v), count(DISTINCT v) FROM t"
        assert pruned.execute(aggregates).fetchall() == plain.execute(aggregates).fetchall()
    assert [opened.plan(text).kept for text in ("v = 0", "v = 1.5")] == [1, 2]


def test_texts_cut_within_a_character_hide_no_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a text is not UTF-8, which PyIceberg cannot write: the bytes are put into the manifest afterwards."""
    made, transform = _partitioned(tmp_path, iceberg.StringType(), transforms.TruncateTransform(3), "none")
    monkeypatch.setattr(
        type(transform),
        "pyarrow_transform",
        lambda *_: lambda column: pa.array([value.replace("é", "~")[:3] for value in column.to_pylist()]),
    )
    texts = ["abé1", "abé2", "xyz1", "b"]
    made.append(pa.table({"v": pa.array(texts, made.schema().as_arrow().field(0).type)}))
    snapshot = made.current_snapshot()
    assert snapshot is not None
    manifest = Path(snapshot.manifests(made.io)[0].manifest_path.removeprefix("file://"))
    stored = manifest.read_bytes()
    cut = [block._replace(data=block.data.replace(b"\x06ab~", b"\x06ab\xc3")) for block in unpacked(stored)]
    assert any(b"ab\xc3" in block.data for block in cut)
    manifest.write_bytes(repacked(stored, cut))
    opened = pruner.open_table(made.metadata_location)
    with pruner_duckdb.connect({"t": opened}) as pruned:
        for condition, wanted in (
            ("v = 'abé2'", ["abé2"]),
            ("v <> 'xyz1'", ["abé1", "abé2", "b"]),
            ("v LIKE 'abé%'", ["abé1", "abé2"]),
        ):
            found = pruned.execute(f"SELECT v FROM t WHERE {condition} ORDER BY v").fetchall()
            assert [text for (text,) in found] == wanted, condition
    assert [len(opened.plan(condition).ordinals) for condition in ("v = 'xyz1'", "v IS NULL")] == [2, 0]
