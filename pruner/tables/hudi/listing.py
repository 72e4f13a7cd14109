"""The files below the root of a Hudi table as compact columns, and their file groups by their names.

A table of a million file groups has millions of files, and a Python object for each would take more memory than
everything known of it. So files stay Arrow columns until their group is processed.

Also the files of Hudi's file groups by their names, and the log files that completed instants do not reveal.

Base files are named `<file id>_<write token>_<instant>.<ending>`, log files
`.<file id>_<instant>.log.<version>_<write token>` (Hudi technical specification, "File layout hierarchy").
The instant of a log file is that of the slice it belongs to in table version 6, and that of its own write
from version 8 on.
"""

from __future__ import annotations

import errno
import os
import re
import stat as modes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute, number_array, text_array
from pruner.errors import StorageError, TableError

if TYPE_CHECKING:
    from pruner.storage.store import ObjectInfo, Store
    from pruner.tables.hudi.timeline import Timeline

# Instants have 14 or 17 digits; up to version 6, services of the metadata table append three more to that of a commit.
_LOG_NAME = re.compile(
    r"\.(?P<file_id>.+)_(?P<instant>[0-9]{14,20})\.log\.(?P<version>[0-9]+)(?:_(?P<token>[0-9-]+))?"
)
_BASE_NAME = re.compile(
    r"(?P<file_id>[^_]+)_(?P<token>[^_]+)_(?P<instant>[0-9]{14,20})\.(?P<ending>[a-z0-9.]+)"
)
BASE_ENDINGS = frozenset({"parquet", "orc", "hfile", "lance"})

_SHARED_LOGS_VERSION = 6
"""The table version in which running writes append to log files that readers already list."""

_LOG_WRITERS = frozenset({"compaction", "logcompaction", "deltacommit", "rollback", "restore"})

OTHER_FORMAT = "the base file is not a Parquet file"
UNFINISHED = "a file is of an instant that has not completed or is not known"
RUNNING_WRITE = (
    "a write or service is pending in this table of version 6, which appends to log files that are listed"
)
OWN_CODE = "the merger or payload of the table can make values that are in no file"
OWN_CODE_REPLAYED = (
    "Hudi replays older log files of version 6 by a merger or payload that can make values of its own"
)
"""Why a slice is unsettled (rules R4 to R6), as plans report it."""


@dataclass(frozen=True, slots=True)
class HudiSlice:
    """One slice by the names of its files; sizes in bytes. `base` is "" without a base file.

    `unsettled` is the reason why no index may cover the slice, "" where one may.
    """

    partition: str
    file_id: str
    instant: str
    base: str
    base_size: int
    logs: tuple[str, ...]
    log_sizes: tuple[int, ...]
    unsettled: str = ""


def instant_of(name: str) -> str | None:
    """Return the instant in the name of a base or log file, or None when it is neither."""
    match = _LOG_NAME.fullmatch(name) or _BASE_NAME.fullmatch(name)
    return match.group("instant") if match else None


class LogName(NamedTuple):
    """The parts of a log file's name; log files sort by instant, version and write token."""

    name: str
    file_id: str
    instant: str
    version: int
    token: str


def log_name(name: str) -> LogName | None:
    """Parse the name of a log file; None when it is not one."""
    match = _LOG_NAME.fullmatch(name)
    if match is None:
        return None
    file_id, instant, version, token = match.group("file_id", "instant", "version", "token")
    return LogName(name, file_id, instant, int(version), token or "")


class BaseName(NamedTuple):
    """The parts of a base file's name that tell what it belongs to."""

    file_id: str
    instant: str


def base_name(name: str) -> BaseName | None:
    """Parse the name of a base file; None when it is not one, such as the checksum of one (`.….crc`)."""
    match = None if name.startswith(".") else _BASE_NAME.fullmatch(name)
    if match is None or match.group("ending") not in BASE_ENDINGS:
        return None
    return BaseName(*match.group("file_id", "instant"))


