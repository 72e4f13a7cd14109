"""Manifest lists and manifests: Avro files whose fields are identified by ids, as columns.

Source: the Iceberg table specification, "Manifests" and "Manifest Lists".

A field whose id is damaged would count as omitted, and files would have sequence number 0, say. So fields with a known
name must have the matching id, and no field that a version requires may be missing. Other names are accepted: old
writers used some.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from pruner.arrow import arrow, as_numpy, null_unless, nulls, number_array, positions, truth_array
from pruner.errors import TableError
from pruner.tables.avro.columns import NotColumnarError
from pruner.tables.avro.container import read_header, schema_of
from pruner.tables.avro.decoder import AT_ONCE, Records, decode, parts_of
from pruner.tables.iceberg.transforms import NO_UTF8

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from pruner.tables.avro.container import DataBlock
    from pruner.tables.avro.decoder import DecodedColumn


_VERSIONS: Final = {b"1": 1, b"2": 2, b"3": 3}
_NEVER: Final = 99


class ManifestField(NamedTuple):
    """A field: `required` is the first version that requires it, `since` the first one that has it."""

    name: str
    required: int = _NEVER
    since: int = 1


LIST_FIELDS: Final = {
    500: ManifestField("manifest_path", 1),
    501: ManifestField("manifest_length", 1),
    502: ManifestField("partition_spec_id", 1),
    503: ManifestField("added_snapshot_id", 2),
    515: ManifestField("sequence_number", 2, 2),
    516: ManifestField("min_sequence_number", 2, 2),
    517: ManifestField("content", 2, 2),
    519: ManifestField("key_metadata"),
}
"""Fields of a row of a manifest list."""

ENTRY_FIELDS: Final = {
    0: ManifestField("status", 1),
    2: ManifestField("data_file", 1),
    3: ManifestField("sequence_number", since=2),
    4: ManifestField("file_sequence_number", since=2),
}
"""Fields of a manifest entry. Writers may omit 3 and 4, which are then inherited from the manifest."""

FILE_FIELDS: Final = {
    100: ManifestField("file_path", 1),
    101: ManifestField("file_format", 1),
    102: ManifestField("partition", 1),
    103: ManifestField("record_count", 1),
    104: ManifestField("file_size_in_bytes", 1),
    110: ManifestField("null_value_counts"),
    125: ManifestField("lower_bounds"),
    128: ManifestField("upper_bounds"),
    131: ManifestField("key_metadata"),
    134: ManifestField("content", 2, 2),
    135: ManifestField("equality_ids", since=2),
    137: ManifestField("nan_value_counts"),
    143: ManifestField("referenced_data_file", since=2),
    144: ManifestField("content_offset", since=2),
    145: ManifestField("content_size_in_bytes", since=2),
}
"""Fields of the data or delete file of an entry."""


def version_of(metadata: Mapping[bytes, bytes]) -> int:
    """The format version in the header of a list or manifest; 1 where it is missing, as with old writers.

    Raises:
        NotColumnarError: it is unknown.
    """
    text = metadata.get(b"format-version", b"1")
    if text not in _VERSIONS:
        raise NotColumnarError(f"its header has format version {text[:10].decode('utf-8', 'replace')!r}")
    return _VERSIONS[text]


def required_fields(
    fields: Sequence[tuple[str, int | None]], known: Mapping[int, ManifestField], version: int
) -> list[int]:
    """Check that a record has the fields that a version requires, and return their ids.

    Args:
        fields: names and ids of the record's fields.
        known: the fields of the specification.
        version: the lowest version that the record can have. A field of a later version implies that version.

    Raises:
        NotColumnarError: one is missing, or a known name has the wrong id.
    """
    ids = {field.name: id_ for id_, field in known.items()}
    for name, id_ in fields:
        if name in ids and id_ != ids[name]:
            has = "without an id" if id_ is None else f"with id {id_}"
            raise NotColumnarError(f"its schema has field {name!r} {has} instead of {ids[name]}")
    held = {id_ for _, id_ in fields if id_ is not None and id_ in known}
    version = max([version, *(known[id_].since for id_ in held)])
    required = [id_ for id_, field in known.items() if field.required <= version]
    for id_ in required:
        if id_ not in held:
            raise NotColumnarError(
                f"its schema lacks field {known[id_].name!r} (id {id_}), which format version {version} requires"
            )
    return required


MOST_BYTES: Final = 1 << 31
"""Maximum size of a manifest or manifest list, as stored."""

DATA, DELETES = 0, 1
"""Content of a manifest."""

POSITION_DELETES, EQUALITY_DELETES = 1, 2
"""Content of a file in a delete manifest."""

_DELETED: Final = 2
# Ids of fields: of a manifest list, and of data files.
_KEY_METADATA_OF_LIST: Final = 519
_LINE: Final = (502, 517, 515, 501, 503)
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
_IDS: Final = {name: id_ for id_, name in _FILE.items()}
_COUNTS: Final = ("null_counts", "nan_counts")
_BOUNDS: Final = ("lower_bounds", "upper_bounds")
METRICS: Final = (*_COUNTS, *_BOUNDS)
"""Kinds of metrics of a manifest: the keys of `Manifest.metrics`."""

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
"""Columns of `Manifest.files`: one row for each live file of the manifest."""


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A row of a manifest list."""

    path: str
    spec_id: int
    content: int
    sequence_number: int
    length: int = 0
    snapshot_id: int = 0
    """Id of the snapshot that added it."""


