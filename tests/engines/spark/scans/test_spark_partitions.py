"""Dynamic partition pruning beside the planner's: what each drops is reported separately, as in the executed plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import everything_read, files_scanned, new_scans, rows_of, unordered
from tests.support.hudi.writer import HudiWriter, trips
from tests.support.spark.catalyst import settings
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DIMENSION_FILES = 1
CITIES = ("berlin", "paris", "rome")
JOIN = (
    "SELECT {hint} t.id, t.fare FROM {trips} t JOIN chosen c ON t.city = c.city WHERE c.wanted = 1{condition}"
)


@pytest.fixture(scope="module", params=["parquet", "copy_on_write", "merge_on_read"])
def trips_table(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Two files for each of three cities, ids 0 to 11 and 12 to 23; ids 0 to 2 were updated."""
    root = tmp_path_factory.mktemp("partitions")
    path = root / "trips"
    if request.param == "parquet":
        for half, ids in enumerate((range(12), range(12, 24))):
            for number, city in enumerate(CITIES):
                mine = [each for each in ids if each % 3 == number]
                (path / f"city={city}").mkdir(parents=True, exist_ok=True)
                content = pa.table({"id": pa.array(mine, pa.int32()), "fare": [float(each) for each in mine]})
                pq.write_table(content, path / f"city={city}" / f"{half}.parquet")
    else:
        writer = HudiWriter(spark, path, 9, request.param.upper())
        writer.insert(trips(spark, range(12)))
        writer.insert(trips(spark, range(12, 24)))
        writer.upsert(trips(spark, range(3), ts=2, fare=1000))
    pruner.open_table(path).create_index("stats", on="*")
    rows = [(city, int(city == "paris")) for city in CITIES]
    chosen = spark.createDataFrame(rows, "city STRING, wanted INT")
    chosen.coalesce(DIMENSION_FILES).write.parquet(str(root / "cities"))
    spark.read.parquet(str(root / "cities")).createOrReplaceTempView("chosen")
    yield path
    for name in ("chosen", "pruned_trips", "plain_trips"):
        spark.catalog.dropTempView(name)


HINTED = "/*+ BROADCAST(c) */"
"""With it, the rows of the small side are not fetched for the plan: what joins with it is known at run time."""


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.parametrize(
    ("hint", "cases"),
    [
        (HINTED, (("", 6, 2), (" AND t.id < 3", 3, 1), (" AND t.id < 0", 0, 0))),
        ("", (("", 2, 2), (" AND t.id < 3", 1, 1), (" AND t.id < 0", 0, 0))),
    ],
)
def test_what_a_join_drops_is_counted_apart(
    spark: SparkSession, trips_table: Path, adaptive: str, hint: str, cases: tuple[tuple[str, int, int], ...]
) -> None:
    """Paris has two of six files. The scan gets the files that the plan keeps; how many it reads is Spark's metric."""
    pruner_spark.register(spark, "pruned_trips", trips_table)
    hudi = (trips_table / ".hoodie").is_dir()
    plain = spark_snapshot(spark, trips_table) if hudi else spark.read.parquet(str(trips_table))
    plain.createOrReplaceTempView("plain_trips")
    for condition, kept, read in cases:
        with settings(spark, {"spark.sql.adaptive.enabled": adaptive}):
            with everything_read(spark):
                expected = rows_of(
                    spark.sql(JOIN.format(trips="plain_trips", condition=condition, hint=hint))
                )
            before = pruner_spark.last_plans(spark)
            frame = spark.sql(JOIN.format(trips="pruned_trips", condition=condition, hint=hint))
            assert unordered(rows_of(frame)) == unordered(expected)
        (scan,) = new_scans(spark, before)
        assert (scan.kept, scan.total, scan.reason) == (kept, 6, None)
        assert (scan.files_left, scan.files_read) == (kept, read)
        # The fetched rows are part of the plan, and their file is not scanned again.
        assert set(files_scanned(frame)) == ({DIMENSION_FILES, read} if hint else {read})


def test_without_such_a_join_all_that_is_left_is_read(spark: SparkSession, trips_table: Path) -> None:
    """Filters on the partition column are Spark's and the plan's alike; a cache is filled by one scan."""
    frame = pruner_spark.read(spark, trips_table)
    for condition, kept in (("city = 'rome' AND id < 3", 1), ("id < 3", 3), ("id >= 0", 6)):
        before = pruner_spark.last_plans(spark)
        chosen = frame.where(condition).cache()
        assert chosen.count() > 0
        assert chosen.where("id >= 0").count() > 0
        chosen.unpersist()
        (scan,) = new_scans(spark, before)
        assert (scan.kept, scan.files_left, scan.files_read) == (kept, kept, kept)


