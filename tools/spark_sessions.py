"""Starts Spark with Delta and Iceberg beside Hudi: one Java machine, and sessions with the extensions of one of them.

They share the context and its executors, and none has rules of another in its plans. Delta and Hudi both want to be the
session catalog.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.jars import delta_jars, hudi_bundle, iceberg_jar, s3a_jars
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALL_SESSIONS = {"spark.databricks.delta.snapshotPartitions": "1"}
"""Delta reads logs on threads that go by the settings of the context: no 50 tasks for each."""

SETTINGS = {
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "1",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
}
"""Delta's catalog, no more tasks than tiny tables need, and dates before 1582 as they are."""

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""To write or read a few rows takes less than to generate and compile code for it, and comes to the same."""

STORES = ("s3a.", "azure.", "adl.", "wasb", "abfs", "ftp", "viewfs", "har", "trash")
"""Beginnings of settings of file systems, behind `fs.`, whose defaults their code has as well."""


def session_with_jars(
    scratch: Path, *, memory: str = "2g", s3a: bool = False, settings: Mapping[str, str] | None = None
) -> SparkSession:
    """Start Spark with Hudi as `hudi_session` does, with Delta's classes on its path; see `delta_session`."""
    extra = {**ALL_SESSIONS, **(settings or {})}
    if version("pyspark").startswith("3.5."):
        jars = [hudi_bundle(), *(s3a_jars() if s3a else ()), *delta_jars(), iceberg_jar()]
        extra["spark.jars"] = ",".join(map(str, jars))
    return hudi_session(scratch, memory=memory, s3a=s3a, extra=extra)


def small_session(scratch: Path, *, s3a: bool = False) -> SparkSession:
    """Start Spark as `session_with_jars` does, for thousands of statements over tables of a few rows."""
    session = session_with_jars(scratch, memory="3g", s3a=s3a, settings=INTERPRETED)
    _forget_defaults(session)
    return session


def _forget_defaults(session: SparkSession) -> None:
    """Leave Hadoop's defaults out of the configuration that the context hands on, but for those of file systems.

    Hudi and Delta write all of it into each task, and Hadoop compresses each entry by itself. The 970 entries, most of
    them about YARN and MapReduce, were a seventh of what a commit of Hudi costs. Who asks has the same defaults.
    """
    context: Any = session.sparkContext
    jvm, settings = context._jvm, context._jsc.hadoopConfiguration()
    for adds_defaults in ("mapred.JobConf", "yarn.conf.YarnConfiguration", "hdfs.HdfsConfiguration"):
        # A class that brings defaults when it is loaded brings all of them back.
        jvm.java.lang.Class.forName(f"org.apache.hadoop.{adds_defaults}")
    shipped = jvm.org.apache.hadoop.conf.Configuration(False)
    for kind in ("core", "mapred", "yarn", "hdfs"):
        shipped.addResource(f"{kind}-default.xml")
    own, defaults = settings.getPropsWithPrefix(""), shipped.getPropsWithPrefix("")
    own.entrySet().removeAll(defaults.entrySet())
    of_files = {
        f"fs.{name}": value
        for name, value in settings.getPropsWithPrefix("fs.").items()
        if name.endswith(".impl") or not name.startswith(STORES)
    }
    settings.clear()
    for name, value in {**of_files, **own}.items():
        settings.set(name, value)


def delta_session(spark: SparkSession) -> SparkSession:
    """Return a new session with Delta's extensions and catalog, and none of Hudi's, in the same Java machine."""
    jvm: Any = spark.sparkContext._jvm
    return _session(spark, jvm.io.delta.sql.DeltaSparkSessionExtension(), SETTINGS)


def iceberg_session(spark: SparkSession, warehouse: Path) -> SparkSession:
    """Return a new session with Iceberg's extensions, and a catalog `ice` that keeps its tables in a folder."""
    jvm: Any = spark.sparkContext._jvm
    catalog = {
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
        "spark.sql.catalog.ice.cache-enabled": "false",
        "spark.sql.shuffle.partitions": "1",
    }
    extensions = jvm.org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions()
    return _session(spark, extensions, catalog)


def _session(spark: SparkSession, own: Any, settings: Mapping[str, str]) -> SparkSession:
    """A new session of the same context with the extensions of one format alone."""
    from pyspark.sql import SparkSession

    context: Any = spark.sparkContext
    jvm = context._jvm
    extensions = jvm.org.apache.spark.sql.SparkSessionExtensions()
    own.apply(extensions)
    java: Any = spark._jsparkSession
    option = jvm.scala.Option
    none = jvm.scala.Predef.Map().empty()
    made = jvm.org.apache.spark.sql.SparkSession(
        context._jsc.sc(), option.apply(java.sharedState()), option.empty(), extensions, none
    )
    session = SparkSession(context, made)
    for key, value in settings.items():
        session.conf.set(key, value)
    return session
