"""The stored form of a deletion vector, shared by Delta and Iceberg: row positions, their length and a checksum.

Sources: the Delta protocol, "Deletion Vector Format"; the Puffin specification, `deletion-vector-v1`.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyroaring

from pruner.errors import TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_PORTABLE: Final = 1_681_511_377
_NATIVE: Final = 1_681_511_376
AROUND: Final = 8
"""Bytes of the length before a vector and of the checksum after it."""


def unframed(data: bytes, uri: str, offset: int) -> bytes:
    """Return the content between the length and the checksum.

    Args:
        data: the vector with both.
        uri: its file, for errors.
        offset: where it begins there.

    Raises:
        TableError: the length or the checksum is wrong.
    """
    if len(data) >= AROUND:
        (length,), (checksum,) = struct.unpack(">I", data[:4]), struct.unpack(">I", data[-4:])
        content = data[4:-4]
        if length == len(content) and zlib.crc32(content) == checksum:
            return content
    raise TableError(f"{uri}, which says what rows are deleted, is damaged at byte {offset}")


def row_positions(data: bytes, where: str) -> NDArray[np.uint64]:
    """Return the positions of a vector, ascending.

    Raises:
        TableError: it is damaged or of an unknown form.
    """
    try:
        (magic,) = struct.unpack("<i", data[:4])
        if magic == _PORTABLE:
            return _numbers(pyroaring.BitMap64.deserialize(data[4:]))
        if magic == _NATIVE:
            return _native(data)
    except (struct.error, ValueError) as error:
        raise TableError(f"{where} has a deletion vector that is damaged: {error}") from None
    raise TableError(f"{where} has a deletion vector of a form that this reader does not know ({magic})")


def _native(data: bytes) -> NDArray[np.uint64]:
    """The older form: the number of bitmaps, then each with its length; a bitmap's index is its upper 32 bits."""
    (count,) = struct.unpack("<i", data[4:8])
    at, parts = 8, [np.empty(0, np.uint64)]
    for upper in range(count):
        (size,) = struct.unpack("<i", data[at : at + 4])
        bitmap = pyroaring.BitMap.deserialize(data[at + 4 : at + 4 + size])
        parts.append(_numbers(bitmap) + np.uint64(upper << 32))
        at += 4 + size
    return np.concatenate(parts)


def _numbers(bitmap: Any) -> NDArray[np.uint64]:
    numbers = bitmap.to_array()
    return np.frombuffer(numbers, np.uint64 if numbers.itemsize == 8 else np.uint32).astype(np.uint64)
