"""A metadata table of version 6 beside a table of `files`, without a writer: its statistics are made up.

The Avro schema has the parts of Hudi's that statistics use; a reader goes by the schema that stands in each HFile.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import fastavro

from pruner.tables.hudi.metadata.listing import column_id, file_id, partition_id
from tests.support.hudi.made_up.hfiles import HFileWriter

INITIAL = "00000000000000011"
"""The instant at which the metadata table was made."""

_WRAPPERS = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "DoubleWrapper": "double",
}
_WRAPPERS |= {
    "FloatWrapper": "float",
    "BytesWrapper": "bytes",
    "StringWrapper": "string",
    "DateWrapper": "int",
}
_BY_TYPE = {bool: "BooleanWrapper", int: "LongWrapper", float: "DoubleWrapper", str: "StringWrapper"}


def _schema(*, of_today: bool = True) -> dict[str, Any]:
    wrapped: list[Any] = ["null"]
    wrapped += [
        {"type": "record", "name": name, "fields": [{"name": "value", "type": type_}]}
        for name, type_ in _WRAPPERS.items()
    ]
    value_type = {
        "type": "record",
        "name": "HoodieValueTypeInfo",
        "fields": [{"name": "typeOrdinal", "type": "int"}],
    }
    kinds: list[tuple[str, Any]] = [
        ("fileName", ["null", "string"]),
        ("columnName", ["null", "string"]),
        ("minValue", wrapped),
        ("maxValue", ["null", *_WRAPPERS]),
        *(
            (name, ["null", "long"])
            for name in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
        ),
        ("isDeleted", "boolean"),
        *([("isTightBound", "boolean"), ("valueType", ["null", value_type])] if of_today else []),
    ]
    stats = {
        "type": "record",
        "name": "HoodieMetadataColumnStats",
        "fields": [{"name": name, "type": type_} for name, type_ in kinds],
    }
    return {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "fields": [
            {"name": "key", "type": "string"},
            {"name": "type", "type": "int"},
            {"name": "ColumnStatsMetadata", "type": ["null", stats]},
        ],
    }


SCHEMA_TEXT = json.dumps(_schema())
OLD_SCHEMA_TEXT = json.dumps(_schema(of_today=False))
"""As Hudi 0.x has it."""

_encode: Any = getattr(fastavro, "schemaless_writer")  # noqa: B009 - its type is left open


@lru_cache(maxsize=8)
def _parsed(schema: str) -> Any:
    return fastavro.parse_schema(json.loads(schema))


@dataclass(frozen=True)
class Stat:
    """Statistics of one column of one file; `ordinal` is Hudi's number of the type, where the record names it."""

    partition: str
    file: str
    column: str
    low: bool | int | float | str | None
    high: bool | int | float | str | None
    values: int | None = 1
    nulls: int | None = 0
    size: int = 100
    deleted: bool = False
    tight: bool = False
    ordinal: int | None = None

    @property
    def key(self) -> bytes:
        """The key of the record."""
        return column_id(self.column) + partition_id(self.partition) + file_id(self.file)

    def encoded(self, schema: str = SCHEMA_TEXT) -> bytes:
        """The record as Avro."""
        stats = {
            "fileName": self.file,
            "columnName": self.column,
            "minValue": _wrapped(self.low),
            "maxValue": _wrapped(self.high),
            "valueCount": self.values,
            "nullCount": self.nulls,
            "totalSize": self.size,
            "totalUncompressedSize": self.size,
            "isDeleted": self.deleted,
            "isTightBound": self.tight,
            "valueType": None if self.ordinal is None else {"typeOrdinal": self.ordinal},
        }
        out = io.BytesIO()
        _encode(
            out,
            fastavro.parse_schema(json.loads(schema)),
            {"key": "", "type": 3, "ColumnStatsMetadata": stats},
        )
        return out.getvalue()


def _wrapped(value: Any) -> Any:
    return None if value is None else (_BY_TYPE[type(value)], {"value": value})


def hfile_of(stats: Iterable[Stat], schema: str = SCHEMA_TEXT, **how: Any) -> bytes:
    """An HFile of statistics, one for each key."""
    cells = sorted((stat.key, stat.encoded(schema)) for stat in stats)
    return HFileWriter(info={b"schema": schema.encode()}, **how).write(cells)


def log_block(type_: int, header: Mapping[int, str], content: bytes = b"") -> bytes:
    """One block of a log file."""

    def entries(values: Mapping[int, str]) -> bytes:
        packed = b"".join(struct.pack(">ii", key, len(text)) + text.encode() for key, text in values.items())
        return struct.pack(">i", len(values)) + packed

    body = (
        struct.pack(">ii", 1, type_)
        + entries(header)
        + struct.pack(">q", len(content))
        + content
        + entries({})
    )
    size = len(body) + 8
    return b"#HUDI#" + struct.pack(">q", size) + body + struct.pack(">q", size + 6)


@dataclass
class SyntheticMetadata:
    """The metadata table of a table; `groups` file groups take the keys in turn."""

    table: Path
    groups: int = 2
    partitions: str = "column_stats,files"
    inflight: str = ""
    how: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def root(self) -> Path:
        """The folder of the metadata table."""
        return self.table / ".hoodie" / "metadata"

    def create(self, stats: Sequence[Stat]) -> None:
        """Write base files of statistics, and name the partitions in the table's properties."""
        properties = self.table / ".hoodie" / "hoodie.properties"
        with properties.open("a") as file:
            file.write(f"hoodie.table.metadata.partitions={self.partitions}\n")
            file.write(f"hoodie.table.metadata.partitions.inflight={self.inflight}\n")
        timeline = self.root / ".hoodie"
        timeline.mkdir(parents=True)
        (timeline / "hoodie.properties").write_text(
            "hoodie.table.version=6\nhoodie.table.type=MERGE_ON_READ\nhoodie.table.base.file.format=HFILE\n"
        )
        self.complete(INITIAL)
        self.write("column_stats", "col-stats", stats)

    def write(self, partition: str, prefix: str, stats: Sequence[Stat]) -> None:
        """Write base files of statistics in a partition of its own."""
        folder = self.root / partition
        folder.mkdir()
        (folder / ".hoodie_partition_metadata").write_text("commitTime=1\npartitionDepth=1\n")
        for number in range(self.groups):
            name = f"{prefix}-{number:04}-0_0-1-1_{INITIAL}.hfile"
            (folder / name).write_bytes(hfile_of(stats[number :: self.groups], **self.how))

    def complete(self, instant: str) -> None:
        """Let an instant of the metadata table be complete."""
        (self.root / ".hoodie" / f"{instant}.deltacommit").write_bytes(b"{}")

    def append(self, instant: str, stats: Sequence[Stat], *, group: int = 0) -> Path:
        """Write a log file with one block of statistics; the instant is not completed by it."""
        return self.append_block(
            log_block(4, {0: instant, 2: SCHEMA_TEXT}, hfile_of(stats, **self.how)), group=group
        )

    def append_block(self, block: bytes, *, group: int = 0) -> Path:
        """Write a log file of one block."""
        folder = self.root / "column_stats"
        prefix = f".col-stats-{group:04}-0_{INITIAL}.log."
        version = sum(1 for path in folder.iterdir() if path.name.startswith(prefix)) + 1
        target = folder / f"{prefix}{version}_0-0-0"
        target.write_bytes(block)
        return target
