"""One partition of the metadata table: its HFiles and log blocks, and what they hold for a key or a prefix."""

from __future__ import annotations

import heapq
import io
import struct
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, TypeAlias

import fastavro

from pruner.errors import FormatError
from pruner.tables.hudi.hfile.reader import Held, HFile, SourceSection, Stored
from pruner.tables.hudi.logs import MAGIC, BlockType, HeaderKey, entries_of
from pruner.tables.hudi.metadata.listing import MetadataTimeline, metadata_slices
from pruner.tables.hudi.metadata.payloads import decode_stored, decoder, merged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pruner.storage.store import Store
    from pruner.tables.hudi.hfile.reader import ByteSource
    from pruner.tables.hudi.listing import HudiSlice
    from pruner.tables.hudi.metadata.payloads import Record

# The log files of the metadata table: HFiles and deletions in blocks of Hudi's log format, read by ranges.

_WHOLE_BYTES = 1 << 18
"""Log files up to this size are read whole: most hold the changes of one commit."""

_HEAD_BYTES = 1 << 16
"""Bytes read of a block in a larger file; the head holds the Avro schema, about 9 KB."""

_DELETE_VERSION = 3
_MAX_DELETE_BYTES = 1 << 28


@dataclass(frozen=True, slots=True)
class _Place:
    """The position of a block's content in its file."""

    type: BlockType
    header: dict[int, bytes]
    start: int
    size: int

    def text(self, key: HeaderKey) -> str:
        return self.header.get(key, b"").decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class MetadataLogBlock:
    """One block that counts: an HFile, or deleted keys. `name` tells it from every other block."""

    name: str
    hfile: HFile | None
    deleted: frozenset[bytes]


def log_blocks(sources: list[ByteSource], counts: Callable[[str], bool]) -> list[MetadataLogBlock]:
    """The blocks of the log files of one slice that count, oldest first.

    Args:
        sources: the log files, oldest first.
        counts: whether an instant counts.

    Raises:
        FormatError: a file is damaged, or has a block of a kind that is not read.
        StorageError: a file cannot be read.
    """
    blocks: list[tuple[ByteSource, _Place]] = []
    for source in sources:
        held = (
            Held(source.name, source.read([(0, source.size)])[0]) if source.size <= _WHOLE_BYTES else source
        )
        for place in _places(held):
            if place.type is BlockType.COMMAND:
                target = place.text(HeaderKey.TARGET_INSTANT)
                blocks = [(of, place) for of, place in blocks if place.text(HeaderKey.INSTANT) != target]
            elif counts(place.text(HeaderKey.INSTANT)):
                blocks.append((held, place))
    return [_block(source, place) for source, place in blocks]


def _places(source: ByteSource) -> Iterator[_Place]:
    """Yield the blocks of a file without reading their contents."""
    position = 0
    while position < source.size:
        length = min(_HEAD_BYTES, source.size - position)
        head = source.read([(position, length)])[0]
        try:
            place, position = _place(memoryview(head), position, source.size)
        except (ValueError, struct.error) as error:
            raise FormatError(f"the log file {source.name} is damaged at byte {position}: {error}") from None
        yield place


def _place(head: memoryview, position: int, file_size: int) -> tuple[_Place, int]:
    """The block at a position, given its first bytes, and the position after it."""
    if bytes(head[: len(MAGIC)]) != MAGIC:
        raise ValueError("no block begins there")
    start = len(MAGIC)
    size, version, ordinal = struct.unpack_from(">qii", head, start)
    end = position + start + 8 + size
    if size <= 0 or end > file_size:
        raise ValueError("a block is cut short")
    if version != 1 or ordinal not in tuple(BlockType):
        raise ValueError(f"a block has version {version} and type {ordinal}, which are not read")
    if end - position <= len(head) and _number_at(head, len(MAGIC) + size) != len(MAGIC) + size:
        raise ValueError("the length of a block differs at its end")
    header, behind = entries_of(head, start + 16)
    (content,) = struct.unpack_from(">q", head, behind)
    behind += 8
    if not 0 <= content <= end - position - behind:
        raise ValueError("a block names a content that cannot be")
    return _Place(BlockType(ordinal), header, position + behind, content), end


def _number_at(data: memoryview, position: int) -> int:
    return int(struct.unpack_from(">q", data, position)[0])


def _block(source: ByteSource, place: _Place) -> MetadataLogBlock:
    name = f"{source.name}@{place.start}+{place.size}"
    if place.type is BlockType.HFILE:
        return MetadataLogBlock(name, HFile(SourceSection(source, place.start, place.size)), frozenset())
    if place.type is BlockType.DELETE:
        return MetadataLogBlock(name, None, _deleted(source, place))
    raise FormatError(f"the log file {source.name} has a block of type {place.type.name}, which is not read")


def _deleted(source: ByteSource, place: _Place) -> frozenset[bytes]:
    """The keys of a block of deletions (`HoodieDeleteBlock`)."""
    if not 8 <= place.size <= _MAX_DELETE_BYTES:
        raise FormatError(f"the log file {source.name} has a block of deletions that cannot be")
    (content,) = source.read([(place.start, place.size)])
    version, length = struct.unpack_from(">ii", content)
    if version != _DELETE_VERSION or length != len(content) - 8:
        raise FormatError(
            f"the log file {source.name} has a block of deletions of version {version}, which is not read"
        )
    try:
        deleted: Any = decode_stored(io.BytesIO(content[8:]), _delete_schema(), None)
        records: list[dict[str, Any]] = deleted["deleteRecordList"]
        return frozenset((record["recordKey"] or "").encode() for record in records)
    except Exception as error:  # whatever a decoder raises for damaged bytes
        raise FormatError(f"the log file {source.name} has deletions that cannot be read: {error}") from None


