"""Joins of a table with a few rows in Spark: the rows of plain Spark, and the files that their keys leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import Both, rows_of, unordered
from tests.support.spark.catalyst import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

FILES = 6
MOST_ROWS = 16_384
"""The most rows of a small side, see java/SmallSides.java."""


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The numbers 0 to 59 in six files, in all types that can be compared; the fourth file has NULLs."""
    root = tmp_path_factory.mktemp("numbers") / "t"
    root.mkdir()
    for number in range(FILES):
        numbers = [
            None if number == 3 and each % 2 else each for each in range(number * 10, number * 10 + 10)
        ]
        halves = [None if each is None else Decimal(each) / 2 for each in numbers]
        columns = {
            "tiny": pa.array(numbers, pa.int8()),
            "small": pa.array(numbers, pa.int16()),
            "x": pa.array(numbers, pa.int32()),
            "big": pa.array(numbers, pa.int64()),
            "half": pa.array(halves, pa.decimal128(6, 1)),
            "wide": pa.array(halves, pa.decimal128(14, 1)),
            "f": pa.array(numbers, pa.float64()),
            "s": pa.array([None if each is None else str(each) for each in numbers]),
            "d": pa.array([None if each is None else each * 86_400_000_000 for each in numbers]).cast(
                pa.timestamp("us")
            ),
        }
        columns["d"] = columns["d"].cast(pa.date32())
        path = root / f"part-{number}.parquet"
        pq.write_table(pa.table(columns), path)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    pruner.open_table(str(root)).create_index("stats", on="*")
    return root


