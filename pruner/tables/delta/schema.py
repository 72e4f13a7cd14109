"""The schema of a Delta table: its JSON, the types of its columns, and the column names in the files.

Statistics and indexes use physical names, Spark uses field ids. Delta writers give a file both, and both identify the
same column; where they do not, engines would silently read the file differently.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import pyarrow as pa

from pruner.errors import TableError
from pruner.schema import Field, TableSchema
from pruner.tables.footers.file_schemas import field_id, struct_fields

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pruner.tables.delta.actions import Metadata, Protocol


_VOID: Final = "void"
"""The type of columns that hold nothing: Spark omits them when it reads a table."""

_TYPES: Final[dict[str, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    _VOID: pa.null(),
}
_DECIMAL: Final = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)")
_PADDED: Final = re.compile(r"char\(\d+\)")
_CHARACTERS: Final = "__CHAR_VARCHAR_TYPE_STRING"
_PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
_ID: Final = "delta.columnMapping.id"
_MODE: Final = "delta.columnMapping.mode"
_MAPPED: Final = ("name", "id")
_GENERATED: Final = re.compile(r"col-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
"""Physical names as Delta writers generate them: no file has such a column under another name."""
_GENERATION: Final = "delta.generationExpression"
_CHANGES: Final = "delta.typeChanges"
_INTEGERS: Final = ("byte", "short", "integer", "long")
_WIDENINGS: Final = frozenset(
    {("float", "double"), ("date", "timestamp_ntz"), *((literal, "double") for literal in _INTEGERS[:3])}
)
_DECIMAL_OF: Final = {**dict.fromkeys(_INTEGERS[:3], (10, 0)), "long": (20, 0)}
"""The smallest decimals that hold all integers of a type, as precision and scale."""
_IS_PADDED: Final = "it is a CHAR column, whose values Spark pads and other engines show as they are stored"


class _Column(msgspec.Struct):
    """A field of a struct as in the JSON."""

    name: str
    type: Any
    metadata: dict[str, Any] = {}


class _Struct(msgspec.Struct):
    """A struct as in the JSON."""

    type: str
    fields: list[_Column]


# Built once: building a decoder for a type in two threads at once can crash the process (msgspec).
_STRUCT: Final = msgspec.json.Decoder(_Struct)


def mapping_mode(metadata: Metadata, protocol: Protocol, root: str) -> str:
    """How columns are found in the files: by the physical `name` in the schema, by `id`, or "" by their own names.

    Raises:
        TableError: the mode is none of these.
    """
    mode = metadata.setting(_MODE)
    if mode in ("", "none") or not protocol.maps_columns:
        return ""
    if mode not in _MAPPED:
        raise TableError(f"{root} maps columns by {mode!r}, which this reader does not know")
    return mode


def delta_schema(metadata: Metadata, protocol: Protocol, root: str) -> TableSchema:
    """Return the schema of a table.

    Raises:
        TableError: it cannot be parsed, or has an unknown type.
    """
    mode = mapping_mode(metadata, protocol, root)
    mapped = bool(mode)
    try:
        struct = _STRUCT.decode(metadata.schema_string)
        top = list(_fields(struct, (), (), mapped=mapped))
        changes = list(_type_changes(struct, ())) if protocol.widens_types else []
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TableError(f"the schema of {root} is not understood: {error}") from None
    except _UnknownTypeError as error:
        raise TableError(f"{root} has a {error}: read it with an engine that does") from None
    for path, old, new in changes:
        if not _is_widening(old, new):
            raise TableError(
                f"{root} has a column {'.'.join(path)} whose type changed from {old} to {new}, which this reader does "
                "not know: read it with an engine that does"
            )
    if mode == "id":
        _require_generated_names(top, root)
    partitioned = {name.lower() for name in metadata.partition_columns}
    fields = [_of_partition(field) if _is_in(field, partitioned) else field for field in top]
    return TableSchema(tuple(fields))


def _require_generated_names(fields: Iterable[Field], root: str) -> None:
    """Refuse a table mapped by ids whose columns may have other names in some files.

    Statistics and indexes use physical names. Those that Delta writers generate belong to one column only; a table
    converted from Iceberg has its column names instead, and files written before a column was renamed hold its id
    under the old name.
    """
    for field in fields:
        name = field.recorded[-1]
        if _GENERATED.fullmatch(name) is None:
            raise TableError(
                f"{root} maps columns by id and column {field.name} has the physical name {name!r}, as after a "
                "conversion from Iceberg: files from before may hold it under another name, so read it with an engine "
                "that goes by the ids"
            )


def mapped_fields(metadata: Metadata) -> tuple[MappedField, ...]:
    """The names and ids of the columns in the files of a table that maps columns by id."""
    partitioned = {name.lower() for name in metadata.partition_columns}
    struct = _STRUCT.decode(metadata.schema_string)
    return tuple(field for field in _mapped_fields(struct) if field[0].lower() not in partitioned)


def _mapped_fields(of: _Struct) -> Iterator[MappedField]:
    for column in _read(of):
        id_ = column.metadata.get(_ID)
        if isinstance(id_, int):
            yield column.name, _name(column, mapped=True), id_, _mapped_type(column.type)


def _mapped_type(type_: Any) -> MappedType:
    inner = _struct(type_)
    if inner is not None:
        return tuple(_mapped_fields(inner))
    if not isinstance(type_, dict):
        return None
    nested = msgspec.convert(type_, _Nested)
    parts = (nested.element,) if nested.type == "array" else (nested.key, nested.value)
    return [_mapped_type(part) for part in parts]


def generation_expressions(metadata: Metadata) -> dict[str, str]:
    """The expressions of the generated partition columns, by column name."""
    try:
        found = _STRUCT.decode(metadata.schema_string)
    except msgspec.MsgspecError:
        return {}
    partitioned = {name.lower() for name in metadata.partition_columns}
    told = {
        field.name: field.metadata.get(_GENERATION)
        for field in found.fields
        if field.name.lower() in partitioned
    }
    return {name: text for name, text in told.items() if isinstance(text, str)}


def became_double(metadata: Metadata) -> frozenset[tuple[str, ...]]:
    """The double columns that some files may store as 32-bit floats, by their paths in the files."""
    try:
        struct = _STRUCT.decode(metadata.schema_string)
        return frozenset(_were_floats(struct, ()))
    except msgspec.MsgspecError:
        return frozenset()


def _were_floats(of: _Struct, stored: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for column in of.fields:
        names = {_name(column, mapped=mapped) for mapped in (False, True)}
        changes: list[Any] = column.metadata.get(_CHANGES) or []
        inner = _struct(column.type)
        for name in names:
            if any("float" in str(change) for change in changes):
                yield (*stored, name)
            if inner is not None:
                yield from _were_floats(inner, (*stored, name))


def _type_changes(type_: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """The type changes of columns and fields in structs, arrays and maps: path, old type and new type."""
    inner = type_ if isinstance(type_, _Struct) else _struct(type_)
    if inner is not None:
        for column in inner.fields:
            here = (*path, column.name)
            changes: list[Any] = column.metadata.get(_CHANGES) or []
            for change in changes:
                told = cast("dict[str, Any]", change) if isinstance(change, dict) else {}
                place = told.get("fieldPath")
                names = (*here, place) if isinstance(place, str) else here
                yield names, str(told.get("fromType")), str(told.get("toType"))
            yield from _type_changes(column.type, here)
    elif isinstance(type_, dict):
        nested = msgspec.convert(type_, _Nested)
        for name, part in (("element", nested.element), ("key", nested.key), ("value", nested.value)):
            yield from _type_changes(part, (*path, name))


def _is_widening(old: str, new: str) -> bool:
    """Whether each value of the old type is one of the new, by the protocol's list of changes that writers may make."""
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) < _INTEGERS.index(new)
    decimal = _DECIMAL.fullmatch(new)
    if decimal is None:
        return (old, new) in _WIDENINGS
    digits, scale = _DECIMAL_OF.get(old, (0, 0))
    former = _DECIMAL.fullmatch(old)
    if former is not None:
        digits, scale = int(former[1]), int(former[2])
    return bool(digits) and int(decimal[1]) - digits >= int(decimal[2]) - scale >= 0


