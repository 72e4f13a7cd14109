"""Reading one base file: leaf columns by path, types by the Parquet schema, values in row order, broken files."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.indexes.column_stats.record import ColumnRecord, record_column
from pruner.pipeline.footers import FileReader
from pruner.schema import Field
from tests.support.parquet.column_stats import record_file, write_column
from tests.support.parquet.footers import I64, ROW_GROUPS, Struct, edit_footer


def values(path: Path, *column: str) -> list[Any]:
    with FileReader(str(path)) as reader:
        leaf = reader.footer.leaf(column)
        assert leaf is not None
        return [value for batch in reader.batches(leaf) for value in batch.to_pylist()]


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """Structs in structs, names with dots and in other scripts, a list, a map; some parents are NULL."""
    rows = pa.array(
        [{"b": {"c": 1}, "b.c": 10}, None, {"b": None, "b.c": 20}, {"b": {"c": None}, "b.c": None}],
        pa.struct([("b", pa.struct([("c", pa.int64())])), ("b.c", pa.int64())]),
    )
    table = pa.table(
        {
            "a": rows,
            "a.b": [1, 2, 3, 4],
            "a.b.c": ["x", None, "y", "z"],
            "l": [[1], [], None, [2, 3]],
            "m": pa.array([[("k", 1)]] * 4, pa.map_(pa.string(), pa.int64())),
            "Straße 'ö'": [1.5, None, 2.5, 3.5],
        }
    )
    pq.write_table(table, tmp_path / "nested.parquet")
    return tmp_path / "nested.parquet"


def test_columns_are_found_by_path_and_null_where_a_parent_is(nested: Path) -> None:
    assert values(nested, "a", "b", "c") == [1, None, None, None]
    assert values(nested, "a", "b.c") == [10, None, 20, None]
    assert values(nested, "a.b") == [1, 2, 3, 4]
    assert values(nested, "a.b.c") == ["x", None, "y", "z"]
    assert values(nested, "Straße 'ö'") == [1.5, None, 2.5, 3.5]


def test_footers_count_null_parents_as_null_leaves(nested: Path) -> None:
    record = record_file(nested, Field(("a", "b", "c"), pa.int64()))
    assert (record.null_count, record.min_integer, record.max_integer, record.from_data) == (3, 1, 1, False)
    record = record_file(nested, Field(("a", "b.c"), pa.int64()))
    assert (record.null_count, record.min_integer, record.max_integer) == (2, 10, 20)


def test_a_nested_float_is_counted_from_the_data(tmp_path: Path) -> None:
    rows = pa.array([{"f": float("nan")}, None, {"f": 1.0}, {"f": None}], pa.struct([("f", pa.float64())]))
    record = record_file(write_column(tmp_path / "a.parquet", rows), Field(("x", "f"), pa.float64()))
    assert (record.null_count, record.nan_count, record.min_float, record.max_float) == (2, 1, 1.0, 1.0)


def test_lists_and_maps_have_no_value_for_a_row(nested: Path) -> None:
    with FileReader(str(nested)) as reader:
        leaf = reader.footer.leaf(("l", "element"))
        assert leaf is not None
        assert leaf.repeated
        with pytest.raises(ValueError, match="no single value for each row"):
            reader.batches(leaf)
    record = record_file(nested, Field(("l",), pa.list_(pa.int64())))
    assert not record.trusted


def test_types_are_those_of_the_parquet_schema_not_of_the_arrow_schema_beside_it(tmp_path: Path) -> None:
    columns = {
        "dictionary": pa.array(["a", "b"]).dictionary_encode(),
        "large": pa.array(["a", "b"], pa.large_string()),
        "view": pa.array(["a", "b"], pa.string_view()),
        "date64": pa.array([0, 86_400_000], pa.date64()),
        "seconds": pa.array([0, 1], pa.timestamp("s")),
        "zone": pa.array([0, 1], pa.timestamp("us", "Europe/Berlin")),
        "duration": pa.array([0, 1], pa.duration("us")),
        "half": pa.array([0, 1], pa.float16()),
        "time": pa.array([0, 1], pa.time64("us")),
        "uint8": pa.array([0, 255], pa.uint8()),
        "decimal": pa.array([Decimal("-1.50"), Decimal("2.00")], pa.decimal128(20, 2)),
    }
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table(columns), path)
    with FileReader(str(path)) as reader:
        leaves = [reader.footer.leaf((name,)) for name in columns]
    found = {leaf.path[0]: leaf.type for leaf in leaves if leaf is not None}
    assert found == {
        "dictionary": pa.string(),
        "large": pa.string(),
        "view": pa.string(),
        "date64": pa.date32(),
        "seconds": pa.timestamp("ms"),
        "zone": pa.timestamp("us", "UTC"),
        "duration": pa.int64(),
        "half": pa.float16(),
        "time": pa.time64("us"),
        "uint8": pa.uint8(),
        "decimal": pa.decimal128(20, 2),
    }
    with FileReader(str(path)) as reader:
        for name, type_ in found.items():
            leaf = reader.footer.leaf((name,))
            assert leaf is not None
            if type_ is not None:
                assert [batch.type for batch in reader.batches(leaf)] == [type_]


def test_files_of_one_schema_share_it_and_others_do_not(tmp_path: Path) -> None:
    paths = [
        write_column(tmp_path / f"{i}.parquet", pa.array([1], t))
        for i, t in enumerate([pa.int32(), pa.int64()] * 2)
    ]
    with FileReader(str(paths[0])) as a, FileReader(str(paths[1])) as b, FileReader(str(paths[2])) as c:
        leaves = [reader.footer.leaf(("x",)) for reader in (a, b, c)]
    assert leaves[0] is leaves[2]
    assert leaves[0] != leaves[1]


def test_a_footer_that_counts_other_rows_than_its_row_groups(tmp_path: Path) -> None:
    def edit(footer: Struct) -> None:
        for group in footer[ROW_GROUPS][1][1]:
            group[3] = (I64, 7)

    path = edit_footer(write_column(tmp_path / "a.parquet", pa.array([1, 2])), edit)
    with pytest.raises((ValueError, OSError)):
        FileReader(str(path))


def test_a_footer_longer_than_what_is_read_of_the_end_at_once(tmp_path: Path) -> None:
    notes = {"note": "x" * 200_000}
    pq.write_table(pa.table({"x": [3, 1, 2]}).replace_schema_metadata(notes), tmp_path / "a.parquet")
    assert pq.read_metadata(tmp_path / "a.parquet").serialized_size > 200_000
    with FileReader(str(tmp_path / "a.parquet")) as reader:
        record = record_column(reader, Field(("x",), pa.int64()))
        assert reader.footer.key_values[b"note"] == b"x" * 200_000
    assert (record.min_integer, record.max_integer, record.row_count) == (1, 3, 3)
    assert values(tmp_path / "a.parquet", "x") == [3, 1, 2]


@pytest.mark.parametrize("keep", [0, 3, 8, 100, -20, -4])
def test_files_cut_short_are_refused(tmp_path: Path, keep: int) -> None:
    path = write_column(tmp_path / "a.parquet", pa.array(list(range(1000))))
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises((ValueError, OSError)):
        FileReader(str(path))


def test_a_page_that_cannot_be_decoded_fails_where_it_is_read(tmp_path: Path) -> None:
    path = write_column(tmp_path / "a.parquet", pa.array([1.0, 2.0] * 500), use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[4:40] = b"\xff" * 36
    path.write_bytes(data)
    with FileReader(str(path)) as reader, pytest.raises((ValueError, OSError)):
        record_column(reader, Field(("x",), pa.float64()))


def test_many_row_groups_and_batches_are_added_up(tmp_path: Path) -> None:
    numbers = pa.array([float(i) if i % 7 else None for i in range(300_000)])
    path = write_column(tmp_path / "a.parquet", numbers, row_group_size=70_000)
    record = record_file(path, Field(("x",), pa.float64()))
    assert record == ColumnRecord(
        True, 300_000, "double", null_count=42_858, nan_count=0, has_values=True, min_float=1.0, max_float=299_998.0,
        min_exact=True, max_exact=True, from_data=True, parquet="DOUBLE - -",
    )  # fmt: skip
