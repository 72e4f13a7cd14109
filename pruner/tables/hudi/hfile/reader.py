"""Lookups in an HFile by ranged reads: of one key, of many, or of all with a prefix.

Keys are in the order of their bytes or, as Hudi writes them, in that of Java's text, which is that of UTF-16:
characters beyond U+FFFF come before U+E000 to U+FFFF. Nothing in a file says which, so both positions are checked.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from pruner.errors import FormatError
from pruner.tables.hudi.hfile.blocks import (
    DATA,
    FILE_INFO,
    HEADER_BYTES,
    INNER_INDEX,
    MAX_BLOCK_BYTES,
    ROOT_INDEX,
    BlockIndexEntry,
    Codec,
    cells,
    cells_of,
    cells_starting,
    content_of,
    gathered,
    header_of,
    inner_entries,
    root_entries,
    row_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pruner.storage.store import Store


class ByteSource(Protocol):
    """Something with a size, of which ranges can be read. `name` is for messages."""

    @property
    def name(self) -> str:
        """The URI of the file."""
        ...

    @property
    def size(self) -> int:
        """The size in bytes."""
        ...

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range (start, length).

        Raises:
            FormatError: a range leads out of it.
            StorageError: it cannot be read.
        """
        ...


class Held:
    """Bytes in memory."""

    def __init__(self, name: str, data: bytes | memoryview) -> None:
        self.name = name
        self.size = len(data)
        self._data = memoryview(data)

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `ByteSource.read`."""
        return [bytes(self._data[start : start + length]) for start, length in _inside(self, ranges)]


class Stored:
    """A file in a store."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        self.name = f"{store.uri}/{path}"
        self.size = size
        self._store = store
        self._path = path

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `ByteSource.read`."""
        return self._store.get_ranges(self._path, list(_inside(self, ranges)))


class SourceSection:
    """A part of another source."""

    def __init__(self, whole: ByteSource, start: int, size: int) -> None:
        self.name = whole.name
        self.size = size
        self._whole = whole
        self._start = start

    def read(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `ByteSource.read`."""
        return self._whole.read([(self._start + start, length) for start, length in _inside(self, ranges)])


