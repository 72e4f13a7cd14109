"""Iceberg's schemas and types as this library's: columns are told apart by field ids, whatever they are called.

Source: the Iceberg table specification, "Schemas and Data Types" and appendix C.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa

from pruner.errors import TableError
from pruner.schema import Field, TableSchema, path_of_id
from pruner.tables.iceberg.values import default_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from pruner.tables.iceberg.metadata import StructType

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

    Types that no index serves (variants, geometries, nanoseconds) are columns with the reason as their `conflict`.

    Args:
        schema: as metadata has it.
        place: what messages call the table.
        filled: ids of columns that readers fill in from a partition where a file lacks them.
        mapped: by what paths files without field ids may hold a column, by its id; None without a name mapping.

    Raises:
        TableError: a type is not known, or the schema is not understood.
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
    for each in fields:
        path = (*above, str(each["name"]))
        type_ = each["type"]
        id_ = int(each["id"])
        found = arrow_type(type_, path, place)
        default = each.get("initial-default")
        yield Field(
            path,
            found,
            field_id=id_,
            absent_is_null=id_ not in table.filled and default is None,
            conflict=_unserved(type_),
            stored=path_of_id(id_),
            mapped=None if table.mapped is None else table.mapped.get(id_, ()),
            default=None
            if default is None
            else default_value(default, found, f"column {'.'.join(path)} of {place}"),
        )
        nested = _composed(type_)
        if nested.get("type") == "struct":
            yield from _fields(nested["fields"], path, table)


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column, or a field in structs, whose field ids are `above`, the outermost first."""

    type: pa.DataType
    above: tuple[int, ...] = ()


def leaves_by_id(schemas: Iterable[StructType], place: str) -> dict[int, Leaf]:
    """All columns of primitive types, and such fields in structs, by field ids: each as the last schema has it.

    Raises:
        TableError: a type is not known.
    """
    found: dict[int, Leaf] = {}

    def take(fields: Sequence[dict[str, Any]], above: tuple[int, ...]) -> None:
        for each in fields if len(above) <= _DEEPEST else ():
            nested = _composed(each["type"])
            if nested.get("type") == "struct":
                take(nested["fields"], (*above, int(each["id"])))
            elif not nested:
                found[int(each["id"])] = Leaf(arrow_type(each["type"], (str(each["name"]),), place), above)

    for schema in schemas:
        take(schema.fields, ())
    return found


def is_bytes(type_: pa.DataType) -> bool:
    """Tell whether values of a type are bytes and no number."""
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
    """The Arrow type of a type as its JSON has it.

    Raises:
        TableError: it is not known.
    """
    if depth > _DEEPEST:
        raise TableError(f"the schema of {place} is nested more than {_DEEPEST} levels deep")
    if isinstance(type_, str):
        found = _primitive(type_)
        if found is not None:
            return found
    nested = _composed(type_)
    match nested.get("type"):
        case "struct":
            fields: list[dict[str, Any]] = nested["fields"]
            names = [str(each["name"]) for each in fields]
            types = [
                arrow_type(each["type"], (*path, name), place, depth + 1)
                for each, name in zip(fields, names, strict=True)
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
