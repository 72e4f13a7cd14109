"""Where metadata tables are kept: local disk, S3, GCS, Azure, memory for tests; one small interface.

Only two writes exist, and both create: `put_if_absent` under a name that writers compete for, `put_new` under
a name that nobody else uses. Every store that can do the first gives atomic commits.
"""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from pruner.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

OBJECT_SCHEMES = ("s3", "gs", "az", "abfs", "abfss", "memory")
"""Schemes of the object stores; `s3a`, `s3n` and `gcs` are other spellings of the first two."""

_SPELLINGS = {"s3a": "s3", "s3n": "s3", "gcs": "gs"}
_SCHEME = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):(//)?")


class NotFoundError(StorageError):
    """There is no object of that name."""


class ObjectInfo(NamedTuple):
    """One object of a listing.

    `path` is relative to the store's root, `size` is in bytes, `mtime_ns` in nanoseconds since
    1970-01-01T00:00:00Z by the store's own clock; `etag` changes whenever the object does, where the store
    has one.
    """

    path: str
    size: int
    mtime_ns: int
    etag: str | None


class Store(ABC):
    """The objects below one root. Paths are relative to it, with `/` between parts, and cannot leave it.

    Every method raises StorageError, in one sentence and without secrets, when the store refuses or fails.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @abstractmethod
    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the whole object.

        Raises:
            NotFoundError: there is none.
            StorageError: it is larger than `max_bytes`, or cannot be read.
        """

    @abstractmethod
    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range (start, length) of an object; a range behind its end is an error."""

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return `length` bytes of an object from `start` on."""
        return self.get_ranges(path, [(start, length)])[0]

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object unless it exists, atomically and durably: of several writers one gets True.

        No reader ever sees a part of it under this name.
        """

    @abstractmethod
    def put_new(self, path: str, data: bytes) -> None:
        """Create an object under a name that is in use nowhere, durably.

        On local disk a writer that dies leaves a part of it: nothing may rely on such an object before
        something that was committed afterwards refers to it.
        """

    @abstractmethod
    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """Return every object below the folder `prefix`, sorted by path; with `after`, those behind it.

        A folder that does not exist is an empty one.
        """

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those that do not exist are none of its business."""

    @abstractmethod
    def remove_empty_folders(self) -> None:
        """Remove the empty folders among the root and those below it, where the store has folders at all."""

    @abstractmethod
    def info(self, path: str) -> ObjectInfo | None:
        """Return what a listing says of one object, or None when there is no such object."""

    def exists(self, path: str) -> bool:
        """Tell whether there is such an object."""
        return self.info(path) is not None


def open_store(uri_or_path: str, options: Mapping[str, str] | None = None) -> Store:
    """Open the store below a local path or a URI; touches nothing yet.

    Args:
        uri_or_path: a local path, `file://`, `s3://bucket/…`, `gs://bucket/…`, `az://container/…`,
            `abfss://container@account…/…`, or `memory://name/…` (one store per name and process).
        options: settings of the object store by their usual names (`region`, `endpoint`, `aws_access_key_id`
            …); what is not given comes from the environment and the store's own credential chain.

    Raises:
        StorageError: the URI or an option is not understood.
    """
    uri = normalize_uri(uri_or_path)
    if uri.startswith("/"):
        from pruner.storage.local import LocalStore

        return LocalStore(uri)
    from pruner.storage.objects import ObjectStore

    return ObjectStore(uri, dict(options or {}))


def normalize_uri(uri_or_path: str) -> str:
    """Return the one spelling of a place: an absolute path for local ones, else `scheme://bucket/path`.

    There is no slash at the end. `file://` URIs are percent-decoded (RFC 8089), local paths and object keys
    are taken as they stand. Symbolic links are not resolved.

    Raises:
        StorageError: an empty text, a NUL, an unknown scheme, another host's file, or credentials in the URI.
    """
    if not uri_or_path or "\0" in uri_or_path:
        raise StorageError(f"{uri_or_path!r} is no place: give a path or a URI such as 's3://bucket/folder'")
    match = _SCHEME.match(uri_or_path)
    scheme = match.group(1).lower() if match else ""
    scheme = _SPELLINGS.get(scheme, scheme)
    if match and scheme == "file":
        return _local_path(unquote(_strip_host(uri_or_path, match)))
    if match and match.group(2):
        return _object_uri(scheme, uri_or_path[match.end() :])
    return _local_path(uri_or_path)


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
        raise StorageError(f"{path!r} is no place: give a path or a URI such as 's3://bucket/folder'")
    # pathlib cannot fold "..", which makes `table` and `x/../table` one place.
    return os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111


def _object_uri(scheme: str, rest: str) -> str:
    if scheme not in OBJECT_SCHEMES:
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


def check_path(path: str) -> str:
    """Return `path` if it stays below the root of a store.

    Raises:
        StorageError: it is empty, absolute, or holds '.', '..', an empty part or a NUL.
    """
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise StorageError(f"{path!r} is not a path below the root of a store")
    return path
