"""Iceberg tables of another catalog: their own metadata, read-only, and plans over the files in their manifests.

Spark does not reapply a filter that selects whole partitions in every spec of a table, so such filters are decided
here on partition values, as far as those decide them. PyIceberg applies every filter.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import quote

import msgspec
import numpy as np
import pyarrow as pa

from pruner.arrow import positions
from pruner.service.rest_catalog.metadata import GC, LOCATION, UnservedError, next_state_number
from pruner.service.rest_catalog.partition_values import BoundPartitionField, PartitionFilter, value_as_json
from pruner.tables.iceberg.manifests import EQUALITY_DELETES
from pruner.tables.iceberg.metadata import unpacked
from pruner.tables.iceberg.schema import leaves_by_id
from pruner.tables.iceberg.source import IcebergState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.planning.pinned import PinnedSnapshot
    from pruner.schema import Field
    from pruner.service.rest_catalog.filters import Filter
    from pruner.tables.iceberg.deletes import DeleteFile
    from pruner.tables.iceberg.metadata import StructType
    from pruner.tables.iceberg.row_deletes import IcebergDeletes

_MADE_UNUSABLE: Final = ("statistics", "partition-statistics", "metadata-log")
"""Lists of files that readers do not need, and that cleanup would start from."""

_PLACES_OF_WRITES: Final = (
    "write.data.path",
    "write.folder-storage.path",
    "write.metadata.path",
    "write.object-storage.path",
)
_NO_SNAPSHOT: Final = -1
_MOST_FIELDS: Final = 8
"""Most fields of a partition spec whose every pattern of NULLs gets a spec, for clients that accept no NULL there."""


@dataclass(frozen=True)
class IcebergTable:
    """One snapshot of an Iceberg table, as presented to clients.

    Attributes:
        name: the name in the configuration.
        pinned: the snapshot that is planned on.
        newest: the newest metadata, which is at least as new as what any client has loaded.
        state_number: a number of this object alone.
    """

    name: str
    pinned: PinnedSnapshot
    newest: IcebergState
    state_number: int = field(init=False, default_factory=next_state_number)

    def check(self) -> None:
        """Refuse nothing: every table that can be opened can be served."""

    @property
    def state(self) -> IcebergState:
        """The manifests of the snapshot."""
        state = self.pinned.data.state
        assert isinstance(state, IcebergState)
        return state

    @property
    def snapshot_id(self) -> int:
        """The number of the snapshot; -1 for a table that has none yet."""
        snapshot = self.state.snapshot
        return _NO_SNAPSHOT if snapshot is None else snapshot.snapshot_id

    @property
    def agreed_order(self) -> None:
        """None: slices are numbered in the order of the snapshot's manifests, which never change."""

    def metadata(self, *, python: bool) -> dict[str, Any]:
        """The table's own metadata as JSON, without any location where a client could write."""
        metadata: dict[str, Any] = msgspec.json.decode(unpacked(self.newest.metadata.stored))
        kept: dict[str, str] = metadata.get("properties") or {}
        properties = {name: value for name, value in kept.items() if name not in _PLACES_OF_WRITES}
        told = metadata | {
            "location": f"{LOCATION}/{quote(self.name, safe='')}",
            "properties": properties | {GC: "false"},
        }
        told |= {name: [] for name in _MADE_UNUSABLE if name in told}
        if python:
            specs = [*self._specs_without_null()]
            told["partition-specs"] = [*(metadata.get("partition-specs") or []), *specs]
        return told

    def columns(self, *, case_sensitive: bool, snapshot_schema: bool = False) -> NamesOfIds:
        """A lookup for the columns that filters name, in the snapshot's own schema alone if a client says so."""
        metadata, snapshot = self.newest.metadata, self.state.snapshot
        schemas = (*metadata.schemas, metadata.schema_of(None))
        if snapshot_schema and snapshot is not None and snapshot.schema_id is not None:
            schemas = (metadata.schema_of(snapshot.schema_id),)
        return NamesOfIds(schemas, self.pinned.schema.fields, case_sensitive=case_sensitive)

    @property
    def paths(self) -> Any:
        """The paths of the data files."""
        return self.state.files.column("path").combine_chunks()

    @cached_property
    def _lineage(self) -> dict[int, _Step]:
        """All snapshots in the newest metadata, by id."""
        stored = unpacked(self.newest.metadata.stored)
        return {
            snapshot.snapshot_id: snapshot
            for snapshot in msgspec.json.decode(stored, type=_Lineage).snapshots
        }

    @property
    def parent_id(self) -> int | None:
        """The id of this snapshot's parent, or None."""
        return self._lineage[self.snapshot_id].parent_snapshot_id

    def appends(self, start: int, end: int) -> list[int] | None:
        """The snapshots after `start` up to `end` that only added files, oldest first; None if `end` does not descend
        from `start`. Other snapshots are skipped, as in Iceberg's own incremental append scan.
        """
        appends: list[int] = []
        at: int | None = end
        passed: set[int] = set()
        while at != start:
            step = None if at is None or at in passed else self._lineage.get(at)
            if step is None:
                return None
            passed.add(step.snapshot_id)
            if step.summary.get("operation") == "append":
                appends.append(step.snapshot_id)
            at = step.parent_snapshot_id
        return appends[::-1]

    def kept(self, ordinals: NDArray[np.intp], asked: Filter | None, *, python: bool) -> NDArray[np.intp]:
        """Those of the given slices whose partitions a filter does not rule out.

        Raises:
            PredicateError: a filter that the client may not apply itself cannot be understood.
        """
        if asked is None or python:
            return ordinals
        columns = self.columns(case_sensitive=asked.case_sensitive, snapshot_schema=asked.snapshot_schema)
        decides = PartitionFilter(asked, columns.ids, self._fields)
        if not decides.is_about_partitions:
            return ordinals
        codes, partitions = self._partitions
        at = codes[ordinals]
        used, where = np.unique(at, return_inverse=True)
        asked_about = [partitions[number] for number in cast("list[int]", used.tolist())]
        return ordinals[decides.may_match(asked_about)[where]]

    def tasks(
        self, ordinals: NDArray[np.intp], residual: bytes | None, *, python: bool, deletes: bool
    ) -> dict[str, Any]:
        """The scan tasks of the given slices and, if requested, the delete files that they refer to."""
        state = self.state
        files: list[Any] = state.files.take(positions(ordinals)).to_pylist()
        numbers: list[int] = ordinals.tolist()
        known: Any = self.pinned.data.deletes if deletes else None
        filtered = residual_of(residual)
        told: dict[DeleteFile, int] = {}
        tasks: list[dict[str, Any]] = []
        for ordinal, file in zip(numbers, files, strict=True):
            task: dict[str, Any] = {
                "data-file": {
                    **self._place(state.partitions[ordinal], python=python),
                    "content": "data",
                    "file-path": file["path"],
                    "file-format": str(file["format"]).lower(),
                    "file-size-in-bytes": file["size"],
                    "record-count": file["rows"],
                },
                **filtered,
            }
            references = [told.setdefault(delete, len(told)) for delete in _deletes_of(known, ordinal)]
            if references:
                task["delete-file-references"] = references
            tasks.append(task)
        answer: dict[str, Any] = {"file-scan-tasks": tasks}
        if told:
            answer["delete-files"] = [self._delete(delete, python=python) for delete in told]
        return answer

    def _delete(self, delete: DeleteFile, *, python: bool) -> dict[str, Any]:
        is_equality = delete.content == EQUALITY_DELETES
        told: dict[str, Any] = {
            **self._place(delete.partition, python=python),
            "content": "equality-deletes" if is_equality else "position-deletes",
            "file-path": delete.path,
            "file-format": delete.format.lower(),
            "file-size-in-bytes": delete.size,
            "record-count": delete.rows,
        }
        if is_equality:
            told["equality-ids"] = list(delete.equality_ids)
        own = {
            "referenced-data-file": delete.referenced_file,
            "content-offset": delete.offset,
            "content-size-in-bytes": delete.length,
        }
        return told | {name: value for name, value in own.items() if value is not None}

    def _place(self, partition: tuple[int, tuple[Any, ...]], *, python: bool) -> dict[str, Any]:
        """The spec and the values of a partition; for PyIceberg without NULLs, under a spec of its own."""
        spec_id, values = partition
        fields = self._fields[spec_id]
        told = [value_as_json(*pair, python=python) for pair in zip(fields, values, strict=True)]
        if python and None in told:
            present = tuple(at for at, item in enumerate(told) if item is not None)
            if len(fields) > _MOST_FIELDS:
                raise UnservedError(
                    f"table {self.name} has a partition with NULL in a spec of more than {_MOST_FIELDS} fields, which "
                    "PyIceberg cannot take: plan in the client (scan-planning-mode=client)"
                )
            spec_id = self._numbers[spec_id, present]
            told = [told[at] for at in present]
        return {"spec-id": spec_id, "partition": told}

    @cached_property
    def _fields(self) -> dict[int, list[BoundPartitionField]]:
        """The fields of each spec, bound to their source columns."""
        metadata = self.newest.metadata
        schemas = (*metadata.schemas, metadata.schema_of(None))
        leaves = leaves_by_id(schemas, self.name)
        once_dates = {
            id_
            for schema in schemas
            for id_, leaf in leaves_by_id((schema,), self.name).items()
            if pa.types.is_date32(leaf.type)
        }
        return {
            spec_id: [
                BoundPartitionField(
                    field.source_id,
                    field.transform,
                    None if field.source_id not in leaves else leaves[field.source_id].type,
                    was_date=field.source_id in once_dates,
                )
                for field in spec.fields
            ]
            for spec_id, spec in metadata.specs.items()
        }

    @cached_property
    def _partitions(self) -> tuple[NDArray[np.int64], list[tuple[int, tuple[Any, ...]]]]:
        """The partition of each slice as an ordinal, and the partitions; -0.0 and 0.0 are different ones."""
        known: dict[tuple[int, tuple[Any, ...]], int] = {}
        partitions: list[tuple[int, tuple[Any, ...]]] = []
        codes = np.empty(len(self.state.partitions), np.int64)
        for at, (spec_id, values) in enumerate(self.state.partitions):
            key = spec_id, tuple(value.hex() if isinstance(value, float) else value for value in values)
            codes[at] = known.setdefault(key, len(known))
            if len(known) > len(partitions):
                partitions.append((spec_id, values))
        return codes, partitions

    @cached_property
    def _numbers(self) -> dict[tuple[int, tuple[int, ...]], int]:
        """Ids of the specs that PyIceberg gets besides the table's own: by spec and the fields that are not NULL."""
        specs = self.newest.metadata.specs
        patterns = [
            (spec_id, present)
            for spec_id, spec in sorted(specs.items())
            if len(spec.fields) <= _MOST_FIELDS
            for size in range(len(spec.fields))
            for present in itertools.combinations(range(len(spec.fields)), size)
        ]
        # Spec ids are assigned consecutively: no later spec of the table reaches the ids from here on.
        return {
            pattern: _FIRST_ADDED_SPEC + (pattern[0] << _MOST_FIELDS) + sum(1 << at for at in pattern[1])
            for pattern in patterns
        }

    def _specs_without_null(self) -> Iterator[dict[str, Any]]:
        specs = self.newest.metadata.specs
        for (spec_id, present), number in self._numbers.items():
            fields = [(at, specs[spec_id].fields[at]) for at in present]
            yield {
                "spec-id": number,
                "fields": [
                    {
                        "name": field.name,
                        "transform": field.transform,
                        "source-id": field.source_id,
                        "field-id": 1000 + at if field.field_id is None else field.field_id,
                    }
                    for at, field in fields
                ],
            }


