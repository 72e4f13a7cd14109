"""Queries that metadata answers in Spark: the rows, names and types of Spark, and the files that are still read."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import Both, files_scanned, rows_of, same, unordered
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILES = 6


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of two files each with ten rows; the fourth file has NULLs, the sixth NaN and a long text."""
    root = tmp_path_factory.mktemp("days") / "t"
    for number in range(FILES):
        path = root / f"day=2024-01-0{number // 2 + 1}" / f"half={number % 2}" / f"part-{number}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        numbers = list(range(number * 10, number * 10 + 10))
        last = float("nan") if number == 5 else number + 0.5
        instants = [datetime.datetime(2024, 1, 1 + number, hour) for hour in range(10)]
        columns = {
            "x": pa.array(numbers, pa.int32()),
            "y": pa.array([None if number == 3 and each % 2 else each for each in numbers], pa.int64()),
            "tiny": pa.array([each % 100 for each in numbers], pa.int8()),
            "city": ["a", "b"] * 5,
            "s": [f"s{each:02}" for each in numbers[:9]] + ["z" * 2000 if number == 5 else "s"],
            "ts": pa.array(instants, pa.timestamp("us")),
            "instant": pa.array(instants, pa.timestamp("us", "UTC")),
            "d": pa.array([datetime.date(2024, 1, 1 + number)] * 10),
            "f": pa.array([number + 0.25] * 9 + [last]),
            "dec": pa.array([f"{each}.5" for each in numbers]).cast(pa.decimal128(6, 1)),
            "b": [number > 2] * 10,
        }
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    table = pruner.open_table(str(root))
    table.create_index("stats", on="*")
    table.create_index("cities", on="city", using="bitmap")
    return root


@pytest.fixture
def both(spark: SparkSession, root: Path) -> Iterator[Both]:
    found = Both(spark, root)
    with settings(spark, {"spark.sql.planChangeValidation": "true"}):
        yield found
    found.close()


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT count(*) FROM t", []),
        ("SELECT count(*), max(x), min(ts), max(city), min(instant), max(b), min(day), count(y) FROM t", []),
        ("SELECT max(d), min(d), max(tiny), min(tiny), max(y), min(f) FROM t", []),
        ("SELECT count(*) FROM t WHERE day = '2024-01-02'", []),
        ("SELECT count(*) FROM t WHERE half = 1 AND x >= 30", []),
        ("SELECT count(*) FROM t WHERE half = 1 OR x >= 30", [6]),
        ("SELECT count(*) AS n, max(x) - min(x) FROM t WHERE x >= 15", [1]),
        ("SELECT count(*) FROM t WHERE city = 'a' AND day = DATE '2024-01-03'", []),
        ("SELECT count(*) FROM t WHERE NOT (city = 'a' OR day = DATE '2024-01-03')", []),
        ("SELECT city, count(*) FROM t GROUP BY city", []),
        ("SELECT city AS c, count(*) + 1 AS n FROM t WHERE x > 5 GROUP BY 1 ORDER BY n DESC, c", [1]),
        ("SELECT day, count(*) n FROM t GROUP BY day HAVING n > 1 ORDER BY n DESC, day LIMIT 2", []),
        ("SELECT -count(*) FROM t WHERE city = 'b' GROUP BY day", []),
        ("SELECT day, max(ts), min(x), count(*), count(y), max(y) FROM t GROUP BY day", []),
        ("SELECT b, max(x) AS m FROM t WHERE x >= 15 GROUP BY b HAVING max(x) > 3 ORDER BY m", [1]),
        ("SELECT day, max(s), max(f) FROM t GROUP BY day", [1]),
        ("SELECT DISTINCT city FROM t", []),
        ("SELECT DISTINCT city FROM t WHERE x < 35", [1]),
        ("SELECT count(DISTINCT city) FROM t", []),
        ("SELECT count(DISTINCT city) FROM t WHERE x > 5", [1]),
        ("SELECT max(x) FROM t WHERE x > 1000", []),
        ("SELECT city, count(*) FROM t WHERE x > 1000 GROUP BY city", []),
        ("SELECT coalesce(max(x), -1), CAST(min(x) AS STRING) || 'x' FROM t WHERE day > '2024-01-01'", []),
        ("SELECT CASE WHEN count(*) > 5 THEN 'many' ELSE 'few' END FROM t", []),
        ("SELECT max(y) FROM (SELECT x AS y FROM t WHERE x < 40)", []),
        (
            "SELECT n FROM (SELECT day, count(*) n FROM t GROUP BY day) JOIN (SELECT max(day) d FROM t) ON day = d",
            [],
        ),
        ("SELECT count(*) FROM t UNION ALL SELECT max(x) FROM t", []),
        # The maximum of `f` is NaN, in a file with others; that of `s` was truncated.
        ("SELECT max(f), min(f) FROM t", [1]),
        ("SELECT max(s) FROM t", [1]),
        ("SELECT count(*), max(s), count(y) FROM t WHERE x >= 15", [2]),
        # NULLs are not counted as rows of a column, and make no condition true.
        ("SELECT count(y), max(y) FROM t WHERE y >= 30", [1]),
        ("SELECT count(*) FROM t WHERE NOT y > 100", [1]),
        ("SELECT count(*) FROM t WHERE y IS NULL", [1]),
        ("SELECT count(*) FROM t WHERE coalesce(y, -1) >= 0", [1]),
    ],
)
def test_an_aggregate_reads_what_is_not_proved(both: Both, query: str, files: list[int]) -> None:
    assert both.read(query) == files


