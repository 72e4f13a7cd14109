"""`connect_read` over a real Spark Connect server: run by `make check-matrix`, in the environment of Spark 4."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import pruner
from tests.engines.spark.spark_tables import write_numbers
from tools.java import spark_java

pytestmark = pytest.mark.spark

CLIENT = """
import sys
from pyspark.sql import SparkSession
import pruner_spark
from pruner.errors import PrunerError

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert ".connect." in type(spark).__module__
whole = spark.read.parquet(sys.argv[1])
for where, files in (("id = 42", 1), ("id IN (5, 42, 77)", 3), ("id < 0", 0), ("upper(file_name) = 'F7'", 8)):
    frame = pruner_spark.connect_read(spark, sys.argv[1], where)
    assert sorted(frame.collect()) == sorted(whole.where(where).collect()), where
    assert frame.schema == whole.schema
    assert len(frame.inputFiles()) == files, where
try:
    pruner_spark.read(spark, sys.argv[1])
except PrunerError as error:
    assert "connect_read" in str(error)
    print("done")
spark.stop()
"""

BUILDER = """
import sys
from pyspark.sql import SparkSession
import pruner

spark = SparkSession.builder.remote("local[2]").getOrCreate()
assert ".connect." in type(spark).__module__
made = pruner.open_table(sys.argv[1]).create_index("stats", on="*", run=spark)
print(made.indexed, made.failures)
spark.stop()
"""


def test_a_client_of_spark_connect_reads_the_files_that_are_left(tmp_path: Path) -> None:
    root = write_numbers(tmp_path / "numbers")
    pruner.open_table(root).create_index("stats", on="*")
    assert _run(CLIENT, root).strip().endswith("done")


def test_executors_of_a_spark_connect_server_build_an_index(tmp_path: Path) -> None:
    root = write_numbers(tmp_path / "numbers")
    table = pruner.open_table(root)
    files = len(table.plan("true").files)
    assert _run(BUILDER, root).strip().endswith(f"{files} ()")
    assert 0 < table.plan("id = 42").kept < files


def _run(program: str, root: Path) -> str:
    environment = {
        **os.environ,
        "JAVA_HOME": str(spark_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    run = subprocess.run(
        [sys.executable, "-c", program, str(root)],
        capture_output=True,
        text=True,
        check=False,
        cwd=root.parent,
        env=environment,
        timeout=300,
    )
    assert not run.returncode, run.stdout[-2000:] + run.stderr[-4000:]
    return run.stdout