def group_of(name: str) -> str | None:
    """Return the file id in the name of a base or log file, or None when it is neither."""
    match = _LOG_NAME.fullmatch(name) or _BASE_NAME.fullmatch(name)
    return match.group("file_id") if match else None


def mark_unsettled(slices: list[HudiSlice], timeline: Timeline) -> list[HudiSlice]:
    """Mark the slices that no index may cover with the reason (rules R4 and R5)."""
    return [marked(entry, timeline) for entry in slices]


def marked(entry: HudiSlice, timeline: Timeline) -> HudiSlice:
    """Return a slice with the reason why no index may cover it, if there is one: see `mark_unsettled`."""
    reason = entry.unsettled or _why_unsettled(entry, timeline)
    return replace(entry, unsettled=reason) if reason else entry


def _why_unsettled(entry: HudiSlice, timeline: Timeline) -> str:
    if entry.base and not entry.base.endswith(".parquet"):
        return OTHER_FORMAT
    properties = timeline.properties
    # Hudi 1.2 merges the logs of earlier slices of version 6 into a compacted base file once more. Where the newest
    # row wins, that changes nothing, but with other mergers the rows may differ from those of the base file.
    replays = properties.version <= _SHARED_LOGS_VERSION and properties.merge_on_read
    if replays and not properties.newest_row_wins:
        return OWN_CODE_REPLAYED
    if entry.logs and properties.merges_by_own_code:
        return OWN_CODE
    names = (*((entry.base,) if entry.base else ()), *entry.logs)
    instants = [instant_of(name) for name in names]
    if not all(instant is not None and timeline.settled(instant) for instant in instants):
        return UNFINISHED
    return ""


def misread_by_hudi_rs(timeline: Timeline) -> bool:
    """Tell whether hudi-rs may list the log files of this table wrongly (rule R6, traps T10 and T11).

    In table version 6 a running delta commit appends to log files without renaming them, and what is written after a
    compaction was planned goes to log files of the planned instant, which hudi-rs leaves out.
    """
    return (
        timeline.properties.version <= _SHARED_LOGS_VERSION
        and timeline.properties.merge_on_read
        and any(action in _LOG_WRITERS for action in timeline.pending.values())
    )


def attach_logs(slices: list[HudiSlice], files: list[ObjectInfo]) -> list[HudiSlice]:
    """Give each slice every log file of its group from its own instant on: see `with_shared_logs`."""
    logs: dict[tuple[str, str], list[tuple[LogName, int]]] = {}
    for file in files:
        partition, _, name = file.path.rpartition("/")
        log = log_name(name)
        if log is not None:
            logs.setdefault((partition, log.file_id), []).append((log, file.size))
    return [with_shared_logs(entry, logs.get((entry.partition, entry.file_id), ())) for entry in slices]


def with_shared_logs(entry: HudiSlice, logs: Iterable[tuple[LogName, int]]) -> HudiSlice:
    """Return a slice with all log files of its group from its own instant on; a slice that has any is unsettled.

    Hudi joins the slice of a pending compaction with the one before it (`fetchMergedFileSlice` of
    `AbstractTableFileSystemView`), which yields the same log files.
    """
    # In a table that was downgraded, a log file may belong to the slice by its content and not by its name.
    listed = frozenset(entry.logs)
    own = sorted(
        (log for log in logs if log[0].instant >= entry.instant or log[0].name in listed), key=by_writing
    )
    return replace(
        entry,
        logs=tuple(log.name for log, _ in own),
        log_sizes=tuple(size for _, size in own),
        unsettled=RUNNING_WRITE if own or entry.logs else "",
    )


def by_writing(log: tuple[LogName, int]) -> tuple[str, int, str]:
    """Sort log files in the order of writing."""
    return log[0].instant, log[0].version, log[0].token


