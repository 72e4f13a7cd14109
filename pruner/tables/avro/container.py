"""Avro's object container files: a header with the schema, and blocks of records, decompressed within bounds.

Source: the Avro specification, "Object Container Files" and "Required Codecs".
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from pruner.tables.avro.columns import NotColumnarError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_BLOCK: Final = 1 << 28
"""Maximum size of one decompressed block in bytes."""

_MAGIC: Final = b"Obj\x01"
_SYNC_BYTES: Final = 16
_MOST_ENTRIES: Final = 10_000
_LAST_SHIFT: Final = 63
_CHECKSUM_BYTES: Final = 4
_PIECE: Final = 1 << 20


class FileHeader(NamedTuple):
    """The header before the blocks."""

    schema_text: bytes
    codec: str
    sync: bytes
    end: int
    metadata: dict[bytes, bytes]


class DataBlock(NamedTuple):
    """Consecutive records."""

    records: int
    data: bytes


def read_header(data: bytes) -> FileHeader:
    """Return the header of a file.

    Raises:
        NotColumnarError: it is damaged.
    """
    if not data.startswith(_MAGIC):
        raise NotColumnarError("it is no Avro file")
    entries: dict[bytes, bytes] = {}
    count, at = number(data, len(_MAGIC))
    while count:
        if count < 0:
            count = -count
            _, at = number(data, at)
        if count > _MOST_ENTRIES:
            raise NotColumnarError("its header has too many entries")
        for _ in range(count):
            name, at = _text(data, at)
            entries[name], at = _text(data, at)
        count, at = number(data, at)
    sync = data[at : at + _SYNC_BYTES]
    if len(sync) < _SYNC_BYTES or b"avro.schema" not in entries:
        raise NotColumnarError("its header is cut short")
    codec = entries.get(b"avro.codec", b"null").decode("utf-8", "replace")
    return FileHeader(entries[b"avro.schema"], codec, sync, at + _SYNC_BYTES, entries)


def schema_of(schema_text: bytes) -> Any:
    """Parse the text of a schema.

    Raises:
        NotColumnarError: it is not JSON.
    """
    try:
        return msgspec.json.decode(schema_text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotColumnarError(f"its schema is no JSON: {error}") from None


def blocks(data: bytes, header: FileHeader) -> Iterator[DataBlock]:
    """Yield the blocks of a file, decompressed.

    Raises:
        NotColumnarError: a block is damaged, larger than `MOST_BLOCK`, or compressed with an unknown codec.
    """
    unpack = _CODECS.get(header.codec)
    if unpack is None:
        raise NotColumnarError(f"it is packed by {header.codec!r}, which is not known")
    at = header.end
    while at < len(data):
        count, at = number(data, at)
        size, at = number(data, at)
        end = at + size
        if count < 0 or size < 0 or data[end : end + _SYNC_BYTES] != header.sync:
            raise NotColumnarError("a block does not end where it says")
        try:
            unpacked = unpack(data[at:end])
        except (zlib.error, OSError, EOFError, ValueError, lzma.LZMAError) as error:
            raise NotColumnarError(f"a block cannot be unpacked: {error}") from None
        if len(unpacked) > MOST_BLOCK:
            raise NotColumnarError("a block is too large")
        yield DataBlock(count, unpacked)
        at = end + _SYNC_BYTES


def number(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset after it.

    Raises:
        NotColumnarError: it is truncated or too long.
    """
    value = shift = 0
    try:
        while (byte := data[at]) > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            at += 1
            if shift > _LAST_SHIFT:
                raise NotColumnarError("a number is too long")
    except IndexError:
        raise NotColumnarError("it is cut short") from None
    value |= byte << shift
    return (value >> 1) ^ -(value & 1), at + 1


def _text(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = number(data, at)
    if size < 0 or at + size > len(data):
        raise NotColumnarError("its header is cut short")
    return data[at : at + size], at + size


def _inflated(data: bytes) -> bytes:
    return _whole(zlib.decompressobj(wbits=-zlib.MAX_WBITS), data)


def _whole(unpacking: Any, data: bytes) -> bytes:
    content = unpacking.decompress(data, MOST_BLOCK + 1)
    if len(content) <= MOST_BLOCK and not unpacking.eof:
        raise EOFError("it is cut short")
    return content


def _snappy(data: bytes) -> bytes:
    """Snappy itself puts the size in front; Avro appends a checksum."""
    packed, stored = data[:-_CHECKSUM_BYTES], data[-_CHECKSUM_BYTES:]
    size = shift = 0
    for byte in packed[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > MOST_BLOCK:
        raise ValueError("it is too large")
    content = pa.Codec("snappy").decompress(packed, size, asbytes=True)
    if zlib.crc32(content).to_bytes(_CHECKSUM_BYTES, "big") != stored:
        raise ValueError("its checksum is another")
    return content


def _zstandard(data: bytes) -> bytes:
    pieces: list[bytes] = []
    left = MOST_BLOCK + 1
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        while left and (piece := stream.read(min(left, _PIECE))):
            pieces.append(piece)
            left -= len(piece)
    return b"".join(pieces)


_CODECS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "null": bytes,
    "deflate": _inflated,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": lambda data: _whole(bz2.BZ2Decompressor(), data),
    "xz": lambda data: _whole(lzma.LZMADecompressor(), data),
}
