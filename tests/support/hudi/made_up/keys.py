"""Hudi's indexes over record keys, made up: a record index and bloom filters in a metadata table without a writer."""

from __future__ import annotations

import base64
import io
import json
import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fastavro

from pruner.tables.hudi.metadata.blooms import murmur
from pruner.tables.hudi.metadata.listing import file_id, hashed_group, partition_id
from tests.support.hudi.made_up.files import Group
from tests.support.hudi.made_up.hfiles import HFileWriter
from tests.support.hudi.made_up.metadata import INITIAL, SyntheticMetadata, log_block

_LOCATION = {
    "type": "record",
    "name": "HoodieRecordIndexInfo",
    "fields": [
        {"name": "partitionName", "type": "string"},
        {"name": "fileIdHighBits", "type": "long"},
        {"name": "fileIdLowBits", "type": "long"},
        {"name": "fileIndex", "type": "int"},
        {"name": "fileId", "type": "string"},
        {"name": "instantTime", "type": "long"},
        {"name": "fileIdEncoding", "type": "int"},
    ],
}
_FILTER = {
    "type": "record",
    "name": "HoodieMetadataBloomFilter",
    "fields": [
        {"name": "type", "type": "string"},
        {"name": "timestamp", "type": "string"},
        {"name": "bloomFilter", "type": "bytes"},
        {"name": "isDeleted", "type": "boolean"},
    ],
}
_SECONDARY = {
    "type": "record",
    "name": "HoodieSecondaryIndexInfo",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"], "default": None},
        {"name": "isDeleted", "type": "boolean"},
    ],
}
SCHEMA_TEXT = json.dumps(
    {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "type", "type": "int"},
            {"name": "BloomFilterMetadata", "type": ["null", _FILTER]},
            {"name": "recordIndexMetadata", "type": ["null", _LOCATION]},
            {"name": "SecondaryIndexMetadata", "type": ["null", _SECONDARY]},
        ],
    }
)
_DELETION = {
    "type": "record",
    "name": "HoodieDeleteRecord",
    "fields": [
        {"name": "recordKey", "type": ["null", "string"]},
        {"name": "partitionPath", "type": ["null", "string"], "default": None},
        {"name": "orderingVal", "type": ["null"], "default": None},
    ],
}
_DELETIONS: Any = fastavro.parse_schema(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "fields": [{"name": "deleteRecordList", "type": {"type": "array", "items": _DELETION}}],
    }
)
_SCHEMA: Any = fastavro.parse_schema(json.loads(SCHEMA_TEXT))
_encode: Any = getattr(fastavro, "schemaless_writer")  # noqa: B009 - its type is left open


def location(partition: str, id_: str, *, by_name: bool = False) -> bytes:
    """A record of the record index, with the file id as two numbers or as it is written."""
    text, _, number = ("", "", "-1") if by_name else id_.rpartition("-")
    bits = 0 if by_name else uuid.UUID(text).int
    high, low = struct.unpack(">qq", bits.to_bytes(16, "big"))
    place = {
        "partitionName": partition,
        "fileIdHighBits": high,
        "fileIdLowBits": low,
        "fileIndex": int(number),
        "fileId": id_ if by_name else "",
        "instantTime": 1,
        "fileIdEncoding": int(by_name),
    }
    return _record(5, recordIndexMetadata=place)


def entry(key: str, *, deleted: bool = False) -> bytes:
    """A record of a secondary index."""
    return _record(7, SecondaryIndexMetadata={"recordKey": key, "isDeleted": deleted})


def _record(type_: int, **parts: Any) -> bytes:
    out = io.BytesIO()
    empty = dict.fromkeys(("BloomFilterMetadata", "recordIndexMetadata", "SecondaryIndexMetadata"))
    _encode(out, _SCHEMA, {"key": "", "type": type_, **empty, **parts})
    return out.getvalue()


def hadoop_filter(keys: Iterable[str], *, bits: int = 2048, hashes: int = 7, rows: int = 0) -> bytes:
    """A bloom filter in Hadoop's layout: plain, or of so many rows among which the keys are dealt out."""
    dealt: list[list[str]] = [[] for _ in range(max(rows, 1))]
    for number, key in enumerate(keys):
        dealt[number % len(dealt)].append(key)
    header = struct.pack(">iibi", -1, hashes, 1, bits)
    plain = b"".join(header + _bits(each, bits, hashes) for each in dealt)
    if rows:
        plain = header + struct.pack(">iii", 100, len(dealt[-1]), rows) + plain
    return base64.b64encode(plain)


