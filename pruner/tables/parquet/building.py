"""A snapshot of Parquet files: made from a listing, or from the previous snapshot where few files changed.

Building a snapshot's entries costs several microseconds per file; copying those of the previous one costs nanoseconds.
The result is exactly the snapshot that a full listing would make, or none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import arrow, as_numpy, compute, number_array, text_array, truth_array
from pruner.errors import TableError
from pruner.schema import Field, TableSchema
from pruner.tables.footers.file_schemas import BrokenFileError, distinct, unify
from pruner.tables.partitions import HivePartitions, hive_partitions, settled_trust
from pruner.tables.snapshot import SLICE_COLUMNS, SLICE_KEY_BYTES, Descent, FileSchemas, Snapshot, key_array

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from pruner.tables.listing.files import Fact, Lister


class FileVersion(NamedTuple):
    """One data file: the ordinal of its root, its path below that, and what identifies this version of it.

    `fact` is its entry in the listing.
    """

    root: int
    path: str
    size: int
    version: str
    key: bytes
    fact: Fact


def data_files(
    root: int, lister: Lister, facts: Iterable[Fact], believed: Mapping[bytes, str]
) -> list[FileVersion]:
    """Return the data files of a listing in its order, without empty ones.

    Args:
        root: the ordinal of the root.
        lister: the root's lister.
        facts: the lister's entries, one for each file.
        believed: versions that touched files are taken for, by slice key.

    Raises:
        TableError: a name is not UTF-8.
    """
    files: list[FileVersion] = []
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
        files.append(FileVersion(root, path, size, version, key, fact))
    return files


def slice_key(root: int, path: str, size: int, version: str) -> bytes:
    """Return the slice key of a data file: strings are prefixed with their lengths, so that no two are alike."""
    path_bytes, version_bytes = path.encode(), version.encode()
    numbers = b"%d,%d,%d,%d;" % (root, size, len(path_bytes), len(version_bytes))
    return xxhash.xxh3_128_digest(numbers + path_bytes + version_bytes)


_GLOB_SUFFIX = ".parquet"
_VISIBLE = "[!._]*"
_NO_LEVEL = "\0"
_IN_PATTERNS = frozenset("*?[]{}\\")
"""Characters with a special meaning in a glob, by the rules of some engine."""


def glob_of(root: str, paths: Iterable[str]) -> str | None:
    """Return the glob of files with the same layout: at the same depth, in folders of the same partition columns.

    It matches no file whose own name, or that of a folder, is hidden: writers may have temporary files there while an
    engine expands it.

    Args:
        root: the table's root.
        paths: the paths of its files, relative to the root.

    Returns:
        A glob such as `s3://lake/t/day=*/[!._]*.parquet`; None where no single one matches these files.
    """
    places = [path.rpartition("/") for path in paths]
    folders = {folder for folder, _, _ in places}
    patterns = {"/".join(map(_level, folder.split("/"))) if folder else "" for folder in folders}
    if len(patterns) != 1 or not all(has_glob_name(name) for _, _, name in places):
        return None
    (pattern,) = patterns
    if _IN_PATTERNS.intersection(root) or _NO_LEVEL in pattern:
        return None
    return "/".join([root, *([pattern] if pattern else []), f"{_VISIBLE}{_GLOB_SUFFIX}"])


def has_glob_name(name: str) -> bool:
    """Tell whether the last part of globs matches a file name."""
    return name.endswith(_GLOB_SUFFIX) and not name.startswith((".", "_"))


def _level(folder: str) -> str:
    """The glob of folders like a given one; `_NO_LEVEL` where there is none."""
    column, separator, _ = folder.partition("=")
    if separator:
        return _NO_LEVEL if _IN_PATTERNS.intersection(column) else f"{column}=*"
    return _NO_LEVEL if folder.startswith((".", "_")) or not folder else _VISIBLE


def snapshot_id(roots: Iterable[str], keys: bytes, unsettled: bytes, glob: str | None = None) -> str:
    """Hash the layout, all keys in order, which slices are unsettled (they are settled later), a byte for each, and the
    glob of the files: a new empty file is not a slice, but matches it.
    """
    digest = xxhash.xxh3_128(b"parquet\0" + "\0".join(roots).encode() + b"\0\0")
    digest.update(keys)
    digest.update(unsettled)
    digest.update((glob or "").encode())
    return digest.hexdigest()


class Builder:
    """Makes the Arrow columns and the schema of one snapshot."""

    def __init__(
        self,
        listers: list[Lister],
        files: list[FileVersion],
        schemas: dict[bytes, pa.Schema | BrokenFileError],
        unsettled: list[bool],
        glob: str | None = None,
    ) -> None:
        """`glob` is the snapshot's."""
        self._glob = glob
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
            id=snapshot_id(
                [lister.root for lister in self._listers], keys, bytes(self._unsettled), self._glob
            ),
            schema=_table_schema(schemas, hive),
            columns=slice_rows(self._files, uris, names, partition, self._kept_always()),
            keys=key_array(keys),
            partitions=settled_trust(hive, schemas),
            root=self._listers[0].root,
            problems=problems,
            file_schemas=self._file_schemas(schemas),
            glob=self._glob,
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
        """The files that no index may cover: those that are broken or too young."""
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
    files: Sequence[FileVersion],
    uris: Sequence[str],
    names: Sequence[str],
    partition: Sequence[int],
    unsettled: Sequence[bool],
) -> pa.Table:
    """Return slices of one data file each, as `SLICE_COLUMNS`; all arguments have one entry per file.

    Args:
        files: the data files.
        uris: their locations.
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
    """Join the files' fields with the partition columns, which come last unless files hold them as well."""
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


