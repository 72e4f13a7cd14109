"""The blocks of a Hudi log file (Hudi technical specification, "Log File Format"; `HoodieLogFormatWriter`).

A file is a sequence of blocks: the magic, the size of the rest, version, type, header, content, footer, and the
size once more for readers that begin at the end. All numbers are big-endian. Anything else is refused: a writer
that died leaves half a block, and each engine skips it by its own rules.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.storage.opening import open_for_arrow

if TYPE_CHECKING:
    from collections.abc import Mapping

MAGIC = b"#HUDI#"
_VERSIONS = (1,)
_MAX_ENTRIES = 64
LOG_BYTES = 1 << 31
"""Largest log file that is read: all of it is in memory."""
_MAX_CONTENT_BYTES = 1 << 31


class BlockType(IntEnum):
    """The content of a block, by its ordinal (`HoodieLogBlock.HoodieLogBlockType`)."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO = 3
    HFILE = 4
    PARQUET = 5
    CDC = 6


class HeaderKey(IntEnum):
    """The header entries that matter here, by their ordinal (`HoodieLogBlock.HeaderMetadataType`)."""

    INSTANT = 0
    TARGET_INSTANT = 1
    SCHEMA = 2


@dataclass(frozen=True, slots=True)
class LogBlock:
    """One block; `content` and `whole`, from its magic to its end, are views of the file's bytes."""

    type: BlockType
    header: dict[int, bytes]
    content: memoryview
    whole: memoryview

    @property
    def instant(self) -> str:
        """The instant that wrote the block; empty where it does not say."""
        return self._text(HeaderKey.INSTANT)

    @property
    def target(self) -> str:
        """The instant that a command block rolls back; empty for other blocks."""
        return self._text(HeaderKey.TARGET_INSTANT) if self.type is BlockType.COMMAND else ""

    @property
    def schema(self) -> str:
        """The Avro schema of the records; empty where there is none."""
        return self._text(HeaderKey.SCHEMA)

    def _text(self, key: HeaderKey) -> str:
        return self.header.get(key, b"").decode("utf-8", "replace")


def log_bytes(uri: str, options: Mapping[str, str]) -> bytes:
    """Read one log file.

    Raises:
        ValueError: it is larger than the limit.
        OSError, StorageError: it cannot be read.
    """
    source = open_for_arrow(uri, None, options)
    file: pa.NativeFile = pa.OSFile(source, "rb") if isinstance(source, str) else source
    with file:
        if file.size() > LOG_BYTES:
            raise ValueError(f"the log file {uri} has {file.size()} bytes, more than are read")
        return file.read()


def blocks(data: bytes) -> Iterator[LogBlock]:
    """Yield the blocks of a log file.

    Raises:
        ValueError: the bytes are not those of whole blocks of a known version.
    """
    view = memoryview(data)
    position = 0
    while position < len(view):
        if bytes(view[position : position + len(MAGIC)]) != MAGIC:
            raise ValueError(f"no block of a log file begins at byte {position}")
        position += len(MAGIC)
        (size,) = _unpack(">q", view, position)
        end = position + 8 + size
        if size <= 0 or end > len(view):
            raise ValueError(f"the block at byte {position - len(MAGIC)} is cut short or names a wrong size")
        yield _block(view[position + 8 : end], view[position - len(MAGIC) : end])
        position = end


def _block(body: memoryview, whole: memoryview) -> LogBlock:
    version, ordinal = _unpack(">ii", body, 0)
    if version not in _VERSIONS or ordinal not in tuple(BlockType):
        raise ValueError(f"a block has version {version} and type {ordinal}, which pruner does not know")
    header, position = entries_of(body, 8)
    (length,) = _unpack(">q", body, position)
    position += 8
    if not 0 <= length <= min(len(body) - position, _MAX_CONTENT_BYTES):
        raise ValueError(f"a block names a content of {length} bytes, which cannot be")
    content = body[position : position + length]
    _, position = entries_of(body, position + length)
    if _unpack(">q", body, position) != (len(whole) - 8,) or position + 8 != len(body):
        raise ValueError("the sizes before and behind a block differ")
    return LogBlock(BlockType(ordinal), header, content, whole)


def entries_of(body: memoryview, position: int) -> tuple[dict[int, bytes], int]:
    """Return the entries of a header or footer and the position after them.

    Raises:
        ValueError: they are cut short, or impossible.
    """
    (count,) = _unpack(">i", body, position)
    position += 4
    if not 0 <= count <= _MAX_ENTRIES:
        raise ValueError(f"a block has {count} header entries, which cannot be")
    entries: dict[int, bytes] = {}
    for _ in range(count):
        key, length = _unpack(">ii", body, position)
        position += 8
        if not 0 <= length <= len(body) - position:
            raise ValueError(f"a header entry names {length} bytes, which cannot be")
        entries[key] = bytes(body[position : position + length])
        position += length
    return entries, position


def records(content: memoryview) -> Iterator[memoryview]:
    """Yield the encoded records of the content of an Avro data block (`HoodieAvroDataBlock`).

    Raises:
        ValueError: the content does not consist of as many records as it says.
    """
    _, count = _unpack(">ii", content, 0)
    position = 8
    for _ in range(count):
        (length,) = _unpack(">i", content, position)
        position += 4
        if not 0 <= length <= len(content) - position:
            raise ValueError(f"a record names {length} bytes, which cannot be")
        yield content[position : position + length]
        position += length
    if position != len(content):
        raise ValueError("a data block is longer than its records")


def _unpack(layout: str, data: memoryview, position: int) -> tuple[int, ...]:
    try:
        return struct.unpack_from(layout, data, position)
    except struct.error:
        raise ValueError("a block ends before its header does") from None