@pytest.mark.parametrize(
    "query",
    [
        "SELECT max(dec), count(*) FROM t",
        "SELECT count(*) FILTER (WHERE x > 3) FROM t",
        "SELECT count(*), sum(x) FROM t",
        "SELECT count(*), any_value(x) IS NULL FROM t",
        "SELECT max(x + 1) FROM t",
        "SELECT count(x, y) FROM t",
        "SELECT city, max(x), count(*) FROM t GROUP BY city",
        "SELECT city, max(x) FROM t WHERE x % 7 < 9 GROUP BY city",
        "SELECT city, day, count(*) FROM t GROUP BY city, day",
        "SELECT city, count(*) FROM t GROUP BY ROLLUP(city)",
        "SELECT upper(city), count(*) FROM t GROUP BY upper(city)",
        "SELECT count(*) FROM t WHERE x % 7 = 1",
        "SELECT count(*) FROM t WHERE f > 0.1",
        "SELECT count(*) >= 0 FROM t WHERE rand() >= 0.5",
        "SELECT count(*) FROM t TABLESAMPLE (100 PERCENT)",
        "SELECT count(DISTINCT city), count(*) FROM t",
        "SELECT x FROM t ORDER BY city, x LIMIT 3",
        "SELECT x + 1 AS z FROM t ORDER BY z LIMIT 3",
        "SELECT bool_and(b) IS NULL, any_value(b) FROM t",
        "SELECT sum(x) OVER (ORDER BY x) FROM t ORDER BY 1 LIMIT 3",
        "SELECT max(x) FROM (SELECT x FROM t ORDER BY y OFFSET 3)",
    ],
)
def test_what_is_not_known_to_be_answered_is_read(both: Both, query: str) -> None:
    assert set(both.read(query)) == {FILES}


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT x FROM t ORDER BY x DESC LIMIT 3", 1),
        ("SELECT x, city FROM t ORDER BY x LIMIT 3 OFFSET 9", 2),
        ("SELECT x FROM t ORDER BY ts DESC, x LIMIT 3", 1),
        ("SELECT city, x FROM t WHERE x < 35 ORDER BY x DESC LIMIT 10", 2),
        ("SELECT y FROM t ORDER BY y LIMIT 2", 2),
        ("SELECT y FROM t ORDER BY y NULLS LAST LIMIT 2", 1),
        ("SELECT y, x FROM t ORDER BY y DESC NULLS FIRST, x LIMIT 2", 2),
        ("SELECT x FROM (SELECT x FROM t ORDER BY x DESC LIMIT 5) ORDER BY x", 1),
        ("SELECT f FROM t ORDER BY f DESC, x LIMIT 2", 2),
        ("SELECT f FROM t ORDER BY f, x LIMIT 2", 1),
        ("SELECT x FROM t ORDER BY dec DESC LIMIT 2", 1),
        ("SELECT x, y, city FROM t ORDER BY city, y, x LIMIT 3", 6),
        ("SELECT d, x FROM t ORDER BY d DESC NULLS LAST, x DESC LIMIT 4", 1),
        ("SELECT day, x FROM t ORDER BY day DESC, x DESC NULLS FIRST LIMIT 3", 2),
        ("SELECT y, x FROM t ORDER BY y NULLS FIRST, x DESC LIMIT 6", 2),
        ("SELECT f, x FROM t ORDER BY f DESC NULLS FIRST, x LIMIT 1", 2),
        ("SELECT max(dec), min(dec) FROM t", 2),
        ("SELECT max(dec) FROM t WHERE x < 35", 2),
        ("SELECT city, max(x) FROM t GROUP BY city", 1),
        ("SELECT city, min(x), max(x) FROM t WHERE x > 5 GROUP BY city", 3),
    ],
)
def test_first_rows_are_in_few_files(both: Both, query: str, files: int) -> None:
    assert both.read(query) == [files]


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Numbers with both zeros and NaN, NULLs and ties between files: first those that others are equal to."""
    root = tmp_path_factory.mktemp("odd") / "t"
    root.mkdir()
    nan = float("nan")
    keys: list[list[int | None]] = [[1, 1], [1, 1], [1, 2], [2, 2], [2, None], [2, None]]
    groups: list[list[float | None]] = [
        [-1.0, -0.0],
        [0.0, 1.0],
        [1.0, 1.0],
        [2.0, nan],
        [nan, None],
        [None, 5.0],
    ]
    for number, values in enumerate(groups):
        columns = {
            "f": pa.array(values, pa.float64()),
            "k": pa.array(keys[number], pa.int32()),
            "n": pa.array([number * 2, number * 2 + 1], pa.int64()),
        }
        pq.write_table(pa.table(columns), root / f"{number}.parquet")
        os.utime(root / f"{number}.parquet", (1_600_000_000, 1_600_000_000))
    pruner.open_table(str(root)).create_index("stats", on="*")
    return root


@pytest.mark.parametrize(
    "order",
    [
        *(
            "f, n",
            "f DESC, n",
            "f NULLS LAST, n DESC",
            "f DESC NULLS FIRST, n",
            "k, f, n",
            "k DESC, f DESC, n",
        ),
        *(
            "k NULLS LAST, n DESC",
            "k DESC NULLS FIRST, f NULLS LAST, n",
            "n DESC, f",
            "f ASC NULLS LAST, k, n",
        ),
    ],
)
def test_ties_nan_zeros_and_nulls_come_in_the_order_of_spark(
    spark: SparkSession, odd: Path, order: str
) -> None:
    """At every threshold, in the order of an answer from the whole table."""
    spark.read.parquet(str(odd)).createOrReplaceTempView("plain_odd")
    wanted = rows_of(spark.sql(f"SELECT * FROM plain_odd ORDER BY {order}"))
    pruner_spark.register(spark, "odd", str(odd))
    fewer = 0
    for rows, skipped in ((1, 0), (2, 0), (3, 1), (5, 2), (8, 0), (11, 0)):
        found = rows_of(spark.sql(f"SELECT * FROM odd ORDER BY {order} LIMIT {rows} OFFSET {skipped}"))
        assert repr(found) == repr(wanted[skipped : skipped + rows])
        fewer += pruner_spark.last_plans(spark)[-1].left is not None
    for name in ("odd", "plain_odd"):
        spark.catalog.dropTempView(name)
    assert fewer


@pytest.mark.parametrize(
    ("query", "rows", "files"),
    [
        ("SELECT x FROM (SELECT x FROM t LIMIT 15) WHERE x >= 0", 15, 2),
        ("SELECT x FROM (SELECT x FROM t LIMIT 15)", 15, None),
        ("SELECT x FROM t WHERE x >= 5 LIMIT 5", 5, 1),
        ("SELECT x + 1 FROM t WHERE city = 'b' AND x > 12 LIMIT 3 OFFSET 2", 3, 1),
        ("SELECT x FROM t WHERE x % 7 = 1 LIMIT 2", 2, None),
        ("SELECT x FROM t LIMIT 1000", 60, 6),
    ],
)
def test_a_limit_reads_as_few_files_as_surely_hold_enough(
    spark: SparkSession, both: Both, query: str, rows: int, files: int | None
) -> None:
    found = spark.sql(query)
    told = found.collect()
    everything = spark.sql(re.sub(r"\bt\b", "plain_t", query).split(" LIMIT")[0].split("(")[-1]).collect()
    assert len(told) == rows
    assert len(set(told)) == rows
    assert set(told) <= set(everything)
    if files is not None:
        assert pruner_spark.last_plans(spark)[-1].files_left == files


def test_any_rows_are_taken_as_without_us(spark: SparkSession, both: Both) -> None:
    """Spark reads the first files of such a query until it has the rows: pruning gains nothing, and is not tried."""
    found = spark.sql("SELECT x FROM t LIMIT 3").collect()
    assert len(set(found)) == 3
    scan = pruner_spark.last_plans(spark)[-1]
    assert scan.plan is not None
    assert (scan.plan.kept, scan.files_left) == (FILES, FILES)
    assert not scan.files_dropped
    assert both.read("SELECT count(*) FROM (SELECT x FROM t LIMIT 3)") == [1]


@pytest.fixture(scope="module")
def dimension(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A small table: keys that three files of the other hold, one of them twice, and keys that none holds."""
    place = tmp_path_factory.mktemp("dimension")
    rows = {
        "k": pa.array([3, 14, 14, None, 57, 1000], pa.int32()),
        "big": pa.array([3, 14, 14, None, 57, 1000], pa.int64()),
        "name": ["a", "b", "c", "d", "e", "f"],
        "on_day": pa.array([datetime.date(2024, 1, 2)] * 6),
        "part": pa.array([3.0, float("nan"), 0.0, None, 1.0, 2.0]),
    }
    pq.write_table(pa.table(rows), place / "rows.parquet")
    spark.read.parquet(str(place)).createOrReplaceTempView("dim")
    yield
    spark.catalog.dropTempView("dim")


