"""Hudi's own indexes over record keys: lookups against what Hudi reads, and its bloom filters against Hudi's code."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest

import pruner
import pruner_spark
from pruner.tables.hudi.metadata.blooms import bloom_filter
from tests.engines.spark.spark_tables import files_scanned, rows_of, unordered
from tests.support.hudi.indexed import BUILDERS, tables
from tests.support.hudi.writer import COMPACT, HudiWriter
from tests.support.hudi.writer import rows_of as written
from tests.support.kept.tables import KeptTables
from tests.support.running.profiles import examples, seed
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

WITH_LOGS = [name for name in BUILDERS if name.startswith("mor")]
BORN_NOW = ("cow_v9", "cow_composite_v9", "cow_evolved_v9")
KEY_INDEXES = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.merge.allow.duplicate.on.inserts": "true",
}


@pytest.fixture(scope="module")
def indexed(start_session: Callable[[], SparkSession]) -> KeptTables:
    """The tables with every index of Hudi's; read-only."""
    return tables(start_session)


def _keys(path: Path, *columns: str) -> list[tuple[Any, ...]]:
    """Each row's file group and some of its columns, as Spark reads them."""
    chosen = ", ".join(("split_part(_hoodie_file_name, '_', 1)", "_hoodie_record_key", *columns))
    found: Any = duckdb.sql(f"SELECT {chosen} FROM '{path.with_name('rows.parquet')}/*.parquet'")
    return found.fetchall()


def _kept(pinned: pruner.PinnedSnapshot, predicate: str) -> set[str]:
    return {entry.file_id for entry in pinned.plan(predicate).slices}


@pytest.mark.parametrize("name", list(BUILDERS))
def test_every_key_is_found(name: str, indexed: KeptTables, tmp_path: Path) -> None:
    """Without logs, in exactly its file group; elsewhere bloom filters leave that group and those with logs."""
    path = indexed.path(name)
    pinned = pruner.open_table(path, index_uri=str(tmp_path / "index")).snapshot()
    with_logs = {entry.file_id for entry in pinned.slices if entry.log_files}
    assert bool(with_logs) == (name in WITH_LOGS)
    for group, key in _keys(path):
        kept = _kept(pinned, f"_hoodie_record_key = '{key}'")
        assert kept == {group} if name not in WITH_LOGS else {group} <= kept <= {group} | with_logs
    assert _kept(pinned, "_hoodie_record_key = '4711'") <= with_logs


@pytest.mark.parametrize("name", BORN_NOW)
def test_columns_of_a_key_find_it(name: str, indexed: KeptTables, tmp_path: Path) -> None:
    path = indexed.path(name)
    pinned = pruner.open_table(path, index_uri=str(tmp_path / "index")).snapshot()
    rows = _keys(path, "id", "city")
    rng = random.Random(f"{seed()} {name}")
    for _ in range(examples(30)):
        chosen = rng.sample(rows, rng.choice([1, 2, 3]))
        ids = ", ".join(str(id_) for _, _, id_, _ in chosen)
        cities = ", ".join(repr(city) for _, _, _, city in chosen)
        predicate = f"id IN ({ids}) AND city IN ({cities})"
        assert {group for group, *_ in chosen} == _kept(pinned, predicate), predicate


def _with_skipping(spark: SparkSession, path: Path) -> DataFrame:
    options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
    return spark.read.format("hudi").options(**options).load(str(path))


@pytest.mark.parametrize("name", BORN_NOW)
def test_spark_reads_no_more_than_with_hudis_own_skipping(
    name: str, spark: SparkSession, indexed: KeptTables
) -> None:
    path = indexed.path(name)
    composite = "composite" in name
    for _, _, id_, city in _keys(path, "id", "city")[::9]:
        predicate = f"id = {id_} AND city = '{city}'" if composite else f"id = {id_}"
        ours, hudis = (
            pruner_spark.read(spark, path).where(predicate),
            _with_skipping(spark, path).where(predicate),
        )
        # As text: the rows contain NaN, which equals nothing.
        assert repr(unordered(rows_of(ours))) == repr(
            unordered(rows_of(spark_snapshot(spark, path).where(predicate)))
        )
        rows_of(hudis)
        assert files_scanned(ours) == [1]
        assert files_scanned(hudis) >= [1]


