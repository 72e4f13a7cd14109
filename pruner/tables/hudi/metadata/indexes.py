"""The indexes that Hudi keeps for a table, as far as they are read here: which exist, and their records."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa

from pruner.bounded_cache import BoundedCache
from pruner.errors import FormatError, TableError, first_line
from pruner.storage.opening import open_store
from pruner.storage.store import LargerError, NotFoundError
from pruner.tables.hudi.metadata.blooms import KeyFilters
from pruner.tables.hudi.metadata.counting import SecondaryIndex
from pruner.tables.hudi.metadata.listing import METADATA_PATH, column_id, partition_id, read_metadata_timeline
from pruner.tables.hudi.metadata.locations import KeyForm, RecordLocations, is_born_now, key_form
from pruner.tables.hudi.metadata.partition import FileGroup, file_groups
from pruner.tables.hudi.metadata.stats import STAT_SCHEMA, newest, of_partitions, rows_of, without
from pruner.tables.hudi.metadata.whole import refuse_lost_logs
from pruner.tables.hudi.timeline import read_timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pruner.storage.store import Store
    from pruner.tables.hudi.hfile.reader import HFile
    from pruner.tables.hudi.properties import HudiProperties
    from pruner.tables.hudi.timeline import Timeline

# Hudi's definitions of indexes: which columns an index is over, and which function of them.

SECONDARY, EXPRESSION = "secondary_index_", "expr_index_"
"""Prefixes of the partitions of indexes that a statement created."""

_PATH = "hoodie.table.index.defs.path"
_USUAL_PATH = ".hoodie/.index_defs/index.json"
_MAX_BYTES = 1 << 22


class Definition(NamedTuple):
    """One index: its function is `identity` where it is over the column itself."""

    using: str
    function: str
    columns: tuple[str, ...]
    options: Mapping[str, str]


class _Stored(msgspec.Struct, rename="camel"):
    index_type: str = ""
    index_function: str = ""
    source_fields: tuple[str, ...] = ()
    index_options: dict[str, str] = {}


class _All(msgspec.Struct, rename="camel"):
    index_definitions: dict[str, _Stored] = {}


def read_definitions(store: Store, properties: HudiProperties) -> dict[str, Definition]:
    """Return the definitions of a table's indexes, by partition name.

    Args:
        store: the root of the table.
        properties: of the table; they say where the definitions are.

    Raises:
        FormatError: there are none, or they are damaged.
        StorageError: the store refuses.
    """
    path = properties.values.get(_PATH) or _USUAL_PATH
    if not path.startswith(".hoodie/") or ".." in path.split("/"):
        raise FormatError(f"the index definitions are in {path!r}, which is not read")
    try:
        definitions = msgspec.json.decode(store.get(path, _MAX_BYTES), type=_All)
    except (NotFoundError, LargerError) as error:
        raise FormatError(f"there are no definitions of indexes in {path}: {error}") from None
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FormatError(f"the definitions of indexes in {path} are damaged: {first_line(error)}") from None
    return {
        name: Definition(each.index_type, each.index_function, each.source_fields, each.index_options)
        for name, each in definitions.index_definitions.items()
    }


BLOOM_FILTERS = "bloom_filters"
COLUMN_STATS = "column_stats"
RECORD_INDEX = "record_index"
_COMPLETE, _RUNNING = "hoodie.table.metadata.partitions", "hoodie.table.metadata.partitions.inflight"
_CACHE_BYTES = 1 << 27
"""Maximum bytes of cached decoded statistics of one table."""


def partitions_of(timeline: Timeline) -> tuple[str, ...]:
    """The complete partitions of the metadata table, by name; those in flight are not included."""
    return tuple(sorted(_listed(timeline, _COMPLETE) - _listed(timeline, _RUNNING)))


def _listed(timeline: Timeline, name: str) -> set[str]:
    return {part.strip() for part in timeline.properties.values.get(name, "").split(",") if part.strip()}


_Key: TypeAlias = "tuple[str, bytes, tuple[bytes, ...] | None]"
"""An HFile, a column, and the partitions whose files were read; None for all."""


class StatCache:
    """Decoded statistics by HFile and column. Threads may share it."""

    def __init__(self, limit: int = _CACHE_BYTES) -> None:
        self._kept: BoundedCache[_Key, pa.Table] = BoundedCache(limit)

    def rows(self, name: str, hfile: HFile, column: bytes) -> pa.Table:
        """What an HFile of that name says of a column: see `rows_of`."""
        return self._kept_or((name, column, None), lambda: rows_of(hfile, column))

    def rows_in(self, name: str, hfile: HFile, column: bytes, partitions: tuple[bytes, ...]) -> pa.Table:
        """The same for the files in some partitions (`listing.partition_id`), reading no more than needed."""
        whole = self._kept.get((name, column, None))
        if whole is not None:
            return of_partitions(whole, partitions)
        return self._kept_or((name, column, partitions), lambda: rows_of(hfile, column, partitions))

    def _kept_or(self, key: _Key, read: Callable[[], pa.Table]) -> pa.Table:
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        kept = read()
        return self._kept.put(key, kept, kept.nbytes)


class HudiIndexes:
    """Hudi's indexes of a table as of one read of its timeline. Everything is read on demand.

    Attributes:
        names: those that are complete.
        in_flight: those that a writer is building, which do not count.
    """

    def __init__(self, root: str, options: Mapping[str, str], timeline: Timeline, cache: StatCache) -> None:
        self.names = partitions_of(timeline)
        self.in_flight = tuple(sorted(_listed(timeline, _RUNNING)))
        self._root = root
        self._options = dict(options)
        self._timeline = timeline
        self._cache = cache
        self._lock = Lock()
        self._groups: dict[str, list[FileGroup]] = {}

    @cached_property
    def _store(self) -> Store:
        return open_store(f"{self._root}/{METADATA_PATH}", self._options)

    @property
    def version(self) -> int:
        """The version of the table."""
        return self._timeline.properties.version

    @property
    def merge_on_read(self) -> bool:
        """Whether the table's slices can have log files."""
        return self._timeline.properties.merge_on_read

    @property
    def schema_changed_at(self) -> str:
        """The newest instant that changed the schema by schema-on-read evolution; "" where there is none."""
        return max((name.partition(".")[0] for name in self._timeline.schemas), default="")

    @property
    def snapshot_id(self) -> str:
        """The id of the snapshot of that read."""
        return self._timeline.id()

    @cached_property
    def key_form(self) -> KeyForm | None:
        """How keys are built from columns; None where a row may have another key than its columns yield.

        After a schema-on-read change, a column of that name may have been another one when the keys were built.
        """
        return None if self._timeline.schemas else key_form(self._timeline.properties)

    @property
    def born_now(self) -> bool:
        """Whether no release before table version 9 has written to the table."""
        return is_born_now(self._timeline.properties)

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """The definitions of the indexes that statements created, by partition name.

        Raises:
            FormatError: they are damaged, or there are none.
            StorageError: they cannot be read.
        """
        return read_definitions(open_store(self._root, self._options), self._timeline.properties)

    def secondary(self, name: str) -> SecondaryIndex:
        """One secondary index.

        Raises:
            FormatError: the metadata table is damaged, or has none of that name.
            StorageError: it cannot be read.
        """
        return SecondaryIndex(self.groups(name))

    @cached_property
    def locations(self) -> RecordLocations:
        """The record index.

        Raises:
            FormatError: the metadata table is damaged, or has none.
            StorageError: it cannot be read.
        """
        return RecordLocations(self.groups(RECORD_INDEX))

    @cached_property
    def filters(self) -> KeyFilters:
        """The bloom filters over record keys.

        Raises:
            FormatError: the metadata table is damaged, or has none.
            StorageError: it cannot be read.
        """
        return KeyFilters(self.groups(BLOOM_FILTERS))

    def is_current(self) -> bool:
        """Tell whether the table has not changed since that read.

        Raises:
            StorageError: the store refuses.
        """
        try:
            return read_timeline(open_store(self._root, self._options)) == self._timeline
        except TableError:
            return False

    def groups(self, partition: str) -> list[FileGroup]:
        """The file groups of one partition of the metadata table, opened once.

        Raises:
            FormatError: a file is damaged, or there is no such partition.
            StorageError: the store refuses.
        """
        with self._lock:
            if partition not in self._groups:
                self._groups[partition] = self._opened(partition) if partition in self.names else []
            if not self._groups[partition]:
                raise FormatError(f"the metadata table {self._store.uri} has no partition {partition}")
            return self._groups[partition]

    def _opened(self, partition: str) -> list[FileGroup]:
        timeline = read_metadata_timeline(self._store, self._timeline)
        if partition == RECORD_INDEX or partition.startswith(SECONDARY):
            refuse_lost_logs(self._store, timeline, partition)
        return file_groups(self._store, timeline, partition)

    def column_stats(self, column: str, partitions: Collection[str] | None = None) -> pa.Table:
        """The statistics of one column: see `statistics`."""
        return self.statistics(COLUMN_STATS, column, partitions)

    def statistics(self, partition: str, column: str, partitions: Collection[str] | None = None) -> pa.Table:
        """The statistics of one column, a row for each file that has any: see `stats.STAT_SCHEMA`.

        Args:
            partition: the partition of the metadata table that holds them.
            column: its path with dots.
            partitions: paths of the table's partitions to whose files the result is limited; None for all.

        Raises:
            FormatError: the metadata table is damaged.
            StorageError: it cannot be read.
        """
        key = column_id(column)
        within = None if partitions is None else tuple(sorted(map(partition_id, partitions)))
        tables: list[pa.Table] = []
        for group in self.groups(partition):
            deleted = frozenset[bytes]().union(*(block.deleted for block in group.blocks))
            tables.append(newest(self._parts(group, key, within), key, deleted))
        return pa.concat_tables(tables).unify_dictionaries() if tables else STAT_SCHEMA.empty_table()

    def _parts(
        self, group: FileGroup, column: bytes, within: tuple[bytes, ...] | None
    ) -> list[tuple[pa.Table, HFile]]:
        """What each HFile of a file group says of a column, without what was deleted after it.

        For log files, which are small, the whole column is read and cached for other partitions.
        """
        parts: list[tuple[pa.Table, HFile]] = []
        if group.base is not None:
            parts.append((self._of_base(group.base_name, group.base, column, within), group.base))
        for block in group.blocks:
            parts = [(without(rows, column, block.deleted), hfile) for rows, hfile in parts]
            if block.hfile is not None:
                rows = self._cache.rows(block.name, block.hfile, column)
                parts.append((rows if within is None else of_partitions(rows, within), block.hfile))
        return parts

    def _of_base(self, name: str, base: HFile, column: bytes, within: tuple[bytes, ...] | None) -> pa.Table:
        if within is None:
            return self._cache.rows(name, base, column)
        return self._cache.rows_in(name, base, column, within)
