"""A Spark session of our own, for `pruner refresh --spark MASTER`."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pruner.errors import PrunerError
from pruner.extras import SPARK_EXTRA, installing
from pruner.pipeline.spark_probe import reason_of

if TYPE_CHECKING:
    from collections.abc import Generator

    from pyspark.sql import SparkSession


@contextmanager
def spark_session(master: str) -> Generator[SparkSession]:
    """Start a session at a master, otherwise as `spark-defaults.conf` says, and stop it at the end.

    Raises:
        PrunerError: pyspark is not installed, or the session cannot be started.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise PrunerError(f"pyspark is not installed: {installing(SPARK_EXTRA)}") from None
    # Executors on this machine must not take the system's Python, which lacks this package.
    if master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.Builder().master(master).appName("pruner refresh")
    try:
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    # The gateway may raise anything: no Java, no such master, no memory.
    except Exception as error:
        raise PrunerError(f"Spark cannot be started at {master!r}: {reason_of(error)}") from error
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()
