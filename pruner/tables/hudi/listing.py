"""The files below the root of a Hudi table as compact columns, and their file groups, a few thousand at a time.

A table of a million file groups has millions of files, and an object of Python takes more for each of them than all
that is known of it. So files are kept as Arrow columns until their group is looked at.
"""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, compute, number_array, text_array
from pruner.errors import StorageError, TableError
from pruner.tables.hudi.files import BASE_ENDINGS, LogName, base_name, log_name

if TYPE_CHECKING:
    from pruner.storage.store import Store

PARTITION_MARK = ".hoodie_partition_metadata"
_INSIDE = ".hoodie"
_AT_ONCE = 1 << 13
"""Files that are Python objects at a time."""

Group: TypeAlias = tuple[str, str]
"""Partition path and file id."""

Found: TypeAlias = tuple[str, int]
"""Name and size of a file."""

Folders: TypeAlias = "Iterable[tuple[str, Iterable[Found]]]"
"""Files by their folders, relative to the root; a folder may come more than once."""


@dataclass
class GroupFiles:
    """The files of one file group: base files by their instant, log files.

    A task that ran twice leaves several base files of one instant.
    """

    bases: dict[str, list[Found]] = field(default_factory=dict[str, "list[Found]"])
    logs: list[tuple[LogName, int]] = field(default_factory=list[tuple[LogName, int]])


class StrangeFileError(TableError):
    """A file that is called like none of Hudi's where Hudi would take it for data."""


class Listing:
    """Base and log files, sorted by partition path and file id; whatever is called otherwise is passed over."""

    def __init__(self, folders: Folders, *, marked: bool = True, refuse_strange: bool = False) -> None:
        """List the files.

        Args:
            folders: the files.
            marked: whether folders with data must have Hudi's mark of a partition.
            refuse_strange: refuse what ends like data and is called otherwise.

        Raises:
            StrangeFileError: as asked for.
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
    """The files of a table by their folders, without those inside of `.hoodie`.

    Args:
        store: the table's root.
        under: only what is in this folder and below it.

    Raises:
        StorageError: the store refuses, while they are listed.
    """
    if store.uri.startswith("/"):
        return _walked(store.uri, under)
    return _paged(store, under)


def _paged(store: Store, under: str) -> Folders:
    found = (
        (*info.path.rpartition("/"), info.size) for info in (store.list(under) if under else store.some())
    )
    for folder, files in groupby(found, key=lambda each: each[0]):
        if folder.partition("/")[0] != _INSIDE:
            yield folder, ((name, size) for _, _, name, size in files)


def _walked(root: str, under: str) -> Folders:
    """A folder of the local disk is read here: of a listing with e-tags only names and sizes would be kept."""
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
    """Add what a folder holds to the files and the folders below; return what tells it from other folders."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        itself = os.fstat(descriptor)
        identity = (itself.st_dev, itself.st_ino)
        if identity in above:
            raise OSError(errno.ELOOP, f"the link {path} leads into a folder above it")
        # Entries of a folder given by descriptor are looked up in it, not by their whole path each.
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
