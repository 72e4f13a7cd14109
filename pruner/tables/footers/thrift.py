"""Reads the schema from a Parquet footer, without the rest: a tree of columns, each with its Parquet type.

The footer is in Thrift's compact protocol, and the schema is the second field of `FileMetaData`, after the
version (parquet-format, `src/main/thrift/parquet.thrift`; thrift, `doc/specs/thrift-compact-protocol.md`).
Reading is left to right, so two footers with the same bytes up to the end of the schema have the same schema,
however long the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias, cast

import pyarrow as pa
import pyarrow.parquet as pq

from pruner.parquet_type import ParquetType

Struct: TypeAlias = dict[int, Any]
"""Values by field number: integers, bytes, booleans, lists and further structs."""

_STOP = 0
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_MAX_DEPTH = 16

_VERSION_HEADER = 0x15
"""Field 1 (the first, so delta 1) of type i32."""

_SCHEMA_HEADER = 0x19
"""Field 2 (delta 1) of type list."""

_NO_ROWS = b"\x16\x00\x19\x0c\x00"
"""The rest of a footer after the schema: num_rows = 0, row_groups = [], stop."""


class ThriftError(ValueError):
    """The bytes are not a footer whose schema can be read this way."""


class SchemaBytes(NamedTuple):
    """The elements of a schema, depth first, and the offset in the footer after them."""

    elements: list[Struct]
    end: int


def read_schema(footer: bytes) -> SchemaBytes:
    """Return the schema elements of a footer.

    Raises:
        ThriftError: the fields are in another order, or the bytes are broken.
    """
    try:
        if footer[0] != _VERSION_HEADER:
            raise ThriftError("a footer begins with its version")
        position = _varint(footer, 1)[1]
        if footer[position] != _SCHEMA_HEADER:
            raise ThriftError("the schema comes behind the version")
        elements, end = _list(footer, position + 1, 0)
    except IndexError:
        elements, end = [], len(footer) + 1
    if end > len(footer):
        raise ThriftError("the footer ends within the schema")
    if not all(isinstance(element, dict) for element in elements):
        raise ThriftError("a schema is a list of structs")
    return SchemaBytes(elements, end)


def read_struct(data: bytes) -> tuple[Struct, int]:
    """Return the struct at the start of some bytes, and where it ends.

    Raises:
        ThriftError: they do not begin with one.
    """
    try:
        return _struct(data, 0, 0)
    except IndexError:
        raise ThriftError("the bytes end within a struct") from None


def schema_only(footer: bytes, end: int) -> bytes:
    """Return a footer with the same version and schema and with nothing else; `end` is from `read_schema`."""
    return footer[:end] + _NO_ROWS


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
        if shift > 63:
            raise ThriftError("a number has more than 64 bits")


def _integer(data: bytes, position: int) -> tuple[int, int]:
    value, position = _varint(data, position)
    return (value >> 1) ^ -(value & 1), position


def _list(data: bytes, position: int, depth: int) -> tuple[list[Any], int]:
    header = data[position]
    position += 1
    count, element = header >> 4, header & 0x0F
    if count == 15:
        count, position = _varint(data, position)
    if count > len(data):
        raise ThriftError("a list is longer than the footer")
    values: list[Any] = []
    for _ in range(count):
        value, position = _value(data, position, element, depth, in_list=True)
        values.append(value)
    return values, position


def _struct(data: bytes, position: int, depth: int) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while (header := data[position]) != _STOP:
        position += 1
        if header >> 4:
            number += header >> 4
        else:  # no delta: the field's number follows
            number, position = _integer(data, position)
        fields[number], position = _value(data, position, header & 0x0F, depth, in_list=False)
    return fields, position + 1


def _value(data: bytes, position: int, kind: int, depth: int, *, in_list: bool) -> tuple[Any, int]:
    if depth > _MAX_DEPTH:
        raise ThriftError("the footer is nested too deeply")
    match kind:
        case 1 | 2:  # a field's boolean is its type, a list's is a byte
            return (data[position] == _TRUE, position + 1) if in_list else (kind == _TRUE, position)
        case 3:
            return data[position], position + 1
        case 4 | 5 | 6:
            return _integer(data, position)
        case 7:
            return data[position : position + 8], position + 8
        case 8:
            length, position = _varint(data, position)
            return data[position : position + length], position + length
        case 9 | 10:
            return _list(data, position, depth + 1)
        case 12:
            return _struct(data, position, depth + 1)
        case _:
            raise ThriftError(f"type {kind} does not occur in a Parquet schema")


GROUP = "GROUP"
"""Physical type of elements that have columns below them instead of values."""

# Fields of SchemaElement (parquet.thrift).
_TYPE, _LENGTH, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _, _LOGICAL = range(1, 11)
_REPEATED = 2

_PHYSICAL = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_CONVERTED_NAMES = (
    *("UTF8", "MAP", "MAP_KEY_VALUE", "LIST", "ENUM", "DECIMAL", "DATE", "TIME_MILLIS", "TIME_MICROS"),
    *("TIMESTAMP_MILLIS", "TIMESTAMP_MICROS", "UINT_8", "UINT_16", "UINT_32", "UINT_64"),
    *("INT_8", "INT_16", "INT_32", "INT_64", "JSON", "BSON", "INTERVAL"),
)
_LOGICAL_NAMES: dict[int, str] = {
    1: "String",
    2: "Map",
    3: "List",
    4: "Enum",
    5: "Decimal",
    6: "Date",
    7: "Time",
    8: "Timestamp",
    10: "Integer",
    11: "Null",
    12: "JSON",
    13: "BSON",
    14: "UUID",
    15: "Float16",
    16: "Variant",
    17: "Geometry",
    18: "Geography",
}
_UNITS = {1: "ms", 2: "us", 3: "ns"}


@dataclass(frozen=True, slots=True)
class ParquetColumn:
    """A column or a group of columns; `repeated` ones stand for the elements of a list."""

    name: str
    type: ParquetType
    repeated: bool = False
    children: tuple[ParquetColumn, ...] = ()

    @property
    def is_struct(self) -> bool:
        """Whether this is a plain group of columns."""
        return bool(self.children) and not self.repeated and not (self.type.converted or self.type.logical)

    @property
    def text(self) -> str:
        """Everything here and below that an engine may use, in one line."""
        if not self.children:
            return f"{'repeated ' * self.repeated}{self.type.text}"
        inner = ", ".join(f"{child.name}: {child.text}" for child in self.children)
        return f"{'repeated ' * self.repeated}{self.type.text} {{{inner}}}"

    def leaves(self) -> Iterator[ParquetColumn]:
        """The columns with values, in the order of the file."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


