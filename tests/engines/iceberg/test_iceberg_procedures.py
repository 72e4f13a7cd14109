"""Branches, tags, and Iceberg's procedures in Spark, with indexes beside the table: each state is what Spark reads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pruner
import pruner_duckdb
import pruner_spark
from tests.engines.iceberg.test_iceberg_spark import delete_equal
from tests.support.iceberg.spark_rows import rows_by_condition
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
    """Write a snapshot that is on no branch, and cherry-pick it."""
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
    unknown = "name = 'n33x'"  # between two names in the rewritten file
    assert followed.plan(unknown).kept == 0
    assert pruner.open_table(followed.uri, index_uri=f"{index}.none").plan(unknown).kept == 1


DELETES = {
    "positions of partitions": "'format-version'='2', 'write.delete.granularity'='partition'",
    "positions of files": "'format-version'='2', 'write.delete.granularity'='file'",
    "positions, then vectors": "'format-version'='2', 'write.delete.granularity'='partition'",
}
UNKNOWN = "name = 'n33x'"
"""Between two names of each file, so that no bound excludes it; an index that covers all files does."""


@pytest.mark.parametrize("deletes", DELETES)
def test_delete_files_that_are_rewritten_uncover_no_data_file(ice: SparkSession, deletes: str) -> None:
    name = f"ns.{deletes}".replace(" ", "_").replace(",", "")
    table = f"ice.{name}"
    ice.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING) USING iceberg "
        f"TBLPROPERTIES ({DELETES[deletes]}, 'write.delete.mode'='merge-on-read')"
    )
    ice.sql(f"INSERT INTO {table} SELECT {ROW} FROM range(0, 80, 1, 4)")
    root = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "") / name.replace(".", "/")
    followed = pruner.open_table(str(root))
    followed.create_index("names", ["id", "name"], "bitmap")
    upgrade = f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version'='3')"
    equal = [pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"1"})]
    rewrite = f"CALL ice.system.rewrite_position_delete_files('{name}', map('rewrite-all', 'true'))"
    steps: dict[str, Callable[[], Any]] = {
        "delete": lambda: ice.sql(f"DELETE FROM {table} WHERE id IN (16, 17)"),
        "delete again": lambda: ice.sql(f"DELETE FROM {table} WHERE id IN (18, 41, 79)"),
        **({"upgrade": lambda: ice.sql(upgrade)} if "then" in deletes else {}),
        "delete more": lambda: ice.sql(f"DELETE FROM {table} WHERE id IN (0, 42)"),
        "delete by value": lambda: delete_equal(ice, table, equal, [[33], [60], [1000]]),
        "rewrite": lambda: _require_rewritten(ice, rewrite),
        "delete after it": lambda: ice.sql(f"DELETE FROM {table} WHERE id IN (2, 43)"),
        "rewrite again": lambda: ice.sql(rewrite),
        "rewrite manifests": lambda: ice.sql(f"CALL ice.system.rewrite_manifests('{name}')"),
        "expire": lambda: ice.sql(
            f"CALL ice.system.expire_snapshots('{name}', TIMESTAMP '2100-01-01 00:00:00', 1)"
        ),
    }
    with pruner_duckdb.connect({"t": followed}) as pruned:
        for step, act in steps.items():
            act()
            _require_same(ice, pruned, followed, step, table)
            kept = [followed.plan(each).kept for each in (UNKNOWN, "id = 17", "id = 33 OR id = 42", "true")]
            assert kept == [0, 1, 2, 4], "every data file is covered, and holds what it was written with"
        files = ice.sql(f"SELECT DISTINCT content, file_format FROM {table}.delete_files").collect()
        positions = "PUFFIN" if "then" in deletes else "PARQUET"
        assert {tuple(row) for row in files} == {(1, positions), (2, "PARQUET")}
        ice.sql(
            f"CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        )
        _require_same(ice, pruned, followed, "new data files", table)
        assert followed.plan(UNKNOWN).kept == 1, "which no index covers yet"
        followed.refresh()
        _require_same(ice, pruned, followed, "refresh", table)
        assert [followed.plan(each).kept for each in (UNKNOWN, "id = 17", "id = 19")] == [0, 0, 1]


def _require_rewritten(ice: SparkSession, call: str) -> None:
    row = ice.sql(call).first()
    assert row is not None
    assert row["rewritten_delete_files_count"] > 0


def _require_same(
    ice: SparkSession, pruned: pruner_duckdb.Connection, followed: pruner.Table, step: str, table: str = TABLE
) -> None:
    anew = pruner.open_table(followed.uri)
    for condition, rows in rows_by_condition(ice.table(table), CONDITIONS).items():
        expected = sorted(rows)
        assert sorted(pruned.execute(f"SELECT * FROM t WHERE {condition}").fetchall()) == expected, step
        frame = pruner_spark.read(ice, followed.uri).where(condition)
        assert sorted(tuple(row) for row in frame.collect()) == expected, step
        one, other = followed.plan(condition), anew.plan(condition)
        assert one.kept_mask.tolist() == other.kept_mask.tolist(), (step, condition)
