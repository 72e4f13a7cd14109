"""Iceberg tables with metadata only: manifests in blocks as Java's writer cuts and packs them."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

COLUMNS: Final = {
    "id": "long",
    "at": "timestamptz",
    "day": "date",
    "price": "double",
    "amount": "decimal(18, 2)",
    "name": "string",
    "city": "string",
    "flag": "int",
}
_UUID: Final = "5f1d6f0e-7c0b-4a4b-9d55-0d2f8c7e4f10"
ROWS: Final = 10
_IN_MANIFEST: Final = 40_000
"""Files of one manifest: 2.6 MB, where Java's writer starts another one at 8."""

_SYNC: Final = 64_000
"""Bytes after which Java's Avro starts another block."""

_EPOCH: Final = 1_704_067_200_000_000
_AVRO: Final = AvroSchemaConversion()


def write_table(root: Path, count: int) -> None:
    """Write a table of one snapshot with some files."""
    (root / "metadata").mkdir(parents=True)
    manifests = [
        _manifest(root, f"m{number}.avro", start, min(start + _IN_MANIFEST, count), 1)
        for number, start in enumerate(range(0, count, _IN_MANIFEST))
    ]
    snapshot(root, 1, manifests)


def append(root: Path, version: int, files: int = 1) -> None:
    """Add a snapshot with a manifest of new files, as an append does."""
    before = json.loads((root / "metadata" / f"{version - 1}.manifests.json").read_text())
    start = 10**9 + version * 1000
    added = _manifest(root, f"a{version}.avro", start, start + files, version)
    snapshot(root, version, [added, *before])


def snapshot(root: Path, version: int, manifests: list[dict[str, Any]]) -> None:
    """Make a snapshot of some lines of a manifest list the current one."""
    folder = root / "metadata"
    name = f"snap-{version}.avro"
    with (folder / name).open("wb") as out:
        schema = _AVRO.iceberg_to_avro(MANIFEST_LIST_FILE_SCHEMAS[2], schema_name="manifest_file")
        fastavro.writer(out, fastavro.parse_schema(schema), manifests, codec="deflate")
    (folder / f"{version}.manifests.json").write_text(json.dumps(manifests))
    (folder / f"v{version}.metadata.json").write_text(json.dumps(_metadata(root, version, name)))
    (folder / "version-hint.text").write_text(str(version))


