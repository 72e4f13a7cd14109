"""`connect_read` over a real server of Spark Connect: run by `make check-matrix`, in the environment of Spark 4."""

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


def test_a_client_of_spark_connect_reads_the_files_that_are_left(tmp_path: Path) -> None:
    root = write_numbers(tmp_path / "numbers")
    pruner.open_table(root).create_index("stats", on="*")
    environment = {
        **os.environ,
        "JAVA_HOME": str(spark_java().home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    run = subprocess.run(
        [sys.executable, "-c", CLIENT, str(root)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
        timeout=300,
    )
    assert run.stdout.strip().endswith("done"), run.stdout[-2000:] + run.stderr[-4000:]
