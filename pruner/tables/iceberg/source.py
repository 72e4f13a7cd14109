"""Iceberg tables: see `pruner.tables.source.TableSource`."""

from __future__ import annotations

import re
from bisect import bisect_right
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from threading import RLock
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import xxhash

from pruner.arrow import number_array, text_array, truth_array
from pruner.errors import TableError
from pruner.storage.opening import open_store
from pruner.tables.iceberg.deletes import DeletePlan, delete_files
from pruner.tables.iceberg.manifests import DATA, all_files, read_manifest_list, read_manifests
from pruner.tables.iceberg.manifests import MOST_BYTES as MOST_MANIFEST_BYTES
from pruner.tables.iceberg.metadata import MAIN, MOST_BYTES, NAME_MAPPING, read_metadata
from pruner.tables.iceberg.nested import ByPartition, Footers, NestedNames
from pruner.tables.iceberg.parts import (
    data_part,
    descent_of,
    has_repeated,
    joined_partitions,
    partitions_of,
    pieces,
    spec_of,
)
from pruner.tables.iceberg.places import (
    METADATA,
    METADATA_FILE,
    newest_metadata,
    place_of,
    read_file,
    table_of_metadata,
)
from pruner.tables.iceberg.row_deletes import ByValue, IcebergDeletes
from pruner.tables.iceberg.saved_manifests import SavedManifests, saved_manifests
from pruner.tables.iceberg.schema import iceberg_schema, is_bytes, leaves_by_id, mapping_of
from pruner.tables.snapshot import SLICE_COLUMNS, Partitions, Snapshot, key_array
from pruner.tables.source import WriteOnceSource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pruner.storage.store import ObjectInfo
    from pruner.tables.iceberg.catalogs import CatalogTable
    from pruner.tables.iceberg.manifests import Manifest, ManifestFile
    from pruner.tables.iceberg.metadata import TableMetadata, TableSnapshot
    from pruner.tables.iceberg.parts import DataPart, JoinedPartitions, PartitionTuple
    from pruner.tables.source import SavedLook

_THREADS: Final = 16
"""Manifests read concurrently from a store."""

_MOST_MANIFESTS: Final = 100_000
_NUMBER: Final = re.compile(r"-?\d{1,19}")
_SCANNED: Final = re.compile(r"(-?\d{1,19})@(\d{1,9})(?:@([^/]{1,255}))?")
"""What an engine scans: a snapshot, the schema that it uses, and the name of a metadata file that has both."""

_MOST_PAST: Final = 8
"""Snapshots beside the current one that are cached with the metadata that names them."""

