"""A table that is followed from commit to commit reports at each state what a newly opened one reports."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pruner
from benchmarks.planning import iceberg_tables
from pruner.errors import TableError
from pruner.tables.iceberg import nested
from pruner.tables.iceberg.manifests import read_manifest
from tests.support.iceberg.tables import IcebergLake, rows
from tests.support.running import profiles

WIDTH = 40


def _conditions(chance: random.Random) -> list[str]:
    id_, day = chance.randrange(4_000), 19_723 + chance.randrange(400)
    return [
        f"id = {id_}",
        f"id BETWEEN {id_} AND {id_ + 300}",
        f"day < DATE '1970-01-01' + INTERVAL {day} DAY AND id > {id_}",
        f"NOT (id < {id_}) OR city = 'city-007'",
        f"price IS NULL OR id > {id_}",
    ]


def _same(followed: pruner.Table, root: Path, conditions: list[str]) -> None:
    anew = pruner.open_table(str(root))
    snapshots = [each.snapshot().data for each in (followed, anew)]
    rows, of_anew = (each.rows(np.arange(len(each))).to_pylist() for each in snapshots)
    assert rows == of_anew
    assert followed.snapshot().data.keys == anew.snapshot().data.keys
    for condition in conditions:
        one, other = followed.plan(condition), anew.plan(condition)
        assert one.kept_mask.tolist() == other.kept_mask.tolist(), condition
        assert one.all_match.tolist() == other.all_match.tolist(), condition


def test_any_history_of_manifests(tmp_path: Path) -> None:
    """Manifests are added, removed and moved; `PRUNER_TEST_PROFILE=fuzz PRUNER_FUZZ_N=…` tries more histories."""
    for seed in range(first := profiles.seed(), first + profiles.examples(200) // 20):
        chance = random.Random(seed)
        root = tmp_path / str(seed) / "t"
        iceberg_tables.write_table(root, WIDTH)
        folder = root / "metadata"
        lines: list[dict[str, Any]] = json.loads((folder / "1.manifests.json").read_text())
        followed = pruner.open_table(str(root))
        kept = list(lines)
        for version in range(2, 12):
            kind = chance.randrange(6)
            if kind < 3 or not kept:
                iceberg_tables.append(root, version, chance.randrange(1, 4))
                kept.insert(chance.randrange(len(kept) + 1), _line_of(folder, version))
            elif kind == 3:
                kept.pop(chance.randrange(len(kept)))
            elif kind == 4:
                chance.shuffle(kept)
            iceberg_tables.snapshot(root, version, kept)
            _same(followed, root, _conditions(chance))


def _line_of(folder: Path, version: int) -> dict[str, Any]:
    return json.loads((folder / f"{version}.manifests.json").read_text())[0]


def test_only_new_files_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "t"
    iceberg_tables.write_table(root, WIDTH)
    followed = pruner.open_table(str(root))
    assert followed.plan("id = 7").kept == 1
    judged: list[int] = []
    from pruner.evidence import iceberg as evidence

    plain = evidence.records_of

    def counted(told: Any, *rest: Any) -> Any:
        judged.append(len(told.rows))
        return plain(told, *rest)

    monkeypatch.setattr(evidence, "records_of", counted)
    for version in (2, 3, 4):
        iceberg_tables.append(root, version, 2)
        assert followed.plan("id = 7").kept == 1
        new = (10**9 + version * 1000) * iceberg_tables.ROWS
        assert followed.plan(f"id = {new}").kept == 1
    assert judged == [2, 4, 6], "the files that came since all of them were judged, and no others"


def test_a_file_that_comes_twice_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "t"
    iceberg_tables.write_table(root, WIDTH)
    followed = pruner.open_table(str(root))
    assert followed.plan("id = 7").kept == 1
    iceberg_tables.append(root, 2)
    first = json.loads((root / "metadata" / "1.manifests.json").read_text())
    shutil.copy(root / "metadata" / "m0.avro", root / "metadata" / "other.avro")
    again = [{**each, "manifest_path": str(root / "metadata" / "other.avro")} for each in first]
    for lines in ([*first, *again], [*first, *first]):
        iceberg_tables.snapshot(root, 2, lines)
        for table in (followed, pruner.open_table(str(root))):
            with pytest.raises(TableError, match="name a file twice"):
                table.plan("id = 7")
        (root / "metadata" / "v2.metadata.json").unlink()
        (root / "metadata" / "version-hint.text").write_text("1")
        assert followed.plan("id = 7").kept == 1


class Published:
    """A PyIceberg table whose metadata is also published like that of a table that keeps its own versions."""

    def __init__(self, folder: Path, spec: str) -> None:
        self.table = IcebergLake(folder).create("t", spec)
        self.root = Path(self.table.location().removeprefix("file://"))
        self._version = 0
        self.append(range(12))

    def append(self, numbers: range) -> None:
        self.table.append(rows(self.table, numbers))
        self._publish()

    def delete(self, condition: str) -> None:
        self.table.delete(condition)
        self._publish()

    def _publish(self) -> None:
        self._version += 1
        folder = self.root / "metadata"
        newest = self.table.metadata_location.removeprefix("file://")
        shutil.copy(newest, folder / f"v{self._version}.metadata.json")
        (folder / "version-hint.text").write_text(str(self._version))


@pytest.mark.slow
def test_a_footer_is_read_once_whatever_is_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = Published(tmp_path, "unpartitioned")
    followed = pruner.open_table(str(lake.root))
    read: list[int] = []
    plain = nested.SchemaReader.read_all

    def counted(self: Any, lister: Any, files: list[Any]) -> Any:
        read.append(len(files))
        return plain(self, lister, files)

    monkeypatch.setattr(nested.SchemaReader, "read_all", counted)
    for step in (12, 20, 28):
        data = followed.snapshot().data
        assert data.nested is not None
        files = [(each.base_file, each.size) for each in data.slices if each.base_file is not None]
        held = data.nested.held(files, ["id"])
        assert [each.names for each in held] == [None] * len(files), "they have field ids"
        lake.append(range(step, step + 8))
    assert read == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("spec", ["unpartitioned", "months", "texts"])
def test_indexes_follow_appends_and_deletes(spec: str, tmp_path: Path) -> None:
    lake = Published(tmp_path, spec)
    root = lake.root
    followed = pruner.open_table(str(root))
    followed.create_index("ids", on="id", using="bloom_filter")
    followed.create_index("numbers", on="number")
    conditions = ["id = 5", "id = 30", "number > 100", "number IS NULL AND id < 20", "name = 'x' OR id = 14"]
    for step in range(12, 48, 6):
        _same(followed, root, conditions)
        lake.append(range(step, step + 6))
        _same(followed, root, conditions)
        lake.delete(f"id IN ({step - 2}, {step + 1})")
        _same(followed, root, conditions)
        if step % 12:
            followed.refresh()
    assert followed.plan("id = 10").kept == 0, "it was deleted, and the file that is left is covered"


def test_a_manifest_with_every_kind_of_partition_value(tmp_path: Path) -> None:
    """-0.0 and 0.0 are two partitions, and NaN is one."""
    from pruner.tables.iceberg.metadata import PartitionField, PartitionSpec, TableMetadata
    from pruner.tables.iceberg.parts import partitions_of
    from tests.support.iceberg.manifests import random_entry, schema_of_version, written
    from tests.unit.tables.iceberg.test_iceberg_manifests import ANY

    chance = random.Random(1)
    values = [0.0, -0.0, float("nan"), None, 0.0, float("nan"), -0.0, 2.5]
    entries: list[dict[str, Any]] = []
    for number, value in enumerate(values):
        entry: dict[str, Any] = random_entry(chance, number) | {"status": 1}
        entry["data_file"]["partition"] |= {"x": value, "small": value, "city": "a" if number < 4 else None}
        entries.append(entry)
    manifest = read_manifest(written(entries, schema_of_version(2)), ANY, "m.avro")
    fields = [PartitionField("x", "identity", 1002, 1), PartitionField("city", "identity", 1001, 2)]
    metadata = TableMetadata(2, "/t", partition_specs=[PartitionSpec(0, fields)])
    distinct, codes = partitions_of(manifest, metadata)
    assert [repr(distinct[code]) for code in codes.tolist()] == [
        repr((0, (value, "a" if number < 4 else None))) for number, value in enumerate(values)
    ]
    assert codes.tolist() == list(range(8))
    only = TableMetadata(2, "/t", partition_specs=[PartitionSpec(0, fields[:1])])
    assert partitions_of(manifest, only)[1].tolist() == [0, 1, 2, 3, 0, 2, 1, 4]
