"""Joins with small sides, first rows and aggregates over Delta and Iceberg in Spark: the same rows from fewer files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import files_scanned, iceberg_files, same
from tests.support.spark.catalyst import settings
from tools.spark_sessions import iceberg_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = (
    "x BIGINT, i INT, s STRING, f DOUBLE, d DATE, ts TIMESTAMP, half DECIMAL(9, 1), shuffled INT, part INT"
)
ROW = (
    "IF(id BETWEEN 30 AND 39 AND id % 2 = 1, NULL, id), CAST(id AS INT), concat('s', id + 100), "
    "CAST(id AS DOUBLE) / 2, date_add(DATE '2020-01-01', CAST(id AS INT)), timestamp_seconds(id * 3600), "
    "CAST(id AS DECIMAL(9, 1)) / 2, CAST(id * 7 % 60 AS INT), CAST(id DIV 30 AS INT)"
)
"""Six files of ten rows, the numbers 0 to 59; in the fourth, every second one is NULL."""


@dataclass(frozen=True)
class Kept:
    """In one format: a table `t` with some deleted rows, `other` with the same rows in partitions, and a small `dim`.

    `dim` has no index.
    """

    spark: SparkSession
    format: str
    names: dict[str, str]
    files: Callable[[DataFrame], list[int]]

    def read(self, query: str) -> list[int]:
        """Compare a query with plain Spark; return how many files each of its scans has read."""
        text = query.format(**self.names)
        wanted, found = self.spark.sql(text), pruner_spark.sql(self.spark, text)
        same(found, wanted, ordered="ORDER BY" in query)
        return self.files(found)


def _made(spark: SparkSession, name: str, using: str, properties: str) -> None:
    rest = "PARTITIONED BY (part)" if "other" in name else ""
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING {using} {rest} TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO {name} SELECT {ROW} FROM range(0, 60, 1, 6)")
    spark.sql(f"DELETE FROM {name} WHERE i IN (5, 22, 58)")


def _dimension(spark: SparkSession, name: str, using: str) -> None:
    spark.sql(f"CREATE TABLE {name} (k INT, long BIGINT, name STRING) USING {using}")
    rows = enumerate([3, 14, 14, None, 57, 1000])
    values = ", ".join(f"({key or 'NULL'}, {key or 'NULL'}, '{'abcdef'[place]}')" for place, key in rows)
    spark.sql(f"INSERT INTO {name} VALUES {values}")


def _place(kept: Kept, name: str) -> str:
    """A table's location."""
    if kept.format == "delta":
        return name.split("`")[1]
    warehouse = kept.spark.conf.get("spark.sql.catalog.ice.warehouse")
    return f"{warehouse}/{name.removeprefix('ice.').replace('.', '/')}"


