"""Lists a tree whose files never change in place: a look is one `stat` for each folder, not for each file.

A folder's modification time moves when an entry comes, goes or is renamed, so a folder that looks as it did has the
entries that it had. What is in a file is not looked at again: that it stays as it is, is the promise of whoever
declares the table's files immutable (docs/guarantee.md).
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
"""Device, inode, times of modification and change in nanoseconds, size and links of a folder."""

_stamp_of: Final = attrgetter("st_dev", "st_ino", "st_mtime_ns", "st_ctime_ns", "st_size", "st_nlink")
"""Makes the `_Stamp` of what `os.stat` found."""


_MOST_WATCHED: Final = 1024
"""So many folders are listed by their paths for whoever watches them."""


class _Seen(NamedTuple):
    """A stamp that a folder had at some moment (monotonic, nanoseconds) or before."""

    stamp: _Stamp
    at: int


_WAITED_FOR: Final = 4096
"""Files in changed folders from which on listing them once more takes longer than to wait for the clock."""

_MARGIN_NS: Final = 1_000_000


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
        self._folders = list(folders)
        self._count = sum(map(len, self._folders))
        self._at: dict[str, int] | None = None

    def with_folders(self, others: Mapping[int, list[Fact]]) -> FolderFacts:
        """The same with other lists in some places; the lists in all other places are not even looked at."""
        made = FolderFacts(())
        made._folders = self._folders.copy()
        for at, files in others.items():
            made._folders[at] = files
        if self._at is not None:
            made._at = self._at | {_folder_of(files[0]): at for at, files in others.items() if files}
        made._count = self._count + sum(len(files) - len(self._folders[at]) for at, files in others.items())
        return made

    def of(self, paths: Collection[str]) -> list[Fact]:
        """The facts of some files; lists of other folders are not looked into."""
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
        # Folders that did not change are the same lists, which are not looked into.
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
    """What differs between two listings: the earlier one, and the files that are in only one of them.

    `since` is the very sequence that was returned then. A file that was replaced has gone and come.
    """

    since: Sequence[Fact]
    gone: list[Fact]
    come: list[Fact]


class _Folders:
    """What a look asks every folder, in the order of the folders.

    It lies apart from what is in them: a few objects side by side, where those of a million files are spread over
    the whole memory. That, and no Python between two calls, took a third of a look at 10,000 folders.
    """

    def __init__(self, known: Mapping[str, _Folder]) -> None:
        self.prefixes = list(known)
        self.at = {prefix: at for at, prefix in enumerate(known)}
        self.stamps = [folder.stamp for folder in known.values()]
        self.unsettled = {at for at, folder in enumerate(known.values()) if not folder.settled}
        self._paths = [os.fsencode(prefix or ".") for prefix in known]

    def stamps_now(self, root: str) -> list[_Stamp]:
        """Ask every folder.

        Raises:
            OSError: one of them cannot be asked.
        """
        # Folders are looked up in the root, not by their whole path each.
        folder, ask = os.open(root, os.O_RDONLY | os.O_DIRECTORY), os.stat
        try:
            return [_stamp_of(ask(path, dir_fd=folder)) for path in self._paths]
        finally:
            os.close(folder)

    def stirred(self, stamps: list[_Stamp], unfinished: Iterable[str]) -> list[int]:
        """The folders whose entries may have changed since they had the stamps that are known."""
        stirred = self.unsettled | {self.at[prefix] for prefix in unfinished if prefix in self.at}
        stirred.update(compress(count(), map(ne, stamps, self.stamps)))
        return sorted(stirred)

    def listed(self, stamps: list[_Stamp], folders: Mapping[int, _Folder]) -> None:
        """Take up the stamps that were found, but of folders that were listed then those that they had just before."""
        for at, folder in folders.items():
            stamps[at] = folder.stamp
            (self.unsettled.discard if folder.settled else self.unsettled.add)(at)
        self.stamps = stamps


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
        self._folders = _Folders({})
        self._facts = FolderFacts(())
        self._unfinished: frozenset[str] = frozenset()
        self._patient = False
        self.changes: ListingChanges | None = None
        """What differs between the last two listings that differ; None where that was not followed."""

    def facts(self) -> FolderFacts:
        """List all files: see `Lister.facts`. It is the same object for as long as nothing changes."""
        patient, self._patient = self._patient, False
        if not self._follow(patient):
            self._walk()
        return self._facts

    def expect_another_look(self) -> None:
        """Let the next listing wait milliseconds if that saves the one after it the same folders, as a build wants."""
        self._patient = True

    def _wait(self, stirred: Iterable[int], stamps: list[_Stamp], seen_at: int) -> None:
        """Wait until folders that changed can be listed once and for all, if they hold so many files that it pays."""
        changed = [at for at in stirred if stamps[at] != self._folders.stamps[at]]
        files = sum(len(self._known[self._folders.prefixes[at]].files) for at in changed)
        if files >= _WAITED_FOR and all(_granularity(stamps[at]) <= CLOCK_TICK_NS for at in changed):
            time.sleep(max(0, seen_at + CLOCK_TICK_NS + _MARGIN_NS - time.monotonic_ns()) / 1e9)

    def _follow(self, patient: bool) -> bool:
        """List only the folders that may have changed; tells whether that was enough."""
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
        # The stamps come last: a look that is broken off before is made again.
        self._known.update((asked.prefixes[at], folder) for at, folder in listed.items())
        asked.listed(stamps, listed)
        return True

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
        # The places of folders are those of their lists among the facts, so their order counts as well.
        if not same or list(seen) != list(self._known):
            self._facts = FolderFacts(folder.files for folder in seen.values())
            self.changes = None
        self._known, self._folders = seen, _Folders(seen)

    def unfinished(self, paths: Iterable[str]) -> None:
        """List the folders of these files at every look: see `Lister.unfinished`."""
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
            # Where many folders changed, those that were listed first take longer than the clock's granularity, and all
            # others need not be listed once more.
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
            # Files in folders of these names can make the folder above another table's (`_check_folder`).
            and not any(folder[len(prefix) : -1] in TELLING_FOLDERS for folder in folders)
        )
        return replace(before, files=files, folders=folders, settled=settled)


def _without_ends(before: list[Fact], now: list[Fact]) -> tuple[set[Fact], set[Fact]]:
    """The facts of two listings of a folder, without those with which both begin and end."""
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