def test_a_key_that_was_inserted_twice_is_found_twice(spark: SparkSession, tmp_path: Path) -> None:
    """hudi#17767: `insert` does not look keys up. Hudi's own lookup by its record index loses one of the rows."""
    writer = HudiWriter(spark, tmp_path / "t", metadata=True, options=KEY_INDEXES)
    schema = "id INT, city STRING, ts BIGINT"
    for ids in (range(6), range(3, 9)):
        writer.insert(written(spark, [(id_, "rome", id_) for id_ in ids], schema))
    plain = spark_snapshot(spark, writer.path).where("id = 4")
    assert len(rows_of(plain)) == 2
    assert len(rows_of(_with_skipping(spark, writer.path).where("id = 4"))) == 1
    assert unordered(rows_of(pruner_spark.read(spark, writer.path).where("id = 4"))) == unordered(
        rows_of(plain)
    )
    assert (
        "it has 9 keys and the files have 12 rows" in pruner.open_table(writer.path).plan("id = 4").to_json()
    )


def test_a_late_deletion_takes_a_key_out_of_hudis_index(spark: SparkSession, tmp_path: Path) -> None:
    """The row is newer than its deletion and stays; Hudi's own lookup by its record index does not find it."""
    writer = HudiWriter(spark, tmp_path / "t", table_type="MERGE_ON_READ", metadata=True, options=KEY_INDEXES)
    schema = "id INT, city STRING, ts BIGINT, _hoodie_is_deleted BOOLEAN"
    for ids in (range(0, 6, 2), range(1, 6, 2)):
        writer.insert(written(spark, [(id_, "rome", 5, False) for id_ in ids], schema))
    writer.upsert(written(spark, [(2, "rome", 3, True)], schema), also=COMPACT)
    assert len(rows_of(spark_snapshot(spark, writer.path).where("id = 2"))) == 1
    assert rows_of(_with_skipping(spark, writer.path).where("id = 2")) == []
    assert len(rows_of(pruner_spark.read(spark, writer.path).where("id = 2"))) == 1
    assert "it may lack the key of a row" in pruner.open_table(writer.path).plan("id = 2").to_json()


def test_update_leaves_keys_alone(spark: SparkSession, tmp_path: Path) -> None:
    """Why the columns of a key can stand for it (HUDI-8823): no statement separates a row's key from its columns."""
    writer = HudiWriter(spark, tmp_path / "t", metadata=True, options=KEY_INDEXES)
    writer.insert(written(spark, [(1, "rome", 1)], "id INT, city STRING, ts BIGINT"))
    spark.sql(f"CREATE TABLE keyed_by_id USING hudi LOCATION '{writer.path}'")
    try:
        with pytest.raises(Exception, match="(?i)record.?key|primary.?key"):
            spark.sql("UPDATE keyed_by_id SET id = 2 WHERE id = 1")
    finally:
        spark.sql("DROP TABLE keyed_by_id")


def test_filters_answer_as_hudis_do(spark: SparkSession) -> None:
    java: Any = spark._jvm
    factory = java.org.apache.hudi.common.bloom.BloomFilterFactory
    rng = random.Random(seed())
    for _ in range(examples(6)):
        kind = rng.choice(["SIMPLE", "DYNAMIC_V0"])
        theirs = factory.createBloomFilter(rng.choice([10, 50]), rng.choice([0.1, 1e-9]), 100, kind)
        keys = [
            "".join(rng.choices("aé😀0Z,:", k=rng.randrange(1, 15))) for _ in range(rng.choice([1, 40, 150]))
        ]
        for key in keys:
            theirs.add(key)
        ours = bloom_filter(kind, theirs.serializeToString().encode())
        for key in (*keys[:40], *(f"x{number}" for number in range(40))):
            assert ours.may_hold(key) == theirs.mightContain(key), (kind, key)
