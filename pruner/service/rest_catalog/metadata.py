"""A snapshot of any table as the metadata of an Iceberg table with one snapshot, which no client can write to.

Source: Iceberg specification, "Table Metadata" and appendix C. Nothing can exist at the location: what a client would
write, or remove as an orphan, is never at the table's own location.
"""

from __future__ import annotations

import itertools
import json
import uuid
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import numpy as np
import xxhash

from pruner.errors import TableError
from pruner.service.rest_catalog.schema import client_schema
from pruner.tables.delta.schema import mapping_mode
from pruner.tables.delta.state import DeltaState

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.planning.pinned import PinnedSnapshot
    from pruner.service.rest_catalog.schema import PartitionColumn

LOCATION: Final = "file:///dev/null/pruner-read-only"
"""No client can write below it. Spark needs the file system of a table's location, so there must be one."""

GC: Final = "gc.enabled"
"""If it is false, Iceberg's procedures that delete files refuse to run."""

_FIRST_PARTITION_ID: Final = 1000
_MOST_PARTITION_COLUMNS: Final = 16


next_state_number = itertools.count().__next__
"""Returns numbers that are unique for table states within a process."""


class UnservedError(TableError):
    """Clients without an adapter cannot read a table, or one of its states, correctly."""


@dataclass(frozen=True)
class ServedTable:
    """One snapshot of a table, as presented to clients.

    Attributes:
        name: the name in the configuration.
        pinned: the snapshot; each plan over it sees the same files.
        since_ms: when this process first saw the snapshot, in milliseconds since 1970, UTC.
        state_number: a number of this object alone.
    """

    name: str
    pinned: PinnedSnapshot
    since_ms: int
    state_number: int = field(init=False, default_factory=next_state_number)

    def check(self) -> None:
        """Refuse tables that a plain reader of Parquet files would read incorrectly.

        Raises:
            UnservedError: there are log files, deleted rows or slices without a base file, Delta features or a kind of
                table that clients do not know, no readable column, or too many partition columns.
        """
        data = self.pinned.data
        what = "log files" if data.any_logs else "deleted rows" if data.has_deletes.any() else None
        if what is not None:
            raise UnservedError(
                f"table {self.name} has {what}, which clients of this catalog do not apply: read it with an adapter "
                "of pruner, or compact it"
            )
        if not data.has_base.all():
            raise UnservedError(
                f"table {self.name} has {data.noun}s without a base file: read it with an adapter"
            )
        if isinstance(data.state, DeltaState):
            _require_plain_delta(self.name, data.state)
        elif data.nested is not None or data.version is not None:
            raise UnservedError(
                f"table {self.name} has a catalog of its own kind: this catalog serves Parquet, Hudi, Delta and "
                "Iceberg tables"
            )
        if not self.schema.fields:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.schema.left_out.items())
            raise UnservedError(
                f"table {self.name} has no column that clients read rightly ({reasons[:500]})"
            )
        if len(self.schema.partitions) > _MOST_PARTITION_COLUMNS:
            raise UnservedError(
                f"table {self.name} has more than {_MOST_PARTITION_COLUMNS} partition columns: read it with an adapter"
            )

    @cached_property
    def schema(self) -> Any:
        """The schema for clients."""
        data = self.pinned.data
        beside = _beside_schema(data.state) if isinstance(data.state, DeltaState) else None
        return client_schema(data.schema, data.partitions, beside=beside)

    @cached_property
    def snapshot_id(self) -> int:
        """The number of the snapshot."""
        return snapshot_number(self.pinned.id)

    @cached_property
    def partition_values(self) -> list[dict[str, Any]]:
        """The values of the partition columns for each partition."""
        partitions = self.pinned.data.partitions
        columns = {
            partition.name: partitions.values[partition.path].to_pylist()
            for partition in self.schema.partitions
        }
        return [{name: values[at] for name, values in columns.items()} for at in range(len(partitions))]

    @cached_property
    def spec_of(self) -> NDArray[np.int64]:
        """The spec of each partition: one for each set of columns that are not NULL, since some clients do not accept
        NULL in partition values. Ids are derived from names and types, so that an id never changes its meaning.
        """
        return np.array([_spec_id(self._present(values)) for values in self.partition_values], np.int64)

    def _present(self, values: Mapping[str, Any]) -> tuple[PartitionColumn, ...]:
        return tuple(partition for partition in self.schema.partitions if values[partition.name] is not None)

    @cached_property
    def _specs(self) -> list[dict[str, Any]]:
        ids = {
            partition.name: _FIRST_PARTITION_ID + at for at, partition in enumerate(self.schema.partitions)
        }
        specs = {_spec_id(self.schema.partitions): self.schema.partitions}
        for values in self.partition_values:
            present = self._present(values)
            specs.setdefault(_spec_id(present), present)
        return [
            {
                "spec-id": spec_id,
                "fields": [
                    {
                        "name": column.name,
                        "transform": "identity",
                        "source-id": column.field_id,
                        "field-id": ids[column.name],
                    }
                    for column in columns
                ],
            }
            for spec_id, columns in specs.items()
        ]

    @cached_property
    def agreed_order(self) -> NDArray[np.intp] | None:
        """The slices in an order that all processes agree on; None if they are already numbered in it.

        Slices of a Delta table are numbered as they were read, from commits or from a checkpoint, which writers may
        order in any way.
        """
        if not isinstance(self.pinned.data.state, DeltaState):
            return None
        keys = self.pinned.data.keys
        data: Any = keys.buffers()[1]
        words = np.frombuffer(data or b"", np.uint64)[2 * keys.offset :][: 2 * len(keys)]
        return np.lexsort((words[1::2], words[::2]))

    def columns(self, *, case_sensitive: bool, snapshot_schema: bool = False) -> None:
        """Return None: filters use the column names of the schema."""

    def metadata(self, *, python: bool) -> dict[str, Any]:
        """The metadata as JSON: the same for all clients."""
        del python
        return self._metadata

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        schema, location = self.schema, f"{LOCATION}/{quote(self.name, safe='')}"
        return {
            "format-version": 2,
            "table-uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, self.pinned.data.root)),
            "location": location,
            "last-sequence-number": 1,
            "last-updated-ms": self.since_ms,
            "last-column-id": schema.last_id,
            "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": schema.fields}],
            "default-spec-id": _spec_id(schema.partitions),
            "partition-specs": self._specs,
            "last-partition-id": _FIRST_PARTITION_ID - 1 + len(schema.partitions),
            "default-sort-order-id": 0,
            "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": self._properties(),
            "current-snapshot-id": self.snapshot_id,
            "refs": {"main": {"snapshot-id": self.snapshot_id, "type": "branch"}},
            "snapshots": [
                {
                    "snapshot-id": self.snapshot_id,
                    "sequence-number": 1,
                    "timestamp-ms": self.since_ms,
                    "manifest-list": f"{location}/plans-are-made-by-the-server.avro",
                    "summary": {"operation": "append"},
                    "schema-id": 0,
                }
            ],
            "snapshot-log": [{"snapshot-id": self.snapshot_id, "timestamp-ms": self.since_ms}],
            "metadata-log": [],
        }

    def _properties(self) -> dict[str, str]:
        told = {"schema.name-mapping.default": json.dumps(self.schema.mapping, separators=(",", ":"))}
        for name, why in self.schema.left_out.items():
            told[f"pruner.left-out.{name}"] = why
        told[GC] = "false"
        return told


