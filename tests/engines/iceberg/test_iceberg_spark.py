"""Iceberg tables that Spark writes, read by DuckDB: rows that delete files remove, and each state of a history."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_duckdb
from tests.support.iceberg.spark_rows import rows_by_condition
from tests.support.iceberg.tables import give_default
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
    # With it, Spark once returned rows that equality deletes had removed before a column was promoted.
    session.conf.set("spark.sql.iceberg.executor-cache.enabled", "false")
    return session


def history(ice: SparkSession, name: str, spec: str, properties: str) -> list[Callable[[], Any]]:
    """Steps of a table, each to be run before the table is read."""
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
    steps = history(ice, name, SPECS[spec], DELETES[deletes])
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
    # Another file may match by a false positive of the filter, one in a hundred times.
    assert kept < files or files == 1


def _same_as_spark(pruned: pruner_duckdb.Connection, ice: SparkSession, table: str, step: int) -> None:
    frame = ice.table(table)
    in_spark = {
        condition: condition.replace("TIMESTAMPTZ", "TIMESTAMP").replace("Z'", "'")
        for each in CONDITIONS
        for condition in [each.replace("price", "cost") if "cost" in frame.columns else each]
    }
    rows = rows_by_condition(frame, list(in_spark.values()))
    for condition, spoken in in_spark.items():
        shown = f"SELECT * REPLACE (ts AT TIME ZONE 'UTC' AS ts) FROM t WHERE {condition} ORDER BY id"
        assert pruned.execute(shown).fetchall() == sorted(rows[spoken], key=lambda row: row[0]), (
            step,
            condition,
        )
    counted = pruned.execute("SELECT count(*), count(kind), max(id) FROM t").fetchone()
    kinds = [row[1] for row in rows["true"]]
    assert counted == (len(kinds), len(kinds) - kinds.count(None), max(row[0] for row in rows["true"]))


def delete_equal(
    ice: SparkSession,
    table: str,
    fields: Sequence[pa.Field[Any]],
    rows: Sequence[Sequence[Any]],
    partition: str = "",
) -> None:
    """Commit a file of equality deletes as Flink writes them: fields have the ids of columns in their metadata."""
    java: Any = ice._jsparkSession
    jvm: Any = ice.sparkContext._jvm
    loaded = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(java, table)
    location: str = loaded.location()
    data = Path(location.removeprefix("file:")) / "data"
    place = data / f"deletes-{len(list(data.glob('deletes-*')))}.parquet"
    columns = [
        pa.array(values, each.type) for values, each in zip(zip(*rows, strict=True), fields, strict=True)
    ]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), place)
    ids = _leaf_ids(fields)
    array: Any = cast("Any", ice.sparkContext)._gateway.new_array(jvm.int, len(ids))
    for number, id_ in enumerate(ids):
        array[number] = id_
    made = jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(loaded.spec()).ofEqualityDeletes(array)
    made = (
        made.withPath(f"{location}/data/{place.name}")
        .withFormat("PARQUET")
        .withFileSizeInBytes(place.stat().st_size)
    )
    if partition:
        made = made.withPartitionPath(partition)
    loaded.newRowDelta().addDeletes(made.withRecordCount(len(rows)).build()).commit()


def _leaf_ids(fields: Sequence[Any]) -> list[int]:
    found: list[int] = []
    for each in fields:
        found += (
            _leaf_ids(list(each.type)) if pa.types.is_struct(each.type) else [int(each.metadata[_FIELD_ID])]
        )
    return found


_FIELD_ID = b"PARQUET:field_id"


def _field(id_: int, type_: pa.DataType, name: str = "c") -> pa.Field[Any]:
    return pa.field(name, type_, metadata={_FIELD_ID: str(id_)})


def equal_histories(ice: SparkSession, table: str) -> dict[str, list[Callable[[], Any]]]:
    """Steps of tables with equality deletes, each to be run before the table is read."""

    def delete(*arguments: Any, **options: Any) -> Callable[[], Any]:
        return lambda: delete_equal(ice, table, *arguments, **options)

    def run(text: str) -> Callable[[], Any]:
        return lambda: ice.sql(text.format(table))

    def with_default() -> None:
        ice.sql(f"ALTER TABLE {table} ADD COLUMN b INT")
        warehouse = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "")
        give_default(warehouse / table.removeprefix("ice.").replace(".", "/"), "b", 7)

    long, text = pa.int64(), pa.string()
    merge_on_read = "'format-version'='2', 'write.delete.mode'='merge-on-read'"
    return {
        "upserts": [
            run(
                f"CREATE TABLE {{}} (a INT, b STRING, c DOUBLE) USING iceberg TBLPROPERTIES ({merge_on_read})"
            ),
            run(
                "INSERT INTO {} VALUES (1, 'x', 1.5D), (2, 'y', -0.0D), (3, NULL, DOUBLE('NaN')), (NULL, 'z', NULL), "
                "(7, 'q', 0D)"
            ),
            delete([_field(1, pa.int32())], [[1], [9]]),
            run("INSERT INTO {} VALUES (1, 'again', 1D), (2, 'z', 0.0D), (5, 'x', 5D)"),
            delete([_field(1, pa.int32()), _field(2, text, "d")], [[2, "z"], [3, None], [7, "r"]]),
            delete([_field(3, pa.float64())], [[0.0]]),
            run(
                "INSERT INTO {} VALUES (2, 'z', DOUBLE('NaN')), (8, 'nan', DOUBLE('NaN')), (9, 'minus', -0.0D)"
            ),
            delete([_field(3, pa.float64())], [[math.nan]]),
            delete([_field(1, pa.int32())], [[None]]),
            run("DELETE FROM {} WHERE b = 'x'"),
            run("INSERT INTO {} VALUES (10, 'x', 1)"),
            delete([_field(2, text), _field(1, pa.int32(), "e")], [["x", 10], ["again", 2]]),
            run("ALTER TABLE {} ADD COLUMN d BIGINT"),
            run("INSERT INTO {} VALUES (11, 'd', 1, 11), (12, 'e', 1, NULL)"),
            delete([_field(4, long)], [[11]]),
            delete([_field(4, long), _field(1, pa.int32(), "a")], [[None, 2], [None, 12], [11, 1]]),
            run("ALTER TABLE {} RENAME COLUMN a TO key"),
            run("ALTER TABLE {} ALTER COLUMN key TYPE BIGINT"),
            run("INSERT INTO {} VALUES (1, 'wide', 1, 1), (5000000000, 'wide', 2, 2), (8, 'eight', 3, 3)"),
            delete([_field(1, long, "key")], [[5_000_000_000], [1]]),
            run("INSERT INTO {} VALUES (8, 'eight', 3, 3)"),
            delete([_field(1, pa.int32(), "a")], [[8]]),
            run("INSERT INTO {} VALUES (20, 'last', 3, 3)"),
        ],
        "partitions": [
            run(
                "CREATE TABLE {} (a BIGINT, b STRING) USING iceberg PARTITIONED BY (b) "
                f"TBLPROPERTIES ({merge_on_read})"
            ),
            run("INSERT INTO {} VALUES (1, 'x'), (2, 'x'), (1, 'y'), (1, NULL), (3, 'y'), (4, 'w')"),
            delete([_field(1, long)], [[1], [4]], partition="b=x"),
            delete([_field(1, long), _field(2, text, "b")], [[1, "y"], [3, "x"]], partition="b=y"),
            run("ALTER TABLE {} DROP PARTITION FIELD b"),
            run("INSERT INTO {} VALUES (2, 'x'), (5, 'v'), (6, NULL)"),
            delete([_field(1, long)], [[2], [6]]),
            run("INSERT INTO {} VALUES (2, 'late')"),
            run("ALTER TABLE {} ADD PARTITION FIELD bucket(4, a)"),
            run("INSERT INTO {} VALUES (4, 'bucketed'), (5, 'bucketed')"),
            run("DELETE FROM {} WHERE a = 3"),
        ],
        "structs": [
            run(
                "CREATE TABLE {} (a BIGINT, b STRUCT<x: INT, y: DECIMAL(9, 2)>, d DATE, e BINARY) USING iceberg "
                f"TBLPROPERTIES ({merge_on_read})"
            ),
            run(
                "INSERT INTO {} VALUES (1, named_struct('x', 1, 'y', 1.25BD), DATE '2024-01-01', X'00'), "
                "(2, named_struct('x', 2, 'y', NULL), NULL, X''), (3, NULL, DATE '1969-12-31', NULL)"
            ),
            delete(
                [pa.field("b", pa.struct([_field(6, pa.decimal128(9, 2), "y")]), metadata={_FIELD_ID: b"2"})],
                [[{"y": Decimal("1.25")}]],
            ),
            run(
                "INSERT INTO {} VALUES (4, NULL, DATE '2024-01-01', X'0000'), (5, NULL, DATE '2024-01-01', X'00')"
            ),
            delete([_field(3, pa.date32()), _field(4, pa.binary(), "e")], [[19723, b"\0"], [None, b""]]),
            delete(
                [pa.field("b", pa.struct([_field(5, pa.int32(), "x")]), metadata={_FIELD_ID: b"2"})],
                [[{"x": None}]],
            ),
        ],
        "defaults": [
            run("CREATE TABLE {} (a BIGINT) USING iceberg TBLPROPERTIES ('format-version'='3')"),
            run("INSERT INTO {} VALUES (1), (2), (3)"),
            with_default,
            run("INSERT INTO {} VALUES (4, 7), (5, NULL), (6, 8)"),
            delete([_field(2, pa.int32())], [[None]]),
            run("ALTER TABLE {} RENAME COLUMN b TO c"),
            delete([_field(2, pa.int32()), _field(1, long, "a")], [[7, 2], [7, 4], [9, 1]]),
        ],
    }


@pytest.mark.parametrize("name", ["upserts", "partitions", "structs", "defaults"])
def test_equality_deletes_remove_what_spark_leaves_out(ice: SparkSession, tmp_path: Path, name: str) -> None:
    table = f"ice.ns.equal_{name}"
    root = Path(ice.conf.get("spark.sql.catalog.ice.warehouse") or "") / f"ns/equal_{name}"
    steps = equal_histories(ice, table)[name]
    steps.pop(0)()
    opened = pruner.open_table(str(root), index_uri=str(tmp_path / "index"))
    with pruner_duckdb.connect({"t": opened}) as pruned:
        expected: list[tuple[Any, ...]] = []
        for number, step in enumerate(steps):
            step()
            if number == 0:
                opened.create_index("all", "*", "column_stats")
            expected = [tuple(row) for row in ice.table(table).collect()]
            _same_rows(pruned, "true", expected, number)
            assert pruned.execute("SELECT count(*) FROM t").fetchone() == (len(expected),), number
            (first, *_) = opened.snapshot().schema.columns
            for value in (1, 2, 5):
                matching = [row for row in expected if row[0] is not None and (row[0] == value or row[0] > 7)]
                _same_rows(pruned, f"{first.name} = {value} OR {first.name} > 7", matching, number)
        if name == "upserts":
            # Spark no longer reads such a table.
            ice.sql(f"ALTER TABLE {table} DROP COLUMN b")
            without = [(row[0], *row[2:]) for row in expected]
            _same_rows(pruned, "true", without, len(steps))


def _same_rows(pruned: pruner_duckdb.Connection, condition: str, expected: Sequence[Any], step: int) -> None:
    found = pruned.execute(f"SELECT * FROM t WHERE {condition}").fetchall()
    assert sorted(repr(_as_spark(row)) for row in found) == sorted(map(repr, expected)), (step, condition)


def _as_spark(row: tuple[Any, ...]) -> tuple[Any, ...]:
    from pyspark.sql import Row

    values = (Row(**each) if isinstance(each, dict) else each for each in row)
    return tuple(bytearray(each) if isinstance(each, bytes) else each for each in values)
