"""The Arrow columns, the schema and the identity of one snapshot of Parquet files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import number_array, text_array, truth_array
from pruner.errors import TableError
from pruner.schema import Field, TableSchema
from pruner.tables.footers.file_schemas import BrokenFileError, distinct
from pruner.tables.footers.unify import unify
from pruner.tables.partitions import HivePartitions, hive_partitions, settled_trust
from pruner.tables.snapshot import SLICE_COLUMNS, FileSchemas, Snapshot, key_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pruner.tables.listing.files import Fact, Lister


class DataFile(NamedTuple):
    """One data file: the ordinal of its root, its path below that, and what identifies this version of it.

    `fact` is what the listing says of it.
    """

    root: int
    path: str
    size: int
    version: str
    key: bytes
    fact: Fact


def data_files(
    root: int, lister: Lister, facts: Iterable[Fact], believed: Mapping[bytes, str]
) -> list[DataFile]:
    """Return the data files of a listing in its order, without empty ones.

    Args:
        root: the ordinal of the root.
        lister: that of the root.
        facts: what it says of each file.
        believed: versions that touched files are taken for, by slice key.

    Raises:
        TableError: a name is not UTF-8.
    """
    files: list[DataFile] = []
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
        files.append(DataFile(root, path, size, version, key, fact))
    return files


def slice_key(root: int, path: str, size: int, version: str) -> bytes:
    """Return the slice key of a data file: each text with its length in front, so that no two are alike."""
    path_bytes, version_bytes = path.encode(), version.encode()
    numbers = b"%d,%d,%d,%d;" % (root, size, len(path_bytes), len(version_bytes))
    return xxhash.xxh3_128_digest(numbers + path_bytes + version_bytes)


def snapshot_id(roots: Iterable[str], keys: bytes, unsettled: bytes) -> str:
    """Hash the layout, all keys in order, and which slices are unsettled (they are settled later), a byte for each."""
    digest = xxhash.xxh3_128(b"parquet\0" + "\0".join(roots).encode() + b"\0\0")
    digest.update(keys)
    digest.update(unsettled)
    return digest.hexdigest()


class Builder:
    """Makes the Arrow columns and the schema of one snapshot."""

    def __init__(
        self,
        listers: list[Lister],
        files: list[DataFile],
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
            id=snapshot_id([lister.root for lister in self._listers], keys, bytes(self._unsettled)),
            schema=_table_schema(schemas, hive),
            columns=slice_rows(self._files, uris, names, partition, self._kept_always()),
            keys=key_array(keys),
            partitions=settled_trust(hive, schemas),
            root=self._listers[0].root,
            problems=problems,
            file_schemas=self._file_schemas(schemas),
        )

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

    def _kept_always(self) -> list[bool]:
        """The files that no index may cover: broken ones, and those that are too young."""
        return [
            young or isinstance(schema, BrokenFileError)
            for young, schema in zip(self._unsettled, self._schemas, strict=True)
        ]

    def _file_schemas(self, schemas: list[pa.Schema]) -> FileSchemas:
        ordinals = {id(schema): position for position, schema in enumerate(schemas)}
        return FileSchemas(
            tuple(schemas), np.array([ordinals.get(id(schema), -1) for schema in self._schemas], np.int32)
        )


def slice_rows(
    files: Sequence[DataFile],
    uris: Sequence[str],
    names: Sequence[str],
    partition: Sequence[int],
    unsettled: Sequence[bool],
) -> pa.Table:
    """Return slices of one data file each, by `SLICE_COLUMNS`; all arguments have one entry a file.

    Args:
        files: the data files.
        uris: where they lie.
        names: their names, without folders.
        partition: the ordinals of their partitions.
        unsettled: whether no index may cover them.
    """
    count = len(files)
    columns: dict[str, Any] = {
        "partition": number_array(np.array(partition, np.int32), pa.int32()),
        "file_id": text_array(names),
        "base_file": text_array(uris),
        "base_size": number_array(np.array([file.size for file in files], np.int64), pa.int64()),
        "base_version": text_array([file.version for file in files]),
        "base_instant": pa.nulls(count, pa.string()),
        "log_files": pa.nulls(count, pa.list_(pa.string())),
        "log_size": pa.nulls(count, pa.int64()),
        "unsettled": truth_array(unsettled),
    }
    return pa.table([columns[name] for name in SLICE_COLUMNS.names], schema=SLICE_COLUMNS)


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
