"""The functions that indexes may be over, against Spark: on their domains it makes what the kernel records."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from pruner.expr.derived.rows import FUNCTIONS
from tests.support.expression_forms import FORMS, comparable, evaluated, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_spark_makes_what_is_recorded(spark: SparkSession, tmp_path: Path, ansi: str) -> None:
    table = rows("UTC")
    pq.write_table(table, tmp_path / "values.parquet")
    forms = [form.spark for form in FORMS if form.spark is not None]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        frame = spark.read.parquet(str(tmp_path / "values.parquet"))
        shown = [
            f"date_format({form}, 'yyyy-MM-dd\\'T\\'HH:mm:ss.SSSSSS')"
            if form.startswith("date_trunc")
            else form
            for form in forms
        ]
        found = frame.selectExpr("k", *(f"{each} AS v{at}" for at, each in enumerate(shown))).collect()
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "false")
    found.sort(key=lambda row: row["k"])
    for at, form in enumerate(forms):
        expected = [comparable(value) for value in evaluated(form, "spark", table)]
        assert [comparable(row[f"v{at}"]) for row in found] == expected, form


def test_every_row_for_spark_is_proved_here() -> None:
    proved = {form.row for form in FORMS if form.spark is not None}
    assert {row.name for found in FUNCTIONS.values() for row in found if "spark" in row.compared} <= proved