@dataclass(frozen=True)
class FieldMetrics:
    """One kind of metric of files by field ids: value i is for file `rows[i]` and field `ids[i]`."""

    rows: np.ndarray[Any, np.dtype[np.int32]]
    ids: np.ndarray[Any, np.dtype[np.int32]]
    values: Any
    """An Arrow array: int64 for counts, binary for bounds."""

    def of_field(self, field_id: int) -> tuple[np.ndarray[Any, np.dtype[np.int32]], Any]:
        """The files that have the metric for a field, and its values."""
        at = np.flatnonzero(self.ids == field_id)
        return self.rows[at], self.values.take(positions(at))


@dataclass(frozen=True)
class Manifest:
    """The live files of a manifest: `FILE_COLUMNS`, partition values by field id, and metrics.

    Partition values are Arrow arrays of what Avro stores.
    """

    files: pa.Table
    partitions: dict[int, Any]
    metrics: dict[str, FieldMetrics]


def read_manifest_list(data: bytes, place: str, least_version: int = 1) -> list[ManifestFile]:
    """Return the manifests of a snapshot.

    Args:
        data: the manifest list.
        place: its location, for errors.
        least_version: the lowest format version that the list can have.

    Raises:
        TableError: the list is damaged, lacks a field that its version requires, or is encrypted.
    """
    manifests: list[ManifestFile] = []
    with _damage(place):
        header = read_header(data)
        version = max(least_version, version_of(header.metadata))
        records, required = _list_records(header.schema_text, version)
        for chunk in decode(data, lambda _: records):
            _require_values(chunk, required)
            if _is_given(chunk, _KEY_METADATA_OF_LIST):
                raise TableError(f"{place} names encrypted manifests, which this reader cannot read")
            paths: list[Any] = _required(chunk, 500, pa.string()).to_pylist()
            numbers = (_numbers(chunk, literal, chunk.count).tolist() for literal in _LINE)
            manifests += [ManifestFile(*row) for row in zip(paths, *numbers, strict=True)]
    strange = next(
        (manifest.content for manifest in manifests if manifest.content not in (DATA, DELETES)), None
    )
    if strange is not None:
        raise TableError(f"{place} has a manifest of content {strange}, which this reader does not know")
    return manifests


def read_manifest(data: bytes, manifest: ManifestFile, place: str) -> Manifest:
    """Return the live files of a manifest: those of status existing or added.

    Raises:
        TableError: it is damaged or encrypted.
    """
    (found,) = read_manifests([(data, manifest, place)])
    return found


def read_manifests(stored: Iterable[tuple[bytes, ManifestFile, str]]) -> Iterator[Manifest]:
    """Yield what `read_manifest` returns for each manifest; small ones are decoded together, which is faster.

    Raises:
        TableError: one is damaged or encrypted.
    """
    waiting: list[_Unpacked] = []
    size = 0
    for data, manifest, place in stored:
        with _damage(place):
            header = read_header(data)
            records, required = _entry_records(header.schema_text, version_of(header.metadata))
            unpacked = _Unpacked(manifest, place, records, required, parts_of(data, header))
            first = unpacked.take()
        if waiting and (size > AT_ONCE or waiting[0].records is not records):
            yield from _decoded(waiting)
            waiting, size = [], 0
        waiting.append(unpacked)
        size += first
    yield from _decoded(waiting)


