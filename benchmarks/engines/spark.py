"""Spark over many small files: the planning overhead of a scan that keeps everything, the gain of one that keeps
three files, and the time of a query for an absent partition.
"""

from __future__ import annotations

import statistics
import tempfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table as Grid

import pruner
import pruner_spark
from benchmarks.lakes.lake import index_with, link_tree, made_up_bounds
from benchmarks.lakes.records import ROWS_PER_FILE
from benchmarks.timing import medians
from tools.java import AS_SERVERS
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RUNS_BY_FILES = {100: 7, 1_000: 5, 10_000: 2}
"""Reading 10,000 files takes Spark half a minute."""
KEPT = 3
PARTITIONS = 400
RUNS_WARM, WARMUPS = 15, 45
"""Java compiles what it runs often: after some forty runs, a query takes a third of its first time."""
AIMS = "aims: planning below 5 % of the query at 1,000 files; 40 times faster with 3 of 10,000 files"


def run(console: Console) -> None:
    """Measure and print."""
    grid = Grid(title="Spark over small files, medians of runs in turn")
    headings = ("files", "all kept, ms", "planning, ms", "% of query", "3 kept, ms", "unpruned, ms", "ratio")
    for heading in headings:
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as folder:
        spark = hudi_session(Path(folder) / "spark", java_options=AS_SERVERS)
        try:
            for files, runs in RUNS_BY_FILES.items():
                grid.add_row(*_measure(spark, Path(folder) / f"t{files}", files, runs))
            missing = {
                form: _missing_partition(spark, Path(folder) / form, form) for form in ("parquet", "hudi")
            }
        finally:
            spark.stop()
    console.print(grid)
    for form, (plain, pruned, planning) in missing.items():
        console.print(
            f"{form}, a partition that is not there among {PARTITIONS}: plain {plain * 1e3:.1f} ms, pruned "
            f"{pruned * 1e3:.1f} ms ({pruned / plain:.2f}), planning {planning * 1e3:.1f} ms of it"
        )
    console.print(AIMS)


def _measure(spark: SparkSession, root: Path, files: int, runs: int) -> tuple[str, ...]:
    link_tree(root, files)
    index_with(pruner.open_table(root), made_up_bounds(files))
    plain, pruned = spark.read.parquet(str(root)), pruner_spark.read(spark, root)
    last = files * ROWS_PER_FILE
    every, few = "event >= 0", f"event >= {last - KEPT * ROWS_PER_FILE} AND event < {last}"
    planning: list[float] = []

    def all_kept() -> None:
        _count(pruned, every)
        scan = pruner_spark.last_plans(spark)[-1]
        assert scan.kept == files, scan
        planning.append(scan.seconds)

    def three_kept() -> None:
        _count(pruned, few)
        assert pruner_spark.last_plans(spark)[-1].kept == KEPT

    contenders = {"all": all_kept, "few": three_kept, "plain few": lambda: _count(plain, few)}
    times = medians(contenders, runs)
    added = statistics.median(planning[1:])
    return (
        f"{files:,}",
        f"{times['all'] * 1e3:.0f}",
        f"{added * 1e3:.1f}",
        f"{100 * added / times['all']:.1f}",
        f"{times['few'] * 1e3:.0f}",
        f"{times['plain few'] * 1e3:.0f}",
        f"{times['plain few'] / times['few']:.1f}",
    )


def _missing_partition(spark: SparkSession, root: Path, form: str) -> tuple[float, float, float]:
    """Medians of a query for an absent partition: plain, pruned, and its planning."""
    rows = spark.range(2 * PARTITIONS).selectExpr("id", "1L AS ts", f"concat('c', id % {PARTITIONS}) AS city")
    options = {
        "hoodie.table.name": "missing",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "city",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.metadata.enable": "false",
        "hoodie.insert.shuffle.parallelism": "1",
    }
    writer = rows.coalesce(1).write.format(form)
    (writer.options(**options) if form == "hudi" else writer.partitionBy("city")).save(str(root))
    pruner.open_table(root).create_index("ids", on="id")
    plain, pruned = spark.read.format(form).load(str(root)), pruner_spark.read(spark, root)
    numbers = {"plain": count(), "pruned": count()}

    def ask(name: str, frame: DataFrame) -> None:
        assert not frame.where(f"city = 'nowhere {next(numbers[name])}'").collect()

    contenders = {"plain": lambda: ask("plain", plain), "pruned": lambda: ask("pruned", pruned)}
    times = medians(contenders, RUNS_WARM, warmups=WARMUPS)
    planning = [scan.seconds for scan in pruner_spark.last_plans(spark)[-RUNS_WARM:]]
    return times["plain"], times["pruned"], statistics.median(planning)


def _count(frame: DataFrame, where: str) -> int:
    return frame.where(where).count()
