"""A table's schema as presented to Iceberg clients, and the columns that such clients cannot read.

Columns have ids that are not in files, so the schema comes with a name mapping (Iceberg specification, "Column
Projection"). Where files do have ids, clients use those, so the schema adopts them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pruner.expr.parquet_reading import INT96
from pruner.parquet_type import parameters

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from pruner.parquet_type import ParquetType
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import Partitions

_PARTITION_TYPES: Final = frozenset({"boolean", "int", "long", "string", "date"})
"""Types whose values every client accepts from a plan."""


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A column whose value is in the plan instead of the files: its name, field id and Iceberg type."""

    path: tuple[str, ...]
    field_id: int
    type: str

    @property
    def name(self) -> str:
        """The name; partition columns are top-level."""
        return self.path[0]


@dataclass(frozen=True)
class ClientSchema:
    """The schema that clients receive.

    Attributes:
        fields: fields of the schema, in the JSON form of the specification (appendix C).
        mapping: the name mapping of all columns.
        partitions: columns whose values come with each file.
        left_out: why a column is not in the schema, by its name.
        last_id: the greatest field id.
    """

    fields: list[dict[str, Any]]
    mapping: list[dict[str, Any]]
    partitions: tuple[PartitionColumn, ...]
    left_out: dict[str, str] = field(default_factory=dict[str, str])
    last_id: int = 0


class _UnreadableError(Exception):
    """Why a client would misread a column."""


def client_schema(
    schema: TableSchema, partitions: Partitions, *, beside: Collection[str] | None = None
) -> ClientSchema:
    """Return the schema of a table for clients; columns that any of them would misread are left out, with the reason.

    The name mapping has all columns: PyIceberg refuses a file with a column that is not in it.

    Args:
        schema: the schema of the snapshot.
        partitions: the partitions of the snapshot.
        beside: columns that files may have and the schema lacks, if the schema is from a log, in which case the
            physical types in the files are unknown as well; None if the schema is that of the files.
    """
    by_ids = any(each.field_id is not None for each in schema.fields)
    ids = _Ids(schema.fields)
    described: list[dict[str, Any]] = []
    mapping: list[dict[str, Any]] = []
    constants: list[PartitionColumn] = []
    left_out: dict[str, str] = {}
    for each in schema.fields:
        name, *inside = each.path
        if inside:
            continue
        mapping.append(_mapping(each.path, each.type, ids))
        is_constant = _is_constant(each, partitions)
        try:
            _require_one_column(each, schema.fields, is_constant=is_constant)
            if beside is not None and not is_constant:
                _require_one_form(each, schema.fields)
            if by_ids and not is_constant:
                ids.require_of_files(each.path, each.type)
            one = _field(each.path, each.type, ids)
            if is_constant and one["type"] not in _PARTITION_TYPES:
                raise _UnreadableError(f"partition values of type {each.type_name} are not given to clients")
        except _UnreadableError as error:
            left_out[name] = str(error)
            continue
        described.append(one)
        if is_constant:
            constants.append(PartitionColumn(each.path, one["id"], one["type"]))
    known = {each.path[0] for each in schema.fields}
    mapping += [_mapping((name,), pa.null(), ids) for name in beside or () if name not in known]
    return ClientSchema(described, mapping, tuple(constants), left_out, ids.last)


class _Ids:
    """Field ids by path: those in the files, and new ones that no file has."""

    def __init__(self, fields: Iterable[Field]) -> None:
        self._of_files = {each.path: each.field_id for each in fields if each.field_id is not None}
        self._of = dict(self._of_files)
        self.last = max(self._of.values(), default=0)

    def of(self, path: tuple[str, ...]) -> int:
        if path not in self._of:
            self.last += 1
            self._of[path] = self.last
        return self._of[path]

    def require_of_files(self, path: tuple[str, ...], type_: Any) -> None:
        """Refuse a column if files may have unknown ids for some of its parts."""
        parts = [(path, type_)]
        while parts:
            part, inner = parts.pop()
            if part not in self._of_files:
                raise _UnreadableError("files have field ids, and not all of its parts have a known one")
            parts += _parts(part, inner)


def _parts(path: tuple[str, ...], type_: Any) -> list[tuple[tuple[str, ...], Any]]:
    """The direct parts of a type, by their names in a name mapping."""
    types = pa.types
    if types.is_struct(type_):
        return [((*path, child.name), child.type) for child in _children(type_)]
    if types.is_list(type_):
        return [((*path, "element"), type_.value_type)]
    if types.is_map(type_):
        return [((*path, "key"), type_.key_type), ((*path, "value"), type_.item_type)]
    return []


