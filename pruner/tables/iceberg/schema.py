"""Iceberg's schemas and types: columns by field ids, or by name mapping for files without field ids.

Source: the Iceberg table specification, "Schemas and Data Types" and appendix C.

Columns of files without field ids are identified by the table's name mapping, else by position.

Source: the Iceberg table specification, "Column Projection" and "Name Mapping Serialization". A file with any field id
is read by ids alone. The behavior without a mapping is unspecified: Iceberg's Java library numbers the columns of the
file from 1, and reads nested ones as NULL (measured with Spark, Iceberg 1.11).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import pyarrow as pa

from pruner.errors import TableError
from pruner.schema import Field, TableSchema, path_of_id
from pruner.tables.footers.file_schemas import FIELD_ID, struct_fields
from pruner.tables.iceberg.metadata import NAME_MAPPING
from pruner.tables.iceberg.values import default_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pruner.tables.iceberg.metadata import StructType, TableMetadata

_TYPES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "binary": pa.binary(),
}
_NANOSECONDS: Final[dict[str, pa.DataType]] = {
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}
_OPAQUE: Final = re.compile(r"variant|unknown|geometry(\(.*\))?|geography(\(.*\))?")
_FIXED: Final = re.compile(r"fixed\[(\d{1,9})\]")
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d{1,2})\s*,\s*(\d{1,2})\s*\)")
_DEEPEST: Final = 64
_MOST_DIGITS: Final = 38


def iceberg_schema(
    schema: StructType,
    place: str,
    filled: Collection[int] = (),
    mapped: Mapping[int, tuple[tuple[str, ...], ...]] | None = None,
) -> TableSchema:
    """Return a schema of a table.

    Columns of types that no index supports (variants, geometries, nanoseconds) have the reason as their `conflict`.

    Args:
        schema: as in the metadata.
        place: the name of the table in messages.
        filled: ids of columns that readers fill in from a partition where a file lacks them.
        mapped: the possible paths of a column in files without field ids, by its id; None without a name mapping.

    Raises:
        TableError: a type is unknown, or the schema cannot be parsed.
    """
    try:
        return TableSchema(tuple(_fields(schema.fields, (), _About(place, filled, mapped))))
    except (KeyError, TypeError, AttributeError) as error:
        raise TableError(f"the schema of {place} is not understood: {error!r}") from None


@dataclass(frozen=True, slots=True)
class _About:
    """What is known of a table's columns besides its schema: see `iceberg_schema`."""

    place: str
    filled: Collection[int]
    mapped: Mapping[int, tuple[tuple[str, ...], ...]] | None


def _fields(fields: Sequence[dict[str, Any]], above: tuple[str, ...], table: _About) -> Iterator[Field]:
    place = table.place
    if len(above) > _DEEPEST:
        raise TableError(f"the schema of {place} is nested more than {_DEEPEST} levels deep")
    for field in fields:
        path = (*above, str(field["name"]))
        type_ = field["type"]
        id_ = int(field["id"])
        type_arrow = arrow_type(type_, path, place)
        default = _default(field, type_arrow, path, place)
        yield Field(
            path,
            type_arrow,
            field_id=id_,
            absent_is_null=id_ not in table.filled and default is None,
            conflict=_unserved(type_),
            stored=path_of_id(id_),
            mapped=None if table.mapped is None else table.mapped.get(id_, ()),
            default=default,
        )
        nested = _composed(type_)
        if nested.get("type") == "struct":
            yield from _fields(nested["fields"], path, table)


def _default(field: dict[str, Any], type_: pa.DataType, path: tuple[str, ...], place: str) -> Any:
    """The value of a field in rows of files that lack it, as a scalar; None for NULL."""
    default = field.get("initial-default")
    return None if default is None else default_value(default, type_, f"column {'.'.join(path)} of {place}")


@dataclass(frozen=True, slots=True)
class LeafField:
    """A column, or a field in structs, whose field ids are `above`, outermost first.

    `default` is the value of rows in files that lack it, as a scalar of its type.
    """

    type: pa.DataType
    above: tuple[int, ...] = ()
    default: Any = None


