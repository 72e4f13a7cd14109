"""The timeline of a Hudi table, what its commits did, and why hudi-rs cannot list it.

A table's state is the **set** of its completed instants and of the services that are planned or running, never the
newest instant. Of two overlapping commits the one that was requested first may complete last, which leaves the newest
instant unchanged (trap T13).

What the commits of a Hudi table did is read from the files of its timeline.

Table version 6 writes commits as JSON and cleans as Avro, versions 8 and 9 everything as Avro object files (Hudi
technical specification, "Timeline"; avro-idl of `HoodieCommitMetadata`, `HoodieReplaceCommitMetadata`,
`HoodieCleanMetadata` and `HoodieCompactionPlan`).

Why hudi-rs cannot list a table is reported as a sentence that says what to do.

hudi-rs itself reports a parser's problem; the owner of the table needs the file, and the remedy.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import fastavro
import msgspec
import xxhash

from pruner.errors import StorageError, TableError, first_line
from pruner.tables.hudi.properties import HudiProperties, read_properties

if TYPE_CHECKING:
    from pruner.storage.store import Store

SCHEMA_PATH = ".hoodie/.schema"
"""Where schema-on-read evolution keeps the history of the schema."""

_FILE_NAME = re.compile(
    r"(?P<requested>[0-9]{14,20})(?:_(?P<completed>[0-9]{14,20}))?"
    r"\.(?P<action>[a-z]+)(?:\.(?P<state>requested|inflight))?"
)
COMPLETION_TIMES = 8
"""The table version from which the name of a completed instant holds its completion time."""

_RUNNING = ("inflight", "requested")
_SAVEPOINT = "savepoint"
WRITES = frozenset({"commit", "deltacommit", "replacecommit", "clustering", "compaction", "logcompaction"})
"""Actions that write files of the table."""

REPLACING = frozenset({"replacecommit", "clustering"})
"""Those of `WRITES` that can replace file groups."""


@dataclass(frozen=True, slots=True)
class Finished:
    """One completed instant: when it was requested and completed ("" where no name tells), and its file's name."""

    requested: str
    completed: str
    action: str
    name: str


