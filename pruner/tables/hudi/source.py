"""Hudi tables, copy-on-write and merge-on-read, of table versions 6, 8 and 9.

hudi-rs reads the schema; `pruner.tables.hudi.full` lists the slices. Every slice with a file of an instant that has
not completed is marked as unsettled (rule R4).
"""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.arrow import MANY_SLICES, give_back_memory, text_array
from pruner.errors import FormatError, StorageError, TableError
from pruner.showing.words import FILE_GROUP
from pruner.storage.opening import open_store
from pruner.tables.hudi.avro_schema import arrow_schema, converted_by_hudi_rs
from pruner.tables.hudi.blocks import StoredSlices
from pruner.tables.hudi.following import NotFollowedError, follow
from pruner.tables.hudi.full import join_parts, list_part, list_table, parts_of, refuse_escape
from pruner.tables.hudi.merging.hudi_rs import PlainRoot, hudi_rs
from pruner.tables.hudi.metadata.indexes import HudiIndexes, StatCache
from pruner.tables.hudi.properties import HudiProperties, read_properties
from pruner.tables.hudi.saved import load, load_blocks, save, save_blocks
from pruner.tables.hudi.schema import SchemaHistory, as_it_was, checked_by_writes, table_schema
from pruner.tables.hudi.timeline import Timeline, folders_read, newest_schema_file, read_timeline, refusing
from pruner.tables.partitions import (
    DEFAULT_PARTITION,
    decode_part,
    is_canonical_date,
    is_canonical_integer,
    typed,
)
from pruner.tables.snapshot import Partitions, Snapshot, Watched
from pruner.tables.source import SavedLook, WriteOnceSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import hudi

    from pruner.schema import Field, TableSchema
    from pruner.tables.hudi.slice_columns import HudiColumns
    from pruner.tables.source import ListingParts, SavedBlocks

# Partition values of Hudi tables: what a partition path says about the rows below it.
#
# A path value is trusted to be exactly a column's value only where the key generator writes the value itself (simple
# and complex ones) and the text has one reading in the column's type. Timestamp and custom generators round or
# rewrite values (trap N3): their paths prove nothing here.
#
# Where the files hold the column, too, a row can have another value there: with a global index and
# `update.partition.path=false` Hudi updates a row that moves to another partition in its old one. Spark and Trino
# then show the path's value, DuckDB the file's.

_PLAIN_GENERATORS = frozenset({"SIMPLE", "COMPLEX"})


def hudi_partitions(paths: list[str], properties: HudiProperties, schema: TableSchema) -> Partitions:
    """Return the partitions of a table with those values that the paths prove.

    Args:
        paths: partition paths relative to the root.
        properties: how paths are made.
        schema: types of the partition columns.
    """
    values: dict[tuple[str, ...], pa.Array[Any]] = {}
    names = properties.partition_fields
    columns = {entry.path[0].lower(): entry for entry in schema.columns}
    if properties.key_generator in _PLAIN_GENERATORS:
        for position, name in enumerate(names):
            about = columns.get(name.lower())
            texts = [_text(path, position, names, properties) for path in paths]
            column = None if about is None else _column(texts, about)
            if about is not None and column is not None:
                values[about.path] = column
    shared = frozenset(path for path in values if columns[path[0].lower()].in_file)
    return Partitions(
        text_array(paths),
        values,
        trusted=frozenset(values) - shared,
        shared=shared,
        origin_by_engine=True,
    )


def _text(path: str, position: int, names: tuple[str, ...], properties: HudiProperties) -> str | None:
    """Return the text of one column in a partition path, or None where it is unclear."""
    # A value that is not encoded may contain slashes; with one column the whole path is its value.
    parts = [path] if len(names) == 1 else path.split("/")
    if len(parts) != len(names):
        return None
    text = parts[position]
    if properties.hive_style:
        prefix = f"{names[position]}="
        if not text.startswith(prefix):
            return None
        text = text.removeprefix(prefix)
    if not properties.url_encoded:
        return text
    decoded, clear = decode_part(text)
    return decoded if clear else None


