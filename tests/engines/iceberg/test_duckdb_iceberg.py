"""Iceberg tables in DuckDB: what pyiceberg writes and reads, with and without indexes."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg import types as iceberg
from pyiceberg.table import StaticTable
from pyiceberg.transforms import parse_transform

import pruner
import pruner_duckdb
from pruner.errors import TableError
from tests.support.duckdb.plain import keep
from tests.support.iceberg.tables import COLUMNS, ROWS, SPECS, IcebergLake, rows

CONDITIONS = (
    "id = 30",
    "id IN (3, 40, 55)",
    "number < -20",
    "number IS NULL",
    "number IS NOT NULL AND number % 2 = 0",
    "small = 0",
    "small > 3",
    "x > 5",
    "x = 'NaN'::DOUBLE",
    "NOT x < 3",
    "price BETWEEN 0 AND 1.5",
    "day < DATE '1970-01-01'",
    "day >= DATE '1970-05-01'",
    "\"at\" < TIMESTAMPTZ '1970-01-02 00:00:00Z'",
    "wall >= TIMESTAMP '1970-01-10 00:00:00'",
    "clock > TIME '20:00:00'",
    "name LIKE 'Ä%'",
    "name >= 'z'",
    "name = 'Zlang und breit lang und breit lang und breit 002'",
    "flag",
    "NOT flag",
    "flag IS NULL",
    "raw = '\\x05\\xFF\\x05'::BLOB",
    "box.a > 60",
    "box.b IS NULL",
    "id > 20 OR number IS NULL",
    "lower(name) = 'zlang und breit lang und breit lang und breit 002'",
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> IcebergLake:
    return IcebergLake(tmp_path_factory.mktemp("iceberg"))


@pytest.fixture(scope="module", params=SPECS)
def table(lake: IcebergLake, request: pytest.FixtureRequest) -> Any:
    made = lake.create(request.param, request.param)
    for start in range(0, 4 * ROWS, ROWS):
        made.append(rows(made, range(start, start + ROWS)))
    made.delete("id = 7 or id = 50")
    return made


@lru_cache(maxsize=1)
def _plain(metadata_location: str) -> duckdb.DuckDBPyConnection:
    """Plain DuckDB over all rows of a state of a table: reading them with PyIceberg takes longer than all else here."""
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'Asia/Kathmandu'")
    return keep(plain, StaticTable.from_metadata(metadata_location).scan().to_arrow())


def _same(pruned: pruner_duckdb.Connection, table: Any, condition: str) -> None:
    comparable = "SELECT * REPLACE (key::BLOB::VARCHAR AS key) FROM t"
    expected = (
        _plain(table.metadata_location).execute(f"{comparable} WHERE {condition} ORDER BY id").fetchall()
    )
    found = pruned.execute(f"{comparable} WHERE {condition} ORDER BY id").fetchall()
    assert repr(found) == repr(expected), condition


@pytest.mark.sampled(15)
@pytest.mark.parametrize("indexed", [False, True])
def test_rows_are_those_of_pyiceberg(table: Any, tmp_path: Path, indexed: bool) -> None:
    opened = pruner.open_table(table.metadata_location, index_uri=str(tmp_path / "index"))
    if indexed:
        opened.create_index("all", "*", "column_stats")
        opened.create_index("names", "name", "bitmap")
        opened.create_index("blooms", "id", "bloom_filter")
    with pruner_duckdb.connect({"t": opened}) as pruned:
        pruned.execute("SET TimeZone = 'Asia/Kathmandu'")
        for condition in CONDITIONS:
            _same(pruned, table, condition)


@pytest.fixture(scope="module")
def evolved(lake: IcebergLake) -> Any:
    """A table whose columns were renamed, moved, dropped, added again and promoted, and whose spec changed twice."""
    made = lake.create("evolved", "months")
    made.append(rows(made, range(ROWS)))
    with made.update_schema() as schema:
        schema.rename_column("name", "number_")
        schema.rename_column("x", "name")
        schema.update_column("number", iceberg.LongType())
        schema.update_column("small", iceberg.DoubleType())
        schema.delete_column("flag")
    with made.update_schema() as schema:
        schema.rename_column("number_", "x")
        schema.add_column("flag", iceberg.StringType())
        schema.move_first("price")
    with made.update_spec() as spec:
        spec.remove_field("p0")
        spec.add_field("price", "truncate[500]", "prices")
    made.append(_renamed(made, range(ROWS, 2 * ROWS)))
    with made.update_spec() as spec:
        spec.remove_field("p1")
        spec.add_identity("number")
    made.append(_renamed(made, range(2 * ROWS, 3 * ROWS)))
    return made


def _renamed(table: Any, numbers: range) -> pa.Table:
    """Rows of the evolved table: two columns have swapped names, and one is a different column."""
    written: dict[Any, str] = {"x": "name", "name": "x"}
    schema = table.schema().as_arrow()
    columns = {
        field.name: [
            str(n) if field.name == "flag" else COLUMNS[written.get(field.name) or field.name][1](n)
            for n in numbers
        ]
        for field in schema
    }
    return pa.table(
        {name: pa.array(values, schema.field(name).type) for name, values in columns.items()}, schema=schema
    )


EVOLVED = (
    "id = 3",
    "name > 5",
    "name IS NULL",
    "x LIKE 'Ä%'",
    "x = 'zlang und breit lang und breit lang und breit 001'",
    "flag IS NULL",
    "flag = '30'",
    "number = 150",
    "number IS NULL",
    "small = 0.1::FLOAT",
    "price < -2",
    "day < DATE '1970-01-01'",
)


@pytest.mark.slow
@pytest.mark.parametrize("indexed", [False, True])
def test_columns_are_found_whatever_they_were_called(evolved: Any, tmp_path: Path, indexed: bool) -> None:
    opened = pruner.open_table(evolved.metadata_location, index_uri=str(tmp_path / "index"))
    if indexed:
        opened.create_index("all", "*", "column_stats")
        opened.create_index("names", "x", "bitmap")
    with pruner_duckdb.connect({"t": opened}) as pruned:
        pruned.execute("SET TimeZone = 'Asia/Kathmandu'")
        for condition in EVOLVED:
            _same(pruned, evolved, condition)
    assert len(opened.plan("flag IS NULL").ordinals) < len(opened.plan("true").ordinals) or not indexed


@pytest.mark.slow
def test_an_index_follows_a_column_that_is_renamed(lake: IcebergLake, tmp_path: Path) -> None:
    made = lake.create("followed")
    made.append(rows(made, range(ROWS)))
    made.append(rows(made, range(ROWS, 2 * ROWS)))
    opened = pruner.open_table(made.metadata_location, index_uri=str(tmp_path / "index"))
    opened.create_index("ids", "id", "bloom_filter")
    with made.update_schema() as schema:
        schema.rename_column("id", "key_of_old")
        schema.rename_column("number", "id")
    again = pruner.open_table(made.metadata_location, index_uri=str(tmp_path / "index"))
    assert len(again.plan("key_of_old = 30").ordinals) == 1
    assert len(again.plan("id = 31").ordinals) >= 1
    assert again.status().indexes[0].columns == ("key_of_old",)


@pytest.mark.slow
def test_snapshots_branches_tags_and_moments(evolved: Any) -> None:
    first = evolved.history()[0]
    evolved.manage_snapshots().create_tag(first.snapshot_id, "first").create_branch(
        first.snapshot_id, "side"
    ).commit()
    moment = datetime.fromtimestamp(first.timestamp_ms / 1000 + 0.0005, UTC).isoformat()
    for instant in (str(first.snapshot_id), "first", moment):
        with pruner_duckdb.connect({"t": {"uri": evolved.metadata_location, "as_of": instant}}) as pruned:
            assert pruned.execute("SELECT count(*), count(x), typeof(any_value(x)) FROM t").fetchone() == (
                24,
                20,
                "DOUBLE",
            )
    opened = pruner.open_table(evolved.metadata_location)
    assert len(opened.snapshot("side").plan("true").ordinals) < len(opened.plan("true").ordinals)


def test_what_is_not_read_is_refused(lake: IcebergLake) -> None:
    made = lake.create("mapped")
    made.append(rows(made, range(4)))
    for mapping in ("", "nonsense", '[{"field-id": 1, "names": ["a"]}, {"field-id": 2, "names": ["a"]}]'):
        with made.transaction() as changed:
            changed.set_properties({"schema.name-mapping.default": mapping})
        with pytest.raises(TableError, match="name mapping"):
            pruner.open_table(made.metadata_location)
    with pytest.raises(TableError, match="its catalog alone knows"):
        pruner.open_table(str(lake.folder / "ns" / "mapped"))


@pytest.mark.slow
def test_a_field_of_a_struct_that_was_renamed_is_refused_and_no_other_column(lake: IcebergLake) -> None:
    made = lake.create("nested")
    made.append(rows(made, range(ROWS)))
    with made.update_schema() as schema:
        schema.rename_column("box.b", "c")
    with pruner_duckdb.connect({"t": made.metadata_location}) as pruned:
        assert pruned.execute("SELECT count(*), max(id) FROM t WHERE id > 3").fetchone() == (
            ROWS - 4,
            ROWS - 1,
        )
        with pytest.raises(TableError, match="a field 'b' inside a column"):
            pruned.execute("SELECT box.c FROM t")


def test_a_copy_that_names_the_files_of_the_original_is_refused(lake: IcebergLake, tmp_path: Path) -> None:
    made = lake.create("original")
    made.append(rows(made, range(4)))
    root = lake.folder / "ns" / "original"
    copy = Path(shutil.copytree(root, tmp_path / "copy"))
    metadata = Path(made.metadata_location.removeprefix("file://"))
    with pytest.raises(TableError, match="names the files there"):
        pruner.open_table(str(copy / "metadata" / metadata.name))
    assert len(pruner.open_table(str(metadata)).plan("id = 1").ordinals) == 1


@pytest.mark.sampled(8)
@pytest.mark.parametrize("source", ["number", "name", "raw", "at", "price", "x", "flag", "clock"])
def test_a_column_that_its_partition_alone_has_is_filled_in(
    lake: IcebergLake, tmp_path: Path, source: str
) -> None:
    """Also where files of an earlier spec have the column themselves."""
    made = lake.create(f"lacking_{source}")
    made.append(rows(made, range(4)))
    with made.update_spec() as spec:
        spec.add_identity(source)
    made.append(rows(made, range(4, 12)))
    expected = made.scan().to_arrow()
    for task in made.scan().plan_files():
        if task.file.spec_id:
            path = str(task.file.file_path).removeprefix("file://")
            pq.write_table(pq.ParquetFile(path).read(columns=["id", "small"]), path)
    with duckdb.connect() as plain, pruner_duckdb.connect({"t": made.metadata_location}) as pruned:
        plain.register("t", expected)
        said = f'"{source}"'
        for condition in ("true", f"{said} IS NULL", f"{said} IS NOT NULL", "id = 5"):
            text = f"SELECT id, {said}::VARCHAR, typeof(small) FROM t WHERE {condition} ORDER BY id"
            assert pruned.execute(text).fetchall() == plain.execute(text).fetchall(), condition


@pytest.mark.slow
def test_records_of_a_column_that_its_partition_alone_has_deny_no_value(
    lake: IcebergLake, tmp_path: Path
) -> None:
    """Engines fill the column in from the partition: a file without it is not a file of NULLs."""
    made = lake.create("filled", "identity")
    made.append(rows(made, range(4)))
    values = made.scan().to_arrow().column("number").to_pylist()
    files = list(made.scan().plan_files())
    for task in files:
        path = str(task.file.file_path).removeprefix("file://")
        pq.write_table(pq.ParquetFile(path).read(columns=["id", "x"]), path)
    opened = pruner.open_table(made.metadata_location, index_uri=str(tmp_path / "index"))
    for kind in ("column_stats", "bitmap", "bloom_filter"):
        opened.create_index(f"numbers_{kind}", "number", kind)
    for value in set(values):
        condition = "number IS NULL" if value is None else f"number = {value}"
        kept = {str(each) for each in opened.plan(condition).files}
        matching = {str(task.file.file_path) for task in files if task.file.partition[0] == value}
        assert {each.removeprefix("file://") for each in kept} >= {
            each.removeprefix("file://") for each in matching
        }, condition
        assert matching


@pytest.mark.slow
def test_equality_keeps_the_files_of_the_buckets_of_its_values(lake: IcebergLake, tmp_path: Path) -> None:
    """Also where the number of buckets and the column's type changed; a bucket implies nothing else."""
    made = lake.create("bucketed", "buckets")
    made.append(rows(made, range(2 * ROWS)))
    with made.update_schema() as schema:
        schema.update_column("number", iceberg.LongType())
    with made.update_spec() as spec:
        spec.remove_field("p0")
        spec.add_field("number", "bucket[5]", "fifths")
    made.append(rows(made, range(2 * ROWS)))
    opened = pruner.open_table(made.metadata_location, index_uri=str(tmp_path / "index"))
    files = [
        (task.file, pq.ParquetFile(_local(task.file.file_path)).read()) for task in made.scan().plan_files()
    ]
    count = {0: 4, 1: 5}

    def kept(condition: str) -> set[str]:
        plan = opened.plan(condition)
        return {_local(each) for each in plan.snapshot.base_files.take(pa.array(plan.ordinals)).to_pylist()}

    for number in (3, 10, -32, 200, 150, 1_000_003):
        holding: set[str] = set()
        alike: set[str] = set()
        for file, held in files:
            bucket = parse_transform(f"bucket[{count[file.spec_id]}]").transform(iceberg.LongType())(number)
            values = [each for each in held["number"].to_pylist() if each is not None]
            if number in values:
                holding.add(_local(file.file_path))
            if values and bucket == file.partition[0] and min(values) <= number <= max(values):
                alike.add(_local(file.file_path))
        assert holding <= alike
        assert kept(f"number = {number}") == alike, number
        assert kept(f"number IN ({number}, {number}, NULL)") == alike, number
        assert kept(f"number <> {number}") >= holding
    assert any(
        len(kept(f"number = {number}")) < len(kept(f"number BETWEEN {number} AND {number} + 1"))
        for number in (3, 10, 150)
    )


def _local(uri: Any) -> str:
    return str(uri).removeprefix("file://")
