"""The trailer of an HFile and its file info: where everything else stands.

The little of Protocol Buffers that HFiles need: messages of integers and byte strings (proto2 encoding).
"""

from __future__ import annotations

from dataclasses import dataclass

from pruner.tables.hudi.hfile.blocks import Codec

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


def varint(data: bytes, position: int) -> tuple[int, int]:
    """Return an unsigned varint and the position behind it.

    Raises:
        ValueError: there is none.
    """
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if position >= len(data):
            break
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position
    raise ValueError("a number ends nowhere")


def delimited(data: bytes) -> bytes:
    """Return the message behind its length.

    Raises:
        ValueError: it is cut short.
    """
    length, start = varint(data, 0)
    if start + length > len(data):
        raise ValueError("a message is cut short")
    return data[start : start + length]


def fields(message: bytes) -> list[tuple[int, int | bytes]]:
    """Return number and value of each field of a message, in its order.

    Raises:
        ValueError: it is no message.
    """
    found: list[tuple[int, int | bytes]] = []
    position = 0
    while position < len(message):
        tag, position = varint(message, position)
        kind = tag & 7
        if kind == _VARINT:
            value, position = varint(message, position)
            found.append((tag >> 3, value))
            continue
        if kind == _BYTES:
            length, position = varint(message, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"a field has the unknown wire type {kind}")
        if position + length > len(message):
            raise ValueError("a field is cut short")
        found.append((tag >> 3, message[position : position + length]))
        position += length
    return found


TRAILER_BYTES = 4096
_MAGIC = b'TRABLK"$'
_VERSION = 3
_PROTOBUF_MAGIC = b"PBUF"
_MAX_LEVELS = 16


@dataclass(frozen=True, slots=True)
class Trailer:
    """What the trailer says; offsets from the beginning of the file."""

    file_info: int
    load_on_open: int
    index_entries: int
    entries: int
    levels: int
    first_data_block: int
    codec: Codec


def trailer_of(data: bytes, size: int) -> Trailer:
    """Read the last bytes of a file.

    Args:
        data: the last `TRAILER_BYTES`.
        size: of the whole file.

    Raises:
        ValueError: this is no HFile of a known version and compression.
    """
    if len(data) != TRAILER_BYTES or not data.startswith(_MAGIC):
        raise ValueError("it does not end with a trailer")
    version = int.from_bytes(data[-3:], "big")
    if version != _VERSION:
        raise ValueError(f"it is of version {version}, where {_VERSION} is read")
    numbers: dict[int, int] = {}
    encrypted = False
    for number, value in fields(delimited(data[len(_MAGIC) : -4])):
        if isinstance(value, int):
            numbers[number] = value
        encrypted |= number == 13
    if encrypted:
        raise ValueError("it is encrypted")
    codec = numbers.get(12, int(Codec.NONE))
    if codec not in tuple(Codec):
        raise ValueError(f"it is compressed by codec {codec}, where gzip and none are read")
    trailer = Trailer(
        file_info=numbers.get(1, 0),
        load_on_open=numbers.get(2, 0),
        index_entries=numbers.get(5, 0),
        entries=numbers.get(7, 0),
        levels=numbers.get(8, 1),
        first_data_block=numbers.get(9, 0),
        codec=Codec(codec),
    )
    last = size - TRAILER_BYTES
    if not (0 <= trailer.load_on_open <= trailer.file_info <= last and 1 <= trailer.levels <= _MAX_LEVELS):
        raise ValueError("its trailer names places that cannot be")
    return trailer


def file_info_of(content: bytes) -> dict[bytes, bytes]:
    """Read the content of the file info block.

    Raises:
        ValueError: it is none.
    """
    if not content.startswith(_PROTOBUF_MAGIC):
        raise ValueError("its file info is of an unknown kind")
    found: dict[bytes, bytes] = {}
    for number, pair in fields(delimited(content[len(_PROTOBUF_MAGIC) :])):
        if number != 1 or not isinstance(pair, bytes):
            raise ValueError("its file info is of an unknown kind")
        entry = dict(fields(pair))
        key, value = entry.get(1, b""), entry.get(2, b"")
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise ValueError("its file info is of an unknown kind")
        found[key] = value
    return found
