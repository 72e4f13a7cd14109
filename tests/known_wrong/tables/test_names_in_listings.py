"""Traps N1 to N10, as they concern listings, partition values and schemas.

Soundness here: the value attributed to a partition path is the one that DuckDB (or Spark) reads from it, for every
file. Power: the column is trusted, so its values prune.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.engines import ENGINES, Origin
from pruner.formats.detect import open_table_source
from pruner.storage.opening import open_store
from tests.support.kept.tables import KeptTables
from tests.support.parquet.tables import names, path_values, write_file, write_tree

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPECIAL = [
    "a b",
    "50%",
    "x=y",
    "p/q",
    "1+1",
    "12:30",
    "%2F",
    "%252F",
    "$d",
    "'quoted'",
    'a"b',
    "東京",
    "a#b?c",
]


def read_by_duckdb(root: Path, column: str, type_: str) -> dict[str, Any]:
    """The value of a partition column by file, as DuckDB reads it from the path."""
    options = f"hive_partitioning => true, hive_types => {{'{column}': {type_}}}, filename => true"
    query = f'select filename, any_value("{column}") from read_parquet(?, {options}) group by all'
    return dict(duckdb.execute(query, [f"{root}/**/*.parquet"]).fetchall())


def write_partitions(root: Path, column: str, values: list[Any], type_: str) -> Path:
    """Have DuckDB write one file for each value, in folders that it names and escapes."""
    rows = ", ".join("(?)" for _ in values)
    duckdb.execute(
        f'copy (select col0::{type_} as "{column}", row_number() over () as x from (values {rows})) '
        f"to '{root}' (format parquet, partition_by (\"{column}\"))",
        values,
    )
    return root


def test_n1_special_characters_are_decoded_once(tmp_path: Path):
    """N1: HUDI-7484, doris#21895, trino#18149: space, %, =, /, +, : in values; `%252F` is `%2F`."""
    root = write_partitions(tmp_path / "t", "city", SPECIAL, "varchar")
    snapshot = open_table_source([str(root)]).snapshot()
    found = path_values(snapshot, "city")
    assert found == read_by_duckdb(root, "city", "varchar")
    assert sorted(found.values()) == sorted(SPECIAL)


def test_n1_escapes_of_spark_and_hive_prune(tmp_path: Path):
    """N1: every engine decodes the escapes of Spark and Hive alike, so the column is trusted."""
    folders = ["city=a b", "city=50%25", "city=x%3Dy", "city=p%2Fq", "city=1+1", "city=12%3A30", "city=%252F"]
    root = write_tree(tmp_path / "t", *(f"{folder}/f.parquet" for folder in folders))
    snapshot = open_table_source([str(root)]).snapshot()
    assert path_values(snapshot, "city") == read_by_duckdb(root, "city", "varchar")
    assert sorted(path_values(snapshot, "city").values()) == sorted(
        ["a b", "50%", "x=y", "p/q", "1+1", "12:30", "%2F"]
    )
    assert ("city",) in snapshot.partitions.trusted


@pytest.mark.spark
@pytest.mark.parametrize("name", ["cow_special_values_v6", "cow_special_values_v9", "cow_raw_values_v9"])
def test_n1_hudi_partitions_with_special_characters(name: str, hudi_tables: KeptTables):
    """N1: HUDI-7484: such files are listed, and no path is trusted for a value that its file does not hold."""
    snapshot = open_table_source([str(hudi_tables.path(name))]).snapshot()
    for entry in snapshot.slices:
        held = pq.read_table(entry.base_file or "", columns=["city", "_hoodie_partition_path"]).to_pydict()
        assert set(held["_hoodie_partition_path"]) == {entry.partition_path}
    # A NULL partition holds empty strings as well, so the path says nothing; the files' own statistics do.
    assert ("city",) not in snapshot.partitions.values


def test_n2_texts_that_look_like_other_types_stay_texts(tmp_path: Path):
    """N2: presto#1864, SPARK-24879: `01`, `1e3`, `true`, the empty string, `__HIVE_DEFAULT_PARTITION__`."""
    folders = ["k=01", "k=1", "k=1e3", "k=true", "k=NaN", "k=", "k=__HIVE_DEFAULT_PARTITION__", "k= 1"]
    root = write_tree(tmp_path / "t", *(f"{folder}/f.parquet" for folder in folders))
    snapshot = open_table_source([str(root)]).snapshot()
    found = path_values(snapshot, "k")
    assert found == read_by_duckdb(root, "k", "varchar")
    assert found[f"{root}/k=__HIVE_DEFAULT_PARTITION__/f.parquet"] is None
    assert found[f"{root}/k=01/f.parquet"] == "01"
    # Spark infers numbers where it can and fails on the empty text: no engine's reading holds for all.
    assert not snapshot.partitions.trusted


