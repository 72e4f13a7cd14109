"""Lists the files below a root, with what distinguishes versions of a file.

An unchanged table is listed again and again, so a listing costs the walk and one comparison of lists: a file
is one tuple, and nothing is derived from it until something has changed.
"""

from __future__ import annotations

import os
import stat as modes
import time
from typing import TYPE_CHECKING, Protocol, TypeAlias

from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.listing.foreign import (
    FOREIGN,
    TELLING_FOLDERS,
    SeenNames,
    check_above,
    is_of_acid,
    names_of_disk,
    refuse_content,
    refuse_folder,
    refuse_name,
)
from pruner.tables.listing.touched import fingerprint
from pruner.tables.snapshot import Watched

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pruner.storage.store import ObjectInfo, Store

Fact: TypeAlias = tuple[str | int, ...]
"""One file: path relative to the root, size in bytes, then the parts of its version."""

CLOCK_TICK_NS = 20_000_000
"""Two writes closer than this can get the same times: the kernel's coarse clock ticks every 1 to 10 ms."""

COARSE_TICK_NS = 2_000_000_000
"""The same for stores with times in whole seconds (FAT: two seconds)."""

METADATA_SUFFIXES = (".pruner", ".pidx")
"""Suffixes of folders and segments of our own metadata tables; they are Parquet inside, but never data."""

_SUSPECT = (*METADATA_SUFFIXES, "._COPYING_")

_KIND = 0o170000
"""The file type bits of a mode (S_IFMT)."""


class Lister(Protocol):
    """Lists one root and reads from its files."""

    @property
    def root(self) -> str:
        """The root, without a trailing slash."""
        ...

    def facts(self) -> Sequence[Fact]:
        """Return one fact for each file, in no particular order; hidden files are left out.

        Raises:
            TableError: something could not be read or vanished, or the folder belongs to a foreign format.
            StorageError: the store refuses.
        """
        ...

    def some_facts(self) -> Iterator[Fact]:
        """Yield facts as they are found, so that callers that need one need not wait for all.

        Raises:
            TableError, StorageError: as `facts` does.
        """
        ...

    def version(self, fact: Fact) -> str:
        """Return what an overwrite of the file changes, even one with the same size at the same time."""
        ...

    def young(self, fact: Fact, now_ns: int) -> int:
        """Return how many nanoseconds must pass until any other write of the file shows; 0 if they have passed."""
        ...

    def still(self, fact: Fact) -> str | None:
        """Return the part of a version that harmless changes leave unchanged; None where there are no such changes."""
        ...

    def fingerprint(self, fact: Fact) -> bytes | None:
        """Return the fingerprint of a file's content; None where the file is not the one that was listed."""
        ...

    def unfinished(self, paths: Iterable[str]) -> None:
        """Report which files of the last listing were still being written, as far as their content shows."""
        ...

    def read(self, path: str, start: int, length: int) -> bytes:
        """Return bytes of a file.

        Raises:
            OSError: it cannot be read.
            StorageError: the store refuses.
        """
        ...

    def uri(self, path: str) -> str:
        """Return the file's URI as passed to engines."""
        ...


def open_lister(root: str, storage_options: Mapping[str, str] | None = None) -> LocalLister | StoreLister:
    """Return the lister for a root that `pruner.storage.opening.normalize_uri` has normalized.

    Raises:
        StorageError: a storage option is not understood.
    """
    if root.startswith("/"):
        return LocalLister(root)
    return StoreLister(open_store(root, storage_options))


