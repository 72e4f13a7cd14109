"""Pages: a segment with sorted records that is read a few thousand records at a time, by byte ranges.

Each page is a row group of the segment's Parquet file. A second segment, the directory, has a row for each page: where
it begins and ends, checksums of its bytes, and the keys of its first and last record. It also holds the footer of the
Parquet file. So a reader needs only the directory and the pages that it asks for. What it reads is verified like
everything (R10): the directory by the checksum in the log, the pages by those in the directory.

The columns that are read only when rows are asked for come last, so that the others of a page are one byte range.

Also a file of which only some byte ranges were read, for a Parquet reader that needs no others.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from pruner.arrow import as_numpy
from pruner.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.metadata.state import SegmentEntry
    from pruner.storage.store import Store

    Integers = NDArray[np.int64]


class PartialFile(io.RawIOBase):
    """A file of which only some pieces are present; reading elsewhere is an OSError.

    Args:
        starts: where each piece begins, ascending.
        pieces: their bytes.
        size: size of the whole file.
    """

    def __init__(self, starts: list[int], pieces: list[bytes], size: int) -> None:
        super().__init__()
        self._starts = starts
        self._pieces = pieces
        self._size = size
        self._at = 0

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """Where the next read begins."""
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position of the next read."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Read bytes that are within one piece."""
        number = bisect_right(self._starts, self._at) - 1
        start = self._at - self._starts[number] if number >= 0 else 0
        data = self._pieces[number][start : start + size] if number >= 0 and size >= 0 else b""
        if len(data) != size:
            raise OSError("these bytes were not read")
        self._at += size
        return data


def read_in_memory(
    source: PartialFile, metadata: Any, row_groups: Sequence[int], names: Sequence[str]
) -> pa.Table:
    """Read columns of some row groups of a Parquet file, by the calling thread alone.

    With `pre_buffer`, Arrow's threads would copy the bytes first. One that lets go of the file only when Python ends
    aborts the process (arrow#34314).

    Raises:
        pyarrow.ArrowException, OSError: the bytes do not fit the metadata, or are not present.
    """
    parquet: Any = pq  # its stubs leave types open
    file = parquet.ParquetFile(
        pa.PythonFile(cast("Any", source), mode="r"), metadata=metadata, pre_buffer=False
    )
    return file.read_row_groups(list(row_groups), columns=list(names), use_threads=False)


PAGES = "pages"
"""The partition of the metadata table that holds the directories."""

PAGE_RECORDS = 8192
"""Most records of a page. A page of text that does not repeat then has about 200 KB."""

PAGED_FROM = 4 * PAGE_RECORDS
"""Fewest records of a segment that is written in pages; a smaller one is read as a whole."""

DIRECTORY_COLUMNS = pa.schema(
    [
        pa.field("__records", pa.int32(), nullable=False),
        pa.field("__leading", pa.bool_(), nullable=False),
        pa.field("__start", pa.int64(), nullable=False),
        pa.field("__bytes", pa.int64(), nullable=False),
        pa.field("__checksum", pa.binary(16), nullable=False),
        pa.field("__deferred_start", pa.int64(), nullable=False),
        pa.field("__deferred_bytes", pa.int64(), nullable=False),
        pa.field("__deferred_checksum", pa.binary(16), nullable=False),
        pa.field("__footer", pa.binary()),  # of the segment, only in the first row
    ]
)
"""Columns of a directory; they are followed by the keys, as `first_<name>` and `last_<name>`."""

parquet: Any = pq  # its stubs lack some options
_MAGIC = b"PAR1"
_FOOTER_TAIL = 8


class PageLayout(NamedTuple):
    """How a segment is cut into pages: the first record of each page, the columns by which records are sorted, and the
    deferred columns. The first `leading` pages have a record of every slice of which the segment has records.
    """

    starts: Integers
    leading: int
    keys: tuple[str, ...]
    deferred: tuple[str, ...]


