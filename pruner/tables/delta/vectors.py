"""Deletion vectors: the positions of a file's deleted rows, in files of their own or in the log."""

from __future__ import annotations

import base64
import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyroaring

from pruner.arrow import as_numpy, filled, positions
from pruner.errors import StorageError, TableError
from pruner.storage.files import read_ranges
from pruner.tables.delta.actions import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

_PORTABLE: Final = 1_681_511_377
_NATIVE: Final = 1_681_511_376
_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = bytes.maketrans(_Z85, _B85)
_UUID_TEXT: Final = 20
_AROUND: Final = 8
"""Bytes of a vector's length in front of it and of its checksum behind it."""


class DeletionVectors:
    """The deletion vectors of a snapshot: see `pruner.tables.snapshot.RowDeletes`."""

    def __init__(
        self, vectors: Any, root: str, options: Mapping[str, str], place_of: Callable[[str], str]
    ) -> None:
        """`vectors` are as `checkpoint.VECTOR`, null for files without one; `place_of` makes a URI of a path."""
        self._vectors = vectors
        self._root = root
        self._options = options
        self._place_of = place_of
        self.slices: NDArray[np.bool_] = as_numpy(vectors.is_valid())
        self.counts: NDArray[np.int64] = as_numpy(filled(vectors.field("cardinality"), 0))

    def positions(self, ordinals: NDArray[np.intp]) -> list[NDArray[np.uint64]]:
        """Read the vectors of some slices: see `RowDeletes`."""
        rows: list[Any] = self._vectors.take(positions(ordinals)).to_pylist()
        # Many vectors lie in one file, which is asked for all of them at once.
        stored: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        found: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)] * len(rows)
        for number, row in enumerate(rows):
            if row is None:
                continue
            if row["storageType"] == "i":
                data = _z85(row["pathOrInlineDv"], "the log")
                found[number] = _checked(_positions(data[: row["sizeInBytes"]], "the log"), row, "the log")
            else:
                stored.setdefault(self._file(row), []).append((number, row))
        for uri, wanted in stored.items():
            ranges = [(row["offset"] or 0, row["sizeInBytes"] + _AROUND) for _, row in wanted]
            for (number, row), data in zip(wanted, self._read(uri, ranges), strict=True):
                found[number] = _checked(_positions(_content(data, row, uri), uri), row, uri)
        return found

    def _file(self, row: dict[str, Any]) -> str:
        text = row["pathOrInlineDv"]
        if row["storageType"] == "p":
            return self._place_of(text)
        if row["storageType"] != "u" or len(text) < _UUID_TEXT:
            raise TableError(f"{self._root} has a deletion vector that is not understood: {text[:40]!r}")
        prefix, name = text[:-_UUID_TEXT], text[-_UUID_TEXT:]
        file = f"deletion_vector_{uuid.UUID(bytes=_z85(name, 'the log'))}.bin"
        return self._place_of(f"{decoded(prefix)}/{file}" if prefix else file)

    def _read(self, uri: str, ranges: list[tuple[int, int]]) -> list[bytes]:
        try:
            return read_ranges(uri, ranges, self._options)
        except (OSError, StorageError) as error:
            what = "is missing" if isinstance(error, FileNotFoundError) else f"cannot be read: {error}"
            raise TableError(f"{uri}, which says what rows are deleted, {what}") from None


def _z85(text: str, where: str) -> bytes:
    """Decode ZeroMQ's Base85, which is Python's with another alphabet."""
    try:
        return base64.b85decode(text.encode("ascii").translate(_TO_B85))
    except (ValueError, UnicodeEncodeError):
        raise TableError(f"{where} names a deletion vector {text[:40]!r}, which is not understood") from None


def _content(data: bytes, row: dict[str, Any], uri: str) -> bytes:
    """What stands between the length and the checksum.

    Raises:
        TableError: either is wrong.
    """
    size: int = row["sizeInBytes"]
    if len(data) == size + _AROUND:
        (length,), (checksum,) = struct.unpack(">I", data[:4]), struct.unpack(">I", data[-4:])
        content = data[4:-4]
        if length == size and zlib.crc32(content) == checksum:
            return content
    raise TableError(f"{uri}, which says what rows are deleted, is damaged at byte {row['offset'] or 0}")


def _positions(data: bytes, where: str) -> NDArray[np.uint64]:
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
    """The older form: the number of bitmaps, then each with its length; which one it is says the upper 32 bits."""
    (count,) = struct.unpack("<i", data[4:8])
    at, parts = 8, [np.empty(0, np.uint64)]
    for upper in range(count):
        (size,) = struct.unpack("<i", data[at : at + 4])
        bitmap = pyroaring.BitMap.deserialize(data[at + 4 : at + 4 + size])
        parts.append(_numbers(bitmap) + np.uint64(upper << 32))
        at += 4 + size
    return np.concatenate(parts)


def _numbers(bitmap: Any) -> NDArray[np.uint64]:
    return np.frombuffer(
        bitmap.to_array(), np.uint64 if bitmap.to_array().itemsize == 8 else np.uint32
    ).astype(np.uint64)


def _checked(found: NDArray[np.uint64], row: dict[str, Any], where: str) -> NDArray[np.uint64]:
    if len(found) != row["cardinality"]:
        raise TableError(
            f"{where} has a deletion vector of {len(found)} rows, and the log says {row['cardinality']}: restore it"
        )
    return found