def parquet_columns(elements: Sequence[Struct]) -> tuple[ParquetColumn, ...]:
    """Return the top-level columns of a schema.

    Args:
        elements: the schema elements of a footer, depth first, beginning with the root.

    Raises:
        ThriftError: they are not a tree, or a value is of the wrong kind.
    """
    try:
        root, end = _column(elements, 0, 0)
    except (IndexError, AttributeError, TypeError, ValueError, RecursionError) as error:
        raise ThriftError(f"the schema is broken: {error}") from None
    if end != len(elements):
        raise ThriftError("the schema has elements that belong nowhere")
    return root.children


def rewritten(metadata: pq.FileMetaData) -> bytes:
    """Return a footer as Arrow writes it: the same schema, its fields in the usual order."""
    sink = pa.BufferOutputStream()
    cast("Any", metadata).write_metadata_file(sink)
    whole = sink.getvalue().to_pybytes()
    return whole[-8 - int.from_bytes(whole[-8:-4], "little") : -8]


def columns_of_footer(footer: bytes) -> tuple[ParquetColumn, ...]:
    """Return the top-level columns of a footer; raises as `read_schema` does."""
    return parquet_columns(read_schema(footer).elements)


def _column(elements: Sequence[Struct], position: int, depth: int) -> tuple[ParquetColumn, int]:
    element = elements[position]
    position += 1
    children: list[ParquetColumn] = []
    for _ in range(int(element.get(_CHILDREN, 0))):
        child, position = _column(elements, position, depth + 1)
        children.append(child)
    name = element.get(_NAME, b"").decode("utf-8", "surrogateescape")
    repeated = element.get(_REPETITION) == _REPEATED and depth > 0
    return ParquetColumn(name, _type(element), repeated, tuple(children)), position


def _type(element: Struct) -> ParquetType:
    number: int | None = element.get(_TYPE)
    physical = GROUP if number is None else _PHYSICAL[number]
    if physical == "FIXED_LEN_BYTE_ARRAY":
        physical += f"({element.get(_LENGTH, 0)})"
    return ParquetType(physical, _converted(element), _logical(element.get(_LOGICAL)))


def _converted(element: Struct) -> str:
    number: int | None = element.get(_CONVERTED)
    if number is None:
        return ""
    name = _CONVERTED_NAMES[number] if 0 <= number < len(_CONVERTED_NAMES) else f"CONVERTED_{number}"
    if name == "DECIMAL":
        return f"DECIMAL({element.get(_PRECISION, 0)},{element.get(_SCALE, 0)})"
    return name


def _logical(union: Struct | None) -> str:
    if not union:
        return ""
    number, parameters = next(iter(union.items()))
    name = _LOGICAL_NAMES.get(number, f"Logical{number}")
    return f"{name}{_parameters(name, parameters)}"


def _parameters(name: str, fields: Any) -> str:
    match name:
        case "Decimal":
            return f"({fields.get(2, 0)},{fields.get(1, 0)})"
        case "Integer":
            return f"({fields.get(1, 0)},{'signed' if fields.get(2) else 'unsigned'})"
        case "Timestamp" | "Time":
            unit = _UNITS.get(next(iter(fields.get(2, {})), 0), "unknown")
            return f"({unit},utc)" if fields.get(1) else f"({unit})"
        case _:
            return ""
