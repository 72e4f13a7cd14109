"""Iceberg tables of files from other writers: no field ids, and columns that are in partitions alone."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

import pruner
import pruner_duckdb
from pruner.errors import TableError
from pruner.tables.iceberg.metadata import TableMetadata, read_metadata
from pruner.tables.iceberg.schema import reassigned
from tests.support.iceberg.spark_rows import rows_by_condition
from tests.support.iceberg.tables import IcebergLake
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MAPPING = "schema.name-mapping.default"
COLUMNS = (
    "a BIGINT, b STRING, s STRUCT<q: STRING, p: BIGINT>, l ARRAY<STRUCT<m: BIGINT>>, d DOUBLE, n DECIMAL(12, 2), "
    "t TIMESTAMP"
)
KINDS = ("column_stats", "bitmap", "bloom_filter")


@pytest.fixture(scope="module")
def ice(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    session = iceberg_session(spark, tmp_path_factory.mktemp("warehouse"))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def _root(ice: SparkSession, name: str) -> str:
    return f"{ice.conf.get('spark.sql.catalog.ice.warehouse')}/ns/{name}"


def _moment(n: int) -> datetime:
    return datetime(2024, 1, 1 + n, 12, tzinfo=UTC)


def _part(start: int, renamed: bool = False) -> pa.Table:
    """Rows of a file whose column order is not the table's; the table later renames some of the columns."""
    n = range(start, start + 4)
    return pa.table(
        {
            "b": [f"b{each}" for each in n],
            "x" if renamed else "a": pa.array(n, pa.int32() if renamed else pa.int64()),
            "s": [None if each % 4 == 1 else {"p": each, "q": f"q{each}"} for each in n],
            "l": [[{"m": each}] for each in n],
            "d": pa.array([each / 2 for each in n], pa.float32() if renamed else pa.float64()),
            "n": pa.array([Decimal(each) for each in n], pa.decimal128(9, 2)),
            "t": pa.array([_moment(each) for each in n], pa.timestamp("us", "UTC")),
        }
    )


def _imported(ice: SparkSession, folder: Path, name: str) -> Path:
    """A table of three files: one by its own writer, and two that were added."""
    folder.mkdir(parents=True)
    pq.write_table(_part(0), folder / "0.parquet")
    pq.write_table(_part(8), folder / "1.parquet", use_deprecated_int96_timestamps=True)
    ice.sql(f"CREATE TABLE ice.ns.{name} ({COLUMNS}) USING iceberg")
    ice.sql(
        f"INSERT INTO ice.ns.{name} VALUES (20, 'b20', named_struct('q', 'q20', 'p', 20L), "
        "array(named_struct('m', 20L)), 10D, 20, TIMESTAMP '2024-01-21 12:00:00')"
    )
    ice.sql(f"CALL ice.system.add_files(table => 'ns.{name}', source_table => 'parquet.`{folder}`')")
    return folder


CONDITIONS = (
    "true",
    "a = 2",
    "a IN (9, 20)",
    "a IS NULL",
    "a IS NOT NULL AND b > 'b1'",
    "b = 'b9'",
    "s.p = 10",
    "s.q = 'q3'",
    "s.p IS NULL",
    "d >= 5",
    "n = 9",
    "t = TIMESTAMP '2024-01-03 12:00:00'",
)


def _read(pruned: pruner_duckdb.Connection, condition: str, columns: str) -> list[str]:
    spoken = condition.replace("TIMESTAMP '", "TIMESTAMPTZ '").replace("00:00'", "00:00Z'")
    shown = columns.replace(" t", " t AT TIME ZONE 'UTC' AS t")
    found = pruned.execute(f"SELECT {shown} FROM t WHERE {spoken}").fetchall()
    return sorted(map(repr, found))


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.asDict(recursive=True) if hasattr(value, "asDict") else value


def _require_same(
    pruned: pruner_duckdb.Connection, rows: DataFrame, conditions: Iterable[str], columns: str
) -> None:
    """Compare the results of conditions with the rows for which they are true, from a read without conditions."""
    found = rows_by_condition(rows.selectExpr(*columns.split(", ")), list(conditions))
    for condition, expected in found.items():
        plain = sorted(repr(tuple(map(_plain, row))) for row in expected)
        assert _read(pruned, condition, columns) == plain, condition


