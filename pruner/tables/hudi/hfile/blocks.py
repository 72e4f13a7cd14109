"""One block of an HFile: its header, its checksums, its content, and the cells in it.

Data blocks contain cells, index blocks index entries.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator
    from collections.abc import Set as AbstractSet

HEADER_BYTES = 33
MAX_BLOCK_BYTES = 1 << 28
"""Largest block content that is read; a block of one record is as large as the record."""

DATA = b"DATABLK*"
ROOT_INDEX = b"IDXROOT2"
INNER_INDEX = (b"IDXINTE2", b"IDXLEAF2")
FILE_INFO = b"FILEINF2"
_HEADER = struct.Struct(">8siiqBii")


class Codec(IntEnum):
    """How blocks are compressed, by HBase's ordinals; Hudi writes these two."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """`stored` counts the bytes after the header, checksums included; `data` those of the content."""

    magic: bytes
    stored: int
    content: int
    checksum: int
    bytes_per_checksum: int
    data: int


def header_of(block: bytes) -> BlockHeader:
    """Read the header of a block.

    Raises:
        ValueError: there is none, or it contradicts itself.
    """
    if len(block) < HEADER_BYTES:
        raise ValueError("a block is cut short")
    magic, stored, content, _, checksum, per, data_with_header = _HEADER.unpack_from(block)
    data = data_with_header - HEADER_BYTES
    if not (0 <= data <= stored <= MAX_BLOCK_BYTES and 0 <= content <= MAX_BLOCK_BYTES):
        raise ValueError("a block names sizes that cannot be")
    return BlockHeader(magic, stored, content, checksum, per, data)


def content_of(block: bytes, codec: Codec, *magics: bytes) -> bytes:
    """Return the content of a block that has one of some magics.

    Raises:
        ValueError: it is another block, is cut short, or fails a checksum.
    """
    header = header_of(block)
    if header.magic not in magics:
        raise ValueError(f"a block is called {header.magic!r} where {magics[0]!r} is expected")
    if len(block) < HEADER_BYTES + header.stored:
        raise ValueError("a block is cut short")
    _check(block, header)
    data = block[HEADER_BYTES : HEADER_BYTES + header.data]
    content = data if codec is Codec.NONE else _unzipped(data, header.content)
    if len(content) != header.content:
        raise ValueError(
            f"a block has {len(content)} bytes of content where its header says {header.content}"
        )
    return content


