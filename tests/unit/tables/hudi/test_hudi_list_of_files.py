"""The list of files in Hudi's metadata table, read a partition at a time, equals the list read all at once."""

from __future__ import annotations

import io
import json
import random
from typing import Any

import fastavro
import pytest

from pruner.errors import FormatError
from pruner.tables.hudi.hfile.reader import Held, HFile
from pruner.tables.hudi.metadata.partition import FileGroup, MetadataLogBlock
from pruner.tables.hudi.metadata.whole import listed_files
from tests.support.hudi.made_up.hfiles import HFileWriter

_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
_SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "HoodieMetadataRecord",
    "fields": [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": _INFO}]},
    ],
}
_encode: Any = getattr(fastavro, "schemaless_writer")  # noqa: B009 - its type is left open

Files = dict[str, tuple[int, bool]]
"""Sizes of files by their names, and whether they are deleted."""


def hfile(records: list[tuple[str, Files]]) -> HFile:
    cells: list[tuple[bytes, bytes]] = []
    for key, files in records:
        infos = {name: {"size": size, "isDeleted": deleted} for name, (size, deleted) in files.items()}
        out = io.BytesIO()
        record = {"key": key, "type": 2, "filesystemMetadata": infos}
        _encode(out, fastavro.parse_schema(_SCHEMA), record)
        cells.append((key.encode(), out.getvalue()))
    data = HFileWriter(info={b"schema": json.dumps(_SCHEMA).encode()}).write(cells)
    return HFile(Held("held", data))


def group(base: HFile | None, *blocks: HFile | set[str]) -> FileGroup:
    made = [
        MetadataLogBlock(str(number), block, frozenset())
        if isinstance(block, HFile)
        else MetadataLogBlock(str(number), None, frozenset(key.encode() for key in block))
        for number, block in enumerate(blocks)
    ]
    return FileGroup("files-0000-0", "base", base, tuple(made))


def listed(*groups: FileGroup) -> dict[str, dict[str, int]]:
    return {folder: dict(files) for folder, files in listed_files(groups)}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(20))
def test_records_by_key_are_those_of_all_at_once(seed: int) -> None:
    rng = random.Random(seed)
    keys = ["city=a", "city=b", "city=ä", "x/y=1", "__all_partitions__"]

    def some() -> HFile:
        chosen = sorted(rng.sample(keys, rng.randint(1, len(keys))), key=str.encode)
        return hfile(
            [(key, {f"f{rng.randint(0, 3)}": (rng.randint(1, 9), rng.random() < 0.3)}) for key in chosen]
        )

    blocks = [some() if rng.random() < 0.7 else set(rng.sample(keys, 2)) for _ in range(rng.randint(0, 5))]
    made = group(some() if rng.random() < 0.8 else None, *blocks)
    in_order = list(made.records_in_order())
    assert [key for key, _ in in_order] == sorted(key for key, _ in in_order)
    assert dict(in_order) == dict(made.records())


def test_the_list_has_the_files_that_are_there() -> None:
    base = hfile(
        [
            (".", {"r": (4, False)}),
            ("__all_partitions__", {"city=a": (0, False)}),
            ("city=a", {"f": (1, False)}),
        ]
    )
    log = hfile([("city=a", {"f": (1, True), "g": (2, False)}), ("city=b", {"never": (3, True)})])
    assert listed(group(base, log)) == {"": {"r": 4}, "city=a": {"g": 2}, "city=b": {}}


def test_a_list_in_no_order_is_damaged() -> None:
    files: Files = {"f": (1, False)}
    with pytest.raises(FormatError, match="not sorted"):
        listed(group(hfile([("b", files), ("a", files)]), hfile([("b", files)])))
