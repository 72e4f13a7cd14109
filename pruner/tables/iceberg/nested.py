"""How each data file stores the columns of a table, according to its footer.

Columns are found by field ids; in a file without any, by the table's name mapping or by position. Fields of structs,
which engines find by name, may have had other names when a file was written. A column that a file lacks may have the
value of the file's partition.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.arrow import arrow, nulls
from pruner.errors import StorageError, TableError, cause
from pruner.storage.opening import open_for_arrow
from pruner.tables.footers.file_schemas import (
    BrokenFileError,
    SchemaReader,
    UnreadableFileError,
    field_id,
    has_field_ids,
    parquet_type,
    plain_type,
    struct_fields,
)
from pruner.tables.iceberg.schema import arrow_type, numbered
from pruner.tables.iceberg.values import value_of_partition
from pruner.tables.listing.files import open_lister
from pruner.tables.snapshot import HeldColumns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pruner.tables.iceberg.metadata import StructType
    from pruner.tables.iceberg.schema import NameMapping


_MOST_KEPT: Final = 1 << 17


class Footers:
    """A cache of the schemas of a table's files, across snapshots. Threads may share it."""

    def __init__(self, options: Mapping[str, str]) -> None:
        """`options` are the store's."""
        self._options = options
        self._readers: dict[str, SchemaReader] = defaultdict(SchemaReader)
        self._known: dict[str, pa.Schema] = {}
        self._lock = Lock()

    def schemas(self, files: Sequence[tuple[str, int | None]]) -> list[pa.Schema]:
        """The schema of each file, given by URI and size; equal schemas are one object.

        Raises:
            TableError: a file cannot be read.
        """
        with self._lock:
            self._read(files)
            return [self._known[uri] for uri, _ in files]

    def _read(self, files: Sequence[tuple[str, int | None]]) -> None:
        """Read the schemas of files that are not cached."""
        missing = [file for file in files if file[0] not in self._known]
        if len(self._known) + len(missing) > _MOST_KEPT:
            self._known.clear()
            missing = list(files)
        by_place: dict[str, list[tuple[str, str, int]]] = defaultdict(list)
        for uri, size in missing:
            place, path = _place(uri)
            by_place[place].append((uri, path, size or 0))
        for place, wanted in by_place.items():
            reader = self._readers[place]
            read = reader.read_all(
                open_lister(place, self._options), [(path, size) for _, path, size in wanted]
            )
            for (uri, _, size), found in zip(wanted, read, strict=True):
                self._known[uri] = (
                    self._read_alone(uri, size, found) if isinstance(found, BrokenFileError) else found
                )

    def _read_alone(self, uri: str, size: int, error: BrokenFileError) -> pa.Schema:
        """The schema of a file whose footer is not where its size says; the manifest may have a wrong size."""
        if isinstance(error, UnreadableFileError):
            raise TableError(f"{uri} {error}") from None
        try:
            read: Any = cast("Any", pq).read_schema(open_for_arrow(uri, size, self._options))
        except (OSError, StorageError, pa.ArrowException) as why:
            raise TableError(f"cannot read {uri}: {cause(why)}") from None
        return self._readers[_place(uri)[0]].intern(
            pa.schema(
                [pa.field(column.name, plain_type(column.type), metadata=column.metadata) for column in read]
            )
        )


def _place(uri: str) -> tuple[str, str]:
    """The root of a file's store, and its path there."""
    if uri.startswith("/"):
        return "/", uri[1:]
    scheme, _, rest = uri.partition("://")
    bucket, _, path = rest.partition("/")
    return f"{scheme}://{bucket}", path


_ABSENT: Final = "pruner_absent"
_SHORT: Final = (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())
"""Types that files store as INT32 with a narrower logical type: their values are integers all the same."""


@dataclass(frozen=True)
class ByPartition:
    """The values in partition tuples for columns that data files may lack.

    `of_file` returns the field ids of such columns for each file, by URI; `values` returns a column's value in each
    partition, as the manifests store it.
    """

    of_file: Callable[[], Mapping[str, frozenset[int]]]
    values: Callable[[int], Sequence[Any]]


@dataclass(frozen=True)
class _File:
    """The columns of a file schema, with the field ids that readers assign to them."""

    fields: tuple[Any, ...]
    numbered: bool
    """Whether the files have field ids."""

    @cached_property
    def by_id(self) -> dict[int, list[Any]]:
        fields: dict[int, list[Any]] = defaultdict(list)
        for field in self.fields:
            id_ = field_id(field)
            if id_ is not None:
                fields[id_].append(field)
        return dict(fields)

    @cached_property
    def names(self) -> list[str]:
        return [str(field.name).casefold() for field in self.fields]