PARTITION_MARK = ".hoodie_partition_metadata"
_INSIDE = ".hoodie"
_AT_ONCE = 1 << 13
"""Files that are Python objects at a time."""

Group: TypeAlias = tuple[str, str]
"""Partition path and file id."""

Found: TypeAlias = tuple[str, int]
"""Name and size of a file."""

Folders: TypeAlias = "Iterable[tuple[str, Iterable[Found]]]"
"""Files by folder, relative to the root; a folder may occur more than once."""


@dataclass
class GroupFiles:
    """The files of one file group: base files by instant, and log files.

    A task that ran twice leaves several base files of one instant.
    """

    bases: dict[str, list[Found]] = field(default_factory=dict[str, "list[Found]"])
    logs: list[tuple[LogName, int]] = field(default_factory=list[tuple[LogName, int]])


class StrangeFileError(TableError):
    """A file with a name that Hudi does not use, where Hudi would take it for data."""


class Listing:
    """Base and log files, sorted by partition path and file id; files with other names are ignored."""

    def __init__(self, folders: Folders, *, marked: bool = True, refuse_strange: bool = False) -> None:
        """List the files.

        Args:
            folders: the files.
            marked: whether folders with data must have Hudi's partition marker.
            refuse_strange: refuse files that end like data but are named otherwise.

        Raises:
            StrangeFileError: there is such a file.
            TableError: a folder with data is no partition.
        """
        self._strange = refuse_strange
        self._ordinals: dict[str, int] = {}
        self._chunks: list[Any] = []
        self.folders: list[str] = []
        self._rows: list[tuple[int, str, str, int]] = []
        marks: set[str] = set()
        for folder, files in folders:
            self._take(folder, files, marks)
        self._flush()
        unmarked = min(self._ordinals.keys() - marks, default=None) if marked else None
        if unmarked is not None:
            raise TableError(f"the folder {unmarked!r} holds data files and no {PARTITION_MARK}")
        self._sort()

    def _take(self, folder: str, files: Iterable[Found], marks: set[str]) -> None:
        ordinal = -1
        for name, size in files:
            file_id = _group_of(name)
            if file_id is None:
                if name.startswith(PARTITION_MARK):
                    marks.add(folder)
                elif self._strange and _is_strange(name):
                    raise StrangeFileError(f"Hudi did not write the file {name!r} in {folder!r}")
                continue
            if ordinal < 0:
                ordinal = self._ordinals.setdefault(folder, len(self._ordinals))
            self._rows.append((ordinal, file_id, name, size))
            if len(self._rows) >= _AT_ONCE:
                self._flush()

    def _flush(self) -> None:
        folders, ids, names, sizes = zip(*self._rows, strict=True) if self._rows else ((), (), (), ())
        arrays = [
            number_array(np.array(folders, np.int32), pa.int32()),
            text_array(ids),
            text_array(names),
            number_array(np.array(sizes, np.int64), pa.int64()),
        ]
        self._rows = []
        self._chunks.append(arrow.table(arrays, schema=_SCHEMA))

    def _sort(self) -> None:
        self.folders = sorted(self._ordinals)
        rank = np.zeros(len(self.folders), np.int32)
        rank[[self._ordinals[folder] for folder in self.folders]] = np.arange(len(self.folders))
        table: Any = pa.concat_tables(self._chunks).combine_chunks()
        self._chunks = []
        ranks = rank[as_numpy(table.column("folder"))]
        table = table.set_column(0, "folder", number_array(ranks, pa.int32()))
        self._order = compute.sort_indices(
            table, sort_keys=[("folder", "ascending"), ("file_id", "ascending")]
        )
        self._table: Any = table.drop_columns(["file_id"])

    def _rows_at(self, start: int) -> Iterator[tuple[int, str, int]]:
        some: Any = self._table.take(self._order.slice(start, _AT_ONCE))
        return zip(*(column.to_pylist() for column in some.columns), strict=True)

    def groups(self) -> Iterator[tuple[Group, GroupFiles]]:
        """Yield each file group with its files, sorted by partition path and file id."""
        known: Group | None = None
        files = GroupFiles()
        for start in range(0, len(self._order), _AT_ONCE):
            for folder, name, size in self._rows_at(start):
                base = base_name(name)
                log = None if base is not None else log_name(name)
                file_id = base.file_id if base is not None else log.file_id if log is not None else ""
                group = (self.folders[folder], file_id)
                if group != known:
                    if known is not None:
                        yield known, files
                    known, files = group, GroupFiles()
                if base is not None:
                    files.bases.setdefault(base.instant, []).append((name, size))
                elif log is not None:
                    files.logs.append((log, size))
        if known is not None:
            yield known, files


