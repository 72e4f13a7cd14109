"""The store: one small interface for local disk, S3, GCS, Azure, and memory for tests.

There are only two writes, and both create: `put_if_absent` under a name that writers compete for, `put_new` under
a name that no other writer uses. Every store that can do the first provides atomic commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from pruner.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_LOOKED_UP = 2
"""Most objects of a folder that are looked up one by one. Listing a folder of many objects takes many pages."""


class NotFoundError(StorageError):
    """There is no object with that name."""


class RefusedError(StorageError):
    """The store refused the request, which changed nothing and never will."""


class LargerError(StorageError):
    """The object has more bytes than are allowed."""


class ObjectInfo(NamedTuple):
    """One object of a listing.

    `path` is relative to the store's root, `size` is in bytes, `mtime_ns` in nanoseconds since
    1970-01-01T00:00:00Z by the store's clock; `etag`, if the store has one, changes whenever the object does.
    """

    path: str
    size: int
    mtime_ns: int
    etag: str | None


class Level(NamedTuple):
    """The names of the folders and of the objects directly in a folder, each in any order."""

    folders: list[str]
    objects: list[str]


class Store(ABC):
    """The objects below one root. Paths are relative to it, with `/` between parts, and cannot leave it.

    Every method raises StorageError, with one sentence and without secrets, if the store refuses or fails.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    @abstractmethod
    def get(self, path: str, max_bytes: int) -> bytes:
        """Return the whole object.

        Raises:
            NotFoundError: it does not exist.
            LargerError: it is larger than `max_bytes`.
            StorageError: it cannot be read.
        """

    @abstractmethod
    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return the bytes of each range (start, length) of an object; a range beyond its end is an error."""

    def get_range(self, path: str, start: int, length: int) -> bytes:
        """Return `length` bytes of an object from `start` on."""
        return self.get_ranges(path, [(start, length)])[0]

    @abstractmethod
    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create the object unless it exists, atomically and durably: exactly one of several writers gets True.

        No reader ever sees a partial object under this name.
        """

    @abstractmethod
    def put_new(self, path: str, data: bytes) -> None:
        """Create an object under an unused name, durably.

        On local disk a writer that dies leaves a partial object: nothing may rely on such an object before
        something that was committed afterwards refers to it.
        """

    @abstractmethod
    def list(self, prefix: str = "", *, after: str | None = None) -> list[ObjectInfo]:
        """Return every object below the folder `prefix`, sorted by path; with `after`, only those after that path.

        A folder that does not exist counts as empty.
        """

    def some(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a folder in any order, as they are found.

        Callers that want a few of many need not wait for all.
        """
        yield from self.list(prefix)

    def level(self, prefix: str = "") -> Level:
        """Return the names directly in a folder; one that does not exist counts as empty."""
        start = len(prefix) + 1 if prefix else 0
        names = [info.path[start:].partition("/") for info in self.list(prefix)]
        folders = dict.fromkeys(name for name, slash, _ in names if slash)
        return Level([*folders], [name for name, slash, _ in names if not slash])

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those that do not exist are ignored."""

    @abstractmethod
    def remove_empty_folders(self) -> None:
        """Remove the empty folders at and below the root, if the store has folders."""

    @abstractmethod
    def info(self, path: str) -> ObjectInfo | None:
        """Return the listing entry of one object, or None if it does not exist."""

    def infos(self, paths: Iterable[str]) -> dict[str, ObjectInfo]:
        """Return the listing entries of some objects, by path; those that do not exist are omitted.

        If more than a few of one folder are requested, the folder is listed once, which costs few requests.
        """
        folders: dict[str, list[str]] = {}
        for path in paths:
            folders.setdefault(path.rpartition("/")[0], []).append(path)
        infos: list[ObjectInfo | None] = []
        for folder, asked in folders.items():
            if len(asked) > _LOOKED_UP:
                wanted = set(asked)
                infos += [info for info in self.list(folder) if info.path in wanted]
            else:
                infos += [self.info(path) for path in asked]
        return {info.path: info for info in infos if info is not None}

    def exists(self, path: str) -> bool:
        """Tell whether an object exists."""
        return self.info(path) is not None


def check_path(path: str) -> str:
    """Return `path` if it stays below the root of a store.

    Raises:
        StorageError: it is empty, absolute, or holds '.', '..', an empty part or a NUL.
    """
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise StorageError(f"{path!r} is not a path below the root of a store")
    return path
