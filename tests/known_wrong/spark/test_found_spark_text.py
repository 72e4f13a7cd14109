"""Rows that `pruner_spark` has lost where text is not UTF-8, which Spark's casts of bytes and Parquet writers allow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
import pruner_spark
from pruner_spark import key_lists
from tests.engines.spark.spark_tables import new_scans, rows_of, unordered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

TEXTS = (b"\xc3A", b"\xff", b"a\xffb", b"plain", b"\xf0\x9f\x98\x80", b"ab")


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file for each text, with statistics and indexes over functions of the text."""
    root = tmp_path_factory.mktemp("found_text") / "t"
    root.mkdir()
    for number, text in enumerate(TEXTS):
        columns = {
            "s": pa.array([text]).view(pa.string()),
            "n": pa.array([number], pa.int64()),
            # The last three lie beyond the year 9999.
            "d": pa.array([number * 1_000_000], pa.int32()).cast(pa.date32()),
        }
        pq.write_table(pa.table(columns), root / f"{number}.parquet")
    table = pruner.open_table(root)
    table.create_index("stats", on="*")
    for number, expression in enumerate(("length(s)", "upper(s)", "hex(s)")):
        table.create_index(f"i{number}", on=expression, using="bitmap")
    return root


def test_found_characters_of_text_that_is_no_utf8_are_counted_otherwise(
    spark: SparkSession, root: Path
) -> None:
    """Spark takes the bytes C3 41 for one character, DuckDB, which evaluates indexes, for two.

    `upper` of such text invalidated DuckDB's database, so that no other file was recorded.
    """
    plain, pruned = spark.read.parquet(str(root)), pruner_spark.read(spark, root)
    before = pruner_spark.last_plans(spark)
    for text in ("length(s) = 1", "length(s) = 2", "length(s) = 5", "hex(s) = 'C341'", "upper(s) = 'PLAIN'"):
        assert unordered(rows_of(pruned.where(text).select("n"))) == unordered(
            rows_of(plain.where(text).select("n"))
        ), text
    kept = [scan.kept for scan in new_scans(spark, before)]
    assert kept[2] == len(TEXTS) - 1, "of `ab` the length is known"


@pytest.mark.parametrize("most", [key_lists.MOST_LISTED, 1], ids=["listed", "range"])
def test_found_keys_that_python_shows_as_others_are_no_proof(
    spark: SparkSession, root: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """Python receives U+FFFD from Spark for the byte FF, and an error for a day beyond the year 9999."""
    monkeypatch.setattr(key_lists, "MOST_LISTED", most)
    plain = spark.read.parquet(str(root))
    for keys, kept in (
        ("IF(id = 0, CAST(X'FF' AS STRING), 'plain') AS s", len(TEXTS) if most > 1 else 4),
        ("date_from_unix_date(INT(2000000 + id * 1000000)) AS d", 2),
    ):
        frame = spark.range(2).selectExpr(keys)
        before = pruner_spark.last_plans(spark)
        found = pruner_spark.read_with_keys(spark, root, frame).join(frame, frame.columns)
        wanted = unordered(rows_of(plain.join(frame, frame.columns).select("n")))
        assert unordered(rows_of(found.select("n"))) == wanted
        assert len(wanted) == 2
        assert new_scans(spark, before)[-1].kept == kept
