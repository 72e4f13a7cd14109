"""What stands in data blocks and index blocks: cells and index entries."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_LENGTHS = struct.Struct(">iih")
_ENTRY = struct.Struct(">qi")
_KEY_AROUND_ROW = 12
"""Bytes of a key besides row, family and qualifier: lengths of row and family, time, type."""

_BEHIND_ROOT = (0, 16)
"""Bytes behind the entries of a root index: in one of several levels stands there where the middle key is."""


class IndexEntry(NamedTuple):
    """Where a block stands, its header included, and a key that none in it is below."""

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
    position, end = 0, len(content)
    while position < end:
        if position + _LENGTHS.size > end:
            raise ValueError("a cell is cut short")
        key, value, row = _LENGTHS.unpack_from(content, position)
        start = position + _LENGTHS.size
        behind_key = start - 2 + key
        position = behind_key + value
        if row < 0 or value < 0 or key < row + _KEY_AROUND_ROW or position > end:
            raise ValueError("a cell names lengths that cannot be")
        yield content[start : start + row], content[behind_key:position]
        if versioned:
            _, position = hadoop_number(content, position)


def root_entries(content: bytes, count: int) -> list[IndexEntry]:
    """Read the entries of a root index block.

    Raises:
        ValueError: it has not exactly that many: the count stands in the trailer, which has no checksum.
    """
    found: list[IndexEntry] = []
    position = 0
    for _ in range(count):
        if position + _ENTRY.size > len(content):
            raise ValueError("an index is cut short")
        offset, size = _ENTRY.unpack_from(content, position)
        length, position = hadoop_number(content, position + _ENTRY.size)
        if not 0 <= length <= len(content) - position:
            raise ValueError("an index is cut short")
        found.append(IndexEntry(offset, size, _row(content[position : position + length])))
        position += length
    if len(content) - position not in _BEHIND_ROOT:
        raise ValueError("its index has more entries than its trailer says")
    return found


def inner_entries(content: bytes) -> list[IndexEntry]:
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
    found: list[IndexEntry] = []
    for start, end in pairwise(places):
        if not 0 <= start <= end - _ENTRY.size or body + end > len(content):
            raise ValueError("an index names places that cannot be")
        offset, size = _ENTRY.unpack_from(content, body + start)
        found.append(IndexEntry(offset, size, _row(content[body + start + _ENTRY.size : body + end])))
    return found


def _row(key: bytes) -> bytes:
    length = int.from_bytes(key[:2], "big")
    if len(key) < 2 + length:
        raise ValueError("a key of an index is cut short")
    return key[2 : 2 + length]


def hadoop_number(data: bytes, position: int) -> tuple[int, int]:
    """Return a number in Hadoop's own encoding (`WritableUtils.readVLong`), and the position behind it.

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
