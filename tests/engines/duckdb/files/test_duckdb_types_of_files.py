"""How pruner predicts the schema that DuckDB reads from a file that it is not asked about, as in an object store.

The same file, read by DuckDB, is the oracle for names and types (rule R12).
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from duckdb import DuckDBPyConnection

from pruner.tables.footers.file_schemas import SchemaReader
from pruner.tables.listing.files import LocalLister
from pruner_duckdb.read.native import described, unasked
from tests.support.parquet import types
from tests.support.running.constants import ROOT

WALL = pa.array([datetime.datetime(2024, 3, 1, 12, 30)], pa.timestamp("us"))
INSTANT = WALL.cast(pa.timestamp("us", "UTC"))
TEXT = pa.array(["{}"])
TIME = pa.array([datetime.time(12, 30)], pa.time64("us"))
PRICE = pa.array([Decimal("1.50")], pa.decimal128(9, 2))
UUID = pa.array([b"0123456789abcdef"], pa.binary(16))
NUMBER = pa.array([1], pa.int32())
STRUCT = pa.StructArray.from_arrays(
    [NUMBER, PRICE, INSTANT, TIME], ["n", "pr ice", "at, {x}: INT64 - -", 'q"']
)


def in_list(values: Any) -> Any:
    """One list of the values."""
    return pa.array([values.to_pylist()], pa.list_(values.type))


def in_map(values: Any) -> Any:
    """One map of the values, keyed by text."""
    return pa.array([[("{}", value) for value in values.to_pylist()]], pa.map_(pa.string(), values.type))


Writer = Callable[[Path], Any]

WRITERS: dict[str, Writer] = {
    **{
        str(data_type): partial(types.plain, values=pa.array([None], data_type))
        for data_type in (
            *(
                pa.int8(),
                pa.int16(),
                pa.int32(),
                pa.int64(),
                pa.uint8(),
                pa.uint16(),
                pa.uint32(),
                pa.uint64(),
            ),
            *(pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.string(), pa.binary()),
            *(pa.timestamp(unit) for unit in ("ms", "us", "ns")),
            *(pa.timestamp(unit, "UTC") for unit in ("ms", "us", "ns")),
            *(pa.time32("ms"), pa.time64("us"), pa.time64("ns"), pa.binary(16), pa.uuid(), pa.json_()),
            *(
                pa.decimal128(4, 2),
                pa.decimal128(18, 0),
                pa.decimal128(38, 38),
                pa.decimal256(60, 3),
                pa.null(),
            ),
        )
    },
    "converted wall": partial(types.converted_only, values=INSTANT),
    "converted wall in a struct": partial(
        types.converted_only, values=pa.StructArray.from_arrays([INSTANT, NUMBER], ["x", "n"])
    ),
    "logical only": partial(types.logical_only, values=PRICE),
    "logical text": partial(types.logical_only, values=TEXT),
    "logical instant": partial(types.logical_only, values=INSTANT),
    "enum": partial(types.converted, values=pa.array([b"a"]), name="ENUM"),
    "json": partial(types.converted, values=TEXT, name="JSON"),
    "bson": partial(types.converted, values=pa.array([b"a"]), name="BSON"),
    "interval": partial(types.converted, values=pa.array([b"123456789012"], pa.binary(12)), name="INTERVAL"),
    "logical json": partial(types.logical, values=TEXT, name="JSON"),
    "logical uuid": partial(types.logical, values=UUID, name="UUID"),
    "contradicting": partial(types.contradicting, values=NUMBER, name="INT_16", bits=8),
    "time of utc": partial(types.times, values=TIME),
    "time of utc in ms": partial(types.times, values=TIME.cast(pa.time32("ms"))),
    "time of no zone": partial(types.times, values=TIME, adjusted=False),
    "int96": partial(types.int96, values=WALL),
    "int96 in a list": partial(types.int96, values=in_list(WALL)),
    "int96 in a map": partial(types.int96, values=in_map(WALL)),
    "int96 in a struct in a list": partial(
        types.int96, values=in_list(pa.StructArray.from_arrays([NUMBER, WALL], ["n", "at"]))
    ),
    "large decimal": partial(types.decimals, values=pa.array([b"123456789012345678901"]), precision=45),
    "struct": partial(types.plain, values=STRUCT),
    "list of structs": partial(types.plain, values=in_list(STRUCT)),
    "map of lists": partial(types.plain, values=in_map(in_list(PRICE))),
}


@pytest.fixture(scope="module")
def run() -> Iterator[DuckDBPyConnection]:
    """One for all files: to open a database takes longer than to read a schema."""
    with duckdb.connect() as connection:
        yield connection


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_types_are_those_that_duckdb_reads(tmp_path: Path, write: Writer, run: DuckDBPyConnection) -> None:
    """Each available Parquet type, also inside structs, lists and maps."""
    write(tmp_path / "x.parquet")
    says_as_duckdb(run, tmp_path / "x.parquet")


@pytest.mark.parametrize("file", sorted(map(str, (ROOT / "tests").rglob("*.parquet"))))
def test_types_of_kept_files_are_those_that_duckdb_reads(file: str, run: DuckDBPyConnection) -> None:
    """Files of other writers and old files."""
    says_as_duckdb(run, Path(file))


@pytest.mark.parametrize("names", [["A", "a", "a_1", "k", "K"], ["é", "É"], ["a", "", "b"]])
def test_names_are_those_that_duckdb_gives(tmp_path: Path, names: list[str], run: DuckDBPyConnection) -> None:
    """DuckDB renames columns that differ only by the case of ASCII letters."""
    pq.write_table(pa.Table.from_arrays([NUMBER] * len(names), names=names), tmp_path / "x.parquet")
    says_as_duckdb(run, tmp_path / "x.parquet")


def says_as_duckdb(run: DuckDBPyConnection, file: Path) -> None:
    """Compare both for one file."""
    (schema,) = SchemaReader().read_all(LocalLister(str(file.parent)), [(file.name, file.stat().st_size)])
    if not isinstance(schema, pa.Schema):
        return  # it is broken, and part of no table
    read = described(run, str(file), schema)
    if read is None:
        return
    assert unasked(run, schema) == read
