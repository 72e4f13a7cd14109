"""Manifest lists and manifests: Avro files whose fields are told apart by ids, as columns.

Source: the Iceberg table specification, "Manifests" and "Manifest Lists".
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import fastavro
import numpy as np
import pyarrow as pa

from pruner.arrow import arrow
from pruner.errors import TableError
from pruner.tables.avro.stored import decode as decode_stored
from pruner.tables.avro.stored import without_logical_types

MOST_BYTES: Final = 1 << 31
"""Of one manifest or manifest list, as it is stored."""

DATA, DELETES = 0, 1
"""Content of a manifest."""

POSITION_DELETES, EQUALITY_DELETES = 1, 2
"""Content of a file of a manifest of deletes."""

_DELETED: Final = 2
_DEEPEST: Final = 8
"""Records in one another of which fields are looked for."""

# Ids of fields: of a manifest list, of a manifest's entries, and of data files.
_LIST: Final = {
    500: "path",
    502: "spec_id",
    517: "content",
    515: "sequence_number",
    519: "key_metadata",
}
_ENTRY: Final = {0: "status", 3: "sequence_number", 2: "data_file"}
_FILE: Final = {
    134: "content",
    100: "path",
    101: "format",
    102: "partition",
    103: "rows",
    104: "size",
    110: "null_counts",
    137: "nan_counts",
    125: "lower_bounds",
    128: "upper_bounds",
    131: "key_metadata",
    135: "equality_ids",
    143: "referenced_file",
    144: "content_offset",
    145: "content_size",
}
_COUNTS: Final = ("null_counts", "nan_counts")
_BOUNDS: Final = ("lower_bounds", "upper_bounds")

FILE_COLUMNS: Final = pa.schema(
    [
        pa.field("content", pa.int8(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("format", pa.string(), nullable=False),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("sequence_number", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("size", pa.int64(), nullable=False),
        pa.field("referenced_file", pa.string()),
        pa.field("content_offset", pa.int64()),
        pa.field("content_size", pa.int64()),
        pa.field("equality_ids", pa.list_(pa.int32())),
    ]
)
"""Columns of `Manifest.files`: one row for each file that is alive in the manifest."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A line of a manifest list."""

    path: str
    spec_id: int
    content: int
    sequence_number: int


@dataclass(frozen=True)
class Metrics:
    """What one kind of metric says of files, by field ids: value i is of file `rows[i]` and of field `ids[i]`."""

    rows: np.ndarray[Any, np.dtype[np.int32]]
    ids: np.ndarray[Any, np.dtype[np.int32]]
    values: Any
    """An Arrow array: int64 for counts, binary for bounds."""

    def of_field(self, field_id: int) -> tuple[np.ndarray[Any, np.dtype[np.int32]], Any]:
        """The files that have the metric of a field, and its values."""
        at = np.flatnonzero(self.ids == field_id)
        return self.rows[at], self.values.take(pa.array(at))


@dataclass(frozen=True)
class Manifest:
    """The files that are alive in a manifest: `FILE_COLUMNS`, partition tuples by field id, and metrics."""

    files: pa.Table
    partitions: dict[int, list[Any]]
    metrics: dict[str, Metrics]


def read_manifest_list(data: bytes, place: str) -> list[ManifestFile]:
    """Return the manifests of a snapshot.

    Raises:
        TableError: the list is damaged, or encrypted.
    """
    found: list[ManifestFile] = []
    for line in _records(data, place):
        row = line.named(_LIST, place)
        if row.get("key_metadata") is not None:
            raise TableError(f"{place} names encrypted manifests, which this reader cannot read")
        content = int(row.get("content") or DATA)
        if content not in (DATA, DELETES):
            raise TableError(f"{place} has a manifest of content {content}, which this reader does not know")
        found.append(
            ManifestFile(
                path=row["path"],
                spec_id=int(row.get("spec_id") or 0),
                content=content,
                sequence_number=int(row.get("sequence_number") or 0),
            )
        )
    return found


def read_manifest(data: bytes, manifest: ManifestFile, place: str) -> Manifest:
    """Return the files of a manifest that are alive: those of status existing or added.

    Raises:
        TableError: it is damaged or encrypted.
    """
    columns: dict[str, list[Any]] = {name: [] for name in FILE_COLUMNS.names}
    partitions: dict[int, list[Any]] = {}
    metrics: dict[str, tuple[list[int], list[int], list[Any]]] = {
        name: ([], [], []) for name in (*_COUNTS, *_BOUNDS)
    }
    count = 0
    for line in _records(data, place):
        entry = line.named(_ENTRY, place)
        status = entry.get("status")
        if status == _DELETED:
            continue
        if status not in (0, 1):
            raise TableError(f"{place} has an entry of status {status!r}: it is damaged")
        stored = line.inner(2, entry["data_file"])
        file = stored.named(_FILE, place)
        _require_readable(file, manifest, place)
        file["spec_id"] = manifest.spec_id
        file["sequence_number"] = _sequence_number(entry, manifest, place)
        for name in FILE_COLUMNS.names:
            columns[name].append(file.get(name) if name != "content" else int(file.get(name) or 0))
        for field_id, value in stored.inner(102, file.get("partition") or {}).by_id().items():
            partitions.setdefault(field_id, [None] * count).append(value)
        for values in partitions.values():
            values.extend([None] * (count + 1 - len(values)))
        for name, (rows, ids, values) in metrics.items():
            pairs = list(_pairs(file.get(name)))
            rows.extend([count] * len(pairs))
            ids.extend(id_ for id_, _ in pairs)
            values.extend(value for _, value in pairs)
        count += 1
    try:
        return Manifest(
            arrow.table(columns, schema=FILE_COLUMNS),
            partitions,
            {
                name: Metrics(
                    np.array(rows, np.int32),
                    np.array(ids, np.int32),
                    arrow.array(values, pa.int64() if name in _COUNTS else pa.binary()),
                )
                for name, (rows, ids, values) in metrics.items()
            },
        )
    except (pa.ArrowException, OverflowError) as error:
        raise TableError(f"the manifest {place} is damaged: {error}") from None