FEW: Final = 4096
"""Maximum number of added and removed files; with more, the snapshot is made from scratch."""

MOST_PIECES: Final = 1024
"""Chunks up to which columns stay chunked: a snapshot then copies none of them and writes only the new rows."""


class _Run(NamedTuple):
    """Consecutive rows of the old ones (`new` is False) or of the new ones, `stop` excluded."""

    new: bool
    start: int
    stop: int


class _Change(NamedTuple):
    """One row that is inserted at a position among the old ones, or removed from it.

    Changes are sorted as tuples: an insertion at a position comes before a removal from it.
    """

    at: int
    goes: bool
    new: int
    """The inserted row, as an ordinal among the new ones."""


def _runs(changes: Sequence[_Change], count: int) -> Iterator[_Run]:
    """Yield the runs that make up the new order of rows; `count` is the number of old rows."""
    start = 0
    for change in changes:
        yield _Run(False, start, change.at)
        start = change.at + change.goes
        if not change.goes:
            yield _Run(True, change.new, change.new + 1)
    yield _Run(False, start, count)


def patched(
    snapshot: Snapshot,
    lister: Lister,
    gone: Sequence[FileVersion],
    come: Sequence[tuple[FileVersion, pa.Schema | BrokenFileError]],
) -> Snapshot | None:
    """Return the snapshot without some files and with others.

    Args:
        snapshot: of a single root, all of whose files are settled and none of which is broken.
        lister: the root's lister.
        gone: files of the snapshot.
        come: files that are not in it, in order, with their schemas.

    Returns:
        None where more than rows would differ: other folders, schemas or columns, or the order of them.
    """
    schemas = snapshot.file_schemas
    old = snapshot.columns
    if not isinstance(old, pa.Table) or schemas is None or snapshot.problems or snapshot.unsettled_because:
        return None
    added = _added(snapshot, schemas, lister, come)
    changes = _changes(snapshot, lister, gone, [file for file, _ in come])
    if added is None or changes is None:
        return None
    rows, ordinals = added
    runs = list(_runs(changes, len(snapshot)))
    of_schemas = _spliced(schemas.ordinals, ordinals, runs)
    partition = _spliced(snapshot.partition_ordinals, as_numpy(rows.column("partition")), runs)
    if not _first_seen_in_order(of_schemas, len(schemas.distinct)) or not _first_seen_in_order(
        partition, len(snapshot.partitions)
    ):
        return None
    columns = _spliced_columns(old, rows, runs, partition)
    keys = _spliced_keys(snapshot, b"".join(file.key for file, _ in come), runs)
    names = (file.path.rpartition("/")[2] for file, _ in come)
    glob = snapshot.glob if all(map(has_glob_name, names)) else None
    return replace(
        snapshot,
        id=snapshot_id([lister.root], keys, bytes(len(columns)), glob),
        columns=columns,
        keys=key_array(keys),
        file_schemas=FileSchemas(schemas.distinct, of_schemas),
        descent=Descent(snapshot.id, _origin(len(snapshot), len(come), runs)),
        glob=glob,
    )


