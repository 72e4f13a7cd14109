"""The three tables that `tests/spec/statements.txt` reads: the same rows for every engine and format.

    flights    12 files in 3 partitions (`region` of file n is de, fr, us by n % 3), 50 rows each. Of file n:
               id          100n, 100n+2 … 100n+98 (even numbers)
               carrier     the two codes of file n % 4 of carriers, in turn
               origin      every airport in turn
               dest        airport number n, the same in the whole file
               day, ts     2024-01-01 plus n days; ts is every 20 minutes of it, from midnight to 16:20, UTC
               delay       10n to 10n+6; every fifth is NULL; files 3, 7, 11 hold nothing but NULL
               price       1.25 × id, as DECIMAL(10, 2)
               distance    10,000,000,000 + id
               cancelled   every other row of file 2; NULL in file 5; false elsewhere
               note        NULL except in file 7: '100% full', 'a_b', 'it''s', ''
               version     1; 2 where the Hudi tables were updated
    carriers   4 files, 2 rows each, in the order of their codes
    airports   3 files, 4 rows each, in the order of their codes; altitude is 100 × its number

`write_parquet` makes a tree of Parquet files. `statement_tables(start_spark)` keeps the Hudi tables, a folder
`cow_v6`, `cow_v8`, … `mor_v9` each, with what Spark's snapshot read says in `expected/<table>/*.parquet`. Every
file is a file group. The Hudi tables were written, updated and partly deleted to come to these rows; what
changed lay within the same file's range of values, so that slices with logs can be pruned just as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import partial, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.writer import HudiWriter, TableType, TableVersion
from tests.support.kept.tables import KeptTables
from tests.support.spark.oracle import spark_snapshot

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Row = tuple[Any, ...]
Files = list[list[Row]]

ROWS_PER_FILE = 50
REGIONS = ("de", "fr", "us")
TABLES = ("flights", "carriers", "airports")
UPDATED_FILES = (1, 5, 9)
"""Files of flights some of whose rows the Hudi tables got by an update."""
DELETED_FROM = (2, 5)
"""Files of flights in which the Hudi tables once had one more row."""

_CARRIERS = (
    ("AA", "American", "US", 950, date(1926, 4, 15), "oneworld"),
    ("AF", "Air France", "FR", 220, date(1933, 10, 7), "SkyTeam"),
    ("BA", "British Airways", "GB", 250, date(1974, 3, 31), "oneworld"),
    ("DL", "Delta", "US", 980, date(1925, 3, 2), "SkyTeam"),
    ("EK", "Emirates", "AE", 260, date(1985, 3, 25), None),
    ("LH", "Lufthansa", "DE", 280, date(1953, 1, 6), "Star Alliance"),
    ("QF", "Qantas", "AU", 130, date(1920, 11, 16), "oneworld"),
    ("UA", "United", "US", 970, date(1926, 4, 6), "Star Alliance"),
)
_AIRPORTS = (
    ("AMS", "Amsterdam", "NL"),
    ("ATL", "Atlanta", "US"),
    ("BER", "Berlin", "DE"),
    ("CDG", "Paris", "FR"),
    ("DXB", "Dubai", "AE"),
    ("FRA", "Frankfurt", "DE"),
    ("JFK", "New York", "US"),
    ("LHR", "London", "GB"),
    ("MUC", "München", "DE"),
    ("ORD", "Chicago", "US"),
    ("SIN", "Singapore", "SG"),
    ("SYD", "Sydney", "AU"),
)
_TABLE_TYPES: dict[str, TableType] = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}
_TABLE_VERSIONS: tuple[TableVersion, ...] = (6, 8, 9)
_NOTES = ("100% full", "a_b", "it's", "")


@dataclass(frozen=True)
class TableDefinition:
    """Schema, key and rows of one table; the partition column is the last one."""

    schema: pa.Schema
    key: str
    ordering: str
    partition_by: str
    files: Callable[[bool], Files]
    """Rows of each file: as they are, or (True) as they were before the updates and deletes."""


def _flights(before: bool) -> Files:
    return [_flights_of(number, before) for number in range(12)]


def _flights_of(number: int, before: bool) -> list[Row]:
    rows = [_flight(number, i, 100 * number + 2 * i, before) for i in range(ROWS_PER_FILE)]
    if before and number in DELETED_FROM:
        rows.append(_flight(number, 25, 100 * number + 51, before))
    return rows


def _flight(number: int, i: int, key: int, before: bool) -> Row:
    midnight = datetime(2024, 1, 1, tzinfo=UTC) + timedelta(days=number)
    updated = number in UPDATED_FILES and i in (10, 11, 12)
    # An update exchanges values that the file has anyway.
    shift = 3 if updated and before else 0
    delayed = number % 4 < 3 and (i + shift) % 5 > 0
    return (
        key,
        _CARRIERS[2 * (number % 4) + (i + shift) % 2][0],
        _AIRPORTS[(i + shift) % 12][0],
        _AIRPORTS[number][0],
        midnight.date(),
        midnight + timedelta(minutes=20 * i),
        float(10 * number + i % 7) if delayed else None,
        Decimal(125 * key).scaleb(-2),
        10_000_000_000 + key,
        None if number == 5 else number == 2 and i % 2 == 0,
        _NOTES[i % 4] if number == 7 else None,
        2 if updated and not before else 1,
        REGIONS[number % 3],
    )


def _carriers(before: bool) -> Files:
    rows: list[tuple[Any, ...]] = [(*carrier, 1) for carrier in _CARRIERS]
    if before:
        rows[6] = (*rows[6][:3], 140, *rows[6][4:])
    else:
        rows[6] = (*rows[6][:-1], 2)
    return [rows[2 * n : 2 * n + 2] for n in range(4)]


def _airports(_: bool) -> Files:
    rows = [(*airport, 100 * n, 1) for n, airport in enumerate(_AIRPORTS)]
    return [rows[4 * n : 4 * n + 4] for n in range(3)]


DEFINITIONS: dict[str, TableDefinition] = {
    "flights": TableDefinition(
        pa.schema(
            {
                "id": pa.int32(),
                "carrier": pa.string(),
                "origin": pa.string(),
                "dest": pa.string(),
                "day": pa.date32(),
                "ts": pa.timestamp("us", "UTC"),
                "delay": pa.float64(),
                "price": pa.decimal128(10, 2),
                "distance": pa.int64(),
                "cancelled": pa.bool_(),
                "note": pa.string(),
                "version": pa.int32(),
                "region": pa.string(),
            }
        ),
        key="id",
        ordering="version",
        partition_by="region",
        files=_flights,
    ),
    "carriers": TableDefinition(
        pa.schema(
            {
                "code": pa.string(),
                "name": pa.string(),
                "country": pa.string(),
                "fleet": pa.int32(),
                "founded": pa.date32(),
                "alliance": pa.string(),
                "version": pa.int32(),
            }
        ),
        key="code",
        ordering="version",
        partition_by="",
        files=_carriers,
    ),
    "airports": TableDefinition(
        pa.schema(
            {
                "code": pa.string(),
                "city": pa.string(),
                "country": pa.string(),
                "altitude": pa.int32(),
                "version": pa.int32(),
            }
        ),
        key="code",
        ordering="version",
        partition_by="",
        files=_airports,
    ),
}


def arrow_rows(table: str) -> pa.Table:
    """Return all rows of a table."""
    definition = DEFINITIONS[table]
    return _arrow(definition.schema, [row for file in definition.files(False) for row in file])


def write_parquet(root: Path) -> Path:
    """Write the three tables as trees of Parquet files below `root`; return `root`."""
    for name, definition in DEFINITIONS.items():
        for number, rows in enumerate(definition.files(False)):
            data = _arrow(definition.schema, rows)
            folder = root / name
            if definition.partition_by:
                value = data.column(definition.partition_by)[0].as_py()
                folder /= f"{definition.partition_by}={value}"
                data = data.drop_columns([definition.partition_by])
            folder.mkdir(parents=True, exist_ok=True)
            pq.write_table(data, folder / f"part-{number:02d}.parquet")
    return root


def _arrow(schema: pa.Schema, rows: Sequence[Row]) -> pa.Table:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def write_hudi(spark: SparkSession, root: Path, *, table_type: TableType, version: TableVersion) -> None:
    """Write the three tables as Hudi tables below `root`, with Spark's snapshot of each in `expected/`."""
    with TemporaryDirectory() as scratch:
        for name, definition in DEFINITIONS.items():
            _write_hudi_table(spark, root / name, definition, Path(scratch) / name, table_type, version)
            columns = [f"`{column}`" for column in definition.schema.names]
            expected = spark_snapshot(spark, root / name).selectExpr(*columns).coalesce(1)
            _with_microseconds(spark, partial(expected.write.parquet, str(root / "expected" / name)))


