"""One block of an HFile: its header, its checksums, its content as it was before compression."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HEADER_BYTES = 33
MAX_BLOCK_BYTES = 1 << 28
"""Largest content of a block that is read; a block of one record is as large as the record."""

DATA = b"DATABLK*"
ROOT_INDEX = b"IDXROOT2"
INNER_INDEX = (b"IDXINTE2", b"IDXLEAF2")
FILE_INFO = b"FILEINF2"
_HEADER = struct.Struct(">8siiqBii")


class Codec(IntEnum):
    """How blocks are compressed, by HBase's ordinals; Hudi writes these two."""

    GZIP = 1
    NONE = 2


@dataclass(frozen=True, slots=True)
class Header:
    """`stored` are the bytes behind the header, checksums included; `data` those of them that are content."""

    magic: bytes
    stored: int
    content: int
    checksum: int
    bytes_per_checksum: int
    data: int


def header_of(block: bytes) -> Header:
    """Read the header of a block.

    Raises:
        ValueError: there is none, or it contradicts itself.
    """
    if len(block) < HEADER_BYTES:
        raise ValueError("a block is cut short")
    magic, stored, content, _, checksum, per, data_with_header = _HEADER.unpack_from(block)
    data = data_with_header - HEADER_BYTES
    if not (0 <= data <= stored <= MAX_BLOCK_BYTES and 0 <= content <= MAX_BLOCK_BYTES):
        raise ValueError("a block names sizes that cannot be")
    return Header(magic, stored, content, checksum, per, data)


def content_of(block: bytes, codec: Codec, *magics: bytes) -> bytes:
    """Return the content of a block that has one of some magics.

    Raises:
        ValueError: it is another block, is cut short, or fails a checksum.
    """
    header = header_of(block)
    if header.magic not in magics:
        raise ValueError(f"a block is called {header.magic!r} where {magics[0]!r} is expected")
    if len(block) < HEADER_BYTES + header.stored:
        raise ValueError("a block is cut short")
    _check(block, header)
    data = block[HEADER_BYTES : HEADER_BYTES + header.data]
    content = data if codec is Codec.NONE else _unzipped(data, header.content)
    if len(content) != header.content:
        raise ValueError(
            f"a block has {len(content)} bytes of content where its header says {header.content}"
        )
    return content


def _unzipped(data: bytes, size: int) -> bytes:
    """Decompress at most what the header promises; gzip's own checksum is checked."""
    unzip = zlib.decompressobj(wbits=31)
    try:
        content = unzip.decompress(data, size + 1)
    except zlib.error as error:
        raise ValueError(f"a block cannot be decompressed ({error})") from None
    if not unzip.eof or unzip.unused_data:
        raise ValueError("a block is no whole gzip stream")
    return content


def _check(block: bytes, header: Header) -> None:
    """Compare the checksums behind the content, where the writer made any."""
    if header.checksum == 0:
        return
    checksum = _CHECKSUMS.get(header.checksum)
    if checksum is None or header.bytes_per_checksum <= 0:
        raise ValueError(f"a block has checksums of the unknown kind {header.checksum}")
    end = HEADER_BYTES + header.data
    covered = memoryview(block)[:end]
    starts = range(0, end, header.bytes_per_checksum)
    sums = block[end : HEADER_BYTES + header.stored]
    if len(sums) != 4 * len(starts):
        raise ValueError("a block has another number of checksums than it needs")
    for number, start in enumerate(starts):
        expected = int.from_bytes(sums[4 * number : 4 * number + 4], "big")
        if checksum(covered[start : start + header.bytes_per_checksum]) != expected:
            raise ValueError("a block fails its checksum")


def _castagnoli_table() -> tuple[int, ...]:
    table: list[int] = []
    for value in range(256):
        remainder = value
        for _ in range(8):
            remainder = (remainder >> 1) ^ (0x82F63B78 if remainder & 1 else 0)
        table.append(remainder)
    return tuple(table)


_CASTAGNOLI = _castagnoli_table()


def crc32c(data: bytes | memoryview) -> int:
    """CRC-32C, which HBase's own writer uses. Hudi's writes none, so speed matters little."""
    value = 0xFFFFFFFF
    for byte in data:
        value = (value >> 8) ^ _CASTAGNOLI[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


_CHECKSUMS: dict[int, Callable[[bytes | memoryview], int]] = {1: zlib.crc32, 2: crc32c}
"""By HBase's ordinals (`ChecksumType`)."""