@dataclass
class _Unpacked:
    """A manifest whose blocks are decompressed, `AT_ONCE` bytes of them at a time."""

    line: ManifestFile
    place: str
    records: Records
    required: Sequence[int]
    parts: Iterator[list[DataBlock]]
    blocks: list[DataBlock] = field(default_factory=list["DataBlock"])

    def take(self) -> int:
        """Take the next part and return its size: 0 where there is none."""
        nothing: list[DataBlock] = []
        self.blocks = next(self.parts, nothing)
        return sum(len(block.data) for block in self.blocks)


def _decoded(some: list[_Unpacked]) -> Iterator[Manifest]:
    """The files of some manifests, whose first parts are decoded together."""
    try:
        columns = some[0].records.decode([each.blocks for each in some]) if len(some) > 1 else None
    except NotColumnarError:
        columns = None  # decoding each by itself shows which one is damaged
    for number, each in enumerate(some):
        with _damage(each.place):
            made: list[Manifest] = []
            while each.blocks:
                column = columns[number] if columns and not made else each.records.decode([each.blocks])[0]
                made.append(_manifest(column, each.line, each.required, each.place))
                each.take()
            found = joined(made)
        yield found


def joined(parts: Sequence[Manifest]) -> Manifest:
    """Return the parts of a manifest as one."""
    if len(parts) == 1:
        return parts[0]
    files = all_files(parts)
    counts = np.array([part.files.num_rows for part in parts], np.int64)
    starts = np.cumsum(counts) - counts
    metrics: dict[str, FieldMetrics] = {}
    for name in METRICS:
        some = [part.metrics[name] for part in parts]
        rows = [metrics.rows + start for metrics, start in zip(some, starts.tolist(), strict=True)]
        metrics[name] = FieldMetrics(
            np.concatenate([np.zeros(0, np.int32), *rows], dtype=np.int32, casting="same_kind"),
            np.concatenate([np.zeros(0, np.int32), *(metrics.ids for metrics in some)]),
            arrow.concat_arrays([_nothing_of(name), *(metrics.values for metrics in some)]),
        )
    ids = parts[0].partitions if parts else {}
    partitions = {id_: _concatenated([part.partitions[id_] for part in parts]) for id_ in ids}
    return Manifest(files, partitions, metrics)


def all_files(parts: Sequence[Manifest]) -> pa.Table:
    """The files of some manifests, or parts of one: columns as `FILE_COLUMNS`."""
    fields: list[Any] = list(FILE_COLUMNS)
    none = arrow.Table.from_arrays([nulls(0, field.type) for field in fields], schema=FILE_COLUMNS)
    return arrow.concat_tables([none, *(part.files for part in parts)])


def _concatenated(arrays: list[Any]) -> Any:
    """Concatenated arrays of one type, or of the null type where all values are null."""
    type_ = next((array.type for array in arrays if not pa.types.is_null(array.type)), pa.null())
    return arrow.concat_arrays([array.cast(type_) for array in arrays])


def _nothing_of(metric: str) -> Any:
    return nulls(0, pa.int64() if metric in _COUNTS else pa.binary())


