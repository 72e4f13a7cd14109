"""Plain Parquet tables: trees of files below one or several roots, with hive-style partitions or without.

Every file that engines would read is a file group of its own. Hidden files (`_` or `.` in front) and empty
ones (0 bytes, which hold no row and which Spark and Trino pass over) are none; a file without a `.parquet`
ending is one when it is Parquet inside, as Spark and Trino read it too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import pyarrow as pa
import xxhash

from pruner.errors import StorageError, TableError
from pruner.schema import Field, TableSchema
from pruner.tables.file_schemas import (
    BrokenFileError,
    NotParquetError,
    SchemaReader,
    UnreadableFileError,
    distinct,
)
from pruner.tables.folders import FolderLister
from pruner.tables.listing import Fact, Lister, open_lister, settle
from pruner.tables.parquet_saving import load, load_prints, save
from pruner.tables.partitions import HivePartitions, hive_partitions, settled_trust
from pruner.tables.snapshot import SLICE_COLUMNS, SLICE_KEY_BYTES, FileSchemas, Snapshot
from pruner.tables.touched import Seen, TouchedFiles
from pruner.tables.unify import unify

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.tables.source import SavedLook

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
"""Endings by which a file says that it is Parquet; one that is not after all is a broken one."""


class _File(NamedTuple):
    """One data file: the ordinal of its root, its path below that, and what identifies this version of it.

    `fact` is what the listing says of it.
    """

    root: int
    path: str
    size: int
    version: str
    key: bytes
    fact: Fact


@dataclass
class _Look:
    """What the last look saw; an equal listing means an equal snapshot only when it was `settled`."""

    facts: list[list[Fact]]
    settled: bool
    snapshot: Snapshot
    schemas: dict[bytes, pa.Schema | BrokenFileError] = field(
        default_factory=dict[bytes, pa.Schema | BrokenFileError]
    )


class ParquetSource:
    """A table of Parquet files: see `pruner.tables.source.TableSource`."""

    format = "parquet"

    def __init__(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        immutable: bool = False,
    ) -> None:
        """`immutable`: somebody promises that no file changes in place, so that looks need not ask for each."""
        self.roots = tuple(roots)
        self.root = self.roots[0]
        self.storage_options = dict(storage_options or {})
        self._listers = [
            FolderLister(root) if immutable and root.startswith("/") else open_lister(root, storage_options)
            for root in roots
        ]
        self._reader = SchemaReader()
        self._lock = RLock()
        self._last: _Look | None = None
        self._known: dict[bytes, pa.Schema] = {}
        self._touched = TouchedFiles()

    def check(self) -> None:
        """Look whether this is a table at all, as cheaply as can be.

        Raises:
            TableError: a root has no data files, or belongs to a foreign format.
            StorageError: the store refuses to be read.
        """
        if not any(fact[1] for lister in self._listers for fact in lister.some_facts()):
            raise self._empty()

    def identity(self) -> str:
        """Return a constant: a folder does not tell whether its files were written anew."""
        return "parquet"

    def own_indexes(self) -> None:
        """Return None: see `TableSource`."""

    def snapshot_at(self, instant: str) -> Snapshot:
        """Refuse: plain files have no history."""
        raise TableError(
            f"{self.root} is a Parquet table, which has no time travel: no snapshot as of {instant!r}"
        )

    def saved(self) -> SavedLook | None:
        """Return the schema and fingerprint of each file of the last look by slice key: see `TableSource`."""
        with self._lock:
            if self._last is None:
                return None
            snapshot = self._last.snapshot
            settled = set(snapshot.keys.filter(pa.array(snapshot.coverable)).to_pylist())
            files = self._files(self._last.facts, self._touched.believed)
            seen = (self._seen(file) for file in files if file.key in settled)
            prints = self._touched.remember(each for each in seen if each is not None)
        return save(snapshot, prints)

    def resume(self, saved: SavedLook) -> None:
        """Take up the schemas of files that another process read; the files are listed all the same."""
        with self._lock:
            self._known = {key: self._reader.intern(schema) for key, schema in load(saved).items()}
            self._touched.take_up(load_prints(saved))

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """List all roots; return `previous` itself when nothing changed: see `TableSource`."""
        with self._lock:
            facts = [lister.facts() for lister in self._listers]
            last = self._last
            if last is not None and last.settled and last.facts == facts:
                # Nothing was derived from the listing up to here: this is what a look at a quiet table costs.
                return previous if previous is not None and previous.id == last.snapshot.id else last.snapshot
            look = self._look(facts, None)
            if previous is not None and previous.id == look.snapshot.id:
                look.snapshot = previous
            self._last, self._known = look, {}
            return look.snapshot

    def believed(self) -> Mapping[bytes, str]:
        """Return which touched files are taken for what they were: see `TableSource`."""
        with self._lock:
            return self._touched.believed

    def look_again(self, previous: Snapshot, believed: Mapping[bytes, str]) -> Snapshot:
        """List all roots, and believe nothing new of touched files: see `TableSource`."""
        with self._lock:
            found = self._look([lister.facts() for lister in self._listers], believed).snapshot
        return previous if previous.id == found.id else found

    def _look(self, facts: list[list[Fact]], believed: Mapping[bytes, str] | None) -> _Look:
        """Make the snapshot of a listing.

        Args:
            facts: of each root.
            believed: what is believed of touched files; None to look which of them can be.
        """
        young: list[set[str]] = []
        for position, lister in enumerate(self._listers):
            facts[position], too_young = settle(lister, facts[position])
            young.append(too_young)
        files = self._files(facts, believed or {})
        if believed is None:
            believed = self._recognized(files, young)
            # Hardly ever is a file taken for another one; the work for each file is what a changed tree costs.
            files = self._files(facts, believed) if believed else files
        schemas = self._schemas(files)
        for position, lister in enumerate(self._listers):
            lister.unfinished(
                file.path
                for file in files
                if file.root == position and isinstance(schemas[file.key], BrokenFileError)
            )
        files = [file for file in files if not isinstance(schemas[file.key], _NotDataError)]
        if not files:
            raise self._empty()
        self._check_readable(files, schemas)
        unsettled = [file.path in young[file.root] for file in files]
        snapshot = _Builder(self._listers, files, schemas, unsettled).build()
        unreadable = any(isinstance(schema, UnreadableFileError) for schema in schemas.values())
        return _Look(facts, not any(young) and not unreadable, snapshot, schemas)

    def _recognized(self, files: list[_File], young: list[set[str]]) -> Mapping[bytes, str]:
        """Look for files that are not known, and are known again as those that they were before a touch."""
        self._touched.forget_all_but({file.key for file in files})
        before = self._last.schemas if self._last else {}
        seen = (
            self._seen(file)
            for file in files
            if file.key not in before
            and file.key not in self._known
            and file.key not in self._touched.believed
            and file.path not in young[file.root]
        )
        self._touched.recognize([each for each in seen if each is not None])
        return self._touched.believed

    def _seen(self, file: _File) -> Seen | None:
        lister = self._listers[file.root]
        still = lister.still(file.fact)
        if still is None:
            return None
        key = slice_key(file.root, file.path, file.size, still)
        return Seen(file.key, file.version, key, partial(lister.fingerprint, file.fact))

    def _files(self, facts: list[list[Fact]], believed: Mapping[bytes, str]) -> list[_File]:
        return [
            file
            for position, lister in enumerate(self._listers)
            for file in _files(position, lister, sorted(facts[position]), believed)
        ]

    def _check_readable(self, files: list[_File], schemas: dict[bytes, pa.Schema | BrokenFileError]) -> None:
        """Refuse where the store gives not one file: without a column every predicate would seem misspelt."""
        first = schemas[files[0].key]
        if all(isinstance(schemas[file.key], UnreadableFileError) for file in files):
            uri = self._listers[files[0].root].uri(files[0].path)
            raise StorageError(f"none of the {len(files):,} files of {self.root} can be read: {uri} {first}")

    def _empty(self) -> TableError:
        places = ", ".join(self.roots)
        return TableError(f"{places} is not a table: there are no Parquet files in it, and no .hoodie folder")

    def _schemas(self, files: list[_File]) -> dict[bytes, pa.Schema | BrokenFileError]:
        """Return each file's schema by its key, reading the footers of files that were not there before."""
        before = self._last.schemas if self._last else {}
        schemas: dict[bytes, pa.Schema | BrokenFileError] = {}
        missing: list[list[_File]] = [[] for _ in self._listers]
        for file in files:
            found = before.get(file.key)
            if isinstance(found, UnreadableFileError):
                found = None
            if found is None:
                found = self._known.get(file.key)
            if found is None:
                missing[file.root].append(file)
            else:
                schemas[file.key] = found
        for lister, unread in zip(self._listers, missing, strict=True):
            read = self._reader.read_all(lister, [(file.path, file.size) for file in unread])
            for file, schema in zip(unread, read, strict=True):
                schemas[file.key] = _NotDataError() if _is_not_data(file.path, schema) else schema
        return schemas


