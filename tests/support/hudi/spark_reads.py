"""What Spark reads of the kept Hudi tables, asked once per machine and kept beside each table.

The kept tables never change, and the folder that they lie in is named by the versions of Spark and Hudi: Spark's answer
about one of them is as lasting as the table. Several tests compare with the same answer, and Spark needs about a second
for each. Tables that a test writes to are asked about with `tests.support.spark.oracle`.
"""

from __future__ import annotations

import os
import pickle
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.running import profiles
from tests.support.spark import oracle
from tests.support.spark.oracle import UNPRUNED, SparkSlice, spark_slices, spark_snapshot
from tools.cache import fingerprint

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Read:
    """The rows of one read, and the Spark type of each column."""

    types: dict[str, str]
    rows: list[Row]


@dataclass(frozen=True)
class SparkReads:
    """Spark's reads of kept tables; Spark starts only for those that are not kept yet."""

    start_spark: Callable[[], SparkSession]

    def read(self, path: Path, *select: str, as_of: str | None = None, read_optimized: bool = False) -> Read:
        """Return what Spark reads of a kept table: all columns, or the expressions given."""

        def ask() -> Read:
            frame = spark_snapshot(self.start_spark(), path, as_of=as_of, read_optimized=read_optimized)
            chosen = frame.selectExpr(*select) if select else frame
            return Read(dict(chosen.dtypes), chosen.collect())

        if select and not profiles.IS_FIXED:
            return ask()  # nobody asks again what a new seed asks
        return _kept(path, ("read", as_of, read_optimized, select), ask)

    def slices(self, path: Path, *, as_of: str | None = None) -> list[SparkSlice]:
        """Return the slices of a kept table that Spark's scan starts from, sorted."""
        return _kept(path, ("slices", as_of), lambda: spark_slices(self.start_spark(), path, as_of=as_of))


def _kept(path: Path, question: Sequence[Any], ask: Callable[[], Answer]) -> Answer:
    assert path.parent.name == path.name, f"{path} is no kept table, so that its rows may change"
    # Python shows a timestamp in the zone of the process.
    key = fingerprint(repr((question, time.tzname, sorted(UNPRUNED.items()))), Path(oracle.__file__))
    file = path.parent / "spark-reads" / key
    if file.is_file():
        return pickle.loads(file.read_bytes())
    answer = ask()
    file.parent.mkdir(exist_ok=True)
    descriptor, scratch = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "wb") as writer:
        pickle.dump(answer, writer)
    Path(scratch).replace(file)
    return answer