def _added(
    snapshot: Snapshot,
    schemas: FileSchemas,
    lister: Lister,
    come: Sequence[tuple[FileVersion, pa.Schema | BrokenFileError]],
) -> tuple[pa.Table, NDArray[np.int32]] | None:
    """The rows of the new files, and the ordinals of their schemas; None for a new schema or folder."""
    known = {id(schema): ordinal for ordinal, schema in enumerate(schemas.distinct)}
    split = [file.path.rpartition("/") for file, _ in come]
    ordinals = [known.get(id(schema), -1) for _, schema in come]
    folders = text_array([folder for folder, _, _ in split])
    partition = compute.index_in(folders, value_set=snapshot.partitions.paths)
    if -1 in ordinals or partition.null_count:
        return None
    files = [file for file, _ in come]
    uris = [lister.uri(file.path) for file in files]
    rows = slice_rows(
        files, uris, [name for _, _, name in split], partition.to_pylist(), [False] * len(files)
    )
    return rows, np.array(ordinals, np.int32)


def _changes(
    snapshot: Snapshot, lister: Lister, gone: Sequence[FileVersion], come: Sequence[FileVersion]
) -> list[_Change] | None:
    """Find the positions of the files among the rows, which are sorted by path; None where one is missing."""
    keys, count = snapshot.keys, len(snapshot)
    uris = text_array([lister.uri(file.path) for file in (*gone, *come)])
    # Strings sort by their UTF-8 bytes, which is the order of their characters.
    places = compute.search_sorted(snapshot.column("base_file"), uris).to_pylist()
    changes = [_Change(at, goes=False, new=number) for number, at in enumerate(places[len(gone) :])]
    for file, at in zip(gone, places, strict=False):
        if at == count or keys[at].as_py() != file.key:
            return None
        changes.append(_Change(at, goes=True, new=-1))
    return sorted(changes)


def _spliced(old: NDArray[Any], new: NDArray[Any], runs: Sequence[_Run]) -> NDArray[Any]:
    return np.concatenate([(new if run.new else old)[run.start : run.stop] for run in runs])


def _origin(count: int, new: int, runs: Sequence[_Run]) -> NDArray[np.int32]:
    """The old ordinal of each row, -1 where it is new."""
    return _spliced(np.arange(count, dtype=np.int32), np.full(new, -1, np.int32), runs)


def _spliced_columns(
    old: pa.Table, new: pa.Table, runs: Sequence[_Run], partition: NDArray[np.int32]
) -> pa.Table:
    # Every plan needs the partitions as one chunk, which is already available.
    schema: Any = SLICE_COLUMNS
    at = schema.names.index("partition")
    of_old, of_new = _Pieces(old.remove_column(at)), _Pieces(new.remove_column(at))
    pieces = [piece for run in runs for piece in (of_new if run.new else of_old).between(run.start, run.stop)]
    columns = arrow.Table.from_batches(pieces, of_old.schema)
    columns = columns.add_column(at, schema.field(at), number_array(partition, pa.int32()))
    return columns.combine_chunks() if len(pieces) > MOST_PIECES else columns


class _Pieces:
    """The rows of a table chunk by chunk; requests must ascend."""

    def __init__(self, table: pa.Table) -> None:
        self.schema = table.schema
        self._pieces: list[Any] = table.to_batches()
        self._at = 0
        self._begins = 0

    def between(self, start: int, stop: int) -> Iterator[Any]:
        """Yield the rows from one to another, `stop` excluded. Each `slice` of a table would visit all its chunks."""
        while start < stop:
            piece = self._pieces[self._at]
            ends = self._begins + piece.num_rows
            if start < ends:
                yield piece.slice(start - self._begins, min(stop, ends) - start)
                start = min(stop, ends)
            if stop < ends:
                return
            self._at, self._begins = self._at + 1, ends


def _spliced_keys(snapshot: Snapshot, new: bytes, runs: Sequence[_Run]) -> bytes:
    data = snapshot.keys.buffers()[1]
    assert data is not None
    old = memoryview(data)[snapshot.keys.offset * SLICE_KEY_BYTES :]
    pieces: list[Any] = [
        (new if run.new else old)[run.start * SLICE_KEY_BYTES : run.stop * SLICE_KEY_BYTES] for run in runs
    ]
    return b"".join(pieces)


def _first_seen_in_order(ordinals: NDArray[np.int32], count: int) -> bool:
    """Tell whether all ordinals below `count` occur, each for the first time after those below it."""
    if not len(ordinals) or ordinals[0] != 0:
        return False
    if count == 1:
        return not ordinals.any()
    highest, steps = ordinals, np.diff(ordinals)
    if steps.min(initial=0) < 0:  # mostly, files of one folder are adjacent
        highest = np.maximum.accumulate(ordinals)
        steps = np.diff(highest)
    return bool(highest[-1] == count - 1 and steps.max(initial=0) <= 1 and ordinals.min() >= 0)
