"""Which files of a Delta log make up a version of the table: a checkpoint and the commits after it.

The log is a folder `_delta_log` of files whose names begin with versions. Commits are immutable; a multi-part
checkpoint counts only when all of its parts exist. `_last_checkpoint` is only a hint where a listing may begin.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from pruner.errors import TableError
from pruner.storage.store import NotFoundError
from pruner.tables.listing.foreign import DELTA_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pruner.storage.store import ObjectInfo, Store

MOST_BYTES: Final = 1 << 30
"""Maximum size of a JSON log file in bytes."""

_HINT_BYTES: Final = 1 << 20
_HINT: Final = f"{DELTA_LOG}/_last_checkpoint"
_COMMIT: Final = re.compile(r"(\d{20})\.json")
_COMPACTED: Final = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json")
_CHECKPOINT: Final = re.compile(
    r"(?P<version>\d{20})\.checkpoint\.(?:(?P<part>\d{10})\.(?P<parts>\d{10})\.|(?P<uuid>[0-9a-fA-F-]{36})\.)?"
    r"(?P<ending>parquet|json)"
)


class _Hint(msgspec.Struct):
    """The content of `_last_checkpoint`."""

    version: int


# Built once: building a decoder for a type in two threads at once can crash the process (msgspec).
_HINT_DECODER: Final = msgspec.json.Decoder(_Hint)


@dataclass(frozen=True, slots=True)
class CommitFile:
    """A JSON file with the actions of versions `first` to `last`: one commit, or a log compaction of several."""

    first: int
    last: int
    info: ObjectInfo


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All files of one checkpoint."""

    version: int
    files: tuple[ObjectInfo, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """The files that make up a version: a checkpoint, if there is one, then commits without a gap, oldest first."""

    version: int
    checkpoint: Checkpoint | None
    commits: tuple[CommitFile, ...]
    newest: ObjectInfo | None
    """The commit of the version, which shows whether the log is still the same."""


class LogListing:
    """The files of a log, or of its tail, by kind."""

    def __init__(self, root: str, infos: Iterable[ObjectInfo]) -> None:
        self.root = root
        self.commits: dict[int, ObjectInfo] = {}
        self.compacted: dict[int, list[CommitFile]] = {}
        self.checkpoints: dict[int, list[Checkpoint]] = {}
        self.incomplete: dict[int, str] = {}
        parts: dict[tuple[int, int], list[ObjectInfo]] = {}
        for info in infos:
            name = info.path.removeprefix(f"{DELTA_LOG}/")
            if (match := _COMMIT.fullmatch(name)) is not None:
                self.commits[int(match[1])] = info
            elif (match := _COMPACTED.fullmatch(name)) is not None:
                commit = CommitFile(int(match[1]), int(match[2]), info)
                self.compacted.setdefault(commit.first, []).append(commit)
            elif (match := _CHECKPOINT.fullmatch(name)) is not None:
                version = int(match["version"])
                if match["part"] is not None:
                    parts.setdefault((version, int(match["parts"])), []).append(info)
                elif match["ending"] == "parquet" or match["uuid"] is not None:
                    self.checkpoints.setdefault(version, []).append(Checkpoint(version, (info,)))
        for (version, count), infos_of in parts.items():
            if len(infos_of) == count:
                ordered = tuple(sorted(infos_of))
                self.checkpoints.setdefault(version, []).append(Checkpoint(version, ordered))
            else:
                self.incomplete[version] = f"of {count} parts {len(infos_of)} are there"

    @property
    def newest(self) -> int | None:
        """The newest version that the files contain; None for an empty log."""
        known = [*self.commits, *self.checkpoints]
        return max(known, default=None)

    def segment(self, version: int) -> Segment:
        """Return the files that make up a version.

        Raises:
            TableError: commits are missing, or the checkpoint that would replace them is incomplete.
        """
        start = max((checkpoint for checkpoint in self.checkpoints if checkpoint <= version), default=None)
        # A single-file checkpoint is preferred to a multi-part one, which takes as long and needs more requests.
        checkpoint = None if start is None else min(self.checkpoints[start], key=lambda each: len(each.files))
        first = 0 if start is None else start + 1
        return Segment(version, checkpoint, self.commits_of(first, version), self.commits.get(version))

    def commits_of(self, first: int, last: int) -> tuple[CommitFile, ...]:
        """Return the commits of a range of versions without a gap, compacted ones where they save reads.

        Raises:
            TableError: there is a gap.
        """
        commits: list[CommitFile] = []
        while first <= last:
            longer = [commit for commit in self.compacted.get(first, ()) if first < commit.last <= last]
            info = self.commits.get(first)
            if longer:
                commits.append(max(longer, key=lambda each: each.last))
            elif info is not None:
                commits.append(CommitFile(first, first, info))
            else:
                raise self._gap(first)
            first = commits[-1].last + 1
        return tuple(commits)

    def _gap(self, version: int) -> TableError:
        torn = max((each for each in self.incomplete if each >= version), default=None)
        also = (
            ""
            if torn is None
            else f", and its checkpoint of version {torn} is not complete ({self.incomplete[torn]})"
        )
        return TableError(
            f"the log of {self.root} has no commit of version {version}{also}, so that it is not known which files "
            "belong to the table: restore the file"
        )


def list_log(store: Store, after: int | None = None, *, whole: bool = False) -> LogListing:
    """List a log, or the files after a version.

    Args:
        store: the table's root.
        after: the version that is already known.
        whole: do not begin at the checkpoint in the log's hint.

    Raises:
        TableError: there is no log.
        StorageError: it cannot be listed.
    """
    if after is not None:
        return LogListing(store.uri, store.list(DELTA_LOG, after=commit_path(after)))
    # A local folder is always listed as a whole; on an object store, each page saved is a request saved.
    hint = None if whole or store.uri.startswith("/") else _hinted(store)
    if hint is not None:
        listing = LogListing(store.uri, store.list(DELTA_LOG, after=f"{DELTA_LOG}/{hint:020d}."))
        if listing.checkpoints.get(hint):
            return listing
    listing = LogListing(store.uri, store.list(DELTA_LOG))
    if listing.newest is None:
        also = "".join(
            f", and the checkpoint of version {version} is not complete" for version in listing.incomplete
        )
        raise TableError(
            f"{store.uri} is a Delta table whose log has no commit{also}: nothing was written to it"
        )
    return listing


def commit_path(version: int) -> str:
    """The path of a version's commit."""
    return f"{DELTA_LOG}/{version:020d}.json"


def _hinted(store: Store) -> int | None:
    """The checkpoint version in the log's hint; None where the hint is missing or cannot be parsed."""
    try:
        return _HINT_DECODER.decode(store.get(_HINT, _HINT_BYTES)).version
    except (NotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None
