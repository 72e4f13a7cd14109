"""Spark's conditions on rows, arrays, lists of patterns and regular expressions prune like their plain equivalents."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner_spark
from tests.engines.spark.spark_tables import indexed_numbers, rows_of, unordered

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MANY = ", ".join(f"({number}, 'f{number}')" for number in range(20, 32))
ALL = 8
ROW = "struct(id, file_name)"
SAME = "named_struct('id', {0}, 'file_name', 'f{0}')"
"""Spark compares rows whose fields have the same names; in a list it accepts any."""

CASES: dict[str, int] = {
    # File n of 8 holds ids 10n to 10n+9, and "f" before them as text: "f1" to "f9" are in the first file.
    f"{ROW} = {SAME.format(12)}": 1,
    f"{SAME.format(12)} = {ROW}": 1,
    f"{ROW} <=> {SAME.format(12)}": 1,
    f"{ROW} = named_struct('id', 12, 'file_name', 'f99')": 0,
    f"{ROW} = named_struct('id', 12, 'file_name', CAST(NULL AS STRING))": 0,
    f"NOT {ROW} = {SAME.format(12)}": ALL,
    "(id, file_name) IN ((12, 'f12'), (71, 'f71'), (5, 'f9'))": 3,
    f"(id, file_name) IN ({MANY})": 2,
    f"(id, file_name) NOT IN ({MANY})": ALL,
    "named_struct('a', id, 'b', 1) = named_struct('a', 12, 'b', 1)": 1,
    "array_contains(array(3, 14, 900), id)": 2,
    "array_contains(array(3, 14, NULL), id)": 2,
    "NOT array_contains(array(3, 14, NULL), id)": 0,
    "array_contains(array('f12', 'f13'), file_name)": 2,
    "file_name LIKE ANY ('f1_', 'f7%')": 3,
    "file_name LIKE ALL ('f7%', '%5', '_7_')": 2,
    "file_name NOT LIKE ANY ('f_', 'f7%')": ALL,
    "file_name NOT LIKE ALL ('f_', 'g%')": ALL,
    "file_name RLIKE '^f7'": 2,
    "regexp_like(file_name, '^f7[0-9]$')": 2,
    "NOT file_name RLIKE '^f7'": ALL,
    "file_name RLIKE 'f7'": ALL,
    "file_name RLIKE '^f7|8'": ALL,
    "file_name RLIKE '(?m)^f7'": ALL,
}


def test_they_prune_and_lose_no_row(spark: SparkSession, tmp_path: Path) -> None:
    root = indexed_numbers(tmp_path / "t")
    plain, pruned = spark.read.parquet(str(root)), pruner_spark.read(spark, root)
    problems: list[str] = []
    for where, kept in CASES.items():
        found, expected = (unordered(rows_of(frame.where(where))) for frame in (pruned, plain))
        if found != expected:
            problems.append(f"{where}: {len(found)} rows instead of {len(expected)}")
        scan = pruner_spark.last_plans(spark)[-1]
        if scan.kept != kept or scan.reason:
            problems.append(f"{where}: {scan.kept} kept instead of {kept}: {scan.explain()}")
    assert not problems, "\n".join(problems)