_MILLISECOND: Final = timedelta(milliseconds=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_METADATA_PATH: Final = "write.metadata.path"
"""The property with the location of metadata that is not stored beside the data."""

_MOST_PIECES: Final = 1024
"""Chunks up to which columns keep one chunk for each manifest."""

_NOTHING: Final = "nothing"
_VOID: Final = "void"
"""The transform of a field that was dropped from a version 1 spec: a spec of nothing else is unpartitioned."""


@dataclass(frozen=True)
class IcebergState:
    """A snapshot of the table from its manifests, in their order; `manifests` are their rows of the manifest list."""

    metadata: TableMetadata
    snapshot: TableSnapshot | None
    manifests: tuple[ManifestFile, ...]
    parts: tuple[DataPart, ...]
    deletes: tuple[Manifest, ...]

    @cached_property
    def files(self) -> pa.Table:
        """All data files: columns as `FILE_COLUMNS`."""
        return all_files([part.manifest for part in self.parts])

    @cached_property
    def joined(self) -> JoinedPartitions:
        """The distinct partitions of all data files, and the index of each file's partition."""
        return joined_partitions(self.parts)

    @cached_property
    def partitions(self) -> list[PartitionTuple]:
        """The spec and the partition tuple of each data file."""
        distinct = self.joined.partitions
        return [distinct[code] for code in self.joined.codes.tolist()]


class IcebergSource(WriteOnceSource):
    """An Iceberg table: see `pruner.tables.source.TableSource`.

    `root` is the folder of a table that tracks its own versions, or a metadata file, which is one fixed state. For a
    table `named` by a catalog, which knows the newest metadata, it is the folder.
    """

    format = "iceberg"

    def __init__(
        self,
        root: str,
        storage_options: Mapping[str, str] | None = None,
        named: CatalogTable | None = None,
    ) -> None:
        self.root = root
        self.roots = (root,)
        self.storage_options = dict(storage_options or {})
        self._named = named
        self._place = ""
        self._fixed = METADATA_FILE.fullmatch(root.rpartition("/")[2]) is not None
        self._lock = RLock()
        self._newest: tuple[str, ObjectInfo | None] | None = None
        self._metadata: TableMetadata | None = None
        self._manifests: dict[ManifestFile, Manifest] = {}
        self._parts: dict[ManifestFile, DataPart] = {}
        self._footers = Footers(self.storage_options)
        self._saved = SavedManifests()
        self._snapshot: Snapshot | None = None
        self._shown: TableMetadata | None = None
        self._states: dict[str, IcebergState] = {}
        self._past: dict[tuple[int, int], Snapshot] = {}
        self._told: tuple[str, TableMetadata] | None = None

    def check(self) -> None:
        """Read the newest metadata, so that a table that cannot be read is refused when it is opened.

        Raises:
            TableError: it is damaged, or of an unsupported kind.
            StorageError: it cannot be read.
        """
        with self._lock:
            self._now()

    @property
    def opened_by(self) -> str:
        """The name in a catalog, or the root: see `pruner.tables.source.NamedSource`."""
        return self.root if self._named is None else self._named.uri

    def identity(self) -> str:
        """Return the id in the table's metadata, which a table recreated at the same location does not share."""
        with self._lock:
            metadata = self._now()
            return f"iceberg-{metadata.table_uuid or metadata.location}"

    def saved(self, stored: str | None = None) -> SavedLook | None:
        """Return the decoded manifests of the last snapshot: see `TableSource`."""
        with self._lock:
            state = None if self._snapshot is None else self._states.get(self._snapshot.id)
            if state is None:
                return None
            return saved_manifests(
                {manifest: self._manifests[manifest] for manifest in state.manifests}, stored
            )

    def resume(self, saved: SavedLook) -> None:
        """Resume from manifests that another process decoded: see `TableSource`."""
        with self._lock:
            self._saved = SavedManifests(saved)

    def snapshot(self, previous: Snapshot | None = None) -> Snapshot:
        """Read the manifests added since the last snapshot: see `TableSource`; no footer is ever read."""
        with self._lock:
            metadata = self._now()
            if self._snapshot is None or metadata is not self._shown:
                self._snapshot, self._shown = self._current(metadata), metadata
            if previous is not None and previous.id == self._snapshot.id and previous.root == self.root:
                return previous
            return self._snapshot

    def state_of(self, snapshot: Snapshot) -> IcebergState | None:
        """The manifest contents of a snapshot, for use by plans; None for an old snapshot."""
        with self._lock:
            return self._states.get(snapshot.id)

    def snapshot_at(self, instant: str) -> Snapshot:
        """Return the table as of a snapshot id, a branch or tag, or a timestamp: see `TableSource`.

        A branch has the table's schema, everything else that of its snapshot. An engine requests what it scans:
        `snapshot@schema`, by their ids, or `snapshot@schema@metadata file` where its catalog may know newer metadata.
        """
        with self._lock:
            scanned = _SCANNED.fullmatch(instant)
            if scanned is not None:
                return self._scanned(int(scanned[1]), int(scanned[2]), scanned[3])
            metadata = self._now()
            reference = metadata.refs.get(instant)
            if instant == MAIN and reference is None:
                return self._made(metadata, metadata.current, None)
            if reference is not None:
                snapshot = metadata.snapshot_of(reference.snapshot_id)
                return self._made(
                    metadata, snapshot, None if reference.type == "branch" else snapshot.schema_id
                )
            is_id = _NUMBER.fullmatch(instant) is not None
            snapshot = metadata.snapshot_of(int(instant)) if is_id else self._as_of(metadata, instant)
            return self._made(metadata, snapshot, snapshot.schema_id)

    def _scanned(self, snapshot_id: int, schema_id: int, file: str | None) -> Snapshot:
        """A snapshot with a schema: the same object each time, unless many others were requested in between."""
        current, metadata = self.snapshot(), self._metadata or self._now()
        if metadata.current_snapshot_id == snapshot_id and metadata.schema_of(None).schema_id == schema_id:
            return current
        wanted = snapshot_id, schema_id
        snapshot = self._past.pop(wanted, None)
        if snapshot is None:
            if file is not None and not metadata.has(snapshot_id, schema_id):
                metadata = self._newer(file, metadata)
            snapshot = self._made(metadata, metadata.snapshot_of(snapshot_id), schema_id)
            if len(self._past) >= _MOST_PAST:
                self._forget(self._past.pop(next(iter(self._past))))
        self._past[wanted] = snapshot
        return snapshot

    def _forget(self, past: Snapshot) -> None:
        """Evict a past snapshot, and the manifests that no other snapshot uses."""
        self._states.pop(past.id, None)
        used = {manifest for state in self._states.values() for manifest in state.manifests}
        self._manifests = {each: manifest for each, manifest in self._manifests.items() if each in used}
        self._parts = {part: manifest for part, manifest in self._parts.items() if part in used}

    def _newer(self, file: str, known: TableMetadata) -> TableMetadata:
        """The content of another metadata file of this table, in the folder of the known ones."""
        if METADATA_FILE.fullmatch(file) is None:
            raise TableError(f"{file[:100]!r} is no name of a metadata file")
        if self._told is not None and self._told[0] == file:
            return self._told[1]
        of_known = self.root if self._fixed else self._place
        folder = of_known.rpartition("/")[0] or f"{self.root}/{METADATA}"
        place = f"{folder}/{file}"
        metadata = self._checked(read_file(place, self.storage_options, MOST_BYTES), place)
        if known.table_uuid is None or metadata.table_uuid != known.table_uuid:
            raise TableError(f"{place} is of another table than {self.root}")
        self._told = file, metadata
        return metadata

    def _now(self) -> TableMetadata:
        """The newest metadata; the same object where there is none newer."""
        if self._fixed:
            if self._metadata is None:
                stored = read_file(self.root, self.storage_options, MOST_BYTES)
                self._metadata = self._checked(stored, self.root)
            return self._metadata
        if self._named is not None:
            return self._named_now(self._named)
        store = open_store(self.root, self.storage_options)
        path, info = newest_metadata(store)
        if self._metadata is None or self._newest != (path, info):
            self._metadata = self._checked(store.get(path, MOST_BYTES), f"{self.root}/{path}")
            self._newest = (path, info)
        return self._metadata

    def _named_now(self, named: CatalogTable) -> TableMetadata:
        """The newest metadata according to the catalog."""
        pointed = named.look()
        if pointed.root != self.root:
            raise TableError(f"{named.uri} has moved from {self.root} to {pointed.root}: open it again")
        if pointed.options != self.storage_options:
            # Credentials that a catalog vends for the store are valid for an hour, say.
            self.storage_options.update(pointed.options)
        if self._metadata is None or pointed.metadata != self._place:
            stored = read_file(pointed.metadata, self.storage_options, MOST_BYTES)
            self._metadata = self._checked(stored, pointed.metadata)
            self._place = pointed.metadata
        return self._metadata

    def _checked(self, stored: bytes, place: str) -> TableMetadata:
        """The content of a metadata file, after checks that the table can be read."""
        metadata = read_metadata(stored, self.root, place)
        _require_same_place(metadata, table_of_metadata(self.root))
        mapping_of(metadata)
        return metadata

    def _current(self, metadata: TableMetadata) -> Snapshot:
        """The current snapshot of new metadata: manifests of other snapshots are read again when needed."""
        before = self._snapshot
        known = None if before is None else self._states.get(before.id)
        self._states.clear()
        self._past.clear()
        snapshot = self._made(metadata, metadata.current, None, () if known is None else known.parts)
        state = self._states[snapshot.id]
        if (
            before is not None
            and known is not None
            and snapshot.id != before.id
            and snapshot.schema == before.schema
        ):
            snapshot = replace(snapshot, descent=descent_of(state.parts, known.parts, before.id))
        self._manifests = {manifest: self._manifests[manifest] for manifest in state.manifests}
        self._parts = {each: part for each, part in self._parts.items() if each in self._manifests}
        self._saved = SavedManifests()  # it takes as much memory as what was made from it
        return snapshot

    def _as_of(self, metadata: TableMetadata, instant: str) -> TableSnapshot:
        """The snapshot that was current at a point in time."""
        try:
            moment = datetime.fromisoformat(instant)
        except ValueError:
            raise TableError(
                f"{instant!r} is no snapshot id, branch or tag of {self.root}, and no moment either: give a date and "
                "time such as 2026-11-27T08:30:00Z"
            ) from None
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        log = sorted(metadata.snapshot_log, key=lambda entry: entry.timestamp_ms)
        at = bisect_right([entry.timestamp_ms for entry in log], (moment - _EPOCH) // _MILLISECOND)
        if not at:
            begins = (_EPOCH + log[0].timestamp_ms * _MILLISECOND).isoformat() if log else _NOTHING
            raise TableError(f"{self.root} has no snapshot as of {instant}: its log begins with {begins}")
        return metadata.snapshot_of(log[at - 1].snapshot_id)

    def _made(
        self,
        metadata: TableMetadata,
        snapshot: TableSnapshot | None,
        schema_id: int | None,
        known: Sequence[DataPart] = (),
    ) -> Snapshot:
        """A snapshot; no file occurs twice in the `known` parts."""
        state = self._state(metadata, snapshot)
        if has_repeated(state.parts, known):
            raise TableError(
                f"the manifests of {self.root} name a file twice, so that its rows would count twice"
            )
        made = _snapshot(state, schema_id, self.root, self._footers, self.storage_options)
        self._states[made.id] = state
        return made

    def _state(self, metadata: TableMetadata, snapshot: TableSnapshot | None) -> IcebergState:
        listed = [] if snapshot is None else self._listed(snapshot)
        for each in listed:
            saved = None if each in self._manifests else self._saved.manifest(each)
            if saved is not None:
                self._manifests[each] = saved
        missing = [manifest for manifest in listed if manifest not in self._manifests]
        if missing:
            places = [place_of(each.path, self.root) for each in missing]
            with ThreadPoolExecutor(min(_THREADS, len(missing))) as threads:
                # Threads only read: decoding holds the interpreter lock.
                stored = zip(threads.map(self._stored, missing), missing, places, strict=True)
                self._manifests.update(zip(missing, read_manifests(stored), strict=True))
        data = tuple(self._part(manifest, metadata) for manifest in listed if manifest.content == DATA)
        deletes = tuple(self._manifests[manifest] for manifest in listed if manifest.content != DATA)
        return IcebergState(metadata, snapshot, tuple(listed), data, deletes)

    def _part(self, line: ManifestFile, metadata: TableMetadata) -> DataPart:
        """The files of a manifest as slices, made once."""
        manifest, found = self._manifests[line], self._parts.get(line)
        read_by = _read_by(metadata)
        if found is None or not found.is_of(spec_of(manifest, metadata), read_by):
            found = self._parts[line] = data_part(manifest, metadata, self.root, read_by)
        return found

    def _listed(self, snapshot: TableSnapshot) -> list[ManifestFile]:
        """The rows of a manifest list. Version 1 has no sequence numbers: a snapshot with one has a later version."""
        if snapshot.key_id is not None:
            raise TableError(
                f"{self.root} is encrypted, which this reader cannot read: read it with an engine that can"
            )
        if snapshot.manifest_list is None:
            raise TableError(
                f"{self.root} has a snapshot without a manifest list, as writers before 2019 left it: rewrite its "
                "manifests"
            )
        place = place_of(snapshot.manifest_list, self.root)
        stored = read_file(place, self.storage_options, MOST_MANIFEST_BYTES)
        manifests = read_manifest_list(stored, place, 1 if snapshot.sequence_number <= 0 else 2)
        if len(manifests) > _MOST_MANIFESTS:
            raise TableError(
                f"{place} names {len(manifests)} manifests, more than are read: rewrite the manifests"
            )
        return manifests

    def _stored(self, manifest: ManifestFile) -> bytes:
        return read_file(place_of(manifest.path, self.root), self.storage_options, MOST_MANIFEST_BYTES)


def _require_same_place(metadata: TableMetadata, root: str) -> None:
    apart = metadata.properties.get(_METADATA_PATH)
    if apart is None and place_of(metadata.location, root) != root:
        raise TableError(
            f"the metadata at {root} belongs to a table at {metadata.location}, and names the files there: open that "
            "one, or register the copy as a table of its own"
        )


def _read_by(metadata: TableMetadata) -> bytes:
    """What reads depend on besides a file: the columns of files without field ids depend on the name mapping."""
    text = metadata.properties.get(NAME_MAPPING, "").encode()
    return xxhash.xxh3_128_digest(text) if text else b""


def _snapshot(
    state: IcebergState, schema_id: int | None, root: str, footers: Footers, options: Mapping[str, str]
) -> Snapshot:
    metadata = state.metadata
    mapping = mapping_of(metadata)
    mapped = None if mapping is None else mapping.paths()
    schema = iceberg_schema(metadata.schema_of(schema_id), root, metadata.identity_sources, mapped)
    return Snapshot(
        id=_id(state, schema_id),
        schema=schema,
        columns=_columns(state),
        keys=key_array(b"".join(part.keys for part in state.parts)),
        partitions=Partitions(text_array(state.joined.texts)),
        root=root,
        deletes=_deletes(state, root, options),
        hides_nan=True,
        may_leave_files=metadata.format_version > 1,
        nested=NestedNames(metadata.schema_of(schema_id), footers, _by_partition(state), mapping),
        version=None if state.snapshot is None else f"{metadata.table_uuid} {state.snapshot.snapshot_id}",
        state=state,
    )


def _deletes(state: IcebergState, root: str, options: Mapping[str, str]) -> IcebergDeletes | None:
    """The deletes that apply to the data files; None where none can."""
    metadata = state.metadata
    specs = metadata.specs
    leaves = leaves_by_id((*metadata.schemas, metadata.schema_of(None)), root)
    bytes_ = {id_ for id_, leaf in leaves.items() if is_bytes(leaf.type)}
    plan = DeletePlan(
        binary=frozenset(
            (spec_id, place)
            for spec_id, spec in specs.items()
            for place, field in enumerate(spec.fields)
            if field.source_id in bytes_
        )
    )
    for manifest in state.deletes:
        distinct, codes = partitions_of(manifest, metadata)
        of_files: list[int] = codes.tolist()
        for each in delete_files(manifest, [distinct[code] for code in of_files]):
            fields = specs[each.partition[0]].fields
            plan.add(each, is_partitioned=any(field.transform != _VOID for field in fields))
    if not plan:
        return None
    locations: list[Any] = state.files.column("path").to_pylist()
    numbers: list[Any] = state.files.column("sequence_number").to_pylist()
    deletes = [plan.of(*each) for each in zip(locations, numbers, state.partitions, strict=True)]
    if not any(deletes):
        return None
    sizes: list[Any] = state.files.column("size").to_pylist()
    by_value = ByValue(sizes, numbers, state.partitions, leaves, _identities(metadata), mapping_of(metadata))
    return IcebergDeletes(deletes, locations, root, options, by_value)


def _identities(metadata: TableMetadata) -> dict[int, dict[int, int]]:
    """For each spec, the field ids of columns whose values are in its partition tuples, with their positions there."""
    return {
        spec_id: {
            field.source_id: place
            for place, field in enumerate(spec.fields)
            if field.transform == "identity" and field.source_id
        }
        for spec_id, spec in metadata.specs.items()
    }


def _by_partition(state: IcebergState) -> ByPartition:
    """The columns whose values are in each file's partition, and these values."""
    identities = _identities(state.metadata)
    of_spec = {spec_id: frozenset(identity) for spec_id, identity in identities.items()}
    if not any(of_spec.values()):
        return ByPartition(dict, lambda _: [])

    def of_file() -> dict[str, frozenset[int]]:
        of_parts = ((part, of_spec[part.spec.spec_id]) for part in state.parts if part.spec is not None)
        return {place: ids for each, ids in of_parts if ids for place in each.places.to_pylist()}

    def values(id_: int) -> list[Any]:
        return [
            tuple_[identities[spec_id][id_]] if id_ in identities[spec_id] else None
            for spec_id, tuple_ in state.joined.partitions
        ]

    return ByPartition(of_file, values)


def _id(state: IcebergState, schema_id: int | None) -> str:
    metadata, snapshot = state.metadata, state.snapshot
    schema = metadata.schema_of(schema_id).schema_id
    mapping = xxhash.xxh3_64_hexdigest(metadata.properties.get(NAME_MAPPING, "").encode())
    number = "none" if snapshot is None else snapshot.snapshot_id
    return f"iceberg {metadata.table_uuid or metadata.location} {number} {schema} {mapping}"


def _columns(state: IcebergState) -> pa.Table:
    parts, count = state.parts, len(state.joined.codes)
    columns: dict[str, Any] = {
        "partition": number_array(state.joined.codes, pa.int32()),
        "file_id": pieces([part.names for part in parts], pa.string(), _MOST_PIECES),
        "base_file": pieces([part.places for part in parts], pa.string(), _MOST_PIECES),
        "base_size": state.files.column("size"),
        "base_version": pa.nulls(count, pa.string()),
        "base_instant": pa.nulls(count, pa.string()),
        "log_files": pa.nulls(count, pa.list_(pa.string())),
        "log_size": pa.nulls(count, pa.int64()),
        "unsettled": truth_array(np.zeros(count, np.bool_)),
    }
    return pa.table([columns[name] for name in SLICE_COLUMNS.names], schema=SLICE_COLUMNS)