@pytest.mark.usefixtures("dimension")
@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT x, name FROM t JOIN dim ON x = k", 3),
        ("SELECT x, name FROM dim JOIN t ON x = k AND name > 'b' WHERE y > 0", 2),
        ("SELECT x FROM t WHERE x IN (SELECT k FROM dim)", 3),
        ("SELECT x FROM t WHERE EXISTS (SELECT 1 FROM dim WHERE k = x AND name = 'e')", 1),
        ("SELECT x FROM t WHERE y IN (SELECT big FROM dim) AND x < 20", 2),
        ("SELECT x FROM t JOIN dim a ON x = a.k JOIN dim b ON d = b.on_day", 1),
        ("SELECT count(*), max(name) FROM t JOIN (SELECT k, max(name) name FROM dim GROUP BY k) ON x = k", 3),
        ("SELECT z FROM (SELECT x AS z, y FROM t) JOIN dim ON y = big", 3),
        ("SELECT x FROM t WHERE x = (SELECT max(k) FROM dim WHERE k < 1000)", 1),
        ("SELECT x FROM t WHERE x > (SELECT max(k) FROM dim WHERE k < 100)", 1),
        ("SELECT x FROM t JOIN VALUES (3), (14) AS v(k) ON x = k", 2),
        ("SELECT x FROM t JOIN (SELECT max(day) m FROM t) ON day = m", 2),
        ("SELECT x FROM t WHERE x IN (SELECT k FROM dim WHERE name = 'd')", 0),
    ],
)
def test_keys_of_a_small_side_prune(both: Both, query: str, files: int) -> None:
    assert max(both.read(query), default=0) == files


