"""Segments that are read in parts: each part is verified, and no more is read than was requested."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.errors import FormatError, StorageError
from pruner.metadata.ranged import PIECE_BYTES, RANGED_FROM, RangedSegment
from pruner.metadata.segments import read_segment, write_segment
from pruner.metadata.state import SegmentEntry
from pruner.storage.local import LocalStore
from tests.unit.metadata.samples import an_index

COLUMNS = 12
ROWS = 40
VALUE_BYTES = 4_000


class CountingStore(LocalStore):
    """A store that counts the bytes read."""

    read = 0

    def get_ranges(self, path: str, ranges: object) -> list[bytes]:
        found = super().get_ranges(path, ranges)  # type: ignore[arg-type]
        self.read += sum(map(len, found))
        return found


def _table() -> pa.Table:
    rng = np.random.default_rng(1)
    columns: dict[str, pa.Array] = {"__slice": pa.array(np.arange(ROWS, dtype=np.int32))}
    for number in range(COLUMNS):
        values = [rng.bytes(VALUE_BYTES + number) for _ in range(ROWS)]
        columns[f"bits_{number:03}"] = pa.array([None, *values[1:]], pa.large_binary())
    return pa.table(columns)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(str(tmp_path / "t.pruner"))


@pytest.fixture
def entry(store: CountingStore) -> SegmentEntry:
    return write_segment(
        store, "bloom_filter", _table(), definition=an_index(), field=("x",), batch=None, in_parts=True
    )


def _path(store: CountingStore, entry: SegmentEntry) -> Path:
    return Path(store.uri) / entry.path


@pytest.mark.slow
def test_columns_come_with_little_more_than_themselves(store: CountingStore, entry: SegmentEntry) -> None:
    segment = RangedSegment(store, entry)
    assert segment.names == _table().column_names
    assert entry.tail is not None
    assert store.read == entry.tail.size < 20_000
    found = segment.read(["bits_003", "__slice"])
    assert found.equals(_table().select(["bits_003", "__slice"]))
    assert store.read - entry.tail.size <= ROWS * VALUE_BYTES + 4 * PIECE_BYTES
    for name in _table().column_names:
        assert segment.read([name]).column(0).equals(_table().column(name))


def test_any_tool_reads_it_and_the_whole_is_verified_as_ever(
    store: CountingStore, entry: SegmentEntry
) -> None:
    assert read_segment(store, entry).equals(_table())
    assert pq.read_table(_path(store, entry)).replace_schema_metadata(None).equals(_table())


def test_small_segments_are_read_whole(store: CountingStore) -> None:
    small = _table().slice(0, 2)
    assert small.nbytes < RANGED_FROM
    written = write_segment(
        store, "bloom_filter", small, definition=an_index(), field=("x",), batch=None, in_parts=True
    )
    assert written.tail is None
    with pytest.raises(FormatError, match="cannot be read in parts"):
        RangedSegment(store, written)


@pytest.mark.slow
def test_i3_no_flipped_bit_is_believed(store: CountingStore, entry: SegmentEntry) -> None:
    """Whatever byte is damaged: a column is read as it was written, or raises an error."""
    path = _path(store, entry)
    sound = path.read_bytes()
    rng = np.random.default_rng(2)
    assert entry.tail is not None
    positions = [*rng.integers(0, len(sound), 60), *(len(sound) - rng.integers(1, entry.tail.size, 20))]
    refused = 0
    for position in map(int, positions):
        damaged = bytearray(sound)
        damaged[position] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        for name in ("bits_000", "bits_007"):
            try:
                assert RangedSegment(store, entry).read([name]).column(0).equals(_table().column(name))
            except FormatError:
                refused += 1
    assert refused >= 40
    path.write_bytes(sound)


def test_a_segment_of_another_length_is_refused(store: CountingStore, entry: SegmentEntry) -> None:
    path = _path(store, entry)
    sound = path.read_bytes()
    for other in (sound + b"\0", sound[:-1], sound[:1000], b""):
        path.write_bytes(other)
        with pytest.raises(FormatError, match="bytes"):
            RangedSegment(store, entry)
    path.unlink()
    with pytest.raises(StorageError):
        RangedSegment(store, entry)


def test_a_tail_that_is_about_another_body_is_refused(store: CountingStore, entry: SegmentEntry) -> None:
    shorter = msgspec.structs.replace(entry, rows=entry.rows - 1)
    with pytest.raises(FormatError, match="other bytes"):
        RangedSegment(store, shorter)


@pytest.mark.parametrize("rows", [2, 20_000, 20_001, 70_000])
def test_i8_parts_of_a_value_are_its_own_however_many_rows_follow(store: CountingStore, rows: int) -> None:
    """Arrow writes a page for each 20,000 rows, so the value does not end where its column does."""
    value = np.random.default_rng(3).bytes(RANGED_FROM + 77)
    others = pa.nulls(rows - 1, pa.large_binary())
    column = pa.concat_arrays([pa.array([value], pa.large_binary()), others])
    table = pa.table({"__slice": pa.array(np.arange(rows, dtype=np.int32)), "packed": column})
    entry = write_segment(
        store, "record_index", table, definition=an_index(), field=("x",), batch=None, in_parts=True
    )
    segment = RangedSegment(store, entry)
    spans = [(0, 1), (0, 40_000), (7, 7), (100_000, 100_008), (len(value) - 9, len(value)), (0, len(value))]
    for first_asked in (spans[:1], spans[4:5], spans):
        fresh = RangedSegment(store, entry)
        for asked in (first_asked, spans):
            read = fresh.value_bytes("packed", len(value), asked)
            assert [bytes(part) for part in read] == [value[start:end] for start, end in asked]
    with pytest.raises(FormatError, match="has no value of"):
        segment.value_bytes("packed", entry.size, spans)