@pytest.mark.spark
@pytest.mark.parametrize("indexed", ["not", "before", "after"])
def test_added_files_are_read_by_the_name_mapping(ice: SparkSession, tmp_path: Path, indexed: str) -> None:
    """Also after columns were renamed, added and moved, which adds their names to the mapping."""
    name = f"mapped_{indexed}"
    folder = _imported(ice, tmp_path / "src", name)
    opened = pruner.open_table(_root(ice, name), index_uri=str(tmp_path / "index"))

    def build() -> None:
        for kind in KINDS:
            for column in ("a", "b", "n", "s.p", "t", "d"):
                opened.create_index(f"{kind}_{column.replace('.', '_')}", column, kind)

    if indexed == "before":
        build()
    columns = "a, b, s, l, d, n, t"
    with pruner_duckdb.connect({"t": opened}) as pruned:
        pruned.execute("SET TimeZone = 'America/New_York'")
        _require_same(pruned, ice.table(f"ice.ns.{name}"), CONDITIONS, columns)
        ice.sql(f"ALTER TABLE ice.ns.{name} RENAME COLUMN a TO x")
        ice.sql(f"ALTER TABLE ice.ns.{name} ADD COLUMN e STRING")
        ice.sql(f"ALTER TABLE ice.ns.{name} ALTER COLUMN b FIRST")
        pq.write_table(_part(4, renamed=True), folder / "2.parquet")
        (folder / "0.parquet").rename(tmp_path / "moved.parquet")
        (folder / "1.parquet").rename(tmp_path / "moved too.parquet")
        ice.sql(f"CALL ice.system.add_files(table => 'ns.{name}', source_table => 'parquet.`{folder}`')")
        (tmp_path / "moved.parquet").rename(folder / "0.parquet")
        (tmp_path / "moved too.parquet").rename(folder / "1.parquet")
        if indexed == "after":
            build_after(opened)
        columns = "x, e, b, s, l, d, n, t"
        said = [condition.replace("a ", "x ") for condition in CONDITIONS]
        _require_same(pruned, ice.table(f"ice.ns.{name}"), said, columns)
        if indexed != "not":
            opened.refresh()
            assert len(opened.plan("x = 9").ordinals) == 1
            assert len(opened.plan("s.p = 9", dialect="duckdb").ordinals) <= 1
            _require_same(pruned, ice.table(f"ice.ns.{name}"), said, columns)


def build_after(opened: pruner.Table) -> None:
    for kind in KINDS:
        for column in ("x", "e", "b", "n", "s.p", "t", "d"):
            opened.create_index(f"{kind}_{column.replace('.', '_')}", column, kind)


@pytest.mark.spark
def test_without_a_mapping_columns_are_found_by_position_as_spark_does(
    ice: SparkSession, tmp_path: Path
) -> None:
    """Spark reads what is inside a column as NULL, where pruner raises an error; its indexes cover no such file."""
    folder = tmp_path / "src"
    folder.mkdir()
    own = _part(0)
    pq.write_table(
        pa.table([own[each] for each in ("a", "b", "s", "l", "d")], ["q", "w", "s", "l", "e"]),
        folder / "0.parquet",
    )
    ice.sql(
        "CREATE TABLE ice.ns.unmapped (a BIGINT, b STRING, s STRUCT<q: STRING, p: BIGINT>, l ARRAY<STRUCT<m: "
        "BIGINT>>, d DOUBLE) USING iceberg"
    )
    ice.sql("INSERT INTO ice.ns.unmapped VALUES (2, 'own', NULL, NULL, 7D)")
    ice.sql(f"CALL ice.system.add_files(table => 'ns.unmapped', source_table => 'parquet.`{folder}`')")
    ice.sql(f"ALTER TABLE ice.ns.unmapped UNSET TBLPROPERTIES ('{MAPPING}')")
    opened = pruner.open_table(_root(ice, "unmapped"), index_uri=str(tmp_path / "index"))
    for kind in KINDS:
        opened.create_index(f"{kind}_a", "a", kind)
    columns = "a, b, d"
    with pruner_duckdb.connect({"t": opened}) as pruned:
        said = ("true", "a = 2", "a > 2", "b = 'b3'", "d < 1", "d IS NULL")
        _require_same(pruned, ice.table("ice.ns.unmapped"), said, columns)
        assert _read(pruned, "d IS NULL", columns) == []
        with pytest.raises(TableError, match="no name mapping of the table tells"):
            pruned.execute("SELECT s FROM t")
    ice.sql("ALTER TABLE ice.ns.unmapped RENAME COLUMN a TO z")
    ice.sql("ALTER TABLE ice.ns.unmapped ADD COLUMN a STRING FIRST")
    with pruner_duckdb.connect({"t": opened}) as pruned:
        assert pruned.execute("SELECT sum(z), count(a) FROM t").fetchall() == [(8, 0)]


