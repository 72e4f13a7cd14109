"""Segments that are read in parts, each of them verified (R10).

The part of such a segment before its footer is cut into pieces of `PIECE_BYTES`. The footer has a checksum of each
piece, and the log has the checksum of the tail, from the footer on. So a reader with the tail can verify any single
piece.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from pruner.errors import FormatError
from pruner.metadata.log import checksum_of
from pruner.metadata.pages import PartialFile, read_in_memory
from pruner.tables.footers.thrift import ThriftError, read_struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pruner.metadata.state import SegmentEntry
    from pruner.storage.store import Store

PIECE_BYTES: Final = 1 << 15
"""Bytes of a piece: it has its own checksum and is read as a whole."""

RANGED_FROM: Final = 1 << 19
"""Smallest size of a segment that is worth reading in parts."""

_PAGE_HEADER_BYTES: Final = 256
"""More bytes than the header of a page without statistics takes."""

_PAGE_TYPE, _COMPRESSED_PAGE_SIZE = 1, 3  # fields of PageHeader (parquet.thrift)
_DATA_PAGE: Final = 0

PIECES_KEY: Final = b"pruner.pieces"
"""Metadata key of the footer: XXH3-64 of each piece, 8 bytes each, little-endian."""


def piece_checksums(body: bytes | memoryview) -> bytes:
    """The checksums of the pieces of the bytes before a footer."""
    pieces = (body[start : start + PIECE_BYTES] for start in range(0, len(body), PIECE_BYTES))
    return np.array([xxhash.xxh3_64_intdigest(piece) for piece in pieces], "<u8").tobytes()


REMEDY: Final = "drop the index and create it again"
"""What to do about a damaged segment of an index."""


class Blocks(NamedTuple):
    """How a segment whose readers take some of its rows is cut: the number of consecutive rows of each block."""

    rows: tuple[int, ...]


class RangedSegment:
    """A segment whose columns are read one by one, of all or some row groups. Threads may share it.

    Attributes:
        entry: its entry in the log.
        names: names of its columns.
        rows: number of rows of each row group.
        described: the metadata of its footer.

    Raises:
        FormatError: its tail is not what was committed.
        StorageError: it cannot be read.
    """

    def __init__(self, store: Store, entry: SegmentEntry, remedy: str = REMEDY) -> None:
        """Read the footer; `remedy` says what to do about damage."""
        self._store = store
        self.entry = entry
        self._remedy = remedy
        self._where = f"{store.uri}/{entry.path}"
        tail = _tail(store, entry, self._where, remedy)
        self._body = entry.size - len(tail)
        try:
            parquet: Any = pq  # its stubs leave types open
            self._metadata = parquet.read_metadata(pa.BufferReader(tail))
            self.schema: pa.Schema = self._metadata.schema.to_arrow_schema()
        except (pa.ArrowException, OSError):
            raise FormatError(f"the segment {self._where} has no footer: {remedy}") from None
        self.names: list[str] = self.schema.names
        groups = range(self._metadata.num_row_groups)
        self.rows: tuple[int, ...] = tuple(self._metadata.row_group(number).num_rows for number in groups)
        self.described: Mapping[bytes, bytes] = self._metadata.metadata or {}
        self._checksums = np.frombuffer(self.described.get(PIECES_KEY, b""), "<u8")
        if len(self._checksums) != -(-self._body // PIECE_BYTES) or self._metadata.num_rows != entry.rows:
            raise FormatError(f"the footer of the segment {self._where} is about other bytes")
        self._value_ends = dict[str, int]()
        self.nbytes = 2 * len(tail)  # of the footer in Arrow's form, roughly

    def read(self, names: Sequence[str], groups: Iterable[int] | None = None) -> pa.Table:
        """Return some columns, of all rows or of those of some row groups.

        Raises:
            FormatError: what was read is not what was committed.
            StorageError: it cannot be read.
        """
        chosen = list(range(len(self.rows)) if groups is None else groups)
        source = self._parts(names, chosen)
        try:
            table = read_in_memory(source, self._metadata, chosen, names)
        except (pa.ArrowException, OSError):
            raise FormatError(f"columns of the segment {self._where} cannot be read") from None
        return table.replace_schema_metadata(None)

    def value_bytes(self, name: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return ranges (start, end) of the bytes of the only value of a column, which is `size` bytes long.

        The value is in the first row, so its bytes are the last of the first page. The header of that page, which is
        read once, shows whether rows without a value fill more pages after it, as Arrow writes them from 20,000 rows
        on.

        Raises:
            FormatError: the column has no such value, or what was read is not what was committed.
            StorageError: it cannot be read.
        """
        first, behind, plain = self._bytes_of(name)
        end = self._value_ends.get(name)
        start = (behind if end is None else end) - size
        inside = all(0 <= low <= high <= size for low, high in ranges)
        if self._metadata.num_row_groups != 1 or not plain or start < first or not inside:
            raise FormatError(f"the segment {self._where} has no value of {size} bytes in {name}")
        header = (first, min(first + _PAGE_HEADER_BYTES, behind))
        numbers: set[int] = set()
        for low, high in [*((start + low, start + high) for low, high in ranges), *([] if end else [header])]:
            numbers.update(range(low // PIECE_BYTES, -(-high // PIECE_BYTES)))
        part = self._read_pieces(sorted(numbers))
        if end is None:
            part.seek(header[0])
            end = self._value_ends[name] = self._end_of_page(part.read(header[1] - header[0]), first, behind)
            if end != behind:
                return self.value_bytes(name, size, ranges)
        data: list[bytes] = []
        for low, high in ranges:
            part.seek(start + low)
            data.append(part.read(high - low))
        return data

    def _end_of_page(self, header: bytes, first: int, behind: int) -> int:
        """The end of the page that begins at `first`, by its header (PageHeader of parquet.thrift)."""
        try:
            fields, length = read_struct(header)
            kind, page_bytes = fields[_PAGE_TYPE], fields[_COMPRESSED_PAGE_SIZE]
        except (ThriftError, KeyError):
            raise FormatError(f"a page of the segment {self._where} has no header: {self._remedy}") from None
        end = first + length + page_bytes
        if kind != _DATA_PAGE or not first < end <= behind:
            raise FormatError(f"a page of the segment {self._where} is about other bytes: {self._remedy}")
        return end

    def _parts(self, names: Sequence[str], groups: Sequence[int]) -> PartialFile:
        """The verified bytes of some columns of some row groups."""
        places = [self.names.index(name) for name in names]
        pieces: set[int] = set()
        for group in groups:
            for place in places:
                first, behind, _ = self._chunk(group, place)
                pieces.update(range(first // PIECE_BYTES, -(-behind // PIECE_BYTES)))
        return self._read_pieces(sorted(pieces))

    def _read_pieces(self, numbers: Sequence[int]) -> PartialFile:
        """Some verified pieces, in ascending order."""
        runs = np.split(np.array(numbers), np.flatnonzero(np.diff(numbers) > 1) + 1) if numbers else []
        ranges = [self._range(int(run[0]), int(run[-1])) for run in runs]
        parts = self._store.get_ranges(self.entry.path, ranges)
        for run, data in zip(runs, parts, strict=True):
            for position, number in enumerate(run.tolist()):
                piece = data[position * PIECE_BYTES : (position + 1) * PIECE_BYTES]
                if xxhash.xxh3_64_intdigest(piece) != int(self._checksums[number]):
                    raise FormatError(f"the segment {self._where} fails its checksum: {self._remedy}")
        return PartialFile([start for start, _ in ranges], parts, self.entry.size)

    def _bytes_of(self, name: str) -> tuple[int, int, bool]:
        """Where a column begins and ends, and whether its bytes are stored uncompressed."""
        place = self.names.index(name)
        chunks = [self._chunk(group, place) for group in range(len(self.rows))] or [(self._body, 0, True)]
        firsts, ends, plain = zip(*chunks, strict=True)
        return min(firsts), max(ends), all(plain)

    def _chunk(self, group: int, place: int) -> tuple[int, int, bool]:
        """The same for a column of one row group. Each column has one leaf, so its position is that of its chunk."""
        chunk = self._metadata.row_group(group).column(place)
        first = min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
        behind = first + chunk.total_compressed_size
        if not 0 <= first <= behind <= self._body:
            raise FormatError(f"the footer of the segment {self._where} names bytes that it does not have")
        return first, behind, chunk.compression == "UNCOMPRESSED"

    def _range(self, first: int, last: int) -> tuple[int, int]:
        start = first * PIECE_BYTES
        return start, min((last + 1) * PIECE_BYTES, self._body) - start


def _tail(store: Store, entry: SegmentEntry, where: str, remedy: str) -> bytes:
    tail = entry.tail
    if tail is None or not 0 < tail.size <= entry.size:
        raise FormatError(f"the segment {where} cannot be read in parts")
    info = store.info(entry.path)
    if info is not None and info.size != entry.size:
        raise FormatError(f"the segment {where} has {info.size} bytes where {entry.size} were written")
    data = store.get_range(entry.path, entry.size - tail.size, tail.size)
    if checksum_of(data) != tail.checksum:
        raise FormatError(f"the segment {where} fails its checksum: {remedy}")
    return data


def _with_own_words(part: pa.Table) -> pa.Table:
    """The rows of a table with dictionaries that hold only the values of these rows."""
    schema: Any = part.schema
    for place, field in enumerate(schema):
        if pa.types.is_dictionary(field.type):
            column: Any = part.column(place).cast(field.type.value_type).dictionary_encode()
            part = part.set_column(place, field, column.cast(field.type))
    return part


def written(table: pa.Table, options: dict[str, Any], groups: Sequence[int]) -> tuple[bytes, int]:
    """Write a table as such a segment, in row groups of these sizes; returns the file and the size of its tail."""
    sink = io.BytesIO()
    writer: Any = pq.ParquetWriter(sink, table.schema, **options)
    start = 0
    for rows in groups:
        part = table.slice(start, rows)
        writer.write_table(part if len(groups) == 1 else _with_own_words(part), row_group_size=max(rows, 1))
        start += rows
    body = sink.tell()
    writer.add_key_value_metadata({PIECES_KEY: piece_checksums(sink.getbuffer()[:body])})
    writer.close()
    data = sink.getvalue()
    return data, len(data) - body
