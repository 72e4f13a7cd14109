"""Hudi tables that Spark reads and pruner does not, which are read unpruned, and partitions that do not exist."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from pruner.errors import TableError
from tests.engines.spark.spark_tables import new_scans, rows_of, unordered
from tests.support.hudi.hurry import without_waits
from tests.support.hudi.writer import QUIET, HudiWriter, trips
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

BOOTSTRAPPED = "is a bootstrapped Hudi table, whose data lies elsewhere"


@pytest.fixture
def bootstrapped(spark: SparkSession, tmp_path: Path) -> Path:
    """A table over Parquet files beside it, with one upsert of its own."""
    source, path = tmp_path / "source", tmp_path / "t"
    trips(spark, range(12)).write.partitionBy("city").parquet(str(source))
    options = {
        "hoodie.table.name": "t",
        "hoodie.bootstrap.base.path": str(source),
        "hoodie.bootstrap.mode.selector": "org.apache.hudi.client.bootstrap.selector.MetadataOnlyBootstrapModeSelector",
        "hoodie.datasource.write.operation": "bootstrap",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.enable": "false",
    }
    empty = spark.createDataFrame([], "id INT").write.format("hudi").mode("overwrite")
    empty.options(**{**QUIET, **options}).save(str(path))
    HudiWriter(spark, path).upsert(trips(spark, [1], ts=2))
    return path


def _unpruned(spark: SparkSession, read: Callable[[], DataFrame], reason: str) -> list[tuple[Any, ...]]:
    before = pruner_spark.last_plans(spark)
    rows = unordered(rows_of(read().select("id", "city", "seats", "fare", "ts")))
    (scan,) = new_scans(spark, before)
    assert scan.plan is None
    assert reason in str(scan.reason)
    return rows


def test_a_bootstrapped_table_is_read_as_it_is(
    spark: SparkSession, bootstrapped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(bootstrapped)
    plain = spark_snapshot(spark, path).select("id", "city", "seats", "fare", "ts")
    expected = unordered(rows_of(plain))
    assert len(expected) == 12
    assert _unpruned(spark, lambda: pruner_spark.read(spark, path), BOOTSTRAPPED) == expected
    pruner_spark.register(spark, "boot", path)
    assert unordered(rows_of(spark.table("boot").select("id", "city", "seats", "fare", "ts"))) == expected
    keys = spark.createDataFrame([(1,)], "id INT")
    assert _unpruned(spark, lambda: pruner_spark.read_with_keys(spark, path, keys), BOOTSTRAPPED) == expected
    # With a configuration that has the table, queries by other names give the reason, too.
    config = tmp_path / "pruner.toml"
    config.write_text(f'[tables.boot]\nuri = "{path}"\n', encoding="utf-8")
    monkeypatch.setenv("PRUNER_CONFIG", str(config))
    assert _unpruned(spark, lambda: pruner_spark.read(spark, "boot"), BOOTSTRAPPED) == expected
    frame = spark_snapshot(spark, path)
    assert _unpruned(spark, lambda: pruner_spark.prune(frame), BOOTSTRAPPED) == expected
    frame.createOrReplaceTempView("booted")
    assert _unpruned(spark, lambda: pruner_spark.sql(spark, "SELECT * FROM booted"), BOOTSTRAPPED) == expected


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (r"hoodie\.table\.version=9", "hoodie.table.version=10", "of version 10"),
        ("$", "\nhoodie.table.base.file.format=ORC\n", "base files of format ORC"),
    ],
    ids=["version", "format"],
)
def test_what_neither_reads_is_an_error_in_the_users_words(
    before: str, after: str, reason: str, spark: SparkSession, hudi_table: Callable[[str], Path]
) -> None:
    """Unless Spark reads the table, the refusal is raised; with an index beside it, any query reports the refusal."""
    path = hudi_table("cow_v9")
    plain = spark_snapshot(spark, path)
    rows_of(plain)
    pruner.open_table(path).create_index("stats", on="id")
    properties = path / ".hoodie" / "hoodie.properties"
    properties.write_text(
        re.sub(before, after, properties.read_text(encoding="utf-8"), count=1), encoding="utf-8"
    )
    with pytest.raises(TableError, match=reason), without_waits(spark):
        pruner_spark.read(spark, path)
    scans = pruner_spark.last_plans(spark)
    pruner_spark.prune(plain)
    (scan,) = new_scans(spark, scans)
    assert reason in str(scan.reason)


def test_what_is_no_hudi_table_is_refused_as_before(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TableError, match="no such path"):
        pruner_spark.read(spark, tmp_path / "nowhere")
    (tmp_path / "delta" / "_delta_log").mkdir(parents=True)
    with pytest.raises(TableError, match="Delta"):
        pruner_spark.read(spark, tmp_path / "delta")


def _size(frame: DataFrame) -> int:
    java_frame: Any = frame._jdf
    return int(str(java_frame.queryExecution().optimizedPlan().stats().sizeInBytes()))


def test_a_partition_that_is_not_there_has_the_size_that_hudi_says(
    spark: SparkSession, hudi_table: Callable[[str], Path]
) -> None:
    """Nothing was listed for it, which is not the same as not having listed yet."""
    path = str(hudi_table("cow_v9"))
    for condition in ("city = 'nowhere'", "city = 'rome'", "city = 'nowhere' AND id = 1", "id = 1", "true"):
        plain = spark_snapshot(spark, path).where(condition)
        pruned = pruner_spark.read(spark, path).where(condition)
        assert _size(pruned) == _size(plain), condition
        assert unordered(rows_of(pruned)) == unordered(rows_of(plain))
    analyzed: Any = pruner_spark.read(spark, path)._jdf
    assert int(str(analyzed.queryExecution().analyzed().stats().sizeInBytes())) > 1000


@pytest.mark.parametrize(
    ("folders", "missing", "present"),
    [
        (
            ("city=rome", "city=oslo"),
            ("city = 'nowhere'", "city IN ('x', 'y')", "city IS NULL"),
            "city = 'oslo'",
        ),
        (
            ("year=2024", "year=2025"),
            ("year = 1999", "year > 3000", "year = 2024 AND year = 2025"),
            "year < 2025",
        ),
        (
            ("day=2024-01-01/hour=1", "day=2024-01-02/hour=2"),
            ("day = DATE '2024-02-01'", "hour = 9 AND id = 1", "day = DATE '2024-01-01' AND hour = 2"),
            "hour = 2",
        ),
    ],
    ids=["text", "integer", "two levels"],
)
def test_for_a_partition_that_is_not_there_no_plan_is_made(
    folders: tuple[str, ...], missing: tuple[str, ...], present: str, spark: SparkSession, tmp_path: Path
) -> None:
    """A plan first checks all folders for changes, which takes longer than Spark's whole query."""
    for number, folder in enumerate(folders):
        (tmp_path / "t" / folder).mkdir(parents=True)
        pq.write_table(pa.table({"id": [number, number + 10]}), tmp_path / "t" / folder / "0.parquet")
    pruner.open_table(tmp_path / "t").create_index("ids", on="id")
    plain, pruned = spark.read.parquet(str(tmp_path / "t")), pruner_spark.read(spark, tmp_path / "t")
    seen = 0
    for where in missing:
        for ask in (rows_of, lambda frame: rows_of(frame.selectExpr("count(*)", "max(id)"))):
            before = pruner_spark.last_plans(spark)
            assert ask(pruned.where(where)) == ask(plain.where(where)), where
            for scan in new_scans(spark, before):
                seen += 1
                assert (scan.plan, scan.reason, scan.fallbacks) == (None, None, ()), where
                assert (scan.files_listed, scan.files_unknown, scan.files_dropped) == (0, 0, 0), where
                assert "no partition" in scan.explain()
    assert seen >= len(missing)
    before = pruner_spark.last_plans(spark)
    rows = rows_of(pruned.where(f"{present} AND id < 5"))
    assert rows == rows_of(plain.where(f"{present} AND id < 5"))
    assert len(rows) == 1
    (scan,) = new_scans(spark, before)
    assert scan.plan is not None
    assert scan.total == 2


def test_a_path_of_another_partition_that_hudi_cannot_parse_costs_no_query(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A date with slashes before another column: Hudi finds its partitions by a prefix, and cannot parse them all."""
    generator = {
        "hoodie.datasource.write.slash.separated.date.partitioning": "true",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.CustomKeyGenerator",
    }
    path = tmp_path / "t"
    writer = HudiWriter(
        spark, path, hive_style=False, partition_by="day:simple,city:simple", options=generator
    )
    writer.insert(trips(spark, range(4)).selectExpr("*", "cast(date '2026-01-05' + id % 2 as string) AS day"))
    assert rows_of(spark_snapshot(spark, path).where("day = '2026-01-06'")) == []
    assert rows_of(pruner_spark.read(spark, path).where("day = '2026-01-06'")) == []
    analyzed: Any = pruner_spark.read(spark, path)._jdf
    assert analyzed.queryExecution().analyzed().stats().sizeInBytes() is not None