def _inside(source: ByteSource, ranges: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    for start, length in ranges:
        if start < 0 or length < 0 or start + length > source.size:
            raise FormatError(
                f"{source.name} names {length} bytes from {start} on, outside of its {source.size}"
            )
    return ranges


# The trailer of an HFile and its file info give the positions of everything else.
#
# The part of Protocol Buffers that HFiles need: messages of integers and byte strings (proto2 encoding).

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position after it.

    Raises:
        ValueError: there is none.
    """
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position
    raise ValueError("a number ends nowhere")


def delimited(data: bytes) -> bytes:
    """Return the message after its length.

    Raises:
        ValueError: it is cut short.
    """
    length, start = varint(data, 0)
    if start + length > len(data):
        raise ValueError("a message is cut short")
    return data[start : start + length]


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Return number and value of each field of a message, in order.

    Raises:
        ValueError: it is not a message.
    """
    described: list[tuple[int, int | bytes]] = []
    position = 0
    while position < len(message):
        tag, position = varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = varint(message, position)
            described.append((tag >> 3, value))
            continue
        if kind == _BYTES:
            length, position = varint(message, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a field has the unknown wire type {kind}")
        if position + length > len(message):
            raise ValueError("a field is cut short")
        described.append((tag >> 3, message[position : position + length]))
        position += length
    return described


TRAILER_BYTES = 4096
_MAGIC = b'TRABLK"$'
_VERSION = 3
_PROTOBUF_MAGIC = b"PBUF"
_MAX_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Trailer:
    """The trailer's content; offsets from the beginning of the file."""

    file_info: int
    load_on_open: int
    index_entries: int
    entries: int
    levels: int
    first_data_block: int
    codec: Codec


def trailer_of(data: bytes, size: int) -> Trailer:
    """Read the last bytes of a file.

    Args:
        data: the last `TRAILER_BYTES`.
        size: of the whole file.

    Raises:
        ValueError: this is not an HFile of a known version and compression.
    """
    if len(data) != TRAILER_BYTES or not data.startswith(_MAGIC):
        raise ValueError("it does not end with a trailer")
    version = int.from_bytes(data[-3:], "big")
    if version != _VERSION:
        raise ValueError(f"it is of version {version}, where {_VERSION} is read")
    numbers: dict[int, int] = {}
    encrypted = False
    for number, value in fields(delimited(data[len(_MAGIC) : -4])):
        if isinstance(value, int):
            numbers[number] = value
        encrypted |= number == 13
    if encrypted:
        raise ValueError("it is encrypted")
    codec = numbers.get(12, int(Codec.NONE))
    if codec not in tuple(Codec):
        raise ValueError(f"it is compressed by codec {codec}, where gzip and none are read")
    trailer = Trailer(
        file_info=numbers.get(1, 0),
        load_on_open=numbers.get(2, 0),
        index_entries=numbers.get(5, 0),
        entries=numbers.get(7, 0),
        levels=numbers.get(8, 1),
        first_data_block=numbers.get(9, 0),
        codec=Codec(codec),
    )
    last = size - TRAILER_BYTES
    if not (0 <= trailer.load_on_open <= trailer.file_info <= last and 1 <= trailer.levels <= _MAX_LEVELS):
        raise ValueError("its trailer names places that cannot be")
    return trailer


def file_info_of(content: bytes) -> dict[bytes, bytes]:
    """Read the content of the file info block.

    Raises:
        ValueError: it is not one.
    """
    if not content.startswith(_PROTOBUF_MAGIC):
        raise ValueError("its file info is of an unknown kind")
    info: dict[bytes, bytes] = {}
    for number, pair in fields(delimited(content[len(_PROTOBUF_MAGIC) :])):
        if number != 1 or not isinstance(pair, bytes):
            raise ValueError("its file info is of an unknown kind")
        entry = dict(fields(pair))
        key, value = entry.get(1, b""), entry.get(2, b"")
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise ValueError("its file info is of an unknown kind")
        info[key] = value
    return info


_TAIL_BYTES = 1 << 16
"""Bytes read first: the trailer, and usually index and file info with it."""

_BATCH_BYTES = 1 << 22
"""Bytes of blocks that a scan requests at once."""

_LAST_KEY = b"hfile.LASTKEY"
"""The entry of the file info with the last key, where the writer stored one."""

_MAX_TAIL_BYTES = 1 << 28
_MAX_INDEX_ENTRIES = 1 << 24


class HFile:
    """An HFile whose tail has been read. Threads may share it.

    Attributes:
        info: the entries of the file info.
        entries: the number of cells, as the trailer says.
        size: of the file in bytes.
    """

    def __init__(self, source: ByteSource) -> None:
        """Read the tail.

        Raises:
            FormatError: this is not an HFile that is read here.
            StorageError: it cannot be read.
        """
        self._source = source
        self.size = source.size
        try:
            self._open()
        except ValueError as error:
            raise self._damaged(error) from None

    def _open(self) -> None:
        size = self._source.size
        tail_start = max(0, size - _TAIL_BYTES)
        (tail,) = self._source.read([(tail_start, size - tail_start)])
        self._trailer = trailer = trailer_of(tail[-TRAILER_BYTES:], size)
        if trailer.load_on_open < tail_start:
            if size - trailer.load_on_open > _MAX_TAIL_BYTES:
                raise ValueError("its index is larger than is read")
            (before,) = self._source.read([(trailer.load_on_open, tail_start - trailer.load_on_open)])
            tail, tail_start = before + tail, trailer.load_on_open
        opened = tail[trailer.load_on_open - tail_start : -TRAILER_BYTES]
        info = opened[trailer.file_info - trailer.load_on_open :]
        self.info = file_info_of(content_of(info, trailer.codec, FILE_INFO))
        self.entries = trailer.entries
        if b"hfile.MAX_TAGS_LEN" in self.info:
            raise ValueError("its cells have tags")
        # Without gzip there may be no checksum, and the only check is a scan: the contents must be whole cells.
        self._checked = trailer.codec is Codec.GZIP
        self._versioned = self.info.get(b"KEY_VALUE_VERSION", b"") == b"\0\0\0\1"
        last = self.info.get(_LAST_KEY)
        self._last = row_of(last) if last else None
        if not 0 <= trailer.index_entries <= _MAX_INDEX_ENTRIES:
            raise ValueError("its trailer names an index that cannot be")
        if trailer.entries and not trailer.index_entries:
            raise ValueError("its index has no entries")
        root = content_of(opened, trailer.codec, ROOT_INDEX) if trailer.index_entries else b""
        self._root = self._ascending(root_entries(root, trailer.index_entries))

    def look_up(self, keys: Iterable[bytes], *, once: bool = False) -> dict[bytes, bytes]:
        """Return the value of each of some keys that is there, of the last cell where it has several.

        Args:
            keys: to look up.
            once: refuse a key that has several cells.

        Raises:
            FormatError: a block is damaged, or a key has several cells with `once`.
            StorageError: one cannot be read.
        """
        wanted = sorted(key for key in set(keys) if not self._is_behind(key))
        values: dict[bytes, bytes] = {}
        blocks: dict[BlockIndexEntry, set[bytes]] = {}
        for key, entry in self._blocks_of(wanted):
            blocks.setdefault(entry, set()).add(key)
        for entry, content in self._contents(list(blocks)):
            try:
                of_block = self._cells_of(content, blocks[entry], once=once)
                # In index order each key is looked up in two blocks at most.
                if once and not values.keys().isdisjoint(of_block):
                    raise ValueError("a key occurs in it twice")
                values.update(of_block)
            except ValueError as error:
                raise self._damaged(error) from None
        return values

    def _is_behind(self, key: bytes) -> bool:
        """Whether a key comes after the last one, in either order."""
        last = self._last
        return last is not None and key > last and _in_utf_16(key) > _in_utf_16(last)

    def _cells_of(self, content: bytes, rows: set[bytes], *, once: bool) -> dict[bytes, bytes]:
        if self._checked:
            return cells_of(content, rows, versioned=self._versioned, once=once)
        matching = (cell for cell in cells(content, versioned=self._versioned) if cell[0] in rows)
        return gathered(matching, once=once)

    def scan(self, *prefixes: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield each key that begins with one of some prefixes, or each key, and its value, in key order.

        Raises:
            FormatError: a block is damaged.
            StorageError: one cannot be read.
        """
        wanted = prefixes or (b"",)
        for _, content in self._contents(self._between(wanted)):
            try:
                yield from self._starting(content, wanted)
            except ValueError as error:
                raise self._damaged(error) from None

    def _starting(self, content: bytes, prefixes: tuple[bytes, ...]) -> Iterator[tuple[bytes, bytes]]:
        if self._checked:
            yield from cells_starting(content, prefixes, versioned=self._versioned)
            return
        for row, value in cells(content, versioned=self._versioned):
            if row.startswith(prefixes):
                yield row, value

    def _blocks_of(self, keys: list[bytes]) -> Iterator[tuple[bytes, BlockIndexEntry]]:
        """The blocks that can hold each key, level by level, reading each index block once."""
        pairs = _under(self._root, keys)
        for _ in range(1, self._trailer.levels):
            grouped: dict[BlockIndexEntry, list[bytes]] = {}
            for key, entry in pairs:
                grouped.setdefault(entry, []).append(key)
            inner = dict(self._index_blocks(list(grouped)))
            pairs = [pair for entry, below in grouped.items() for pair in _under(inner[entry], below)]
        yield from pairs

    def _between(self, prefixes: Sequence[bytes]) -> list[BlockIndexEntry]:
        """The data blocks that can hold keys with one of some prefixes, level by level, each index block read once."""
        level = _with_prefixes(self._root, prefixes)
        for _ in range(1, self._trailer.levels):
            below = [entry for _, entries in self._index_blocks(level) for entry in entries]
            if len(below) > _MAX_INDEX_ENTRIES:
                raise self._damaged("its index is larger than is read")
            level = _with_prefixes(self._ascending(below), prefixes)
        return level

    def _index_blocks(
        self, entries: list[BlockIndexEntry]
    ) -> Iterator[tuple[BlockIndexEntry, list[BlockIndexEntry]]]:
        for entry, content in self._contents(entries, *INNER_INDEX):
            try:
                yield entry, self._ascending(inner_entries(content))
            except ValueError as error:
                raise self._damaged(error) from None

    def _contents(
        self, entries: Sequence[BlockIndexEntry], *magics: bytes
    ) -> Iterator[tuple[BlockIndexEntry, bytes]]:
        """The contents of some blocks; neighbors are read together, a few megabytes at a time."""
        for batch in _batches(entries):
            ranges = [(entry.offset, entry.size) for entry in batch]
            if any(not HEADER_BYTES <= size <= MAX_BLOCK_BYTES for _, size in ranges):
                raise self._damaged("its index names a block that cannot be")
            for entry, block in zip(batch, self._source.read(ranges), strict=True):
                try:
                    if header_of(block).stored + HEADER_BYTES > entry.size:
                        raise ValueError("a block is larger than the index says")
                    yield entry, content_of(block, self._trailer.codec, *(magics or (DATA,)))
                except ValueError as error:
                    raise self._damaged(error) from None

    def _ascending(self, entries: list[BlockIndexEntry]) -> list[BlockIndexEntry]:
        if any(before.row > after.row for before, after in pairwise(entries)) and any(
            _in_utf_16(before.row) > _in_utf_16(after.row) for before, after in pairwise(entries)
        ):
            raise self._damaged("its index is out of order")
        return entries

    def _damaged(self, why: object) -> FormatError:
        return FormatError(f"the HFile {self._source.name} cannot be read: {why}")


def _under(entries: list[BlockIndexEntry], keys: list[bytes]) -> list[tuple[bytes, BlockIndexEntry]]:
    """The entries below which each key can be: one, or two where the orders differ."""
    rows = [entry.row for entry in entries]
    blocks = [(key, bisect_right(rows, key) - 1) for key in keys]
    either = [key for key in keys if _may_be_elsewhere(key)]
    if either:
        rows = list(map(_in_utf_16, rows))
        blocks += [(key, bisect_right(rows, _in_utf_16(key)) - 1) for key in either]
    return [(key, entries[place]) for key, place in dict.fromkeys(blocks) if place >= 0]


def _with_prefixes(entries: list[BlockIndexEntry], prefixes: Sequence[bytes]) -> list[BlockIndexEntry]:
    """The entries below which keys with one of some prefixes can be, in order."""
    rows = [entry.row for entry in entries]
    places = _places(rows, prefixes)
    either = [prefix for prefix in prefixes if _may_be_elsewhere(prefix)]
    if either:
        places |= _places(list(map(_in_utf_16, rows)), list(map(_in_utf_16, either)))
    return [entries[at] for at in sorted(places)]


def _places(rows: list[bytes], prefixes: Sequence[bytes]) -> set[int]:
    places: set[int] = set()
    for prefix in prefixes:
        first = max(0, bisect_right(rows, prefix) - 1)
        last = first
        while last < len(rows) and (last == first or rows[last].startswith(prefix)):
            places.add(last)
            last += 1
    return places


_FROM_U_E000 = 0xEE
_IN_UTF_16 = bytes.maketrans(b"\xee\xef", b"\xfe\xff")
"""In UTF-8 characters from U+E000 to U+FFFF begin with EE or EF, those beyond with F0 to F4."""


def _in_utf_16(key: bytes) -> bytes:
    """Bytes that compare as the text does in UTF-16."""
    return key.translate(_IN_UTF_16)


def _may_be_elsewhere(key: bytes) -> bool:
    """Whether a key can compare with another one differently by its bytes than in UTF-16."""
    return not key.isascii() and max(key) >= _FROM_U_E000


def _batches(entries: Sequence[BlockIndexEntry]) -> Iterator[list[BlockIndexEntry]]:
    batch: list[BlockIndexEntry] = []
    size = 0
    for entry in entries:
        if batch and size + entry.size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += entry.size
    if batch:
        yield batch
