"""Opens base files for pyarrow: local paths directly, objects of a store by ranged reads."""

from __future__ import annotations

import io
import os
from functools import lru_cache
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.storage.opening import normalize_uri, open_store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import WriteableBuffer

    from pruner.storage.store import Store

_TAIL_BYTES = 64 * 1024
"""What pyarrow asks for first; kept, because it asks for parts of it again."""


def open_for_arrow(uri: str, size: int | None, storage_options: Mapping[str, str]) -> str | pa.NativeFile:
    """Return what pyarrow reads a base file from.

    Args:
        uri: a local path, `file://`, or the URI of an object.
        size: in bytes, where it is known; saves a request for objects.
        storage_options: as `pruner.storage.opening.open_store` takes them.

    Raises:
        StorageError: the store refuses, or there is no such object.
    """
    place = normalize_uri(uri)
    if place.startswith("/"):
        return place
    store, path = _store_of(place, storage_options)
    if size is None:
        info = store.info(path)
        size = info.size if info else 0
    return pa.PythonFile(_StoreFile(store, path, size), mode="r")


def read_ranges(
    uri: str, ranges: Sequence[tuple[int, int]], storage_options: Mapping[str, str]
) -> list[bytes]:
    """Read ranges (start, length) of a base file; what lies behind its end is missing from them.

    Raises:
        StorageError, OSError: it cannot be read.
    """
    place = normalize_uri(uri)
    if not place.startswith("/"):
        store, path = _store_of(place, storage_options)
        return list(store.get_ranges(path, ranges))
    descriptor = os.open(place, os.O_RDONLY)
    try:
        return [os.pread(descriptor, length, start) for start, length in ranges]
    finally:
        os.close(descriptor)


def _store_of(place: str, storage_options: Mapping[str, str]) -> tuple[Store, str]:
    """The store of an object, and the object's path there."""
    scheme, _, rest = place.partition("://")
    bucket, _, path = rest.partition("/")
    return _store(f"{scheme}://{bucket}", tuple(sorted(storage_options.items()))), path


@lru_cache(maxsize=64)
def _store(root: str, options: tuple[tuple[str, str], ...]) -> Store:
    return open_store(root, dict(options))


class _StoreFile(io.RawIOBase):
    """An object as a file; its last bytes are read once."""

    def __init__(self, store: Store, path: str, size: int) -> None:
        self._store = store
        self._path = path
        self._size = size
        self._position = 0
        self._tail_start = max(0, size - _TAIL_BYTES)
        self._tail = store.get_range(path, self._tail_start, size - self._tail_start) if size else b""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, start + offset)
        return self._position

    def read(self, size: int = -1) -> bytes:
        end = self._size if size < 0 else min(self._size, self._position + size)
        start = min(self._position, end)
        if start == end:
            return b""
        if start >= self._tail_start:
            data = self._tail[start - self._tail_start : end - self._tail_start]
        else:
            data = self._store.get_range(self._path, start, end - start)
        self._position = start + len(data)
        return data

    def readinto(self, buffer: WriteableBuffer) -> int:
        target = memoryview(buffer).cast("B")
        data = self.read(len(target))
        target[: len(data)] = data
        return len(data)