def _with_microseconds(spark: SparkSession, write: Callable[[], None]) -> None:
    """Write timestamps as points in time, not in the INT96 that knows no zone."""
    setting = "spark.sql.parquet.outputTimestampType"
    before = str(spark.conf.get(setting))
    spark.conf.set(setting, "TIMESTAMP_MICROS")
    try:
        write()
    finally:
        spark.conf.set(setting, before)


def _write_hudi_table(
    spark: SparkSession,
    path: Path,
    definition: TableDefinition,
    scratch: Path,
    table_type: TableType,
    version: TableVersion,
) -> None:
    """Insert the rows as they were before, then update and delete."""
    files = definition.files(True)
    writer = HudiWriter(
        spark,
        path,
        version,
        table_type=table_type,
        partition_by=definition.partition_by,
        key=definition.key,
        ordering=definition.ordering,
        options={"hoodie.bulkinsert.shuffle.parallelism": str(len(files))},
    )

    def frame(name: str, rows: Sequence[Row]) -> DataFrame:
        scratch.mkdir(exist_ok=True)
        pq.write_table(_arrow(definition.schema, rows), scratch / name)
        return spark.read.parquet(str(scratch / name)).coalesce(1)

    # One Spark partition for each file: bulk insert makes a file group of each.
    parts = [frame(f"{number}.parquet", rows) for number, rows in enumerate(files)]
    writer.bulk_insert(reduce(lambda left, right: left.unionAll(right), parts))
    old = {row[0]: row for rows in files for row in rows}
    new = {row[0]: row for rows in definition.files(False) for row in rows}
    changed = [row for key, row in new.items() if old[key] != row]
    if changed:
        writer.upsert(frame("changed.parquet", changed))
    gone = [row for key, row in old.items() if key not in new]
    if gone:
        writer.delete(frame("gone.parquet", gone))


HUDI_VARIANTS: dict[str, Callable[[SparkSession, Path], None]] = {
    f"{short}_v{version}": partial(write_hudi, table_type=table_type, version=version)
    for short, table_type in _TABLE_TYPES.items()
    for version in _TABLE_VERSIONS
}
"""Writers of the Hudi variants by name."""


def statement_tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """Return the kept Hudi variants: `path("mor_v9") / "flights"`; built once per machine, read-only."""
    return kept_hudi_tables("statement-tables", start_spark, HUDI_VARIANTS, __file__)