def _bits(keys: Iterable[str], bits: int, hashes: int) -> bytes:
    found = bytearray((bits + 7) // 8)
    for key in keys:
        seed = 0
        for _ in range(hashes):
            seed = murmur(key.encode(), seed)
            place = abs(seed) % bits
            found[place >> 3] |= 1 << (place & 7)
    return bytes(found)


@dataclass
class SyntheticKeys:
    """Writes indexes over record keys into a metadata table that has been created."""

    metadata: SyntheticMetadata
    groups: int = 3

    def locate(
        self, places: Mapping[str, Group], *, by_name: bool = False, twice: Mapping[str, Group] | None = None
    ) -> None:
        """Write base files of a record index: for each key the group where it is, and cells behind for some."""
        cells = {
            key: location(group.partition, group.file_id, by_name=by_name) for key, group in places.items()
        }
        behind = {key: location(each.partition, each.file_id) for key, each in (twice or {}).items()}
        self._write("record_index", "record-index", cells, behind)

    def begin(self, partition: str = "record_index") -> None:
        """Make a partition without base files, as a table's first commit does: its keys go into log files."""
        folder = self.metadata.root / partition
        folder.mkdir()
        (folder / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=1\n")

    def filter(self, filters: Mapping[Group, tuple[str, bytes]]) -> None:
        """Write base files of bloom filters: for each group the kind and the content of that of its base file."""
        cells = {
            (partition_id(group.partition) + file_id(group.base)).decode(): _record(
                4,
                BloomFilterMetadata={
                    "type": kind,
                    "timestamp": INITIAL,
                    "bloomFilter": content,
                    "isDeleted": False,
                },
            )
            for group, (kind, content) in filters.items()
        }
        self._write("bloom_filters", "bloom-filters", cells)

    def define(
        self, name: str, *columns: str, function: str = "identity", using: str = "secondary_index"
    ) -> None:
        """Write the definition of an index, the only one."""
        folder = self.metadata.table / ".hoodie" / ".index_defs"
        folder.mkdir(exist_ok=True)
        stored = {
            "indexName": name,
            "indexType": using,
            "indexFunction": function,
            "sourceFields": columns,
            "indexOptions": {},
        }
        (folder / "index.json").write_text(json.dumps({"indexDefinitions": {name: stored}}))

    def second(self, name: str, entries: Iterable[tuple[str, str]]) -> None:
        """Write base files of a secondary index: pairs of a value as it stands in a key, and a record key."""
        cells = {f"{value}${key}": entry(key) for value, key in entries}
        self._write(name, name.replace("_", "-"), cells)

    def second_log(self, name: str, instant: str, entries: Mapping[tuple[str, str], bool]) -> None:
        """Write log files of a secondary index: pairs as above, and whether each is deleted."""
        found = {f"{value}${key}": entry(key, deleted=gone) for (value, key), gone in entries.items()}
        for number in range(self.groups):
            cells = {key: cell for key, cell in found.items() if hashed_group(key, self.groups) == number}
            if cells:
                block = log_block(4, {0: instant, 2: SCHEMA_TEXT}, _hfile(cells))
                self._append(name, f"{name.replace('_', '-')}-{number:04}-0", block)

    def log(self, instant: str, places: Mapping[str, Group], deleted: Sequence[str] = ()) -> None:
        """Write log files of the record index: keys with their places, then keys that are deleted."""
        for number in range(self.groups):
            cells = {
                key: location(group.partition, group.file_id)
                for key, group in places.items()
                if hashed_group(key, self.groups) == number
            }
            gone = [key for key in deleted if hashed_group(key, self.groups) == number]
            blocks = [log_block(4, {0: instant, 2: SCHEMA_TEXT}, _hfile(cells))] if cells else []
            blocks += [log_block(1, {0: instant}, deletions(gone))] if gone else []
            for block in blocks:
                self._append("record_index", f"record-index-{number:04}-0", block)

    def _append(self, partition: str, group: str, block: bytes) -> None:
        folder = self.metadata.root / partition
        prefix = f".{group}_{INITIAL}.log."
        version = sum(1 for path in folder.iterdir() if path.name.startswith(prefix)) + 1
        (folder / f"{prefix}{version}_0-0-0").write_bytes(block)

    def _write(
        self,
        partition: str,
        prefix: str,
        cells: Mapping[str, bytes],
        twice: Mapping[str, bytes] | None = None,
    ) -> None:
        self.begin(partition)
        folder: Path = self.metadata.root / partition
        for number in range(self.groups):
            chosen, behind = (
                {key: value for key, value in each.items() if hashed_group(key, self.groups) == number}
                for each in (cells, twice or {})
            )
            name = f"{prefix}-{number:04}-0_0-1-1_{INITIAL}.hfile"
            (folder / name).write_bytes(_hfile(chosen, behind))


def _hfile(cells: Mapping[str, bytes], twice: Mapping[str, bytes] | None = None) -> bytes:
    """An HFile with its keys in the order in which Hudi writes them, that of Java's text."""
    pairs = [*cells.items(), *(twice or {}).items()]
    ordered = sorted(pairs, key=lambda pair: pair[0].encode("utf-16-be"))
    # Hudi writes cells of one key into one block.
    writer = HFileWriter(info={b"schema": SCHEMA_TEXT.encode()}, block_bytes=1 << 16 if twice else 256)
    return writer.write([(key.encode(), value) for key, value in ordered])


def deletions(keys: Sequence[str]) -> bytes:
    """The content of a block of deletions (`HoodieDeleteRecordList`), which have no ordering value."""
    out = io.BytesIO()
    _encode(out, _DELETIONS, {"deleteRecordList": [{"recordKey": key} for key in keys]})
    content = out.getvalue()
    return struct.pack(">ii", 3, len(content)) + content
