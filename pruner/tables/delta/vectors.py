"""Deletion vectors: the positions of a file's deleted rows, in files of their own or in the log."""

from __future__ import annotations

import base64
import uuid
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from pruner.arrow import as_numpy, filled, positions
from pruner.errors import StorageError, TableError
from pruner.storage.opening import read_ranges
from pruner.tables.deletion_vectors import AROUND, row_positions, unframed
from pruner.tables.delta.actions import decoded

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

_Z85: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85: Final = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85: Final = bytes.maketrans(_Z85, _B85)
_UUID_TEXT: Final = 20


class DeletionVectors:
    """The deletion vectors of a snapshot: see `pruner.tables.snapshot.CountedDeletes`."""

    def __init__(
        self, vectors: Any, root: str, options: Mapping[str, str], place_of: Callable[[str], str]
    ) -> None:
        """`vectors` have type `checkpoint.VECTOR`, null for files without one; `place_of` turns a path into a URI."""
        self._vectors = vectors
        self._root = root
        self._options = options
        self._place_of = place_of
        self.slices: NDArray[np.bool_] = as_numpy(vectors.is_valid())
        self.counts: NDArray[np.int64] = np.where(
            self.slices, as_numpy(filled(vectors.field("cardinality"), -1)), 0
        )

    def positions(self, ordinals: NDArray[np.intp]) -> list[NDArray[np.uint64]]:
        """Read the vectors of some slices: see `RowDeletes`."""
        rows: list[Any] = self._vectors.take(positions(ordinals)).to_pylist()
        # Many vectors share a file, from which all of them are read at once.
        stored: dict[str, list[tuple[int, dict[str, Any]]]] = {}
        found: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)] * len(rows)
        for number, row in enumerate(rows):
            if row is None:
                continue
            if row["storageType"] == "i":
                data = _z85(row["pathOrInlineDv"], "the log")
                found[number] = _checked(row_positions(data[: row["sizeInBytes"]], "the log"), row, "the log")
            else:
                stored.setdefault(self._file(row), []).append((number, row))
        for uri, wanted in stored.items():
            ranges = [(row["offset"] or 0, row["sizeInBytes"] + AROUND) for _, row in wanted]
            for (number, row), data in zip(wanted, self._read(uri, ranges), strict=True):
                found[number] = _checked(
                    row_positions(unframed(data, uri, row["offset"] or 0), uri), row, uri
                )
        return found

    def _file(self, row: dict[str, Any]) -> str:
        text = row["pathOrInlineDv"]
        if row["storageType"] == "p":
            return self._place_of(decoded(text))
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


def _checked(found: NDArray[np.uint64], row: dict[str, Any], where: str) -> NDArray[np.uint64]:
    if len(found) != row["cardinality"]:
        raise TableError(
            f"{where} has a deletion vector of {len(found)} rows, and the log says {row['cardinality']}: restore it"
        )
    return found