@pytest.mark.usefixtures("dimension")
@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM t LEFT JOIN dim ON x = k",
        "SELECT x FROM t LEFT ANTI JOIN dim ON x = k",
        "SELECT x FROM t WHERE x NOT IN (SELECT k FROM dim WHERE k IS NOT NULL)",
        "SELECT x FROM t JOIN dim ON x = k OR x = 7",
        "SELECT x FROM t JOIN dim ON x <=> k",
        "SELECT x FROM t JOIN dim ON f = part",
        "SELECT x FROM t JOIN dim ON f = part AND name > 'c'",
        "SELECT x FROM t JOIN dim ON x + 1 = k",
        "SELECT /*+ BROADCAST(dim) */ x FROM t JOIN dim ON x = k",
        "SELECT x FROM t WHERE x IN (SELECT k FROM dim WHERE rand() < 0.5 OR name <> 'z')",
        "SELECT x FROM t WHERE x IN (SELECT k FROM dim) OR x = 22",
    ],
)
def test_other_joins_read_everything(both: Both, query: str) -> None:
    assert max(both.read(query)) == FILES


@pytest.mark.usefixtures("dimension")
def test_a_small_side_is_read_once_and_fails_as_before(spark: SparkSession, both: Both) -> None:
    failures: list[tuple[type, bool]] = []
    for name in ("t", "plain_t"):
        with pytest.raises(Exception) as raised:  # noqa: PT011  (which one is Spark's to say)
            spark.sql(f"SELECT x FROM {name} WHERE x = (SELECT k FROM dim WHERE k < 20)").collect()
        failures.append((type(raised.value), "more than one row" in str(raised.value).lower()))
    assert failures[0] == failures[1]
    assert failures[0][1]
    frame = spark.sql("SELECT x, name FROM t JOIN dim ON x = k")
    java_frame: Any = frame._jdf
    leaves = java_frame.queryExecution().optimizedPlan().collectLeaves()
    kinds = sorted(str(leaves.apply(k).nodeName()) for k in range(leaves.size()))
    assert kinds == ["LocalRelation", "LogicalRelation"]
    assert unordered(rows_of(frame)) == [(14, "b"), (14, "c"), (3, "a"), (57, "e")]
    dim = spark.table("dim").cache()
    try:
        assert max(both.read("SELECT x FROM t JOIN dim ON x = k")) == FILES
    finally:
        dim.unpersist()