class _Nested(msgspec.Struct):
    """An array or a map as in the JSON."""

    type: str
    element: Any = msgspec.field(name="elementType", default=None)
    key: Any = msgspec.field(name="keyType", default=None)
    value: Any = msgspec.field(name="valueType", default=None)


class _UnknownTypeError(Exception):
    """A column has an unknown type: what and where, as the end of a sentence."""


def _is_in(field: Field, names: set[str]) -> bool:
    return len(field.path) == 1 and field.path[0].lower() in names


def _of_partition(field: Field) -> Field:
    return Field(
        field.path,
        field.type,
        field_id=field.field_id,
        partition=True,
        in_file=False,
        conflict=field.conflict,
        stored=field.stored,
    )


def _fields(of: _Struct, path: tuple[str, ...], stored: tuple[str, ...], *, mapped: bool) -> Iterator[Field]:
    for column in _read(of):
        here = (*path, column.name)
        there = (*stored, _name(column, mapped=mapped))
        id_ = column.metadata.get(_ID) if mapped else None
        characters = str(column.metadata.get(_CHARACTERS, "")).lower()
        type_ = _type(column.type, here)
        held = _type(column.type, here, mapped=True) if mapped and not path else type_
        yield Field(
            here,
            type_,
            field_id=id_ if isinstance(id_, int) else None,
            conflict=_IS_PADDED if _PADDED.fullmatch(characters) else None,
            stored=there if there != here else None,
            stored_type=None if held.equals(type_) else held,
        )
        inner = _struct(column.type)
        if inner is not None:
            yield from _fields(inner, here, there, mapped=mapped)


