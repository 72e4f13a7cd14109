"""Manifests as fastavro reads them, record by record, and manifests of every shape to be read."""

from __future__ import annotations

import io
import json
import random
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fastavro
import pyarrow as pa
from pyiceberg.manifest import MANIFEST_ENTRY_SCHEMAS, MANIFEST_LIST_FILE_SCHEMAS
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from pruner.tables.avro.container import DataBlock, blocks, read_header
from pruner.tables.hudi.metadata.payloads import without_logical_types
from pruner.tables.iceberg.manifests import Manifest, ManifestFile
from pruner.tables.iceberg.transforms import NO_UTF8

_read: Any = fastavro.schemaless_reader  # whose type is left open

_FILE = {
    134: "content",
    100: "path",
    101: "format",
    103: "rows",
    104: "size",
    143: "referenced_file",
    144: "content_offset",
    145: "content_size",
    135: "equality_ids",
}
_METRICS = {110: "null_counts", 137: "nan_counts", 125: "lower_bounds", 128: "upper_bounds"}


def of_manifest(found: Manifest) -> dict[str, Any]:
    """What was read of a manifest, as `by_fastavro` has it."""
    files = found.files.select([*_FILE.values(), "sequence_number"]).to_pylist()
    partitions: list[dict[int, Any]] = [{} for _ in files]
    for id_, values in found.partitions.items():
        for row, value in zip(partitions, values.to_pylist(), strict=True):
            row[id_] = value
    metrics = {
        name: sorted(
            zip(each.rows.tolist(), each.ids.tolist(), each.values.to_pylist(), strict=True), key=repr
        )
        for name, each in found.metrics.items()
    }
    return {"files": files, "partitions": partitions if found.partitions else [], "metrics": metrics}


def by_fastavro(data: bytes, manifest: ManifestFile) -> dict[str, Any]:
    """The files of a manifest that are alive, as fastavro reads them.

    Raises:
        Exception: whatever fastavro raises, or the manifest is none.
    """
    reader = fastavro.reader(io.BytesIO(data))
    stored = without_logical_types(json.loads(reader.metadata["avro.schema"]))
    plain: Any = fastavro.parse_schema(stored)
    names = _names(stored)
    file_schema = next(each["type"] for each in stored["fields"] if each.get("field-id") == 2)
    ids = _names(file_schema)
    parts = next((each["type"] for each in file_schema["fields"] if each.get("field-id") == 102), None)
    result: dict[str, Any] = {"files": [], "partitions": [], "metrics": {}}
    metrics: dict[str, list[Any]] = {name: [] for name in _METRICS.values()}
    whole: Any = fastavro.block_reader(io.BytesIO(data))
    for block in whole:
        stream = block.bytes_
        for _ in range(block.num_records):
            entry = _read(stream, plain, None, handle_unicode_errors="surrogateescape")
            if entry[names[0]] == 2:
                continue
            assert entry[names[0]] in (0, 1)
            _take(entry, names, ids, manifest, result, metrics)
            if parts is not None:
                tuple_ = entry[names[2]][ids[102]]
                result["partitions"].append(
                    {id_: _as_text(tuple_[name]) for id_, name in _names(parts).items()}
                )
        assert not stream.read(1)
    if not any(result["partitions"]):
        result["partitions"] = []
    result["metrics"] = {name: sorted(found, key=repr) for name, found in metrics.items()}
    return result


def _as_text(value: Any) -> Any:
    """A partition value as it is read; a text that is no UTF-8 tells its bytes."""
    stored = value.encode(errors="surrogateescape") if isinstance(value, str) else b""
    try:
        stored.decode()
    except UnicodeDecodeError:
        return NO_UTF8 + stored.decode(errors="backslashreplace")
    return value


def _take(
    entry: Any, names: Any, ids: Any, manifest: ManifestFile, result: Any, metrics: dict[str, list[Any]]
) -> None:
    file = entry[names[2]]
    row = {name: file.get(ids.get(id_)) for id_, name in _FILE.items()}
    row["content"] = row["content"] or 0
    number = entry.get(names.get(3))
    row["sequence_number"] = manifest.sequence_number if number is None else number
    for id_, name in _METRICS.items():
        for pair in _pairs(file.get(ids.get(id_))):
            metrics[name].append((len(result["files"]), *pair))
    result["files"].append(row)


