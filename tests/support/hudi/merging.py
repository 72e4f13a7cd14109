"""Merge-on-read tables whose log files hold what is easily merged wrongly: see `test_duckdb_merged.py`.

They stand apart from `catalog.py` because nothing but a reader of merged rows wants them, and a change here
is not to write all the other tables again.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.hudi.catalog import SPECIAL_VALUES
from tests.support.hudi.tables import kept_hudi_tables
from tests.support.hudi.writer import CITIES, HudiWriter, TableVersion, rows_of, trips
from tests.support.kept.tables import Builder, KeptTables

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOR = "MERGE_ON_READ"
VERSIONS: tuple[TableVersion, ...] = (6, 9)

TYPES = (
    "id INT, city STRING, flag BOOLEAN, small SMALLINT, big BIGINT, ratio FLOAT, fare DOUBLE, "
    "price DECIMAL(10,2), wide DECIMAL(38,10), code BINARY, day DATE, at TIMESTAMP, "
    "place STRUCT<name: STRING, zip: INT, share: DOUBLE>, tags ARRAY<STRING>, counts MAP<STRING, INT>, ts BIGINT"
)
_AT = datetime(2013, 3, 31, 1, 59, 59, 999_999)
_FULL: tuple[Any, ...] = (
    True,
    7,
    2**53 + 1,
    0.1,
    float("nan"),
    Decimal("12.30"),
    Decimal("1234567890123456789.0123456789"),
    b"\x00\xff",
    date(1969, 12, 31),
    _AT,
    ("a", 1, float("nan")),
    ["x", "y"],
    {"k": 1},
)
_PLAIN: tuple[Any, ...] = (
    False,
    -1,
    -5,
    -0.0,
    -0.0,
    Decimal("-0.05"),
    Decimal(-1),
    b"",
    date(2013, 1, 1),
    datetime(1960, 1, 1, 0, 0, 0, 1),
    (None, None, -0.0),
    [],
    {},
)
_EMPTY: tuple[Any, ...] = (None,) * len(_FULL)


def mor_types(spark: SparkSession, path: Path, *, version: TableVersion, block: str = "avro") -> None:
    """Every type, in base files and in log files: NULL, NaN, signed zeros, nested values."""
    table = HudiWriter(spark, path, version, MOR, options={"hoodie.logfile.data.block.format": block})
    first = (_FULL, _PLAIN, _EMPTY, _FULL, _PLAIN)
    later = {0: _PLAIN, 1: _FULL, 3: _EMPTY}
    table.insert(rows_of(spark, [(i, "rome", *row, 1) for i, row in enumerate(first)], TYPES))
    table.insert(rows_of(spark, [(10, "rome", *_PLAIN, 1), (11, "rome", *_FULL, 1)], TYPES))
    table.upsert(rows_of(spark, [(i, "rome", *row, 2) for i, row in later.items()], TYPES))
    table.upsert(rows_of(spark, [(2, "rome", *_FULL, 3)], TYPES))


def mor_parquet_blocks(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """The same with Parquet blocks in the log files."""
    mor_types(spark, path, version=version, block="parquet")


def mor_event_time(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Updates and deletes that come too late by the ordering column, and rows that come back after a delete."""
    table = HudiWriter(spark, path, version, MOR)
    table.insert(trips(spark, range(9), ts=5))
    table.upsert(trips(spark, [0, 1], ts=2, fare=1000))
    table.upsert(trips(spark, [3, 4], ts=5, fare=2000))
    table.delete(trips(spark, [2], ts=1))
    table.delete(trips(spark, [5], ts=5))
    table.upsert(trips(spark, [6], ts=9, fare=3000))
    table.upsert(trips(spark, [6], ts=7, fare=4000))
    table.delete(trips(spark, [7], ts=9))
    table.upsert(trips(spark, [5, 7], ts=8, fare=1000))


