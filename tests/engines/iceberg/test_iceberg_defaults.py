"""Columns of Iceberg tables with a default for rows written before they were added (version 3 of the format)."""

from __future__ import annotations

import json
from datetime import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pyarrow as pa
import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

import pruner
import pruner_duckdb
from pruner.errors import TableError
from tests.support.iceberg.spark_rows import rows_by_condition
from tests.support.iceberg.tables import IcebergLake, give_default
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DEFAULTS: dict[str, tuple[str, str, Any]] = {
    "i": ("INT", "6", 7),
    "l": ("BIGINT", "-9", 5_000_000_000),
    "f": ("FLOAT", "2", 0.1),
    "x": ("DOUBLE", "1", -0.5),
    "s": ("STRING", "'it''s'", 'it\'s "ö" \\ here'),
    "d": ("DATE", "DATE '2020-01-01'", "1969-12-31"),
    "t": ("TIMESTAMP", "TIMESTAMP '2020-01-01 00:00:00'", "2017-11-16T22:31:08.123456+00:00"),
    "w": ("TIMESTAMP_NTZ", "TIMESTAMP_NTZ '2020-01-01 00:00:00'", "2017-11-16T22:31:08.123456"),
    "b": ("BOOLEAN", "false", True),
    "r": ("BINARY", "X'00'", "00ff5c27"),
}
"""Columns: their type, a value that is written, and the default in JSON."""
CONDITIONS = (
    "true",
    "i = 7",
    "i IS NULL",
    "i IS NOT NULL",
    "i <> 7",
    "l > 100",
    "f < 1",
    "x = -0.5",
    "s LIKE 'it%'",
    "d < DATE '1970-01-01'",
    "w > TIMESTAMP '2018-01-01 00:00:00'",
    "b",
    "NOT b OR id = 2",
)


@pytest.fixture(scope="module")
def ice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    session = iceberg_session(spark, tmp_path_factory.mktemp("warehouse"))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _rows(pruned: pruner_duckdb.Connection, columns: list[str], condition: str) -> list[str]:
    said = ", ".join("t AT TIME ZONE 'UTC' AS t" if each == "t" else each for each in columns)
    found = pruned.execute(f"SELECT {said} FROM t WHERE {condition} ORDER BY id").fetchall()
    return [repr(tuple(map(_plain, row))) for row in found]


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, bytes | bytearray) else value