def test_joins_are_planned_by_the_size_of_the_table(spark: SparkSession, trips_table: Path) -> None:
    """Hudi's index reports 0 bytes until it has listed its files: every Hudi table was broadcast to a join."""
    frame: Any = pruner_spark.read(spark, trips_table)
    location = frame._jdf.queryExecution().analyzed().collectLeaves().apply(0).relation().location()
    files = [Path(str(slice_.base_file)) for slice_ in pruner.open_table(trips_table).snapshot().slices]
    assert location.sizeInBytes() >= sum(file.stat().st_size for file in files) > 0


def test_joins_are_planned_by_the_partitions_that_are_left(spark: SparkSession, trips_table: Path) -> None:
    """The same sizes and the same kind of join as without pruner: Spark's and Hudi's rules look for their own index.

    Their rules did not know pruner's index: a catalog table whose partitions are listed lazily counted as 8 EiB, and a
    partition of Hudi's as the whole table, so that a broadcast join became a sort-merge join.
    """
    hudi = (trips_table / ".hoodie").is_dir()
    columns = (
        "USING hudi" if hudi else "(id INT, fare DOUBLE, city STRING) USING parquet PARTITIONED BY (city)"
    )
    spark.sql(f"CREATE TABLE known_trips {columns} LOCATION '{trips_table}'")
    try:
        if hudi:
            _compare_joins(spark)
            return
        spark.sql("MSCK REPAIR TABLE known_trips")
        _compare_joins(spark)
        spark.sql("ANALYZE TABLE known_trips COMPUTE STATISTICS")
        _compare_joins(spark)
    finally:
        spark.sql("DROP TABLE known_trips")


def _compare_joins(spark: SparkSession) -> None:
    """Compare the plans of a join that broadcasts one partition, where the whole table would be too large."""
    query = "SELECT t.id FROM known_trips t JOIN range(100000) u ON t.id = u.id WHERE t.city = 'paris' AND t.id < 12"
    partition = _size(spark.sql("SELECT id FROM known_trips WHERE city = 'paris'"))
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": str(partition)}):
        plain, pruned = spark.sql(query), pruner_spark.sql(spark, query)
        assert "BroadcastHashJoin" in _shape(plain)
        assert (_shape(pruned), _size(pruned)) == (_shape(plain), _size(plain))
        before = pruner_spark.last_plans(spark)
        assert unordered(rows_of(pruned)) == unordered(rows_of(plain))
    assert [scan.files_read for scan in new_scans(spark, before)] == [1] == files_scanned(pruned)


def _size(frame: Any) -> int:
    """Bytes of the result as Spark's optimizer estimates them."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def _shape(frame: Any) -> list[str]:
    """The names of the nodes of a frame's physical plan, before it runs, in the order of its text."""
    text = str(frame._jdf.queryExecution().sparkPlan().toString())
    return [line.lstrip(" :+-*()0123456789").split(" ")[0] for line in text.splitlines()]


def test_what_the_page_of_a_query_shows(spark: SparkSession, tmp_path: Path) -> None:
    """Spark's query store, which its UI and REST interface show: the index by name, and the files read."""
    for number in range(3):
        (tmp_path / "t").mkdir(exist_ok=True)
        pq.write_table(pa.table({"id": [number]}), tmp_path / "t" / f"{number}.parquet")
    pruner.open_table(tmp_path / "t").create_index("stats", on="*")
    assert rows_of(pruner_spark.read(spark, tmp_path / "t").where("id = 1")) == [(1,)]
    assert pruner_spark.last_plans(spark)[-1].files_read == 1
    session: Any = spark._jsparkSession
    store = session.sharedState().statusStore()
    executions = store.executionsList()
    newest = executions.apply(executions.size() - 1).executionId()
    nodes = store.planGraph(newest).allNodes()
    (scan,) = [
        node
        for node in (nodes.apply(place) for place in range(nodes.size()))
        if "PrunedInMemoryFileIndex(1 paths)" in node.desc()
    ]
    values = dict(line.split(" -> ") for line in store.executionMetrics(newest).mkString("\n").splitlines())
    metrics = [scan.metrics().apply(place) for place in range(scan.metrics().size())]
    shown = {metric.name(): values.get(str(metric.accumulatorId())) for metric in metrics}
    assert shown["number of files read"] == "1"
