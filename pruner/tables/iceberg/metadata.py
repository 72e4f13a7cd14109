"""An Iceberg table's metadata: its schemas, partition specs, snapshots and references.

Source: the Iceberg table specification, "Table Metadata" and its appendix C (JSON serialization), versions 1 to 3.
"""

from __future__ import annotations

import gzip
import zlib
from typing import Any, Final

import msgspec

from pruner.errors import TableError

MOST_BYTES: Final = 1 << 28
"""Maximum size of a metadata file, also when decompressed."""

NEWEST_VERSION: Final = 3
_NO_SNAPSHOT: Final = -1
MAIN: Final = "main"
NAME_MAPPING: Final = "schema.name-mapping.default"


class TableSnapshot(msgspec.Struct, rename="kebab", frozen=True):
    """A snapshot: the manifests of one state of the table. `timestamp_ms` is in milliseconds since 1970, UTC."""

    snapshot_id: int
    timestamp_ms: int
    sequence_number: int = 0
    manifest_list: str | None = None
    manifests: list[str] | None = None
    schema_id: int | None = None
    key_id: str | None = None


class SnapshotReference(msgspec.Struct, rename="kebab", frozen=True):
    """A branch or tag."""

    snapshot_id: int
    type: str = "branch"


class LogEntry(msgspec.Struct, rename="kebab", frozen=True):
    """When a snapshot became current."""

    timestamp_ms: int
    snapshot_id: int


class PartitionField(msgspec.Struct, rename="kebab", frozen=True):
    """A field of the partition tuple: a transform of one column (`source-ids`, from v3, has several)."""

    name: str
    transform: str
    field_id: int | None = None
    source_id: int | None = None
    source_ids: list[int] | None = None


class PartitionSpec(msgspec.Struct, rename="kebab", frozen=True):
    """How files are partitioned."""

    spec_id: int
    fields: list[PartitionField]


class StructType(msgspec.Struct, rename="kebab", frozen=True):
    """A schema, or the type of a struct: fields as in the JSON."""

    fields: list[dict[str, Any]]
    type: str = "struct"
    schema_id: int = 0


class TableMetadata(msgspec.Struct, rename="kebab", frozen=True):
    """The parsed metadata file: use the methods, which fill in what older versions omit.

    `stored` is the content of the file, and `place` its location.
    """

    format_version: int
    location: str
    table_uuid: str | None = None
    last_updated_ms: int = 0
    schema: StructType | None = None
    schemas: list[StructType] = []
    current_schema_id: int | None = None
    partition_spec: list[PartitionField] | None = None
    partition_specs: list[PartitionSpec] = []
    default_spec_id: int = 0
    properties: dict[str, str] = {}
    current_snapshot_id: int | None = None
    snapshots: list[TableSnapshot] = []
    snapshot_log: list[LogEntry] = []
    refs: dict[str, SnapshotReference] = {}
    stored: bytes = msgspec.field(default=b"", name="")  # not a key of the file
    place: str = msgspec.field(default="", name=" ")  # nor is this

    def schema_of(self, schema_id: int | None) -> StructType:
        """A schema by its id; the current one for None.

        Raises:
            TableError: there is none.
        """
        wanted = self.current_schema_id if schema_id is None else schema_id
        schema = next((each for each in self.schemas if each.schema_id == wanted), None)
        if schema is None and not self.schemas and self.schema is not None:
            schema = self.schema
        if schema is None:
            raise TableError(f"{self.location} has no schema {wanted}: its metadata is damaged")
        return schema

    @property
    def specs(self) -> dict[int, PartitionSpec]:
        """Partition specs by their ids."""
        specs = self.partition_specs
        if not specs and self.partition_spec is not None:
            specs = [PartitionSpec(0, self.partition_spec)]
        return {spec.spec_id: spec for spec in specs}

    @property
    def identity_sources(self) -> frozenset[int]:
        """Ids of the columns whose values are partition values in any spec (specification, "Column Projection")."""
        fields = (field for spec in self.specs.values() for field in spec.fields)
        return frozenset(
            field.source_id
            for field in fields
            if field.source_id is not None and field.transform == "identity"
        )

    @property
    def current(self) -> TableSnapshot | None:
        """The current snapshot of the main branch; None for a table without one.

        Raises:
            TableError: the metadata names it but lacks it.
        """
        if self.current_snapshot_id is None or self.current_snapshot_id == _NO_SNAPSHOT:
            return None
        return self.snapshot_of(self.current_snapshot_id)

    def has(self, snapshot_id: int, schema_id: int) -> bool:
        """Tell whether it has both a snapshot and a schema."""
        return any(snapshot.snapshot_id == snapshot_id for snapshot in self.snapshots) and any(
            schema.schema_id == schema_id for schema in self.schemas
        )

    def snapshot_of(self, snapshot_id: int) -> TableSnapshot:
        """A snapshot by its id.

        Raises:
            TableError: there is none.
        """
        for snapshot in self.snapshots:
            if snapshot.snapshot_id == snapshot_id:
                return snapshot
        raise TableError(
            f"{self.location} has no snapshot {snapshot_id}: it expired, or never was one of the table"
        )


_METADATA: Final = msgspec.json.Decoder(TableMetadata)


def read_metadata(data: bytes, root: str, place: str) -> TableMetadata:
    """Parse a metadata file.

    Args:
        data: its content, plain or compressed with gzip (`.gz.metadata.json`).
        root: the table's root, for errors.
        place: the file's location.

    Raises:
        TableError: it is damaged, or of an unknown format version.
    """
    try:
        metadata = _METADATA.decode(unpacked(data))
    except (msgspec.MsgspecError, UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
        below = f"{root}/"
        name = place.removeprefix(below) if place.startswith(below) else place.rpartition("/")[2]
        raise TableError(
            f"{root} is an Iceberg table whose metadata file {name} is damaged ({error}): restore the file"
        ) from None
    if not 1 <= metadata.format_version <= NEWEST_VERSION:
        raise TableError(
            f"{root} is an Iceberg table of format version {metadata.format_version}, and this reader knows 1 to "
            f"{NEWEST_VERSION}: read the table with an engine that knows it"
        )
    return msgspec.structs.replace(metadata, stored=data, place=place)


def unpacked(data: bytes) -> bytes:
    """The content of a metadata file, which may be compressed with gzip."""
    if not data.startswith(b"\x1f\x8b"):
        return data
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
    content = unpacking.decompress(data, MOST_BYTES)
    if not unpacking.eof:
        raise gzip.BadGzipFile("cut short, or too large")
    return content