def page_starts(new: NDArray[np.bool_]) -> Integers:
    """Where pages start, given the records at which a page must start."""
    begins = np.flatnonzero(new)
    behind = np.append(begins[1:], len(new))
    bounds = zip(begins, behind, strict=True)
    parts: list[Any] = [np.arange(int(start), int(end), PAGE_RECORDS) for start, end in bounds]
    return np.concatenate([np.empty(0, np.int64), *parts])


def write_pages(table: pa.Table, layout: PageLayout) -> tuple[bytes, pa.Table]:
    """Return the Parquet file of a segment in pages, and its directory."""
    plain = [name for name in table.column_names if name not in layout.deferred]
    table = table.select([*plain, *layout.deferred])
    ends = np.append(layout.starts[1:], table.num_rows)
    sink = pa.BufferOutputStream()
    options = {"compression": "zstd", "use_dictionary": False, "write_statistics": list(layout.keys)}
    with parquet.ParquetWriter(sink, table.schema, write_page_checksum=True, **options) as writer:
        for start, end in zip(layout.starts.tolist(), ends.tolist(), strict=True):
            writer.write_table(table.slice(start, end - start), row_group_size=PAGE_RECORDS)
    data = sink.getvalue().to_pybytes()
    return data, _directory(data, table, layout, ends, len(plain))


def _directory(data: bytes, table: pa.Table, layout: PageLayout, ends: Integers, plain: int) -> pa.Table:
    length = int.from_bytes(data[-_FOOTER_TAIL:-4], "little") + _FOOTER_TAIL
    metadata: Any = parquet.read_metadata(pa.BufferReader(data))
    view = memoryview(data)
    ranges = [_ranges(metadata.row_group(page), plain) for page in range(metadata.num_row_groups)]
    columns: dict[str, Any] = {
        "__records": (ends - layout.starts).astype(np.int32),
        "__leading": np.arange(len(ends)) < layout.leading,
        "__footer": [data[-length:], *[None] * (len(ranges) - 1)],
    }
    for number, prefix in enumerate(("__", "__deferred_")):
        starts, sizes = zip(*(span[number] for span in ranges), strict=True)
        columns[f"{prefix}start"], columns[f"{prefix}bytes"] = starts, sizes
        columns[f"{prefix}checksum"] = [
            _checksum(view[start : start + size]) for start, size in zip(starts, sizes, strict=True)
        ]
    arrays: list[Any] = [
        pa.array(columns[field.name], field.type) for field in cast("Any", DIRECTORY_COLUMNS)
    ]
    directory = pa.Table.from_arrays(arrays, schema=DIRECTORY_COLUMNS)
    for prefix, at in (("first_", layout.starts), ("last_", ends - 1)):
        for name in layout.keys:
            keys = table.column(name).combine_chunks().take(pa.array(at, pa.int64()))
            directory = directory.append_column(prefix + name, keys)
    return directory


def _ranges(group: Any, plain: int) -> list[tuple[int, int]]:
    """Start and length of the plain columns and of the deferred columns of a row group."""
    starts: list[int] = []
    ends: list[int] = []
    for number in range(group.num_columns):
        chunk = group.column(number)
        starts.append(min(filter(None, (chunk.dictionary_page_offset, chunk.data_page_offset))))
        ends.append(starts[-1] + chunk.total_compressed_size)
    parts = [slice(0, plain), slice(plain, None)]
    return [(starts[part][0], ends[part][-1] - starts[part][0]) for part in parts]


def _checksum(data: bytes | memoryview) -> bytes:
    return xxhash.xxh3_128_digest(data)