class NestedNames:
    """How the files of a table store its columns: see `pruner.tables.snapshot.FieldNames`."""

    def __init__(
        self,
        schema: StructType,
        footers: Footers,
        partitions: ByPartition,
        mapping: NameMapping | None,
    ) -> None:
        """`schema` is as in the metadata; `mapping` is the table's, for files without field ids."""
        self._footers = footers
        self._partitions = partitions
        self._ids_of_file: Mapping[str, frozenset[int]] | None = None
        self._mapping = mapping
        self._types: dict[str, tuple[int, Any]] = {
            field["name"]: (int(field["id"]), field["type"]) for field in schema.fields
        }
        self._files: dict[int, tuple[pa.Schema, _File]] = {}
        self._lock = Lock()

    def held(self, files: Sequence[tuple[str, int | None]], columns: Collection[str]) -> list[HeldColumns]:
        """Tell how files store the columns of the table: see `FieldNames`."""
        held_columns: dict[tuple[int, frozenset[int]], HeldColumns] = {}
        result: list[HeldColumns] = []
        schemas = self._footers.schemas(files)
        with self._lock:
            if self._ids_of_file is None:
                self._ids_of_file = self._partitions.of_file()
            for (uri, _), schema in zip(files, schemas, strict=True):
                ids = self._ids_of_file.get(uri, frozenset())
                key = id(schema), ids
                if key not in held_columns:
                    held_columns[key] = self._held(self._file(schema), ids, uri, columns)
                result.append(held_columns[key])
        return result

    def constant(self, column: str) -> pa.Array[Any]:
        """The value of each partition for a column that files may lack: see `FieldNames`."""
        id_, type_ = self._types[column]
        wanted = arrow_type(type_, (column,), column)
        values = self._partitions.values(id_)
        if all(value is None for value in values):
            return nulls(len(values), wanted)
        return arrow.concat_arrays(
            [
                nulls(1, wanted) if value is None else arrow.repeat(value_of_partition(value, wanted), 1)
                for value in values
            ]
        )

    def _held(self, file: _File, ids: frozenset[int], uri: str, columns: Collection[str]) -> HeldColumns:
        names: list[tuple[str, str]] = []
        constants: set[str] = set()
        int96 = False
        for name, (id_, type_) in self._types.items():
            held = file.by_id.get(id_, [])
            if not held and id_ in ids:
                constants.add(name)
            if name in columns:
                _require_readable(file, held, name, type_, ids, uri)
                int96 = int96 or (not file.numbered and any(map(_has_int96, held)))
            if not file.numbered:
                names.append((name, str(held[0].name) if held else _unused(file, len(names))))
        return HeldColumns(None if file.numbered else tuple(names), int96, frozenset(constants))

    def _file(self, schema: pa.Schema) -> _File:
        known = self._files.get(id(schema))
        if known is None:
            fields: list[Any] = list(cast("Any", schema))
            has_ids = has_field_ids(fields) or not fields
            fields = fields if has_ids else numbered(fields, self._mapping)
            # Cached with its schema, whose id() could otherwise be reused.
            known = self._files[id(schema)] = schema, _File(tuple(fields), has_ids)
        return known[1]


def _unused(file: _File, number: int) -> str:
    """A name that no column of a file has."""
    name = f"{_ABSENT}_{number}"
    while name in file.names:
        name += "_"
    return name


def _require_readable(
    file: _File, held: Sequence[Any], name: str, type_: Any, ids: Collection[int], uri: str
) -> None:
    """Refuse a column that would not be read as the table defines it.

    Raises:
        TableError: it would not.
    """
    if len(held) > 1:
        raise TableError(
            f"{uri} has column {name!r} {len(held)} times, by its field ids or by the table's name mapping: leave the "
            "column out, or rewrite the data files"
        )
    for column in held:
        if not file.numbered:
            _require_named(file, column, name, type_, uri)
        lacking = _lacking(column.type, type_, ids)
        if lacking is not None:
            raise TableError(
                f"{uri} lacks field {lacking!r} inside of column {name!r}, which is not NULL for that: leave the "
                "column out, or rewrite the data files"
            )
        differing = _differing(column.type, type_)
        if differing is not None:
            raise TableError(
                f"{uri} has a field {differing[0]!r} inside a column, which is {differing[1]!r} in the table now: "
                "leave the column out, or rewrite the data files"
            )


def _require_named(file: _File, held: Any, name: str, type_: Any, uri: str) -> None:
    """Refuse a column of a file without field ids that engines would read differently."""
    if file.names.count(str(held.name).casefold()) > 1:
        raise TableError(
            f"{uri} has no field ids, and columns {held.name!r} that differ in capitals alone: leave column {name!r} "
            "out, or rewrite the data files"
        )
    if isinstance(type_, dict) and not _has_ids_inside(held.type):
        raise TableError(
            f"{uri} has no field ids, and no name mapping of the table tells what column {name!r} has inside: set "
            "the property schema.name-mapping.default, or leave the column out"
        )
    unlike = _unlike(held, type_, name)
    if unlike is not None:
        raise TableError(
            f"{uri} has no field ids, and a column {held.name!r} with values of type {unlike[0]}, which are no "
            f"{unlike[1]} as in column {name!r}: leave the column out, or rewrite the data files"
        )