def test_n2_numbers_with_leading_zeros_are_text_in_duckdb_alone(tmp_path: Path):
    """N2: `k=01` and `k=1` are one value in Spark and two in DuckDB, which infers text for both files."""
    root = write_tree(tmp_path / "t", "k=01/f.parquet", "k=1/f.parquet", "k=10/f.parquet")
    snapshot = open_table_source([str(root)]).snapshot()
    query = "select filename, k from read_parquet(?, hive_partitioning => true, filename => true)"
    assert path_values(snapshot, "k") == dict(duckdb.execute(query, [f"{root}/**/*.parquet"]).fetchall())
    assert snapshot.partitions.trusts(("k",), ENGINES["duckdb"])
    assert not snapshot.partitions.trusts(("k",), ENGINES["spark"])


@pytest.mark.parametrize(
    ("values", "type_", "arrow"),
    [
        ([1, -2, 2013, None], "bigint", pa.int64()),
        ([date(2013, 1, 31), date(1969, 12, 31), None], "date", pa.date32()),
        (["de", "01", "1e3", "true", None], "varchar", pa.string()),
    ],
)
def test_n2_texts_with_one_reading_are_typed_and_prune(
    tmp_path: Path, values: list[Any], type_: str, arrow: Any
):
    """N2: conversely, all engines read integers, dates and plain words alike, NULL included."""
    root = write_partitions(tmp_path / "t", "k", values, type_)
    snapshot = open_table_source([str(root)]).snapshot()
    assert path_values(snapshot, "k") == read_by_duckdb(root, "k", type_)
    assert set(path_values(snapshot, "k").values()) == set(values)
    assert snapshot.schema.find(("k",)).type == arrow
    assert snapshot.partitions.trusted == {("k",)}


@pytest.mark.spark
@pytest.mark.parametrize("name", ["cow_rounded_timestamp_v6", "cow_rounded_timestamp_v9"])
def test_n3_a_rounding_key_generator_says_nothing(name: str, hudi_tables: KeptTables):
    """N3: hudi#11717, hudi-rs#798: the folder `at=2013-01-01` holds every instant of that day."""
    snapshot = open_table_source([str(hudi_tables.path(name))]).snapshot()
    about = snapshot.schema.find(("at",))
    assert about.partition
    assert about.in_file
    assert not snapshot.partitions.values
    assert about.conflict is None, "the files' own statistics still prune"


@pytest.mark.spark
def test_n3_a_simple_key_generator_prunes(hudi_tables: KeptTables):
    """N3: conversely, where the generator writes the value itself, Spark and Trino read the path's value."""
    snapshot = open_table_source([str(hudi_tables.path("cow_two_partition_columns_v9"))]).snapshot()
    assert snapshot.partitions.shared == {("city",), ("seats",)}
    assert snapshot.partitions.origin_by_engine
    by_path = {name for name, traits in ENGINES.items() if traits.shared_partition_columns is Origin.PATH}
    assert by_path == {"spark", "trino"}
    cities, seats = path_values(snapshot, "city"), path_values(snapshot, "seats")
    for file in cities:
        held = pq.read_table(file, columns=["city", "seats"]).to_pydict()
        assert set(held["city"]) == {cities[file]}
        assert set(held["seats"]) == {seats[file]}


def test_n6_a_column_in_the_path_and_in_the_file(tmp_path: Path):
    """N6: datafusion#15912: engines differ in which of the two they read: the path alone proves nothing."""
    write_file(tmp_path / "t/k=1/a.parquet", k=[7, 8], x=[1, 2])
    write_file(tmp_path / "t/k=2/a.parquet", k=[2, 2], x=[3, 4])
    snapshot = open_table_source([str(tmp_path / "t")]).snapshot()
    about = snapshot.schema.find(("k",))
    assert (about.partition, about.in_file, about.type, about.conflict) == (True, True, pa.int64(), None)
    assert not snapshot.partitions.trusted
    assert list(path_values(snapshot, "k").values()) == [1, 2], "for the union of both"
    assert [entry.path[0] for entry in snapshot.schema] == ["k", "x"], "once only"


