"""Segments: plain Parquet for every reader, trusted by pruner only byte for byte (R10)."""

from __future__ import annotations

import uuid
from pathlib import Path

import duckdb
import msgspec
import numpy as np
import polars
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from pruner.errors import FormatError, StorageError
from pruner.metadata import MetadataTable, SegmentEntry, batch_table
from pruner.metadata.log import checksum_of
from pruner.metadata.segments import BATCH_SCHEMA
from pruner.schema import TableSchema
from pruner.storage.opening import open_store
from pruner.storage.store import NotFoundError
from pruner.tables.snapshot import SLICE_COLUMNS, Partitions, Snapshot
from tests.unit.metadata.samples import AMOUNT, a_table, an_index, batch_records, keys, statistics


def _stored(tmp_path: Path) -> tuple[MetadataTable, SegmentEntry, SegmentEntry]:
    table, _ = a_table(open_store(str(tmp_path / "t.pruner")))
    batch, records = table.state().segments
    return table, batch, records


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    table, batch, records = _stored(tmp_path)
    assert table.read_segment(records).equals(statistics(5))
    assert table.read_segment(batch).equals(batch_records(range(5)))
    assert table.read_segment(batch).schema == BATCH_SCHEMA
    assert (records.rows, records.field, records.batch) == (5, AMOUNT, batch.id)


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5, None, float("nan"), -0.0]),
        pa.array([b"a", None, b"\xff\x00", b""]),
        pa.array([[b"a", None], [], None, [b"c"]], pa.list_(pa.binary())),
        pa.array([1, 2, None, 3], pa.timestamp("us", "UTC")),
        pa.array([None] * 4, pa.decimal128(38, 10)),
        pa.array([{"x": 1}, None, {"x": None}, {"x": 2}]),
        pa.array(["x", "y", "x", None]),
        pa.array([2**64 - 1, 0, None, 1], pa.uint64()),
    ],
    ids=str,
)
def test_all_kinds_of_records_come_back(column: pa.Array) -> None:
    table = MetadataTable.open(open_store(f"memory://{uuid.uuid4()}"))
    records = pa.table({"value": column})
    read = table.read_segment(table.write_segment("column_stats", records, definition=an_index()))
    assert read.schema == records.schema
    assert repr(read.to_pydict()) == repr(records.to_pydict())


def test_no_rows_and_a_million_rows() -> None:
    table = MetadataTable.open(open_store(f"memory://{uuid.uuid4()}"))
    for count in (0, 1_000_000):
        records = pa.table(
            {"__slice": pa.array(np.arange(count, dtype=np.int32)), "nulls": pa.array(np.zeros(count))}
        )
        entry = table.write_segment("column_stats", records, definition=an_index())
        assert table.read_segment(entry).equals(records)
        written = pq.ParquetFile(pa.BufferReader(table.store.get(entry.path, entry.size)))
        assert written.metadata.num_row_groups == 1


def test_any_tool_reads_a_segment(tmp_path: Path) -> None:
    table, batch, records = _stored(tmp_path)
    path = f"{table.store.uri}/{records.path}"
    assert path.endswith(".pidx")
    assert pq.read_table(path).equals(statistics(5))
    assert polars.read_parquet(path).height == 5
    found = duckdb.execute(f"SELECT min(\"min\"), max(__slice) FROM read_parquet('{path}')").fetchall()
    assert found == [(0, 4)]
    about = msgspec.json.decode(pq.read_schema(path).metadata[b"pruner.segment"])
    assert about["format_version"] == 1
    assert (about["id"], about["index"], about["field"]) == (records.id, "amount_idx", ["amount"])
    assert (about["batch"], about["partition"]) == (batch.id, "column_stats")


def test_known_wrong_n9_segments_are_not_data_to_any_glob(tmp_path: Path) -> None:
    """N9: index files named `.parquet` below the lake are read as data by `**/*.parquet`."""
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"amount": [1, 2]}), tmp_path / "t" / "data.parquet")
    _stored(tmp_path)
    assert duckdb.execute(f"SELECT count(*) FROM '{tmp_path}/**/*.parquet'").fetchall() == [(2,)]
    assert polars.scan_parquet(f"{tmp_path}/**/*.parquet").collect().height == 2
    assert ds.dataset(tmp_path / "t", format="parquet").count_rows() == 2


def test_no_changed_byte_of_a_sample_goes_unnoticed(tmp_path: Path) -> None:
    table, batch, records = _stored(tmp_path)
    for entry in (batch, records):
        file = Path(table.store.uri) / entry.path
        data = file.read_bytes()
        for position in range(0, len(data), 3):
            damaged = bytearray(data)
            damaged[position] ^= 1 << position % 8
            file.write_bytes(damaged)
            with pytest.raises(FormatError, match="fails its checksum"):
                table.read_segment(entry)
        file.write_bytes(data)
        table.read_segment(entry)