class _NotDataError(BrokenFileError):
    """A file among the data that does not claim to be Parquet and is not."""


def _is_not_data(path: str, schema: pa.Schema | BrokenFileError) -> bool:
    return isinstance(schema, NotParquetError) and not path.lower().endswith(PARQUET_SUFFIXES)


def _files(root: int, lister: Lister, facts: list[Fact], believed: Mapping[bytes, str]) -> list[_File]:
    files: list[_File] = []
    for fact in facts:
        path, size = str(fact[0]), int(fact[1])
        if size == 0:
            continue
        version = lister.version(fact)
        try:
            key = slice_key(root, path, size, version)
            if key in believed:
                version = believed[key]
                key = slice_key(root, path, size, version)
        except UnicodeEncodeError:
            raise TableError(
                f"the file name {path!r} below {lister.root} is not UTF-8: rename the file"
            ) from None
        files.append(_File(root, path, size, version, key, fact))
    return files


def slice_key(root: int, path: str, size: int, version: str) -> bytes:
    """Return the slice key of a data file: each text with its length in front, so that no two are alike."""
    path_bytes, version_bytes = path.encode(), version.encode()
    numbers = b"%d,%d,%d,%d;" % (root, size, len(path_bytes), len(version_bytes))
    return xxhash.xxh3_128_digest(numbers + path_bytes + version_bytes)


