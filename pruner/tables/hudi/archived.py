"""What has left a Hudi table's active timeline: archived instants, and what cleaners deleted.

From version 8 on the archived timeline is a set of Parquet files that a manifest names, with what each instant did as
the active timeline had it (Hudi technical specification, "LSM timeline"). Up to version 6 it is made of log files,
whose records hold the same under a field for each kind of action (avro-idl of `HoodieArchivedMetaEntry`). It is read
whole, and only where the active timeline leaves a question open.

What cleaners deleted from a table's history: a read as of an instant whose files are gone must fail (T20).

Under the policy that retains commits, a clean says from which commit on everything is there, and Hudi refuses to read
as of anything older. Under the policy that retains file versions it says no such thing, and Hudi returns the rows that
are left. What a cleaner did may have been archived since.
"""

from __future__ import annotations

import io
import json
import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.errors import TableError
from pruner.tables.hudi.listing import base_name, log_name
from pruner.tables.hudi.logs import BlockType, blocks, records
from pruner.tables.hudi.timeline import (
    COMPLETION_TIMES,
    REPLACING,
    UnreadCommitError,
    incomplete,
    read_clean,
    read_commit,
    read_instant,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from pruner.storage.store import Store
    from pruner.tables.hudi.listing import Group
    from pruner.tables.hudi.timeline import Clean, Content, Timeline

_read_parquet: Any = getattr(pq, "read_table")  # noqa: B009 - its stub leaves types open
_MAX_BYTES: Final = 1 << 30
_MANIFEST: Final = re.compile(r"manifest_(\d+)")
_LOG_FILE: Final = re.compile(r"\.commits_\.archive\.\d+_[0-9-]+")
_CLEAN: Final = "clean"
_FIELDS: Final = {_CLEAN: "hoodieCleanMetadata", **dict.fromkeys(REPLACING, "hoodieReplaceCommitMetadata")}
"""The field of a version 6 record with what an action did."""

_T = TypeVar("_T")


class _Done(NamedTuple):
    """An archived instant that completed, and what it did."""

    requested: str
    action: str
    content: Content


class ArchivedTimeline:
    """The archived timeline of one read of a table; it is read on demand only."""

    def __init__(self, store: Store, timeline: Timeline) -> None:
        self._store = store
        self._timeline = timeline
        self._folder = timeline.properties.history_path

    @cached_property
    def completed_at(self) -> Mapping[str, str]:
        """When each instant completed, from version 8 on.

        Raises:
            TableError: it cannot be understood.
            StorageError: the store refuses.
        """
        rows = self._rows(("instantTime", "completionTime"))
        return {start: end for start, end in rows if start and end}

    def cleans(self, after: str) -> Iterator[Clean]:
        """Yield what cleaners did that were requested after an instant.

        Raises:
            TableError: it cannot be understood.
            StorageError: the store refuses.
        """
        for done in self._done:
            if done.action == _CLEAN and done.requested > after:
                yield self._parsed(done, read_clean)

    def replaced(self, until: str) -> Iterator[Group]:
        """Yield the file groups replaced by writes that were requested up to an instant.

        Raises:
            TableError: it cannot be understood.
            StorageError: the store refuses.
        """
        for done in self._done:
            if done.action in REPLACING and done.requested <= until:
                yield from self._parsed(done, read_commit).replaced()

    @cached_property
    def _done(self) -> list[_Done]:
        """All cleans and replacing writes."""
        if self._timeline.properties.version >= COMPLETION_TIMES:
            rows = self._rows(("instantTime", "action", "metadata"))
            return [_Done(*row) for row in rows if row[1] in _FIELDS]
        return list(self._of_log_files())

    def _rows(self, columns: Collection[str]) -> list[tuple[Any, ...]]:
        """Some columns of the files that the newest manifest names; empty where there is no manifest."""
        numbers = [int(match[1]) for match in map(_MANIFEST.fullmatch, self._timeline.history) if match]
        if not numbers:
            return []
        manifest = f"{self._folder}/manifest_{max(numbers)}"
        rows: list[tuple[Any, ...]] = []
        try:
            entries: Any = json.loads(self._store.get(manifest, _MAX_BYTES))
            for entry in entries["files"]:
                data = self._store.get(f"{self._folder}/{entry['fileName']}", _MAX_BYTES)
                table = _read_parquet(pa.BufferReader(data), columns=list(columns))
                rows += zip(*(table.column(name).to_pylist() for name in columns), strict=True)
        except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
            raise self._unread(manifest, error) from None
        return rows

    def _of_log_files(self) -> Iterator[_Done]:
        """The content of version 6 log files: a record for each state of an instant, the last with what it did."""
        for name in filter(_LOG_FILE.fullmatch, self._timeline.history):
            path = f"{self._folder}/{name}"
            try:
                for record in _records(self._store.get(path, _MAX_BYTES)):
                    action = record["actionType"]
                    content = record.get(_FIELDS.get(action, ""))
                    if content is not None:
                        yield _Done(record["commitTime"], action, content)
            except (ValueError, KeyError, TypeError) as error:
                raise self._unread(path, error) from None

    def _parsed(self, done: _Done, read: Callable[[Content], _T]) -> _T:
        try:
            return read(done.content)
        except UnreadCommitError as error:
            raise incomplete(self._store, f"the archived {done.action} {done.requested} {error}") from None

    def _unread(self, path: str, error: Exception) -> Exception:
        return incomplete(self._store, f"the archived timeline, by {path}, is not understood ({error})")


def _records(data: bytes) -> Iterator[dict[str, Any]]:
    """The records of a log file.

    Raises:
        ValueError: they cannot be read.
    """
    avro: Any = fastavro  # its stubs leave types open
    for block in blocks(data):
        if block.type is not BlockType.AVRO:
            raise ValueError(f"a block of type {block.type.name}")
        try:
            schema = avro.parse_schema(json.loads(block.schema))
            for record in records(block.content):
                yield avro.schemaless_reader(io.BytesIO(record), schema, None)
        except (
            Exception
        ) as error:  # fastavro raises whatever its parts raise: a damaged file must only not be trusted
            raise ValueError(f"no Avro that can be read ({type(error).__name__})") from None


class CleanedError(TableError):
    """Files of the instant that is read were deleted."""


class Cleaned:
    """The newest file of each file group that cleaners deleted, up to an instant."""

    def __init__(
        self, store: Store, timeline: Timeline, archived: ArchivedTimeline, as_of: str | None
    ) -> None:
        """Read the cleans of both timelines; none for the newest slices, which no cleaner touches.

        Raises:
            CleanedError: according to a cleaner, files of that instant are gone.
            TableError: what a cleaner says cannot be understood.
            StorageError: the store refuses.
        """
        self._where = (store.uri, as_of)
        self._archived = archived
        self._newest: dict[Group, str] = {}
        if as_of is None:
            return
        kept_from = ""
        for clean in _cleans_after(as_of, store, timeline, archived):
            # No cleaner deletes what belongs to the table when it runs. Nor does one that retains commits delete what
            # has belonged to it since the first of them. So file groups that it deleted entirely had been replaced
            # before, by a write that may have been archived since.
            if clean.earliest_commit_to_retain:
                kept_from = max(kept_from, clean.earliest_commit_to_retain)
            else:
                self._take(clean, timeline, as_of)
        if as_of < kept_from:
            raise self._error(f"keeps what was written from {kept_from} on")

    def _take(self, clean: Clean, timeline: Timeline, as_of: str) -> None:
        for partition, name in clean.deleted():
            base, log = base_name(name), log_name(name)
            # A slice can consist of log files alone. Each of them is older than the base file of the next slice.
            file = base or (log if log is not None and timeline.committed(log.instant) else None)
            if file is not None and file.instant <= as_of:
                group = (partition, file.file_id)
                self._newest[group] = max(file.instant, self._newest.get(group, ""))

    def seen(self, group: Group, start: str | None) -> None:
        """Record the slice that is left of a group, or that the group does not count.

        Raises:
            CleanedError: it is older than one that was deleted.
        """
        deleted = self._newest.pop(group, None)
        if deleted is not None and (start is None or start < deleted):
            raise self._error(f"deleted files of {deleted} in partition {group[0]!r}")

    def require_all_seen(self, without: set[Group]) -> None:
        """Refuse where a file group has no file left.

        Args:
            without: file groups that were replaced by then.

        Raises:
            CleanedError: one has none.
            TableError: what was archived cannot be understood.
            StorageError: the store refuses.
        """
        missing = {group: deleted for group, deleted in self._newest.items() if group not in without}
        if not missing:
            return
        earlier = set(self._archived.replaced(self._where[1] or ""))
        for group, deleted in missing.items():
            if group not in earlier:
                raise self._error(f"deleted files of {deleted} in partition {group[0]!r}")

    def _error(self, what: str) -> CleanedError:
        root, as_of = self._where
        return CleanedError(
            f"{root} cannot be read as of {as_of}: Hudi's cleaner {what}; read a later instant, "
            "or let the cleaner retain more commits"
        )


def _cleans_after(
    as_of: str, store: Store, timeline: Timeline, archived: ArchivedTimeline
) -> Iterator[Clean]:
    """What the cleaners did that were requested after an instant.

    Hudi finishes a clean before it plans another, and archives the oldest first. So all of them are in the active
    timeline if an earlier one is.
    """
    cleans = [instant for instant in timeline.finished.values() if instant.action == "clean"]
    if all(instant.requested > as_of for instant in cleans):
        yield from archived.cleans(as_of)
    for instant in cleans:
        if instant.requested > as_of:
            yield read_instant(store, timeline, instant.name, read_clean)
