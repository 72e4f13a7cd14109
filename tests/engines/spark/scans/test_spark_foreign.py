"""Spark over tables of other formats, which it reads unpruned, and over the files that it lists itself."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
import pruner_spark.tables
from pruner.errors import TableError
from tests.engines.spark.spark_tables import ids_of, new_scans
from tests.support.foreign_tables import FOREIGN_TABLES, ForeignTable
from tests.support.parquet.tables import base_files, write_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PRUNER_CONFIG", str(tmp_path / "pruner.toml"))
    return tmp_path / "pruner.toml"


@pytest.fixture(autouse=True)
def opened_anew() -> Iterator[None]:
    """Start with no table open, as in a new process."""
    pruner_spark.tables._tables.clear()
    yield
    pruner_spark.tables._tables.clear()


def write(root: Path, table: ForeignTable) -> Path:
    """The data of a table of another format: two versions of a row in one folder, of which one counts."""
    for number, path in enumerate(table.data):
        write_file(root / path, id=[10 * number + 1, 10 * number + 2])
    return root


def become(root: Path, table: ForeignTable) -> None:
    for path, text in table.beside.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


def test_the_output_of_a_streaming_query_is_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    write_file(tmp_path / "in" / "a.parquet", id=[1, 2], k=[1, 2])
    out = tmp_path / "out"
    stream = spark.readStream.schema("id LONG, k LONG").parquet(str(tmp_path / "in"))
    writer = stream.writeStream.partitionBy("k").option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start(str(out), format="parquet").awaitTermination()
    (written,) = (out / "k=1").glob("*.parquet")
    shutil.copy(written, out / "k=1" / "of-a-batch-that-failed.parquet")
    frame = spark.read.parquet(str(out))
    assert ids_of(frame, "id < 9") == [1, 2]
    assert ids_of(pruner_spark.prune(frame), "id < 9") == [1, 2]
    with pytest.raises(TableError, match="is the output of a Spark streaming query"):
        pruner_spark.read(spark, out)
    with pytest.raises(TableError, match="is a folder inside the output of a Spark streaming query"):
        pruner_spark.read(spark, out / "k=1")


@pytest.mark.parametrize("kind", ["delta", "iceberg_migrated", "paimon", "stream"])
def test_a_configured_folder_inside_another_table_is_read_as_it_is(
    spark: SparkSession, tmp_path: Path, config: Path, kind: str
) -> None:
    table = FOREIGN_TABLES[kind]
    root = write(tmp_path / "t", table)
    become(root, table)
    config.write_text(f'[tables.inner]\nuri = "{root}/k=1"\n')
    frame = spark.read.option("recursiveFileLookup", "true").parquet(f"{root}/k=1")
    before = pruner_spark.last_plans(spark)
    assert ids_of(pruner_spark.prune(frame), "id > 1") == ids_of(frame, "id > 1") == [2, 11, 12]
    assert [scan.plan for scan in new_scans(spark, before)] == [None]
    (reason,) = {scan.reason for scan in new_scans(spark, before)}
    assert reason is not None
    assert f"is a folder inside {table.name} {root}" in reason


@pytest.mark.parametrize("again", [False, True])
def test_a_catalogs_table_that_became_a_delta_table_is_read_as_it_is(
    spark: SparkSession, tmp_path: Path, config: Path, again: bool
) -> None:
    root = write(tmp_path / "t", FOREIGN_TABLES["delta"])
    config.write_text(f'[tables.became]\nuri = "{root}"\naliases = ["default.became"]\n')
    pruner.open_table(root).create_index("stats", on="id")
    spark.sql(f"CREATE TABLE became (id LONG, k INT) USING parquet PARTITIONED BY (k) LOCATION '{root}'")
    try:
        spark.sql("MSCK REPAIR TABLE became")
        query = "SELECT id FROM default.became WHERE id > 10"
        assert sorted(row.id for row in pruner_spark.sql(spark, query).collect()) == [11, 12]
        assert pruner_spark.last_plans(spark)[-1].kept == 1
        become(root, FOREIGN_TABLES["delta"])
        if again:
            pruner_spark.tables._tables.clear()
        assert sorted(row.id for row in pruner_spark.sql(spark, query).collect()) == [11, 12]
        scan = pruner_spark.last_plans(spark)[-1]
        assert scan.plan is None
        assert "is a Delta table" in (scan.reason or "")
    finally:
        spark.sql("DROP TABLE became")


@pytest.mark.parametrize("again", [False, True])
def test_an_indexed_folder_that_became_a_delta_table_is_read_as_it_is(
    spark: SparkSession, tmp_path: Path, again: bool
) -> None:
    root = write(tmp_path / "t", FOREIGN_TABLES["delta"])
    pruner.open_table(root).create_index("stats", on="id")
    frame = spark.read.parquet(str(root))
    pruned = pruner_spark.prune(frame)
    assert ids_of(pruned, "id > 10") == [11, 12]
    become(root, FOREIGN_TABLES["delta"])
    before = pruner_spark.last_plans(spark)
    if again:
        pruner_spark.tables._tables.clear()
        pruned = pruner_spark.prune(frame)
    assert ids_of(pruned, "id > 10") == [11, 12]
    assert {scan.plan for scan in new_scans(spark, before)} == {None}
    assert all("is a Delta table" in (scan.reason or "") for scan in new_scans(spark, before))


def test_two_tables_below_one_folder_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, config: Path
) -> None:
    write_file(tmp_path / "lake" / "a" / "x.parquet", id=[1, 2])
    write_file(tmp_path / "lake" / "b" / "x.parquet", city=["rome"])
    config.write_text(f'[tables.lake]\nuri = "{tmp_path}/lake"\n')
    frame = spark.read.options(mergeSchema="true", recursiveFileLookup="true").parquet(f"{tmp_path}/lake")
    before = pruner_spark.last_plans(spark)
    assert ids_of(pruner_spark.prune(frame), "id > 1") == ids_of(frame, "id > 1") == [2]
    assert ["holds at least two tables" in (scan.reason or "") for scan in new_scans(spark, before)] == [True]


FILES = (
    *("a.parquet", "b.PARQUET", "c.parq", "d.pq", "000000_0", "part-1", "sub/e.parquet", "z.snappy.parquet"),
    *("_x.parquet", ".x.parquet", "_dir/f.parquet", ".dir/g.parquet", "h.parquet._COPYING_"),
    *("t.pruner/i.parquet", "_metadata", "_common_metadata"),
)
"""Files of every kind, each with one row."""


FILES_OF_HADOOP = {
    "fs.file.impl": "org.apache.hadoop.fs.LocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""Options of a reader that follows links to folders, as users' Spark does.

The reader of the tests' session lists their parents without end.
"""