def _manifest(
    entries: DecodedColumn, manifest: ManifestFile, required: Sequence[int], place: str
) -> Manifest:
    """The files of some entries; `required` are the fields of files that must not be null."""
    status = _numbers(entries, 0, entries.count)
    strange = status[(status < 0) | (status > _DELETED)]
    if len(strange) or _is_null(entries, 0):
        shown = int(strange[0]) if len(strange) else None
        raise TableError(f"{place} has an entry of status {shown!r}: it is damaged")
    alive = status != _DELETED
    files = (entries.fields or {}).get(2)
    if files is None or files.fields is None or files.valid is not None:
        raise NotColumnarError("an entry has no file")
    if not alive.all():
        entries, files, status = entries.chosen(alive), files.chosen(alive), status[alive]
    _require_values(files, required)
    _require_readable(files, manifest, place)
    count = files.count
    columns: dict[str, Any] = {
        "content": number_array(_numbers(files, 134, count).astype(np.int8), pa.int8()),
        "path": _required(files, 100, pa.string()),
        "format": _required(files, 101, pa.string()),
        "spec_id": number_array(np.full(count, manifest.spec_id, np.int32), pa.int32()),
        "sequence_number": number_array(_sequence_numbers(entries, status, manifest, place), pa.int64()),
        "rows": _required(files, 103, pa.int64()),
        "size": _required(files, 104, pa.int64()),
        "referenced_file": _optional(files, 143, pa.string()),
        "content_offset": _optional(files, 144, pa.int64()),
        "content_size": _optional(files, 145, pa.int64()),
        "equality_ids": _lists(files, 135),
    }
    partition = (files.fields or {}).get(102)
    return Manifest(
        arrow.Table.from_arrays([columns[name] for name in FILE_COLUMNS.names], schema=FILE_COLUMNS),
        {
            id_: _partition_values(column)
            for id_, column in ((partition and partition.fields) or {}).items()
            if isinstance(id_, int)
        },
        {name: _metrics(files, _IDS[name], name) for name in METRICS},
    )


def _partition_values(column: DecodedColumn) -> Any:
    """The values of a partition field. A string that is not UTF-8 becomes `NO_UTF8` followed by its escaped bytes.

    Iceberg for Go has truncated strings within a character (iceberg-go#1222), and Java reads such tables.
    """
    try:
        return column.array()
    except pa.ArrowInvalid:
        return arrow.array([_shown(value) for value in replace(column, kind="bytes").array().to_pylist()])


def _shown(value: bytes | None) -> str | None:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return NO_UTF8 + value.decode(errors="backslashreplace")


def _require_readable(files: DecodedColumn, manifest: ManifestFile, place: str) -> None:
    content = _numbers(files, 134, files.count)
    if _is_given(files, 131):
        raise TableError(f"{place} names encrypted files, which this reader cannot read")
    wanted = (DATA,) if manifest.content == DATA else (POSITION_DELETES, EQUALITY_DELETES)
    strange = content[~np.isin(content, wanted)]
    if len(strange):
        raise TableError(
            f"{place} has a file of content {int(strange[0])}, which does not belong there: it is damaged"
        )
    if any((_numbers(files, id_, files.count) < 0).any() for id_ in (103, 104)):
        raise TableError(f"the manifest {place} is damaged: a file has a negative size or number of rows")


def _sequence_numbers(
    entries: DecodedColumn, status: NDArray[np.int64], manifest: ManifestFile, place: str
) -> NDArray[np.int64]:
    """The data sequence number of each file; that of the manifest where it is omitted, as for added files."""
    numbers = (entries.fields or {}).get(3)
    left_out = np.ones(entries.count, np.bool_)
    if numbers is not None:
        left_out = ~numbers.valid if numbers.valid is not None else np.zeros(entries.count, np.bool_)
    if manifest.sequence_number != 0 and (left_out & (status != 1)).any():
        raise TableError(f"{place} has an existing file without a sequence number: it is damaged")
    return np.where(left_out, manifest.sequence_number, _numbers(entries, 3, entries.count))


def _metrics(files: DecodedColumn, field_id: int, name: str) -> FieldMetrics:
    """The pairs of a map by field ids, which Avro stores as an array of records (or as a map with string keys)."""
    column = (files.fields or {}).get(field_id)
    pairs = None if column is None else column.items
    if column is None or pairs is None or not pairs.count:
        if column is not None and column.kind not in ("items", "null"):
            raise NotColumnarError(f"{name} are no map")
        none = np.zeros(0, np.int32)
        return FieldMetrics(none, none, _nothing_of(name))
    fields = pairs.fields or {}
    if "key" not in fields or "value" not in fields:
        raise NotColumnarError(f"{name} are no map")
    keys: Any = fields["key"].array()
    if keys.null_count:
        raise NotColumnarError(f"{name} have a key that is null")
    ids = as_numpy(keys.cast(pa.int32()))
    values: Any = fields["value"].array()
    types = pa.types
    fits = (
        types.is_integer(values.type)
        if name in _COUNTS
        else types.is_binary(values.type) or types.is_string(values.type)
    )
    if not fits and not types.is_null(values.type):
        raise NotColumnarError(f"{name} have values of another type")
    return FieldMetrics(column.rows.astype(np.int32), ids, values.cast(_nothing_of(name).type))


