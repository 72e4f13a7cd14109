"""Branches, tags, and Iceberg's procedures in Spark, with indexes beside the table: each state is what Spark reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_duckdb
import pruner_spark
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

NAME = "ns.procedures"
TABLE = f"ice.{NAME}"
PROPERTIES = "'format-version'='2', 'write.delete.mode'='merge-on-read', 'write.wap.enabled'='true'"
CONDITIONS = ("true", "id = 17", "name = 'n33' OR id = 201")
ROW = "id, concat('n', id * 7 % 80) AS name"


@pytest.fixture(scope="module")
def ice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    return iceberg_session(spark, tmp_path_factory.mktemp("warehouse"))


def _call(ice: SparkSession, procedure: str, arguments: str) -> None:
    ice.sql(f"CALL ice.system.{procedure}(table => '{NAME}'{arguments})")


def _staged(ice: SparkSession) -> None:
    """Write a snapshot that is on no branch, and pick it."""
    ice.conf.set("spark.wap.id", "staged")
    try:
        ice.sql(f"INSERT INTO {TABLE} VALUES (200, 'n33'), (201, 'x')")
    finally:
        ice.conf.unset("spark.wap.id")
    row = ice.sql(f"SELECT snapshot_id FROM {TABLE}.snapshots WHERE summary['wap.id'] = 'staged'").first()
    assert row is not None
    _call(ice, "cherrypick_snapshot", f", snapshot_id => {row[0]}")


def _rolled_back(ice: SparkSession) -> None:
    row = ice.sql(f"SELECT snapshot_id FROM {TABLE}.refs WHERE name = 'before'").first()
    assert row is not None
    _call(ice, "rollback_to_snapshot", f", snapshot_id => {row[0]}")


def _steps(ice: SparkSession) -> list[tuple[str, Callable[[], Any]]]:
    now = "TIMESTAMP '2100-01-01 00:00:00'"
    day_ago = f"TIMESTAMP '{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(time.time() - 3 * 86_400))}'"
    return [
        ("delete", lambda: ice.sql(f"DELETE FROM {TABLE} WHERE id IN (17, 41)")),
        ("tag", lambda: ice.sql(f"ALTER TABLE {TABLE} CREATE TAG before")),
        ("branch", lambda: ice.sql(f"ALTER TABLE {TABLE} CREATE BRANCH b")),
        ("append to the branch", lambda: ice.sql(f"INSERT INTO {TABLE}.branch_b VALUES (300, 'n33')")),
        ("cherry-pick", lambda: _staged(ice)),
        ("delete after it", lambda: ice.sql(f"DELETE FROM {TABLE} WHERE id = 201")),
        ("roll back", lambda: _rolled_back(ice)),
        ("fast-forward", lambda: _call(ice, "fast_forward", ", branch => 'main', to => 'b'")),
        ("rewrite manifests", lambda: _call(ice, "rewrite_manifests", "")),
        (
            "rewrite data files",
            lambda: _call(ice, "rewrite_data_files", ", options => map('rewrite-all', 'true')"),
        ),
        ("drop tag", lambda: ice.sql(f"ALTER TABLE {TABLE} DROP TAG before")),
        ("drop branch", lambda: ice.sql(f"ALTER TABLE {TABLE} DROP BRANCH b")),
        ("expire", lambda: _call(ice, "expire_snapshots", f", older_than => {now}, retain_last => 1")),
        ("remove orphans", lambda: _call(ice, "remove_orphan_files", f", older_than => {day_ago}")),
        ("append", lambda: ice.sql(f"INSERT INTO {TABLE} VALUES (400, 'n33')")),
    ]


def _age(folder: Path) -> None:
    """Make files look as if they were written long ago."""
    old = time.time() - 30 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (old, old))


def test_each_state_is_what_spark_reads(ice: SparkSession) -> None:
    ice.sql(f"CREATE TABLE {TABLE} (id BIGINT, name STRING) USING iceberg TBLPROPERTIES ({PROPERTIES})")
    ice.sql(f"INSERT INTO {TABLE} SELECT {ROW} FROM range(0, 80, 1, 4)")
    root = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "") / NAME.replace(".", "/")
    followed = pruner.open_table(str(root))
    followed.create_index("names", ["id", "name"], "bitmap")
    index = Path(followed.index_uri)
    orphan = root / "data" / "orphan.parquet"
    orphan.write_bytes(b"nobody knows it")
    with pruner_duckdb.connect({"t": followed}) as pruned:
        for step, act in _steps(ice):
            if step == "remove orphans":
                _age(index)
                _age(root / "data")
            act()
            _require_same(ice, pruned, followed, step)
            if step in ("cherry-pick", "fast-forward", "rewrite data files"):
                followed.refresh()
                _require_same(ice, pruned, followed, f"refresh after {step}")
    assert not orphan.exists(), "what no snapshot names is gone"
    assert followed.verify() == [], "and nothing of the indexes is"
    unknown = "name = 'n33x'"  # between two names that the rewritten file has
    assert followed.plan(unknown).kept == 0
    assert pruner.open_table(followed.uri, index_uri=f"{index}.none").plan(unknown).kept == 1


def _require_same(
    ice: SparkSession, pruned: pruner_duckdb.Connection, followed: pruner.Table, step: str
) -> None:
    anew = pruner.open_table(followed.uri)
    for condition in CONDITIONS:
        expected = sorted(tuple(row) for row in ice.sql(f"SELECT * FROM {TABLE} WHERE {condition}").collect())
        assert sorted(pruned.execute(f"SELECT * FROM t WHERE {condition}").fetchall()) == expected, step
        frame = pruner_spark.read(ice, followed.uri).where(condition)
        assert sorted(tuple(row) for row in frame.collect()) == expected, step
        one, other = followed.plan(condition), anew.plan(condition)
        assert one.kept_mask.tolist() == other.kept_mask.tolist(), (step, condition)