def _column(texts: list[str | None], about: Field) -> pa.Array[Any] | None:
    """Return the texts as values of the column's type, or None when one is not in its only canonical form.

    The default partition holds NULL, and for a string column the empty string as well.
    """
    types = pa.types
    given = [text for text in texts if text != DEFAULT_PARTITION]
    known = [None if text == DEFAULT_PARTITION else text for text in texts]
    if any(text is None for text in given) or about.conflict is not None:
        return None
    clear = [text for text in given if text is not None]
    if types.is_string(about.type):
        # Hudi up to 0.11 named the default partition `default`.
        return typed(texts, pa.string()) if len(clear) == len(texts) and "default" not in clear else None
    if types.is_signed_integer(about.type) and all(is_canonical_integer(text) for text in clear):
        return _cast(typed(known, pa.int64()), about.type)
    if types.is_date32(about.type) and all(is_canonical_date(text) for text in clear):
        return typed(known, pa.date32())
    if types.is_boolean(about.type) and all(text in ("true", "false") for text in clear):
        return typed(known, pa.string()).cast(pa.bool_())
    return None


def _cast(column: pa.Array[Any], type_: pa.DataType) -> pa.Array[Any] | None:
    try:
        return column.cast(type_)
    except pa.ArrowInvalid:
        return None


ATTEMPTS = 5
"""How often a table that changes during the listing is listed again."""

_log = logging.getLogger("pruner")
_INSTANT = re.compile(r"[0-9]{14}(?:[0-9]{3})?")


@dataclass(frozen=True, slots=True)
class _Known:
    """The slices at some moment, from which later ones can be derived."""

    timeline: Timeline
    columns: HudiColumns | StoredSlices


@dataclass(frozen=True, slots=True)
class _Look:
    """One listing of the table; `columns` is None where the snapshot came from another source of the same table."""

    timeline: Timeline
    snapshot: Snapshot
    columns: HudiColumns | StoredSlices | None

    @property
    def known(self) -> _Known | None:
        return None if self.columns is None else _Known(self.timeline, self.columns)