_FIRST_ADDED_SPEC: Final = 1 << 24


class _Step(msgspec.Struct, rename="kebab"):
    """A snapshot and its parent."""

    snapshot_id: int
    parent_snapshot_id: int | None = None
    summary: dict[str, Any] = {}


class _Lineage(msgspec.Struct):
    snapshots: list[_Step] = []


def residual_of(encoded: bytes | None) -> dict[str, Any]:
    """The residual of a filter, for a client to apply, as part of a task: nothing where all rows are requested.

    Each task must have it: PyIceberg assumes that all rows of a task without it match.
    """
    return {} if encoded is None else {"residual-filter": msgspec.Raw(encoded)}


class NamesOfIds:
    """Finds the columns that a client names, by their names in any schema of the table.

    A client may have loaded older metadata, and may query a branch or an older snapshot by one schema or another. A
    name that only one column ever had means that column. A name that several had is ambiguous.
    """

    def __init__(
        self, schemas: Iterable[StructType], fields: Sequence[Field], *, case_sensitive: bool
    ) -> None:
        """`schemas` are those that a client may use; `fields` are those of the snapshot that is planned on."""
        self._is_exact = case_sensitive
        self._of_snapshot = {field.field_id: field for field in fields}
        self._ids: dict[str, set[int]] = {}
        for schema in schemas:
            self._take(schema.fields, "")

    def _take(self, fields: Sequence[Mapping[str, Any]], above: str) -> None:
        for member in fields:
            name = f"{above}{member['name']}"
            self._ids.setdefault(self._folded(name), set()).add(int(member["id"]))
            type_: Any = member["type"]
            if not isinstance(type_, str) and type_["type"] == "struct":
                self._take(type_["fields"], f"{name}.")

    def _folded(self, name: str) -> str:
        return name if self._is_exact else name.lower()

    def ids(self, name: str) -> frozenset[int]:
        """The ids of all columns that ever had a name."""
        return frozenset(self._ids.get(self._folded(name), ()))

    def field(self, name: str) -> Field | None:
        """The column of the snapshot that a name means; None if it means none or is ambiguous.

        Raises:
            KeyError: no column ever had the name.
        """
        ids = self._ids[self._folded(name)]
        return self._of_snapshot.get(next(iter(ids))) if len(ids) == 1 else None


def _deletes_of(deletes: IcebergDeletes | None, ordinal: int) -> tuple[DeleteFile, ...]:
    deletes_of_file = None if deletes is None else deletes.of(ordinal)
    return () if deletes_of_file is None else (*deletes_of_file.positions, *deletes_of_file.equality)