@pytest.fixture(scope="module")
def views(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Small sides: a file, in-memory rows (from pandas), and too many of these."""
    place = tmp_path_factory.mktemp("dimension")
    keys = [3, 14, 14, None, 57, 1000]
    rows = {"k": pa.array(keys, pa.int32()), "long": pa.array(keys, pa.int64()), "name": list("abcdef")}
    pq.write_table(pa.table(rows), place / "rows.parquet")
    spark.read.parquet(str(place)).createOrReplaceTempView("dim")
    with settings(spark, {"spark.sql.execution.arrow.pyspark.enabled": "true"}):
        for name, count in (("few", 2), ("most", MOST_ROWS), ("many", MOST_ROWS + 1)):
            frame = pa.table({"k": pa.array(range(-count + 5, 5), pa.int32())}).to_pandas()
            spark.createDataFrame(frame).createOrReplaceTempView(name)
    spark.createDataFrame([(3,), (4,)], "k INT").createOrReplaceTempView("of_python")
    yield
    for name in ("dim", "few", "most", "many", "of_python"):
        spark.catalog.dropTempView(name)


@pytest.fixture(params=["true", "false"], ids=["ansi", "lenient"])
def both(request: pytest.FixtureRequest, spark: SparkSession, root: Path, views: None) -> Iterator[Both]:
    values = {"spark.sql.planChangeValidation": "true", "spark.sql.ansi.enabled": str(request.param)}
    with settings(spark, values):
        found = Both(spark, root)
        yield found
        found.close()


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT count(*), sum(x) FROM t JOIN (VALUES (3), (14)) AS v(k) ON big = k", 2),
        ("SELECT x, k FROM (VALUES (3), (14), (3)) AS v(k) JOIN t ON k = big AND x > 9", 1),
        ("SELECT x, k FROM t, (VALUES (3), (NULL), (3)) AS v(k) WHERE big = k", 1),
        ("SELECT x FROM t JOIN (VALUES (3Y), (-3Y)) AS v(k) ON big = k", 1),
        ("SELECT x FROM t JOIN (VALUES (3S), (14S)) AS v(k) ON x = k", 2),
        ("SELECT x FROM t LEFT SEMI JOIN (VALUES (3), (14), (15)) AS v(k) ON big = k", 2),
        ("SELECT x FROM t WHERE EXISTS (SELECT 1 FROM (VALUES (3), (14)) AS v(k) WHERE k = big)", 2),
        ("SELECT x FROM t WHERE big IN (SELECT k FROM (VALUES (3), (57)) AS v(k))", 2),
        ("SELECT x, name FROM t JOIN dim ON big = k", 3),
        ("SELECT x, name FROM dim JOIN t ON big = k AND name > 'd'", 1),
        ("SELECT x, name FROM t JOIN dim ON x = CAST(CAST(k AS BIGINT) AS DECIMAL(21, 2))", 3),
        # Both conditions are of use, whichever are of others.
        ("SELECT x FROM t JOIN (VALUES (3, 3), (14, 57)) AS v(k, m) ON big = k AND small = m", 1),
        (
            "SELECT x FROM t JOIN (VALUES (3, '3'), (14, '8')) AS v(k, m) ON big = k AND s = m AND x < k + 1",
            1,
        ),
        ("SELECT x FROM t JOIN (VALUES (3, 4), (14, 14)) AS v(k, m) ON big = k AND f = m", 2),
        ("SELECT x FROM t JOIN (VALUES (3), (33)) AS v(k) ON big = k JOIN (VALUES (3S)) AS w(m) ON x = m", 1),
        # No row has a key outside the range of the column's type.
        ("SELECT x FROM t JOIN (VALUES (3L), (14L), (4294967299L)) AS v(k) ON x = k", 2),
        ("SELECT x FROM t JOIN (VALUES (4294967299L), (-2147483649L)) AS v(k) ON x = k", 0),
        ("SELECT x FROM t JOIN (VALUES (259), (-253), (14)) AS v(k) ON tiny = k", 1),
        ("SELECT x FROM t JOIN (VALUES (65539), (-65533), (57)) AS v(k) ON small = k", 1),
        ("SELECT x FROM t WHERE x IN (SELECT long FROM dim)", 3),
        # Decimals are compared as numbers.
        ("SELECT x FROM t JOIN (VALUES (3), (7)) AS v(k) ON wide = k", 2),
        ("SELECT x FROM t JOIN (VALUES (3), (7)) AS v(k) ON half = k", 2),
        ("SELECT x FROM t JOIN (VALUES (3.25), (7.50)) AS v(k) ON half = k", 1),
        ("SELECT x FROM t JOIN (VALUES (3.0), (14.5), (12345678901234567890.0)) AS v(k) ON x = k", 1),
        ("SELECT x FROM t JOIN (VALUES (3.5), (0.0)) AS v(k) ON half = k", 1),
        ("SELECT x FROM t JOIN (VALUES (DATE '1970-01-04')) AS v(k) ON d = k", 1),
        # Rows that are in the query itself, however they are given.
        ("SELECT x FROM t JOIN range(13, 60, 44) ON big = id", 2),
        ("SELECT x FROM t JOIN range(20, 0, -9) ON x = id", 3),
        ("SELECT x FROM t WHERE x IN (SELECT id FROM range(100) WHERE id % 50 = 7)", 2),
        ("SELECT x FROM t WHERE x IN (SELECT 3 UNION ALL SELECT 14)", 2),
        ("SELECT x FROM t WHERE big IN (SELECT 3 UNION SELECT 14)", 2),
        ("SELECT x FROM t JOIN (SELECT k FROM dim UNION ALL SELECT 22) ON big = k", 4),
        ("SELECT x FROM t JOIN (SELECT 3 AS k) ON big = k", 1),
        (
            "SELECT x FROM t JOIN (SELECT k + 11 AS k FROM (VALUES (3), (46)) AS v(k) WHERE k < 9) ON big = k",
            1,
        ),
        ("SELECT x FROM t JOIN (SELECT DISTINCT k FROM (VALUES (3), (3)) AS v(k)) ON big = k", 1),
        ("SELECT x FROM t JOIN few ON big = k", 1),
        ("SELECT x FROM t WHERE x > (SELECT max(id) FROM range(42))", 2),
        # With many keys for each file, the ranges between their widest gaps are tested.
        ("SELECT x FROM t JOIN range(-100, 5) AS r ON x = id", 1),
        ("SELECT x FROM t JOIN range(-1019, 5) AS r ON x = id", 1),
        (
            "SELECT x FROM t WHERE big IN (SELECT id FROM range(-90, 5) UNION ALL SELECT id FROM range(55, 150))",
            2,
        ),
        ("SELECT x FROM t JOIN (SELECT 1 + 7 * id % 101 AS k FROM range(101)) ON big = k", 6),
        ("SELECT x FROM t JOIN (SELECT CAST(id AS DECIMAL(9, 1)) AS k FROM range(25, 200)) ON wide = k", 1),
        ("SELECT x FROM t JOIN (SELECT CAST(id AS DECIMAL(6, 2)) AS k FROM range(25, 200)) ON wide = k", 1),
        ("SELECT x FROM t JOIN (SELECT CAST(id AS STRING) AS k FROM range(1000, 1099)) ON s = k", 2),
        (
            "SELECT x FROM t JOIN (SELECT date_from_unix_date(CAST(id AS INT)) AS k FROM range(54, 200)) ON d = k",
            1,
        ),
        # No keys at all.
        ("SELECT x FROM t JOIN (SELECT k FROM (VALUES (3)) AS v(k) WHERE k > 5) ON big = k", 0),
        ("SELECT x FROM t JOIN (VALUES (CAST(NULL AS INT))) AS v(k) ON big = k", 0),
        ("SELECT x FROM t JOIN (SELECT id FROM range(3) WHERE id > 5) ON big = id", 0),
    ],
)
def test_keys_prune_in_whatever_type_they_are_compared(both: Both, query: str, files: int) -> None:
    assert max(both.read(query), default=0) == files


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT x, k FROM (VALUES (3), (14), (99), (NULL)) AS v(k) LEFT JOIN t ON big = k", 2),
        ("SELECT x, k FROM t RIGHT JOIN (VALUES (3), (14), (99), (NULL)) AS v(k) ON big = k", 2),
        ("SELECT x, k FROM (VALUES (3), (14)) AS v(k) LEFT JOIN t ON big = k AND x > 9 AND k < 20", 1),
        ("SELECT x, k FROM (VALUES (3), (14)) AS v(k) LEFT JOIN t ON big = k WHERE x IS NULL", 2),
        ("SELECT k FROM (VALUES (3), (3), (99)) AS v(k) LEFT SEMI JOIN t ON big = k", 1),
        ("SELECT k FROM (VALUES (3), (3), (99), (NULL)) AS v(k) LEFT ANTI JOIN t ON big = k", 1),
        ("SELECT k FROM (VALUES (3), (99)) AS v(k) WHERE EXISTS (SELECT 1 FROM t WHERE big = k)", 1),
        ("SELECT k FROM (VALUES (3), (99)) AS v(k) WHERE NOT EXISTS (SELECT 1 FROM t WHERE big = k)", 1),
        (
            "SELECT k FROM (VALUES (3), (99)) AS v(k) WHERE k > 50 OR EXISTS (SELECT 1 FROM t WHERE big = k)",
            1,
        ),
        ("SELECT k, EXISTS (SELECT 1 FROM t WHERE big = k) FROM (VALUES (3), (99), (NULL)) AS v(k)", 1),
        ("SELECT k, (SELECT max(s) FROM t WHERE big = k) FROM (VALUES (3), (99), (NULL)) AS v(k)", FILES),
        (
            "SELECT k, m FROM (VALUES (3, 3), (14, 99)) AS v(k, m) WHERE k NOT IN (SELECT x FROM t WHERE big = m)",
            1,
        ),
        ("SELECT name, x FROM dim LEFT JOIN t ON big = k", 3),
        ("SELECT name, t.x FROM t JOIN (VALUES (14L)) AS w(m) ON x = m RIGHT JOIN dim ON big = k", 1),
        ("SELECT k, x FROM (SELECT 3 AS k UNION ALL SELECT 99) LEFT JOIN t ON big = k", 1),
    ],
)
def test_the_side_that_an_outer_join_does_not_keep_is_pruned(both: Both, query: str, files: int) -> None:
    assert max(both.read(query), default=0) == files


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x, k FROM t LEFT JOIN (VALUES (3), (14)) AS v(k) ON big = k",
        "SELECT x, k FROM (VALUES (3), (14)) AS v(k) RIGHT JOIN t ON big = k",
        "SELECT x, k FROM t FULL JOIN (VALUES (3), (99)) AS v(k) ON big = k",
        "SELECT x FROM t LEFT ANTI JOIN (VALUES (3), (14)) AS v(k) ON big = k",
        "SELECT k FROM (VALUES (3), (99)) AS v(k) WHERE k NOT IN (SELECT big FROM t)",
        "SELECT x, k FROM (VALUES (3), (14)) AS v(k) LEFT JOIN t ON big <=> k",
        "SELECT x, k FROM (VALUES (3), (14)) AS v(k) FULL JOIN t ON big = k",
        "SELECT x, t.big IN (SELECT k FROM dim) AS found FROM t LEFT JOIN dim ON big = k",
        "SELECT x FROM t WHERE big NOT IN (SELECT k FROM (VALUES (3), (14)) AS v(k))",
        "SELECT x, big IN (SELECT k FROM (VALUES (3), (14)) AS v(k)) FROM t",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON big <=> k",
        "SELECT x FROM t JOIN (VALUES (3), (NULL)) AS v(k) ON x <=> k",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON big = k OR x = 22",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON big + 1 = k",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON NOT (big = k)",
        # Casts that change some values, or that may fail.
        "SELECT x FROM t JOIN (VALUES (259), (14)) AS v(k) ON tiny = try_cast(k AS TINYINT)",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON CAST(big AS INT) = k",
        "SELECT x FROM t JOIN (VALUES (3.0BD), (14.2BD)) AS v(k) ON x = CAST(k AS INT)",
        "SELECT x FROM t JOIN (VALUES (3.04BD), (3.0BD)) AS v(k) ON half = CAST(k AS DECIMAL(2, 1))",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON CAST(half AS INT) = k",
        "SELECT x FROM t JOIN (VALUES ('3'), ('014')) AS v(k) ON big = k",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON s = k",
        "SELECT x FROM t JOIN (VALUES (3), (14)) AS v(k) ON f = k",
        "SELECT x FROM t JOIN (VALUES (3.0D), (14.0D)) AS v(k) ON big = k",
        "SELECT x FROM t JOIN (VALUES (TIMESTAMP '1970-01-04')) AS v(k) ON d = k",
        "SELECT x FROM t JOIN (VALUES ('1970-01-04')) AS v(k) ON d = k",
        # More digits than the column's type allows, which files may have all the same.
        "SELECT x FROM t JOIN (VALUES (123456.5), (3.0)) AS v(k) ON half = k",
        # Not small, not in memory, or not the same each time.
        "SELECT x FROM t JOIN many ON big = k",
        "SELECT x FROM t JOIN most ON big = k",
        "SELECT x FROM t JOIN of_python ON big = k",
        "SELECT x FROM t JOIN range(16385) ON big = id",
        "SELECT x FROM t JOIN (SELECT k FROM most UNION ALL SELECT 59) ON big = k",
        "SELECT x FROM t JOIN (SELECT id FROM range(99) WHERE rand() < 0.5 OR id % 2 >= 0) ON big = id",
        "SELECT x FROM t JOIN (SELECT id FROM range(99) LIMIT 60) ON big = id",
        "SELECT x FROM t JOIN (SELECT explode(array(3, 14)) AS k) ON big = k",
        "SELECT /*+ SHUFFLE_HASH(v) */ x FROM t JOIN (VALUES (3), (14)) AS v(k) ON big = k",
    ],
)
def test_what_keys_do_not_prove_is_read(both: Both, query: str) -> None:
    # Where Spark finds that a join yields no row, its last plan has no scan.
    assert max(both.read(query), default=FILES) == FILES


def test_keys_that_cannot_be_made_fail_as_in_spark(spark: SparkSession, both: Both) -> None:
    """Or differ from what they look like, where casts wrap around."""
    ansi = spark.conf.get("spark.sql.ansi.enabled") == "true"
    for query in (
        "SELECT x FROM {} JOIN (VALUES (259), (14)) AS v(k) ON tiny = CAST(k AS TINYINT)",
        "SELECT x FROM {} JOIN (VALUES ('3'), ('none')) AS v(k) ON big = CAST(k AS BIGINT)",
        "SELECT x FROM {} JOIN (SELECT 6 DIV (id - 1) AS k FROM range(3)) ON big = k",
    ):
        outcomes: list[object] = []
        for name in ("t", "plain_t"):
            try:
                outcomes.append(unordered(rows_of(spark.sql(query.format(name)))))
            except Exception as error:  # whatever Spark raises
                outcomes.append(type(error).__name__)
        assert outcomes[0] == outcomes[1], query
        assert isinstance(outcomes[1], str) == ansi, query


def test_text_of_fixed_length_is_compared_as_spark_pads_it(spark: SparkSession, tmp_path: Path) -> None:
    place = tmp_path / "t"
    spark.sql(f"CREATE TABLE padded (c CHAR(4), v VARCHAR(4), x INT) USING parquet LOCATION '{place}'")
    try:
        for number in range(4):
            spark.sql(f"INSERT INTO padded VALUES ('a{number}', 'b{number}', {number})")
        for path in place.glob("*.parquet"):
            os.utime(path, (1_600_000_000, 1_600_000_000))
        pruner.open_table(str(place)).create_index("stats", on="*")
        for condition in ("c = k", "v = k", "c = CAST(k AS CHAR(4))", "v = m AND c = k", "x = length(k) - 1"):
            query = (
                "SELECT x FROM padded JOIN (VALUES ('a1', 'b1'), ('a1  ', 'b1'), ('b2', 'b2'), (NULL, 'b3')) "
                f"AS s(k, m) ON {condition}"
            )
            wanted = unordered(rows_of(spark.sql(query)))
            found = pruner_spark.sql(spark, query)
            assert unordered(rows_of(found)) == wanted, condition
            told = pruner_spark.last_plans(spark)[-1]
            if condition == "v = k":
                assert (told.kept, told.total) == (1, 4)
    finally:
        spark.sql("DROP TABLE padded")