def _require_readable(file: Mapping[str, Any], manifest: ManifestFile, place: str) -> None:
    content = int(file.get("content") or 0)
    if file.get("key_metadata") is not None:
        raise TableError(f"{place} names encrypted files, which this reader cannot read")
    if (content == 0) != (manifest.content == DATA) or content not in (0, POSITION_DELETES, EQUALITY_DELETES):
        raise TableError(
            f"{place} has a file of content {content}, which does not belong there: it is damaged"
        )
    if (
        not isinstance(file.get("path"), str)
        or int(file.get("rows") or 0) < 0
        or int(file.get("size") or 0) < 0
    ):
        raise TableError(f"the manifest {place} is damaged: a file has no path, or a negative size")


def _sequence_number(entry: Mapping[str, Any], manifest: ManifestFile, place: str) -> int:
    """The data sequence number of a file; that of the manifest where it is left out, as added files do."""
    found = entry.get("sequence_number")
    if found is not None:
        return int(found)
    if entry["status"] != 1 and manifest.sequence_number != 0:
        raise TableError(f"{place} has an existing file without a sequence number: it is damaged")
    return manifest.sequence_number


def _pairs(found: Any) -> Iterator[tuple[int, Any]]:
    """The keys and values of a map by field ids, which Avro has as a list of records (or as a map of texts)."""
    if found is None:
        return
    if isinstance(found, dict):
        for key, value in cast("dict[str, Any]", found).items():
            yield int(key), value
        return
    for pair in cast("list[dict[str, Any]]", found):
        yield int(pair["key"]), pair["value"]


class _Record:
    """A record with its schema, by which its fields are found by their ids."""

    __slots__ = ("_schema", "_value")

    def __init__(self, schema: _Schema, value: Mapping[str, Any]) -> None:
        self._schema = schema
        self._value = value

    def named(self, names: Mapping[int, str], place: str) -> dict[str, Any]:
        """The fields of some ids, by other names.

        Raises:
            TableError: the record has none of these ids.
        """
        found = {names[id_]: self._value[name] for id_, name in self._schema.names.items() if id_ in names}
        if not found:
            raise TableError(f"{place} has no field ids: it is no manifest of an Iceberg table")
        return found

    def by_id(self) -> dict[int, Any]:
        """All fields by their ids."""
        return {id_: self._value[name] for id_, name in self._schema.names.items()}

    def inner(self, field_id: int, value: Mapping[str, Any]) -> _Record:
        """The record in a field."""
        return _Record(self._schema.inner.get(field_id, _NO_FIELDS), value)


class _Schema:
    """A record's schema: names of its fields by ids, and the schemas of the records in them."""

    def __init__(self, fields: Iterable[Mapping[str, Any]], depth: int = 0) -> None:
        self.names: dict[int, str] = {}
        self.inner: dict[int, _Schema] = {}
        for each in fields:
            id_ = each.get("field-id")
            if id_ is None:
                continue
            self.names[int(id_)] = str(each["name"])
            type_: Any = each["type"]
            branches = cast("list[Any]", type_) if isinstance(type_, list) else [type_]
            for branch in branches:
                entries = cast("dict[str, Any]", branch) if isinstance(branch, dict) else {}
                if entries.get("type") == "record" and depth < _DEEPEST:
                    self.inner[int(id_)] = _Schema(entries["fields"], depth + 1)


_NO_FIELDS: Final = _Schema(())


def _records(data: bytes, place: str) -> Iterator[_Record]:
    """The records of an Avro file; logical types are read as what they are stored as.

    Raises:
        TableError: it is damaged.
    """
    try:
        blocks: Any = fastavro.block_reader(io.BytesIO(data))
        stored = json.loads(blocks.metadata["avro.schema"])
        schema = _Schema(stored["fields"])
        plain = fastavro.parse_schema(without_logical_types(stored))
        for block in blocks:
            stream = block.bytes_
            for _ in range(block.num_records):
                yield _Record(schema, decode_stored(stream, plain, None))
            if stream.read(1):
                raise TableError(f"{place} is damaged: a block is longer than its records")
    except TableError:
        raise
    except Exception as error:  # fastavro raises what it meets
        raise TableError(f"{place} is damaged: {str(error) or type(error).__name__}") from None
