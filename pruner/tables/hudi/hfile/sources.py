"""Bytes that are read by ranges: a file of a store, a part of one, or bytes in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from pruner.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pruner.storage.store import Store


class ByteSource(Protocol):
    """Something with a size, of which ranges can be read. `name` is for messages."""

    @property
    def name(self) -> str:
        """The URI of the file."""
        ...

    @property
    def size(self) -> int:
        """In bytes."""
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
    """A file of a store."""

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
