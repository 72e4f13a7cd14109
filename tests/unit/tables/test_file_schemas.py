"""Schemas of files: what engines see, broken files, and each distinct schema parsed once."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.storage.opening import open_store
from pruner.storage.store import Store
from pruner.tables.footers.file_schemas import BrokenFileError, NotParquetError, SchemaReader, field_id
from pruner.tables.footers.thrift import ThriftError, read_schema, schema_only
from pruner.tables.listing.files import LocalLister, StoreLister
from tests.support.parquet.tables import write_file


def read(path: Path) -> pa.Schema | BrokenFileError:
    return SchemaReader().read_all(LocalLister(str(path.parent)), [(path.name, path.stat().st_size)])[0]


def footer_of(path: Path) -> bytes:
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def test_types_are_those_of_the_parquet_schema_and_not_arrows_own(tmp_path: Path):
    file = write_file(
        tmp_path / "f.parquet",
        words=pa.array(["a"]).dictionary_encode(),
        long_words=pa.array(["a"], pa.large_string()),
        zoned=pa.array([1], pa.timestamp("us", "Europe/Paris")),
        wall=pa.array([1], pa.timestamp("ms")),
        span=pa.array([1], pa.duration("s")),
        days=pa.array([0], pa.date64()),
        nested=pa.array([{"x": [1], "y": {"z": "a"}}]),
    )
    assert read(file) == pa.schema(
        {
            "words": pa.string(),
            "long_words": pa.string(),
            "zoned": pa.timestamp("us", "UTC"),
            "wall": pa.timestamp("ms"),
            "span": pa.int64(),
            "days": pa.date32(),
            "nested": pa.struct([("x", pa.list_(pa.int64())), ("y", pa.struct([("z", pa.string())]))]),
        }
    )


def test_field_ids_are_kept(tmp_path: Path):
    schema = pa.schema([pa.field("a", pa.int32(), metadata={"PARQUET:field_id": "7"})])
    pq.write_table(pa.table({"a": pa.array([1], pa.int32())}, schema=schema), tmp_path / "f.parquet")
    found = read(tmp_path / "f.parquet")
    assert isinstance(found, pa.Schema)
    assert field_id(found.field("a")) == 7


def test_equal_schemas_are_one_object_and_others_are_not(tmp_path: Path):
    for position, columns in enumerate(
        ({"a": [1]}, {"a": [2, 3], "b": ["x"] * 2}, {"a": [4, 5, 6]}, {"a": ["x"]})
    ):
        write_file(tmp_path / f"{position}.parquet", **columns)
    lister = LocalLister(str(tmp_path))
    first, second, third, fourth = SchemaReader().read_all(
        lister, [(f"{i}.parquet", (tmp_path / f"{i}.parquet").stat().st_size) for i in range(4)]
    )
    assert first is third
    assert first == pa.schema({"a": pa.int64()})
    assert second == pa.schema({"a": pa.int64(), "b": pa.string()})
    assert fourth == pa.schema({"a": pa.string()})


def test_a_store_gives_the_same_schema_as_the_disk(tmp_path: Path):
    file = write_file(tmp_path / "f.parquet", a=[1], b=["x"])
    store = open_store("memory://schemas/table")
    store.put_new("f.parquet", file.read_bytes())
    remote = SchemaReader().read_all(StoreLister(store), [("f.parquet", file.stat().st_size)])
    assert remote == [read(file)]


class Counting(StoreLister):
    """Records how many bytes were requested, read by read."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self.lengths: list[int] = []

    def read(self, path: str, start: int, length: int) -> bytes:
        self.lengths.append(length)
        return super().read(path, start, length)


def test_of_later_objects_about_as_much_is_read_as_the_longest_footer_has(tmp_path: Path):
    """Each read took 64 KiB, where most footers have a few. A footer longer than all before takes a second read."""
    store = open_store("memory://tails/table")
    lister = Counting(store)
    files = [
        write_file(tmp_path / f"{number}.parquet", **{f"c{each}": range(rows) for each in range(columns)})
        for number, (columns, rows) in enumerate([*[(2, 20_000)] * 2, *[(40, 2_000)] * 2, *[(400, 200)] * 2])
    ]
    reader = SchemaReader()
    for file in files:
        store.put_new(file.name, file.read_bytes())
        size = file.stat().st_size
        assert size > 64 * 1024
        assert reader.read_all(lister, [(file.name, size)]) == [read(file)]
    footers = [len(footer_of(file)) for file in files]
    least, more, most = 4 * 1024, footers[2] * 5 // 4, 64 * 1024
    assert footers[0] < least < footers[2] < most < footers[4]
    lengths = lister.lengths
    assert lengths[:3] == [most, least, least]
    assert lengths[4:7] == [footers[2], more, more]
    assert lengths[8:10] == [footers[4], most]
    beginnings = [lengths[3], lengths[7], lengths[10]]  # by which known schemas are found
    assert len(lengths) == 11
    assert max(beginnings) < footers[4] // 8


@pytest.mark.parametrize("size", [1, 11, 12, 100])
def test_a_file_that_is_cut_short_is_broken(tmp_path: Path, size: int):
    file = write_file(tmp_path / "f.parquet")
    file.write_bytes(file.read_bytes()[:size])
    assert isinstance(read(file), NotParquetError)


def test_a_footer_that_cannot_be_is_broken(tmp_path: Path):
    file = write_file(tmp_path / "f.parquet")
    data = file.read_bytes()
    file.write_bytes(data[:-8] + b"\xff\xff\xff\x7f" + data[-4:])
    assert "names a footer of 2147483647 bytes" in str(read(file))
    file.write_bytes(data[:-4] + b"PARE")
    assert "encrypted" in str(read(file))
    file.write_bytes(data[: -8 - 40] + b"\xee" * 40 + data[-8:])
    footer = footer_of(file)
    file.write_bytes(data[: -8 - len(footer)] + b"\xee" * len(footer) + data[-8:])
    assert "broken footer" in str(read(file))


def test_a_file_that_vanished_is_named_and_the_others_are_read(tmp_path: Path):
    file = write_file(tmp_path / "f.parquet")
    lister = LocalLister(str(tmp_path))
    gone, there = SchemaReader().read_all(lister, [("gone.parquet", 500), ("f.parquet", file.stat().st_size)])
    assert str(gone) == "cannot be read: No such file or directory"
    assert there == pa.schema({"x": pa.int64()})


def test_the_schema_ends_where_the_rest_begins(tmp_path: Path):
    one = footer_of(write_file(tmp_path / "a.parquet", a=[1], b=["x"]))
    two = footer_of(write_file(tmp_path / "b.parquet", a=[1] * 50, b=["y"] * 50))
    assert one[: read_schema(one).end] == two[: read_schema(two).end]
    assert one != two
    assert len(schema_only(one, read_schema(one).end)) < len(one)


@given(st.binary(max_size=200))
def test_no_bytes_make_the_schema_search_fail_otherwise(data: bytes):
    try:
        end = read_schema(b"\x15\x04\x19" + data).end
    except ThriftError:
        return
    assert 3 < end <= 3 + len(data)