@pytest.fixture(scope="module")
def delta_kept(delta: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    root = tmp_path_factory.mktemp("delta")
    names = {each: f"delta.`{root / each}`" for each in ("t", "other", "dim")}
    for each in ("t", "other"):
        _made(delta, names[each], "delta", "'delta.enableDeletionVectors'='true'")
        pruner.open_table(root / each).create_index("stats", on="*")
    _dimension(delta, names["dim"], "delta")
    return Kept(delta, "delta", names, files_scanned)


@pytest.fixture(scope="module")
def iceberg_kept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    root = tmp_path_factory.mktemp("iceberg")
    ice = iceberg_session(spark, root)
    names = {each: f"ice.formats.{each}" for each in ("t", "other", "dim")}
    for each in ("t", "other"):
        _made(
            ice,
            names[each],
            "iceberg",
            "'format-version'='2', 'write.delete.mode'='merge-on-read', 'write.distribution-mode'='none'",
        )
        pruner.open_table(root / "formats" / each).create_index("stats", on="*")
    _dimension(ice, names["dim"], "iceberg")
    return Kept(ice, "iceberg", names, lambda frame: [len(files) for files in iceberg_files(frame)])


@pytest.fixture(params=["delta", "iceberg"])
def kept(request: pytest.FixtureRequest) -> Iterator[Kept]:
    found: Kept = request.getfixturevalue(f"{request.param}_kept")
    with settings(found.spark, {"spark.sql.planChangeValidation": "true"}):
        yield found


def test_six_files_and_deleted_rows(kept: Kept) -> None:
    """What the other tests rely on: plain Spark reads all six files for a key, and 57 rows of 60 are left."""
    frame = kept.spark.sql("SELECT x FROM {t} WHERE i % 7 = 3".format(**kept.names))
    frame.collect()
    assert kept.files(frame) == [6]
    assert kept.spark.table(kept.names["t"]).count() == 57


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT count(*), sum(x) FROM {t} JOIN (VALUES (3), (14)) AS v(k) ON x = k", [2]),
        ("SELECT x, k FROM (VALUES (3), (14), (3)) AS v(k) JOIN {t} ON k = x AND x > 9", [1]),
        ("SELECT x, k FROM {t}, (VALUES (3), (NULL), (3)) AS v(k) WHERE x = k", [1]),
        ("SELECT i FROM {t} LEFT SEMI JOIN (VALUES (3), (14), (15)) AS v(k) ON i = k", [2]),
        ("SELECT x FROM {t} WHERE x IN (SELECT k FROM (VALUES (3), (57)) AS v(k))", [2]),
        ("SELECT x FROM {t} JOIN range(13, 60, 44) ON x = id", [2]),
        ("SELECT x FROM {t} WHERE x > (SELECT max(id) FROM range(42))", [2]),
        ("SELECT k, s FROM (VALUES ('s103'), ('s157')) AS v(k) LEFT JOIN {t} ON k = s", [2]),
        # Small sides of the same format without an index.
        ("SELECT x, name FROM {t} JOIN {dim} ON x = k", [3]),
        ("SELECT x, name FROM {t} JOIN {dim} ON x = long AND name > 'd'", [1]),
        ("SELECT x FROM {t} WHERE x IN (SELECT long FROM {dim} WHERE name < 'c')", [2]),
        ("SELECT x, name FROM {t} JOIN {dim} ON half = k JOIN (VALUES (28)) AS w(m) ON x = m", [1]),
        ("SELECT x FROM {t} WHERE x > (SELECT max(k) - 950 FROM {dim})", [1]),
        # The file of a deleted row is read, and yields no row.
        ("SELECT x FROM {t} JOIN (VALUES (22)) AS v(k) ON x = k", [1]),
        # A side made small by its filters.
        ("SELECT t.x FROM {t} AS t JOIN {other} AS o ON t.x = o.x AND o.i = 14", None),
    ],
)
def test_keys_of_a_small_side_prune(kept: Kept, query: str, files: list[int] | None) -> None:
    read = kept.read(query)
    assert files is None or read == files


@pytest.mark.parametrize(
    ("query", "of_delta", "of_iceberg"),
    [
        # Conditions on whole partitions are gone from the plan of an Iceberg scan.
        ("SELECT i FROM {other} WHERE part = 0 ORDER BY i DESC LIMIT 2", 1, 2),
        ("SELECT i FROM {other} WHERE part = 1 ORDER BY i LIMIT 2", 1, 1),
        ("SELECT i FROM {other} WHERE part = 0 AND i < 20 ORDER BY i DESC LIMIT 2", 1, 1),
        ("SELECT part, i FROM {other} ORDER BY part, i LIMIT 2", 3, 3),
        ("SELECT i FROM {other} JOIN (VALUES (1)) AS v(k) ON part = k", 3, 3),
        (
            "SELECT i FROM {other} JOIN (VALUES (1, 14), (0, 14), (1, 44)) AS v(k, m) ON part = k AND i = m",
            2,
            2,
        ),
        ("SELECT i FROM {other} JOIN (VALUES (1)) AS v(k) ON part = k WHERE i > 52", 1, 1),
        ("SELECT i FROM {other} WHERE part = (SELECT max(k) - 999 FROM {dim})", 3, 3),
        # What Spark does not check again once the files are listed, and the planner does not know.
        (
            "SELECT count(i) FROM {other} WHERE hash(part) = (SELECT hash(CAST(max(k) - 999 AS INT)) FROM {dim})",
            3,
            6,
        ),
    ],
)
def test_partitions(kept: Kept, query: str, of_delta: int, of_iceberg: int) -> None:
    assert kept.read(query) == [of_delta if kept.format == "delta" else of_iceberg]