_SCHEMA: Any = pa.schema(
    [
        ("folder", pa.int32()),
        ("file_id", pa.large_string()),
        ("name", pa.large_string()),
        ("size", pa.int64()),
    ]
)


def _group_of(name: str) -> str | None:
    base = base_name(name)
    if base is not None:
        return base.file_id
    log = log_name(name)
    return None if log is None else log.file_id


def _is_strange(name: str) -> bool:
    return name.rpartition(".")[2] in BASE_ENDINGS or (".log." in name and not name.endswith(".crc"))


def folders_of(store: Store, under: str = "") -> Folders:
    """The files of a table by folder, without those inside of `.hoodie`.

    Args:
        store: the table's root.
        under: only what is in this folder and below it.

    Raises:
        StorageError: the store refuses during the listing.
    """
    if store.uri.startswith("/"):
        return _walked(store.uri, under)
    return _paged(store, under)


def _paged(store: Store, under: str) -> Folders:
    file_names = (
        (*info.path.rpartition("/"), info.size) for info in (store.list(under) if under else store.some())
    )
    for folder, files in groupby(file_names, key=lambda each: each[0]):
        if folder.partition("/")[0] != _INSIDE:
            yield folder, ((name, size) for _, _, name, size in files)


def _walked(root: str, under: str) -> Folders:
    """Local folders are read here: of a listing with e-tags only names and sizes would be kept."""
    pending: list[tuple[str, frozenset[tuple[int, int]]]] = [(under, frozenset())]
    while pending:
        folder, above = pending.pop()
        files: list[Found] = []
        below: list[str] = []
        try:
            identity = _scan(f"{root}/{folder}" if folder else root, files, below, above)
        except FileNotFoundError:
            continue  # never there, or removed since the folder above was read
        except OSError as error:
            where = f"{root}/{folder}" if folder else root
            raise StorageError(f"cannot list {where} completely: {error.strerror}") from None
        pending += [
            (f"{folder}/{name}" if folder else name, above | {identity})
            for name in below
            if folder or name != _INSIDE
        ]
        yield folder, files


def _scan(
    path: str, files: list[Found], below: list[str], above: frozenset[tuple[int, int]]
) -> tuple[int, int]:
    """Add the contents of a folder to the files and the folders below; return what tells it from other folders."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        itself = os.fstat(descriptor)
        identity = (itself.st_dev, itself.st_ino)
        if identity in above:
            raise OSError(errno.ELOOP, f"the link {path} leads into a folder above it")
        # Entries of a folder given by descriptor are looked up in it, not each by its whole path.
        with os.scandir(descriptor) as entries:
            for entry in entries:
                try:
                    status = entry.stat()
                except FileNotFoundError:
                    continue  # removed since the folder was read
                if modes.S_ISDIR(status.st_mode):
                    below.append(_text(entry.name))
                else:
                    files.append((_text(entry.name), status.st_size))
    finally:
        os.close(descriptor)
    return identity


def _text(name: str) -> str:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise OSError(errno.EILSEQ, f"the file name {name!r} is not UTF-8: rename the file") from None
    return name