@pytest.mark.spark
def test_tables_that_spark_snapshots_and_hive_partitions(ice: SparkSession, tmp_path: Path) -> None:
    """Folder columns are in no file; their values are in partitions."""
    folder = tmp_path / "tree"
    values = ["x", "", "a b/ü", None]
    frame = ice.createDataFrame(
        [(n, f"v{n}", values[n % 4] or "y", n % 3) for n in range(24)], "k bigint, v string, p string, q int"
    )
    frame.repartition(1).write.partitionBy("p", "q").parquet(str(folder))
    ice.sql(
        "CREATE TABLE ice.ns.folders (k BIGINT, v STRING, p STRING, q INT) USING iceberg PARTITIONED BY (p, q)"
    )
    ice.sql(f"CALL ice.system.add_files(table => 'ns.folders', source_table => 'parquet.`{folder}`')")
    ice.sql("INSERT INTO ice.ns.folders VALUES (100, 'own', NULL, NULL), (101, 'own', '', 7)")
    opened = pruner.open_table(_root(ice, "folders"), index_uri=str(tmp_path / "index"))
    for kind in KINDS:
        opened.create_index(f"{kind}_k", "k", kind)
        opened.create_index(f"{kind}_p", "p", kind)
    with pruner_duckdb.connect({"t": opened}) as pruned:
        said = (
            "true",
            "p = 'x'",
            "p IS NULL",
            "p = ''",
            "q = 2",
            "k = 5",
            "q IS NULL OR k = 3",
            "v = 'v7'",
        )
        _require_same(pruned, ice.table("ice.ns.folders"), said, "k, v, p, q")
    total = len(opened.plan("true").ordinals)
    assert len(opened.plan("k = 5").ordinals) == 1
    assert len(opened.plan("p = 'x' AND q = 1").ordinals) == 1 < total


@pytest.mark.sampled(2)
@pytest.mark.parametrize("indexed", [False, True])
def test_files_that_pyiceberg_adds(tmp_path: Path, indexed: bool) -> None:
    lake = IcebergLake(tmp_path)
    made = lake.catalog.create_table(
        "ns.added",
        Schema(
            iceberg.NestedField(1, "k", iceberg.LongType()),
            iceberg.NestedField(2, "v", iceberg.StringType()),
            iceberg.NestedField(3, "x", iceberg.DoubleType()),
        ),
    )
    for number in range(4):
        n = range(5 * number, 5 * number + 5)
        rows = pa.table(
            {"x": [each / 2 for each in n], "v": [f"v{each}" for each in n], "k": pa.array(n, pa.int64())}
        )
        pq.write_table(rows, tmp_path / f"{number}.parquet")
        made.add_files([f"file://{tmp_path}/{number}.parquet"])
    with made.update_schema() as changed:
        changed.rename_column("k", "key")
        changed.add_column("other", iceberg.StringType())
    opened = pruner.open_table(made.metadata_location, index_uri=str(tmp_path / "index"))
    if indexed:
        for kind in KINDS:
            opened.create_index(f"{kind}_key", "key", kind)
            opened.create_index(f"{kind}_v", "v", kind)
    expected = made.scan("key in (7, 11)").to_arrow().select(["key", "v", "x", "other"]).to_pylist()
    with pruner_duckdb.connect({"t": opened}) as pruned:
        found = pruned.execute("SELECT key, v, x, other FROM t WHERE key IN (7, 11) ORDER BY key").fetchall()
        assert found == sorted(tuple(row.values()) for row in expected)
        assert len(found) == 2
        assert pruned.execute("SELECT x FROM t WHERE v = 'v8'").fetchall() == [(4.0,)]
    assert len(opened.plan("v = 'v8'").ordinals) == 1


