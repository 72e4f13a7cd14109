"""Locations of keys in merge-on-read tables: the file groups in which Spark's snapshot read finds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import pruner
from tests.engines.hudi.test_duckdb_merged import REFUSED
from tests.support.hudi.merging import BUILDERS, merging_tables
from tests.support.hudi.spark_reads import SparkReads
from tests.support.hudi.tables import table_names
from tests.support.hudi.union_rows import union_rows
from tests.support.hudi.writer import CITIES, HudiWriter, rows_of
from tests.support.kept.tables import KeptTables
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark  # which builds the tables once per machine

ABSENT = 10**6
NAMES = [each for each in [*table_names("mor_.*"), *BUILDERS] if each not in REFUSED]


@pytest.fixture(scope="module")
def tables(hudi_tables: KeptTables, start_session: Callable[[], SparkSession]) -> Callable[[str], Path]:
    """The path of a table; read-only."""
    merging = merging_tables(start_session)
    return lambda name: (merging if name in merging.known else hudi_tables).path(name)


def _in_any_version(path: Path, table: pruner.Table) -> set[int]:
    """The keys of all versions of all rows, including deleted ones."""
    rows = (row for entry in table.snapshot().slices for row in union_rows(path, entry))
    return {row["id"] for row in rows if row["id"] is not None}  # a partial update stores its key elsewhere


@pytest.mark.parametrize("name", [each for each in NAMES if "no_meta_fields" not in each])
def test_keys_are_where_spark_reads_them(
    tables: Callable[[str], Path], spark_reads: SparkReads, tmp_path: Path, name: str
) -> None:
    path = tables(name)
    read = spark_reads.read(path)
    expected = {
        (row["id"], row["_hoodie_partition_path"], row["_hoodie_file_name"].split("_")[0])
        for row in read.rows
    }
    table = pruner.open_table(path, index_uri=str(tmp_path / "index"), hudi_indexes=False)
    ids = sorted({*_in_any_version(path, table), *(key for key, *_ in expected), ABSENT})
    expected |= {(key, None, None) for key in set(ids) - {key for key, *_ in expected}}
    keys: Any = pa.table({"id": pa.array(ids, pa.int64())})
    for using in (None, "column_stats", "record_index"):
        if using is not None:
            table.create_index(using, on="id", using=using)
        found = table.tag_location(keys).to_pylist()
        assert {(row["id"], row["partition_path"], row["file_id"]) for row in found} == expected, using
        assert len(found) == len(expected)


@pytest.mark.parametrize("name", [each for each in NAMES if "no_meta_fields" in each])
def test_keys_of_tables_whose_rows_do_not_tell_their_files(
    tables: Callable[[str], Path], spark_reads: SparkReads, tmp_path: Path, name: str
) -> None:
    path = tables(name)
    table = pruner.open_table(path, index_uri=str(tmp_path / "index"))
    keys: Any = pa.table({"id": pa.array(sorted({*_in_any_version(path, table), ABSENT}), pa.int64())})
    found = [row["id"] for row in table.tag_location(keys).to_pylist() if row["file_id"] is not None]
    assert found == sorted(row["id"] for row in spark_reads.read(path).rows)


def test_keys_of_base_files_whose_rows_do_not_tell_their_files(spark: SparkSession, tmp_path: Path) -> None:
    """Without Hudi's own columns, Spark still reports the file of each row."""
    options = {"hoodie.populate.meta.fields": "false"}
    writer = HudiWriter(spark, tmp_path / "t", options=options)
    for ids in (range(6), range(6, 12)):
        rows = [(id_, CITIES[id_ % 3], id_) for id_ in ids]
        writer.insert(rows_of(spark, rows, "id INT, city STRING, ts BIGINT"))
    read = spark_snapshot(spark, writer.path).selectExpr("id", "input_file_name() AS file").collect()
    groups = {row.id: row.file.rsplit("/", 1)[1].split("_")[0] for row in read}
    assert len(groups) == 12
    table = pruner.open_table(writer.path)
    keys: Any = pa.table({"id": pa.array([*groups, ABSENT], pa.int32())})
    for using in (None, "bloom_filter", "record_index"):
        if using is not None:
            table.create_index(using, on="id", using=using)
        found = {row["id"]: row["file_id"] for row in table.tag_location(keys).to_pylist()}
        assert found == {**groups, ABSENT: None}


@pytest.mark.parametrize("name", [each for each in table_names("mor_.*") if each in REFUSED])
def test_tables_that_cannot_be_merged_are_refused(
    tables: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    table = pruner.open_table(tables(name), index_uri=str(tmp_path / "index"))
    with pytest.raises(pruner.TableError, match=REFUSED[name]):
        table.tag_location(pa.table({"id": [1]}))