def _mapping(path: tuple[str, ...], type_: Any, ids: _Ids) -> dict[str, Any]:
    mapping: dict[str, Any] = {"field-id": ids.of(path), "names": [path[-1]]}
    inner = [_mapping(*part, ids) for part in _parts(path, type_)]
    return {**mapping, "fields": inner} if inner else mapping


def _is_constant(column: Field, partitions: Partitions) -> bool:
    """Whether clients get the value from the plan: the files lack it, or hold exactly the value of the path."""
    if not column.partition or column.path not in partitions.values:
        return False
    return not column.in_file or column.path in partitions.trusted


def _require_one_column(column: Field, fields: Iterable[Field], *, is_constant: bool) -> None:
    for each in fields:
        if each.path[0] != column.path[0]:
            continue
        if each.stored is not None:
            raise _UnreadableError("files have it under another name")
        if is_constant:
            continue
        if each.dispute is not None:
            raise _UnreadableError(each.dispute)
        if not each.absent_is_null:
            raise _UnreadableError("rows of files without it have a default, which clients do not know")
        misread = next((kind for kind in each.parquet or () if _is_misread(kind)), None)
        if misread is not None:
            raise _UnreadableError(f"files have it as {misread}, which clients read in different ways")
    if column.partition and not is_constant and not column.in_file:
        raise _UnreadableError("its values in the paths of files are not known")


def _require_one_form(column: Field, fields: Iterable[Field]) -> None:
    """Refuse types that writers store in several forms, some of which clients misread: the files were not examined."""
    for each in fields:
        if each.path[0] != column.path[0]:
            continue
        if each.conflict is not None:
            raise _UnreadableError(each.conflict)
        if any(pa.types.is_timestamp(inner) for inner in _primitives(each.type)):
            raise _UnreadableError(
                "files may have its moments as INT96, which clients read in different ways"
            )


def _primitives(type_: Any) -> Iterator[Any]:
    parts = _parts((), type_)
    if not parts:
        yield type_
    for _, inner in parts:
        yield from _primitives(inner)


def _is_misread(kind: ParquetType) -> bool:
    """Whether some client misreads values of a Parquet type: the table's type may be wider.

    Spark's Iceberg reader reads milliseconds as microseconds, and unsigned 32-bit values as signed ones.
    """
    match parameters(kind.meaning):
        case ("Timestamp", (unit, *_)):
            return unit != "us"
        case ("Integer", (bits, "unsigned")):
            return bits in ("32", "64")
        case (name, _):
            return kind.physical == INT96 or name == "UUID"


def _field(path: tuple[str, ...], type_: Any, ids: _Ids) -> dict[str, Any]:
    return {"id": ids.of(path), "name": path[-1], "required": False, "type": _type(path, type_, ids)}


def _type(path: tuple[str, ...], type_: Any, ids: _Ids) -> Any:
    """A type in its JSON form (specification, appendix C)."""
    types = pa.types
    parts = _parts(path, type_)
    if types.is_struct(type_):
        return {"type": "struct", "fields": [_field(*part, ids) for part in parts]}
    typed_parts = [(ids.of(part), _type(part, inner, ids)) for part, inner in parts]
    if types.is_list(type_):
        return {
            "type": "list",
            "element-id": typed_parts[0][0],
            "element": typed_parts[0][1],
            "element-required": False,
        }
    if types.is_map(type_):
        (key_id, key), (value_id, value) = typed_parts
        told = {"key-id": key_id, "key": key, "value-id": value_id, "value": value}
        return {"type": "map", **told, "value-required": False}
    return _primitive(type_)


def _children(type_: Any) -> Iterator[Any]:
    return iter(type_)


def _primitive(type_: Any) -> str:
    """The name of a primitive type (specification, "Primitive Types"); Spark has no time of day."""
    types = pa.types
    if types.is_decimal(type_) and type_.precision <= 38:
        return f"decimal({type_.precision}, {type_.scale})"
    if types.is_timestamp(type_) and type_.unit == "us":
        return "timestamp" if type_.tz is None else "timestamptz"
    if types.is_fixed_size_binary(type_):
        return f"fixed[{type_.byte_width}]"
    primitive = _PRIMITIVES.get(type_)
    if primitive is None:
        raise _UnreadableError(f"clients do not read {type_} alike")
    return primitive


_PRIMITIVES: Final[dict[Any, str]] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.uint8(): "int",
    pa.uint16(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
}