def _pairs(found: Any) -> Iterable[tuple[int, Any]]:
    if isinstance(found, dict):
        return ((int(key), value) for key, value in found.items())
    return ((pair["key"], pair["value"]) for pair in found or ())


def _names(schema: Any) -> dict[int, str]:
    return {each["field-id"]: each["name"] for each in schema["fields"] if "field-id" in each}


PARTITIONS: list[dict[str, Any]] = [
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "field-id": 1000},
    {"name": "city", "type": ["null", "string"], "field-id": 1001},
    {"name": "x", "type": ["null", "double"], "field-id": 1002},
    {"name": "small", "type": ["null", "float"], "field-id": 1003},
    {"name": "flag", "type": ["null", "boolean"], "field-id": 1004},
    {
        "name": "key",
        "type": ["null", {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}],
        "field-id": 1005,
    },
    {"name": "raw", "type": ["null", "bytes"], "field-id": 1006},
]


def schema_of_version(version: int, partitions: list[dict[str, Any]] | None = None) -> Any:
    """The schema of a manifest's entries in Avro."""
    schema: Any = AvroSchemaConversion().iceberg_to_avro(
        MANIFEST_ENTRY_SCHEMAS[version], schema_name="manifest_entry"
    )
    file = next(each for each in schema["fields"] if each["name"] == "data_file")
    partition = next(each for each in file["type"]["fields"] if each["name"] == "partition")
    fields = PARTITIONS if partitions is None else partitions
    partition["type"] = {"type": "record", "name": "r102", "fields": fields}
    return schema


def random_entry(
    chance: random.Random, number: int, widths: Sequence[int] = (0, 1, 3, 5, 90)
) -> dict[str, Any]:
    """An entry of any shape that a writer may give it, with metrics of some number of columns."""

    def maybe(value: Any) -> Any:
        return None if chance.random() < 0.2 else value

    columns = range(1, 1 + chance.choice(widths))
    counts = [{"key": each, "value": chance.choice((0, 5, 63, 64, 9000, 2**40))} for each in columns]
    bounds = [{"key": each, "value": bytes(chance.choice((0, 1, 8, 16, 63, 64, 200)))} for each in columns]
    status = chance.choice((0, 1, 1, 1, 2))
    return {
        "status": status,
        "snapshot_id": chance.getrandbits(62),
        "sequence_number": maybe(number) if status == 1 else number,
        "file_sequence_number": None,
        "data_file": {
            "content": 0,
            "file_path": f"/t/data/{'é' * chance.choice((1, 20, 70))}-{number}.parquet",
            "file_format": "PARQUET",
            "partition": {
                "day": maybe(number),
                "city": maybe("x" * (number % 70)),
                "x": maybe(number / 7),
                "small": maybe(0.5),
                "flag": maybe(number % 2 == 0),
                "key": maybe(number.to_bytes(16, "big")),
                "raw": maybe(bytes([number % 256])),
            },
            "record_count": chance.choice((0, 1, 2**40)),
            "file_size_in_bytes": number,
            "block_size_in_bytes": 1,
            "column_sizes": maybe(counts),
            "value_counts": maybe(counts),
            "null_value_counts": maybe(counts),
            "nan_value_counts": maybe(counts[:1]),
            "lower_bounds": maybe(bounds),
            "upper_bounds": maybe(bounds),
            "key_metadata": None,
            "split_offsets": maybe([4, 2**33][: chance.randrange(3)]),
            "equality_ids": maybe([1, 3][: chance.randrange(3)]),
            "sort_order_id": maybe(0),
            "first_row_id": maybe(number),
            "referenced_data_file": None,
            "content_offset": None,
            "content_size_in_bytes": None,
        },
    }


