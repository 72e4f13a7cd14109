"""The state of a metadata table: which indexes are defined, and which segments hold their records.

A state is immutable. Changes return a new one, and `MetadataTable.commit` makes it the newest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from pruner.errors import ConflictError, FormatError, IndexDefinitionError
from pruner.metadata.definitions import IndexDefinition, Uuid

if TYPE_CHECKING:
    from collections.abc import Iterable

FORMAT_VERSION = 1
"""Version of the format that this pruner writes, and the newest that it reads."""

FILES = "files"
"""The partition of slice batches."""

Checksum = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$")]
"""XXH3-128 in hexadecimal digits."""

Count = Annotated[int, msgspec.Meta(ge=0)]
Partition = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]{0,200}$")]


class NewerFormatError(FormatError):
    """A newer version of pruner wrote this: readers do without it and report so, writers refuse."""


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a segment that can be read in parts: it has checksums of everything before it (`metadata.ranged`)."""

    size: Count
    checksum: Checksum


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """The slices of a batch in their order: the key of the first one, and `slice_keys.digest_runs` of all keys."""

    first: Checksum
    digest: Checksum


class SegmentEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One live segment: a Parquet file with the records of one field of one definition for one slice batch.

    `partition` is the folder ("files", "column_stats", …), `path` is relative to the metadata table's root,
    `size` is in bytes, `checksum` covers the whole file. `definition`, `field` and `batch` (the id of the
    `files` segment whose local ordinals the records use) are None in the partition `files` itself. `partition_stats` is
    the segment with the aggregates of these records, if there is one: it is added and removed with them. So is `pages`,
    the directory by which the records are read page by page. `tail` is set if the segment can be read in parts.
    `run` is set for a slice batch: with it a reader recognizes its slices without reading it.
    """

    id: Uuid
    partition: Partition
    path: str
    size: Count
    checksum: Checksum
    rows: Count
    definition: Uuid | None = None
    field: tuple[str, ...] | None = None
    batch: Uuid | None = None
    record_version: Annotated[int, msgspec.Meta(ge=1)] = 1
    created_at: str = ""
    partition_stats: SegmentEntry | None = None
    tail: Tail | None = None
    pages: SegmentEntry | None = None
    run: Run | None = None

    def attached(self) -> tuple[SegmentEntry, ...]:
        """The files that are added and removed with this entry: the aggregates, and the directory of its pages."""
        return tuple(reference for reference in (self.partition_stats, self.pages) if reference is not None)

    def files(self) -> tuple[SegmentEntry, ...]:
        """The files of this entry: its own, and those attached to it."""
        return (self, *self.attached())


class SavedSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The table as a writer last saw it: `id` is that of the snapshot, `segment` holds it, in the partition `files`.

    If `changes` is set, these two are of an earlier snapshot, `changes` holds additions and removals since then, and
    `changed_id` is the id of the last one. So the rest stays true when a pruner that knows neither field commits.

    A snapshot in blocks may be larger than one segment: the blocks of `segment` come first, then those of `parts`.
    """

    id: str
    segment: SegmentEntry
    changes: SegmentEntry | None = None
    changed_id: str | None = None
    parts: tuple[SegmentEntry, ...] = ()

    @property
    def last_id(self) -> str:
        """The id of the complete snapshot, including changes."""
        return self.changed_id or self.id

    def files(self) -> tuple[SegmentEntry, ...]:
        """The files that store it."""
        changes = () if self.changes is None else (self.changes,)
        return (self.segment, *self.parts, *changes)