def test_n7_tables_without_partitions_keep_whole_names(tmp_path: Path):
    """N7: HUDI-4400: the file name lost its first character."""
    root = write_tree(tmp_path / "t", "a.parquet", "b.parquet")
    for uri in (str(root), f"{root}/", root.as_uri()):
        snapshot = open_table_source([uri]).snapshot()
        assert [entry.base_file for entry in snapshot.slices] == [f"{root}/a.parquet", f"{root}/b.parquet"]
        assert [entry.partition_path for entry in snapshot.slices] == ["", ""]


@pytest.mark.spark
@pytest.mark.parametrize("name", ["cow_unpartitioned_v6", "cow_unpartitioned_v9"])
def test_n7_hudi_tables_without_partitions_keep_whole_names(name: str, hudi_tables: KeptTables):
    """N7: HUDI-4400, on the table format in which it was found."""
    path = hudi_tables.path(name)
    snapshot = open_table_source([str(path)]).snapshot()
    assert len(snapshot) == 2
    for entry in snapshot.slices:
        assert entry.partition_path == ""
        assert (entry.base_file or "").startswith(f"{path}/{entry.file_id}_")
        assert Path(entry.base_file or "").is_file()


def test_n8_the_schema_is_that_of_all_files(tmp_path: Path):
    """N8: measured in DuckDB: a pruned list infers BIGINT or VARCHAR from the remaining files, loses late columns."""
    root = tmp_path / "t"
    write_file(root / "r=1/a.parquet", x=pa.array([1], pa.int32()))
    write_file(root / "r=abc/a.parquet", x=pa.array([2], pa.int64()), late=["y"])
    schema = open_table_source([str(root)]).snapshot().schema
    assert [(entry.name, entry.type, entry.conflict) for entry in schema] == [
        ("x", pa.int64(), None),
        ("late", pa.string(), None),
        ("r", pa.string(), None),
    ]


@pytest.mark.parametrize("inside", [True, False])
def test_n9_n10_the_metadata_table_is_no_part_of_the_data(tmp_path: Path, inside: bool):
    """N9, N10: measured: index files are Parquet inside, yet never read as data, below or beside the table."""
    root = write_tree(tmp_path / "lake/t", "a.parquet")
    lake = open_table_source([str(tmp_path / "lake")]).snapshot()
    place = root / "t.pruner" if inside else tmp_path / "lake/t.pruner"
    segment = write_file(tmp_path / "segment.parquet", hint=[1]).read_bytes()
    store = open_store(str(place))
    store.put_new("column_stats/0.pidx", segment)
    store.put_new("log/00000000000000000001.json", b"{}")
    assert names(open_table_source([str(root)]).snapshot()) == ["a.parquet"]
    again = open_table_source([str(tmp_path / "lake")]).snapshot()
    assert names(again) == ["t/a.parquet"]
    assert again.id == lake.id
    # Fetch all rows: an unfinished result blocks DuckDB's shared connection for other tests.
    seen = duckdb.execute(
        "select count(*) from read_parquet(?)", [f"{tmp_path}/lake/**/*.parquet"]
    ).fetchall()
    assert seen == [(1,)]


@pytest.mark.spark
def test_partition_columns_that_are_trusted_are_read_so_by_spark(
    tmp_path: Path, start_session: Callable[[], SparkSession]
):
    """N1, N2: Spark's own inference gives the same values for every trusted column, of all three types."""
    folders = ["city=a b/year=2013/day=2013-01-31", "city=p%2Fq/year=-1/day=1969-12-31"]
    folders += ["city=01/year=0/day=2000-02-29", "city=__HIVE_DEFAULT_PARTITION__/year=7/day=2000-03-01"]
    periods = ["2024-03/week=2024-W05", "2023-12/week=2024W53", "2024/week=2024-Q1", "2024-03-01/week=2024H2"]
    folders = [f"{folder}/month={period}" for folder, period in zip(folders, periods, strict=True)]
    root = write_tree(tmp_path / "t", *(f"{folder}/f.parquet" for folder in folders))
    snapshot = open_table_source([str(root)]).snapshot()
    columns = ("city", "year", "day", "month", "week")
    assert snapshot.partitions.trusted == {(column,) for column in columns}
    rows = start_session().read.parquet(str(root)).orderBy("x").collect()
    for column in columns:
        ours = path_values(snapshot, column)
        assert [row[column] for row in rows] == [ours[f"{root}/{folder}/f.parquet"] for folder in folders]
