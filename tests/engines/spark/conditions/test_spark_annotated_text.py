"""Text that files annotate as ENUM or JSON prunes in Spark as text does, by ranges and by bitmaps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import new_scans
from tests.support.parquet.types import converted, logical, plain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

WORDS = [["amber", "blue"], ["cyan", "coral"], ["gold", None], ["pink", "é"]]
DOCUMENTS = [['"a"', '{"n":1}'], ['{"n":3}', '{"n":4}'], ['{"n":5}', None], ['{"n":7}', '{"n":8}']]
Write = Callable[[Path, list[Any]], object]


def _annotated(write: Callable[[Path, pa.Array[Any], str], Path], name: str) -> Write:
    """A file whose bytes have this annotation alone, by an edit of its footer."""
    return lambda path, values: write(path, pa.array([v and v.encode() for v in values], pa.binary()), name)


def _of_duckdb(kind: str) -> Write:
    """A file that DuckDB wrote from a column of its own type."""

    def write(path: Path, values: list[Any]) -> None:
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE t (x {kind})")
            connection.executemany("INSERT INTO t VALUES (?)", [[value] for value in values])
            connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")

    return write


def _colours() -> str:
    named = sorted({word for words in WORDS for word in words if word is not None})
    return "ENUM (" + ", ".join(f"'{word}'" for word in named) + ")"


WAYS: dict[str, tuple[list[Write], list[list[Any]]]] = {
    "ENUM, converted": ([_annotated(converted, "ENUM")], WORDS),
    "ENUM, logical": ([_annotated(logical, "Enum")], WORDS),
    "ENUM of DuckDB": ([_of_duckdb(_colours())], WORDS),
    "ENUM beside text": (
        [_annotated(converted, "ENUM"), lambda path, words: plain(path, pa.array(words))],
        WORDS,
    ),
    "JSON, converted": ([_annotated(converted, "JSON")], DOCUMENTS),
    "JSON, logical": ([_annotated(logical, "JSON")], DOCUMENTS),
    "JSON of DuckDB": ([_of_duckdb("JSON")], DOCUMENTS),
}
"""The writers of a table's four files, in turn, and what the files hold."""

OF_WORDS = {"x = 'blue'": 1, "x > 'é'": 0, "x IN ('amber', 'pink')": 2, "x LIKE 'c%'": 1, "x IS NULL": 1}
OF_DOCUMENTS = {
    """x = '{"n":3}'""": 1,
    """x >= '{"n":6}'""": 1,
    """x IN ('{"n":1}', '{"n":5}')""": 2,
    "x < '#'": 1,
    "x IS NULL": 1,
}


@pytest.mark.parametrize("using", ["column_stats", "bitmap"])
@pytest.mark.parametrize("way", WAYS)
def test_annotated_text_is_read_from_the_files_that_may_hold_it(
    tmp_path: Path, spark: SparkSession, way: str, using: str
) -> None:
    writers, contents = WAYS[way]
    root = tmp_path / "t"
    root.mkdir()
    for number, values in enumerate(contents):
        writers[number % len(writers)](root / f"{number}.parquet", values)
    pruner.open_table(str(root)).create_index("i", on="x", using=using)
    plain_frame = spark.read.parquet(str(root))
    assert plain_frame.dtypes == [("x", "string")]
    for where, kept in (OF_WORDS if contents is WORDS else OF_DOCUMENTS).items():
        before = pruner_spark.last_plans(spark)
        found = pruner_spark.read(spark, str(root)).where(where).collect()
        assert sorted(map(repr, found)) == sorted(map(repr, plain_frame.where(where).collect())), where
        (scan,) = new_scans(spark, before)
        assert len(contents) - (scan.files_dropped or 0) == kept, where
