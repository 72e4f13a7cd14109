"""Reads one base file for the kernel: its footer at once, its columns on demand.

The content of a footer is passed on as written; index types decide whether it can be trusted.

The leaf columns of a Parquet schema are typed by the Parquet schema alone. A writer may store an Arrow schema beside it
(dictionaries, durations, zones); engines do not read it, so the types here come from physical and logical types only
(parquet-format, LogicalTypes.md).
"""

from __future__ import annotations

import io
import os
from collections import deque
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pruner.arrow import compute
from pruner.indexes.base import ChunkStatistics, LeafColumn, UndecodableError
from pruner.parquet_type import MAGIC
from pruner.schema import id_of_path
from pruner.storage.opening import open_for_arrow
from pruner.tables.footers.file_schemas import FIELD_ID, has_field_ids
from pruner.tables.footers.thrift import ThriftError, parquet_columns, read_schema, rewritten

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pruner.expr.bound.predicates import StorageValue
    from pruner.parquet_type import ParquetType
    from pruner.tables.footers.thrift import ParquetColumn

# Text columns are read as files hold them: a dictionary and, for each row, the position of its value in it.
#
# That is five to thirty times faster than creating every string. But Arrow's reader drops duplicate entries of a
# dictionary page and uses the rows' positions as if it had not, which yields other values than those in the file.
# So a page is trusted only if the reader returns as many entries as it states, of as many bytes (parquet-format,
# Encodings.md and parquet.thrift). Everything else is read as plain values.

_HEADER_BYTES = 128
"""A page header is far shorter, unless it holds statistics, which those of dictionaries do not."""

_LENGTH_BYTES = 4
"""Bytes of the length before each plain string."""

_LENGTH, _DICTIONARY = 2, 7
"""Fields of a page header: the page's uncompressed length, and the header of dictionary pages."""

_ENTRIES = 1
"""Field of the dictionary page header."""

_I32, _STRUCT = 5, 12
_BOOLEANS = (1, 2)


class DictionaryPage(NamedTuple):
    """The content of a dictionary page header: number of entries, and uncompressed bytes of the page."""

    entries: int
    length: int


def dictionary_pages(
    content: IO[bytes], metadata: pq.FileMetaData, leaf: LeafColumn
) -> list[DictionaryPage | None]:
    """The dictionary page of a column in each row group of a file; None if there is none."""
    chunks = [metadata.row_group(number).column(leaf.position) for number in range(metadata.num_row_groups)]
    return [_page(content, chunk.dictionary_page_offset) for chunk in chunks]


def _page(content: Any, offset: int | None) -> DictionaryPage | None:
    if not offset or offset < 0:
        return None
    content.seek(offset)
    try:
        return parse_header(content.read(_HEADER_BYTES))
    except (IndexError, ValueError):
        return None


def parse_header(data: bytes) -> DictionaryPage | None:
    """Read the header of a dictionary page (Thrift's compact protocol); None for that of another page.

    Raises:
        IndexError, ValueError: the bytes are not a page header.
    """
    header, _ = _struct(data, 0, depth=0)
    length, about = header.get(_LENGTH), header.get(_DICTIONARY)
    entries = cast("dict[int, Any]", about).get(_ENTRIES) if isinstance(about, dict) else None
    return DictionaryPage(entries, length) if isinstance(entries, int) and isinstance(length, int) else None


