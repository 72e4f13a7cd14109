"""Plain Parquet tables: trees of files below one or more roots, with or without hive-style partitions.

Every file that engines would read is a file group of its own. Hidden files (prefix `_` or `.`) and empty ones
(0 bytes, which hold no row and which Spark and Trino skip) are not; a file without a `.parquet` suffix is one if it is
Parquet inside, since Spark and Trino read it too.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any, cast

import msgspec
import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, empty_table, number_array, positions
from pruner.errors import StorageError, TableError
from pruner.tables.feed.lister import FeedLister
from pruner.tables.feed.place import Feed
from pruner.tables.footers.file_schemas import (
    BrokenFileError,
    NotParquetError,
    SchemaReader,
    UnreadableFileError,
)
from pruner.tables.listing.files import Fact, Lister, LocalLister, StoreLister, open_lister, settle
from pruner.tables.listing.folders import FolderFacts, FolderLister
from pruner.tables.listing.foreign import Above
from pruner.tables.listing.touched import PRINTS, ListedFile, TouchedFiles
from pruner.tables.parquet.building import (
    FEW,
    Builder,
    FileVersion,
    data_files,
    glob_of,
    has_glob_name,
    patched,
    slice_key,
)
from pruner.tables.parquet.several import check_one_table
from pruner.tables.slice_keys import locate
from pruner.tables.snapshot import SLICE_KEY_BYTES, Watched
from pruner.tables.source import SAVED_METADATA, SavedChanges, SavedLook
from pruner.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.tables.feed.place import FeedSettings
    from pruner.tables.snapshot import FileSchemas, Snapshot
    from pruner.tables.source import ComparedLook, StoredLook

# The schemas of a Parquet table's files are stored between processes, so that each footer is read once.
#
# So are the fingerprints that identify files of which only the change time moved.
#
# A slice key covers path, size and version of a file (on local disk its times and inode), so an overwritten file has
# another one. Files too young to be distinguished from their successor are left out (rule R4), and so are broken ones.

STORED_COLUMNS = pa.schema(
    [
        pa.field("slice_key", pa.binary(SLICE_KEY_BYTES), nullable=False),
        pa.field("schema", pa.int32(), nullable=False),  # ordinal among the schemas in the metadata
        pa.field(
            "still_key", pa.binary(SLICE_KEY_BYTES)
        ),  # of a local file: see `pruner.tables.listing.touched`
        pa.field("version", pa.string()),
        pa.field("fingerprint", pa.binary(16)),
    ]
)
"""Columns of the stored form."""


_PRINT_COLUMNS = [name for name in PRINTS.names if name != "slice_key"]


class _About(msgspec.Struct, frozen=True):
    """The metadata beside the columns: the writer, and the distinct schemas, each an Arrow IPC message in Base64."""

    written_by: str
    schemas: tuple[str, ...]


# Built once: building a decoder for a type in two threads at once can crash the process (msgspec).
_ABOUT = msgspec.json.Decoder(_About)


def _writer() -> str:
    return f"parquet types pruner {__version__} pyarrow {pa.__version__}"


def save(snapshot: Snapshot, touched: TouchedFiles) -> SavedLook | None:
    """Return the schemas of a snapshot's files in their stored form; None where no schema is known.

    Args:
        snapshot: the last snapshot.
        touched: knows the files' fingerprints.
    """
    schemas = snapshot.file_schemas
    if schemas is None:
        return None
    kept = np.flatnonzero(_kept(snapshot, schemas))
    return SavedLook(
        snapshot.id, _stored_rows(snapshot, touched, kept, schemas.ordinals[kept], _texts(schemas))
    )


def changes(snapshot: Snapshot, touched: TouchedFiles, stored: StoredLook, most: int) -> SavedChanges | None:
    """Return what `save` would, as the difference from a stored look.

    Args:
        snapshot: the last snapshot.
        touched: knows the files' fingerprints.
        stored: the earlier one. Its rows stay unchanged: a file with the same slice key is the same.
        most: the number of added and removed files up to which changes are worth storing.

    Returns:
        None where no schema is known, or the stored form is not ours, or too much has changed.
    """
    schemas, before = snapshot.file_schemas, _described(stored.described)
    if schemas is None or before is None:
        return None
    kept = np.flatnonzero(_kept(snapshot, schemas))
    rows = locate(stored.keys, _keys_of(snapshot, kept))
    stays = np.zeros(len(stored.keys), np.bool_)
    stays[rows[rows >= 0]] = True
    if np.count_nonzero(~stays) + np.count_nonzero(rows < 0) > most:
        return None
    # Rows that stay have ordinals among the earlier schemas.
    texts = _texts(schemas)
    known = tuple(dict.fromkeys((*before.schemas, *texts)))
    number = np.array([known.index(text) for text in texts], np.int32)
    new = kept[rows < 0]
    table = _stored_rows(snapshot, touched, new, number[schemas.ordinals[new]], known)
    return SavedChanges(snapshot.id, table, np.flatnonzero(~stays))


def _kept(snapshot: Snapshot, schemas: FileSchemas) -> NDArray[np.bool_]:
    """The files that are stored."""
    return (schemas.ordinals >= 0) & snapshot.coverable


def _keys_of(snapshot: Snapshot, chosen: NDArray[np.intp]) -> pa.Array[Any]:
    return snapshot.keys if len(chosen) == len(snapshot) else snapshot.keys.take(positions(chosen))


def _texts(schemas: FileSchemas) -> tuple[str, ...]:
    return tuple(b64encode(schema.serialize().to_pybytes()).decode() for schema in schemas.distinct)


def _stored_rows(
    snapshot: Snapshot,
    touched: TouchedFiles,
    chosen: NDArray[np.intp],
    ordinals: NDArray[np.int32],
    texts: tuple[str, ...],
) -> pa.Table:
    """Some files of a snapshot in their stored form; `ordinals` are those of their schemas in `texts`."""
    known = touched.remembered(snapshot, chosen)
    columns: dict[str, Any] = {
        "slice_key": _keys_of(snapshot, chosen),
        "schema": number_array(ordinals, pa.int32()),
        **{name: known.column(name) for name in _PRINT_COLUMNS},
    }
    about = {SAVED_METADATA: msgspec.json.encode(_About(_writer(), texts))}
    return pa.table(columns, schema=STORED_COLUMNS).replace_schema_metadata(about)


def _described(data: bytes) -> _About | None:
    """The metadata of a stored look; None where its form is not ours."""
    try:
        about = _ABOUT.decode(data)
    except msgspec.MsgspecError:
        return None
    return about if about.written_by == _writer() else None


def load(saved: SavedLook) -> dict[bytes, pa.Schema]:
    """Return the stored schemas by slice key; none where the stored form is not ours."""
    table = saved.table
    try:
        about = _described((table.schema.metadata or {}).get(SAVED_METADATA, b""))
        if about is None or not table.schema.equals(STORED_COLUMNS):
            return {}
        messages = [b64decode(text, validate=True) for text in about.schemas]
        schemas: list[pa.Schema] = [arrow.ipc.read_schema(pa.py_buffer(data)) for data in messages]
        keys = cast("list[bytes]", table.column("slice_key").to_pylist())
        ordinals = cast("list[int]", table.column("schema").to_pylist())
        return {key: schemas[ordinal] for key, ordinal in zip(keys, ordinals, strict=True)}
    except (ValueError, IndexError, pa.ArrowException):
        return {}


def load_prints(saved: SavedLook) -> pa.Table:
    """Return the stored fingerprints; none where the stored form is not ours."""
    if not saved.table.schema.equals(STORED_COLUMNS):
        return empty_table(PRINTS)
    table = saved.table.select(PRINTS.names)
    return table.filter(table.column("fingerprint").is_valid()).cast(PRINTS).combine_chunks()


FEW_OF = 64
"""After a read, files are checked one by one if they are at most one in this many."""

PARQUET_SUFFIXES = (".parquet", ".parq", ".pq")
"""Suffixes with which a file claims to be Parquet; one that is not is broken."""


@dataclass
class _Look:
    """The last listing and its snapshot; an equal listing means an equal snapshot only if it was `settled`.

    `believed` has the versions that touched files were taken for.
    """

    facts: list[Sequence[Fact]]
    settled: bool
    snapshot: Snapshot
    schemas: dict[bytes, pa.Schema | BrokenFileError] = field(
        default_factory=dict[bytes, pa.Schema | BrokenFileError]
    )
    believed: Mapping[bytes, str] = field(default_factory=dict[bytes, str])


class ParquetSource:
    """A table of Parquet files: see `pruner.tables.source.TableSource`."""

    format = "parquet"
    write_once = False

    def __init__(
        self,
        roots: Sequence[str],
        storage_options: Mapping[str, str] | None = None,
        *,
        immutable: bool = False,
        feed: FeedSettings | None = None,
    ) -> None:
        """Read nothing yet.

        Args:
            roots: locations of the files.
            storage_options: options of the store.
            immutable: the user promises that no file changes in place, so that listings need not check each.
            feed: a change feed that the user promises to name every addition, removal and change.
        """
        self.roots = tuple(roots)
        self.root = self.roots[0]
        self.storage_options = dict(storage_options or {})
        self._listers = [self._followed(self.open_lister(root, immutable=immutable), feed) for root in roots]
        self._reader = SchemaReader()
        self._lock = RLock()
        self._last: _Look | None = None
        self._known: dict[bytes, pa.Schema] = {}
        self._touched = TouchedFiles()
        self._above = Above(self.roots, self.storage_options)

    def open_lister(self, root: str, *, immutable: bool) -> LocalLister | StoreLister:
        """Return the lister of a root's files; a format that names the files of its tables has a lister of its own.

        Args:
            root: one of the roots.
            immutable: whether the user promises that no file changes in place.
        """
        return (
            FolderLister(root)
            if immutable and root.startswith("/")
            else open_lister(root, self.storage_options)
        )

    def _followed(self, lister: LocalLister | StoreLister, feed: FeedSettings | None) -> Lister:
        return (
            lister
            if feed is None
            else FeedLister(lister, Feed(feed.uri, self.storage_options), feed.confirm_after)
        )

    def check(self) -> None:
        """Check as cheaply as possible that this is a table at all.

        Raises:
            TableError: a root has no data files, or belongs to a foreign format.
            StorageError: the store refuses to be read.
        """
        facts = ((lister.root, fact) for lister in self._listers for fact in lister.some_facts() if fact[1])
        root, first = next(facts, (self.root, None))
        # The paths of files below the root tell which formats they can be of: see `check_above`.
        self._above.check({root: str(first[0])} if first is not None else {})
        if first is None:
            raise self._empty()

    def identity(self) -> str:
        """Return a constant: a folder does not show whether its table was recreated."""
        return "parquet"

    def snapshot_at(self, instant: str) -> Snapshot:
        """Refuse: plain files have no history."""
        raise TableError(
            f"{self.root} is a Parquet table, which has no time travel: no snapshot as of {instant!r}"
        )

    def saved(self, stored: str | None = None) -> SavedLook | None:
        """Return the schema and fingerprint of each file of the last snapshot by slice key: see `TableSource`."""
        with self._lock:
            snapshot = self._to_store(stored)
            return None if snapshot is None else save(snapshot, self._touched)

    def saved_changes(self, stored_id: str, stored: ComparedLook) -> SavedChanges | None:
        """Return the files that the last snapshot has and a stored look does not, and those that are gone."""
        with self._lock:
            snapshot = self._to_store(stored_id)
        schemas = None if snapshot is None else snapshot.file_schemas
        if snapshot is None or schemas is None:
            return None
        # A lower bound of the number of added or removed files.
        if abs(int(np.count_nonzero(_kept(snapshot, schemas))) - stored.rows) > stored.most:
            return None
        look = stored.read()  # without the lock, which would block plans
        if look is None:
            return None
        with self._lock:
            return changes(snapshot, self._touched, look, stored.most)

    def _to_store(self, stored: str | None) -> Snapshot | None:
        """The last snapshot, after taking its files' fingerprints; None where it is the stored one."""
        last = self._last
        if last is None or last.snapshot.id == stored:
            return None
        lacking = self._touched.lacking(last.snapshot)
        seen = [self._seen(file) for file in self._files_at(last, lacking)] if lacking.any() else []
        self._touched.remember(last.snapshot, [file for file in seen if file is not None])
        return last.snapshot

    def _files_at(self, look: _Look, chosen: NDArray[np.bool_]) -> list[FileVersion]:
        """Some files of a `_Look`. Keys are computed for these only: the path of each file costs less."""
        facts: list[list[Fact]] = []
        all_paths = self._paths(look.snapshot, np.flatnonzero(chosen))
        for paths, each in zip(all_paths, look.facts, strict=True):
            of = each.of(paths) if isinstance(each, FolderFacts) else [f for f in each if f[0] in paths]
            facts.append(of)
        return self._files(facts, look.believed)

    def _paths(self, snapshot: Snapshot, chosen: NDArray[np.intp]) -> Iterator[set[str]]:
        """The paths of some files below each root, as in its lister."""
        uris = set(snapshot.values("base_file", chosen))
        for start in (lister.uri("") for lister in self._listers):
            yield {uri.removeprefix(start) for uri in uris if uri and uri.startswith(start)}

    def resume(self, saved: SavedLook) -> None:
        """Resume from the schemas of files that another process read; the files are listed all the same."""
        with self._lock:
            self._known = {key: self._reader.intern(schema) for key, schema in load(saved).items()}
            self._touched.take_up(load_prints(saved))

    def confirm(self) -> None:
        """Let the next snapshot list everything, whatever a feed names: see `TableSource`."""
        self._above.confirm()
        for lister in self._listers:
            if isinstance(lister, FeedLister):
                lister.confirm()
            elif isinstance(lister, FolderLister):
                lister.expect_another_look()

    def doubts(self) -> tuple[str, ...]:
        """Say why the last listing did not use the feed: see `TableSource`."""
        followed = (lister for lister in self._listers if isinstance(lister, FeedLister))
        return tuple(f"the table was listed whole: {lister.doubt}" for lister in followed if lister.doubt)

    def watched(self) -> Sequence[Watched] | None:
        """Return the trees below the roots, and the signs above them: see `WatchableSource`."""
        with self._lock:
            if self._last is None or not self._last.settled:
                return None
            watched = [
                lister.watched() if isinstance(lister, LocalLister) else None for lister in self._listers
            ]
            trees = [each for each in watched if each is not None]
            if len(trees) < len(watched):
                return None
            signs = [Watched("name", sign) for sign in self._above.signs]
            return [*(folder for tree in trees for folder in tree), *signs]

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """List all roots; return `previous` itself when nothing changed: see `TableSource`."""
        with self._lock:
            facts = self._listed()
            last = self._last
            same = last is not None and last.facts == facts
            self._above.look(changed=last is not None and not same)
            if last is not None and last.settled and same:
                last.facts = facts
                # Nothing was derived from the listing up to here: this is the cost of a snapshot of an unchanged table.
                return previous if previous is not None and previous.id == last.snapshot.id else last.snapshot
            look = self._patched(facts) or self._look(facts, None)
            if previous is not None and previous.id == look.snapshot.id:
                look.snapshot = previous
            self._last, self._known = look, {}
            return look.snapshot

    def believed(self) -> Mapping[bytes, str]:
        """Return which touched files are taken for what they were: see `TableSource`."""
        with self._lock:
            return self._touched.believed

    def look_again(
        self, previous: Snapshot, believed: Mapping[bytes, str], read: NDArray[np.intp] | None = None
    ) -> Snapshot:
        """List all roots, and believe nothing new of touched files: see `TableSource`.

        If few local files were read, these are checked one by one instead.
        """
        if read is not None and len(read) * FEW_OF <= len(previous) and self._stand(previous, believed, read):
            return previous
        with self._lock:
            self.confirm()
            facts, last = self._listed(), self._last
            if last is not None and last.settled and (last.facts, last.believed) == (facts, believed):
                last.facts, snapshot = facts, last.snapshot
            else:
                snapshot = self._look(facts, believed).snapshot
        return previous if previous.id == snapshot.id else snapshot

    def _stand(self, snapshot: Snapshot, believed: Mapping[bytes, str], chosen: NDArray[np.intp]) -> bool:
        """Tell whether some files of a snapshot are still unchanged; False also where that needs a store request."""
        listers = [lister for lister in self._listers if isinstance(lister, LocalLister)]
        if len(listers) < len(self._listers):
            return False
        now: set[bytes] = set()
        for position, (lister, paths) in enumerate(zip(listers, self._paths(snapshot, chosen), strict=True)):
            facts = [fact for path in paths if (fact := lister.fact_at(path)) is not None]
            now.update(file.key for file in data_files(position, lister, facts, believed))
        return now.issuperset(snapshot.keys.take(positions(chosen)).to_pylist())

    def _listed(self) -> list[Sequence[Fact]]:
        for lister in self._listers:
            if isinstance(lister, FeedLister):
                lister.doubt = None
        return [lister.facts() for lister in self._listers]

    def _patched(self, facts: list[Sequence[Fact]]) -> _Look | None:
        """Make the snapshot from the last one, if few files are known to have been added or removed; else None."""
        last, lister = self._last, self._listers[0]
        changes = (
            lister.changes if isinstance(lister, FolderLister | FeedLister) and len(facts) == 1 else None
        )
        if last is None or changes is None or changes.since is not last.facts[0]:
            return None
        # Touched and broken files need a snapshot made from all files.
        plain = last.settled and not self._touched.believed and len(last.facts[0]) == len(last.snapshot)
        if not plain or len(changes.come) + len(changes.gone) > FEW:
            return None
        if changes.gone and last.snapshot.glob is None and not lister.root.startswith("/"):
            return None  # the file that prevented a glob may be among the removed ones
        now = time.time_ns()
        if any(fact[1] == 0 or lister.young(fact, now) for fact in changes.come):
            return None
        come = data_files(0, lister, sorted(changes.come), {})
        self._touched.recognize(seen for file in come if (seen := self._seen(file)) is not None)
        if self._touched.believed:
            return None
        read = self._reader.read_all(lister, [(file.path, file.size) for file in come])
        gone = data_files(0, lister, sorted(changes.gone), {})
        snapshot = patched(last.snapshot, lister, gone, list(zip(come, read, strict=True)))
        if snapshot is None:
            return None
        for file in gone:
            del last.schemas[file.key]
        last.schemas.update((file.key, schema) for file, schema in zip(come, read, strict=True))
        return _Look(facts, True, snapshot, last.schemas)

    def _look(self, facts: list[Sequence[Fact]], believed: Mapping[bytes, str] | None) -> _Look:
        """Make the snapshot of a listing.

        Args:
            facts: those of each root.
            believed: what is believed of touched files; None to determine it.
        """
        young: list[set[str]] = []
        for position, lister in enumerate(self._listers):
            facts[position], too_young = settle(lister, facts[position])
            young.append(too_young)
        files = self._files(facts, believed or {})
        if believed is None:
            believed = self._recognized(files, young)
            # Files are rarely taken for another version; the cost of a changed tree is the work for each file.
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
        check_one_table(self._listers, files, schemas)
        unsettled = [file.path in young[file.root] for file in files]
        snapshot = Builder(self._listers, files, schemas, unsettled, self._glob(facts, files)).build()
        unreadable = any(isinstance(schema, UnreadableFileError) for schema in schemas.values())
        return _Look(facts, not any(young) and not unreadable, snapshot, schemas, believed)

    def _glob(self, facts: list[Sequence[Fact]], files: list[FileVersion]) -> str | None:
        """The glob that matches these files and no others of a store; None where there is none."""
        root = self._listers[0].root
        if len(self._listers) > 1 or root.startswith("/"):
            return None
        paths = [file.path for file in files]
        names = (str(fact[0]).rpartition("/")[2] for fact in facts[0])
        return glob_of(root, paths) if sum(map(has_glob_name, names)) == len(paths) else None

    def _recognized(self, files: list[FileVersion], young: list[set[str]]) -> Mapping[bytes, str]:
        """Recognize unknown files as their versions before a touch."""
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
        self._touched.recognize(file for file in seen if file is not None)
        return self._touched.believed

    def _seen(self, file: FileVersion) -> ListedFile | None:
        lister = self._listers[file.root]
        still = lister.still(file.fact)
        if still is None:
            return None
        key = slice_key(file.root, file.path, file.size, still)
        return ListedFile(file.key, file.version, key, partial(lister.fingerprint, file.fact))

    def _files(self, facts: Sequence[Sequence[Fact]], believed: Mapping[bytes, str]) -> list[FileVersion]:
        return [
            file
            for position, lister in enumerate(self._listers)
            for file in data_files(position, lister, sorted(facts[position]), believed)
        ]

    def _check_readable(
        self, files: list[FileVersion], schemas: dict[bytes, pa.Schema | BrokenFileError]
    ) -> None:
        """Refuse a table of which no file can be read: without columns every predicate would seem misspelled."""
        first = schemas[files[0].key]
        if all(isinstance(schemas[file.key], UnreadableFileError) for file in files):
            uri = self._listers[files[0].root].uri(files[0].path)
            raise StorageError(f"none of the {len(files):,} files of {self.root} can be read: {uri} {first}")

    def _empty(self) -> TableError:
        places = ", ".join(self.roots)
        # In a store, folders cannot be distinguished from objects.
        file = any(root.endswith((".parquet", ".parq")) for root in self.roots)
        of_a_file = ". If it is a file, give the folder that holds all files of the table" if file else ""
        return TableError(
            f"{places} is not a table: there are no Parquet files in it, and none of the folders .hoodie, _delta_log "
            f"and metadata{of_a_file}"
        )

    def _schemas(self, files: list[FileVersion]) -> dict[bytes, pa.Schema | BrokenFileError]:
        """Return each file's schema by its key, reading the footers of new files."""
        before = self._last.schemas if self._last else {}
        schemas: dict[bytes, pa.Schema | BrokenFileError] = {}
        missing: list[list[FileVersion]] = [[] for _ in self._listers]
        for file in files:
            known_schema = before.get(file.key)
            if isinstance(known_schema, UnreadableFileError):
                known_schema = None
            if known_schema is None:
                known_schema = self._known.get(file.key)
            if known_schema is None:
                missing[file.root].append(file)
            else:
                schemas[file.key] = known_schema
        for lister, unread in zip(self._listers, missing, strict=True):
            read = self._reader.read_all(lister, [(file.path, file.size) for file in unread])
            for file, schema in zip(unread, read, strict=True):
                schemas[file.key] = _NotDataError() if _is_not_data(file.path, schema) else schema
        return schemas


class _NotDataError(BrokenFileError):
    """A file among the data that neither claims to be Parquet nor is."""


def _is_not_data(path: str, schema: pa.Schema | BrokenFileError) -> bool:
    return isinstance(schema, NotParquetError) and not path.lower().endswith(PARQUET_SUFFIXES)