def test_methods_of_frames_are_answered(spark: SparkSession, root: Path) -> None:
    frame = pruner_spark.read(spark, root)
    assert frame.count() == 60
    assert pruner_spark.last_plans(spark)[-1].files_left == 0
    assert frame.where("x > 44").agg({"x": "max", "*": "count"}).collect() == [(59, 15)]
    told = pruner_spark.last_plans(spark)[-1]
    assert (told.kept, told.total, told.files_left, told.files_read) == (2, 6, 1, 1)
    assert "answered from metadata: 5 of 6 files" in told.explain()
    assert frame.orderBy(frame["x"].desc()).limit(2).select("x").collect() == [(59,), (58,)]
    assert "threshold of the first 2 rows: x >= " in pruner_spark.last_plans(spark)[-1].explain()
    plain = spark.read.parquet(str(root))
    assert pruner_spark.prune(plain).groupBy("city").count().orderBy("city").collect() == [
        ("a", 30),
        ("b", 30),
    ]
    assert pruner_spark.last_plans(spark)[-1].files_left == 0


def test_what_a_file_is_called_is_no_column(spark: SparkSession, root: Path) -> None:
    frame, plain = pruner_spark.read(spark, root), spark.read.parquet(str(root))
    for choose in (
        lambda each: each.where("_metadata.file_name >= 'part-3'").selectExpr("count(*)"),
        lambda each: each.selectExpr("max(_metadata.file_name)"),
        lambda each: each.select("_metadata.file_name").orderBy("file_name").limit(1),
        lambda each: each.where("_metadata.file_size > 0").groupBy("city").count().orderBy("city"),
    ):
        same(choose(frame), choose(plain), ordered=True)