def is_hidden(name: str) -> bool:
    """Tell whether Spark, Trino and Hive ignore a file or folder of that name (`_x=1` is a partition)."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def is_metadata(name: str) -> bool:
    """Tell whether a file or folder belongs to a metadata table (`x=a.pruner` is a partition)."""
    return name.endswith(METADATA_SUFFIXES) and "=" not in name


class LocalLister:
    """A folder of the local disk.

    The version of a file is its modification time, change time and inode: the modification time can be set by
    anyone (trap T16), the change time only by a change. Links are followed, as engines do.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self._linked: set[str] = set()

    def facts(self) -> Sequence[Fact]:
        """List all files: see `Lister.facts`."""
        return self._walked("")

    def fact_at(self, path: str) -> Fact | None:
        """Return the fact of one file; None where there is no file.

        Raises:
            TableError: its status cannot be read.
        """
        try:
            stat = os.stat(f"{self.root}/{path}")  # noqa: PTH116 - as fast as the listing
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError) as error:
            raise TableError(f"cannot list {self.root}: {error}") from None
        if stat.st_mode & _KIND != modes.S_IFREG:
            return None
        if os.path.islink(f"{self.root}/{path}"):  # noqa: PTH114 - as the rest
            self._check_target(f"{self.root}/{path}", is_file=True)
        return (path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)

    def facts_below(self, prefix: str) -> list[Fact]:
        """List the files below a folder, whose path ends with a slash; none where there is no folder.

        Raises:
            TableError: as `facts` does.
        """
        return self._walked(prefix) if os.path.isdir(f"{self.root}/{prefix}") else []  # noqa: PTH112

    def _walked(self, prefix: str) -> list[Fact]:
        facts: list[Fact] = []
        pending = [prefix]
        while pending:
            self._read_folder(pending.pop(), facts, pending)
        return facts

    def some_facts(self) -> Iterator[Fact]:
        """Yield the files folder by folder: see `Lister.some_facts`."""
        pending = [""]
        while pending:
            facts: list[Fact] = []
            self._read_folder(pending.pop(), facts, pending)
            yield from facts

    def _read_folder(self, prefix: str, facts: list[Fact], pending: list[str]) -> bool:
        """Add a folder's entries to the files found and the folders to read; tell whether a file is a link."""
        folder = f"{self.root}/{prefix}"
        try:
            return self._scan(folder, prefix, facts, pending)
        except OSError as error:
            raise incomplete(self.root, folder, error) from None

    def _scan(self, folder: str, prefix: str, facts: list[Fact], pending: list[str]) -> bool:
        add = facts.append
        has_links = False
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            # Entries of a folder opened by descriptor are resolved in it, not by their whole path each.
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    name = entry.name
                    if name[0] in "._" or name.endswith(_SUSPECT):
                        refuse_name(self.root, prefix, name)
                        if is_hidden(name) or is_metadata(name):
                            continue
                    stat = entry.stat()
                    kind = stat.st_mode & _KIND
                    if kind == modes.S_IFREG:
                        if entry.is_symlink():
                            has_links = True
                            self._check_target(f"{folder}{name}", is_file=True)
                        add((prefix + name, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino))
                    elif kind == modes.S_IFDIR:
                        self._check_folder(folder, prefix, name, entry.is_symlink())
                        pending.append(f"{prefix}{name}/")
        finally:
            os.close(descriptor)
        return has_links

    def _check_folder(self, parent: str, prefix: str, name: str, is_link: bool) -> None:
        refuse_folder(self.root, prefix, name)
        if name in TELLING_FOLDERS:
            refuse_content(self.root, prefix, lambda folder: names_of_disk(f"{parent}{folder}"))
        if is_link:
            _refuse_cycle(self.root, f"{parent}{name}")
            self._check_target(f"{parent}{name}")

    def _check_target(self, link: str, *, is_file: bool = False) -> None:
        """Refuse a link into another format's table; each target is checked once, for files each folder."""
        target = os.path.realpath(link)
        looked_at = f"{os.path.dirname(target)}/" if is_file else target  # noqa: PTH120 - as the rest
        if looked_at in self._linked:
            return
        try:
            check_above({target: "" if is_file else None})
        except TableError as error:
            raise TableError(
                f"cannot list {self.root}: the link {link} leads into another table: {error}"
            ) from None
        self._linked.add(looked_at)

    def version(self, fact: Fact) -> str:
        """Return times and inode: see `Lister.version`."""
        return f"{fact[2]}-{fact[3]}-{fact[4]}"

    def young(self, fact: Fact, now_ns: int) -> int:
        """Return the time to wait: see `Lister.young`."""
        changed = int(fact[3])
        tick = CLOCK_TICK_NS if changed % 1_000_000_000 else COARSE_TICK_NS
        return max(0, changed + tick - now_ns)

    def still(self, fact: Fact) -> str | None:
        """Return modification time and inode: see `Lister.still`."""
        return f"{fact[2]}-{fact[4]}"

    def fingerprint(self, fact: Fact) -> bytes | None:
        """Read footer and samples: see `Lister.fingerprint`."""
        path, size, modified, changed, inode = fact
        return fingerprint(f"{self.root}/{path}", int(size), (int(modified), int(changed), int(inode)))

    def unfinished(self, paths: Iterable[str]) -> None:
        """Nothing to store: every listing checks every file."""

    def watched(self) -> list[Watched] | None:
        """Return what to watch to know that the next listing equals the last one; None where that is unknown."""
        return [Watched("tree", self.root)]

    def read(self, path: str, start: int, length: int) -> bytes:
        """Read from a file: see `Lister.read`."""
        file = os.open(f"{self.root}/{path}", os.O_RDONLY)
        try:
            return os.pread(file, length, start)
        finally:
            os.close(file)

    def uri(self, path: str) -> str:
        """Return the absolute path: DuckDB and Spark take it unchanged, whatever characters it has."""
        return f"{self.root.rstrip('/')}/{path}"