def _has_ids_inside(held: Any) -> bool:
    return has_field_ids([pa.field("", held)])


def _unlike(held: Any, type_: Any, name: str) -> tuple[pa.DataType, pa.DataType] | None:
    """A type in a file and the table's type, where values differ between them; None where there is none."""
    if not isinstance(type_, dict):
        wanted = arrow_type(type_, (name,), name)
        return None if _reads_as(held, wanted) else (held.type, wanted)
    described = cast("dict[str, Any]", type_)
    inside: list[tuple[Any, Any]] = []
    if pa.types.is_struct(held.type) and described["type"] == "struct":
        types = {int(field["id"]): field["type"] for field in described["fields"]}
        inside = [
            (child, types[id_]) for child in struct_fields(held.type) if (id_ := field_id(child)) in types
        ]
    elif pa.types.is_map(held.type) and described["type"] == "map":
        inside = [(held.type.key_field, described["key"]), (held.type.item_field, described["value"])]
    elif pa.types.is_list(held.type) and described["type"] == "list":
        inside = [(held.type.value_field, described["element"])]
    else:
        return held.type, arrow_type(type_, (name,), name)
    return next((unlike for child in inside if (unlike := _unlike(*child, name)) is not None), None)


def _reads_as(field: Any, wanted: Any) -> bool:
    """Tell whether the values of a file's field are the same values in the table's type."""
    held, types = field.type, pa.types
    wanted = wanted.storage_type if isinstance(wanted, pa.BaseExtensionType) else wanted
    if types.is_null(held) or held.equals(wanted):
        return True
    if types.is_int32(wanted) or types.is_int64(wanted):
        return held in _SHORT or types.is_int32(held)
    if types.is_float64(wanted):
        return types.is_float32(held)
    if types.is_decimal128(wanted):
        return types.is_decimal128(held) and held.scale == wanted.scale and held.precision <= wanted.precision
    if types.is_timestamp(wanted) and types.is_timestamp(held):
        if held.unit == "ns":
            return _is_int96(field) and wanted.tz is not None and wanted.unit == "us"
        return held.unit in ("ms", "us") and held.tz == wanted.tz
    return False


def _is_int96(field: Any) -> bool:
    data_type = parquet_type(field)
    return data_type is not None and data_type.physical == "INT96"


def _has_int96(field: Any) -> bool:
    """Whether a column of a file, or a field in its structs, stores timestamps as INT96."""
    if pa.types.is_struct(field.type):
        return any(map(_has_int96, struct_fields(field.type)))
    return _is_int96(field)


def _differing(held: Any, type_: Any) -> tuple[str, str] | None:
    """The names, in a file and in the table, of a field whose names differ; None where there is none."""
    if not isinstance(type_, dict):
        return None
    described = cast("dict[str, Any]", type_)
    if pa.types.is_struct(held) and described["type"] == "struct":
        return _differing_fields(held, described["fields"])
    if pa.types.is_map(held) and described["type"] == "map":
        return _differing(held.key_type, described["key"]) or _differing(held.item_type, described["value"])
    if (pa.types.is_list(held) or pa.types.is_large_list(held)) and described["type"] == "list":
        return _differing(held.value_type, described["element"])
    return None


def _differing_fields(held: Any, fields: list[dict[str, Any]]) -> tuple[str, str] | None:
    by_id = {int(field["id"]): field for field in fields}
    by_name = {field["name"]: field for field in fields}
    for position in range(held.num_fields):
        inner = held.field(position)
        id_ = field_id(inner) or 0
        same = by_id.get(id_)
        if same is not None and same["name"] != inner.name:
            return inner.name, same["name"]
        other = by_name.get(inner.name)
        if other is not None and other is not same:
            return inner.name, f"another field {inner.name}"
        deeper = None if same is None else _differing(inner.type, same["type"])
        if deeper is not None:
            return deeper
    return None


def _lacking(held: Any, type_: Any, ids: Collection[int]) -> str | None:
    """A field that a file's structs lack and that may have a value other than NULL there; None for none."""
    if not isinstance(type_, dict):
        return None
    described = cast("dict[str, Any]", type_)
    inside: list[tuple[Any, Any]] = []
    if pa.types.is_struct(held) and described["type"] == "struct":
        own: dict[int | None, Any] = {field_id(child): child.type for child in struct_fields(held)}
        for field in described["fields"]:
            id_ = int(field["id"])
            if id_ in own:
                inside.append((own[id_], field["type"]))
            elif id_ in ids or field.get("initial-default") is not None:
                return str(field["name"])
    elif pa.types.is_map(held) and described["type"] == "map":
        inside = [(held.key_type, described["key"]), (held.item_type, described["value"])]
    elif pa.types.is_list(held) and described["type"] == "list":
        inside = [(held.value_type, described["element"])]
    return next((lacking for child in inside if (lacking := _lacking(*child, ids)) is not None), None)
