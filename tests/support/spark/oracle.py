"""Spark as the oracle: what it reads, and which slices it reads it from, with nothing of its own pruned away.

Hudi 1.2.0 lost rows with its own data skipping, so neither that nor its metadata table takes part here: the
listing is the folder's, and every row is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

UNPRUNED: Mapping[str, str] = {
    "hoodie.enable.data.skipping": "false",
    "hoodie.metadata.enable": "false",
}


@dataclass(frozen=True, slots=True, order=True)
class SparkSlice:
    """A file slice as Hudi's own file index lists it for a query."""

    partition_path: str
    file_id: str
    base_instant: str
    base_file: str | None
    log_files: tuple[str, ...]


def start_spark(scratch: Path) -> SparkSession:
    """Start the session that all tests of one process share, for half an hour and thousands of plans."""
    return hudi_session(scratch, memory="3g", s3a=True)


def spark_snapshot(
    spark: SparkSession,
    path: Path | str,
    *,
    as_of: str | None = None,
    read_optimized: bool = False,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the table's rows as Spark reads them, now or as of an instant."""
    kind = "read_optimized" if read_optimized else "snapshot"
    reader = spark.read.format("hudi").options(**UNPRUNED).option("hoodie.datasource.query.type", kind)
    if as_of is not None:
        reader = reader.option("as.of.instant", as_of)
    return reader.options(**(options or {})).load(str(path))


def spark_slices(
    spark: SparkSession, path: Path | str, *, as_of: str | None = None, read_optimized: bool = False
) -> list[SparkSlice]:
    """Return the slices that Spark's scan of the table starts from, sorted."""
    frame = spark_snapshot(spark, path, as_of=as_of, read_optimized=read_optimized)
    index = _file_index(frame)
    nothing = _jvm(spark).org.apache.spark.api.python.PythonUtils.toSeq([])
    partitions = index.prunePartitionsAndGetFileSlices(nothing, nothing)._2()
    slices: list[SparkSlice] = []
    for position in range(partitions.size()):
        listed = partitions.apply(position)._2()
        slices.extend(_slice(listed.apply(k)) for k in range(listed.size()))
    return sorted(slices)


def _file_index(frame: DataFrame) -> Any:
    """Return Hudi's file index inside a frame's analysed plan."""
    java_frame: Any = frame._jdf
    return java_frame.queryExecution().analyzed().collectLeaves().apply(0).relation().location()


def _slice(slice_: Any) -> SparkSlice:
    base = slice_.getBaseFile()
    logs = slice_.getLogFiles().iterator()
    names: list[str] = []
    while logs.hasNext():
        names.append(logs.next().getFileName())
    return SparkSlice(
        partition_path=slice_.getPartitionPath(),
        file_id=slice_.getFileId(),
        base_instant=slice_.getBaseInstantTime(),
        base_file=base.get().getFileName() if base.isPresent() else None,
        log_files=tuple(sorted(names)),
    )


def _jvm(spark: SparkSession) -> Any:
    return spark._jvm