class State(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the metadata table knows, as one log entry holds it.

    `version` is the number of the entry, 0 before the first commit. `commit` is unique to each commit,
    `parent` is the checksum of the previous entry (None in the first). `min_reader` and `min_writer` are the
    oldest format versions whose readers and writers understand it. `table_identity` identifies the table that it
    describes.
    """

    format_version: Annotated[int, msgspec.Meta(ge=1)] = FORMAT_VERSION
    min_reader: Annotated[int, msgspec.Meta(ge=1)] = 1
    min_writer: Annotated[int, msgspec.Meta(ge=1)] = 1
    version: Count = 0
    commit: str = ""
    parent: Checksum | None = None
    created_at: str = ""
    table_identity: str = ""
    definitions: tuple[IndexDefinition, ...] = ()
    segments: tuple[SegmentEntry, ...] = ()
    last_snapshot: SavedSnapshot | None = None

    def matches(self, identity: str) -> bool:
        """Tell whether the records describe the table with this identity."""
        return self.table_identity == identity

    def definition(self, name: str) -> IndexDefinition | None:
        """Return the index of that name (case does not matter), or None."""
        wanted = name.casefold()
        return next((entry for entry in self.definitions if entry.name.casefold() == wanted), None)

    def required(self, name: str, table: str) -> IndexDefinition:
        """Return the index of that name (case does not matter).

        Args:
            name: name of the index.
            table: URI of the table, for the error.

        Raises:
            IndexDefinitionError: there is no such index.
        """
        definition = self.definition(name)
        if definition is None:
            known = ", ".join(entry.name for entry in self.definitions) or "no index"
            raise IndexDefinitionError(f"no index {name!r} on {table}: it has {known}")
        return definition

    def stored(self) -> tuple[SegmentEntry, ...]:
        """Everything that is stored outside the log: the segments, their aggregates and the last snapshot."""
        entries = tuple(file for entry in self.segments for file in entry.files())
        return entries if self.last_snapshot is None else (*entries, *self.last_snapshot.files())

    def batches(self) -> tuple[SegmentEntry, ...]:
        """The slice batches, oldest first."""
        return tuple(entry for entry in self.segments if entry.partition == FILES)

    def segments_of(self, definition: IndexDefinition) -> tuple[SegmentEntry, ...]:
        """The segments with records of a definition, oldest first."""
        return tuple(entry for entry in self.segments if entry.definition == definition.uuid)

    def about(self, entry: SegmentEntry) -> str:
        """The owner of a segment's records: an index and its column, or for a slice batch the indexes that need it."""
        served = {other.definition for other in self.segments if entry.id in (other.id, other.batch)}
        names = [definition.name for definition in self.definitions if definition.uuid in served]
        column = "" if entry.field is None else f", column {'.'.join(entry.field)}"
        return f"{'index' if len(names) == 1 else 'indexes'} {', '.join(names)}{column}"

    def with_definition(self, definition: IndexDefinition) -> State:
        """Return the state with one more index.

        Raises:
            IndexDefinitionError: an index of that name exists.
        """
        known = self.definition(definition.name)
        if known is not None:
            raise IndexDefinitionError(
                f"an index named {known.name!r} already exists: drop it first, or choose another name"
            )
        return msgspec.structs.replace(self, definitions=(*self.definitions, definition))

    def without_definition(self, definition: IndexDefinition) -> State:
        """Return the state without an index, its segments, and the slice batches that nothing needs any more.

        Raises:
            ConflictError: this exact definition is not in the state (any more).
        """
        if all(entry.uuid != definition.uuid for entry in self.definitions):
            raise ConflictError(f"index {definition.name!r} was dropped by another writer meanwhile")
        definitions = tuple(entry for entry in self.definitions if entry.uuid != definition.uuid)
        segments = [entry for entry in self.segments if entry.definition != definition.uuid]
        used = {entry.batch for entry in segments}
        kept = tuple(entry for entry in segments if entry.partition != FILES or entry.id in used)
        return msgspec.structs.replace(self, definitions=definitions, segments=kept)

    def with_segments(self, added: Iterable[SegmentEntry]) -> State:
        """Return the state with more segments; slice batches may be among them.

        Raises:
            ConflictError: the definition or the slice batch of one is not in the state (any more): an index that was
                dropped and created again meanwhile is a different one.
        """
        result = msgspec.structs.replace(self, segments=(*self.segments, *added))
        dangling = result._dangling()
        if dangling:
            raise ConflictError(f"another writer changed the indexes meanwhile: {dangling}; refresh again")
        return result

    def without_segments(self, ids: Iterable[str]) -> State:
        """Return the state without the segments of these ids.

        Raises:
            ConflictError: one is not in the state (any more), or is a slice batch that a remaining segment needs.
        """
        gone = set(ids)
        missing = gone - {entry.id for entry in self.segments}
        if missing:
            raise ConflictError(f"another writer removed segment {min(missing)} meanwhile; try again")
        kept = tuple(entry for entry in self.segments if entry.id not in gone)
        result = msgspec.structs.replace(self, segments=kept)
        dangling = result._dangling()
        if dangling:
            raise ConflictError(f"another writer added records meanwhile: {dangling}; try again")
        return result

    def without_coverage(self, identity: str) -> State:
        """Return the state for the table with this identity: definitions stay, data about another table is removed."""
        return msgspec.structs.replace(self, table_identity=identity, segments=(), last_snapshot=None)

    def with_snapshot(self, saved: SavedSnapshot) -> State:
        """Return the state with another last snapshot."""
        return msgspec.structs.replace(self, last_snapshot=saved)

    def check(self) -> None:
        """Check the invariants of every state.

        Raises:
            FormatError: names or ids are not unique, or a segment's definition or slice batch does not exist.
        """
        names = [entry.name.casefold() for entry in self.definitions]
        uuids = [entry.uuid for entry in self.definitions]
        ids = [entry.id for entry in self.stored()]
        paths = [entry.path for entry in self.stored()]
        for what, values in (("index name", names), ("index UUID", uuids), ("segment", ids), ("path", paths)):
            if len(set(values)) != len(values):
                raise FormatError(f"version {self.version} of the metadata table holds one {what} twice")
        dangling = self._dangling()
        if dangling:
            raise FormatError(f"version {self.version} of the metadata table is inconsistent: {dangling}")

    def _dangling(self) -> str | None:
        uuids = {entry.uuid for entry in self.definitions}
        batches = {entry.id for entry in self.segments if entry.partition == FILES}
        for entry in self.segments:
            if entry.partition == FILES:
                continue
            if entry.definition not in uuids:
                return f"segment {entry.path} belongs to an index that does not exist"
            if entry.batch not in batches:
                return f"segment {entry.path} belongs to a slice batch that does not exist"
            about = (entry.definition, entry.field, entry.batch)
            for of in entry.attached():
                if (of.definition, of.field, of.batch) != about:
                    return f"segment {of.path} is about other records than {entry.path}"
        return None


def refuse_newer(state: State) -> None:
    """Refuse to write if a newer pruner requires a newer writer.

    Raises:
        NewerFormatError: this pruner would lose data that it does not know.
    """
    if state.min_writer > FORMAT_VERSION:
        raise NewerFormatError(
            f"the metadata table has format {state.format_version}, written by a newer pruner: "
            f"this one writes up to format {FORMAT_VERSION}, so upgrade it"
        )
