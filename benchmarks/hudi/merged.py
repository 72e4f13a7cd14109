"""Merged reads in DuckDB against hudi-rs alone, over a merge-on-read table whose every slice has log files.

The table is written by Spark once per machine and kept in the cache folder.
"""

from __future__ import annotations

import tempfile
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import duckdb
import hudi
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

import pruner_duckdb
from benchmarks.timing import medians
from tests.support.hudi import writer as hudi_writer
from tests.support.hudi.writer import HudiWriter
from tools.cache import appearing, cache_dir, fingerprint
from tools.jars import HUDI_BUNDLE

GROUPS = 8
ROWS_PER_GROUP = 100_000
UPDATED = 10
"""One row in so many was updated by a log file."""
RUNS = 5

STATEMENTS = {
    "every column": ("SELECT * FROM {}", None),
    "one column": ("SELECT sum(fare) FROM {}", ["fare"]),
    "one column, one row in a thousand": ("SELECT sum(seats) FROM {} WHERE id % 1000 = 7", ["id", "seats"]),
}


def run(console: Console) -> None:
    """Measure each statement."""
    root = str(_table())
    con = pruner_duckdb.connect({"t": root})
    grid = Grid(
        title=f"{GROUPS} slices of {ROWS_PER_GROUP:,} rows, one in {UPDATED} updated by logs; medians in ms"
    )
    for heading in ("statement", "adapter", "hudi-rs alone", "ratio"):
        grid.add_column(heading, justify="right")
    for name, (statement, columns) in STATEMENTS.items():
        times = medians(
            {
                "adapter": partial(_by_adapter, con, statement),
                "hudi-rs": partial(_by_hudi_rs, root, statement, columns),
            },
            RUNS,
        )
        ratio = f"{times['adapter'] / times['hudi-rs']:.2f}"
        grid.add_row(name, f"{times['adapter'] * 1e3:.0f}", f"{times['hudi-rs'] * 1e3:.0f}", ratio)
    console.print(grid)


def _by_adapter(con: pruner_duckdb.Connection, statement: str) -> pa.Table:
    return con.sql(statement.format("t")).to_arrow_table()


def _by_hudi_rs(root: str, statement: str, columns: list[str] | None) -> Any:
    """What users do without the adapter: hudi-rs reads the table into Arrow, DuckDB queries that."""
    options = hudi.HudiReadOptions(projection=columns)
    rows = pa.Table.from_batches(hudi.HudiTable(root, {}).read(options))
    con = duckdb.connect()
    con.register("rows", rows)
    return con.execute(statement.format("rows")).to_arrow_table()


def _table() -> Path:
    key = fingerprint(Path(__file__), Path(hudi_writer.__file__), HUDI_BUNDLE.sha256, version("pyspark"))
    target = cache_dir() / f"bench-merged-{key}"
    if not target.is_dir():
        with appearing(target) as scratch, tempfile.TemporaryDirectory() as folder:
            _write(scratch, Path(folder))
    return target / "trips"


def _write(folder: Path, scratch: Path) -> None:
    from tools.spark import hudi_session

    spark = hudi_session(scratch)
    try:
        table = HudiWriter(spark, folder / "trips", 9, "MERGE_ON_READ")
        rows = spark.range(GROUPS * ROWS_PER_GROUP).selectExpr(
            "cast(id AS int) AS id",
            f"concat('city', id % {GROUPS}) AS city",
            "cast(id % 7 AS int) AS seats",
            "id * 0.25D AS fare",
            "1L AS ts",
        )
        table.bulk_insert(rows.coalesce(1))
        table.upsert(
            rows.where(f"(id div {GROUPS}) % {UPDATED} = 0").selectExpr(
                "id", "city", "seats", "fare + 1 AS fare", "2L AS ts"
            )
        )
    finally:
        spark.stop()