def leaves_by_id(schemas: Iterable[StructType], place: str) -> dict[int, LeafField]:
    """All columns of primitive types, and such fields in structs, by field ids: each as in the last schema with it.

    Raises:
        TableError: a type is unknown, or a default is invalid for its type.
    """
    leaves: dict[int, LeafField] = {}

    def take(fields: Sequence[dict[str, Any]], above: tuple[int, ...]) -> None:
        for field in fields if len(above) <= _DEEPEST else ():
            nested = _composed(field["type"])
            if nested.get("type") == "struct":
                take(nested["fields"], (*above, int(field["id"])))
            elif not nested:
                path = (str(field["name"]),)
                type_ = arrow_type(field["type"], path, place)
                leaves[int(field["id"])] = LeafField(type_, above, _default(field, type_, path, place))

    for schema in schemas:
        take(schema.fields, ())
    return leaves


def is_bytes(type_: pa.DataType) -> bool:
    """Tell whether values of a type are bytes and not numbers."""
    types = pa.types
    return types.is_binary(type_) or types.is_fixed_size_binary(type_) or isinstance(type_, pa.UuidType)


def _composed(type_: Any) -> dict[str, Any]:
    """The JSON of a struct, list or map; empty for a primitive type."""
    return cast("dict[str, Any]", type_) if isinstance(type_, dict) else {}


def _unserved(type_: Any) -> str | None:
    if isinstance(type_, str) and type_ in _NANOSECONDS:
        return "it has nanoseconds, which engines read differently"
    if isinstance(type_, str) and _OPAQUE.fullmatch(type_):
        return f"its type {type_} has no order that engines share"
    return None


def arrow_type(type_: Any, path: tuple[str, ...], place: str, depth: int = 0) -> pa.DataType:
    """The Arrow type for the JSON of a type.

    Raises:
        TableError: it is unknown.
    """
    if depth > _DEEPEST:
        raise TableError(f"the schema of {place} is nested more than {_DEEPEST} levels deep")
    if isinstance(type_, str):
        primitive = _primitive(type_)
        if primitive is not None:
            return primitive
    nested = _composed(type_)
    match nested.get("type"):
        case "struct":
            fields: list[dict[str, Any]] = nested["fields"]
            names = [str(field["name"]) for field in fields]
            types = [
                arrow_type(field["type"], (*path, name), place, depth + 1)
                for field, name in zip(fields, names, strict=True)
            ]
            return pa.struct(list(map(pa.field, names, types)))
        case "list":
            return pa.list_(arrow_type(nested["element"], (*path, "element"), place, depth + 1))
        case "map":
            key = arrow_type(nested["key"], (*path, "key"), place, depth + 1)
            return pa.map_(key, arrow_type(nested["value"], (*path, "value"), place, depth + 1))
        case _:
            pass
    raise TableError(
        f"column {'.'.join(path)} of {place} is of type {type_}, which this reader does not know: read the table "
        "with an engine that does"
    )


def _primitive(type_: str) -> pa.DataType | None:
    known = _TYPES.get(type_) or _NANOSECONDS.get(type_)
    if known is not None:
        return known
    if _OPAQUE.fullmatch(type_):
        return pa.binary()
    fixed = _FIXED.fullmatch(type_)
    if fixed is not None:
        return pa.binary(int(fixed[1]))
    decimal = _DECIMAL.fullmatch(type_)
    if decimal is not None and 0 < int(decimal[1]) <= _MOST_DIGITS:
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return None


_MOST_PATHS: Final = 100_000
"""Maximum number of names of columns and fields; a field's names count once for each name of its parent."""


class MappedField(msgspec.Struct, rename="kebab", frozen=True):
    """A field of a mapping: its names in files, and its id; without an id, these names are not a column."""

    names: list[str]
    field_id: int | None = None
    fields: list[MappedField] = []