def _unzipped(data: bytes, size: int) -> bytes:
    """Decompress at most what the header promises; gzip's own checksum is verified."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        content = unzip.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"a block cannot be decompressed ({error})") from None
    if not unzip.eof or unzip.unused_data:
        raise ValueError("a block is no whole gzip stream")
    return content


def _check(block: bytes, header: BlockHeader) -> None:
    """Verify the checksums after the content, where the writer stored any."""
    if header.checksum == 0:
        return
    checksum = _CHECKSUMS.get(header.checksum)
    if checksum is None or header.bytes_per_checksum <= 0:
        raise ValueError(f"a block has checksums of the unknown kind {header.checksum}")
    end = HEADER_BYTES + header.data
    covered = memoryview(block)[:end]
    starts = range(0, end, header.bytes_per_checksum)
    sums = block[end : HEADER_BYTES + header.stored]
    if len(sums) != 4 * len(starts):
        raise ValueError("a block has another number of checksums than it needs")
    for number, start in enumerate(starts):
        expected = int.from_bytes(sums[4 * number : 4 * number + 4], "big")
        if checksum(covered[start : start + header.bytes_per_checksum]) != expected:
            raise ValueError("a block fails its checksum")


def _castagnoli_table() -> tuple[int, ...]:
    table: list[int] = []
    for value in range(256):
        remainder = value
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)


_CASTAGNOLI = _castagnoli_table()


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C, which HBase's own writer uses. Hudi's writes none, so speed matters little."""
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _CASTAGNOLI[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


_CHECKSUMS: dict[int, Callable[[bytes | memoryview], int]] = {1: zlib.crc32, 2: crc32c}
"""By HBase's ordinals (`ChecksumType`)."""


_LENGTHS = struct.Struct(">iih")
_ENTRY = struct.Struct(">qi")
_ROW_LENGTH_BYTES = 2
_MOST_ROW_BYTES = (1 << 15) - 1
_LONG_NUMBERS = 128
"""A first byte below this is a one-byte number in Hadoop's encoding."""

_KEY_AROUND_ROW = 12
"""Bytes of a key besides row, family and qualifier: lengths of row and family, time, type."""

_MOST_SEARCHED = 8
"""Maximum number of rows of one block that are searched for one by one, and of matches checked per row."""

_MOST_STARTING = 256
"""Up to this many matches of some row prefixes in a block, all other cells are skipped."""

_BEHIND_ROOT = (0, 16)
"""Bytes after the entries of a root index: an index of several levels has the position of its middle key there."""


class BlockIndexEntry(NamedTuple):
    """The position of a block, its header included, and a lower bound of its keys."""

    offset: int
    size: int
    row: bytes


def cells(content: bytes, *, versioned: bool) -> Iterator[tuple[bytes, bytes]]:
    """Yield row and value of each cell of a data block.

    Args:
        content: of the block.
        versioned: whether a number follows each value (`KEY_VALUE_VERSION` 1).

    Raises:
        ValueError: the content is not made of whole cells.
    """
    for start, row, value, end in _bounds(content, versioned, len(content)):
        yield content[start:row], content[value:end]


def cells_of(
    content: bytes, rows: AbstractSet[bytes], *, versioned: bool, once: bool = False
) -> dict[bytes, bytes]:
    """Return the value of each of some rows that a data block has, of the last cell where it has several.

    A row that does not occur as bytes, after its length, is not there. A value or another row can contain the same
    bytes, so where they do occur, the cells up to there are scanned.

    Args:
        content: of a block that is known to be as it was written.
        rows: to search for.
        versioned: see `cells`.
        once: refuse several cells of one row.

    Raises:
        ValueError: the content is not made of whole cells, or a row has several cells with `once`.
    """
    places = _searched(content, rows)
    if places is None:
        return gathered((cell for cell in cells(content, versioned=versioned) if cell[0] in rows), once=once)
    behind = max(places, default=0) - _LENGTHS.size + 1
    bounds = _bounds(content, versioned, behind, places)
    return gathered(((places[start], content[value:end]) for start, _, value, end in bounds), once=once)


def gathered(cells: Iterable[tuple[bytes, bytes]], *, once: bool) -> dict[bytes, bytes]:
    """Return the last value of each row; with `once` several of one row are refused.

    Raises:
        ValueError: a row has several.
    """
    values: dict[bytes, bytes] = {}
    for row, value in cells:
        if once and row in values:
            raise ValueError("a key occurs in it twice")
        values[row] = value
    return values


def cells_starting(
    content: bytes, prefixes: tuple[bytes, ...], *, versioned: bool
) -> Iterator[tuple[bytes, bytes]]:
    """Yield row and value of each cell of a data block whose row begins with one of some prefixes: see `cells_of`.

    Raises:
        ValueError: the content is not made of whole cells.
    """
    places = _places(content, prefixes, _MOST_STARTING) if len(prefixes) <= _MOST_SEARCHED else None
    behind = len(content) if places is None else max(places, default=0) - _LENGTHS.size + 1
    for start, end_of_row, value, end in _bounds(content, versioned, behind, places):
        row = content[start:end_of_row]
        if row.startswith(prefixes):
            yield row, content[value:end]


def _searched(content: bytes, rows: AbstractSet[bytes]) -> dict[int, bytes] | None:
    """The possible positions of some rows in a block; None where a scan of the cells is faster."""
    if len(rows) > _MOST_SEARCHED:
        return None
    values: dict[int, bytes] = {}
    for row in rows:
        if len(row) > _MOST_ROW_BYTES:
            continue
        places = _places(content, (len(row).to_bytes(_ROW_LENGTH_BYTES, "big") + row,), _MOST_SEARCHED)
        if places is None:
            return None
        values.update((place + _ROW_LENGTH_BYTES, row) for place in places)
    return values


def _places(content: bytes, parts: tuple[bytes, ...], most: int) -> set[int] | None:
    """Where any of some byte strings occur; None for more than `most` positions."""
    places: set[int] = set()
    for part in parts:
        at = content.find(part)
        while at >= 0:
            places.add(at)
            if len(places) > most:
                return None
            at = content.find(part, at + 1)
    return places


def _bounds(
    content: bytes, versioned: bool, until: int, only: Container[int] | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """Yield where row and value begin and end, for each cell that begins before a position.

    With `only`, for those whose row begins at one of some positions.
    """
    position, end = 0, len(content)
    unpack, size = _LENGTHS.unpack_from, _LENGTHS.size
    while position < until:
        if position + size > end:
            raise ValueError("a cell is cut short")
        key, value, row = unpack(content, position)
        start = position + size
        behind_key = start - _ROW_LENGTH_BYTES + key
        position = behind_key + value
        if row < 0 or value < 0 or key < row + _KEY_AROUND_ROW or position > end:
            raise ValueError("a cell names lengths that cannot be")
        if only is None or start in only:
            yield start, start + row, behind_key, position
        if versioned:
            # Nearly always a number of one byte.
            if position < end and content[position] < _LONG_NUMBERS:
                position += 1
            else:
                _, position = hadoop_number(content, position)


def root_entries(content: bytes, count: int) -> list[BlockIndexEntry]:
    """Read the entries of a root index block.

    Raises:
        ValueError: it does not have exactly that many: the count is in the trailer, which has no checksum.
    """
    entries: list[BlockIndexEntry] = []
    position = 0
    for _ in range(count):
        if position + _ENTRY.size > len(content):
            raise ValueError("an index is cut short")
        offset, size = _ENTRY.unpack_from(content, position)
        length, position = hadoop_number(content, position + _ENTRY.size)
        if not 0 <= length <= len(content) - position:
            raise ValueError("an index is cut short")
        entries.append(BlockIndexEntry(offset, size, row_of(content[position : position + length])))
        position += length
    if len(content) - position not in _BEHIND_ROOT:
        raise ValueError("its index has more entries than its trailer says")
    return entries


def inner_entries(content: bytes) -> list[BlockIndexEntry]:
    """Read the entries of an index block below the root.

    Raises:
        ValueError: it is damaged.
    """
    if len(content) < 4:
        raise ValueError("an index is cut short")
    count = int.from_bytes(content[:4], "big", signed=True)
    body = 4 + 4 * (count + 1)
    if count < 0 or body > len(content):
        raise ValueError("an index is cut short")
    places = struct.unpack_from(f">{count + 1}i", content, 4)
    entries: list[BlockIndexEntry] = []
    for start, end in pairwise(places):
        if not 0 <= start <= end - _ENTRY.size or body + end > len(content):
            raise ValueError("an index names places that cannot be")
        offset, size = _ENTRY.unpack_from(content, body + start)
        entries.append(
            BlockIndexEntry(offset, size, row_of(content[body + start + _ENTRY.size : body + end]))
        )
    return entries


def row_of(key: bytes) -> bytes:
    """The row at the beginning of a key.

    Raises:
        ValueError: the key is cut short.
    """
    length = int.from_bytes(key[:2], "big")
    if len(key) < 2 + length:
        raise ValueError("a key of an index is cut short")
    return key[2 : 2 + length]


def hadoop_number(data: bytes, position: int) -> tuple[int, int]:
    """Return a number in Hadoop's own encoding (`WritableUtils.readVLong`), and the position after it.

    Raises:
        ValueError: it is cut short.
    """
    if position >= len(data):
        raise ValueError("a number is cut short")
    first = data[position] - 256 if data[position] > 127 else data[position]
    if first >= -112:
        return first, position + 1
    negative = first < -120
    length = -120 - first if negative else -112 - first
    end = position + 1 + length
    if end > len(data):
        raise ValueError("a number is cut short")
    value = int.from_bytes(data[position + 1 : end], "big")
    return (~value if negative else value), end