def written(entries: Iterable[Any], schema: Any, codec: str = "deflate", block: int = 64_000) -> bytes:
    """A manifest of some entries as fastavro writes it."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), entries, codec=codec, sync_interval=block)
    return out.getvalue()


_LINE = (500, 502, 517, 515, 501, 503)


def random_line(chance: random.Random, number: int) -> dict[str, Any]:
    """A line of a manifest list of any shape that a writer may give it."""

    def summary() -> dict[str, Any]:
        ends = [None if chance.random() < 0.3 else bytes(chance.choice((0, 1, 4, 8, 16))) for _ in range(2)]
        return {
            "contains_null": chance.random() < 0.5,
            "contains_nan": chance.choice((None, True, False)),
            "lower_bound": ends[0],
            "upper_bound": ends[1],
        }

    counts = ("added_files_count", "existing_files_count", "deleted_files_count")
    rows = ("added_rows_count", "existing_rows_count", "deleted_rows_count")
    return {
        "manifest_path": f"/t/metadata/{'é' * chance.choice((1, 20, 70))}-{number}.avro",
        "manifest_length": chance.choice((0, 5000, 2**40)),
        "partition_spec_id": number % 3,
        "content": 0 if chance.random() < 0.8 else 1,
        "sequence_number": number,
        "min_sequence_number": 0,
        "added_snapshot_id": chance.getrandbits(62),
        **{name: chance.randrange(1000) for name in counts},
        **{name: chance.randrange(2**40) for name in rows},
        "partitions": chance.choice((None, [summary() for _ in range(number % 4)])),
        "key_metadata": None,
        "first_row_id": None,
    }


def written_list(lines: Iterable[Any], version: int) -> bytes:
    """A manifest list of some lines as fastavro writes it."""
    schema = AvroSchemaConversion().iceberg_to_avro(
        MANIFEST_LIST_FILE_SCHEMAS[version], schema_name="manifest_file"
    )
    return written(lines, schema, block=700)


def list_by_fastavro(data: bytes) -> list[ManifestFile]:
    """The lines of a manifest list, as fastavro reads them.

    Raises:
        Exception: whatever fastavro raises, or the list is none.
    """
    reader = fastavro.reader(io.BytesIO(data))
    stored = without_logical_types(json.loads(reader.metadata["avro.schema"]))
    plain: Any = fastavro.parse_schema(stored)
    names = _names(stored)
    found: list[ManifestFile] = []
    whole: Any = fastavro.block_reader(io.BytesIO(data))
    for block in whole:
        for _ in range(block.num_records):
            line = _read(block.bytes_, plain, None, handle_unicode_errors="replace")
            path, *numbers = (line.get(names.get(id_)) for id_ in _LINE)
            found.append(ManifestFile(path, *(number or 0 for number in numbers)))
        assert not block.bytes_.read(1)
    return found


def repacked(data: bytes, changed: Iterable[DataBlock], codec: str = "null") -> bytes:
    """A manifest, which `deflate` packed, with other blocks, which another codec packs."""
    header = read_header(data)
    name = _number(len(codec)) + codec.encode()
    out = bytearray(data[: header.end].replace(b"\x14avro.codec\x0edeflate", b"\x14avro.codec" + name))
    for each in changed:
        stored = each.data
        if codec == "snappy":
            stored = _compressed("snappy", stored) + zlib.crc32(stored).to_bytes(4, "big")
        elif codec == "zstandard":
            stored = _compressed("zstd", stored)
        out += _number(each.records) + _number(len(stored)) + stored + header.sync
    return bytes(out)


def _compressed(codec: Any, data: bytes) -> bytes:
    return pa.Codec(codec).compress(data, asbytes=True)


def with_header(data: bytes, changed: Mapping[bytes, bytes | None]) -> bytes:
    """A manifest or list with other entries in its header; None takes one out."""
    header = read_header(data)
    whole: dict[bytes, bytes | None] = {**header.metadata, **changed}
    entries = {key: value for key, value in whole.items() if value is not None}
    texts = [text for entry in entries.items() for text in entry]
    out = b"".join(_number(len(text)) + text for text in texts)
    return b"Obj\x01" + _number(len(entries)) + out + b"\0" + header.sync + data[header.end :]


def unpacked(data: bytes) -> list[DataBlock]:
    """The blocks of a manifest."""
    return list(blocks(data, read_header(data)))


def _number(value: int) -> bytes:
    folded = (value << 1) ^ (value >> 63)
    out = bytearray()
    while folded > 0x7F:
        out.append(folded & 0x7F | 0x80)
        folded >>= 7
    return bytes([*out, folded])


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Bytes of which some are others, missing, or there twice."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        at = chance.randrange(len(out)) if out else 0
        kind = chance.randrange(5)
        if kind == 0:
            out[at : at + 1] = bytes([chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFE, 0xFF))])
        elif kind == 1 and out:
            out[at] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del out[at : at + chance.choice((1, 2, 9))]
        elif kind == 3:
            out[at:at] = out[at : at + chance.choice((1, 2, 9))]
        else:
            out[at : at + 1] = b"\xff\xff\xff\xff\x0f"
    return bytes(out)
