"""Rewrites the footers of Parquet files, so that tests have files that claim what no writer at hand would write.

A footer is read into plain structures (Thrift's compact protocol): a struct is a dict from field number to (type,
value), a list is (element type, values). Field numbers are those of parquet-format's parquet.thrift.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

Struct = dict[int, tuple[int, Any]]

TRUE, FALSE, BYTE, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT = range(1, 13)

# FileMetaData, RowGroup, ColumnChunk, ColumnMetaData
SCHEMA, ROW_GROUPS, CREATED_BY = 2, 4, 6
COLUMNS, META_DATA, STATISTICS = 1, 3, 12
# Statistics
NULL_COUNT, MAX_VALUE, MIN_VALUE = 3, 5, 6


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, count: int) -> bytes:
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def number(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def value(self, type_: int) -> Any:
        match type_:
            case 1 | 2:
                return type_ == TRUE
            case 3:
                return self.byte()
            case 4 | 5 | 6:
                return self.number()
            case 7:
                return struct.unpack("<d", self.take(8))[0]
            case 8:
                return self.take(self.varint())
            case 9 | 10:
                header = self.byte()
                count = header >> 4 if header >> 4 != 15 else self.varint()
                element = header & 15
                return element, [
                    self.byte() if element <= FALSE else self.value(element) for _ in range(count)
                ]
            case 12:
                return self.struct()
            case _:
                raise NotImplementedError(f"type {type_}")

    def struct(self) -> Struct:
        found: Struct = {}
        number = 0
        while header := self.byte():
            number = number + (header >> 4) if header >> 4 else self.number()
            found[number] = (header & 15, self.value(header & 15))
        return found


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def _number(value: int) -> bytes:
    return _varint(value << 1 if value >= 0 else (-value << 1) - 1)


def _value(type_: int, value: Any) -> bytes:
    match type_:
        case 1 | 2:
            return b""
        case 3:
            return bytes([value])
        case 4 | 5 | 6:
            return _number(value)
        case 7:
            return struct.pack("<d", value)
        case 8:
            return _varint(len(value)) + value
        case 9 | 10:
            element, values = value
            header = (
                bytes([len(values) << 4 | element])
                if len(values) < 15
                else bytes([0xF0 | element]) + _varint(len(values))
            )
            return header + b"".join(bytes([v]) if element <= FALSE else _value(element, v) for v in values)
        case 12:
            return _struct(value)
        case _:
            raise NotImplementedError(f"type {type_}")


def _struct(fields: Struct) -> bytes:
    out = bytearray()
    before = 0
    for number, (type_, value) in sorted(fields.items()):
        kind = (TRUE if value else FALSE) if type_ in (TRUE, FALSE) else type_
        # As writers do: the distance to the field before, or its number where that is too far.
        near = 0 < number - before < 16
        out += bytes([(number - before) << 4 | kind]) if near else bytes([kind]) + _number(number)
        out += _value(type_, value)
        before = number
    return bytes([*out, 0])


def footer_bytes(path: Path) -> bytes:
    """The footer of a file as it stands there."""
    data = path.read_bytes()
    return data[-8 - int.from_bytes(data[-8:-4], "little") : -8]


def edit_footer(path: Path, edit: Callable[[Struct], None]) -> Path:
    """Read the footer of a file, let `edit` change it in place, and write it back."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = _Reader(data[-8 - length : -8]).struct()
    edit(footer)
    new = _struct(footer)
    path.write_bytes(data[: -8 - length] + new + len(new).to_bytes(4, "little") + b"PAR1")
    return path


def statistics_of(footer: Struct, column: int = 0) -> list[Struct]:
    """The statistics of one column in each row group."""
    groups = footer[ROW_GROUPS][1][1]
    chunks = [group[COLUMNS][1][1][column] for group in groups]
    return [chunk[META_DATA][1][STATISTICS][1] for chunk in chunks]


def written_by(path: Path, created_by: str) -> Path:
    """Make a file say that another writer made it."""

    def edit(footer: Struct) -> None:
        footer[CREATED_BY] = (BINARY, created_by.encode())

    return edit_footer(path, edit)


def claim(path: Path, column: int = 0, **fields: bytes | int | None) -> Path:
    """Change the statistics of one column in all row groups; None removes a field.

    Fields are `null_count` (an integer), `min_value` and `max_value` (plain-encoded bytes).
    """
    numbers = {"null_count": NULL_COUNT, "min_value": MIN_VALUE, "max_value": MAX_VALUE}

    def edit(footer: Struct) -> None:
        for statistics in statistics_of(footer, column):
            for name, value in fields.items():
                if value is None:
                    statistics.pop(numbers[name], None)
                else:
                    statistics[numbers[name]] = (I64 if isinstance(value, int) else BINARY, value)

    return edit_footer(path, edit)