def _metadata(root: Path, version: int, name: str) -> dict[str, Any]:
    fields = [
        {"id": number, "name": column, "type": type_, "required": False}
        for number, (column, type_) in enumerate(COLUMNS.items(), 1)
    ]
    snapshots = [
        {
            "snapshot-id": version,
            "sequence-number": version,
            "timestamp-ms": _EPOCH // 1000 + version,
            "manifest-list": f"{root}/metadata/{name}",
            "summary": {"operation": "append"},
            "schema-id": 0,
        }
    ]
    return {
        "format-version": 2,
        "table-uuid": _UUID,
        "location": str(root),
        "last-sequence-number": version,
        "last-updated-ms": _EPOCH // 1000 + version,
        "last-column-id": len(fields),
        "schemas": [{"type": "struct", "schema-id": 0, "fields": fields}],
        "current-schema-id": 0,
        "partition-specs": [
            {
                "spec-id": 0,
                "fields": [{"source-id": 3, "field-id": 1000, "name": "day", "transform": "identity"}],
            }
        ],
        "default-spec-id": 0,
        "last-partition-id": 1000,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "default-sort-order-id": 0,
        "properties": {},
        "current-snapshot-id": version,
        "snapshots": snapshots,
        "snapshot-log": [{"snapshot-id": version, "timestamp-ms": _EPOCH // 1000 + version}],
        "refs": {"main": {"snapshot-id": version, "type": "branch"}},
    }


def _manifest(root: Path, name: str, start: int, stop: int, version: int) -> dict[str, Any]:
    """Write a manifest, and return its line of a manifest list."""
    path = root / "metadata" / name
    schema: Any = _AVRO.iceberg_to_avro(MANIFEST_ENTRY_SCHEMAS[2], schema_name="manifest_entry")
    partition: Any = _field(_field({"fields": schema["fields"]}, "data_file")["type"], "partition")
    partition["type"] = {
        "type": "record",
        "name": "r102",
        "fields": [
            {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "field-id": 1000}
        ],
    }
    with path.open("wb") as out:
        fastavro.writer(
            out,
            fastavro.parse_schema(schema),
            _entries(root, start, stop, version),
            codec="deflate",
            sync_interval=_SYNC,
            metadata={"format-version": "2", "content": "data", "partition-spec-id": "0"},
        )
    return {
        "manifest_path": str(path),
        "manifest_length": path.stat().st_size,
        "partition_spec_id": 0,
        "content": 0,
        "sequence_number": version,
        "min_sequence_number": version,
        "added_snapshot_id": version,
        "added_files_count": stop - start,
        "existing_files_count": 0,
        "deleted_files_count": 0,
        "added_rows_count": ROWS * (stop - start),
        "existing_rows_count": 0,
        "deleted_rows_count": 0,
        "partitions": None,
        "key_metadata": None,
    }


def _field(record: Any, name: str) -> Any:
    return next(each for each in record["fields"] if each["name"] == name)


def _entries(root: Path, start: int, stop: int, version: int) -> Iterator[dict[str, Any]]:
    ids = range(1, len(COLUMNS) + 1)
    same = [{"key": each, "value": ROWS} for each in ids]
    sizes = [{"key": each, "value": 120 + 7 * each} for each in ids]
    none = [{"key": each, "value": 0} for each in ids]
    for n in range(start, stop):
        day = _day(n)
        yield {
            "status": 1,
            "snapshot_id": version,
            "sequence_number": None,
            "file_sequence_number": None,
            "data_file": {
                "content": 0,
                "file_path": f"{root}/data/day={day}/{_name(n)}",
                "file_format": "PARQUET",
                "partition": {"day": day},
                "record_count": ROWS,
                "file_size_in_bytes": 10_000 + n % 977,
                "column_sizes": sizes,
                "value_counts": same,
                "null_value_counts": none,
                "nan_value_counts": [{"key": 4, "value": 0}],
                "lower_bounds": _bounds(n, 0, day),
                "upper_bounds": _bounds(n, ROWS - 1, day),
                "key_metadata": None,
                "split_offsets": [4],
                "equality_ids": None,
                "sort_order_id": 0,
            },
        }


def _bounds(n: int, more: int, day: int) -> list[dict[str, Any]]:
    row = n * ROWS + more
    name = f"customer-{row * 7919 % 10**7:07d}"
    values = [
        struct.pack("<q", row),
        struct.pack("<q", _EPOCH + row * 1_000_003),
        struct.pack("<i", day),
        struct.pack("<d", row * 0.37),
        (row * 101 % 10**9).to_bytes(5, "big", signed=True).lstrip(b"\0") or b"\0",
        (name[:15] + "\x7f" if more else name[:16]).encode(),
        f"city-{row % 91:03d}".encode(),
        struct.pack("<i", row % 5),
    ]
    return [{"key": number, "value": value} for number, value in enumerate(values, 1)]


def write_file_of(root: Path, count: int) -> None:
    """Write the one data file that has the value of `values_of`, for readers that cannot plan without reading it."""
    n = count // 2
    path = root / "data" / f"day={_day(n)}" / _name(n)
    path.parent.mkdir(parents=True, exist_ok=True)
    field = pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})
    pq.write_table(pa.table([pa.array(range(n * ROWS, (n + 1) * ROWS))], schema=pa.schema([field])), path)


def _day(n: int) -> int:
    return 19_723 + n % 365


def _name(n: int) -> str:
    return f"{n % 200:05d}-{n}-{_UUID}-00001.parquet"


def values_of(count: int) -> int:
    """A value of `id` that one file of a table has, in its middle."""
    return count * ROWS // 2
