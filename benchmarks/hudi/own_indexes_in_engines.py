"""A Hudi table with Hudi's own indexes: DuckDB through pruner, hudi-rs, and Spark with Hudi's own skipping.

pruner has built nothing. BENCH_ROWS is the number of rows (default 2,000,000), in GROUPS file groups.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import pruner_duckdb
import pruner_spark
from benchmarks.timing import medians
from tools.java import AS_SERVERS
from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS = 40
RUNS, WARMUPS = 11, 3
_HUDI = {
    "hoodie.table.name": "t",
    "hoodie.write.table.version": "9",
    "hoodie.datasource.write.operation": "bulk_insert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.bulkinsert.shuffle.parallelism": str(GROUPS),
    "hoodie.bulkinsert.sort.mode": "NONE",
    "hoodie.embed.timeline.server": "false",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
}


def run(console: Console) -> None:
    """Measure a range of a column by which the files are sorted, and one record key; each run uses another one."""
    rows = int(os.environ.get("BENCH_ROWS", "2000000"))
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "hudi"
        spark = hudi_session(Path(scratch) / "spark", java_options=AS_SERVERS)
        try:
            _write(spark, path, rows)
            grid = Grid(title=f"{rows:,} rows in {GROUPS} file groups; medians of {RUNS} runs in turn, ms")
            for heading in ("way", "range of 100 values", "one record key"):
                grid.add_column(heading, justify="left" if heading == "way" else "right")
            times = [_measured(spark, path, rows, of_key=of_key) for of_key in (False, True)]
            for way in times[0]:
                grid.add_row(way, *(f"{1e3 * each[way]:.0f}" for each in times))
            console.print(grid)
        finally:
            spark.stop()


def _write(spark: SparkSession, path: Path, rows: int) -> None:
    """Files are sorted by `seq`; keys are scattered."""
    found = spark.range(rows, numPartitions=GROUPS).selectExpr(
        f"cast(id * 7919 % {rows} AS STRING) AS id", "id AS seq", "id * 2.0D AS x"
    )
    found.write.format("hudi").options(**_HUDI).mode("overwrite").save(str(path))


def _measured(spark: SparkSession, path: Path, rows: int, *, of_key: bool) -> dict[str, float]:
    expected = 1 if of_key else 100
    width = rows // 97

    def questions() -> Iterator[int]:
        return (number * width % (rows - 100) for number in count(1))

    def where(value: int) -> str:
        return f"id = '{value}'" if of_key else f"seq BETWEEN {value} AND {value + 99}"

    def asker(ask: Callable[[int], int]) -> Callable[[], None]:
        values = questions()

        def once() -> None:
            assert ask(next(values)) == expected

        return once

    def duckdb_anew(value: int) -> int:
        with closing(pruner_duckdb.connect({"t": str(path)})) as con:
            return len(con.execute(f"SELECT x FROM t WHERE {where(value)}").fetchall())

    def by_hudi_rs(value: int) -> int:
        return _by_hudi_rs(path, value, of_key=of_key)

    def of_frame(frame: DataFrame) -> Callable[[int], int]:
        return lambda value: len(frame.where(where(value)).select("x").collect())

    with closing(pruner_duckdb.connect({"t": str(path)})) as con:
        return medians(
            {
                "DuckDB through pruner": asker(
                    lambda value: len(con.execute(f"SELECT x FROM t WHERE {where(value)}").fetchall())
                ),
                "DuckDB through pruner, opened anew": asker(duckdb_anew),
                "hudi-rs to Arrow, then DuckDB": asker(by_hudi_rs),
                "Spark, Hudi's own skipping": asker(of_frame(_frame(spark, path, skipping=True))),
                "Spark through pruner": asker(of_frame(pruner_spark.read(spark, path))),
                "Spark, no skipping": asker(of_frame(_frame(spark, path, skipping=False))),
            },
            RUNS,
            warmups=WARMUPS,
        )


def _by_hudi_rs(path: Path, value: int, *, of_key: bool) -> int:
    """hudi-rs takes conditions and skips files by their footers; DuckDB filters the rows."""
    from hudi import HudiReadOptions, HudiTable

    filters = (
        [("id", "=", str(value))] if of_key else [("seq", ">=", str(value)), ("seq", "<=", str(value + 99))]
    )
    options = HudiReadOptions(filters=filters, projection=["id", "seq", "x"])
    batches = HudiTable(str(path)).read(options)
    read = pa.Table.from_batches(batches) if batches else None
    if read is None:
        return 0
    where = f"id = '{value}'" if of_key else f"seq BETWEEN {value} AND {value + 99}"
    return len(duckdb.from_arrow(read).filter(where).fetchall())


def _frame(spark: SparkSession, path: Path, *, skipping: bool) -> DataFrame:
    options = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": str(skipping).lower()}
    return spark.read.format("hudi").options(**options).load(str(path))