def _require_plain_delta(name: str, state: DeltaState) -> None:
    """Refuse tables that a reader which finds Parquet columns by name would read incorrectly."""
    what = None
    if mapping_mode(state.metadata, state.protocol, name):
        what = "columns under other names in its files (column mapping)"
    elif "delta.typeChanges" in state.metadata.schema_string:
        what = "files with columns of older types (type widening)"
    if what is not None:
        raise UnservedError(
            f"table {name} is a Delta table that has {what}, which clients of this catalog do not know: read it with "
            "an adapter of pruner"
        )


def _beside_schema(state: DeltaState) -> list[str]:
    """Columns that a Delta table's data files may have and its schema lacks: those of change feeds and row tracking."""
    materialized = ("RowId", "RowCommitVersion")
    settings = (f"delta.rowTracking.materialized{literal}ColumnName" for literal in materialized)
    return ["_change_type", *filter(None, map(state.metadata.setting, settings))]


def snapshot_number(snapshot_id: str) -> int:
    """The number by which clients name a snapshot; positive, below 2^63."""
    return xxhash.xxh3_64_intdigest(snapshot_id.encode("utf-8", "surrogateescape")) >> 1 or 1


def _spec_id(columns: Sequence[PartitionColumn]) -> int:
    """A number below 2^30; 0 if there are no columns, as for an unpartitioned table."""
    if not columns:
        return 0
    text = "\0".join(f"{column.field_id} {column.type} {column.name}" for column in columns)
    return (xxhash.xxh3_64_intdigest(text.encode()) & 0x3FFFFFFF) or 1