def _lists(files: DecodedColumn, field_id: int) -> Any:
    column = (files.fields or {}).get(field_id)
    type_ = pa.list_(pa.int32())
    if column is None or column.kind == "null":
        return nulls(files.count, type_)
    if column.items is None or column.items.kind not in ("number", "null"):
        raise NotColumnarError("a list is none, or not of numbers")
    order = np.argsort(column.rows, kind="stable")
    items = column.items.taken(order).array().cast(pa.int32())
    ends = np.cumsum(np.bincount(column.rows, minlength=files.count))
    offsets = arrow.py_buffer(np.concatenate([np.zeros(1), ends]).astype(np.int32))
    whole = arrow.Array.from_buffers(type_, files.count, [None, offsets], children=[items])
    return whole if column.valid is None else null_unless(truth_array(column.valid), whole)


def _numbers(record: DecodedColumn, field_id: int, count: int) -> NDArray[np.int64]:
    """The numbers of a field; 0 where they are null or omitted, as in older versions."""
    column = (record.fields or {}).get(field_id)
    if column is None or column.kind == "null":
        return np.zeros(count, np.int64)
    if column.kind != "number":
        raise NotColumnarError("a number is none")
    return column.values if column.valid is None else np.where(column.valid, column.values, 0)


def _is_null(record: DecodedColumn, field_id: int) -> bool:
    """Whether a field is missing, or null in some record."""
    column = (record.fields or {}).get(field_id)
    return record.count > 0 and (column is None or (column.valid is not None and not column.valid.all()))


def _is_given(record: DecodedColumn, field_id: int) -> bool:
    """Whether a field is not null in some record."""
    column = (record.fields or {}).get(field_id)
    return column is not None and (column.valid is None or bool(column.valid.any())) and column.count > 0


def _required(record: DecodedColumn, field_id: int, type_: pa.DataType) -> Any:
    _require_value(record, field_id)
    return _optional(record, field_id, type_)


def _optional(record: DecodedColumn, field_id: int, type_: pa.DataType) -> Any:
    column = (record.fields or {}).get(field_id)
    if column is None or column.kind == "null":
        return nulls(record.count, type_)
    if column.kind != ("string" if pa.types.is_string(type_) else "number"):
        raise NotColumnarError(f"a field is of type {column.kind}, which does not belong there")
    return column.array()


def _require_values(record: DecodedColumn, required: Sequence[int]) -> None:
    for field_id in required:
        _require_value(record, field_id)


def _require_value(record: DecodedColumn, field_id: int) -> None:
    if _is_null(record, field_id):
        raise NotColumnarError(f"a field is missing that every file has (field id {field_id})")


@contextmanager
def _damage(place: str) -> Generator[None]:
    """Report decoding errors as damage to the file."""
    try:
        yield
    except (NotColumnarError, pa.ArrowException, OverflowError) as error:
        raise TableError(f"{place} is damaged: {error}") from None


@lru_cache(64)
def _list_records(schema_text: bytes, version: int) -> tuple[Records, list[int]]:
    """The decoder of manifest lists, and their required fields."""
    records = Records(schema_of(schema_text), dict.fromkeys(LIST_FIELDS))
    _require_ids(records)
    return records, required_fields(records.fields(), LIST_FIELDS, version)


@lru_cache(64)
def _entry_records(schema_text: bytes, version: int) -> tuple[Records, list[int]]:
    """The decoder of manifests, and the required fields of the files in them."""
    pair = {"key": None, "value": None}
    file = {id_: pair if name in METRICS else None for id_, name in _FILE.items()}
    records = Records(schema_of(schema_text), {0: None, 3: None, 2: file})
    _require_ids(records)
    required_fields(records.fields(), ENTRY_FIELDS, version)
    return records, required_fields(records.fields(2), FILE_FIELDS, version)


def _require_ids(records: Records) -> None:
    if all(id_ is None for _, id_ in records.fields()):
        raise NotColumnarError("its fields have no ids, so that it is no manifest of an Iceberg table")