@dataclass(frozen=True)
class Timeline:
    """One read of a table: its properties and the sorted names in its timeline, history and schema folders."""

    properties: HudiProperties
    names: tuple[str, ...]
    history: tuple[str, ...]
    schemas: tuple[str, ...]

    @cached_property
    def finished(self) -> dict[str, Finished]:
        """The completed instants of the active timeline, in the order of their requests."""
        finished = [Finished(*entry) for entry in self._finished()]
        return {each.requested: each for each in sorted(finished, key=lambda each: each.requested)}

    @cached_property
    def completed(self) -> dict[str, str]:
        """The action of each completed instant of the active timeline."""
        return {instant: action for instant, action, done in self._instants() if done}

    @cached_property
    def pending(self) -> dict[str, str]:
        """The action of each instant that was requested or is running and has not completed."""
        pending = {instant: action for instant, action, done in self._instants() if not done}
        return {instant: action for instant, action in pending.items() if instant not in self.completed}

    @cached_property
    def oldest(self) -> str:
        """The oldest instant of the active timeline; anything older was completed and archived.

        Instants of indexers do not count: Hudi leaves them in place when it archives the writes after them.
        """
        instants = {**self.completed, **self.pending}
        return min((instant for instant, action in instants.items() if action != "indexing"), default="")

    def settled(self, instant: str) -> bool:
        """Tell whether a file of that instant belongs to a completed write (rule R4)."""
        return instant in self.completed or (bool(self.oldest) and instant < self.oldest)

    @cached_property
    def _first_write(self) -> str:
        """The active timeline's oldest write, except those that savepoints keep when their neighbors are archived."""
        kept = {instant for instant, action, done in self._instants() if done and action == _SAVEPOINT}
        writes = [instant for instant, action in self.completed.items() if action in WRITES]
        # After a restore, such a write may be all that is left: anything older was archived.
        return min((action for action in writes if action not in kept), default=max(writes, default=""))

    def committed(self, instant: str) -> bool:
        """Tell whether Hudi shows a file of that instant (`HoodieFileGroup.isFileSliceCommitted`).

        Cleans and rollbacks are archived separately, so an instant that is younger than the oldest one may be gone:
        what counts is the oldest write.
        """
        if instant in self.completed:
            return True
        return instant not in self.pending and bool(self._first_write) and instant < self._first_write

    @cached_property
    def running_since(self) -> str:
        """The oldest running write, where every completed write is younger; "" otherwise."""
        oldest = min((instant for instant, action in self.pending.items() if action in WRITES), default="")
        return oldest if oldest < self._first_write else ""

    def may_have_failed(self, instant: str) -> bool:
        """Tell whether an instant that `committed` takes for archived is younger than a running write.

        Hudi archives no write after a running one, so it was rolled back, and its files should be gone.
        """
        return bool(self.running_since) and self.running_since < instant and instant not in self.completed

    def log_instants(self) -> str:
        """Return `Snapshot.log_instants`: the oldest instant, then the completed ones."""
        return " ".join([self.oldest, *sorted(self.completed)])

    def id(self) -> str:
        """Return what changes whenever the slices or the schema may have changed."""
        digest = xxhash.xxh3_128(self.properties.raw)
        for names in (self.names, self.history, self.schemas):
            digest.update(("\0" + "\0".join(names) + "\0\0").encode())
        return digest.hexdigest()

    @property
    def _savepoints_first(self) -> list[str]:
        """The names, savepoints first, so that an instant's own action overrides its savepoint of the same instant."""
        return sorted(self.names, key=lambda name: f".{_SAVEPOINT}" not in name)

    def _finished(self) -> Iterator[tuple[str, str, str, str]]:
        for name in self._savepoints_first:
            match = _FILE_NAME.fullmatch(name)
            if (
                match is not None
                and match.group("requested") in self.completed
                and match.group("state") is None
            ):
                requested, completed, action = match.group("requested", "completed", "action")
                if action not in _RUNNING:
                    yield requested, completed or "", action, name

    def _instants(self) -> list[tuple[str, str, bool]]:
        """Return (time of the request, action, whether that file says completed) for each file."""
        has_times = self.properties.version >= COMPLETION_TIMES
        instants: list[tuple[str, str, bool]] = []
        for name in self._savepoints_first:
            match = _FILE_NAME.fullmatch(name)
            if match is None:
                continue
            action, state = match.group("action"), match.group("state")
            if action in _RUNNING:  # a running commit is called `<instant>.inflight`
                action, state = "commit", action
            done = state is None and (match.group("completed") is not None) == has_times
            instants.append((match.group("requested"), action, done))
        return instants


def read_timeline(store: Store) -> Timeline:
    """Read a table's timeline, which costs one small file and the names in a few folders.

    Raises:
        TableError: this is no Hudi table that pruner reads, or a folder cannot be listed.
        StorageError: the store refuses.
    """
    properties = read_properties(store)
    names = folder_names(store, properties.timeline_path)
    return Timeline(
        properties=properties,
        names=tuple(name for name in names if _FILE_NAME.fullmatch(name)),
        history=tuple(folder_names(store, properties.history_path)),
        schemas=tuple(folder_names(store, SCHEMA_PATH)),
    )


def folders_read(timeline: Timeline) -> tuple[str, ...]:
    """Return the folders that `read_timeline` reads: the first one has the properties file."""
    properties = timeline.properties
    return ".hoodie", properties.timeline_path, properties.history_path, SCHEMA_PATH


def folder_names(store: Store, folder: str) -> list[str]:
    """Return the sorted names of the files in a folder; a folder that does not exist has none.

    Raises:
        TableError: a local folder cannot be read.
        StorageError: the store refuses.
    """
    if not store.uri.startswith("/"):
        paths = (info.path.removeprefix(folder + "/") for info in store.list(folder))
        return sorted(path for path in paths if "/" not in path)
    try:
        return sorted(os.listdir(f"{store.uri}/{folder}"))  # noqa: PTH208 - a listing of names, ten times as fast
    except FileNotFoundError:
        return []
    except OSError as error:
        raise TableError(f"cannot list {store.uri}/{folder} completely: {error.strerror}") from None