def _struct(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    struct: dict[int, Any] = {}
    field = 0
    while data[at]:
        kind, step = data[at] & 15, data[at] >> 4
        at += 1
        if step:
            field += step
        else:
            field, at = _integer(data, at)
        if kind in _BOOLEANS:
            struct[field] = kind == _BOOLEANS[0]
        elif kind == _I32:
            struct[field], at = _integer(data, at)
        elif kind == _STRUCT and depth == 0:
            struct[field], at = _struct(data, at, depth + 1)
        else:
            raise ValueError(f"a page header has no field of type {kind}")
    return struct, at + 1


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        at, shift = at + 1, shift + 7
        if data[at - 1] < 128:
            return (value >> 1) ^ -(value & 1), at


def read_encoded(
    file: pq.ParquetFile,
    pages: list[DictionaryPage | None],
    type_: pa.DataType,
    read: Callable[[pq.ParquetFile, int], Iterator[Any]],
    plain: Callable[[int], Iterator[pa.Array[Any]]],
) -> Iterator[Any]:
    """All values of a column in row order, dictionary-encoded.

    Args:
        file: opened so that the column is read as a dictionary.
        pages: the dictionary page of each row group.
        type_: type of the values.
        read: reads the parts of a row group from `file`.
        plain: reads the parts of a row group, decoded.
    """
    for group, page in enumerate(pages):
        done = 0
        for part in read(file, group) if page is not None else ():
            if not _is_whole(part, page, type_):
                break
            yield part
            done += len(part)
        if done < file.metadata.row_group(group).num_rows:
            for part in plain(group):
                skipped = min(done, len(part))
                done -= skipped
                if skipped < len(part):
                    yield cast("Any", part.slice(skipped)).dictionary_encode()


def _is_whole(part: Any, page: DictionaryPage | None, type_: pa.DataType) -> bool:
    """Tell whether the dictionary is the page's: no entry is missing, and pages of plain values added none."""
    if page is None or not pa.types.is_dictionary(part.type) or not part.type.value_type.equals(type_):
        return False
    dictionary = part.dictionary
    if len(dictionary) != page.entries:
        return False
    length = compute.sum(compute.binary_length(dictionary)).as_py() or 0
    return length + _LENGTH_BYTES * len(dictionary) == page.length


def leaf_columns(schema: pq.ParquetSchema, columns: Sequence[ParquetColumn]) -> list[LeafColumn]:
    """Return the leaf columns in their order.

    Args:
        schema: the schema of a file.
        columns: the top-level columns of the same schema, as in the footer.

    Raises:
        ValueError: the Arrow form of the schema does not have the same leaves (a broken footer).
    """
    leaves = list(_leaves((), list(schema.to_arrow_schema()), repeated=False))
    types = [leaf.type for column in columns for leaf in column.leaves()]
    if not len(leaves) == len(types) == len(schema):
        raise ValueError(f"its schema has {len(schema)} columns, in Arrow's form {len(leaves)}")
    return [_leaf(schema.column(i), i, types[i], *leaves[i]) for i in range(len(leaves))]


def _leaf(
    column: pq.ColumnSchema,
    position: int,
    parquet: ParquetType,
    path: tuple[str, ...],
    field_id: int | None,
    repeated: bool,
) -> LeafColumn:
    if parquet.physical == "INT96":
        return LeafColumn(
            path, position, pa.timestamp("us"), "int96", field_id, repeated, int96=True, parquet=parquet
        )
    type_ = parquet.arrow
    text = str(type_) if type_ is not None else str(parquet)
    repeated = repeated or column.max_repetition_level > 0
    return LeafColumn(path, position, type_, text, field_id, repeated, parquet=parquet)


def _leaves(
    parent: tuple[str, ...], fields: Iterable[Any], *, repeated: bool
) -> Iterator[tuple[tuple[str, ...], int | None, bool]]:
    """Path, field id and whether repeated, for each leaf in the order of Parquet's columns."""
    for entry in fields:
        path = (*parent, entry.name)
        type_ = entry.type
        while isinstance(type_, pa.BaseExtensionType):
            type_ = type_.storage_type
        if pa.types.is_struct(type_):
            yield from _leaves(path, _children(type_), repeated=repeated)
        elif pa.types.is_nested(type_):
            yield from _leaves(path, _children(type_), repeated=True)
        else:
            yield path, _field_id(entry.metadata), repeated


def _children(type_: Any) -> list[Any]:
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    return [type_.field(position) for position in range(type_.num_fields)]


def _field_id(metadata: Mapping[bytes, bytes] | None) -> int | None:
    text = (metadata or {}).get(FIELD_ID)
    return None if text is None or int(text) < 0 else int(text)


Mapped: TypeAlias = tuple[tuple[str, ...], ...]
"""The paths by which files without field ids may hold a column: see `Field.mapped`."""

_NOTHING_MAPPED: Final = MappingProxyType[tuple[str, ...], Mapped]({})

BATCH_ROWS = 1 << 17
"""Most rows of a column in memory at once."""

CHUNK_BYTES = 8 * 1024**3
"""Largest column chunk, uncompressed, that is read; more indicates a broken footer."""

_TAIL_BYTES = 64 * 1024
"""Bytes read from the end of a local file, which contain nearly every footer."""

_TRAILER = 8
"""Bytes after the footer: its length and the magic number."""

_INT96_SECONDS = 9_223_372_036_000
"""Largest distance from 1970, in seconds, at which microseconds fit into 64 bits."""


class _Leaves:
    """The leaf columns of one Parquet schema by path; `prefix` are the first bytes of footers with this schema."""

    def __init__(self, schema: pq.ParquetSchema, footer: bytes) -> None:
        elements, end = read_schema(footer)
        self.prefix = footer[:end]
        self.all = leaf_columns(schema, parquet_columns(elements))
        self.by_path: dict[tuple[str, ...], list[LeafColumn]] = {}
        self.by_lower: dict[tuple[str, ...], list[LeafColumn]] = {}
        self.by_stem: dict[tuple[str, ...], list[LeafColumn]] = {}
        self.by_id: dict[int, list[LeafColumn]] = {}
        self.alike: dict[tuple[tuple[str, ...], int | None, Mapped | None], tuple[LeafColumn, ...]] = {}
        self.has_ids = has_field_ids(cast("Iterable[Any]", schema.to_arrow_schema()))
        self.texts = [each.path[0] for each in self.all if len(each.path) == 1 and each.type == pa.string()]
        self.by_stem_as_written: set[tuple[str, ...]] = set()
        for leaf in self.all:
            self.by_path.setdefault(leaf.path, []).append(leaf)
            lower = tuple(part.lower() for part in leaf.path)
            self.by_lower.setdefault(lower, []).append(leaf)
            for length in range(1, len(lower)):
                self.by_stem.setdefault(lower[:length], []).append(leaf)
                self.by_stem_as_written.add(leaf.path[:length])
            if leaf.field_id is not None:
                self.by_id.setdefault(leaf.field_id, []).append(leaf)

    def at(self, path: tuple[str, ...], mapped: Mapped | None) -> LeafColumn | None:
        """The (first) leaf column at a path: see `Footer.leaf`."""
        wanted = id_of_path(path)
        if wanted is None:
            return next(iter(self.by_path.get(path, ())), None)
        if self.has_ids or not self.all:
            return next(iter(self.by_id.get(wanted, ())), None)
        if mapped is None:
            raise ValueError("its columns have no field ids, by which the table finds them")
        leaves = [leaf for path in mapped for leaf in self.by_path.get(path, ())]
        if len(leaves) > 1:
            raise ValueError(f"by the table's name mapping it has the column {len(leaves)} times")
        if not leaves and any(path in self.by_stem_as_written for path in mapped):
            raise ValueError("it has a struct, list or map in place of the column")
        return leaves[0] if leaves else None

    def others(
        self, path: tuple[str, ...], field_id: int | None, mapped: Mapped | None
    ) -> tuple[LeafColumn, ...]:
        """Leaf columns that may be confused with the one at a path: see `Footer.alike`."""
        this = self.at(path, mapped)
        wanted = id_of_path(path)
        if wanted is not None:
            return tuple(leaf for leaf in self.by_id.get(wanted, ()) if leaf is not this)
        lower = tuple(part.lower() for part in path)
        leaves = [*self.by_lower.get(lower, ()), *self.by_stem.get(lower, ())]
        for length in range(1, len(lower)):
            leaves += self.by_lower.get(lower[:length], ())
        if field_id is not None:
            leaves += self.by_id.get(field_id, ())
        others = dict.fromkeys(leaf for leaf in leaves if leaf is not this)
        if this is not None and field_id is not None and this.field_id not in (None, field_id):
            others[this] = None  # its id is that of another column
        return tuple(others)


_recent: deque[_Leaves] = deque(maxlen=8)
"""Files of a table mostly have one schema, and comparing two schemas costs far less than parsing one."""


def _leaves_of(metadata: pq.FileMetaData, footer: bytes) -> _Leaves:
    for position, known in enumerate(tuple(_recent)):
        if footer.startswith(known.prefix):
            if position:
                _recent.appendleft(known)  # keeps what is in use; duplicates do no harm
            return known
    try:
        leaves = _Leaves(metadata.schema, footer)
    except ThriftError:
        # The footer's fields are in another order.
        leaves = _Leaves(metadata.schema, rewritten(metadata))
    _recent.appendleft(leaves)
    return leaves


class Footer:
    """A parsed footer: see `pruner.indexes.base.ParquetFooter`."""

    def __init__(
        self, metadata: pq.FileMetaData, content: bytes, mapped: Mapping[tuple[str, ...], Mapped]
    ) -> None:
        self._metadata = metadata
        self._mapped = mapped
        self._content = content
        self._groups = [metadata.row_group(position) for position in range(metadata.num_row_groups)]
        self.created_by: str = metadata.created_by or ""
        self.row_count: int = metadata.num_rows
        if self.row_count < 0 or self.row_count != sum(group.num_rows for group in self._groups):
            raise ValueError("its footer counts other rows than its row groups do")

    @property
    def key_values(self) -> Mapping[bytes, bytes]:
        """The key-value metadata."""
        return self._metadata.metadata or {}

    @cached_property
    def _leaves(self) -> _Leaves:
        return _leaves_of(self._metadata, self._content)

    def leaf(self, path: tuple[str, ...]) -> LeafColumn | None:
        """The (first) leaf column at exactly this path, or None.

        Raises:
            ValueError: the path is by field id, but the file has no field ids and no name mapping says which column it
                is, or it matches several columns.
        """
        return self._leaves.at(path, self._mapped.get(path))

    def alike(self, path: tuple[str, ...], field_id: int | None) -> tuple[LeafColumn, ...]:
        """Leaf columns that an engine may confuse with this one: see `pruner.indexes.base.ParquetFooter`."""
        known, asked = self._leaves.alike, (path, field_id, self._mapped.get(path))
        if asked not in known:
            known[asked] = self._leaves.others(*asked)
        return known[asked]

    @property
    def texts(self) -> list[str]:
        """The names of the top-level text columns."""
        return self._leaves.texts

    def chunks(self, leaf: LeafColumn) -> Sequence[ChunkStatistics]:
        """The footer's statistics of a leaf column, one entry for each row group."""
        return [_chunk(group, leaf) for group in self._groups]

    def filter_offsets(self, leaf: LeafColumn) -> Sequence[int | None]:
        """The offset of the Bloom filter of a leaf column in the file, for each row group; None if it has none."""
        columns: Any = (group.column(leaf.position) for group in self._groups)
        return [column.bloom_filter_offset for column in columns]


def _chunk(group: Any, leaf: LeafColumn) -> ChunkStatistics:
    column = group.column(leaf.position)
    if not 0 <= column.total_uncompressed_size <= CHUNK_BYTES:
        raise ValueError(
            f"its footer names a chunk of {column.total_uncompressed_size} bytes for {'.'.join(leaf.path)}"
        )
    statistics = column.statistics
    if statistics is None:
        return ChunkStatistics(group.num_rows, column.num_values, None, None, None)
    low = high = None
    if statistics.has_min_max and leaf.type is not None and not leaf.int96:
        low, high = storage_value(statistics.min_raw, leaf.type), storage_value(statistics.max_raw, leaf.type)
    nulls = statistics.null_count if statistics.has_null_count else None
    return ChunkStatistics(group.num_rows, column.num_values, nulls, low, high)


def storage_value(raw: Any, type_: pa.DataType) -> StorageValue | None:
    """Convert a footer's bound of the physical type to the storage domain of `type_`; None if that has no order.

    Signed and unsigned integers are stored as signed ones, decimals as big-endian two's complement (parquet-format,
    LogicalTypes.md).
    """
    types = pa.types
    if types.is_unsigned_integer(type_):
        return raw & ((1 << max(type_.bit_width, 32)) - 1)
    if types.is_decimal(type_):
        return int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
    return None if types.is_null(type_) else raw


class FileReader:
    """One base file: see `pruner.indexes.base.SliceReader`. Use as a context manager.

    With `source` the content is read from there, and the URI is only its name. `mapped` has the paths of columns in
    files without field ids, keyed by the paths with which they are requested: see `Field.mapped`.
    """

    def __init__(
        self,
        uri: str,
        size: int | None = None,
        storage_options: Mapping[str, str] | None = None,
        mapped: Mapping[tuple[str, ...], Mapped] = _NOTHING_MAPPED,
        *,
        source: pa.NativeFile | None = None,
    ) -> None:
        self.name = uri
        self._source = open_for_arrow(uri, size, storage_options or {}) if source is None else source
        self._metadata, content, self._whole, opened = _footer_of(self._source)
        if opened is not None:
            self._file = opened
        self.footer = Footer(self._metadata, content, mapped)
        self._chunks: set[tuple[int, int]] = set()

    @property
    def bytes_read(self) -> int:
        """Bytes of the file that were needed so far: its footer, and the requested column chunks as stored."""
        of_chunks = (
            self._metadata.row_group(group).column(position).total_compressed_size
            for group, position in self._chunks
        )
        return self._metadata.serialized_size + _TRAILER + sum(of_chunks)

    @cached_property
    def _file(self) -> pq.ParquetFile:
        """The file, opened when values are requested: reading only the footer takes less than half the time."""
        return self._opened()

    @cached_property
    def _encoded_file(self) -> pq.ParquetFile:
        """The file, opened so that text columns are read as dictionaries, which must be checked before use."""
        return self._opened(read_dictionary=self.footer.texts)

    def _opened(self, **how: Any) -> pq.ParquetFile:
        source: Any = self._source if self._whole is None else pa.BufferReader(self._whole)
        return pq.ParquetFile(source, metadata=self._metadata, **how)

    def __enter__(self) -> FileReader:
        return self

    def __exit__(self, *_: object) -> None:
        if "_file" in self.__dict__:
            self._file.close(force=True)

    def batches(self, leaf: LeafColumn) -> Iterator[pa.Array[Any]]:
        """All values of a leaf column in row order, in parts; NULL where a parent struct is NULL.

        Raises:
            UndecodableError: a value does not fit the type.
            ValueError: the column is in a list or map, or of a type that no index supports.
        """
        if leaf.repeated or leaf.type is None:
            raise ValueError(
                f"column {'.'.join(leaf.path)} of type {leaf.type_text} has no single value for each row"
            )
        if leaf.int96:
            return self._int96(leaf)
        return (_plain(array, leaf.type) for array in self._read(self._file, leaf))

    def encoded(self, leaf: LeafColumn) -> Iterator[Any]:
        """The values of `batches`, dictionary-encoded: see `pruner.indexes.base.SliceReader`.

        Raises:
            UndecodableError, ValueError: as `batches` does.
        """
        # From an object store, the header of every dictionary page would be one more request.
        local = isinstance(self._source, str)
        (_, *below) = leaf.path
        if not local or leaf.repeated or leaf.int96 or below or leaf.type != pa.string():
            return (cast("Any", array).dictionary_encode() for array in self.batches(leaf))

        def plain(group: int) -> Iterator[pa.Array[Any]]:
            return (_plain(array, pa.string()) for array in self._read(self._file, leaf, [group]))

        with (
            Path(str(self._source)).open("rb") if self._whole is None else io.BytesIO(self._whole) as content
        ):
            pages = dictionary_pages(content, self._metadata, leaf)
        return read_encoded(
            self._encoded_file,
            pages,
            pa.string(),
            lambda file, group: self._read(file, leaf, [group]),
            plain,
        )

    def _int96(self, leaf: LeafColumn) -> Iterator[pa.Array[Any]]:
        # A decoder with too fine a unit silently wraps around, so the range is checked in seconds first.
        for array in self._read(self._reopened("s"), leaf):
            extremes = pc.min_max(array.cast(pa.int64()))
            low, high = extremes["min"].as_py(), extremes["max"].as_py()
            if low is not None and not -_INT96_SECONDS < low <= high < _INT96_SECONDS:
                raise UndecodableError(
                    f"INT96 timestamps in {'.'.join(leaf.path)} lie outside 64-bit microseconds"
                )
        return self._read(self._reopened("us"), leaf)

    def _reopened(self, unit: str) -> pq.ParquetFile:
        return self._opened(coerce_int96_timestamp_unit=unit)

    def _read(
        self, file: pq.ParquetFile, leaf: LeafColumn, groups: list[int] | None = None
    ) -> Iterator[pa.Array[Any]]:
        # pyarrow selects columns by dotted name, which can match several; the right one is then found by its real path.
        reader = cast("Any", file)
        name = ".".join(leaf.path)
        asked = range(self._metadata.num_row_groups) if groups is None else groups
        self._chunks.update((group, leaf.position) for group in asked)
        for batch in reader.iter_batches(BATCH_ROWS, row_groups=groups, columns=[name], use_threads=False):
            array = batch.column(_only(batch.schema.names, leaf.path[0]))
            for part in leaf.path[1:]:
                position = _only([array.type.field(i).name for i in range(array.type.num_fields)], part)
                array = array.flatten()[position]
            yield array


class _Found(NamedTuple):
    """A footer, parsed and as raw bytes: Arrow fills in what a writer left out.

    If the whole file was read with it, also its bytes and the opened file.
    """

    metadata: pq.FileMetaData
    content: bytes
    whole: bytes | None = None
    opened: pq.ParquetFile | None = None


def _footer_of(source: str | pa.NativeFile) -> _Found:
    tail, length, is_whole = _local_tail(source) if isinstance(source, str) else (b"", 0, False)
    if length:
        content = tail[-_TRAILER - length : -_TRAILER]
        if is_whole:
            opened = pq.ParquetFile(pa.BufferReader(tail))
            return _Found(opened.metadata, content, tail, opened)
        footer_alone = pa.BufferReader(MAGIC + content + tail[-_TRAILER:])
        return _Found(pq.ParquetFile(footer_alone).metadata, content)
    metadata = pq.ParquetFile(source).metadata
    if isinstance(source, str):
        raise ValueError("it does not end as Parquet files do")
    source.seek(source.size() - _TRAILER - metadata.serialized_size)
    return _Found(metadata, source.read(metadata.serialized_size))


def _local_tail(path: str) -> tuple[bytes, int, bool]:
    """The end of a local file, the length of the footer in it (0 if the file does not end as Parquet files do), and
    whether this is the whole file.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size = os.fstat(descriptor).st_size
        start = max(0, size - _TAIL_BYTES)
        tail = os.pread(descriptor, size - start, start)
        length = int.from_bytes(tail[-_TRAILER:-4], "little")
        if tail[-4:] != MAGIC or not 0 < length <= size - _TRAILER - len(MAGIC):
            return b"", 0, False
        if length > len(tail) - _TRAILER:
            tail = os.pread(descriptor, length + _TRAILER, size - _TRAILER - length)
        return tail, length, len(tail) == size
    finally:
        os.close(descriptor)


def _only(names: list[str], name: str) -> int:
    if names.count(name) != 1:
        raise ValueError(f"column {name!r} stands {names.count(name)} times in the file")
    return names.index(name)


def _plain(array: Any, type_: pa.DataType) -> pa.Array[Any]:
    """Remove what the stored Arrow schema adds to the values (dictionaries, zones, extension types)."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return array if array.type.equals(type_) else array.cast(type_)
