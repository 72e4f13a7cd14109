"""Snapshots of Parquet trees."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from pruner.errors import TableError
from pruner.tables.listing.files import LocalLister
from pruner.tables.parquet.building import slice_key
from pruner.tables.parquet.source import ParquetSource
from tests.support.parquet.tables import names, path_values, slice_keys, write_file, write_tree
from tests.support.snapshots import assert_same


def test_files_are_in_the_order_of_their_paths(tmp_path: Path):
    write_tree(tmp_path, "k=2/a.parquet", "k=10/a.parquet", "b.parquet")
    snapshot = ParquetSource([str(tmp_path)]).snapshot()
    assert names(snapshot) == ["b.parquet", "k=10/a.parquet", "k=2/a.parquet"]
    entry = snapshot.slices[1]
    assert (entry.partition_path, entry.file_id, entry.base_instant) == ("k=10", "a.parquet", None)
    assert entry.size == (tmp_path / "k=10/a.parquet").stat().st_size
    assert snapshot.coverable.all()


def test_an_unchanged_table_gives_the_same_object(tmp_path: Path):
    source = ParquetSource([str(write_tree(tmp_path, "k=1/a.parquet", "k=2/b.parquet"))])
    snapshot = source.snapshot()
    assert source.snapshot(snapshot) is snapshot
    assert source.snapshot() is snapshot
    assert ParquetSource([str(tmp_path)]).snapshot(snapshot) is snapshot


def test_additions_and_removals_change_the_id_and_nothing_else_of_the_others(tmp_path: Path):
    source = ParquetSource([str(write_tree(tmp_path, "k=1/a.parquet", "k=2/b.parquet"))])
    before = source.snapshot()
    write_file(tmp_path / "k=3/c.parquet")
    after = source.snapshot(before)
    assert after.id != before.id
    assert slice_keys(after)[:2] == slice_keys(before)
    (tmp_path / "k=3/c.parquet").unlink()
    again = source.snapshot(after)
    assert again.id == before.id
    (tmp_path / "k=1/a.parquet").unlink()
    assert names(source.snapshot(again)) == ["k=2/b.parquet"]


def test_only_new_footers_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write_tree(tmp_path, "a.parquet", "b.parquet")
    first = ParquetSource([str(tmp_path)])
    before = first.snapshot()
    assert before.file_schemas is not None
    saved = first.saved()
    assert saved is not None
    second = ParquetSource([str(tmp_path)])
    second.resume(saved)
    with monkeypatch.context() as without_reading:
        without_reading.setattr(LocalLister, "read", lambda *_: pytest.fail("a footer was read"))
        assert_same(second.snapshot(), before)
    file = tmp_path / "a.parquet"
    file.write_bytes(b"\0" * file.stat().st_size)
    third = ParquetSource([str(tmp_path)])
    third.resume(saved)
    assert list(third.snapshot().problems) == [str(file)]


def test_several_roots_are_one_table(tmp_path: Path):
    roots = [str(write_tree(tmp_path / name, "k=1/a.parquet", "k=2/a.parquet")) for name in ("one", "two")]
    snapshot = ParquetSource(roots).snapshot()
    files = snapshot.columns.column("base_file").to_pylist()
    assert files == [f"{root}/k={k}/a.parquet" for root in roots for k in (1, 2)]
    assert list(path_values(snapshot, "k").values()) == [1, 2, 1, 2]
    assert len(set(slice_keys(snapshot))) == 4
    assert len(snapshot.partitions) == 4


def test_partition_columns_stand_behind_those_of_the_files(tmp_path: Path):
    write_file(tmp_path / "year=2013/c=de/a.parquet", x=[1], s=[{"y": 1.0}])
    schema = ParquetSource([str(tmp_path)]).snapshot().schema
    assert [(f.name, f.type, f.partition, f.in_file) for f in schema] == [
        ("x", pa.int64(), False, True),
        ("s", pa.struct([("y", pa.float64())]), False, True),
        ("s.y", pa.float64(), False, True),
        ("year", pa.int64(), True, False),
        ("c", pa.string(), True, False),
    ]


def test_a_broken_file_is_named_and_kept_and_the_rest_goes_on(tmp_path: Path):
    write_tree(tmp_path, "a.parquet", "b.parquet")
    broken = tmp_path / "b.parquet"
    broken.write_bytes(broken.read_bytes()[:-10])
    snapshot = ParquetSource([str(tmp_path)]).snapshot()
    assert names(snapshot) == ["a.parquet", "b.parquet"]
    assert snapshot.coverable.tolist() == [True, False]
    assert snapshot.problems == {
        str(broken): f"{broken} does not end like a Parquet file: it is truncated, or not a Parquet file"
    }
    assert snapshot.schema.find(("x",)).type == pa.int64()


def test_files_without_rows_are_slices_and_files_without_bytes_are_not(tmp_path: Path):
    write_file(tmp_path / "a.parquet", x=pa.array([], pa.int64()))
    write_file(tmp_path / "b.parquet")
    (tmp_path / "c.parquet").touch()
    assert names(ParquetSource([str(tmp_path)]).snapshot()) == ["a.parquet", "b.parquet"]


def test_what_is_parquet_inside_is_data_whatever_its_name(tmp_path: Path):
    write_tree(tmp_path, "000000_0", "part-1", "a.parquet")
    (tmp_path / "notes.txt").write_text("how this came about")
    assert names(ParquetSource([str(tmp_path)]).snapshot()) == ["000000_0", "a.parquet", "part-1"]


def test_each_slice_knows_its_files_schema(tmp_path: Path):
    for position, columns in enumerate(({"x": [1]}, {"x": [1], "y": ["a"]}, {"x": [2]})):
        write_file(tmp_path / f"{position}.parquet", **columns)
    (tmp_path / "3.parquet").write_bytes(b"not parquet at all")
    schemas = ParquetSource([str(tmp_path)]).snapshot().file_schemas
    assert schemas is not None
    assert schemas.ordinals.tolist() == [0, 1, 0, -1]
    assert schemas.distinct[1].names == ["x", "y"]


def test_a_table_that_lost_all_files_is_not_a_table(tmp_path: Path):
    source = ParquetSource([str(write_tree(tmp_path, "k=1/a.parquet"))])
    source.snapshot()
    shutil.rmtree(tmp_path / "k=1")
    with pytest.raises(TableError, match="there are no Parquet files in it"):
        source.snapshot()


def test_a_name_that_is_not_utf8_is_refused_by_name(tmp_path: Path):
    write_file(tmp_path / "a.parquet")
    (tmp_path / "a.parquet").rename(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.parquet"))
    with pytest.raises(TableError, match="is not UTF-8: rename the file"):
        ParquetSource([str(tmp_path)]).snapshot()


def test_time_travel_is_refused(tmp_path: Path):
    with pytest.raises(TableError, match="no time travel"):
        ParquetSource([str(write_tree(tmp_path, "a.parquet"))]).snapshot_at("20130101000000000")


def test_slice_keys_tell_every_part_apart():
    keys = {
        slice_key(root, path, size, version)
        for root in (0, 1)
        for path in ("a", "ab", "b")
        for size in (1, 11)
        for version in ("b1", "1", "")
    }
    assert len(keys) == 36