def newest_schema_file(store: Store, timeline: Timeline, max_bytes: int = 1 << 26) -> bytes | None:
    """Return the newest record of the schema's history, or None without schema-on-read evolution.

    Raises:
        StorageError: it is there and cannot be read.
    """
    saved = [name for name in timeline.schemas if name.endswith(".schemacommit")]
    if not saved:
        return None
    try:
        return store.get(f"{SCHEMA_PATH}/{saved[-1]}", max_bytes)
    except StorageError as error:
        raise StorageError(f"cannot read the schema history of {store.uri}: {error}") from None


COMMIT_BYTES = 16 * 1024 * 1024
"""Largest commit that is read: larger ones change so many slices that a listing costs no more."""

Content: TypeAlias = "bytes | Mapping[str, Any]"
"""What an instant did: a file of the active timeline, or the same as a record of the archived one."""

_AVRO_MAGIC = b"Obj\x01"
_T = TypeVar("_T")


class UnreadCommitError(ValueError):
    """A commit that cannot be understood; the text is a clause."""


class WriteStat(msgspec.Struct, frozen=True, rename="camel"):
    """One file that a commit wrote. `path` is relative to the table's root, `file_size_in_bytes` is the file's size."""

    file_id: str | None = None
    path: str | None = None
    prev_commit: str | None = None
    file_size_in_bytes: int | None = None
    log_files: list[str] | None = None
    cdc_stats: dict[str, Any] | None = None


class Commit(msgspec.Struct, frozen=True, rename="camel"):
    """A commit, delta commit or replace commit: what it wrote and replaced, by partition path."""

    partition_to_write_stats: dict[str, list[WriteStat]] | None = None
    partition_to_replace_file_ids: dict[str, list[str]] | None = None
    operation_type: str | None = None
    extra_metadata: dict[str, Any] | None = None

    def replaced(self) -> Iterator[tuple[str, str]]:
        """Yield partition path and file id of each file group that it replaced."""
        for partition, file_ids in (self.partition_to_replace_file_ids or {}).items():
            for file_id in file_ids:
                yield partition, file_id


class CleanedPartition(msgspec.Struct, frozen=True, rename="camel"):
    """The files that a cleaner deleted, or tried to delete, in one partition, by name."""

    delete_path_patterns: list[str] | None = None
    success_delete_files: list[str] | None = None
    failed_delete_files: list[str] | None = None


class Clean(msgspec.Struct, frozen=True, rename="camel"):
    """What a cleaner did."""

    partition_metadata: dict[str, CleanedPartition] | None = None
    bootstrap_partition_metadata: dict[str, CleanedPartition] | None = None
    earliest_commit_to_retain: str | None = None

    def deleted(self) -> Iterator[tuple[str, str]]:
        """Yield partition path and name of each file that was deleted, or that the cleaner tried to delete."""
        for partition, cleaned in (self.partition_metadata or {}).items():
            for paths in (
                cleaned.delete_path_patterns,
                cleaned.success_delete_files,
                cleaned.failed_delete_files,
            ):
                for path in paths or ():
                    yield partition, path[path.rfind("/") + 1 :]


class CompactedGroup(msgspec.Struct, frozen=True, rename="camel"):
    """One file group of a compaction plan: the log files, by path or name, that it compacts."""

    partition_path: str | None = None
    file_id: str | None = None
    delta_file_paths: list[str] | None = None


class CompactionPlan(msgspec.Struct, frozen=True, rename="camel"):
    """What a compaction was asked to do."""

    operations: list[CompactedGroup] | None = None


def read_commit(data: Content) -> Commit:
    """Parse a completed commit, delta commit or replace commit.

    Raises:
        UnreadCommitError: it is in another form.
    """
    return _read(data, Commit)


def read_clean(data: Content) -> Clean:
    """Parse a completed clean.

    Raises:
        UnreadCommitError: it is in another form.
    """
    return _read(data, Clean)


def read_compaction_plan(data: bytes) -> CompactionPlan:
    """Parse the plan of a compaction.

    Raises:
        UnreadCommitError: it is in another form.
    """
    return _read(data, CompactionPlan)