class NameMapping:
    """Maps names in files without field ids to columns, and to fields in them."""

    def __init__(self, fields: Sequence[MappedField]) -> None:
        self._fields = _by_name(fields, 0)

    def paths(self) -> Mapping[int, tuple[tuple[str, ...], ...]]:
        """The paths under which files may store each column, and each field in structs, by field ids."""
        paths_by_id: dict[int, list[tuple[str, ...]]] = {}
        open_: list[tuple[tuple[str, ...], Mapping[str, MappedField]]] = [((), self._fields)]
        count = 0
        while open_:
            above, fields = open_.pop()
            count += len(fields)
            if count > _MOST_PATHS:
                raise ValueError(f"it has more than {_MOST_PATHS} names")
            for name, field in fields.items():
                if field.field_id is not None:
                    paths_by_id.setdefault(field.field_id, []).append((*above, name))
                open_.append(((*above, name), _by_name(field.fields, len(above) + 1)))
        return {id_: tuple(sorted(paths)) for id_, paths in paths_by_id.items()}

    def with_ids(self, fields: Iterable[pa.Field[Any]]) -> list[pa.Field[Any]]:
        """The columns of a file with the field ids that the mapping assigns to them."""
        return [_mapped(field, self._fields.get(field.name)) for field in fields]


def read_name_mapping(text: str, place: str) -> NameMapping:
    """Parse the name mapping property of a table.

    Raises:
        TableError: it is not a mapping, so that no reader of the table could use it.
    """
    try:
        mapping = NameMapping(msgspec.json.decode(text, type=list[MappedField]))
        mapping.paths()
    except (msgspec.MsgspecError, ValueError) as error:
        raise TableError(
            f"{place} has a name mapping (schema.name-mapping.default) that is not understood ({error}): correct the "
            "property"
        ) from None
    return mapping


def mapping_of(metadata: TableMetadata) -> NameMapping | None:
    """The name mapping for files without field ids; None where the table has none."""
    text = metadata.properties.get(NAME_MAPPING)
    return None if text is None else read_name_mapping(text, metadata.location)


def reassigned(metadata: TableMetadata) -> frozenset[int]:
    """Field ids of columns that files without field ids may store under names that now mean something else.

    The metrics of such a file in a manifest follow the mapping of that time, but readers use the current one. That may
    omit the current name of a column, but no former name.
    """
    mapping = mapping_of(metadata)
    if mapping is None:
        return frozenset()
    owners = {path: id_ for id_, paths in mapping.paths().items() for path in paths}
    today = set(_paths(metadata.schema_of(None).fields))
    return frozenset(
        id_
        for schema in metadata.schemas
        for id_, path in _paths(schema.fields)
        if owners.get(path, id_ if (id_, path) in today else None) != id_
    )


def _paths(
    fields: Sequence[dict[str, Any]], above: tuple[str, ...] = ()
) -> Iterator[tuple[int, tuple[str, ...]]]:
    """The field ids of columns, and of fields in structs, with their paths."""
    for field in fields if len(above) <= _DEEPEST else ():
        path = (*above, str(field["name"]))
        yield int(field["id"]), path
        nested = _composed(field["type"])
        if nested.get("type") == "struct":
            yield from _paths(nested["fields"], path)


def _by_name(fields: Sequence[MappedField], depth: int) -> dict[str, MappedField]:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} levels deep")
    described: dict[str, MappedField] = {}
    for field in fields:
        for name in dict.fromkeys(field.names):
            if name in described:
                raise ValueError(f"two of its fields are called {name!r}")
            described[name] = field
    return described


def numbered(fields: Iterable[pa.Field[Any]], mapping: NameMapping | None) -> list[pa.Field[Any]]:
    """The columns of a file without field ids, with the ids by which readers find them."""
    if mapping is not None:
        return mapping.with_ids(fields)
    return [_with_id(field, field.type, at) for at, field in enumerate(fields, 1)]


def _mapped(each: pa.Field[Any], known: MappedField | None) -> pa.Field[Any]:
    inner = {} if known is None else _by_name(known.fields, 0)
    type_: Any = each.type

    def below(field: Any, name: str) -> Any:
        return _mapped(field, inner.get(name))

    if pa.types.is_struct(type_):
        type_ = pa.struct([below(field, field.name) for field in struct_fields(type_)])
    elif pa.types.is_map(type_):
        type_ = pa.map_(below(type_.key_field, "key"), below(type_.item_field, "value"))
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        type_ = pa.list_(below(type_.value_field, "element"))
    return _with_id(each, type_, None if known is None else known.field_id)


def _with_id(each: pa.Field[Any], type_: Any, id_: int | None) -> pa.Field[Any]:
    metadata = dict(each.metadata or {})
    if id_ is not None:
        metadata[FIELD_ID] = str(id_).encode()
    return pa.field(each.name, type_, each.nullable, metadata)