class HudiSource(WriteOnceSource):
    """A Hudi table: see `pruner.tables.source.TableSource`."""

    format = "hudi"

    def __init__(self, root: str, storage_options: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.roots = (root,)
        self.storage_options = dict(storage_options or {})
        self._store = open_store(root, self.storage_options)
        self._plain = PlainRoot(root)
        self._lock = RLock()
        self._last: _Look | None = None
        self._known: _Known | None = None
        self._listed_many = False
        self._statistics = StatCache()
        if ".hoodie" in root.split("/"):
            raise TableError(f"{root} is internal to a Hudi table: open the table's root instead")
        read_properties(self._store)

    def identity(self) -> str:
        """Return an identity that depends on name, type and key of the table: see `HudiProperties.identity`."""
        return f"hudi-{read_properties(self._store).identity()}"

    def saved(self, stored: str | None = None) -> SavedLook | None:
        """Return the slices of the last listing and its timeline: see `TableSource`."""
        with self._lock:
            known = self._known
        if known is None or known.timeline.id() == stored:
            return None
        return save(known.timeline, _in_full(known.columns))

    def resume(self, saved: SavedLook) -> None:
        """Resume from slices and timeline of another process: see `TableSource`."""
        self._start_from(load(saved, self.root))

    def resume_blocks(self, saved_id: str, blocks: SavedBlocks) -> None:
        """Resume from the timeline of another process, and slices that are read on demand."""
        self._start_from(load_blocks(saved_id, blocks, self.root, self._listed))

    def saved_blocks(self, stored_id: str, stored: SavedBlocks) -> SavedLook | None:
        """Return what the last listing has besides the blocks of a stored one: see `BlockSource`."""
        with self._lock:
            known = self._known
        if known is None or known.timeline.id() == stored_id or not isinstance(known.columns, StoredSlices):
            return None
        return save_blocks(known.timeline, known.columns, stored)

    def rest_on(self, saved_id: str, blocks: SavedBlocks) -> None:
        """Start from the last listing where it was stored: see `BlockSource`."""
        with self._lock:
            known = self._known
            # What is in memory as a whole stays there: reading it again would take longer than it saves.
            if (
                known is None
                or known.timeline.id() != saved_id
                or not isinstance(known.columns, StoredSlices)
            ):
                return
            rested = known.columns.resting_on(blocks)
            if rested is not None:
                self._known = _Known(known.timeline, rested)
                return
            loaded = load_blocks(saved_id, blocks, self.root, self._listed)
            if loaded is not None:
                self._known = _Known(*loaded)

    def parts(self, most: int) -> ListingParts | None:
        """Cut a table that was not listed yet into parts: see `SharedSource`."""
        with self._lock:
            begun = self._known is not None or self._last is not None
        return None if begun else parts_of(self._store, self.storage_options, most)

    def list_part(self, sent: bytes, number: int) -> SavedLook:
        """List some partitions: see `SharedSource`."""
        return list_part(self._store, self.storage_options, sent, number)

    def joined(self, sent: bytes, parts: Sequence[SavedBlocks]) -> SavedLook | None:
        """The listing that parts make: see `SharedSource`."""
        return join_parts(self._store, sent, parts)

    def _start_from(self, loaded: tuple[Timeline, HudiColumns | StoredSlices] | None) -> None:
        with self._lock:
            if self._known is None and loaded is not None:
                self._known = _Known(*loaded)

    def _listed(self, timeline: Timeline) -> HudiColumns:
        """The slices as of a timeline that may be older than the newest one."""
        return list_table(self._store, self.storage_options, timeline, None, None)

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """Read the timeline and list the slices if it changed: see `TableSource`; no footer is ever read."""
        with self._lock:
            timeline = read_timeline(self._store)
            if previous is not None and previous.lost:
                previous = None
            last = self._last
            if last is None or last.timeline != timeline or last.snapshot.lost:
                if previous is not None and previous.root == self.root and previous.id == timeline.id():
                    last = _Look(timeline, previous, None)
                else:
                    last = self._take(timeline, None)
                self._last, self._known = last, last.known or self._known
            if previous is not None and previous.id == last.snapshot.id:
                return previous
            return last.snapshot

    def watched(self) -> Sequence[Watched] | None:
        """Return the folders that `read_timeline` reads: see `WatchableSource`."""
        with self._lock:
            if self._last is None or not self.root.startswith("/"):
                return None
            return [
                Watched("folder", f"{self.root}/{folder}") for folder in folders_read(self._last.timeline)
            ]

    def own_indexes(self) -> HudiIndexes | None:
        """Return the indexes of Hudi's metadata table as of the last listing; None where it has none."""
        with self._lock:
            timeline = self._last.timeline if self._last is not None else read_timeline(self._store)
        indexes = HudiIndexes(self.root, self.storage_options, timeline, self._statistics)
        return indexes if indexes.names or indexes.in_flight else None

    def snapshot_at(self, instant: str) -> Snapshot:
        """List the table as of an instant of the timeline: see `TableSource`.

        The schema is the current one; columns that were added later or had another type then are in conflict and never
        serve pruning; those that were renamed or recreated since serve it in the files of later writes.
        """
        if _INSTANT.fullmatch(instant) is None:
            raise TableError(
                f"{instant!r} is not an instant of a Hudi timeline: give 14 or 17 digits, yyyyMMddHHmmss[SSS]"
            )
        with self._lock:
            timeline = read_timeline(self._store)
            oldest = min(timeline.completed, default=None)
            # An instant without milliseconds means the end of its second.
            wanted = instant if len(instant) > len("yyyyMMddHHmmss") else f"{instant}999"
            if oldest is None or wanted < oldest:
                raise TableError(
                    f"{self.root} has no snapshot as of {instant}: "
                    f"its timeline begins with {oldest or 'no completed instant'}"
                )
            return self._take(timeline, wanted).snapshot

    def _take(self, timeline: Timeline, as_of: str | None) -> _Look:
        """List the slices, again if the table changed meanwhile: the result is of one moment."""
        for _ in range(ATTEMPTS):
            look = self._look(timeline, as_of)
            if self._listed_many:
                self._listed_many = False
                give_back_memory()
            now = read_timeline(self._store)
            if now == timeline:
                return look
            timeline = now
        raise TableError(
            f"{self.root} changed {ATTEMPTS} times while it was listed: try again when no writer is running"
        )

    def _look(self, timeline: Timeline, as_of: str | None) -> _Look:
        with refusing(self._store, timeline):
            table = hudi_rs().HudiTable(
                self._plain.path, {**self.storage_options, **_unchecked(timeline.properties)}
            )
            avro = table.get_schema_in_avro_str()
            converted = converted_by_hudi_rs(avro)
            arrow = _arrow_schema(table, avro, self.root) if converted else arrow_schema(avro, self.root)
            then = _schema_as_of(table, as_of) if as_of else avro
        record = newest_schema_file(self._store, timeline)
        history = None if record is None else SchemaHistory(record, self.root)
        schema = table_schema(arrow, avro, history, timeline.properties, self.root)
        if then != avro:
            schema = as_it_was(schema, avro, then, self.root)
        columns = self._followed(timeline) if as_of is None else None
        if columns is None:
            columns = list_table(
                self._store, self.storage_options, timeline, as_of, table if converted else None
            )
            self._listed_many = len(columns) >= MANY_SLICES
        if history is not None and history.changes:
            written: Any = columns.columns.column("base_instant").unique().drop_null().to_pylist()
            schema = checked_by_writes(schema, history, self._store, timeline, written)
        id_ = timeline.id() if as_of is None else f"{timeline.id()}@{as_of}"
        return _Look(timeline, _snapshot(id_, columns, schema, timeline), columns)

    def _followed(self, timeline: Timeline) -> HudiColumns | StoredSlices | None:
        """The known slices with the changes of later commits; None where that may differ from a listing."""
        if self._known is None:
            return None
        before, columns = self._known.timeline, self._known.columns
        if isinstance(columns, StoredSlices) and columns.lost:
            return None
        if before == timeline:
            return columns
        try:
            changes = follow(self._store, before, timeline, columns)
            for entry in changes.values():
                refuse_escape(self.root, entry)
            if isinstance(columns, StoredSlices):
                return columns.changed(changes, before, partial(self._listed, timeline))
            return columns.changed(changes, before)
        except (NotFollowedError, FormatError, StorageError) as reason:
            _log.debug("%s is listed in full: %s", self.root, reason)
            return None


def _unchecked(properties: HudiProperties) -> dict[str, str]:
    """Make hudi-rs list tables with several ordering fields: it refuses them, but only a merge needs the order.

    One setting covers all of its checks, so they stay on where others are needed.
    """
    if properties.several_ordering_fields and not properties.drops_partition_columns:
        return {"hoodie.internal.skip.config.validation": "true"}
    return {}


def _arrow_schema(table: hudi.HudiTable, avro: str, root: str) -> pa.Schema:
    """The table's schema from hudi-rs."""
    try:
        return table.get_schema_with_meta_fields()
    except Exception:
        arrow_schema(avro, root)  # names the column where it cannot read it, either
        raise


def _schema_as_of(table: hudi.HudiTable, instant: str) -> str | None:
    """Return the Avro schema of the newest write up to an instant; None where no write has one."""
    timeline = table.get_timeline()
    writes = [
        *timeline.get_completed_commits(),
        *timeline.get_completed_deltacommits(),
        *timeline.get_completed_replacecommits(),
        *timeline.get_completed_clustering_commits(),
    ]
    for write in sorted(writes, key=lambda entry: entry.timestamp, reverse=True):
        if write.timestamp > instant:
            continue
        metadata: dict[str, Any] = json.loads(timeline.get_instant_metadata_in_json(write))
        extra: dict[str, str] = metadata.get("extraMetadata") or {}
        schema = extra.get("schema")
        if schema:
            return schema
    return None


def _in_full(columns: HudiColumns | StoredSlices) -> HudiColumns:
    return columns.whole() if isinstance(columns, StoredSlices) else columns


def _snapshot(
    id_: str, columns: HudiColumns | StoredSlices, schema: TableSchema, timeline: Timeline
) -> Snapshot:
    return Snapshot(
        noun=FILE_GROUP,
        id=id_,
        schema=schema,
        columns=columns.columns,
        keys=columns.keys,
        partitions=hudi_partitions(list(columns.paths), timeline.properties, schema),
        root=columns.root,
        unsettled_because=dict(columns.unsettled),
        log_instants=timeline.log_instants() if columns.any_logs else None,
        merges=True,
        may_leave_files=timeline.properties.merge_on_read,
    )
