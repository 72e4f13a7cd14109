"""Scans of `pruner_spark` in several threads, in several sessions, and in a restarted session."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import pruner
import pruner_spark
from tests.engines.spark.spark_tables import (
    ids_of,
    indexed_numbers,
    new_scans,
)
from tests.support.running.patience import PATIENCE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    return indexed_numbers(tmp_path / "numbers")


def test_eight_queries_at_once(spark: SparkSession, numbers: Path) -> None:
    frame = pruner_spark.read(spark, numbers)
    before = pruner_spark.last_plans(spark)

    def ask(number: int) -> list[int]:
        return ids_of(frame, f"id >= {10 * number} AND id < {10 * number + 3}")

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(ask, list(range(8)) * 2))
    assert answers == [[10 * n, 10 * n + 1, 10 * n + 2] for n in list(range(8)) * 2]
    scans = new_scans(spark, before)
    assert [(scan.kept, scan.reason) for scan in scans] == [(1, None)] * 16


def test_a_glob_that_matches_all_files_names_their_folder(spark: SparkSession, numbers: Path) -> None:
    before = pruner_spark.last_plans(spark)
    assert ids_of(pruner_spark.read(spark, f"{numbers}/**/*.parquet"), "id = 5") == [5]
    assert [(scan.kept, scan.reason) for scan in new_scans(spark, before)] == [(1, None)]
    with pytest.raises(pruner.TableError, match="a table has all of them"):
        pruner_spark.read(spark, f"{numbers}/**/*0.parquet")


def test_sessions_have_plans_of_their_own(spark: SparkSession, numbers: Path) -> None:
    other = spark.newSession()
    before = pruner_spark.last_plans(spark)
    assert ids_of(pruner_spark.read(other, numbers), "id = 5") == [5]
    assert [scan.kept for scan in pruner_spark.last_plans(other)] == [1]
    assert new_scans(spark, before) == []


RESTARTED = """
import sys
from pathlib import Path
from py4j.java_gateway import JavaObject
from tools.spark import hudi_session
import pruner_spark

def ask(spark):
    frame = pruner_spark.read(spark, sys.argv[1])
    assert [row.id for row in frame.where("id = 5").collect()] == [5]
    assert pruner_spark.last_plans(spark)[-1].kept == 1, pruner_spark.last_plans(spark)[-1]
    return frame

spark = hudi_session(Path(sys.argv[2]))
gateway = spark.sparkContext._gateway
assert getattr(gateway, "_callback_server", None) is None
ask(spark)
server = gateway._callback_server
ask(spark)
assert gateway._callback_server is server, "a server that is there stays"
spark.stop()
spark = hudi_session(Path(sys.argv[2]))
assert pruner_spark.last_plans(spark) == []
frame = ask(spark)
assert spark.sparkContext._gateway._callback_server is server
java = JavaObject("GATEWAY_SERVER", gateway._gateway_client)
java.resetCallbackClient(java.getCallbackClient().getAddress(), 1)
assert [row.id for row in frame.where("id = 6").collect()] == [6], "nobody answers, and the query runs"
assert len(pruner_spark.last_plans(spark)) == 1
spark.stop()
print("done")
"""


def test_a_session_stopped_and_made_anew_and_the_callback_server(numbers: Path, tmp_path: Path) -> None:
    """In a separate process: stopping the session of all tests would end them."""
    command = [sys.executable, "-c", RESTARTED, str(numbers), str(tmp_path / "scratch")]
    root = Path(__file__).parents[4]
    environment = {**os.environ, "PYTHONPATH": str(root)}
    run = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=root, env=environment, timeout=PATIENCE
    )
    assert run.stdout.strip().endswith("done"), run.stdout[-2000:] + run.stderr[-4000:]
