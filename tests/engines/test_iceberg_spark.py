"""Iceberg tables that Spark writes, read by DuckDB: rows that are deleted apart, and each state of a history."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import pruner
import pruner_duckdb
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DELETES = {
    "positions": "'format-version'='2', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read', 'write.delete.granularity'='partition'",
    "positions of files": "'format-version'='2', 'write.delete.mode'='merge-on-read', "
    "'write.update.mode'='merge-on-read', 'write.delete.granularity'='file'",
    "vectors": "'format-version'='3', 'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read', "
    "'write.merge.mode'='merge-on-read'",
    "rewritten": "'format-version'='1'",
}
SPECS = {
    "whole": "",
    "in buckets": "PARTITIONED BY (bucket(3, id))",
    "by days": "PARTITIONED BY (days(ts), kind)",
}
CONDITIONS = (
    "true",
    "id = 17",
    "id IN (3, 44, 61)",
    "kind = 'b' AND id > 30",
    "kind IS NULL",
    "price < 2",
    "ts >= TIMESTAMPTZ '2024-03-03 00:00:00Z'",
)


@pytest.fixture(scope="module")
def ice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    session = iceberg_session(spark, tmp_path_factory.mktemp("warehouse"))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _history(ice: SparkSession, name: str, spec: str, properties: str) -> list[Callable[[], Any]]:
    """Steps of a table, each to be run before it is looked at."""
    rows = (
        "SELECT id, CASE WHEN id % 7 = 0 THEN NULL ELSE substring('abc', CAST(id % 3 AS INT) + 1, 1) END AS kind, "
        "CAST(id * 0.25 AS DECIMAL(9, 2)) AS price, "
        "TIMESTAMP '2024-03-01 00:00:00' + make_dt_interval(0, id, 0, 0) AS ts "
        "FROM range({}, {}, 1, 2)"
    )
    table = f"ice.{name}"
    return [
        lambda: ice.sql(
            f"CREATE TABLE {table} (id BIGINT, kind STRING, price DECIMAL(9, 2), ts TIMESTAMP) USING iceberg {spec} "
            f"TBLPROPERTIES ({properties})"
        ),
        lambda: ice.sql(f"INSERT INTO {table} {rows.format(0, 40)}"),
        lambda: ice.sql(f"DELETE FROM {table} WHERE id % 10 = 3"),
        lambda: ice.sql(f"INSERT INTO {table} {rows.format(40, 80)}"),
        lambda: ice.sql(f"DELETE FROM {table} WHERE id IN (17, 44) OR price BETWEEN 5 AND 6"),
        lambda: ice.sql(f"UPDATE {table} SET kind = 'z' WHERE id % 11 = 5"),
        lambda: ice.sql(f"ALTER TABLE {table} RENAME COLUMN price TO cost"),
        lambda: ice.sql(f"DELETE FROM {table} WHERE cost > 18"),
        lambda: ice.sql(
            f"CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))"
        ),
        lambda: ice.sql(f"DELETE FROM {table} WHERE id = 30"),
    ]


@pytest.mark.parametrize(
    ("deletes", "spec"),
    [
        ("positions", "in buckets"),
        ("positions of files", "by days"),
        ("vectors", "whole"),
        ("vectors", "by days"),
        ("rewritten", "in buckets"),
    ],
)
def test_each_state_is_what_spark_reads(ice: SparkSession, tmp_path: Path, deletes: str, spec: str) -> None:
    name = f"ns.{deletes}_{spec}".replace(" ", "_")
    steps = _history(ice, name, SPECS[spec], DELETES[deletes])
    steps.pop(0)()
    root = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "") / name.replace(".", "/")
    opened = pruner.open_table(str(root), index_uri=str(tmp_path / "index"))
    with pruner_duckdb.connect({"t": opened}) as pruned:
        pruned.execute("SET TimeZone = 'America/New_York'")
        for number, step in enumerate(steps):
            step()
            if number == 0:
                opened.create_index("ids", "id", "bloom_filter")
                opened.create_index("kinds", "kind", "bitmap")
            elif number == 3:
                opened.refresh()
            _same_as_spark(pruned, ice, f"ice.{name}", number)
        opened.refresh()
        kept, files = len(opened.plan("id = 29").ordinals), len(opened.plan("true").ordinals)
    # Another file may have the value by a false alarm of the filter, one in a hundred times.
    assert kept < files or files == 1


def _same_as_spark(pruned: pruner_duckdb.Connection, ice: SparkSession, table: str, step: int) -> None:
    columns = ice.table(table).columns
    for condition in CONDITIONS:
        renamed = condition.replace("price", "cost") if "cost" in columns else condition
        spoken = renamed.replace("TIMESTAMPTZ", "TIMESTAMP").replace("Z'", "'")
        expected = ice.sql(f"SELECT * FROM {table} WHERE {spoken} ORDER BY id").collect()
        shown = f"SELECT * REPLACE (ts AT TIME ZONE 'UTC' AS ts) FROM t WHERE {renamed} ORDER BY id"
        assert pruned.execute(shown).fetchall() == [tuple(row) for row in expected], (step, renamed)
    count = ice.sql(f"SELECT count(*), count(kind), max(id) FROM {table}").collect()
    assert pruned.execute("SELECT count(*), count(kind), max(id) FROM t").fetchall() == [
        tuple(row) for row in count
    ]