def test_the_catalog_s_own_names_are_answered(spark: SparkSession, root: Path) -> None:
    spark.sql("CREATE DATABASE IF NOT EXISTS answers")
    spark.sql(f"CREATE TABLE answers.days USING parquet LOCATION '{root}'")
    try:
        spark.sql("MSCK REPAIR TABLE answers.days")
        found = pruner_spark.sql(spark, "SELECT count(*), max(x) FROM answers.days WHERE day > '2024-01-01'")
        assert rows_of(found) == [(40, 59)]
        assert files_scanned(found) == []
        # Partition values are the catalog's, wherever the partitions are stored.
        spark.sql("ALTER TABLE answers.days DROP PARTITION (day='2024-01-01', half=0)")
        spark.sql(
            "ALTER TABLE answers.days ADD PARTITION (day='2024-01-09', half=3) "
            f"LOCATION '{root}/day=2024-01-01/half=0'"
        )
        for query in (
            "SELECT count(*) FROM answers.days WHERE half = 3",
            "SELECT max(day) FROM answers.days",
        ):
            assert rows_of(pruner_spark.sql(spark, query)) == rows_of(spark.sql(query))
        # A path that two partitions share yields its rows twice.
        spark.sql(
            "ALTER TABLE answers.days ADD PARTITION (day='2024-01-10', half=3) "
            f"LOCATION '{root}/day=2024-01-01/half=0'"
        )
        for query in (
            "SELECT count(*) FROM answers.days",
            "SELECT city, count(*) FROM answers.days GROUP BY city",
        ):
            assert unordered(rows_of(pruner_spark.sql(spark, query))) == unordered(rows_of(spark.sql(query)))
    finally:
        spark.sql("DROP TABLE answers.days")


def test_answers_are_about_the_files_that_spark_lists(spark: SparkSession, tmp_path: Path) -> None:
    """A frame lists its files when it is made: later files are not counted."""
    for name in "abc":
        pq.write_table(pa.table({"x": [1, 2, 3]}), tmp_path / f"{name}.parquet")
        os.utime(tmp_path / f"{name}.parquet", (1_600_000_000, 1_600_000_000))
    pruner.open_table(str(tmp_path)).create_index("stats", on="x")
    early = pruner_spark.read(spark, tmp_path)
    pq.write_table(pa.table({"x": [9]}), tmp_path / "d.parquet")
    os.utime(tmp_path / "d.parquet", (1_600_000_000, 1_600_000_000))
    pruner.open_table(str(tmp_path)).refresh()
    assert early.selectExpr("count(*)", "max(x)").collect() == [(9, 3)]
    assert early.count() == 9
    late = pruner_spark.read(spark, tmp_path)
    assert late.selectExpr("count(*)", "max(x)").collect() == [(10, 9)]
    assert pruner_spark.last_plans(spark)[-1].files_left == 0
    # Not covered yet: it is read.
    pq.write_table(pa.table({"x": [20]}), tmp_path / "e.parquet")
    last = pruner_spark.read(spark, tmp_path).selectExpr("count(*)", "max(x)")
    assert last.collect() == [(11, 20)]
    assert files_scanned(last) == [1]
    # A filter by name lists fewer files.
    some = pruner_spark.read(spark, tmp_path, pathGlobFilter="[ab].parquet")
    assert some.count() == 6
    assert some.orderBy("x").limit(7).count() == 6
    assert some.limit(100).count() == 6