class StoreLister:
    """The objects below a prefix of an object store; a version is the e-tag, else the modification time."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.root = store.uri

    def facts(self) -> list[Fact]:
        """List all objects: see `Lister.facts`."""
        return list(self._facts(self._store.list()))

    def some_facts(self) -> Iterator[Fact]:
        """Yield the objects page by page: see `Lister.some_facts`."""
        return self._facts(self._store.some())

    def fact_at(self, path: str) -> Fact | None:
        """Return the fact of one object; None where there is none.

        Raises:
            StorageError: the store refuses.
        """
        info = self._store.info(path)
        return None if info is None else next(self._facts([info]), None)

    def facts_below(self, prefix: str) -> list[Fact]:
        """List the objects below a folder, whose path ends with a slash.

        Raises:
            TableError, StorageError: as `facts` does.
        """
        return list(self._facts(self._store.list(prefix.rstrip("/"))))

    def _facts(self, objects: Iterable[ObjectInfo]) -> Iterator[Fact]:
        seen = SeenNames(self.root)
        for path, size, mtime_ns, etag in objects:
            parts = path.split("/")
            for depth, part in enumerate(parts):
                if part in FOREIGN:
                    refuse_name(self.root, "".join(f"{above}/" for above in parts[:depth]), part)
                elif is_of_acid(part) and depth < len(parts) - 1:
                    refuse_folder(self.root, "".join(f"{above}/" for above in parts[:depth]), part)
            seen.note(parts)
            if path.endswith("/") or any(is_hidden(part) or is_metadata(part) for part in parts):
                continue
            yield (path, size, etag or mtime_ns)

    def version(self, fact: Fact) -> str:
        """Return the e-tag or time: see `Lister.version`."""
        return fact[2] if isinstance(fact[2], str) else f"t{fact[2]}"

    def young(self, fact: Fact, now_ns: int) -> int:
        """Return the time to wait, none with an e-tag: see `Lister.young`."""
        return 0 if isinstance(fact[2], str) else max(0, fact[2] + COARSE_TICK_NS - now_ns)

    def still(self, fact: Fact) -> str | None:
        """Return None: objects are overwritten whole or not at all."""
        return None

    def fingerprint(self, fact: Fact) -> bytes | None:
        """Return None: objects need no fingerprint."""
        return None

    def unfinished(self, paths: Iterable[str]) -> None:
        """Nothing to store: every listing is complete, and objects appear whole."""

    def read(self, path: str, start: int, length: int) -> bytes:
        """Read from an object: see `Lister.read`."""
        return self._store.get_range(path, start, length)

    def uri(self, path: str) -> str:
        """Return the object's URI, with its key unchanged."""
        return f"{self.root}/{path}"


def settle(lister: Lister, facts: Sequence[Fact]) -> tuple[Sequence[Fact], set[str]]:
    """Wait until another write of a just written file would show, if that takes milliseconds.

    Returns:
        The facts after the wait, and the paths of files that are still too young to be distinguished from their
        successor (R4): records of those could be of another version.
    """
    now = time.time_ns()
    ages = [wait for fact in facts if (wait := lister.young(fact, now))]
    short = [wait for wait in ages if wait <= CLOCK_TICK_NS]
    if short:
        time.sleep(max(short) / 1e9)
        facts = lister.facts()
        now = time.time_ns()
    return facts, {str(fact[0]) for fact in facts if lister.young(fact, now)} if ages else set()


def incomplete(root: str, where: str, error: OSError) -> TableError:
    """The error for a listing that cannot be read completely."""
    reason = error.strerror or str(error)
    return TableError(f"cannot list {root} completely: {reason} at {where}")


def _refuse_cycle(root: str, link: str) -> None:
    """Refuse a link to a folder above it, below which a walk would never end."""
    here, target = os.path.realpath(os.path.dirname(link)), os.path.realpath(link)  # noqa: PTH120
    if os.path.commonpath([here, target]) == target:
        raise TableError(
            f"cannot list {root}: the link {link} leads back to a folder above it; remove the link"
        )
