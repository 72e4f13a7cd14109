"""Spark over many small files: what planning adds to a scan that keeps everything, and what three files save."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_spark
from benchmarks.lake import index_with, link_tree, made_up_bounds
from benchmarks.records import ROWS_PER_FILE
from benchmarks.timing import medians
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS_BY_FILES = {100: 7, 1_000: 5, 10_000: 2}
"""Reading 10,000 files takes Spark half a minute."""
KEPT = 3
AIMS = "aims: planning below 5 % of the query at 1,000 files; 40 times faster with 3 of 10,000 files"


def run(console: Console) -> None:
    """Measure and print."""
    grid = Grid(title="Spark over small files, medians of runs in turn")
    headings = ("files", "all kept, ms", "planning, ms", "% of query", "3 kept, ms", "unpruned, ms", "ratio")
    for heading in headings:
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        spark = hudi_session(Path(folder) / "spark")
        try:
            for count, runs in RUNS_BY_FILES.items():
                grid.add_row(*_measure(spark, Path(folder) / f"t{count}", count, runs))
        finally:
            spark.stop()
    console.print(grid)
    console.print(AIMS)


def _measure(spark: SparkSession, root: Path, count: int, runs: int) -> tuple[str, ...]:
    link_tree(root, count)
    index_with(pruner.open_table(root), made_up_bounds(count))
    plain, pruned = spark.read.parquet(str(root)), pruner_spark.read(spark, root)
    last = count * ROWS_PER_FILE
    every, few = "event >= 0", f"event >= {last - KEPT * ROWS_PER_FILE} AND event < {last}"
    planning: list[float] = []

    def all_kept() -> None:
        _count(pruned, every)
        scan = pruner_spark.last_plans(spark)[-1]
        assert scan.kept == count, scan
        planning.append(scan.seconds)

    def three_kept() -> None:
        _count(pruned, few)
        assert pruner_spark.last_plans(spark)[-1].kept == KEPT

    contenders = {"all": all_kept, "few": three_kept, "plain few": lambda: _count(plain, few)}
    times = medians(contenders, runs)
    added = statistics.median(planning[1:])
    return (
        f"{count:,}",
        f"{times['all'] * 1e3:.0f}",
        f"{added * 1e3:.1f}",
        f"{100 * added / times['all']:.1f}",
        f"{times['few'] * 1e3:.0f}",
        f"{times['plain few'] * 1e3:.0f}",
        f"{times['plain few'] / times['few']:.1f}",
    )


def _count(frame: DataFrame, where: str) -> int:
    return frame.where(where).count()
