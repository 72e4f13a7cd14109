"""One bit flipped in every byte of a metadata table: damaged data is refused, and no row is lost.

Every byte of log entries is flipped in `tests/unit/metadata/test_log.py`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.errors import FormatError
from pruner.metadata import MetadataTable, SegmentEntry, last_snapshot, log, ranged, segments
from pruner.metadata.last_snapshot import LastSnapshot
from pruner.metadata.ranged import RangedSegment
from pruner.metadata.segments import read_saved
from pruner.storage.opening import open_store
from pruner.storage.store import ObjectInfo, Store
from pruner.tables.parquet.source import ParquetSource
from tests.support.paging import page_everything
from tests.support.running.profiles import IS_FIXED

pytestmark = pytest.mark.load

FILES = 3
INDEXES = {"stats": "column_stats", "bloom": "bloom_filter", "bits": "bitmap", "key": "record_index"}
"""The index type of each column; an index has the name of its column."""

STRIDE = 197 if IS_FIXED else 1
"""For plans, one in this many bytes is flipped in turn. The segments that they read are read with each byte flipped."""


class FlippingStore(Store):
    """Another store that flips one bit in one byte of one object when it is read."""

    def __init__(self, real: Store) -> None:
        super().__init__(real.uri)
        self._real = real
        self.flipped: tuple[str, int] | None = None

    def _seen(self, path: str, start: int, data: bytes) -> bytes:
        if self.flipped is None or self.flipped[0] != path:
            return data
        at = self.flipped[1] - start
        if not 0 <= at < len(data):
            return data
        return data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]

    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the whole object: see `Store.get`."""
        return self._seen(path, 0, self._real.get(path, max_bytes))

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return some ranges of an object: see `Store.get_ranges`."""
        found = self._real.get_ranges(path, ranges)
        return [self._seen(path, start, data) for (start, _), data in zip(ranges, found, strict=True)]

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object unless it exists: see `Store.put_if_absent`."""
        return self._real.put_if_absent(path, data)

    def put_new(self, path: str, data: bytes) -> None:
        """Create an object under a name of its own: see `Store.put_new`."""
        self._real.put_new(path, data)

    def info(self, path: str) -> ObjectInfo | None:
        """Look one object up: see `Store.info`."""
        return self._real.info(path)

    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """List a folder: see `Store.list`."""
        return self._real.list(prefix, after=after)

    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects: see `Store.delete`."""
        self._real.delete(paths)

    def remove_empty_folders(self) -> None:
        """Remove empty folders: see `Store.remove_empty_folders`."""
        self._real.remove_empty_folders()


@dataclass(frozen=True)
class Lake:
    """A small table with an index of each type, and a store that can be made to return wrong bytes."""

    root: Path
    store: FlippingStore

    def open(self) -> pruner.Table:
        """The table as a new process opens it."""
        table = pruner.open_table(self.root, index_uri=self.store.uri)
        table._metadata.store = self.store
        return table

    @property
    def metadata(self) -> MetadataTable:
        """The metadata table with nothing cached."""
        return MetadataTable(self.store)

    def sizes(self) -> Iterator[tuple[str, int]]:
        """The newest log entry and the objects it names, with their sizes."""
        state = self.metadata.state()
        newest = log.entry_path(state.version)
        yield newest, len(self.store.get(newest, 1 << 20))
        yield from ((entry.path, entry.size) for entry in state.stored())


@pytest.fixture(params=["whole", "in parts"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    if request.param == "in parts":
        page_everything(monkeypatch, 2)
        monkeypatch.setattr(segments, "RANGED_FROM", 1)
        monkeypatch.setattr(ranged, "PIECE_BYTES", 256)
    root = tmp_path / "t"
    root.mkdir()
    for number in range(FILES + 1):
        values = [f"v{10 * number + i:02}" for i in range(3)]
        pq.write_table(pa.table(dict.fromkeys(INDEXES, pa.array(values))), root / f"{number}.parquet")
        os.utime(root / f"{number}.parquet", ns=(10**18, 10**18))  # long settled
    place = f"memory://{uuid.uuid4()}/t.pruner"
    table = pruner.open_table(root, index_uri=place)
    for column, using in INDEXES.items():
        table.create_index(column, on=column, using=using)
    (root / f"{FILES}.parquet").unlink()
    monkeypatch.setattr(last_snapshot, "CHANGES_FROM", 0)
    monkeypatch.setattr(last_snapshot, "LEAST_KEPT", 1)
    source = ParquetSource([str(root)])
    source.snapshot()
    LastSnapshot(source, table._metadata).keep()
    saved = table._metadata.state().last_snapshot
    assert saved is not None
    assert saved.changes is not None
    return Lake(root, FlippingStore(open_store(place)))


def whole(metadata: MetadataTable, entry: SegmentEntry) -> pa.Table:
    """The whole content of a segment."""
    saved = metadata.state().last_snapshot
    if saved is not None and entry in saved.files():
        return read_saved(metadata.store, saved)
    return metadata.read_segment(entry)


def in_parts(metadata: MetadataTable, entry: SegmentEntry) -> Iterator[tuple[range, Callable[[], pa.Table]]]:
    """Ways of reading a segment without the whole object, and the bytes that each of them requests."""

    def by_columns() -> pa.Table:
        segment = RangedSegment(metadata.store, entry)
        return segment.read(segment.names)

    if entry.tail is not None:
        yield range(entry.size), by_columns
    if entry.pages is not None:
        segment = metadata.paged_segment(entry, metadata.read_segment(entry.pages))
        for page in range(len(segment.records)):
            start, size = segment._plain.range(page)
            yield range(start, start + size), partial(segment.read, [page], segment.firsts.column_names)
            start, size = segment._deferred.range(page)
            if size:
                read = partial(segment.read, [page], segment.names[-1:], deferred=True)
                yield range(start, start + size), read


def test_no_flipped_byte_of_a_segment_is_read(lake: Lake) -> None:
    metadata = lake.metadata
    tried = 0
    for entry in metadata.state().stored():
        all_of_it = (range(entry.size), partial(whole, metadata, entry))
        readings: list[tuple[range, Callable[[], pa.Table]]] = [all_of_it, *in_parts(metadata, entry)]
        for _, read in readings:
            assert read().num_rows
        for position in range(entry.size):
            lake.store.flipped = (entry.path, position)
            for _, read in (each for each in readings if position in each[0]):
                with pytest.raises(FormatError, match="fails its checksum"):
                    read()
            tried += 1
        lake.store.flipped = None
    print(f"{tried} bytes")
    assert tried > 20_000


def test_a_flipped_byte_costs_an_index_and_no_row(lake: Lake) -> None:
    told = set[str]()
    for path, size in lake.sizes():
        for position in range(0, size, STRIDE):
            lake.store.flipped = (path, position)
            table = lake.open()
            for column in INDEXES:
                plan = table.plan(f"{column} = 'v11'")
                assert plan.kept in (1, FILES)
                assert f"{lake.root}/1.parquet" in plan.files
                assert (plan.kept == FILES) is bool(plan.fallbacks)
                told.update(reason for reason in plan.fallbacks if not reason.startswith("no index on"))
    lake.store.flipped = None
    assert all("checksum" in reason or "damaged" in reason for reason in told)
    assert all(len(reason) < 300 and "\n" not in reason for reason in told)
    assert len(told) >= len(INDEXES)
    table = lake.open()
    assert [table.plan(f"{column} = 'v11'").kept for column in INDEXES] == [1] * len(INDEXES)