class _Builder:
    """Makes the Arrow columns and the schema of one snapshot."""

    def __init__(
        self,
        listers: list[Lister],
        files: list[_File],
        schemas: dict[bytes, pa.Schema | BrokenFileError],
        unsettled: list[bool],
    ) -> None:
        self._listers = listers
        self._files = files
        self._schemas = [schemas[file.key] for file in files]
        self._unsettled = unsettled

    def build(self) -> Snapshot:
        """Return the snapshot."""
        uris = [self._listers[file.root].uri(file.path) for file in self._files]
        problems = {
            uri: f"{uri} {schema}"
            for uri, schema in zip(uris, self._schemas, strict=True)
            if isinstance(schema, BrokenFileError)
        }
        folders, partition, names = self._split()
        hive = hive_partitions(folders)
        schemas = distinct(schema for schema in self._schemas if not isinstance(schema, BrokenFileError))
        keys = b"".join(file.key for file in self._files)
        return Snapshot(
            id=self._id(keys),
            schema=_table_schema(schemas, hive),
            columns=self._columns(uris, names, partition),
            keys=_key_array(keys),
            partitions=settled_trust(hive, schemas),
            root=self._listers[0].root,
            problems=problems,
            file_schemas=self._file_schemas(schemas),
        )

    def _id(self, keys: bytes) -> str:
        """Hash the layout, all keys in order, and which slices are unsettled (they are settled later)."""
        roots = "\0".join(lister.root for lister in self._listers)
        digest = xxhash.xxh3_128(b"parquet\0" + roots.encode() + b"\0\0")
        digest.update(keys)
        digest.update(bytes(self._unsettled))
        return digest.hexdigest()

    def _split(self) -> tuple[list[str], list[int], list[str]]:
        """Return the folders, the ordinal among them for each file, and each file's name."""
        ordinals: dict[tuple[int, str], int] = {}
        partition: list[int] = []
        names: list[str] = []
        for file in self._files:
            folder, _, name = file.path.rpartition("/")
            partition.append(ordinals.setdefault((file.root, folder), len(ordinals)))
            names.append(name)
        return [folder for _, folder in ordinals], partition, names

    def _columns(self, uris: list[str], names: list[str], partition: list[int]) -> pa.Table:
        count = len(self._files)
        broken = [isinstance(schema, BrokenFileError) for schema in self._schemas]
        columns = {
            "partition": pa.array(partition, pa.int32()),
            "file_id": pa.array(names, pa.string()),
            "base_file": pa.array(uris, pa.string()),
            "base_size": pa.array([file.size for file in self._files], pa.int64()),
            "base_version": pa.array([file.version for file in self._files], pa.string()),
            "base_instant": pa.nulls(count, pa.string()),
            "log_files": pa.nulls(count, pa.list_(pa.string())),
            "log_size": pa.nulls(count, pa.int64()),
            "unsettled": pa.array(np.array(broken) | np.array(self._unsettled)),
        }
        return pa.table([columns[name] for name in SLICE_COLUMNS.names], schema=SLICE_COLUMNS)

    def _file_schemas(self, schemas: list[pa.Schema]) -> FileSchemas:
        ordinals = {id(schema): position for position, schema in enumerate(schemas)}
        return FileSchemas(
            tuple(schemas), np.array([ordinals.get(id(schema), -1) for schema in self._schemas], np.int32)
        )


def _key_array(keys: bytes) -> pa.FixedSizeBinaryArray:
    type_ = pa.binary(SLICE_KEY_BYTES)
    count = len(keys) // SLICE_KEY_BYTES
    return cast("pa.FixedSizeBinaryArray", pa.Array.from_buffers(type_, count, [None, pa.py_buffer(keys)]))


def _table_schema(schemas: list[pa.Schema], hive: HivePartitions) -> TableSchema:
    """Join the files' fields with the partition columns, which stand last unless files hold them as well."""
    fields = unify(schemas)
    top = {entry.path[0].lower(): position for position, entry in enumerate(fields) if len(entry.path) == 1}
    for name, type_ in hive.types.items():
        conflict = hive.conflicts.get(name)
        position = top.get(name.lower())
        if position is None:
            fields.append(Field((name,), type_, partition=True, in_file=False, conflict=conflict))
            continue
        held = fields[position]
        if held.path[0] != name:
            conflict = conflict or f"folders spell it {name!r}, files {held.path[0]!r}"
        fields[position] = replace(held, partition=True, conflict=held.conflict or conflict)
    return TableSchema(tuple(fields))
