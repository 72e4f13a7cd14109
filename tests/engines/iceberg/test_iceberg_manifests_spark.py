"""Manifests that Iceberg's Java library writes in Spark, decoded into columns that equal what fastavro reads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pruner.tables.iceberg.manifests import read_manifest, read_manifest_list
from tests.support.iceberg.damage import damage_fields, outcome_of_list, outcome_of_manifest, with_changes
from tests.support.iceberg.manifests import by_fastavro, of_manifest, unpacked
from tests.support.running import profiles
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pruner.tables.iceberg.manifests import ManifestFile

pytestmark = pytest.mark.spark

_DAMAGES = profiles.examples(40)
"""Random changes to the bytes of each file that are tried."""


def test_manifests_of_every_version(spark: SparkSession, tmp_path: Path) -> None:
    ice = iceberg_session(spark, tmp_path)
    rows = "SELECT id, CAST(id % 3 AS STRING) AS kind, id / 4 AS x, DATE '2024-01-01' AS day FROM range(0, 40, 1, 3)"
    for version in (1, 2, 3):
        table = f"ice.m{version}"
        mode = "copy-on-write" if version == 1 else "merge-on-read"
        properties = f"'format-version'='{version}', 'write.delete.mode'='{mode}'"
        ice.sql(
            f"CREATE TABLE {table} USING iceberg PARTITIONED BY (kind, bucket(4, id), months(day)) "
            f"TBLPROPERTIES ({properties}) AS {rows}"
        )
        ice.sql(f"INSERT INTO {table} {rows}")
        ice.sql(f"DELETE FROM {table} WHERE id % 5 = 1")
        ice.sql(f"ALTER TABLE {table} DROP PARTITION FIELD kind")
        ice.sql(f"INSERT INTO {table} {rows}")
        ice.sql(f"CALL ice.system.rewrite_manifests('m{version}')")
        lists = sorted(tmp_path.glob(f"m{version}/metadata/snap-*.avro"))
        lines = {
            line.path: line for path in lists for line in read_manifest_list(path.read_bytes(), path.name)
        }
        assert len(lines) > 3
        for line in lines.values():
            data = Path(line.path.removeprefix("file:")).read_bytes()
            assert of_manifest(read_manifest(data, line, line.path)) == by_fastavro(data, line)
        assert {line.content for line in lines.values()} == ({0} if version == 1 else {0, 1})
        _damage(lists[-1].read_bytes(), list(lines.values()), version)


def _damage(list_: bytes, lines: list[ManifestFile], version: int) -> None:
    """Damage the last list and a manifest of each content and spec: they are read right or refused."""
    damage_fields(list_, version, is_list=True)
    chance = random.Random(profiles.seed())
    outcomes = {outcome_of_list(with_changes(chance, list_, unpacked(list_))) for _ in range(_DAMAGES)}
    for line in {(line.content, line.spec_id): line for line in lines}.values():
        data = Path(line.path.removeprefix("file:")).read_bytes()
        damage_fields(data, version, is_list=False, content=line.content)
        whole = unpacked(data)
        for _ in range(_DAMAGES):
            outcomes.add(outcome_of_manifest(with_changes(chance, data, whole), line))
    assert outcomes == {"right", "refused"}
