"""Lists a tree whose files never change in place: a look is one `stat` for each folder, not for each file.

A folder's modification time moves when an entry comes, goes or is renamed, so a folder that looks as it did has the
entries that it had. What is in a file is not looked at again: that it stays as it is, is the promise of whoever
declares the table's files immutable (docs/guarantee.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import NamedTuple, TypeAlias, overload

from pruner.errors import TableError
from pruner.tables.listing import CLOCK_TICK_NS, COARSE_TICK_NS, Fact, LocalLister, incomplete

_Stamp: TypeAlias = tuple[int, int, int, int, int, int]
"""Device, inode, times of modification and change in nanoseconds, size and links of a folder."""


@dataclass(frozen=True, slots=True)
class _Folder:
    """What a folder held when it had this stamp, which was first seen at `since` (monotonic, nanoseconds).

    `settled`: any later change of its entries shows in the stamp.
    """

    stamp: _Stamp
    since: int
    files: list[Fact]
    folders: list[str]
    settled: bool = False


class FolderFacts(Sequence[Fact]):
    """What folders hold, one after another: a few thousand lists, where one of all facts would be a million long."""

    def __init__(self, folders: Iterable[list[Fact]]) -> None:
        """`folders`: lists that nobody changes any more."""
        self._folders = [files for files in folders if files]
        self._count = sum(map(len, self._folders))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Fact]:
        return chain.from_iterable(self._folders)

    @overload
    def __getitem__(self, index: int) -> Fact: ...
    @overload
    def __getitem__(self, index: slice) -> list[Fact]: ...
    def __getitem__(self, index: int | slice) -> Fact | list[Fact]:
        return list(self)[index]

    def __eq__(self, other: object) -> bool:
        # Folders that did not change are the same lists, which are not looked into.
        return isinstance(other, FolderFacts) and (
            self._folders == other._folders or (len(self) == len(other) and list(self) == list(other))
        )

    __hash__ = None  # type: ignore[assignment]


class Changes(NamedTuple):
    """What differs between two listings: the earlier one, and the files that are in only one of them.

    `since` is the very sequence that was returned then. A file that was replaced has gone and come.
    """

    since: Sequence[Fact]
    gone: list[Fact]
    come: list[Fact]


class FolderLister(LocalLister):
    """A folder of the local disk, or of a network file system, whose files never change in place.

    A change within the clock's granularity of a listing can leave the stamp as it was (R4). A folder is therefore
    listed again until its stamp has been seen for longer than that, by the clock of this machine that never goes back.
    How far the file system's own clock is away does not matter. Folders with unfinished files (empty, or not yet
    readable) are listed at every look, because writers finish files without a trace in the folder. So are folders with
    links to files, whose targets are replaced elsewhere.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._known: dict[str, _Folder] = {}
        self._facts = FolderFacts(())
        self._unfinished: frozenset[str] = frozenset()
        self.changes: Changes | None = None
        """What differs between the last two listings that differ; None where that was not followed."""

    def facts(self) -> FolderFacts:
        """List all files: see `Lister.facts`. It is the same object for as long as nothing changes."""
        if not self._follow():
            self._walk()
        return self._facts

    def _follow(self) -> bool:
        """List only the folders that may have changed; tells whether that was enough."""
        stirred = self._stirred()
        if stirred is None:
            return False
        listed: dict[str, _Folder] = {}
        try:
            for prefix in stirred:
                before = self._known[prefix]
                listed[prefix] = now = self._look(prefix, before)
                if now.folders != before.folders:
                    return False
        except TableError:
            return False  # the walk finds out whether it is gone or cannot be read
        gone: list[Fact] = []
        come: list[Fact] = []
        for prefix, now in listed.items():
            earlier, later = _without_ends(self._known[prefix].files, now.files)
            gone += earlier - later
            come += later - earlier
        self._known.update(listed)
        if gone or come:
            since = self._facts
            self._facts = FolderFacts(folder.files for folder in self._known.values())
            self.changes = Changes(since, gone, come)
        return True

    def _stirred(self) -> list[str] | None:
        """The folders whose entries may have changed; None where one of them cannot be asked."""
        if not self._known:
            return None
        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY)
        except OSError:
            return None
        unfinished, ask = self._unfinished, os.stat
        stirred: list[str] = []
        try:
            for prefix, folder in self._known.items():
                if folder.settled and prefix not in unfinished:
                    # Folders are looked up in the root, not by their whole path each; and a stamp is not made of what
                    # is found: the two took a third of a look at 10,000 folders.
                    found = ask(prefix or ".", dir_fd=root)
                    device, inode, modified, changed, size, links = folder.stamp
                    if (
                        found.st_ctime_ns == changed
                        and found.st_mtime_ns == modified
                        and found.st_ino == inode
                        and found.st_dev == device
                        and found.st_size == size
                        and found.st_nlink == links
                    ):
                        continue
                stirred.append(prefix)
            return stirred
        except OSError:
            return None
        finally:
            os.close(root)

    def _walk(self) -> None:
        """Look at all folders, from the root down."""
        seen: dict[str, _Folder] = {}
        same = True
        pending = [""]
        while pending:
            prefix = pending.pop()
            before = self._known.get(prefix)
            now = self._look(prefix, before)
            same = same and before is not None and (now is before or now.files == before.files)
            seen[prefix] = now
            pending += now.folders
        if not same or len(seen) != len(self._known):
            self._facts = FolderFacts(folder.files for folder in seen.values())
            self.changes = None
        self._known = seen

    def unfinished(self, paths: Iterable[str]) -> None:
        """List the folders of these files at every look: see `Lister.unfinished`."""
        self._unfinished = frozenset(path[: path.rfind("/") + 1] for path in paths)

    def _look(self, prefix: str, before: _Folder | None) -> _Folder:
        path = f"{self.root}/{prefix}"
        try:
            stamp = _stamp(path)
        except OSError as error:
            raise incomplete(self.root, path, error) from None
        if before is None or before.stamp != stamp:
            before = _Folder(stamp, time.monotonic_ns(), [], [])
        elif before.settled and prefix not in self._unfinished:
            return before
        return self._read_again(prefix, before)

    def _read_again(self, prefix: str, before: _Folder) -> _Folder:
        started = time.monotonic_ns()
        files: list[Fact] = []
        folders: list[str] = []
        has_links = self._read_folder(prefix, files, folders)
        settled = (
            started - before.since > _granularity(before.stamp)
            and not has_links
            and not any(fact[1] == 0 for fact in files)
            # Files in a folder of this name can make the folder above another table's (`_check_folder`).
            and not any(folder.endswith("/metadata/") or folder == "metadata/" for folder in folders)
        )
        return replace(before, files=files, folders=folders, settled=settled)


def _without_ends(before: list[Fact], now: list[Fact]) -> tuple[set[Fact], set[Fact]]:
    """The facts of two listings of a folder, without those with which both begin and end."""
    if before == now:
        return set(), set()
    shorter = min(len(before), len(now))
    first = next((at for at in range(shorter) if before[at] != now[at]), shorter)
    last = next((at for at in range(shorter - first) if before[-1 - at] != now[-1 - at]), shorter - first)
    return set(before[first : len(before) - last]), set(now[first : len(now) - last])


def _stamp(path: str) -> _Stamp:
    found = os.stat(path)  # noqa: PTH116 - a Path costs more than the call, and there can be 10,000 folders
    return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_nlink)


def _granularity(stamp: _Stamp) -> int:
    whole_seconds = stamp[2] % 1_000_000_000 == 0 and stamp[3] % 1_000_000_000 == 0
    return COARSE_TICK_NS if whole_seconds else CLOCK_TICK_NS