def test_parts_of_one_query_do_not_stand_for_each_other(both: Both) -> None:
    """Spark runs equal scans once: scans of different files are not equal."""
    assert both.read(
        "SELECT a.n, b.n FROM (SELECT count(*) n FROM t WHERE x > 15) a, (SELECT count(*) n FROM t WHERE x > 25) b"
    ) == [1, 1]
    assert both.read(
        "SELECT * FROM (SELECT x FROM t ORDER BY x LIMIT 2) UNION ALL "
        "SELECT * FROM (SELECT x FROM t ORDER BY x DESC LIMIT 2)"
    ) == [1, 1]


def test_scans_that_keys_leave_different_files_of_are_not_run_once(spark: SparkSession, both: Both) -> None:
    """The exchanges below a sort-merge join are equal except for the files that keys have left."""
    with settings(spark, {"spark.sql.autoBroadcastJoinThreshold": "-1"}):
        assert both.read(
            "SELECT x FROM t JOIN VALUES (3) AS v(k) ON x = k UNION ALL "
            "SELECT x FROM t JOIN VALUES (57) AS w(k) ON x = k"
        ) == [1, 1]


def test_a_failing_planner_reads_everything(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pruner_spark.relations import relation

    def fails(*_: object) -> None:
        raise RuntimeError("no answer")

    monkeypatch.setattr(relation, "shortcut", fails)
    frame = pruner_spark.read(spark, root)
    assert frame.where("x > 15").count() == 44
    told = pruner_spark.last_plans(spark)[-1]
    assert told.reason == "planning failed: no answer"
    assert told.files_left is None or told.files_left == FILES


def test_nothing_is_answered_where_pruning_is_off(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with settings(spark, {"spark.sql.optimizer.excludedRules": "pruner.spark.Shortcuts"}):
        frame = pruner_spark.read(spark, root).selectExpr("count(*)")
        assert frame.collect() == [(60,)]
        assert files_scanned(frame) == [FILES]
    monkeypatch.setenv("PRUNER_DISABLED", "1")
    frame = pruner_spark.read(spark, root).selectExpr("count(*)")
    assert frame.collect() == [(60,)]
    assert files_scanned(frame) == [FILES]


def test_a_column_with_a_default_is_read(spark: SparkSession, tmp_path: Path) -> None:
    """Spark fills in the default, which no index knows, where a file lacks the column."""
    spark.sql(f"CREATE TABLE with_default (x INT) USING parquet LOCATION '{tmp_path}/t'")
    try:
        spark.sql("INSERT INTO with_default VALUES (1), (2)")
        spark.sql("ALTER TABLE with_default ADD COLUMN y INT DEFAULT 7")
        spark.sql("INSERT INTO with_default VALUES (3, 1)")
        for path in (tmp_path / "t").glob("*.parquet"):
            os.utime(path, (1_600_000_000, 1_600_000_000))
        pruner.open_table(f"{tmp_path}/t").create_index("stats", on="*")
        for query in (
            "SELECT count(y), max(y), min(y) FROM with_default",
            "SELECT y, count(*) FROM with_default GROUP BY y",
            "SELECT count(*) FROM with_default WHERE y = 7",
            "SELECT y FROM with_default ORDER BY y DESC LIMIT 1",
        ):
            assert unordered(rows_of(pruner_spark.sql(spark, query))) == unordered(rows_of(spark.sql(query)))
    finally:
        spark.sql("DROP TABLE with_default")
