"""What stands in data blocks and index blocks: cells and index entries."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator
    from collections.abc import Set as AbstractSet

_LENGTHS = struct.Struct(">iih")
_ENTRY = struct.Struct(">qi")
_ROW_LENGTH_BYTES = 2
_MOST_ROW_BYTES = (1 << 15) - 1
_LONG_NUMBERS = 128
"""A first byte below this is a number of one byte in Hadoop's encoding."""

_KEY_AROUND_ROW = 12
"""Bytes of a key besides row, family and qualifier: lengths of row and family, time, type."""

_MOST_SEARCHED = 8
"""Rows of one block that are searched for one by one, and places of one row that are looked at."""

_MOST_STARTING = 256
"""Places in a block at which rows may begin with some prefixes, up to which the other cells are passed over."""

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
    for start, row, value, end in _bounds(content, versioned, len(content)):
        yield content[start:row], content[value:end]


def cells_of(
    content: bytes, rows: AbstractSet[bytes], *, versioned: bool, once: bool = False
) -> dict[bytes, bytes]:
    """Return the value of each of some rows that a data block has, of the last cell where it has several.

    What does not stand there as bytes, behind its length, is no row. A value or another row can hold the same bytes,
    so where they do stand the cells up to there are gone through.

    Args:
        content: of a block that is known to be as it was written.
        rows: to look for.
        versioned: see `cells`.
        once: refuse several cells of one row.

    Raises:
        ValueError: the content is not made of whole cells, or as asked for.
    """
    places = _searched(content, rows)
    if places is None:
        return gathered((each for each in cells(content, versioned=versioned) if each[0] in rows), once=once)
    behind = max(places, default=0) - _LENGTHS.size + 1
    bounds = _bounds(content, versioned, behind, places)
    return gathered(((places[start], content[value:end]) for start, _, value, end in bounds), once=once)


def gathered(found: Iterable[tuple[bytes, bytes]], *, once: bool) -> dict[bytes, bytes]:
    """Return the last value of each row; with `once` several of one row are refused.

    Raises:
        ValueError: as asked for.
    """
    values: dict[bytes, bytes] = {}
    for row, value in found:
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
    """Where some rows may stand in a block; None where that would take longer than to go through the cells."""
    if len(rows) > _MOST_SEARCHED:
        return None
    found: dict[int, bytes] = {}
    for row in rows:
        if len(row) > _MOST_ROW_BYTES:
            continue
        places = _places(content, (len(row).to_bytes(_ROW_LENGTH_BYTES, "big") + row,), _MOST_SEARCHED)
        if places is None:
            return None
        found.update((place + _ROW_LENGTH_BYTES, row) for place in places)
    return found


def _places(content: bytes, parts: tuple[bytes, ...], most: int) -> set[int] | None:
    """Where any of some bytes stand; None where more than `most` of them do."""
    found: set[int] = set()
    for part in parts:
        at = content.find(part)
        while at >= 0:
            found.add(at)
            if len(found) > most:
                return None
            at = content.find(part, at + 1)
    return found


def _bounds(
    content: bytes, versioned: bool, until: int, only: Container[int] | None = None
) -> Iterator[tuple[int, int, int, int]]:
    """Yield where row and value begin and end, of each cell that begins before a position.

    With `only`, of those whose row begins at one of some places.
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
        found.append(IndexEntry(offset, size, row_of(content[position : position + length])))
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
        found.append(IndexEntry(offset, size, row_of(content[body + start + _ENTRY.size : body + end])))
    return found


def row_of(key: bytes) -> bytes:
    """The row of a key, which begins with it.

    Raises:
        ValueError: the key is cut short.
    """
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
