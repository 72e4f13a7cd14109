"""What a store is: one small interface for local disk, S3, GCS, Azure, and memory for tests.

Only two writes exist, and both create: `put_if_absent` under a name that writers compete for, `put_new` under
a name that nobody else uses. Every store that can do the first gives atomic commits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from pruner.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence


_LOOKED_UP = 2
"""Objects of a folder that are looked up one by one. A folder of many objects is a listing of many pages."""


class NotFoundError(StorageError):
    """There is no object of that name."""


class RefusedError(StorageError):
    """The store answered that it does not do it: nothing was changed, nor will be by this request."""


class LargerError(StorageError):
    """The object has more bytes than are allowed."""


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


class Level(NamedTuple):
    """The names of the folders that are right in a folder, and of the objects, each in any order."""

    folders: list[str]
    objects: list[str]


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
            LargerError: it is larger than `max_bytes`.
            StorageError: it cannot be read.
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

    def some(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Yield the objects below a folder in any order, as they are found.

        Whoever wants a few of many need not wait for all.
        """
        yield from self.list(prefix)

    def level(self, prefix: str = "") -> Level:
        """Return the names right below a folder; one that does not exist is an empty one."""
        start = len(prefix) + 1 if prefix else 0
        names = [info.path[start:].partition("/") for info in self.list(prefix)]
        folders = dict.fromkeys(name for name, slash, _ in names if slash)
        return Level([*folders], [name for name, slash, _ in names if not slash])

    @abstractmethod
    def delete(self, paths: Iterable[str]) -> None:
        """Delete objects; those that do not exist are none of its business."""

    @abstractmethod
    def remove_empty_folders(self) -> None:
        """Remove the empty folders among the root and those below it, where the store has folders at all."""

    @abstractmethod
    def info(self, path: str) -> ObjectInfo | None:
        """Return what a listing says of one object, or None when there is no such object."""

    def infos(self, paths: Iterable[str]) -> dict[str, ObjectInfo]:
        """Return what a listing says of some objects, by path; those that do not exist are left out.

        Of a folder in which more than a few are asked for this is one listing, so that it costs few requests.
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
        """Tell whether there is such an object."""
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
