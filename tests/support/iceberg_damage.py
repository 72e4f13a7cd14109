"""Schemas of manifests and manifest lists in which one field is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pruner.errors import TableError
from pruner.tables.avro.container import read_header
from pruner.tables.iceberg.manifests import ManifestFile, read_manifest, read_manifest_list
from tests.support.iceberg_manifests import of_manifest, with_header

_NEVER = 99
_LIST = {500: 1, 501: 1, 502: 1, 503: 2, 515: 2, 516: 2, 517: 2, 519: _NEVER}
_ENTRY = {0: 1, 2: 1, 3: _NEVER, 4: _NEVER}
_OPTIONAL = (110, 125, 128, 131, 135, 137, 143, 144, 145)
_FILE = {100: 1, 101: 1, 102: 1, 103: 1, 104: 1, 134: 2, **dict.fromkeys(_OPTIONAL, _NEVER)}
"""Fields that are read, or could be taken for one that is: the first version that requires them (specification)."""


def fields_at(schema: Any, *path: int) -> list[dict[str, Any]]:
    """The fields of a schema, or of a record in it, to which ids of fields lead."""
    for id_ in path:
        schema = next(field["type"] for field in schema["fields"] if field.get("field-id") == id_)
    fields: list[dict[str, Any]] = schema["fields"]
    return fields


def damage_fields(data: bytes, version: int, *, is_list: bool) -> None:
    """Damage the fields of a list or manifest, one at a time, and assert of each whether it is refused."""

    def read(changed: bytes) -> Any:
        if is_list:
            return read_manifest_list(changed, "snap.avro")
        return of_manifest(read_manifest(changed, ManifestFile("m.avro", 0, 0, 0), "m.avro"))

    expected = read(data)
    schema = json.loads(read_header(data).metadata[b"avro.schema"])
    records: dict[tuple[int, ...], dict[int, int]] = {(): _LIST} if is_list else {(): _ENTRY, (2,): _FILE}
    for path, known in records.items():
        for number, field in enumerate(fields_at(schema, *path)):
            id_ = field["field-id"]
            for kind in ("lost", "other"):
                changed = _damaged(data, kind, number, *path)
                assert is_refused(read, changed) == (id_ in known), (kind, id_)
                assert id_ in known or read(changed) == expected
            assert is_refused(read, _damaged(data, "twice", number, *path)), id_
            foreign = _damaged(data, "foreign", number, *path)
            assert is_refused(read, foreign) == (known.get(id_, _NEVER) <= version), id_
            assert read(_damaged(data, "renamed", number, *path)) == expected, id_
    if not is_list:
        for number, field in enumerate(fields_at(schema, 2, 102)):
            for kind in ("lost", "other", "foreign"):
                found = read_manifest(
                    _damaged(data, kind, number, 2, 102), ManifestFile("m.avro", 0, 0, 0), "m.avro"
                )
                assert field["field-id"] not in found.partitions, "a table that has it refuses the manifest"


def is_refused(read: Callable[[bytes], Any], data: bytes) -> bool:
    """Tell whether a reader refuses a file."""
    try:
        read(data)
    except TableError:
        return True
    return False


def _damaged(data: bytes, kind: str, number: int, *path: int) -> bytes:
    """A manifest or list with one field damaged: the one at a place of the record to which ids of fields lead.

    The field has no id (`lost`), an unknown one (`other`), or that of its neighbour (`twice`). It has neither id nor
    name that is known (`foreign`), or another name (`renamed`).
    """
    schema = json.loads(read_header(data).metadata[b"avro.schema"])
    fields = fields_at(schema, *path)
    field = fields[number]
    if kind in ("lost", "foreign"):
        del field["field-id"]
    elif kind == "other":
        field["field-id"] = 9999
    elif kind == "twice":
        field["field-id"] = fields[number - 1]["field-id"]
    if kind in ("foreign", "renamed"):
        field["name"] = "of_another_writer"
    return with_header(data, {b"avro.schema": json.dumps(schema).encode()})
