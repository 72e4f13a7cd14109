"""Reads the schema out of a Parquet footer, without parsing the rest.

The footer is Thrift's compact protocol, and the schema is the second field of `FileMetaData`, behind the
version (parquet-format, `src/main/thrift/parquet.thrift`; thrift, `doc/specs/thrift-compact-protocol.md`).
Reading is left to right, so two footers that begin with the same bytes up to there have the same schema,
however long the rest.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Struct: TypeAlias = dict[int, Any]
"""Values by the number of their field: integers, bytes, booleans, lists and further structs."""

_STOP = 0
_TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(1, 13)
_MAX_DEPTH = 16

_VERSION_HEADER = 0x15
"""Field 1 (the first, so delta 1) of type i32."""

_SCHEMA_HEADER = 0x19
"""Field 2 (delta 1) of type list."""

_NO_ROWS = b"\x16\x00\x19\x0c\x00"
"""The rest of a footer behind the schema: num_rows = 0, row_groups = [], stop."""


class ThriftError(ValueError):
    """The bytes are no footer whose schema can be told apart this way."""


class SchemaBytes(NamedTuple):
    """The elements of a schema, depth first, and the offset in the footer behind them."""

    elements: list[Struct]
    end: int


def read_schema(footer: bytes) -> SchemaBytes:
    """Return the schema elements of a footer.

    Raises:
        ThriftError: the fields come in another order, or the bytes are broken.
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
    """Return the struct with which some bytes begin, and where it ends.

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