@pytest.mark.parametrize(
    ("query", "of_delta", "of_iceberg"),
    [
        # 5, 22 and 58 are deleted. Delta says how many rows of a file are left; Iceberg only that some are gone.
        ("SELECT i FROM {t} ORDER BY i DESC LIMIT 3", 1, 2),
        ("SELECT i, s FROM {t} ORDER BY i DESC LIMIT 9", 1, 2),
        ("SELECT i FROM {t} ORDER BY i DESC LIMIT 10", 2, 2),
        ("SELECT i FROM {t} ORDER BY i LIMIT 9", 1, 2),
        ("SELECT i FROM {t} ORDER BY i LIMIT 10", 2, 2),
        ("SELECT s FROM {t} ORDER BY s DESC LIMIT 2", 1, 2),
        ("SELECT d FROM {t} ORDER BY d DESC LIMIT 2", 1, 2),
        ("SELECT ts, i FROM {t} ORDER BY ts DESC LIMIT 2", 1, 2),
        ("SELECT ts AS when, i FROM {t} ORDER BY when LIMIT 2", 1, 2),
        ("SELECT x FROM {t} ORDER BY x NULLS LAST LIMIT 2", 1, 2),
        ("SELECT x FROM {t} ORDER BY x LIMIT 2", 2, 3),
        ("SELECT x FROM {t} ORDER BY x LIMIT 7", 2, 3),
        ("SELECT i FROM {t} WHERE i < 40 ORDER BY i DESC LIMIT 2", 1, 1),
        ("SELECT i FROM {t} WHERE i < 38 ORDER BY i DESC LIMIT 2", 2, 3),
        ("SELECT i FROM {t} ORDER BY i DESC LIMIT 2 OFFSET 8", 2, 2),
        ("SELECT i FROM (SELECT i, ts FROM {t} ORDER BY ts LIMIT 5) WHERE i > 3", 1, 2),
        ("SELECT shuffled FROM {t} ORDER BY shuffled LIMIT 2", 6, 6),
        ("SELECT half FROM {t} ORDER BY half LIMIT 2", 1, 2),
        ("SELECT half FROM {t} WHERE half < 25.5 ORDER BY half DESC LIMIT 2", 2, 2),
        ("SELECT f FROM {t} ORDER BY f DESC LIMIT 2", 1, 2),
        ("SELECT i FROM {t} ORDER BY i + 1 LIMIT 2", 6, 6),
    ],
)
def test_first_rows_are_in_few_files(kept: Kept, query: str, of_delta: int, of_iceberg: int) -> None:
    assert kept.read(query) == [of_delta if kept.format == "delta" else of_iceberg]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT i FROM {t} ORDER BY i LIMIT 0",
        "SELECT * FROM (SELECT i FROM {t} ORDER BY i DESC LIMIT 3) JOIN (SELECT i FROM {t} ORDER BY i LIMIT 3)",
        "(SELECT x FROM {t} ORDER BY x DESC LIMIT 40) UNION ALL (SELECT x FROM {t} ORDER BY x LIMIT 40)",
        "SELECT * FROM (SELECT i FROM {t} ORDER BY i DESC LIMIT 3) RIGHT JOIN (SELECT i FROM {t}) USING (i)",
        "SELECT x FROM {t} JOIN (VALUES (3)) AS v(k) ON x = k UNION ALL "
        "SELECT x FROM {t} JOIN (VALUES (57)) AS v(k) ON x = k",
        "SELECT x FROM {t} JOIN (VALUES (3)) AS v(k) ON x = k UNION ALL SELECT x FROM {t}",
        "SELECT (SELECT sum(x) FROM {t} JOIN (VALUES (3)) AS v(k) ON x = k), "
        "(SELECT max(x) FROM {t} JOIN (VALUES (57)) AS v(k) ON x = k), (SELECT sum(x) FROM {t})",
        "SELECT (SELECT sum(i) FROM (SELECT i FROM {t} ORDER BY i LIMIT 2)), "
        "(SELECT sum(i) FROM (SELECT i FROM {t} ORDER BY i DESC LIMIT 2)), (SELECT sum(i) FROM {t})",
        "WITH a AS (SELECT * FROM {t}) SELECT a.x, b.x FROM a JOIN (VALUES (3), (57)) AS v(k) ON a.x = k "
        "JOIN a AS b ON a.part = b.part",
        "WITH a AS (SELECT * FROM {t}) SELECT count(*) FROM a WHERE x IN (SELECT max(x) FROM a)",
    ],
)
@pytest.mark.parametrize("broadcast", ["-1", "10485760"])
def test_parts_of_one_query_do_not_stand_for_each_other(kept: Kept, query: str, broadcast: str) -> None:
    """Formats compare scans by table and version, and Spark reads equal ones once."""
    conf = {
        "spark.sql.autoBroadcastJoinThreshold": broadcast,
        "spark.sql.adaptive.enabled": "false" if broadcast == "-1" else "true",
        "spark.sql.execution.topKSortFallbackThreshold": "30",
    }
    with settings(kept.spark, conf):
        kept.read(query)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT x FROM {t} JOIN (VALUES (3D), (-0D), (double('NaN'))) AS v(k) ON f = k",
        "SELECT x FROM {t} LEFT JOIN (VALUES (3), (14)) AS v(k) ON x = k",
        "SELECT x FROM {t} LEFT ANTI JOIN (VALUES (3), (14)) AS v(k) ON x = k",
        "SELECT x FROM {t} JOIN (VALUES (3), (14)) AS v(k) ON x < k",
        "SELECT x FROM {t} JOIN (VALUES (3), (14)) AS v(k) ON x <=> k",
        "SELECT x FROM {t} JOIN (SELECT CAST(rand() * 9 AS INT) AS k) ON x = k AND x > 99",
    ],
)
def test_what_keys_do_not_prove_is_read(kept: Kept, query: str) -> None:
    kept.read(query)


