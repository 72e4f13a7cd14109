"""The little of Protocol Buffers that HFiles need: messages of integers and byte strings (proto2 encoding)."""

from __future__ import annotations

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