def _read(data: Content, kind: type[_T]) -> _T:
    try:
        if not isinstance(data, bytes):
            return msgspec.convert(data, kind)
        if not data.startswith(_AVRO_MAGIC):
            return msgspec.json.decode(data, type=kind)
        return msgspec.convert(_record(data), kind)
    except msgspec.MsgspecError as error:
        raise UnreadCommitError(f"is not understood ({error})") from None


def _record(data: bytes) -> object:
    """The one record of an Avro object file."""
    avro: Any = fastavro  # whose stubs leave types open
    try:
        reader = avro.reader(io.BytesIO(data))
        # Compressed files, which Hudi does not write here, could decompress to any size.
        if reader.codec != "null":
            raise UnreadCommitError(f"is packed with {reader.codec}")
        records = [record for record, _ in zip(reader, range(2), strict=False)]
    except UnreadCommitError:
        raise
    except (
        Exception
    ) as error:  # fastavro raises what its parts raise: a damaged file must only not be believed
        raise UnreadCommitError(f"is no Avro file that can be read ({type(error).__name__})") from None
    if len(records) != 1:
        raise UnreadCommitError("does not hold one record")
    return records[0]


_COMMIT = re.compile(r"commit metadata|Timeline error", re.IGNORECASE)
_REMEDIES = (
    (re.compile(r"Config "), "mend .hoodie/hoodie.properties, or restore it from hoodie.properties.backup"),
    (re.compile(r"No completed commit"), "nothing was ever written to it, or its timeline is gone"),
    (re.compile(r"Failed to parse file name"), "Hudi did not write that file: move it out of the table"),
    (
        re.compile(r"Avro schema|Decimal|Data type"),
        "mend the schema in the newest commit of .hoodie",
    ),
)


@contextmanager
def refusing(store: Store, timeline: Timeline) -> Generator[None]:
    """Turn whatever hudi-rs raises into a TableError; its panics are not `Exception`s."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, TableError):
        raise
    except BaseException as error:
        raise refusal(store, timeline, first_line(error)) from None


def refusal(store: Store, timeline: Timeline, what: str) -> TableError:
    """The error for a table that hudi-rs cannot list.

    Args:
        store: the table's root.
        timeline: its timeline.
        what: what hudi-rs reports, in one line.
    """
    what = what.rstrip(".")
    if _COMMIT.search(what):
        damaged = _damaged_commit(store, timeline)
        if damaged is not None:
            path, why = damaged
            return TableError(
                f"cannot list the Hudi table {store.uri} completely: {path} {why}: restore that file, or roll its "
                "commit back with Hudi's CLI"
            )
    remedy = next((f"; {text}" for pattern, text in _REMEDIES if pattern.search(what)), "")
    return TableError(f"cannot list the Hudi table {store.uri} completely: {what}{remedy}")


def incomplete(store: Store, why: str) -> TableError:
    """The error for a table whose slices are uncertain; `why` is a clause."""
    return TableError(f"cannot list the Hudi table {store.uri} completely: {why}")


def read_instant(
    store: Store, timeline: Timeline, name: str, parse: Callable[[bytes], _T], max_bytes: int = COMMIT_BYTES
) -> _T:
    """The parsed content of a timeline file.

    Raises:
        TableError: it cannot be understood.
        StorageError: the store refuses.
    """
    path = f"{timeline.properties.timeline_path}/{name}"
    try:
        return parse(store.get(path, max_bytes))
    except UnreadCommitError as error:
        raise incomplete(store, f"{path} {error}") from None


def _damaged_commit(store: Store, timeline: Timeline) -> tuple[str, str] | None:
    """The newest write of the timeline that cannot be read, and why."""
    for entry in reversed(tuple(timeline.finished.values())):
        if entry.action not in WRITES:
            continue
        path = f"{timeline.properties.timeline_path}/{entry.name}"
        try:
            read_commit(store.get(path, COMMIT_BYTES))
        except UnreadCommitError as error:
            return path, str(error)
        except StorageError as error:
            return path, f"cannot be read ({error})"
    return None