def mor_deleted_by_column(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Rows are deleted by `_hoodie_is_deleted`, one of them too late."""
    schema = "id INT, city STRING, seats INT, fare DOUBLE, ts BIGINT, _hoodie_is_deleted BOOLEAN"
    table = HudiWriter(spark, path, version, MOR)
    table.insert(rows_of(spark, [(i, CITIES[i % 3], i, 1.0 * i, 1, False) for i in range(6)], schema))
    table.upsert(rows_of(spark, [(i, CITIES[i % 3], i, 9.0, 2, i == 0) for i in range(3)], schema))
    table.upsert(rows_of(spark, [(3, CITIES[0], 3, 9.0, 0, True)], schema))


def mor_widened(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Base files hold int and float where log files and newer base files hold bigint and double, and lack a column."""
    old, new = "seats INT, fare FLOAT, ts BIGINT", "seats BIGINT, fare DOUBLE, ts BIGINT, note STRING"
    evolving = {"hoodie.write.set.null.for.missing.columns": "true"}
    table = HudiWriter(spark, path, version, MOR, options=evolving)
    table.insert(
        rows_of(spark, [(i, CITIES[i % 3], i, 0.1 * i, 1) for i in range(6)], f"id INT, city STRING, {old}")
    )
    updates = [(i, CITIES[i % 3], 3_000_000_000 + i, 0.1 * i, 2, f"note {i}") for i in (0, 1, 9, 10)]
    table.upsert(rows_of(spark, updates, f"id INT, city STRING, {new}"))


def mor_int_to_double(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A column was made a double of an int after log files had been written."""
    table = HudiWriter(spark, path, version, MOR)
    old, new = "id INT, city STRING, seats INT, ts BIGINT", "id INT, city STRING, seats DOUBLE, ts BIGINT"
    table.insert(rows_of(spark, [(i, "rome", i, 1) for i in range(4)], old))
    table.upsert(rows_of(spark, [(0, "rome", 7, 2)], old))
    table.upsert(rows_of(spark, [(1, "rome", 3.5, 3)], new))


def mor_special_values(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Partition values with special characters and NULL, escaped in the path."""
    escaped = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    table = HudiWriter(spark, path, version, MOR, options=escaped)
    count = 2 * len(SPECIAL_VALUES)
    table.insert(trips(spark, range(count), cities=SPECIAL_VALUES))
    table.upsert(trips(spark, range(0, count, 2), cities=SPECIAL_VALUES, ts=2, fare=1000))
    table.delete(trips(spark, [1], cities=SPECIAL_VALUES, ts=3))


def mor_no_meta_fields(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Files have no meta columns."""
    table = HudiWriter(spark, path, version, MOR, options={"hoodie.populate.meta.fields": "false"})
    table.insert(trips(spark, range(9)))
    table.upsert(trips(spark, [0, 1], ts=2, fare=1000))
    table.delete(trips(spark, [2], ts=3))


def mor_repeated_keys(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """A base file has rows with the same key, and log files update one key and delete another."""
    schema = "id INT, city STRING, seats INT, fare DOUBLE, ts BIGINT"
    table = HudiWriter(spark, path, version, MOR)
    table.bulk_insert(rows_of(spark, [(i // 2, "rome", i, 1.0 * i, i) for i in range(6)], schema))
    table.upsert(rows_of(spark, [(0, "rome", 100, 1.0, 9)], schema))
    table.delete(rows_of(spark, [(1, "rome", 100, 1.0, 9)], schema))


def mor_archived(spark: SparkSession, path: Path, *, version: TableVersion) -> None:
    """Log files hold blocks of instants that were archived."""
    kept = {
        "hoodie.archive.automatic": "true",
        "hoodie.keep.min.commits": "2",
        "hoodie.keep.max.commits": "3",
        "hoodie.clean.automatic": "true",
        "hoodie.clean.commits.retained": "1",
    }
    table = HudiWriter(spark, path, version, MOR, options=kept)
    table.insert(trips(spark, range(9)))
    for number in range(6):
        table.upsert(trips(spark, [number % 3], ts=2 + number, fare=1000 * number))


_IN_VERSION_8 = (mor_event_time, mor_repeated_keys)
"""Tables that are worth their time in version 8 as well."""

_MAKERS: tuple[Callable[..., None], ...] = (
    mor_types,
    mor_parquet_blocks,
    mor_event_time,
    mor_deleted_by_column,
    mor_widened,
    mor_int_to_double,
    mor_special_values,
    mor_no_meta_fields,
    mor_repeated_keys,
    mor_archived,
)
BUILDERS: dict[str, Builder] = {
    f"{getattr(make, '__name__')}_v{version}": partial(make, version=version)  # noqa: B009
    for make in _MAKERS
    for version in (*VERSIONS, *((8,) if make in _IN_VERSION_8 else ()))
}


def merging_tables(start_spark: Callable[[], SparkSession]) -> KeptTables:
    """The tables of this module, built once per machine; read-only."""
    return kept_hudi_tables("hudi-merging", start_spark, BUILDERS, __file__)
