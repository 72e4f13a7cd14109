"""Starts Spark with Delta beside Hudi: one Java machine, and sessions with the extensions of one of them each.

Both want to be the session catalog, so each gets a session of its own: they share the context and its executors, and
neither has rules of the other in its plans.
"""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.jars import delta_jars, hudi_bundle, s3a_jars
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL_SESSIONS = {"spark.databricks.delta.snapshotPartitions": "1"}
"""Delta reads logs on threads that go by the settings of the context: no 50 tasks for each."""

SETTINGS = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
"""Delta's catalog, no more tasks than tiny tables need, and dates before 1582 as they are."""


def session_with_jars(scratch: Path, *, memory: str = "2g", s3a: bool = False) -> SparkSession:
    """Start Spark with Hudi as `hudi_session` does, with Delta's classes on its path; see `delta_session`."""
    extra = dict(ALL_SESSIONS)
    if version("pyspark").startswith("3.5."):
        jars = [hudi_bundle(), *(s3a_jars() if s3a else ()), *delta_jars()]
        extra["spark.jars"] = ",".join(map(str, jars))
    return hudi_session(scratch, memory=memory, s3a=s3a, extra=extra)


def delta_session(spark: SparkSession) -> SparkSession:
    """Return a new session with Delta's extensions and catalog, and none of Hudi's, in the same Java machine."""
    from pyspark.sql import SparkSession

    context = spark.sparkContext
    jvm: Any = context._jvm
    extensions = jvm.org.apache.spark.sql.SparkSessionExtensions()
    jvm.io.delta.sql.DeltaSparkSessionExtension().apply(extensions)
    java: Any = spark._jsparkSession
    option = jvm.scala.Option
    none = jvm.scala.Predef.Map().empty()
    made = jvm.org.apache.spark.sql.SparkSession(
        context._jsc.sc(), option.apply(java.sharedState()), option.empty(), extensions, none
    )
    session = SparkSession(context, made)
    for key, value in SETTINGS.items():
        session.conf.set(key, value)
    return session