def test_spark_loses_no_file_that_it_lists(spark: SparkSession, tmp_path: Path) -> None:
    """Files that pruner does not count as the table's stay in the scan: here one in a folder named like an index's."""
    root = tmp_path / "t"
    for number, name in enumerate(FILES):
        write_file(root / name, id=[number])
    linked = write_file(tmp_path / "elsewhere" / "l.parquet", id=[100])
    (root / "link").symlink_to(linked.parent)
    frame = spark.read.options(recursiveFileLookup="true", **FILES_OF_HADOOP).parquet(str(root))
    listed = {
        int(row.id): row.path.removeprefix(f"file:{root}/")
        for row in frame.selectExpr("id", "_metadata.file_path AS path").collect()
    }
    table = pruner.open_table(root)
    ours = {path.removeprefix(f"{root}/") for path in base_files(table.snapshot().data)}
    assert set(listed.values()) - ours == {"t.pruner/i.parquet"}
    assert ours <= set(listed.values())
    table.create_index("stats", on="id")
    pruned = pruner_spark.prune(frame)
    for number, name in listed.items():
        assert ids_of(pruned, f"id = {number}") == [number]
        scan = pruner_spark.last_plans(spark)[-1]
        assert (scan.kept, scan.files_unknown) == (int(name in ours), 1)
    assert ids_of(pruned, "id >= 0") == sorted(listed)
