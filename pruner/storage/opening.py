"""Opens stores by a path or a URI, and base files for pyarrow: local paths directly, objects by range reads."""

from __future__ import annotations

import io
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import unquote

import pyarrow as pa

from pruner.errors import StorageError
from pruner.storage.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from _typeshed import WriteableBuffer

    from pruner.storage.store import Store

OBJECT_SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "memory")
"""Schemes of the object stores; `s3a`, `s3n` and `gcs` are other spellings of the first two."""

CATALOG_SCHEME = "iceberg"
"""Scheme of a table's name in an Iceberg catalog, which is not a location."""

_SPELLINGS = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(//)?")


def open_store(uri_or_path: str, options: Mapping[str, str] | None = None) -> Store:
    """Open the store below a local path or a URI; accesses nothing yet.

    Args:
        uri_or_path: a local path, `file://`, `s3://bucket/…`, `gs://bucket/…`, `az://container/…`,
            `abfss://container@account…/…`, or `memory://name/…` (one store per name and process).
        options: settings of the object store by their usual names (`region`, `endpoint`, `aws_access_key_id`
            …); settings that are not given come from the environment and the store's own credential chain.

    Raises:
        StorageError: the URI or an option is not understood, or the URI names a table of a catalog.
    """
    uri = normalize_uri(uri_or_path)
    if uri.startswith("/"):
        return LocalStore(uri)
    if uri.startswith(f"{CATALOG_SCHEME}://"):
        raise StorageError(f"{uri} names a table of an Iceberg catalog: give the location of a folder")
    from pruner.storage.objects import ObjectStore  # obstore is not loaded for local tables

    return ObjectStore(uri, dict(options or {}))


def normalize_uri(uri_or_path: str) -> str:
    """Return the canonical spelling of a location: an absolute path if it is local, else `scheme://bucket/path`.

    Tables of Iceberg catalogs are spelled `iceberg://catalog/namespace/table`, though that is not a store location.

    There is no trailing slash. `file://` URIs are percent-decoded (RFC 8089), local paths and object keys
    are taken literally. Symbolic links are not resolved.

    Raises:
        StorageError: an empty text, a NUL, an unknown scheme, another host's file, or credentials in the URI.
    """
    if not uri_or_path or "\0" in uri_or_path:
        raise StorageError(
            f"{uri_or_path!r} is not a location: give a path or a URI such as 's3://bucket/folder'"
        )
    match = _SCHEME.match(uri_or_path)
    scheme = match.group(1).lower() if match else ""
    scheme = _SPELLINGS.get(scheme, scheme)
    if match and scheme == "file":
        return _local_path(unquote(_strip_host(uri_or_path, match)))
    if match and match.group(2):
        return _object_uri(scheme, uri_or_path[match.end() :])
    return _local_path(uri_or_path)


def is_within(inner: str, outer: str) -> bool:
    """Tell whether a location is another one or below it; both as `normalize_uri` returns them."""
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


def is_alike_stored(place: str, other: str) -> bool:
    """Tell whether two locations are in the same kind of store; both as `normalize_uri` returns them."""
    return _scheme(place) == _scheme(other)


def _scheme(place: str) -> str:
    return place.partition("://")[0] if "://" in place else ""


def _strip_host(uri: str, match: re.Match[str]) -> str:
    rest = uri[match.end() :]
    if not match.group(2):
        return rest
    host, slash, path = rest.partition("/")
    if host not in ("", "localhost"):
        raise StorageError("a file:// URI names a file of another host: write 'file:///' with three slashes")
    return slash + path


def _local_path(path: str) -> str:
    if not path or "\0" in path:
        raise StorageError(f"{path!r} is not a location: give a path or a URI such as 's3://bucket/folder'")
    # pathlib cannot fold "..", which makes `table` and `x/../table` one location.
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111


def _object_uri(scheme: str, rest: str) -> str:
    if scheme not in (*OBJECT_SCHEMES, CATALOG_SCHEME):
        known = ", ".join(f"{name}://" for name in ("file", *OBJECT_SCHEMES))
        raise StorageError(f"the scheme {scheme}:// is not supported: use a local path or one of {known}")
    authority, _, path = rest.partition("/")
    if ":" in authority.rpartition("@")[0] or "?" in rest:
        raise StorageError(
            f"a {scheme}:// URI must not hold credentials or '?': give settings as storage options"
        )
    if not authority:
        raise StorageError(f"a {scheme}:// URI needs a bucket or container: {scheme}://bucket/folder")
    parts = [part for part in path.split("/") if part]
    if any(part in (".", "..") for part in parts):
        raise StorageError(f"a {scheme}:// URI must not hold '.' or '..' in its path {path!r}")
    return "/".join([f"{scheme}://{authority}", *parts])


_TAIL_BYTES = 64 * 1024
"""Bytes that pyarrow reads first; kept, because it reads parts of them again."""


def open_for_arrow(uri: str, size: int | None, storage_options: Mapping[str, str]) -> str | pa.NativeFile:
    """Return the source from which pyarrow reads a base file.

    Args:
        uri: a local path, `file://`, or the URI of an object.
        size: size in bytes, if it is known; saves a request for objects.
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
    """Read ranges (start, length) of a base file; a range beyond the end of a local file is cut short.

    Raises:
        StorageError, OSError: it cannot be read, or an object is shorter than requested.
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
    # Opened again for each file: cached clients depend on the environment, where credentials may rotate.
    return open_store(f"{scheme}://{bucket}", storage_options), path


class _StoreFile(io.RawIOBase):
    """An object as a file; its last bytes are read only once."""

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
