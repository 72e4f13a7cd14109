"""Lists a tree whose files never change in place: a listing is one `stat` for each folder, not for each file.

A folder's modification time moves when an entry is added, removed or renamed, so an unchanged folder has unchanged
entries. File contents are not checked again: the user who declares the table's files immutable promises that they do
not change (docs/guarantee.md).
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress, count, islice
from operator import attrgetter, ne
from typing import Final, NamedTuple, TypeAlias, overload

from pruner.errors import TableError
from pruner.tables.listing.files import CLOCK_TICK_NS, COARSE_TICK_NS, Fact, LocalLister, incomplete
from pruner.tables.listing.foreign import TELLING_FOLDERS
from pruner.tables.snapshot import Watched

_Stamp: TypeAlias = tuple[int, int, int, int, int, int]
"""Device, inode, modification and change time in nanoseconds, size and link count of a folder."""

_stamp_of: Final = attrgetter("st_dev", "st_ino", "st_mtime_ns", "st_ctime_ns", "st_size", "st_nlink")
"""Makes the `_Stamp` of an `os.stat` result."""


_MOST_WATCHED: Final = 1024
"""Maximum number of folders whose paths are returned for a watcher."""


class _Seen(NamedTuple):
    """A stamp that a folder had at a point in time (monotonic, nanoseconds) or earlier."""

    stamp: _Stamp
    at: int


_WAITED_FOR: Final = 4096
"""Files in changed folders from which listing them again takes longer than waiting for the clock."""

_MARGIN_NS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class _Folder:
    """The content of a folder when it had this stamp, first seen at `since` (monotonic, nanoseconds).

    `settled`: any later change of its entries shows in the stamp.
    """

    stamp: _Stamp
    since: int
    files: list[Fact]
    folders: list[str]
    settled: bool = False


class FolderFacts(Sequence[Fact]):
    """The facts of folders, one after another: a few thousand lists, where one of all facts would have a million."""

    def __init__(self, folders: Iterable[list[Fact]]) -> None:
        """`folders`: lists that no longer change."""
        self._folders = list(folders)
        self._count = sum(map(len, self._folders))
        self._at: dict[str, int] | None = None

    def with_folders(self, others: Mapping[int, list[Fact]]) -> FolderFacts:
        """The same with other lists at some positions; the lists at all other positions are not touched."""
        made = FolderFacts(())
        made._folders = self._folders.copy()
        for at, files in others.items():
            made._folders[at] = files
        if self._at is not None:
            made._at = self._at | {_folder_of(files[0]): at for at, files in others.items() if files}
        made._count = self._count + sum(len(files) - len(self._folders[at]) for at, files in others.items())
        return made

    def of(self, paths: Collection[str]) -> list[Fact]:
        """The facts of some files; lists of other folders are not searched."""
        if self._at is None:
            self._at = {_folder_of(files[0]): at for at, files in enumerate(self._folders) if files}
        prefixes = {path[: path.rfind("/") + 1] for path in paths}
        places = [self._at[prefix] for prefix in prefixes if prefix in self._at]
        return [fact for at in places for fact in self._folders[at] if fact[0] in paths]

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
        # Unchanged folders are the same list objects, whose elements are not compared.
        return isinstance(other, FolderFacts) and (
            self._folders == other._folders
            or (len(self) == len(other) and self._with_files() == other._with_files())
        )

    def _with_files(self) -> list[list[Fact]]:
        return [files for files in self._folders if files]

    __hash__ = None  # type: ignore[assignment]


def _folder_of(fact: Fact) -> str:
    path = str(fact[0])
    return path[: path.rfind("/") + 1]


class ListingChanges(NamedTuple):
    """The difference between two listings: the earlier one, and the files that are in only one of them.

    `since` is the sequence object that was returned then. A replaced file is in both `gone` and `come`.
    """

    since: Sequence[Fact]
    gone: list[Fact]
    come: list[Fact]


class _Folders:
    """What a listing checks in every folder, in the order of the folders.

    It is stored apart from their contents: a few adjacent objects, where those of a million files are spread over the
    whole memory. This, and no Python between two calls, saves a fifth of the time to list 10,000 folders.
    """

    def __init__(self, known: Mapping[str, _Folder]) -> None:
        self.prefixes = list(known)
        self.at = {prefix: at for at, prefix in enumerate(known)}
        self.stamps = [folder.stamp for folder in known.values()]
        self.unsettled = {at for at, folder in enumerate(known.values()) if not folder.settled}
        self._paths = [os.fsencode(prefix or ".") for prefix in known]

    def stamps_now(self, root: str) -> list[_Stamp]:
        """Return the current stamp of every folder.

        Raises:
            OSError: a folder cannot be read.
        """
        # Folders are resolved relative to the root, not by their whole path each.
        folder, ask = os.open(root, os.O_RDONLY | os.O_DIRECTORY), os.stat
        try:
            return [_stamp_of(ask(path, dir_fd=folder)) for path in self._paths]
        finally:
            os.close(folder)

    def stirred(self, stamps: list[_Stamp], unfinished: Iterable[str]) -> list[int]:
        """The folders whose entries may have changed since the known stamps."""
        stirred = self.unsettled | {self.at[prefix] for prefix in unfinished if prefix in self.at}
        stirred.update(compress(count(), map(ne, stamps, self.stamps)))
        return sorted(stirred)

    def listed(self, stamps: list[_Stamp], folders: Mapping[int, _Folder]) -> None:
        """Store the new stamps; for folders that were listed meanwhile, those from just before their listing."""
        for at, folder in folders.items():
            stamps[at] = folder.stamp
            (self.unsettled.discard if folder.settled else self.unsettled.add)(at)
        self.stamps = stamps


class FolderLister(LocalLister):
    """A folder of the local disk, or of a network file system, whose files never change in place.

    A change within the clock's granularity of a listing can leave the stamp unchanged (R4). A folder is therefore
    listed again until its stamp has been seen for longer than that, by this machine's monotonic clock. The skew of the
    file system's own clock does not matter. Folders with unfinished files (empty, or not yet readable) are listed every
    time, because writers finish files without a trace in the folder. So are folders with links to files, whose targets
    are replaced elsewhere.
    """

    def __init__(self, root: str) -> None:
        super().__init__(root)
        self._known: dict[str, _Folder] = {}
        self._folders = _Folders({})
        self._facts = FolderFacts(())
        self._unfinished: frozenset[str] = frozenset()
        self._patient = False
        self.changes: ListingChanges | None = None
        """The changes between the last two different listings; None where they were not tracked."""

    def facts(self) -> FolderFacts:
        """List all files: see `Lister.facts`. It returns the same object while nothing changes."""
        patient, self._patient = self._patient, False
        if not self._follow(patient):
            self._walk()
        return self._facts

    def expect_another_look(self) -> None:
        """Let the next listing wait milliseconds if that saves the one after it the same folders, as in a build."""
        self._patient = True

    def _wait(self, stirred: Iterable[int], stamps: list[_Stamp], seen_at: int) -> None:
        """Wait until one listing of the changed folders suffices, if they hold so many files that it pays."""
        changed = [at for at in stirred if stamps[at] != self._folders.stamps[at]]
        files = sum(len(self._known[self._folders.prefixes[at]].files) for at in changed)
        if files >= _WAITED_FOR and all(_granularity(stamps[at]) <= CLOCK_TICK_NS for at in changed):
            time.sleep(max(0, seen_at + CLOCK_TICK_NS + _MARGIN_NS - time.monotonic_ns()) / 1e9)

    def _follow(self, patient: bool) -> bool:
        """List only the folders that may have changed; tell whether that was enough."""
        if not self._known:
            return False
        asked = self._folders
        listed: dict[int, _Folder] = {}
        gone: list[Fact] = []
        come: list[Fact] = []
        try:
            stamps = asked.stamps_now(self.root)
            seen_at = time.monotonic_ns()
            stirred = asked.stirred(stamps, self._unfinished)
            if patient:
                self._wait(stirred, stamps, seen_at)
            for at in stirred:
                prefix = asked.prefixes[at]
                before = self._known[prefix]
                listed[at] = now = self._look(prefix, before, _Seen(stamps[at], seen_at))
                if now.folders != before.folders:
                    return False
                earlier, later = _without_ends(before.files, now.files)
                gone += earlier - later
                come += later - earlier
        except (OSError, TableError):
            return False  # the walk finds out whether it is gone or cannot be read
        if gone or come:
            since = self._facts
            self._facts = since.with_folders({at: folder.files for at, folder in listed.items()})
            self.changes = ListingChanges(since, gone, come)
        # The stamps are stored last: a listing that is interrupted earlier is repeated.
        self._known.update((asked.prefixes[at], folder) for at, folder in listed.items())
        asked.listed(stamps, listed)
        return True

    def _walk(self) -> None:
        """List all folders, from the root down."""
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
        # The positions of folders are those of their lists among the facts, so their order matters, too.
        if not same or list(seen) != list(self._known):
            self._facts = FolderFacts(folder.files for folder in seen.values())
            self.changes = None
        self._known, self._folders = seen, _Folders(seen)

    def unfinished(self, paths: Iterable[str]) -> None:
        """List the folders of these files every time: see `Lister.unfinished`."""
        self._unfinished = frozenset(path[: path.rfind("/") + 1] for path in paths)

    def watched(self) -> list[Watched] | None:
        """Return the folders, once any change of their entries shows: see `LocalLister.watched`."""
        if self._folders.unsettled or self._unfinished or len(self._known) > _MOST_WATCHED:
            return None
        return [Watched("stat", f"{self.root}/{prefix}") for prefix in self._known]

    def _look(self, prefix: str, before: _Folder | None, seen: _Seen | None = None) -> _Folder:
        path = f"{self.root}/{prefix}"
        try:
            stamp = _stamp(path)
        except OSError as error:
            raise incomplete(self.root, path, error) from None
        if before is None or before.stamp != stamp:
            # Where many folders changed, listing the first ones takes longer than the clock's granularity, and all
            # others need not be listed again.
            since = seen.at if seen is not None and seen.stamp == stamp else time.monotonic_ns()
            before = _Folder(stamp, since, [], [])
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
            # Files in folders of these names can show that the folder above is another table's (`_check_folder`).
            and not any(folder[len(prefix) : -1] in TELLING_FOLDERS for folder in folders)
        )
        return replace(before, files=files, folders=folders, settled=settled)


def _without_ends(before: list[Fact], now: list[Fact]) -> tuple[set[Fact], set[Fact]]:
    """The facts of two listings of a folder, without their common start and end."""
    if before == now:
        return set(), set()
    shorter = min(len(before), len(now))
    first = next(compress(count(), map(ne, before, now)), shorter)
    from_behind = islice(map(ne, reversed(before), reversed(now)), shorter - first)
    last = next(compress(count(), from_behind), shorter - first)
    return set(before[first : len(before) - last]), set(now[first : len(now) - last])


def _stamp(path: str) -> _Stamp:
    return _stamp_of(os.stat(path))  # noqa: PTH116 - a Path costs more than the call, and there can be 10,000 folders


def _granularity(stamp: _Stamp) -> int:
    whole_seconds = stamp[2] % 1_000_000_000 == 0 and stamp[3] % 1_000_000_000 == 0
    return COARSE_TICK_NS if whole_seconds else CLOCK_TICK_NS
