"""Tables whose files other writers made, with the types that both Spark and Trino read, and an index of every type.

Each table has six files of 40 rows. Values are clustered by file, so that there is something to prune, and each
column has NULLs; `x` has NaN and both zeros.
"""

from __future__ import annotations

import datetime
import decimal
import os
import random
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

import pruner

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES, ROWS = 6, 40
TEXTS = ("", "a", "ab", "Ab", "abc", "a_c", "b", "b-1", "ba", "é", "zz", "zz9")
FIRST_DAY = datetime.date(2023, 1, 30)

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "n": pa.int32(),
        "s": pa.string(),
        "d": pa.date32(),
        "ts": pa.timestamp("us"),
        "x": pa.float64(),
        "m": pa.decimal128(9, 2),
        "b": pa.bool_(),
    }
)
HIVE = {
    "id": "bigint",
    "n": "int",
    "s": "string",
    "d": "date",
    "ts": "timestamp",
    "x": "double",
    "m": "decimal(9,2)",
    "b": "boolean",
}
"""The types declared to Trino."""

FASTPARQUET = "PRUNER_FASTPARQUET"
"""Environment variable with a folder that has fastparquet and pandas; without it there is no table of its files."""

_SITE_WRITER = """
import sys, fastparquet
import pyarrow.parquet as pq
frame = pq.read_table(sys.argv[1]).to_pandas()
kinds = {"n": "Int32", "b": "boolean", "ts": "datetime64[ns]"}
frame = frame.astype(kinds)
fastparquet.write(sys.argv[2], frame, times="int96", object_encoding={"s": "utf8"}, write_index=False)
"""


def rows(number: int) -> pa.Table:
    """Return the rows of one file."""
    rng = random.Random(100 + number)

    def some(value: Any) -> Any:
        return None if rng.random() < 0.08 else value

    columns: dict[str, list[Any]] = {name: [] for name in SCHEMA.names}
    for row in range(ROWS):
        place = number * ROWS + row
        # Each file has five days and two texts of its own; most neighboring files share a number.
        day = FIRST_DAY + datetime.timedelta(days=place // 8)
        moment = datetime.datetime.combine(day, datetime.time(row % 24, 59, 59, 999_000 + row))
        columns["id"].append(place)
        columns["n"].append(some(place // 12 - 4))
        columns["s"].append(some(TEXTS[(place // 20) % len(TEXTS)] + ("" if row % 3 else "x")))
        columns["d"].append(some(day))
        columns["ts"].append(some(moment))
        columns["x"].append(some(rng.choice((place / 4, place / 4, -0.0, 0.0, float("nan")))))
        columns["m"].append(some(decimal.Decimal(place * 5 - 300) / 100))
        columns["b"].append(some(number % 3 == 0))
    return pa.table(columns, schema=SCHEMA)


def write(folder: Path, spark: SparkSession) -> Mapping[str, tuple[str, ...]]:
    """Write the tables and index them; returns the columns of each by its name."""
    writers: dict[str, Callable[[pa.Table, Path], None]] = {
        "by_pyarrow": lambda table, path: pq.write_table(table, path, row_group_size=15),
        "by_duckdb": _by_duckdb,
        "by_spark": lambda table, path: _by_spark(spark, table, path),
        "by_polars": _by_polars,
    }
    if FASTPARQUET in os.environ:
        writers["by_fastparquet"] = _by_fastparquet
    columns: dict[str, tuple[str, ...]] = {}
    for name, writer in writers.items():
        root = folder / name
        root.mkdir(parents=True)
        missing = ("d", "m") if name == "by_fastparquet" else ()
        names = tuple(each for each in SCHEMA.names if each not in missing)
        for number in range(FILES):
            writer(rows(number).select(names), root / f"{number}.parquet")
        _age(root)
        _index(root, names)
        columns[name] = names
    return columns


def _by_duckdb(table: pa.Table, path: Path) -> None:
    with duckdb.connect() as connection:
        connection.register("given", table)
        connection.execute(f"COPY given TO '{path}' (FORMAT parquet)")


def _by_polars(table: pa.Table, path: Path) -> None:
    import polars

    polars.DataFrame(table).write_parquet(path)


def _by_fastparquet(table: pa.Table, path: Path) -> None:
    """Run it in its own process, with the folder's packages before those of this environment."""
    site = os.environ[FASTPARQUET]
    plain = path.with_suffix(".plain")
    pq.write_table(table, plain)
    environment = {**os.environ, "PYTHONPATH": site}
    command = [sys.executable, "-c", _SITE_WRITER, str(plain), str(path)]
    subprocess.run(command, check=True, env=environment)
    plain.unlink()


def _by_spark(spark: SparkSession, table: pa.Table, path: Path) -> None:
    """With INT96 timestamps, as Spark writes by default."""
    plain = path.with_suffix(".plain")
    pq.write_table(table, plain)
    scratch = path.with_suffix(".folder")
    frame = spark.read.parquet(str(plain)).withColumn("ts", _instants())
    frame.coalesce(1).write.parquet(str(scratch))
    next(scratch.glob("part-*.parquet")).rename(path)
    plain.unlink()
    for left in (*scratch.iterdir(), scratch):
        left.rmdir() if left.is_dir() else left.unlink()


def _instants() -> Any:
    from pyspark.sql import functions

    return functions.col("ts").cast("timestamp")


def _age(root: Path) -> None:
    """Date files back: the plugin always reads those that are seconds old."""
    for path in root.glob("*.parquet"):
        before = path.stat().st_mtime - 3600
        os.utime(path, (before, before))


def _index(root: Path, names: tuple[str, ...]) -> None:
    table = pruner.open_table(root)
    table.create_index("ranges", on="*")
    filtered = [name for name in ("id", "n", "s", "d", "m") if name in names]
    table.create_index("filters", on=filtered, using="bloom_filter")
    table.create_index("values", on=["n", "s", "b"], using="bitmap", force=True)
    table.create_index("keys", on="id", using="record_index")