@pytest.mark.parametrize(
    ("query", "files"),
    [
        ("SELECT count(*) FROM {t} WHERE i < 40", []),
        ("SELECT count(*) FROM {t} WHERE i < 35", [1]),
        ("SELECT count(x) FROM {t} WHERE i < 40", [2]),
        ("SELECT max(i), min(s), count(*) FROM {t} WHERE i < 55", [2]),
        ("SELECT part, count(*) FROM {t} GROUP BY part", [3]),
        ("SELECT max(i), max(ts) FROM {t} WHERE shuffled >= 0", [1]),
        ("SELECT part, max(i) FROM {t} GROUP BY part", [3]),
        ("SELECT count(DISTINCT part) FROM {t}", [3]),
        ("SELECT count(*) FROM {t} JOIN (SELECT max(x) AS k FROM {t} WHERE i < 60) ON x = k", [6, 1]),
    ],
)
def test_aggregates_of_delta_are_answered_beside_deleted_rows(
    delta_kept: Kept, query: str, files: list[int]
) -> None:
    """For files with deleted rows, it is known how many are left, but not which."""
    assert delta_kept.read(query) == files


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_table_without_rows_has_no_first_rows(
    format_: str, request: pytest.FixtureRequest, caplog: pytest.LogCaptureFixture
) -> None:
    kept: Kept = request.getfixturevalue(f"{format_}_kept")
    name = kept.names["dim"].replace("dim", "gone")
    _dimension(kept.spark, name, format_)
    kept.spark.sql(f"DELETE FROM {name}")
    gone = Kept(kept.spark, format_, {**kept.names, "t": name}, kept.files)
    pruner.open_table(_place(kept, name)).create_index("stats", on="*")
    with caplog.at_level("WARNING", "pruner"):
        for query in (
            "SELECT k FROM {t} ORDER BY k LIMIT 3",
            "SELECT count(*), max(k) FROM {t}",
            "SELECT name, max(k) FROM {t} WHERE k > 3 GROUP BY name",
            "SELECT count(DISTINCT k) FROM {t} WHERE k > 3",
            "SELECT i FROM {other} WHERE i = (SELECT max(k) FROM {t})",
            "SELECT i FROM {other} JOIN {t} ON i = k",
        ):
            gone.read(query)
    assert caplog.messages == []


def test_frames_are_read_again_as_before(kept: Kept) -> None:
    frame = pruner_spark.sql(kept.spark, "SELECT i FROM {t} ORDER BY i DESC LIMIT 3".format(**kept.names))
    assert [row.i for row in frame.collect()] == [59, 57, 56]
    again = frame.select("i")
    assert [row.i for row in again.collect()] == [59, 57, 56]
    assert kept.files(again) == [1 if kept.format == "delta" else 2]
    frame.cache()
    try:
        assert [row.i for row in frame.collect()] == [59, 57, 56]
    finally:
        frame.unpersist()
