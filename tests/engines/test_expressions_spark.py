"""The functions that indexes may be over, against Spark: on their domains it makes what the kernel records."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from pruner.expr.derived.rows import FUNCTIONS
from tests.support.catalyst import settings
from tests.support.expression_forms import FORMS, comparable, evaluated, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


EPOCH = datetime.datetime(1970, 1, 1)
SESSIONS = (
    {"spark.sql.ansi.enabled": "true"},
    {"spark.sql.ansi.enabled": "false"},
    {"spark.sql.ansi.enabled": "false", "spark.sql.legacy.timeParserPolicy": "LEGACY"},
)


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: " ".join(session.values()))
def test_spark_makes_what_is_recorded(spark: SparkSession, tmp_path: Path, session: dict[str, str]) -> None:
    table = rows("UTC")
    pq.write_table(table, tmp_path / "values.parquet")
    forms = {form.spark: form for form in FORMS if form.spark is not None}
    with settings(spark, {"spark.sql.session.timeZone": "UTC", **session}):
        frame = spark.read.parquet(str(tmp_path / "values.parquet"))
        # Moments as numbers: Python's client gives them in the clock of its own process.
        shown = [f"unix_micros({form})" if form.startswith("date_trunc") else form for form in forms]
        found = frame.selectExpr("k", *(f"{each} AS v{at}" for at, each in enumerate(shown))).collect()
    found.sort(key=lambda row: row["k"])
    differing: dict[str, Any] = {}
    for at, (text, form) in enumerate(forms.items()):
        expected = [comparable(value) for value in evaluated(form, "spark", table)]
        made = [comparable(_moment(row[f"v{at}"], text)) for row in found[: len(expected)]]
        if made != expected:
            differing[text] = [pair for pair in zip(made, expected, strict=True) if pair[0] != pair[1]]
    assert not differing


def _moment(value: Any, form: str) -> Any:
    if value is None or not form.startswith("date_trunc"):
        return value
    return EPOCH + datetime.timedelta(microseconds=value)


def test_every_row_for_spark_is_proved_here() -> None:
    proved = {form.row for form in FORMS if form.spark is not None}
    assert {row.name for found in FUNCTIONS.values() for row in found if "spark" in row.compared} <= proved
