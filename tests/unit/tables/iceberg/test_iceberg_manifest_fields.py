"""Damaged and foreign schemas of manifests and lists: no field that a version requires may count as omitted."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.errors import TableError
from pruner.tables.avro.container import read_header
from pruner.tables.iceberg.manifests import ManifestFile, read_manifest, read_manifest_list
from tests.support.iceberg.damage import damage_fields, fields_at, is_refused
from tests.support.iceberg.manifests import (
    PARTITIONS,
    of_manifest,
    random_entry,
    random_line,
    schema_of_version,
    with_header,
    written,
    written_list,
)
from tests.support.iceberg.tables import IcebergLake, rows
from tests.support.running import profiles

LINE = ManifestFile("m.avro", 0, 0, 9)
OLD = ManifestFile("m.avro", 0, 0, 0)
_SAMPLE = 100


def _list(version: int) -> bytes:
    chance = random.Random(version)
    return written_list([random_line(chance, number) for number in range(5)], version)


def _manifest(version: int) -> bytes:
    chance = random.Random(version)
    entries = [random_entry(chance, number) for number in range(4)]
    return written(entries, schema_of_version(version, PARTITIONS[:3]))


def _of_pyiceberg(folder: Path, version: int) -> tuple[list[bytes], list[bytes]]:
    """The lists and the manifests of a table that PyIceberg wrote."""
    table = IcebergLake(folder).create("t", "months", version)
    table.append(rows(table, range(24)))
    table.delete("id < 5")
    files = sorted(folder.rglob("*.avro"))
    lists = [path.read_bytes() for path in files if path.name.startswith("snap-")]
    manifests = [path.read_bytes() for path in files if not path.name.startswith("snap-")]
    assert len(lists) > 1
    assert len(manifests) > 1
    return lists, manifests


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2, 3])
def test_damaged_fields_of_hand_made_files(version: int) -> None:
    damage_fields(_list(version), version, is_list=True)
    damage_fields(_manifest(version), version, is_list=False)


@pytest.mark.slow
@pytest.mark.parametrize("version", [1, 2])
def test_damaged_fields_of_pyiceberg(version: int, tmp_path: Path) -> None:
    lists, manifests = _of_pyiceberg(tmp_path, version)
    damage_fields(lists[-1], version, is_list=True)
    damage_fields(manifests[-1], version, is_list=False)


@pytest.mark.slow
def test_bits_of_headers(tmp_path: Path) -> None:
    """A flipped bit of the header is refused or changes nothing: no field is taken for another, or for omitted."""
    lists, manifests = _of_pyiceberg(tmp_path, 2)
    chance = random.Random(profiles.seed())
    reads: list[tuple[bytes, Callable[[bytes], Any]]] = [
        *((data, _read_list) for data in (_list(1), _list(3), lists[-1])),
        *((data, _read_manifest) for data in (_manifest(1), _manifest(3), manifests[-1])),
    ]
    refused = 0
    for data, read in reads:
        end, expected = read_header(data).end, read(data)
        for _ in range(profiles.examples(_SAMPLE)):
            changed = bytearray(data)
            changed[chance.randrange(end)] ^= 1 << chance.randrange(8)
            if is_refused(read, bytes(changed)) or _lacks_a_partition(read(bytes(changed)), expected):
                refused += 1
            else:
                assert read(bytes(changed)) == expected
    assert refused > 10


def _lacks_a_partition(found: Any, expected: Any) -> bool:
    """Whether a field of the spec is missing, so that a table with that field refuses the manifest."""
    if not isinstance(expected, dict):
        return False
    pairs = zip(found["partitions"], expected["partitions"], strict=True)
    return any(not of_file.keys() >= wanted.keys() for of_file, wanted in pairs)


def _read_list(data: bytes) -> Any:
    return read_manifest_list(data, "snap.avro")


def _read_manifest(data: bytes) -> Any:
    return of_manifest(read_manifest(data, OLD, "m.avro"))


def test_two_fields_of_one_record_in_a_union_are_not_guessed() -> None:
    data = _manifest(2)
    schema = json.loads(read_header(data).metadata[b"avro.schema"])
    file = next(field for field in schema["fields"] if field["field-id"] == 2)
    other = {"type": "record", "name": "other", "fields": []}
    file["type"] = [file["type"], other]
    with pytest.raises(
        TableError, match=r"^m\.avro is damaged: its schema lacks field 'file_path' \(id 100\)"
    ):
        read_manifest(with_header(data, {b"avro.schema": json.dumps(schema).encode()}), LINE, "m.avro")


@pytest.mark.parametrize("text", [b"4", b"", b"two", b"-1", b"02"])
def test_versions_that_are_not_known(text: bytes) -> None:
    for data, read in ((_list(2), _read_list), (_manifest(2), _read_manifest)):
        with pytest.raises(TableError, match=r"is damaged: its header has format version '.{,3}'$"):
            read(with_header(data, {b"format-version": text}))


def test_a_list_without_its_version_is_known_by_its_fields() -> None:
    data = with_header(_list(2), {b"format-version": None})
    schema = json.loads(read_header(data).metadata[b"avro.schema"])
    assert _read_list(data) == _read_list(_list(2))
    for field in fields_at(schema):
        if field["field-id"] == 517:
            del field["field-id"]
            field["name"] = "kind"
    with pytest.raises(
        TableError, match=r"lacks field 'content' \(id 517\), which format version 2 requires$"
    ):
        _read_list(with_header(data, {b"avro.schema": json.dumps(schema).encode()}))


def test_values_that_are_required_are_not_null() -> None:
    schema = schema_of_version(2, PARTITIONS[:1])
    content = next(field for field in fields_at(schema, 2) if field["field-id"] == 134)
    content["type"] = ["null", "int"]
    entries = [random_entry(random.Random(1), number) for number in range(3)]
    expected = of_manifest(read_manifest(written(entries, schema), LINE, "m.avro"))
    assert len(expected["files"]) > 1
    for entry in entries:
        entry["data_file"]["content"] = None
    with pytest.raises(TableError, match=r"a field is missing that every file has \(field id 134\)"):
        read_manifest(written(entries, schema), LINE, "m.avro")


@pytest.mark.slow
def test_a_table_with_a_damaged_list_is_refused(tmp_path: Path) -> None:
    """The metadata says that the snapshot has a sequence number, so its list is not one of version 1."""
    table = IcebergLake(tmp_path).create("t", "months", 2)
    table.append(rows(table, range(24)))
    assert pruner.open_table(table.metadata_location).plan("id = 3").kept == 1
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = Path(snapshot.manifest_list.removeprefix("file:"))
    stored = path.read_bytes()
    lists = {
        "without 515": ({b"format-version": b"2"}, (515,)),
        "of version 1": ({b"format-version": b"1"}, (515, 516, 517)),
        "without a version": ({b"format-version": None}, (515, 516, 517)),
    }
    for changed, gone in lists.values():
        schema = json.loads(read_header(stored).metadata[b"avro.schema"])
        for field in fields_at(schema):
            if field["field-id"] in gone:
                field["name"] = f"a{field.pop('field-id')}"
        path.write_bytes(with_header(stored, {**changed, b"avro.schema": json.dumps(schema).encode()}))
        with pytest.raises(TableError, match=r"is damaged: its schema lacks field '\w+' \(id 51\d\)"):
            pruner.open_table(table.metadata_location).plan("id = 3")
