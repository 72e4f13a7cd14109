"""Iceberg tables with rarely used features, made by Spark: each state in DuckDB against Spark's read of all rows.

Format versions that rise over deletes of each kind; partition fields that are dropped, replaced, renamed, in structs
and on floats; files without metrics; manifests of deleted files alone; snapshots that expire; all in a folder whose
name must be escaped.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_duckdb
import pruner_spark
from tests.support.iceberg.spark_rows import rows_by_condition
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ROW = (
    "id, concat('k', CAST(id % 5 AS STRING)) AS kind, CASE WHEN id % 6 = 1 THEN double('NaN') WHEN id % 6 = 2 "
    "THEN -0.0D WHEN id % 6 = 3 THEN 0.0D ELSE id * 1.5D END AS x, named_struct('a', CAST(id DIV 8 AS INT), 'b', "
    "concat('b', id)) AS box"
)
COLUMNS = "(id BIGINT, kind STRING, x DOUBLE, box STRUCT<a: INT, b: STRING>)"
MERGED = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"

HISTORIES = {
    "v1 to v3, partitions dropped and renamed": (
        f"CREATE TABLE {{t}} {COLUMNS} USING iceberg PARTITIONED BY (kind, bucket(3, id)) "
        "TBLPROPERTIES ('format-version'='1')",
        "INSERT INTO {t} SELECT {row} FROM range(0, 20, 1, 2)",
        "ALTER TABLE {t} DROP PARTITION FIELD kind",
        "INSERT INTO {t} SELECT {row} FROM range(20, 40, 1, 2)",
        "ALTER TABLE {t} REPLACE PARTITION FIELD bucket(3, id) WITH bucket(4, id) AS kind_",
        "INSERT INTO {t} SELECT {row} FROM range(40, 60, 1, 2)",
        f"ALTER TABLE {{t}} SET TBLPROPERTIES ('format-version'='2', {MERGED})",
        "DELETE FROM {t} WHERE id % 9 = 4",
        "ALTER TABLE {t} RENAME COLUMN kind TO sort",
        "ALTER TABLE {t} SET TBLPROPERTIES ('format-version'='3')",
        "DELETE FROM {t} WHERE id % 9 = 5",
        "INSERT INTO {t} SELECT {row} FROM range(60, 80, 1, 2)",
        "UPDATE {t} SET x = -1 WHERE id IN (1, 41, 61)",
        "ALTER TABLE {t} DROP COLUMN x",
        "ALTER TABLE {t} ADD COLUMN x DOUBLE",
    ),
    "a field of a struct is the partition, sorted": (
        f"CREATE TABLE {{t}} {COLUMNS} USING iceberg PARTITIONED BY (box.a) "
        f"TBLPROPERTIES ('format-version'='2', {MERGED})",
        "ALTER TABLE {t} WRITE ORDERED BY kind DESC NULLS LAST, id",
        "INSERT INTO {t} SELECT {row} FROM range(0, 40, 1, 2)",
        "ALTER TABLE {t} ADD PARTITION FIELD truncate(2, box.b) AS parts",
        "INSERT INTO {t} SELECT {row} FROM range(40, 80, 1, 2)",
        "DELETE FROM {t} WHERE box.a = 3 OR id = 70",
        "ALTER TABLE {t} DROP PARTITION FIELD box.a",
        "INSERT INTO {t} SELECT {row} FROM range(80, 90, 1, 2)",
        "DELETE FROM {t} WHERE true",
        "INSERT INTO {t} SELECT {row} FROM range(90, 99, 1, 2)",
    ),
    "floats as partitions": (
        f"CREATE TABLE {{t}} {COLUMNS} USING iceberg PARTITIONED BY (x) TBLPROPERTIES ('format-version'='2')",
        "INSERT INTO {t} SELECT {row} FROM range(0, 20, 1, 2)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('write.metadata.metrics.default'='none')",
        "INSERT INTO {t} SELECT {row} FROM range(10, 30, 1, 2)",
        "INSERT OVERWRITE {t} SELECT {row} FROM range(5, 9, 1, 1)",
        "CALL ice.system.rewrite_manifests('{t}')",
        "CALL ice.system.expire_snapshots(table => '{t}', older_than => TIMESTAMP '2100-01-01 00:00:00', "
        "retain_last => 1)",
    ),
}
CONDITIONS = (
    "true",
    "id IN (3, 41, 61, 85, 95)",
    "id <> 7",
    "{kind} = 'k3'",
    "{kind} IS NULL",
    "x = 0",
    "NOT (x < 20)",
    "x IS NULL",
    "box.a = 3",
    "NOT (box.a < 5)",
    "box.b >= 'b7'",
)


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("odd") / "wärehouse of 50%20 blanks"


@pytest.fixture(scope="module")
def ice(spark: SparkSession, warehouse: Path) -> SparkSession:
    return iceberg_session(spark, warehouse)


@pytest.mark.parametrize("history", HISTORIES)
def test_each_state_is_what_spark_reads(
    ice: SparkSession, warehouse: Path, tmp_path: Path, history: str
) -> None:
    name = f"ns.t{list(HISTORIES).index(history)}"
    root = warehouse / name.replace(".", "/")
    create, first, *steps = HISTORIES[history]
    ice.sql(create.format(t=f"ice.{name}"))
    _run(ice, first, name)
    opened = pruner.open_table(str(root), index_uri=str(tmp_path / "index"))
    opened.create_index("ids", "id", "bloom_filter")
    fewer = _check(ice, opened, name, first)
    for number, step in enumerate(steps):
        _run(ice, step, name)
        if number % 3 == 0:
            opened.refresh()
        fewer += _check(ice, opened, name, step)
    assert fewer > len(steps), "hardly anything was pruned"
    frame = ice.table(f"ice.{name}")
    for text in _conditions(frame):
        # Iceberg itself loses rows with NaN or -0.0 (docs/iceberg.md).
        pruned = pruner_spark.read(ice, root).where(text)
        assert _ids(pruned) == _ids(frame.where(text)), text


def _run(ice: SparkSession, step: str, name: str) -> None:
    table = name if step.startswith("CALL") else f"ice.{name}"
    ice.sql(step.format(t=table, row=ROW))


def _check(ice: SparkSession, opened: pruner.Table, name: str, step: str) -> int:
    """Compare the rows of each condition with those of a full read; return how often files were left out."""
    frame = ice.table(f"ice.{name}")
    conditions = _conditions(frame)
    fewer = 0
    with pruner_duckdb.connect({"t": opened}) as pruned:
        for text, rows in rows_by_condition(frame, conditions).items():
            found = pruned.execute(f"SELECT id FROM t WHERE {text}").fetchall()
            expected = sorted(row[0] for row in rows)
            assert sorted(row[0] for row in found) == expected, f"after {step}: {text}"
            plan = opened.plan(text)
            fewer += plan.kept < plan.total
    return fewer


def _conditions(frame: DataFrame) -> list[str]:
    kind = "sort" if "sort" in frame.columns else "kind"
    found = [text.format(kind=kind) for text in CONDITIONS]
    return found if "x" in frame.columns else [text for text in found if not re.search(r"\bx\b", text)]


def _ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.select("id").collect())