def test_other_sizes_and_other_files_go_not_unnoticed(tmp_path: Path) -> None:
    table, batch, records = _stored(tmp_path)
    file = Path(table.store.uri) / records.path
    data = file.read_bytes()
    for content in (b"", data[:-1], data[:100], data + b"\0", data * 2):
        file.write_bytes(content)
        with pytest.raises(FormatError, match="bytes where"):
            table.read_segment(records)
    file.write_bytes((Path(table.store.uri) / batch.path).read_bytes()[: len(data)].ljust(len(data)))
    with pytest.raises(FormatError, match="fails its checksum"):
        table.read_segment(records)
    file.unlink()
    with pytest.raises(NotFoundError):
        table.read_segment(records)


def test_entries_that_lie_about_a_segment(tmp_path: Path) -> None:
    table, batch, records = _stored(tmp_path)
    replace = msgspec.structs.replace
    with pytest.raises(FormatError, match="does not hold the 6 rows"):
        table.read_segment(replace(records, rows=6))
    with pytest.raises(FormatError, match="more than the"):
        table.read_segment(replace(records, size=1 << 40))
    with pytest.raises(FormatError, match="columns of one"):
        table.read_segment(replace(records, partition="files"))
    with pytest.raises(StorageError, match="below the root"):
        table.read_segment(replace(batch, path="../secret"))
    table.store.put_new("column_stats/text.pidx", b"not parquet")
    checksum = "eb1b8a7f6e3f5c3f" * 2
    with pytest.raises(FormatError, match="fails its checksum"):
        table.read_segment(replace(records, path="column_stats/text.pidx", size=11, checksum=checksum))


def test_bytes_that_are_no_parquet_are_refused_even_with_their_checksum(tmp_path: Path) -> None:
    table, _, records = _stored(tmp_path)
    for number, data in enumerate((b"not parquet", b"PAR1" + b"\xff" * 40 + b"PAR1", b"")):
        path = f"column_stats/{number}.pidx"
        table.store.put_new(path, data)
        sealed = msgspec.structs.replace(records, path=path, size=len(data), checksum=checksum_of(data))
        with pytest.raises(FormatError, match="not a Parquet file"):
            table.read_segment(sealed)


@pytest.mark.parametrize("partition", ["", "log", "staging", "../x", "Files", "a/b", "x" * 300])
def test_partitions_that_are_none(partition: str) -> None:
    table = MetadataTable.open(open_store(f"memory://{uuid.uuid4()}"))
    with pytest.raises(StorageError, match="cannot be a partition"):
        table.write_segment(partition, statistics(1))
    assert table.store.list() == []


def _snapshot(uris: list[str | None]) -> Snapshot:
    count = len(uris)
    columns = {
        "partition": [number % 2 for number in range(count)],
        "file_id": [f"f{number}" for number in range(count)],
        "base_file": uris,
        "base_size": list(range(count)),
        "base_version": ["e"] * count,
        "base_instant": [None] * count,
        "log_files": [None] * count,
        "log_size": [None] * count,
        "unsettled": [False] * count,
    }
    return Snapshot(
        id="s",
        schema=TableSchema(()),
        columns=pa.table(columns, schema=SLICE_COLUMNS),
        keys=keys(range(count)),
        partitions=Partitions(pa.array(["p=1", "p=ü 2"])),
        root="s3://lake/t",
    )


def test_slice_batch_of_a_snapshot() -> None:
    snapshot = _snapshot(
        ["s3://lake/t/p=1/a", "s3://lake/t/p=ü 2/b", "s3://other/t/c", "s3://lake/t2/d", None]
    )
    batch = batch_table(snapshot, np.array([4, 1, 2, 3, 0]))
    assert batch.schema == BATCH_SCHEMA
    assert batch.column("base_file").to_pylist() == [
        None,
        "p=ü 2/b",
        "s3://other/t/c",
        "s3://lake/t2/d",
        "p=1/a",
    ]
    assert batch.column("partition_path").to_pylist() == ["p=1", "p=ü 2", "p=1", "p=ü 2", "p=1"]
    assert batch.column("file_id").to_pylist() == ["f4", "f1", "f2", "f3", "f0"]
    assert batch.column("slice_key").combine_chunks().equals(keys([4, 1, 2, 3, 0]))
    assert batch_table(snapshot, np.array([], dtype=np.intp)).num_rows == 0
