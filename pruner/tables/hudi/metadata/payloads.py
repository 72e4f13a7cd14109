"""The decoded values of the metadata table's records, and the record that several of one key merge into.

The rules are those of Hudi's `HoodieMetadataPayload`: for statistics a deletion or a tight bound replaces what was
there, anything else widens it; a record about files adds to those before it; of others the newest counts.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from functools import lru_cache, reduce
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import fastavro

from pruner.errors import FormatError
from pruner.tables.avro.columns import NotColumnarError, decode_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pruner.tables.hudi.hfile.reader import HFile


decode_stored: Final[Callable[..., Any]] = getattr(fastavro, "schemaless_reader")  # noqa: B009 - its type is left open
"""Decodes one record: a stream, the writer's schema, no reader's schema."""


def without_logical_types(schema: Any) -> Any:
    """Return a schema without logical types, for decoding the stored numbers."""
    if isinstance(schema, list):
        return [without_logical_types(option) for option in cast("list[Any]", schema)]
    if isinstance(schema, dict):
        entries = cast("dict[str, Any]", schema)
        return {
            key: value if key == "default" else without_logical_types(value)
            for key, value in entries.items()
            if key != "logicalType"
        }
    return schema


Record: TypeAlias = "dict[str, Any]"
"""A record as fastavro returns it; a value of a union of records is a pair of the type's name and the value."""

FILES = "filesystemMetadata"
BLOOM = "BloomFilterMetadata"
STATS = "ColumnStatsMetadata"
LOCATION = "recordIndexMetadata"
SECONDARY = "SecondaryIndexMetadata"

_MAX_SCHEMA_BYTES = 1 << 22


def decoder(hfile: HFile) -> Callable[[bytes], Record]:
    """Return a decoder of the values of an HFile, by the schema stored in it.

    Raises:
        FormatError: it names no schema, or none that is understood.
    """
    schema = schema_of(hfile)

    def decode(value: bytes) -> Record:
        stream = io.BytesIO(value)
        try:
            record: Record = decode_stored(stream, schema, None, return_record_name=True)
        except Exception as error:  # whatever a decoder raises for damaged bytes
            raise FormatError(f"a record of the metadata table cannot be decoded: {error!r}") from None
        if stream.tell() != len(value):
            raise FormatError("a record of the metadata table is longer than its schema says")
        return record

    return decode


def schema_of(hfile: HFile) -> Any:
    """The schema stored in an HFile, in fastavro's form: see `decoder`."""
    return _schema(hfile.info.get(b"schema", b""))


@lru_cache(maxsize=64)
def _schema(text: bytes) -> Any:
    if len(text) > _MAX_SCHEMA_BYTES:
        raise FormatError("an HFile of the metadata table names a schema that is larger than is read")
    try:
        return fastavro.parse_schema(without_logical_types(json.loads(text)))
    except Exception as error:  # fastavro raises whatever it encounters
        raise FormatError(f"an HFile of the metadata table names no schema that is read: {error!r}") from None


def body(record: Record, name: str) -> Record | None:
    """The part of a record that one kind of partition uses; None where it has none."""
    value: Any = record.get(name)
    return cast("Record", value[1]) if isinstance(value, tuple) else value


_STATS_DEFAULTS: Record = {
    "fileName": None,
    "valueCount": None,
    "nullCount": None,
    "totalSize": None,
    "totalUncompressedSize": None,
    "minValue": None,
    "maxValue": None,
    "isDeleted": False,
    "isTightBound": False,
    "valueType": None,
}
"""Fields of statistics; Hudi 0.x writes neither `isTightBound` nor `valueType`."""


def statistics(record: Record) -> Record | None:
    """The statistics of a record, with all fields that are used; None where it has none."""
    stored = body(record, STATS)
    return None if stored is None else {**_STATS_DEFAULTS, **stored}


def decoder_of_statistics(hfile: HFile) -> Callable[[Sequence[bytes]], list[Record | None]]:
    """Return a decoder of the statistics of many values of an HFile at once: see `decoder` and `statistics`."""
    one_by_one = decoder(hfile)
    schema = schema_of(hfile)

    def decode(values: Sequence[bytes]) -> list[Record | None]:
        try:
            collected = decode_field(values, schema, STATS)
        except NotColumnarError:
            return [statistics(one_by_one(value)) for value in values]
        return [statistics({STATS: stats}) for stats in collected]

    return decode


def merged(versions: Sequence[Record]) -> Record | None:
    """The record that several of one key, oldest first, merge into; None where it was deleted."""
    result = reduce(_merge, versions)
    return None if is_deletion(result) else result


def is_deletion(record: Record) -> bool:
    """Tell whether a record says that its key is deleted."""
    parts = (body(record, name) for name in (SECONDARY, BLOOM))
    return any(part is not None and part["isDeleted"] for part in parts)


def _merge(older: Record, newer: Record) -> Record:
    files = body(newer, FILES)
    if files is not None:
        before = body(older, FILES) or {}
        return {**newer, FILES: _merged_files(before, files)}
    stats, before = statistics(newer), statistics(older)
    if stats is None or before is None:
        return newer
    return {**newer, STATS: merged_stats(before, stats)}


def _merged_files(before: dict[str, Any], files: dict[str, Any]) -> dict[str, Any]:
    """Files by name: deleted ones are left out, ones that reappear have the greater size."""
    file_names = dict(before)
    for name, info in files.items():
        known = file_names.get(name)
        if info["isDeleted"]:
            file_names.pop(name, None)
        elif known is None or known["isDeleted"] or info["size"] >= known["size"]:
            file_names[name] = info
    return file_names


def merged_stats(older: Record, newer: Record) -> Record:
    """Statistics of one column of one file or partition, merged into earlier ones (`mergeColumnStatsRecords`)."""
    if newer["isDeleted"] or older["isDeleted"] or newer["isTightBound"]:
        return newer
    counts = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
    return {
        **newer,
        "minValue": _extreme(older["minValue"], newer["minValue"], min),
        "maxValue": _extreme(older["maxValue"], newer["maxValue"], max),
        **{name: _sum(older[name], newer[name]) for name in counts},
    }


def _extreme(one: Any, other: Any, which: Callable[..., Any]) -> Any:
    present: list[tuple[str, Record]] = [wrapped for wrapped in (one, other) if wrapped is not None]
    return which(present, key=_wrapped_value) if present else None


def _wrapped_value(wrapped: tuple[str, Record]) -> Any:
    return wrapped[1]["value"]


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
