"""Manifests and manifest lists of which one field of the schema, or some bytes, are damaged."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import Any

from pruner.errors import TableError
from pruner.tables.avro.container import DataBlock, read_header
from pruner.tables.iceberg.manifests import DATA, ManifestFile, read_manifest, read_manifest_list
from tests.support.iceberg.manifests import (
    by_fastavro,
    list_by_fastavro,
    mutated,
    of_manifest,
    repacked,
    with_header,
)

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


def damage_fields(data: bytes, version: int, *, is_list: bool, content: int = DATA) -> None:
    """Damage the fields of a list or manifest, one at a time, and assert of each whether it is refused."""
    line = ManifestFile("m.avro", 0, content, 0)

    def read(changed: bytes) -> Any:
        if is_list:
            return read_manifest_list(changed, "snap.avro")
        return of_manifest(read_manifest(changed, line, "m.avro"))

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
                found = read_manifest(_damaged(data, kind, number, 2, 102), line, "m.avro")
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


def with_changes(chance: random.Random, data: bytes, whole: Sequence[DataBlock]) -> bytes:
    """A file of some blocks with changed bytes: mostly in what the blocks hold, so that they can be unpacked."""
    if chance.random() < 0.15:
        return mutated(chance, data)
    changed = list(whole)
    at = chance.randrange(len(changed))
    records = changed[at].records + chance.choice((0, 0, 0, 0, 0, 0, 1, -1, 2**40))
    changed[at] = changed[at]._replace(data=mutated(chance, changed[at].data), records=records)
    return repacked(data, changed)


def outcome_of_manifest(data: bytes, line: ManifestFile) -> str:
    """Read a manifest that may be damaged: what is read must be what fastavro reads."""
    try:
        found = of_manifest(read_manifest(data, line, "m.avro"))
    except TableError as error:
        return _refusal(error)
    assert repr(found) == repr(_expected(lambda each: by_fastavro(each, line), data))
    return "right"


def outcome_of_list(data: bytes) -> str:
    """Read a manifest list that may be damaged: what is read must be what fastavro reads."""
    try:
        found = read_manifest_list(data, "snap.avro")
    except TableError as error:
        return _refusal(error)
    assert repr(found) == repr(_expected(list_by_fastavro, data))
    return "right"


def _expected(read: Callable[[bytes], Any], data: bytes) -> Any:
    """What fastavro reads, which wants a text in each entry of the header, also where nobody reads it."""
    try:
        return read(data)
    except UnicodeDecodeError:
        unread = [key for key in read_header(data).metadata if not key.startswith(b"avro.")]
        return read(with_header(data, dict.fromkeys(unread)))


def _refusal(error: TableError) -> str:
    return "refused" if "\n" not in str(error) else "refused with more than a sentence"