@pytest.mark.spark
@pytest.mark.parametrize("indexed", ["not", "before", "after"])
def test_rows_of_before_a_column_was_added_have_its_default(
    ice: SparkSession, tmp_path: Path, indexed: str
) -> None:
    root = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "") / "ns" / f"late_{indexed}"
    table = f"ice.ns.late_{indexed}"
    ice.sql(f"CREATE TABLE {table} (id BIGINT) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    ice.sql(f"INSERT INTO {table} VALUES (1), (2)")
    opened = pruner.open_table(str(root), index_uri=str(tmp_path / "index"))
    for name, (type_, _, default) in DEFAULTS.items():
        ice.sql(f"ALTER TABLE {table} ADD COLUMN {name} {type_}")
        give_default(root, name, default)

    def build() -> None:
        for kind in ("column_stats", "bitmap", "bloom_filter"):
            for name in DEFAULTS:
                if kind == "column_stats" or name not in "fxbr":
                    opened.create_index(f"{kind}_{name}", name, kind)

    if indexed == "before":
        build()
    ice.sql(f"INSERT INTO {table} SELECT 3, {', '.join(value for _, value, _ in DEFAULTS.values())}")
    ice.sql(f"INSERT INTO {table} SELECT 5, {', '.join('NULL' for _ in DEFAULTS)}")
    ice.sql(f"ALTER TABLE {table} RENAME COLUMN l TO l2")
    ice.sql(f"ALTER TABLE {table} ALTER COLUMN i TYPE BIGINT")
    if indexed == "before":
        opened.refresh()
    frame = ice.table(table)
    with pruner_duckdb.connect({"t": opened}) as pruned:
        if indexed == "after":
            opened.create_index("stats", "*", "column_stats")
            opened.create_index("late", "i", "bitmap")
        said = [condition.replace("l >", "l2 >") for condition in CONDITIONS]
        spoken = [condition.replace("TIMESTAMP '", "TIMESTAMP_NTZ '") for condition in said]
        for condition, rows in zip(said, rows_by_condition(frame, spoken).values(), strict=True):
            expected = [repr(tuple(map(_plain, row))) for row in sorted(rows)]
            assert _rows(pruned, frame.columns, condition) == expected, condition
        assert pruned.execute("SELECT count(i), min(l2), max(x), count(*) FROM t").fetchone() == (
            3,
            -9,
            1.0,
            4,
        )
    # Two of the four files are older than the columns: their defaults are not in the manifests, nor in records.
    assert [len(opened.plan(each).ordinals) for each in ("i = 7", "i = 6", "i = 9", "i IS NULL")] == [
        2,
        3,
        2,
        3,
    ]


@pytest.mark.spark
def test_defaults_that_are_not_filled_in_are_refused(ice: SparkSession, tmp_path: Path) -> None:
    root = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "") / "ns" / "inner"
    ice.sql(
        "CREATE TABLE ice.ns.inner (id BIGINT, s STRUCT<a: INT>) USING iceberg "
        "TBLPROPERTIES ('format-version' = '3')"
    )
    ice.sql("INSERT INTO ice.ns.inner VALUES (1, named_struct('a', 1))")
    ice.sql("ALTER TABLE ice.ns.inner ADD COLUMN s.b INT")
    hint = root / "metadata" / "version-hint.text"
    version = int(hint.read_text())
    place = root / "metadata" / f"v{version}.metadata.json"
    metadata = json.loads(place.read_text())
    added = metadata["schemas"][-1]["fields"][1]["type"]["fields"][1]
    added["initial-default"] = 5
    place.write_text(json.dumps(metadata))
    with pruner_duckdb.connect({"t": str(root)}) as pruned:
        assert pruned.execute("SELECT id FROM t").fetchall() == [(1,)]
        with pytest.raises(TableError, match="lacks field 'b'"):
            pruned.execute("SELECT s.b FROM t")
    added["initial-default"] = "five"
    place.write_text(json.dumps(metadata))
    with pytest.raises(TableError, match="a default for older rows that is no int32"):
        pruner.open_table(str(root)).snapshot()


OTHERS: dict[str, tuple[iceberg.IcebergType, Any, Any]] = {
    "p": (iceberg.DecimalType(9, 2), "14.20", Decimal("14.20")),
    "q": (iceberg.DecimalType(38, 10), "-0.0000000001", Decimal("-0.0000000001")),
    "u": (
        iceberg.UUIDType(),
        "f79c3e09-677c-4bbd-a479-3f349cb785e7",
        UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7"),
    ),
    "c": (iceberg.TimeType(), "22:31:08.123456", time(22, 31, 8, 123456)),
    "z": (iceberg.FixedType(3), "00ff5c", b"\0\xff\\"),
    "timestamp_ns": (iceberg.TimeType(), "1969-12-31T22:31:08.123456789", "1969-12-31 22:31:08.123456789"),
}
"""Types that Spark 3.5 lacks, or (decimals, Iceberg 1.11) fails to read: expected by the specification."""


@pytest.mark.slow
def test_defaults_of_types_that_spark_does_not_read(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    made = lake.catalog.create_table("ns.late", Schema(iceberg.NestedField(1, "id", iceberg.LongType())))
    made.append(pa.table({"id": [1, 2]}))
    with made.update_schema() as changed:
        for name, (type_, _, _) in OTHERS.items():
            changed.add_column(name, type_)
    place = Path(made.metadata_location.removeprefix("file://"))
    metadata = json.loads(place.read_text())
    for each in metadata["schemas"][-1]["fields"][1:]:
        each["initial-default"] = OTHERS[each["name"]][1]
        if each["name"] == "timestamp_ns":
            each["type"] = each["name"]  # which PyIceberg adds only to tables of version 3
    place.write_text(json.dumps(metadata))
    with pruner_duckdb.connect({"t": str(place)}) as pruned:
        shown = "SELECT * EXCLUDE id REPLACE (timestamp_ns::VARCHAR AS timestamp_ns) FROM t WHERE p = 14.2"
        found = pruned.execute(shown).fetchall()
        assert found == [tuple(value for _, _, value in OTHERS.values())] * 2
        assert pruned.execute("SELECT count(*) FROM t WHERE c IS NULL OR z IS NULL").fetchall() == [(0,)]