def test_a_name_that_means_another_column_now_takes_the_metrics_of_the_former_one(tmp_path: Path) -> None:
    """The manifest has bounds and counts of what the file then had as `c`; readers no longer find it there."""
    lake = IcebergLake(tmp_path)
    made = lake.catalog.create_table(
        "ns.moved",
        Schema(
            iceberg.NestedField(1, "k", iceberg.LongType()),
            iceberg.NestedField(2, "a", iceberg.StringType()),
        ),
    )
    pq.write_table(pa.table({"k": [1, 2], "a": ["x", "y"]}), tmp_path / "0.parquet")
    made.add_files([f"file://{tmp_path}/0.parquet"])
    with made.update_schema() as changed:
        changed.rename_column("a", "c")
    assert pruner.open_table(made.metadata_location).plan("c = 'z'").kept == 0
    with made.update_schema() as changed:
        changed.add_column("a", iceberg.StringType())
    made.append(pa.table({"k": [3], "c": ["x"], "a": ["n"]}))
    opened = pruner.open_table(made.metadata_location, index_uri=str(tmp_path / "index"))
    for indexed in (False, True):
        if indexed:
            opened.create_index("all", "c", "column_stats")
        with pruner_duckdb.connect({"t": opened}) as pruned:
            found = pruned.execute("SELECT k, c, a FROM t ORDER BY k").fetchall()
            assert found == [(1, None, "x"), (2, None, "y"), (3, "x", "n")]
            for condition, ids in (("c IS NULL", [1, 2]), ("c IS NOT NULL", [3]), ("a = 'y'", [2])):
                rows = pruned.execute(f"SELECT k FROM t WHERE {condition} ORDER BY k").fetchall()
                assert rows == [(id_,) for id_ in ids], condition
                counted = pruned.execute(f"SELECT count(*) FROM t WHERE {condition}").fetchall()
                assert counted == [(len(ids),)], condition
            assert pruned.execute("SELECT max(c), count(c) FROM t").fetchall() == [("x", 1)]
        assert opened.plan("k = 9").kept == 0
        assert opened.plan("c = 'z'").kept == (0 if indexed else 2)
        assert opened.plan("c IS NULL").kept == (1 if indexed else 2)


def test_former_names_have_to_lead_to_the_column() -> None:
    """A mapping may lack a column's current name: files are read by the names that it has."""

    def metadata(*mapping: dict[str, Any]) -> TableMetadata:
        box = {"type": "struct", "fields": [{"id": 11, "name": "p", "type": "long"}]}
        first = [{"id": 1, "name": "a", "type": "long"}, {"id": 2, "name": "box", "type": box}]
        later = [{"id": 1, "name": "c", "type": "long"}, {"id": 2, "name": "crate", "type": box}]
        told = {
            "format-version": 2,
            "location": "/t",
            "schemas": [{"schema-id": 0, "fields": first}, {"schema-id": 1, "fields": later}],
            "current-schema-id": 1,
            "properties": {MAPPING: json.dumps(mapping)} if mapping else {},
        }
        return read_metadata(json.dumps(told).encode(), "/t", "/t/v1.metadata.json")

    def entry(id_: int, *names: str, **more: Any) -> dict[str, Any]:
        return {"field-id": id_, "names": names, **more}

    inside = {"fields": [entry(11, "p")]}
    assert reassigned(metadata()) == frozenset()
    assert reassigned(metadata(entry(1, "a", "c"), entry(2, "box", "crate", **inside))) == frozenset()
    assert reassigned(metadata(entry(1, "a"), entry(2, "box", **inside))) == frozenset()
    assert reassigned(metadata(entry(1, "c"), entry(2, "crate", **inside))) == {1, 2, 11}
    assert reassigned(metadata(entry(1, "a"), entry(3, "c"), entry(2, "box", **inside))) == {1}
    assert reassigned(metadata(entry(1, "a"), entry(2, "box", fields=[entry(12, "p")]))) == {11}


@pytest.mark.slow
def test_what_files_without_ids_hold_under_another_type_or_twice_is_refused(tmp_path: Path) -> None:
    lake = IcebergLake(tmp_path)
    made = lake.catalog.create_table(
        "ns.odd",
        Schema(
            iceberg.NestedField(1, "k", iceberg.LongType()),
            iceberg.NestedField(2, "v", iceberg.StringType()),
        ),
    )
    rows = pa.table({"k": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    pq.write_table(rows, tmp_path / "0.parquet")
    made.add_files([f"file://{tmp_path}/0.parquet"])
    opened = pruner.open_table(made.metadata_location, index_uri=str(tmp_path / "index"))
    cases = {
        "with values of type": pa.table({"k": [1.5, 2.5], "v": ["a", "b"]}),
        "differ in capitals": pa.table([pa.array([1]), pa.array([2]), pa.array(["a"])], ["k", "K", "v"]),
    }
    for message, odd in cases.items():
        pq.write_table(odd, tmp_path / "0.parquet")
        with pruner_duckdb.connect({"t": made.metadata_location}) as pruned:
            with pytest.raises(TableError, match=message):
                pruned.execute("SELECT k FROM t")
            assert pruned.execute("SELECT min(v) FROM t").fetchall() == [("a",)]
    opened.create_index("ks", "k", "bloom_filter")
    assert len(opened.plan("k = 99").ordinals) <= 1
