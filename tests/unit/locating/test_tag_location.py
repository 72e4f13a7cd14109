"""Locations of keys: always what a join over the table returns, whichever indexes exist."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.locating import reading

LOCATION = ["partition_path", "file_id", "base_instant"]
FILES, ROWS = 12, 300
INDEXES = ["none", "column_stats", "bloom_filter", "record_index", "some files"]


def _write(root: Path, rng: random.Random, numbers: range) -> None:
    for number in numbers:
        folder = root / f"day={number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        ids = [rng.randrange(100_000) for _ in range(ROWS)]
        columns: dict[str, Any] = {
            "id": pa.array([None if each % 50 == 0 else each for each in ids], pa.int64()),
            "s": [f"k{each % 5_000}" for each in ids],
            "line": pa.array([each % 7 for each in ids], pa.int32()),
        }
        pq.write_table(pa.table(columns), folder / f"{number:02}.parquet", row_group_size=100)


@pytest.fixture(params=INDEXES, scope="module")
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> pruner.Table:
    rng = random.Random(7)
    root = tmp_path_factory.mktemp("keys") / "t"
    _write(root, rng, range(FILES - 2))
    opened = pruner.open_table(root)
    if request.param == "some files":
        opened.create_index("keys", on=["id", "s"], using="record_index")
        opened.create_index("ranges", on="*")
    _write(root, rng, range(FILES - 2, FILES))
    if request.param not in ("none", "some files"):
        opened.create_index("indexed", on=["id", "s"], using=request.param)
    return opened


def _joined(table: pruner.Table, keys: pa.Table) -> Iterator[tuple[Any, ...]]:
    """The result of a join over the files."""
    root = table.uri.removeprefix("file://")
    rows: Any = duckdb.sql(f"SELECT * FROM read_parquet('{root}/*/*.parquet', filename = true)")
    names = ", ".join(keys.column_names)
    placed = rows.select(f"{names}, filename").distinct()
    asked: Any = duckdb.sql(f"SELECT keys.*, filename FROM keys LEFT JOIN placed USING ({names})")
    assert placed is not None
    places = {
        each.base_file.removeprefix("file://"): each for each in table.snapshot().slices if each.base_file
    }
    for *key, file in asked.fetchall():
        slice_ = places.get(file)
        yield (
            *key,
            *((slice_.partition_path, slice_.file_id, slice_.base_instant) if slice_ else (None,) * 3),
        )


def _located(table: pruner.Table, keys: pa.Table) -> list[tuple[Any, ...]]:
    found = table.tag_location(keys)
    assert found.column_names == [*keys.column_names, *LOCATION]
    return [tuple(row.values()) for row in found.to_pylist()]


def _keys(seed: int, count: int) -> pa.Table:
    rng = random.Random(seed)
    ids = [rng.randrange(110_000) for _ in range(count)]
    columns: dict[str, Any] = {
        "id": pa.array([*ids, None, ids[0]], pa.int64()),
        "s": [*(f"k{each % 5_000}" for each in ids), "none", f"k{ids[0] % 5_000}"],
        "line": pa.array([*(each % 7 for each in ids), None, ids[0] % 7], pa.int64()),
        "day": pa.array([*(each % 4 for each in ids), 0, 1], pa.int64()),
    }
    return pa.table(columns)


@pytest.mark.sampled(72)
@pytest.mark.parametrize("columns", [["id"], ["s"], ["id", "line"], ["s", "line", "day"]], ids="-".join)
@pytest.mark.parametrize("count", [20, 3_000])
def test_keys_are_where_a_join_finds_them(table: pruner.Table, columns: list[str], count: int) -> None:
    keys = _keys(count, count).select(columns)
    found = _located(table, keys)
    assert sorted(set(found), key=repr) == sorted(set(_joined(table, keys)), key=repr)
    asked = [tuple(row.values()) for row in keys.to_pylist()]
    assert {row[: len(columns)] for row in found} == set(asked)
    assert any(row[-2] is None for row in found), "some keys are new"
    assert any(row[-2] is not None for row in found)


@pytest.mark.slow
def test_few_files_are_read_where_indexes_tell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a record index over whole numbers no file is read; over text, the files that hold a key."""
    _write(tmp_path / "t", random.Random(7), range(FILES))
    table = pruner.open_table(tmp_path / "t")
    table.create_index("keys", on=["id", "s"], using="record_index")
    reads: list[str] = []
    real = reading.opened
    monkeypatch.setattr(reading, "opened", lambda uri, options: reads.append(uri) or real(uri, options))
    (first, *_) = (row for row in _located(table, _keys(3, 2_000).select(["id"])) if row[-2])
    assert reads == []
    (found,) = _located(
        table, pa.table({"id": pa.array([first[0]], pa.int8() if first[0] < 128 else pa.int64())})
    )
    assert found == first
    _located(table, pa.table({"s": ["k17"]}))
    assert len(reads) == table.plan("s = 'k17'").kept < FILES


@pytest.mark.parametrize(
    "type_", [pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())]
)
def test_found_text_in_every_type_of_arrow(tmp_path: Path, type_: pa.DataType) -> None:
    """Arrow cannot take rows of views, so keys of that type failed."""
    _write(tmp_path / "t", random.Random(7), range(2))
    table = pruner.open_table(tmp_path / "t")
    keys = _keys(3, 20).select(["s"])
    found = table.tag_location(keys.cast(pa.schema([("s", type_)])))
    assert found.schema.field("s").type == type_
    assert [tuple(row.values()) for row in found.to_pylist()] == _located(table, keys)


def test_types_and_names_that_are_refused(tmp_path: Path) -> None:
    _write(tmp_path / "t", random.Random(7), range(2))
    table = pruner.open_table(tmp_path / "t")
    with pytest.raises(pruner.SchemaError, match="no column 'nothing'"):
        table.tag_location(pa.table({"nothing": [1]}))
    with pytest.raises(pruner.SchemaError, match="'id' of type string does not convert to the table's int64"):
        table.tag_location(pa.table({"id": ["x"]}))
    with pytest.raises(pruner.SchemaError, match="'id' of type double does not convert to the table's int64"):
        table.tag_location(pa.table({"id": [1.5]}))
    with pytest.raises(pruner.SchemaError, match="'file_id', which the result needs"):
        table.tag_location(pa.table({"id": [1], "file_id": ["x"]}))
    with pytest.raises(pruner.SchemaError, match="no column: give those"):
        table.tag_location(pa.table({}))
    with pytest.raises(pruner.PrunerError, match="not a list"):
        table.tag_location([1])
    assert table.tag_location(pa.table({"id": pa.array([], pa.int64())})).num_rows == 0
    assert table.tag_location(pa.record_batch({"id": [-1]})).to_pylist()[0]["file_id"] is None


def test_uuids_are_keys_as_bytes_and_text_is_told_so(tmp_path: Path) -> None:
    """DuckDB returns UUIDs as text; pyarrow's own error about that named no way out."""
    key = UUID("8ef2a9d0-3f1c-4e0b-9d5f-0123456789ab")
    (tmp_path / "t").mkdir()
    duckdb.execute(f"COPY (SELECT UUID '{key}' AS id) TO '{tmp_path / 't' / '0.parquet'}' (FORMAT parquet)")
    table = pruner.open_table(tmp_path / "t")
    with pytest.raises(pruner.SchemaError, match="give UUIDs as their 16 bytes"):
        table.tag_location(pa.table({"id": [str(key)]}))
    assert table.tag_location(pa.table({"id": [key.bytes]})).column("file_id").to_pylist() == ["0.parquet"]
