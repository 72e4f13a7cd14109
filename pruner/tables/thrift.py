"""Finds where the schema ends in a Parquet footer, without parsing the rest.

The footer is Thrift's compact protocol, and the schema is the second field of `FileMetaData`, behind the
version (parquet-format, `src/main/thrift/parquet.thrift`; thrift, `doc/specs/thrift-compact-protocol.md`).
Reading is left to right, so two footers that begin with the same bytes up to there have the same schema,
however long the rest.
"""

from __future__ import annotations

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


def schema_end(footer: bytes) -> int:
    """Return the offset behind the schema in a footer.

    Raises:
        ThriftError: the fields come in another order, or the bytes are broken.
    """
    try:
        if footer[0] != _VERSION_HEADER:
            raise ThriftError("a footer begins with its version")
        position = _skip_varint(footer, 1)
        if footer[position] != _SCHEMA_HEADER:
            raise ThriftError("the schema comes behind the version")
        end = _skip_list(footer, position + 1, 0)
    except IndexError:
        end = len(footer) + 1
    if end > len(footer):
        raise ThriftError("the footer ends within the schema")
    return end


def schema_only(footer: bytes, end: int) -> bytes:
    """Return a footer with the same version and schema and with nothing else; `end` is from `schema_end`."""
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


def _skip_varint(data: bytes, position: int) -> int:
    return _varint(data, position)[1]


def _skip_list(data: bytes, position: int, depth: int) -> int:
    header = data[position]
    position += 1
    count, element = header >> 4, header & 0x0F
    if count == 15:
        count, position = _varint(data, position)
    if count > len(data):
        raise ThriftError("a list is longer than the footer")
    for _ in range(count):
        position = _skip_value(data, position, element, depth, in_list=True)
    return position


def _skip_struct(data: bytes, position: int, depth: int) -> int:
    while (header := data[position]) != _STOP:
        position += 1
        if header >> 4 == 0:  # no delta: the field's id follows
            position = _skip_varint(data, position)
        position = _skip_value(data, position, header & 0x0F, depth, in_list=False)
    return position + 1


def _skip_value(data: bytes, position: int, kind: int, depth: int, *, in_list: bool) -> int:
    if depth > _MAX_DEPTH:
        raise ThriftError("the footer is nested too deeply")
    match kind:
        case 1 | 2:  # a field's boolean is its type, a list's is a byte
            return position + in_list
        case 3:
            return position + 1
        case 4 | 5 | 6:
            return _skip_varint(data, position)
        case 7:
            return position + 8
        case 8:
            length, position = _varint(data, position)
            return position + length
        case 9 | 10:
            return _skip_list(data, position, depth + 1)
        case 12:
            return _skip_struct(data, position, depth + 1)
        case _:
            raise ThriftError(f"type {kind} does not occur in a Parquet schema")