class PagedSegment:
    """A segment that is read by pages. Its directory was read and verified; threads may share it.

    Attributes:
        entry: the entry of the segment.
        names: its columns.
        records: number of records of each page.
        leading: the pages that together have a record of every slice.
        sizes: bytes of each page without the deferred columns.
        deferred_sizes: bytes of the deferred columns of each page.
        firsts: the keys of the first record of each page, by the names of the segment's columns.
        lasts: the keys of the last record of each page.
    """

    def __init__(self, store: Store, entry: SegmentEntry, directory: pa.Table) -> None:
        """Read a segment by its directory.

        Raises:
            FormatError: the directory is not what this version writes, or belongs to another segment.
        """
        self.entry = entry
        self._store = store
        self._check(directory)
        self.records = as_numpy(directory.column("__records")).astype(np.int64)
        self.leading: list[int] = np.flatnonzero(as_numpy(directory.column("__leading"))).tolist()
        self.sizes = as_numpy(directory.column("__bytes"))
        self.deferred_sizes = as_numpy(directory.column("__deferred_bytes"))
        self.firsts, self.lasts = (_keys(directory, prefix) for prefix in ("first_", "last_"))
        self._plain = _Part(directory, "__")
        self._deferred = _Part(directory, "__deferred_")
        footer = cast("bytes", directory.column("__footer")[0].as_py())
        try:
            self._metadata: Any = parquet.read_metadata(pa.BufferReader(_MAGIC + footer))
        except (pa.ArrowException, OSError):
            raise self._wrong() from None
        if self._metadata.num_row_groups != len(self.records) or self._metadata.num_rows != entry.rows:
            raise self._wrong()
        self.names: tuple[str, ...] = tuple(self._metadata.schema.to_arrow_schema().names)
        self.nbytes = directory.nbytes + 2 * len(footer)

    def _check(self, directory: pa.Table) -> None:
        described = directory.select(directory.column_names[: len(DIRECTORY_COLUMNS)]).schema
        known = (described.names, described.types) == (DIRECTORY_COLUMNS.names, DIRECTORY_COLUMNS.types)
        if not known or not directory.num_rows or not directory.column("__footer")[0].is_valid:
            raise self._wrong()

    def _wrong(self) -> FormatError:
        where = f"{self._store.uri}/{self.entry.path}"
        return FormatError(
            f"the directory of the segment {where} is about another one: create the index anew"
        )

    def read(self, pages: Sequence[int], names: Sequence[str], *, deferred: bool = False) -> pa.Table:
        """Return columns of the records of some ascending pages, either plain or deferred columns.

        Raises:
            NotFoundError: the segment does not exist (any more).
            FormatError: its bytes are not those that were committed.
            StorageError: it cannot be read.
        """
        part = self._deferred if deferred else self._plain
        ranges = [part.range(page) for page in pages]
        pieces = self._store.get_ranges(self.entry.path, ranges) if ranges else []
        where = f"{self._store.uri}/{self.entry.path}"
        for page, piece in zip(pages, pieces, strict=True):
            if _checksum(piece) != part.checksums[page]:
                raise FormatError(
                    f"page {page} of the segment {where} fails its checksum: "
                    "drop the index and create it again"
                )
        source = PartialFile([start for start, _ in ranges], pieces, self.entry.size)
        try:
            return read_in_memory(source, self._metadata, pages, names)
        except (pa.ArrowException, OSError):
            raise FormatError(
                f"the segment {where} cannot be read by its directory: create the index anew"
            ) from None


class _Part:
    """Where the plain or the deferred columns of each page are."""

    def __init__(self, directory: pa.Table, prefix: str) -> None:
        columns: Any = directory
        self._starts: list[int] = columns.column(f"{prefix}start").to_pylist()
        self._sizes: list[int] = columns.column(f"{prefix}bytes").to_pylist()
        self.checksums: list[bytes] = columns.column(f"{prefix}checksum").to_pylist()

    def range(self, page: int) -> tuple[int, int]:
        return self._starts[page], self._sizes[page]


def _keys(directory: pa.Table, prefix: str) -> pa.Table:
    names = [name for name in directory.column_names if name.startswith(prefix)]
    return directory.select(names).rename_columns([name.removeprefix(prefix) for name in names])