@lru_cache(maxsize=1)
def _delete_schema() -> Any:
    """The Avro schema of deletions (Hudi's `HoodieDeleteRecordList.avsc`); the ordering value is skipped."""
    wrappers = [
        ("BooleanWrapper", "boolean"),
        ("IntWrapper", "int"),
        ("LongWrapper", "long"),
        ("FloatWrapper", "float"),
        ("DoubleWrapper", "double"),
        ("BytesWrapper", "bytes"),
        ("StringWrapper", "string"),
        ("DateWrapper", "int"),
        ("DecimalWrapper", "bytes"),
        ("TimeMicrosWrapper", "long"),
        ("TimestampMicrosWrapper", "long"),
    ]
    ordering: list[Any] = ["null"]
    ordering += [
        {"type": "record", "name": name, "fields": [{"name": "value", "type": type_}]}
        for name, type_ in wrappers
    ]
    record = {
        "type": "record",
        "name": "HoodieDeleteRecord",
        "fields": [
            {"name": "recordKey", "type": ["null", "string"]},
            {"name": "partitionPath", "type": ["null", "string"]},
            {"name": "orderingVal", "type": ordering},
        ],
    }
    whole = {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": record}}],
    }
    return fastavro.parse_schema(whole)


@dataclass(frozen=True)
class FileGroup:
    """One file group: a base file, where there is one, and the log blocks that count, oldest first."""

    id: str
    base_name: str
    base: HFile | None
    blocks: tuple[MetadataLogBlock, ...]

    def layers(self) -> Iterator[tuple[HFile | None, frozenset[bytes]]]:
        """Each HFile, oldest first, or the keys that were deleted at that point."""
        if self.base is not None:
            yield self.base, frozenset()
        for block in self.blocks:
            yield block.hfile, block.deleted

    def records(self, prefix: bytes = b"") -> Iterator[tuple[bytes, Record]]:
        """Yield each key with a prefix and its current record.

        Raises:
            FormatError: a file is damaged.
            StorageError: one cannot be read.
        """
        versions: dict[bytes, list[Record]] = {}
        for hfile, deleted in self.layers():
            if hfile is not None:
                decode = decoder(hfile)
                for key, value in hfile.scan(prefix):
                    versions.setdefault(key, []).append(decode(value))
            for key in deleted:
                versions.pop(key, None)
        yield from _current(versions)

    def records_in_order(self) -> Iterator[tuple[bytes, Record]]:
        """Yield what `records` does, sorted by key, holding the versions of one key at a time.

        Raises:
            FormatError: a file is damaged, or its keys are not sorted.
            StorageError: one cannot be read.
        """
        layers = [self._layer(number, *layer) for number, layer in enumerate(self.layers())]
        before: bytes | None = None
        for key, same_key in groupby(heapq.merge(*layers, key=_key_and_number), key=_key):
            if before is not None and key <= before:
                raise FormatError(f"an HFile of {self.id} in the metadata table has keys that are not sorted")
            before = key
            versions: list[Record] = []
            for _, _, decoded in same_key:
                if decoded is None:
                    versions.clear()
                else:
                    versions.append(decoded())
            record = merged(versions) if versions else None
            if record is not None:
                yield key, record

    def _layer(self, number: int, hfile: HFile | None, deleted: frozenset[bytes]) -> Iterator[_Version]:
        """The versions in one HFile, or the deletions, with the number that orders them among others."""
        if hfile is not None:
            decode = decoder(hfile)
            for key, value in hfile.scan(b""):
                yield key, number, partial(decode, value)
        else:
            yield from ((key, number, None) for key in sorted(deleted))

    def look_up(self, keys: Sequence[bytes], *, once: bool = False) -> Iterator[tuple[bytes, Record]]:
        """Yield each of some keys that is there, and its current record: see `records`, `HFile.look_up`."""
        versions: dict[bytes, list[Record]] = {}
        for hfile, deleted in self.layers():
            if hfile is not None:
                decode = decoder(hfile)
                for key, value in hfile.look_up(keys, once=once).items():
                    versions.setdefault(key, []).append(decode(value))
            for key in deleted:
                versions.pop(key, None)
        yield from _current(versions)


_Version: TypeAlias = "tuple[bytes, int, Callable[[], Record] | None]"
"""A key, the number of the layer, and the record's decoder, None where it is deleted there."""


def _key(version: _Version) -> bytes:
    return version[0]


def _key_and_number(version: _Version) -> tuple[bytes, int]:
    return version[:2]


def _current(versions: dict[bytes, list[Record]]) -> Iterator[tuple[bytes, Record]]:
    for key, records in versions.items():
        record = merged(records)
        if record is not None:
            yield key, record


def file_groups(store: Store, timeline: MetadataTimeline, partition: str) -> list[FileGroup]:
    """Open one partition of the metadata table.

    Args:
        store: the root of the metadata table.
        timeline: which instants count.
        partition: its name.

    Raises:
        FormatError: a file is damaged, or the files cannot be determined reliably.
        StorageError: the store refuses.
    """
    return [_opened(store, timeline, entry) for entry in metadata_slices(store, timeline, partition)]


def _opened(store: Store, timeline: MetadataTimeline, entry: HudiSlice) -> FileGroup:
    def stored(name: str, size: int) -> Stored:
        return Stored(store, f"{entry.partition}/{name}", size)

    base = HFile(stored(entry.base, entry.base_size)) if entry.base else None
    logs = [stored(name, size) for name, size in zip(entry.logs, entry.log_sizes, strict=True)]
    return FileGroup(entry.file_id, entry.base, base, tuple(log_blocks(list(logs), timeline.counts)))
