"""Segments that are read in parts, each of them verified (R10).

Before its footer such a segment is cut into pieces of `PIECE_BYTES`. The footer has a checksum of each piece, and the
log has the checksum of all from the footer on, the tail. So a reader that has the tail believes any piece by itself.
"""

from __future__ import annotations

import io
from threading import Lock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from pruner.errors import FormatError
from pruner.metadata.log import checksum_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pruner.metadata.state import SegmentEntry
    from pruner.storage.store import Store

PIECE_BYTES: Final = 1 << 15
"""Bytes that have a checksum of their own, and that are read together."""

RANGED_FROM: Final = 1 << 19
"""Size from which on a segment is worth reading in parts."""

_MOST_OPEN: Final = 256
"""Segments whose tails are held, of some 50 kB each."""

PIECES_KEY: Final = b"pruner.pieces"
"""Metadata of the footer: XXH3-64 of each piece, 8 bytes each, the lowest byte first."""


def piece_checksums(body: bytes | memoryview) -> bytes:
    """The checksums of the pieces of what stands before a footer."""
    pieces = (body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES))
    return np.array([xxhash.xxh3_64_intdigest(piece) for piece in pieces], "<u8").tobytes()


class RangedSegment:
    """A segment of which columns are read one by one. Threads may share it.

    Raises:
        FormatError: its tail is not what was committed.
        StorageError: it cannot be read.
    """

    def __init__(self, store: Store, entry: SegmentEntry) -> None:
        self._store = store
        self._entry = entry
        self._where = f"{store.uri}/{entry.path}"
        self._tail = _tail(store, entry, self._where)
        self._body = entry.size - len(self._tail)
        try:
            parquet: Any = pq  # whose stubs leave types open
            self._metadata = parquet.read_metadata(pa.BufferReader(self._tail))
            self.names: list[str] = self._metadata.schema.to_arrow_schema().names
        except (pa.ArrowException, OSError):
            raise FormatError(
                f"the segment {self._where} has no footer: drop the index and create it again"
            ) from None
        described: dict[bytes, bytes] = self._metadata.metadata or {}
        self._checksums = np.frombuffer(described.get(PIECES_KEY, b""), "<u8")
        if len(self._checksums) != -(-self._body // PIECE_BYTES) or self._metadata.num_rows != entry.rows:
            raise FormatError(f"the footer of the segment {self._where} is about other bytes")

    def read(self, names: Sequence[str]) -> pa.Table:
        """Return some columns of all rows.

        Raises:
            FormatError: what was read is not what was committed.
            StorageError: it cannot be read.
        """
        source = pa.PythonFile(_Parts(self._entry.size, self._pieces(names), self._tail), mode="r")
        try:
            file: Any = pq.ParquetFile(source, metadata=self._metadata)
            table: pa.Table = file.read(columns=list(names), use_threads=False)
        except (pa.ArrowException, OSError):
            raise FormatError(f"columns of the segment {self._where} cannot be read") from None
        return table.replace_schema_metadata(None)

    def _pieces(self, names: Sequence[str]) -> dict[int, bytes]:
        """The pieces with some columns, verified."""
        numbers = sorted({piece for name in names for piece in self._pieces_of(name)})
        runs = np.split(np.array(numbers), np.flatnonzero(np.diff(numbers) > 1) + 1) if numbers else []
        ranges = [self._range(int(run[0]), int(run[-1])) for run in runs]
        found: dict[int, bytes] = {}
        for run, data in zip(runs, self._store.get_ranges(self._entry.path, ranges), strict=True):
            for position, number in enumerate(run.tolist()):
                piece = data[position * PIECE_BYTES : (position + 1) * PIECE_BYTES]
                if xxhash.xxh3_64_intdigest(piece) != int(self._checksums[number]):
                    raise FormatError(
                        f"the segment {self._where} fails its checksum: drop the index and create it again"
                    )
                found[number] = piece
        return found

    def _pieces_of(self, name: str) -> range:
        position = self.names.index(name)
        first, behind = self._body, 0
        for number in range(self._metadata.num_row_groups):
            chunk = self._metadata.row_group(number).column(position)
            start = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            first, behind = min(first, start), max(behind, start + chunk.total_compressed_size)
        if not 0 <= first <= behind <= self._body:
            raise FormatError(f"the footer of the segment {self._where} names bytes that it does not have")
        return range(first // PIECE_BYTES, -(-behind // PIECE_BYTES))

    def _range(self, first: int, last: int) -> tuple[int, int]:
        start = first * PIECE_BYTES
        return start, min((last + 1) * PIECE_BYTES, self._body) - start


class RangedSegments:
    """Segments that are read in parts, and the columns that were read of them; bounded in bytes."""

    def __init__(self, store: Callable[[], Store], limit_bytes: int) -> None:
        self._store = store
        self._limit = limit_bytes
        self._segments: dict[str, RangedSegment] = {}
        self._columns: dict[tuple[str, ...], pa.Table] = {}
        self._lock = Lock()

    def open(self, entry: SegmentEntry) -> RangedSegment:
        """The segment of an entry that has a tail: raises as `RangedSegment` does."""
        found = self._segments.get(entry.id)
        if found is not None:
            return found
        opened = RangedSegment(self._store(), entry)
        with self._lock:
            self._segments[entry.id] = opened
            while len(self._segments) > _MOST_OPEN:
                self._segments.pop(next(iter(self._segments)))
        return opened

    def read(self, entry: SegmentEntry, names: Sequence[str]) -> pa.Table:
        """Columns of all rows: raises as `RangedSegment.read` does."""
        key = (entry.id, *names)
        with self._lock:
            cached = self._columns.pop(key, None)
            if cached is not None:
                self._columns[key] = cached
                return cached
        table = self.open(entry).read(names)
        with self._lock:
            self._columns[key] = table
            while (
                len(self._columns) > 1 and sum(held.nbytes for held in self._columns.values()) > self._limit
            ):
                self._columns.pop(next(iter(self._columns)))
        return table


def _tail(store: Store, entry: SegmentEntry, where: str) -> bytes:
    tail = entry.tail
    if tail is None or not 0 < tail.size <= entry.size:
        raise FormatError(f"the segment {where} cannot be read in parts")
    info = store.info(entry.path)
    if info is not None and info.size != entry.size:
        raise FormatError(f"the segment {where} has {info.size} bytes where {entry.size} were written")
    data = store.get_range(entry.path, entry.size - tail.size, tail.size)
    if checksum_of(data) != tail.checksum:
        raise FormatError(f"the segment {where} fails its checksum: drop the index and create it again")
    return data


class _Parts(io.RawIOBase):
    """A file of which some pieces are there, and the tail; what reads elsewhere fails."""

    def __init__(self, size: int, pieces: dict[int, bytes], tail: bytes) -> None:
        self._size = size
        self._pieces = pieces
        self._tail = tail
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._at + size, self._size)
        parts: list[bytes] = []
        while self._at < end:
            part = self._from(self._at)[: end - self._at]
            parts.append(part)
            self._at += len(part)
        return b"".join(parts)

    def _from(self, at: int) -> bytes:
        """What follows a position, at least a byte of it."""
        body = self._size - len(self._tail)
        if at >= body:
            return self._tail[at - body :]
        piece = self._pieces.get(at // PIECE_BYTES)
        if piece is None:
            raise OSError(f"byte {at} was not read")
        return piece[at % PIECE_BYTES :]


def written(table: pa.Table, options: dict[str, Any], row_group_rows: int) -> tuple[bytes, int]:
    """Write a table as such a segment; returns the file and the size of its tail."""
    sink = io.BytesIO()
    writer: Any = pq.ParquetWriter(sink, table.schema, **options)
    writer.write_table(table, row_group_size=row_group_rows)
    body = sink.tell()
    writer.add_key_value_metadata({PIECES_KEY: piece_checksums(sink.getbuffer()[:body])})
    writer.close()
    data = sink.getvalue()
    return data, len(data) - body
