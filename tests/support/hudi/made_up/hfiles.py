"""Writes HFiles in every shape that HBase and Hudi write: levels of index, compression, checksums."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pruner.tables.hudi.hfile.blocks import Codec, crc32c

TRAILER_BYTES = 4096
_CHECKSUMS: Mapping[int, Callable[[bytes], int]] = {0: lambda _: 0, 1: zlib.crc32, 2: crc32c}
Entry = tuple[int, int, bytes]
"""Offset and size of a block, and its first key."""


@dataclass(frozen=True)
class HFileWriter:
    """How an HFile is written; `levels` of index have `fanout` entries in each block but the root."""

    codec: Codec = Codec.GZIP
    block_bytes: int = 1 << 16
    levels: int = 1
    fanout: int = 4
    checksum: int = 0
    bytes_per_checksum: int = 1 << 14
    info: Mapping[bytes, bytes] = field(default_factory=dict[bytes, bytes])

    def write(self, cells: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return an HFile of some cells, which are sorted."""
        return self.write_blocks(
            (b"".join(cell(key, value) for key, value in chunk), chunk[0][0], len(chunk))
            for chunk in self._chunks(cells)
        )

    def write_blocks(self, blocks: Iterable[tuple[bytes, bytes, int]]) -> bytes:
        """Return an HFile of data blocks: the cells of each, its first key, and how many cells it has."""
        out = bytearray()
        entries: list[Entry] = []
        count = 0
        for content, first, cells in blocks:
            entries.append((len(out), self._add(out, b"DATABLK*", content), first))
            count += cells
        for level in range(1, self.levels):
            magic = b"IDXLEAF2" if level == 1 else b"IDXINTE2"
            entries = [
                (len(out), self._add(out, magic, inner_index(part)), part[0][2])
                for start in range(0, len(entries), self.fanout)
                if (part := entries[start : start + self.fanout])
            ]
        load_on_open = len(out)
        root = b"".join(
            struct.pack(">qi", at, size) + hadoop(len(row) + 2) + row_key(row) for at, size, row in entries
        )
        self._add(out, b"IDXROOT2", root)
        file_info = len(out)
        given = {b"KEY_VALUE_VERSION": b"\0\0\0\1", b"MAX_MEMSTORE_TS_KEY": bytes(8), **self.info}
        pairs = b"".join(
            message(1, message(1, key) + message(2, value)) for key, value in sorted(given.items())
        )
        self._add(out, b"FILEINF2", b"PBUF" + varint(len(pairs)) + pairs)
        numbers = {
            1: file_info,
            2: load_on_open,
            5: len(entries),
            7: count,
            8: self.levels,
            12: int(self.codec),
        }
        proto = b"".join(varint(number << 3) + varint(value) for number, value in numbers.items())
        trailer = b'TRABLK"$' + varint(len(proto)) + proto
        return bytes(out) + trailer.ljust(TRAILER_BYTES - 4, b"\0") + struct.pack(">i", 3)

    def _chunks(self, cells: Sequence[tuple[bytes, bytes]]) -> Iterator[list[tuple[bytes, bytes]]]:
        chunk: list[tuple[bytes, bytes]] = []
        size = 0
        for key, value in cells:
            chunk.append((key, value))
            size += len(key) + len(value)
            if size >= self.block_bytes:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _add(self, out: bytearray, magic: bytes, content: bytes) -> int:
        data = gzip.compress(content, mtime=0) if self.codec is Codec.GZIP else content
        with_header = 33 + len(data)
        count = -(-with_header // self.bytes_per_checksum)
        header = struct.pack(
            ">8siiqBii",
            magic,
            len(data) + 4 * count,
            len(content),
            -1,
            self.checksum,
            self.bytes_per_checksum,
            with_header,
        )
        block = header + data
        step = self.bytes_per_checksum
        sums = (
            _CHECKSUMS[self.checksum](block[start : start + step]) for start in range(0, with_header, step)
        )
        block += b"".join(struct.pack(">I", value) for value in sums)
        out += block
        return len(block)


def cell(key: bytes, value: bytes) -> bytes:
    """One cell as Hudi writes it: a row without family and qualifier, and a version number of 0 behind the value."""
    full = row_key(key) + b"\0" + struct.pack(">qB", 2**63 - 1, 4)
    return struct.pack(">ii", len(full), len(value)) + full + value + b"\0"


def row_key(row: bytes) -> bytes:
    """The start of a key: its row, with the length."""
    return struct.pack(">h", len(row)) + row


def inner_index(entries: Sequence[Entry]) -> bytes:
    """The content of an index block below the root."""
    bodies = [struct.pack(">qi", at, size) + row_key(row) for at, size, row in entries]
    places = [0]
    for body in bodies:
        places.append(places[-1] + len(body))
    return struct.pack(f">i{len(places)}i", len(entries), *places) + b"".join(bodies)


def hadoop(value: int) -> bytes:
    """A number that is not negative, as `WritableUtils.writeVLong` writes it."""
    if value <= 127:
        return bytes([value])
    data = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(data)]) + data


def varint(value: int) -> bytes:
    """A number as Protocol Buffers write it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def message(number: int, data: bytes) -> bytes:
    """A field of bytes as Protocol Buffers write it."""
    return varint(number << 3 | 2) + varint(len(data)) + data