def _read(of: _Struct) -> list[_Column]:
    return [field for field in of.fields if not _is_void(field.type)]


def _is_void(type_: Any) -> bool:
    """Whether a column has nothing to read: its type is void, or those of all its fields are."""
    inner = None if type_ == _VOID else _struct(type_)
    return type_ == _VOID or (
        inner is not None and bool(inner.fields) and all(_is_void(field.type) for field in inner.fields)
    )


def _struct(type_: Any) -> _Struct | None:
    """The type as a struct; None for other types."""
    is_struct = isinstance(type_, dict) and "fields" in type_
    return msgspec.convert(type_, _Struct) if is_struct else None


def _name(column: _Column, *, mapped: bool) -> str:
    """The name of a column, or with `mapped` its name in the files."""
    name = column.metadata.get(_PHYSICAL_NAME) if mapped else None
    return name if isinstance(name, str) else column.name


def _type(type_: Any, path: tuple[str, ...], *, mapped: bool = False) -> pa.DataType:
    """The Arrow type of a column; with `mapped`, struct fields have their names in the files."""
    if isinstance(type_, str):
        known = _TYPES.get(type_)
        if known is not None:
            return known
        decimal = _DECIMAL.fullmatch(type_)
        if decimal is not None and int(decimal[1]) <= 38:
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        raise _UnknownTypeError(_unknown(path, type_))
    inner = _struct(type_)
    if inner is not None:
        return pa.struct(
            [
                pa.field(_name(each, mapped=mapped), _type(each.type, (*path, each.name), mapped=mapped))
                for each in _read(inner)
            ]
        )
    nested = msgspec.convert(type_, _Nested)
    if nested.type == "array":
        return pa.list_(_type(nested.element, (*path, "element"), mapped=mapped))
    if nested.type == "map":
        key = _type(nested.key, (*path, "key"), mapped=mapped)
        return pa.map_(key, _type(nested.value, (*path, "value"), mapped=mapped))
    raise _UnknownTypeError(_unknown(path, type_))


def _unknown(path: tuple[str, ...], type_: Any) -> str:
    return f"column {'.'.join(path)} of type {type_}, which this reader does not know"


MappedField = tuple[str, str, int, Any]
"""A struct field: its name, its name and id in the files, and its inner type: `MappedType`."""

MappedType = Any
"""The fields of a struct; the inner types of an array (one) or a map (two) as a list; None for other types."""


def contradicted(fields: Sequence[MappedField], held: pa.Schema, columns: Collection[str]) -> str | None:
    """Return one of some columns that a file's names and field ids identify differently; None where there is none.

    Args:
        fields: all columns of the table that files have.
        held: the schema of the file.
        columns: those that may be read.
    """
    return _contradicted([field for field in fields if field[0] in columns], list[Any](held))


def _contradicted(fields: Iterable[MappedField], held: Iterable[Any]) -> str | None:
    by_name = {field.name: field for field in held}
    by_id = {field_id(field): field for field in held}
    for name, stored, id_, inner in fields:
        of_name, of_id = by_name.get(stored), by_id.get(id_)
        if of_name is not of_id:
            return name
        if of_name is not None:
            inside = _inside(inner, of_name.type)
            if inside is not None:
                return f"{name}.{inside}"
    return None


def _inside(wanted: MappedType, held: Any) -> str | None:
    if isinstance(wanted, tuple):
        fields = cast("tuple[MappedField, ...]", wanted)
        return _contradicted(fields, struct_fields(held)) if pa.types.is_struct(held) else None
    if wanted is None:
        return None
    parts: list[tuple[str, Any]] = []
    if pa.types.is_map(held):
        parts = [("key", held.key_type), ("value", held.item_type)]
    elif pa.types.is_list(held) or pa.types.is_large_list(held):
        parts = [("element", held.value_type)]
    for (place, type_), inner in zip(parts, wanted, strict=False):
        inside = _inside(inner, type_)
        if inside is not None:
            return f"{place}.{inside}"
    return None
