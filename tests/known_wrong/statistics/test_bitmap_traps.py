"""Traps of bitmap indexes: nothing lost, and what is provable dropped."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, feather, orc

import pruner
from pruner.expr.semantics import Semantics
from pruner.indexes.bitmap import BITMAP
from pruner.indexes.row_sets import rows_of
from pruner.maintenance.inspection import place, split, stem
from pruner.pipeline.footers import FileReader
from pruner.schema import Field
from tests.support.kept.tables import KeptTables
from tests.support.running.profiles import examples

Columns = dict[str, list[Any]]


def _table(root: Path, files: dict[str, Columns], on: list[str]) -> pruner.Table:
    root.mkdir(parents=True, exist_ok=True)
    for name, columns in files.items():
        pq.write_table(pa.table(columns), root / name)
    table = pruner.open_table(str(root))
    table.create_index("bits", on=on, using="bitmap")
    return table


def _rows(table: pruner.Table, predicate: str, dialect: str = "duckdb") -> dict[str, list[int]]:
    plan = table.plan(predicate, dialect=dialect)
    assert plan.rows_exact
    assert plan.rows is not None
    return {
        Path(uri).name: positions.tolist() for uri, positions in plan.rows.pairs() if positions is not None
    }


def test_s6_signed_zeros_are_one_value(tmp_path: Path) -> None:
    """S6 (databend#20520, duckdb#24005, iceberg-rust#2398): -0.0 and 0.0 are equal, in whichever file they are."""
    files: dict[str, Columns] = {
        "minus.parquet": {"x": [-0.0, 1.0]},
        "plus.parquet": {"x": [2.0, 0.0]},
        "both.parquet": {"x": [0.0, -0.0]},
        "none.parquet": {"x": [3.0, math.nan]},
    }
    table = _table(tmp_path / "t", files, ["x"])
    zeros = {"minus.parquet": [0], "plus.parquet": [1], "both.parquet": [0, 1]}
    for literal in ("0.0", "-0.0", "0"):
        assert _rows(table, f"x = {literal}") == zeros
        assert _rows(table, f"x IN ({literal}, 7)") == zeros
    assert _rows(table, "x < 0") == {}
    assert _rows(table, "x <= -0.0") == zeros
    assert _rows(table, "x != 0") == {"minus.parquet": [1], "plus.parquet": [0], "none.parquet": [0, 1]}


def test_s2_nan_is_greatest_or_unordered(tmp_path: Path) -> None:
    """S2 (trino#21922): the same bitmaps answer for engines that order NaN differently."""
    table = _table(
        tmp_path / "t", {"a.parquet": {"x": [1.0, math.nan, None]}, "b.parquet": {"x": [1.0]}}, ["x"]
    )
    for dialect, above in (("duckdb", {"a.parquet": [1]}), ("spark", {"a.parquet": [1]}), ("trino", {})):
        assert _rows(table, "x > 1", dialect) == above
        assert _rows(table, "x != 1", dialect) == {"a.parquet": [1]}
    assert _rows(table, "NOT (x <= 1)", "duckdb") == {"a.parquet": [1]}
    assert _rows(table, "NOT (x <= 1)", "trino") == {"a.parquet": [1]}


def test_l3_null_is_neither_equal_nor_different(tmp_path: Path) -> None:
    """L3 (lance#4756, ClickHouse#9034, iceberg#7886, trino#30087): !=, NOT IN and NOT with NULLs, NULL in a list."""
    files: dict[str, Any] = {
        "a.parquet": {"x": [1, None, 2], "y": [1, 1, None]},
        "b.parquet": {"x": [1, 1], "y": [2, None]},
        "c.parquet": {"x": pa.array([None, None], pa.int64()), "y": [1, 2]},
    }
    table = _table(tmp_path / "t", files, ["x", "y"])
    assert _rows(table, "x != 1") == {"a.parquet": [2]}
    assert _rows(table, "x NOT IN (1, 3)") == {"a.parquet": [2]}
    assert _rows(table, "x NOT IN (1, NULL)") == {}
    assert _rows(table, "NOT (x NOT IN (1, NULL))") == {"a.parquet": [0], "b.parquet": [0, 1]}
    assert _rows(table, "NOT (x = 1 AND y = 1)") == {"a.parquet": [2], "b.parquet": [0], "c.parquet": [1]}
    assert _rows(table, "x IS NULL") == {"a.parquet": [1], "c.parquet": [0, 1]}
    assert _rows(table, "x IS NOT NULL AND y IS NULL") == {"a.parquet": [2], "b.parquet": [1]}
    assert table.plan("x = NULL").kept == 0


def test_i2_files_without_values_or_rows(tmp_path: Path) -> None:
    """I2 (paimon#9140): only NULLs, no row at all, and no such column."""
    integers: Callable[[list[Any]], Any] = lambda values: pa.array(values, pa.int64())  # noqa: E731
    files: dict[str, Any] = {
        "nulls.parquet": {"x": integers([None, None])},
        "empty.parquet": {"x": integers([])},
        "absent.parquet": {"y": integers([1, 2, 3])},
        "some.parquet": {"x": integers([5, None])},
    }
    table = _table(tmp_path / "t", files, ["x"])
    assert _rows(table, "x = 5") == {"some.parquet": [0]}
    assert _rows(table, "x IS NULL") == {
        "nulls.parquet": [0, 1],
        "absent.parquet": [0, 1, 2],
        "some.parquet": [1],
    }
    assert _rows(table, "x IS NOT NULL") == {"some.parquet": [0]}
    assert _rows(table, "x < 5 OR x > 5") == {}
    assert table.plan("x = 5 OR x IS NULL OR x = 6").rows_exact


def test_i3_a_changed_blob_is_not_believed(tmp_path: Path) -> None:
    """I3 (measured): 12.8 % of random changes decode as another set; every one of them must be detected."""
    rng = np.random.default_rng(3)
    pq.write_table(pa.table({"x": pa.array(rng.integers(0, 3, 5000))}), tmp_path / "a.parquet")
    field = Field(("x",), pa.int64())
    with FileReader(str(tmp_path / "a.parquet")) as reader:
        records = BITMAP.record(reader, field, {})
    records = records.append_column("__slice", pa.array([0] * len(records), pa.int32()))
    blobs: list[Any] = records.column("rows").to_pylist()
    honest: Any = BITMAP.load(records, 1, field)
    entries = np.array([False, True, False, False, False])
    expected = rows_of(honest.rows(entries, np.array([0])).rows, 0).tolist()
    assert 1000 < len(expected) < 2500
    damaged: list[bytes | None] = [blobs[2] + b"\0", b"", None]
    for _ in range(examples(300)):
        flipped = bytearray(blobs[2])
        at = int(rng.integers(len(flipped)))
        flipped[at] ^= 1 << int(rng.integers(8))
        damaged += [bytes(flipped), bytes(blobs[2][:at])]
    for blob in damaged:
        changed = [*blobs[:2], blob, *blobs[3:]]
        table = records.set_column(records.column_names.index("rows"), "rows", pa.array(changed, pa.binary()))
        evidence: Any = BITMAP.load(table, 1, field)
        found = evidence.rows(entries, np.array([0]))
        assert found.broken.tolist() == [0], "a damaged bitmap was believed"
        assert evidence.covered.all()


def test_i3_a_slice_whose_counts_do_not_add_up_is_kept(tmp_path: Path) -> None:
    """I3: cardinalities beyond the rows, rows in two entries or in none, a value twice: not covered, and why."""
    pq.write_table(pa.table({"x": [1, 1, 2]}), tmp_path / "a.parquet")
    field = Field(("x",), pa.int64())
    with FileReader(str(tmp_path / "a.parquet")) as reader:
        records = BITMAP.record(reader, field, {}).to_pylist()
    for change in ({"cardinality": 4}, {"cardinality": 1}, {"cardinality": 0}, {"value_integer": 2}):
        changed = [records[0], {**records[1], **change}, records[2]]
        assert changed != records
        table = pa.Table.from_pylist(changed, schema=_schema(tmp_path, field))
        evidence: Any = BITMAP.load(table.append_column("__slice", pa.array([0, 0, 0], pa.int32())), 1, field)
        assert not evidence.covered.any()
        assert evidence.notes == ("1 record does not add up",)


def _schema(tmp_path: Path, field: Field) -> pa.Schema:
    with FileReader(str(tmp_path / "a.parquet")) as reader:
        return BITMAP.record(reader, field, {}).schema


def test_t8_positions_of_a_rewritten_file_are_not_used(tmp_path: Path) -> None:
    """T8 (RFC-92, lance#8202, paimon#4806): the same name with rows in another order is another slice."""
    files: dict[str, Columns] = {"a.parquet": {"x": [1, 2, 3]}, "b.parquet": {"x": [4, 5, 6]}}
    table = _table(tmp_path / "t", files, ["x"])
    assert _rows(table, "x = 3") == {"a.parquet": [2]}
    pq.write_table(pa.table({"x": [3, 2, 1, 9]}), tmp_path / "t" / "a.parquet")
    plan = table.plan("x = 3")
    assert [Path(uri).name for uri in plan.files] == ["a.parquet"]
    assert plan.rows is None
    assert not plan.rows_exact
    mixed = table.plan("x = 3 OR x = 5")
    assert mixed.rows is not None
    assert {Path(uri).name: rows for uri, rows in mixed.rows.items() if rows is None} == {"a.parquet": None}
    table.refresh()
    assert _rows(table, "x = 3") == {"a.parquet": [0]}


def test_t8_positions_after_clustering(tmp_path: Path, hudi_tables: KeptTables) -> None:
    """T8: clustering wrote new files; only their own records may say where a row is."""
    table = pruner.open_table(str(hudi_tables.path("cow_clustered_v9")), index_uri=str(tmp_path / "index"))
    table.create_index("bits", on="id", using="bitmap")
    for wanted in (3, 15):
        plan = table.plan(f"id = {wanted}", semantics=Semantics(engine="spark", zone="UTC"))
        assert plan.rows is not None
        for uri, positions in plan.rows.items():
            assert positions is not None
            ids = pq.read_table(uri, columns=["id"], partitioning=None).column("id").to_pylist()
            assert [ids[position] for position in positions.tolist()] == [wanted]
        assert plan.kept == 1


def test_t12_rows_of_slices_with_logs_are_never_told(tmp_path: Path, hudi_tables: KeptTables) -> None:
    """T12 (measured): base file and log are read merged, so no position identifies a row."""
    path = hudi_tables.path("mor_partial_update_v9")
    table = pruner.open_table(str(path), index_uri=str(tmp_path / "index"))
    table.create_index("bits", on=["seats", "fare"], using="bitmap")
    plan = table.plan("seats = 100 AND fare = 1", semantics=Semantics(engine="spark", zone="UTC"))
    assert [entry.partition_path for entry in plan.slices] == ["city=berlin"]
    assert plan.rows is None
    assert not plan.rows_exact


TEXT = st.text(st.sampled_from("ab$\\.N/ \n鯨") | st.characters(codec="utf-8"), max_size=8)


@settings(max_examples=examples(300))
@given(TEXT, TEXT | st.none(), TEXT, TEXT)
def test_n5_keys_come_apart_as_they_were_put_together(
    column: str, value: str | None, partition: str, file_group: str
) -> None:
    """N5 (RFC-92): `$` and `\\` within a value, a partition or a name; NULL and the empty partition survive as such."""
    assert split(stem(column, value) + place(partition, file_group)) == (column, value, partition, file_group)


def test_n5_values_that_look_like_other_keys(tmp_path: Path) -> None:
    """N5 (RFC-92): a search for `a$` must not find the value `a$b`."""
    table = _table(tmp_path / "t", {"f.parquet": {"s": ["a", "a$b", "a\\", "", None, "\\N"]}}, ["s"])
    keys = [entry.key for entry in table.inspect("bits")]
    assert len(set(keys)) == 6
    assert sorted(split(key)[1] or "" for key in keys) == ["", "", "\\N", "a", "a$b", "a\\"]
    assert [e.positions for e in table.inspect("bits", "s$a$")] == [(0,)]
    assert [e.positions for e in table.inspect("bits", "s$a\\$b$")] == [(1,)]
    assert [e.positions for e in table.inspect("bits", "s$\\N$")] == [(4,)]


@pytest.mark.parametrize("limit", [3, 4])
def test_too_many_values_leave_a_slice_uncovered_with_the_reason(tmp_path: Path, limit: int) -> None:
    """An index for few values must not fail on a file with many."""
    root = tmp_path / "t"
    root.mkdir()
    pq.write_table(pa.table({"x": [1, 2, 3, 4]}), root / "many.parquet")
    pq.write_table(pa.table({"x": [5, 5]}), root / "few.parquet")
    table = pruner.open_table(str(root))
    built = table.create_index("bits", on="x", using="bitmap", options={"max_cardinality": str(limit)})
    assert built is not None
    assert not built.failures
    assert (built.indexed, built.declined) == (2, {"bits": 1} if limit == 3 else {})
    plan = table.plan("x = 7")
    assert [Path(uri).name for uri in plan.files] == ([] if limit == 4 else ["many.parquet"])
    said = "1 is not indexed: there are more than max_cardinality = 3 distinct values"
    assert any(said in reason for reason in plan.fallbacks) is (limit == 3)
    (status,) = table.status().indexes
    assert (status.covered, status.coverable) == (1 + (limit == 4), 2)
    assert status.refused == ({said.removeprefix("1 is not indexed: "): 1} if limit == 3 else {})
    assert (table.refresh().indexed, table.refresh().already) == (0, 2)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("file_format", ["orc", "csv", "feather"])
def test_s16_files_that_are_not_parquet_stay_and_are_named(tmp_path: Path, file_format: str) -> None:
    """Hudi's base files can be ORC; whatever its name, a file that is not Parquet has no bitmaps."""
    root = tmp_path / "t"
    root.mkdir()
    columns = pa.table({"s": ["a", "b"]})
    pq.write_table(columns, root / "good.parquet")
    other = root / "other.parquet"
    {"orc": orc.write_table, "csv": csv.write_csv, "feather": feather.write_feather}[file_format](
        columns, str(other)
    )
    table = pruner.open_table(str(root))
    table.create_index("bits", on="s", using="bitmap")
    (status,) = table.status().indexes
    assert status.covered == 1
    plan = table.plan("s = 'nowhere'")
    assert list(plan.files) == [str(other)]
    assert plan.rows is None or dict(plan.rows) == {str(other): None}
    assert list(table.refresh().problems) == [str(other)]


def test_records_stand_in_the_partition_of_their_name(tmp_path: Path) -> None:
    """The documentation calls the partitions of the metadata table column_stats and bitmap_index."""
    table = _table(tmp_path / "t", {"a.parquet": {"s": ["x"]}}, ["s"])
    table.create_index("stats", on="s")
    index = Path(table.index_uri.removeprefix("file://"))
    folders = {path.parent.name for path in index.rglob("*.pidx")}
    assert folders == {"files", "bitmap_index", "column_stats"}


def test_a_file_in_which_every_row_matches_has_no_null(tmp_path: Path) -> None:
    """N5: a predicate that is NULL on some row is not true on all of them, nor is its negation."""
    files: dict[str, Columns] = {
        "all.parquet": {"x": [1, 2, 3]},
        "null.parquet": {"x": [1, 2, None]},
        "five.parquet": {"x": [1, 5, 2]},
    }
    table = _table(tmp_path / "t", files, ["x"])
    expected = {
        "x != 5": ["all"],
        "NOT (x = 5)": ["all"],
        "x < 9": ["all", "five"],
        "x NOT IN (5, 9)": ["all"],
        "x IN (1, 2, 3, NULL)": ["all"],
        "x IS NOT NULL": ["all", "five"],
    }
    for predicate, whole in expected.items():
        plan = table.plan(predicate)
        uris = plan.snapshot.columns.column("base_file").to_pylist()
        found = [Path(str(uri)).stem for uri, every in zip(uris, plan.all_match, strict=True) if every]
        assert sorted(found) == whole, predicate


def test_a_literal_that_may_mean_several_instants_drops_what_none_of_them_can_match(tmp_path: Path) -> None:
    """L3: without the session's zone a time of day is known only to within some hours."""
    first = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    files: dict[str, Columns] = {
        f"{hours:02}.parquet": {"ts": [first + datetime.timedelta(hours=hours)]} for hours in (2, 14, 80)
    }
    table = _table(tmp_path / "t", files, ["ts"])
    expected = {"<": ["02", "14"], ">": ["14", "80", "02"], "=": ["02", "14"], "!=": ["02", "14", "80"]}
    for operator, kept in expected.items():
        plan = table.plan(f"ts {operator} TIMESTAMP '2024-01-01 12:00:00'")
        assert sorted(Path(uri).stem for uri in plan.files) == sorted(kept), operator
        assert not plan.rows_exact


def test_s17_old_dates_of_an_unknown_calendar_settle_nothing_for_spark(tmp_path: Path) -> None:
    """A session setting decides which days Spark reads; DuckDB reads them as stored."""
    old = [datetime.date(1500, 1, 1)]
    files: dict[str, Columns] = {"old.parquet": {"d": old}, "new.parquet": {"d": [datetime.date(2000, 1, 1)]}}
    table = _table(tmp_path / "t", files, ["d"])
    predicate = "d = DATE '1700-01-01'"
    assert table.plan(predicate, dialect="duckdb").kept == 0
    plan = table.plan(predicate, dialect="spark")
    assert [Path(uri).stem for uri in plan.files] == ["old"]
    assert not plan.rows_exact


def test_i3_rows_whose_bitmaps_are_gone_are_all_possible(tmp_path: Path) -> None:
    """The values are known, but the segment with the rows is lost: nothing is dropped, the plan says so."""
    files: dict[str, Columns] = {
        "together.parquet": {"a": [1, 1, 2, 3], "b": [1, 2, 2, 3]},
        "apart.parquet": {"a": [1, 2, 3], "b": [2, 1, 3]},
    }
    root = tmp_path / "t"
    built = _table(root, files, ["a", "b"])
    predicate = "a = 1 AND b = 1"
    assert [Path(uri).name for uri in built.plan(predicate).files] == ["together.parquet"]
    pinned = pruner.open_table(str(root)).snapshot()
    assert pinned.plan("a = 9 OR b = 9").kept == 0
    for segment in Path(built.index_uri.removeprefix("file://")).glob("bitmap_index/*.pidx"):
        segment.unlink()
    plan = pinned.plan(predicate)
    assert sorted(Path(uri).name for uri in plan.files) == ["apart.parquet", "together.parquet"]
    assert any("damaged" in note for note in plan.fallbacks)
    assert not plan.rows_exact
    assert plan.rows is not None
    told = {Path(uri).name: rows for uri, rows in plan.rows.items()}
    assert told["together.parquet"] is None or told["together.parquet"].tolist() == [0, 1, 2, 3]


NUMBERS = [
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
    *(pa.decimal128(5, 0), pa.decimal128(9, 2), pa.decimal128(38, 10)),
]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("data_type", NUMBERS, ids=str)
def test_i1_a_value_is_found_by_literals_of_other_types(tmp_path: Path, data_type: pa.DataType) -> None:
    """I1 (datafusion#22994, milvus#51140, trino#30544): values looked up in another domain than recorded."""
    root = tmp_path / "t"
    root.mkdir()
    make = Decimal if pa.types.is_decimal(data_type) else int
    for name, values in {"a": [7, 8], "b": [8, 9], "c": [10, None]}.items():
        typed = pa.array([None if value is None else make(value) for value in values], data_type)
        pq.write_table(pa.table({"x": typed}), root / f"{name}.parquet")
    table = pruner.open_table(str(root))
    table.create_index("bits", on="x", using="bitmap")
    for literal in (
        "7",
        "7.0",
        "7.00",
        "CAST(7 AS BIGINT)",
        "CAST(7 AS DECIMAL(20, 5))",
        "CAST(7 AS TINYINT)",
    ):
        assert _rows(table, f"x = {literal}") == {"a.parquet": [0]}, literal
        assert _rows(table, f"x IN ({literal}, 10)") == {"a.parquet": [0], "c.parquet": [0]}, literal
    assert [Path(file).name for file in table.plan("x = 7e0").files] == ["a.parquet"]
