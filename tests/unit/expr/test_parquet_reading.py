"""How engines read Parquet types: each type is written to a file and read by the engine itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.parquet_reading import as_read, type_read
from pruner.expr.semantics import Semantics
from pruner.parquet_type import ParquetType, parse_parquet_type
from pruner.schema import Field
from pruner.tables.footers.thrift import columns_of_footer
from tests.support.duckdb import plain as plain_duckdb
from tests.support.parquet import types as parquet_types
from tests.support.parquet.footers import footer_bytes

DUCKDB, SPARK, TRINO = map(Semantics.of, ("duckdb", "spark", "trino"))

_DECIMAL = pa.array([None], pa.decimal128(9, 2))
_VALUES: dict[str, pa.Array[Any]] = {
    "boolean": pa.array([True]),
    **{str(type_): pa.array([1], type_) for type_ in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(type_): pa.array([1], type_) for type_ in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "float": pa.array([1.5], pa.float32()),
    "double": pa.array([1.5]),
    "decimal": _DECIMAL,
    "string": pa.array(["a"]),
    "binary": pa.array([b"a"]),
    "fixed": pa.array([b"a" * 16], pa.binary(16)),
    "date": pa.array([1], pa.date32()),
    "time ms": pa.array([1], pa.time32("ms")),
    "time us": pa.array([1], pa.time64("us")),
    "time ns": pa.array([1], pa.time64("ns")),
    "half": pa.array([1.5], pa.float16()),
    "uuid": pa.array([b"a" * 16], pa.uuid()),
    "ms": pa.array([1], pa.timestamp("ms")),
    "us": pa.array([1], pa.timestamp("us")),
    "ns": pa.array([1], pa.timestamp("ns")),
    "ms utc": pa.array([1], pa.timestamp("ms", "UTC")),
    "us utc": pa.array([1], pa.timestamp("us", "UTC")),
    "ns utc": pa.array([1], pa.timestamp("ns", "UTC")),
}
_WRITERS: dict[str, Callable[[Path, pa.Array[Any]], Path]] = {
    "both": parquet_types.plain,
    "converted": parquet_types.converted_only,
    "logical": parquet_types.logical_only,
}


def files(folder: Path) -> Iterator[tuple[Path, ParquetType]]:
    """A file for each type that one of the writers here can produce."""
    for name, values in _VALUES.items():
        for how, write in _WRITERS.items():
            yield _typed(write(folder / f"{name} {how}.parquet", values))
    moments = pa.array([1], pa.timestamp("us"))
    yield _typed(parquet_types.int96(folder / "int96.parquet", moments))
    for name in ("ENUM", "JSON"):
        yield _typed(parquet_types.converted(folder / f"{name}.parquet", pa.array([b"{}"]), name))
    for name in ("Enum", "JSON", "BSON"):
        yield _typed(parquet_types.logical(folder / f"{name} logical.parquet", pa.array([b"{}"]), name))


def _typed(path: Path) -> tuple[Path, ParquetType]:
    (column,) = columns_of_footer(footer_bytes(path))
    return path, column.type


_SQL_TYPES = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "DECIMAL(9,2)": pa.decimal128(9, 2),
    "VARCHAR": pa.string(),
    "JSON": pa.string(),
    "BLOB": pa.binary(),
    "DATE": pa.date32(),
    "TIME_NS": pa.time64("ns"),
    "UUID": pa.uuid(),
}
_SQL_TIMESTAMPS = {
    "TIMESTAMP": (("ms", "us"), False),
    "TIMESTAMP_NS": (("ns",), False),
    "TIMESTAMP WITH TIME ZONE": (("ms", "us", "ns"), True),
    "TIMESTAMPTZ_NS": (("ns",), True),
}


@pytest.mark.slow
def test_duckdb_reads_what_the_table_of_readings_says(tmp_path: Path) -> None:
    traits = DUCKDB.traits
    known = 0
    with plain_duckdb.session() as connection:
        for path, parquet in files(tmp_path):
            (row,) = connection.execute("DESCRIBE FROM read_parquet(?)", [str(path)]).fetchall()
            read = type_read(parquet, traits)
            if read is None:
                assert row[1] in ("TIME WITH TIME ZONE", "BLOB"), parquet
                continue
            known += 1
            if pa.types.is_timestamp(read):
                units, zoned = _SQL_TIMESTAMPS[row[1]]
                assert read.unit in units, parquet
                assert (read.tz is not None) is zoned, parquet
            elif pa.types.is_fixed_size_binary(read):
                assert row[1] == "BLOB", parquet
            elif read in (pa.time32("ms"), pa.time64("us")):
                assert row[1] == "TIME", parquet
            else:
                assert _SQL_TYPES[row[1]] == read, parquet
    assert known > 60


@pytest.mark.spark
def test_spark_reads_what_the_table_of_readings_says(tmp_path: Path, spark: Any) -> None:
    names = {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "decimal(9,2)": pa.decimal128(9, 2),
        "decimal(20,0)": pa.uint64(),
    }
    traits = SPARK.traits
    for path, parquet in files(tmp_path):
        read = type_read(parquet, traits)
        if read is None or parquet.meaning.startswith("Timestamp(ns"):
            continue  # Spark refuses such files
        told = spark.read.parquet(str(path)).dtypes[0][1]
        if pa.types.is_timestamp(read):
            assert told == ("timestamp" if read.tz is not None else "timestamp_ntz"), parquet
        elif pa.types.is_fixed_size_binary(read):
            assert told == "binary", parquet
        else:
            assert names[told] == (pa.int64() if read == pa.uint32() else read), parquet


@pytest.mark.spark
def test_spark_reads_numbers_that_do_not_fit_as_an_index_is_told(tmp_path: Path, spark: Any) -> None:
    """Signed ones wrap as in Arrow, unsigned ones do not."""
    for name in ("UINT_8", "UINT_16", "INT_8", "INT_16"):
        for number in (300, 70_000, -1, 379):
            path = parquet_types.converted(
                tmp_path / f"{name}{number}.parquet", pa.array([number], pa.int32()), name
            )
            ((value,),) = spark.read.parquet(str(path)).collect()
            wrapped = pq.read_table(path).column(0)[0].as_py()
            if name[0] == "I":
                assert value == wrapped
            elif (name, number) != ("UINT_8", 70_000):
                assert value == number


@pytest.mark.parametrize(
    "text",
    [
        "INT64 - -",
        "INT64 TIMESTAMP_MICROS -",
        "FIXED_LEN_BYTE_ARRAY(16) - UUID",
        "INT32 DECIMAL(9,2) Decimal(9,2)",
    ],
)
def test_a_type_is_made_again_from_its_text(text: str) -> None:
    found = parse_parquet_type(text)
    assert found is not None
    assert found.text == text


@pytest.mark.parametrize("text", ["", "INT64", "- - -", "INT64 - - -", "INT64  -"])
def test_other_texts_are_not_types(text: str) -> None:
    assert parse_parquet_type(text) is None


def _field(type_: pa.DataType, *texts: str) -> Field:
    found = [parse_parquet_type(text) for text in texts]
    return Field(("x",), type_, parquet=frozenset(each for each in found if each is not None))


def test_a_field_is_read_by_what_its_files_hold() -> None:
    instants = _field(pa.timestamp("us", "UTC"), "INT64 TIMESTAMP_MICROS -")
    assert as_read(instants, DUCKDB).type == pa.timestamp("us")
    assert as_read(instants, SPARK) == instants
    old = _field(pa.timestamp("ns"), "INT96 - -")
    assert [as_read(old, rules).type for rules in (DUCKDB, SPARK, TRINO)] == [
        *(pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")),
    ]
    numbers = _field(pa.int64(), "INT32 INT_8 -", "INT64 - -")
    assert [as_read(numbers, rules).type for rules in (DUCKDB, SPARK, TRINO)] == [pa.int64()] * 3
    unsigned = _field(pa.uint8(), "INT32 UINT_8 -")
    assert [as_read(unsigned, rules).type for rules in (DUCKDB, SPARK, TRINO)] == [
        *(pa.uint8(), pa.int16(), pa.uint8()),
    ]


def test_a_field_that_is_read_as_several_types_is_in_conflict_for_that_engine() -> None:
    mixed = _field(
        pa.timestamp("us", "UTC"), "INT64 TIMESTAMP_MICROS -", "INT64 TIMESTAMP_MICROS Timestamp(us,utc)"
    )
    assert as_read(mixed, DUCKDB).conflict == (
        "files hold it in ways of which DuckDB makes different types: INT64 TIMESTAMP_MICROS Timestamp(us,utc) as "
        "timestamp[us, tz=UTC], INT64 TIMESTAMP_MICROS as timestamp[us]"
    )
    assert as_read(mixed, SPARK) == mixed
    unknown = _field(pa.binary(16), "FIXED_LEN_BYTE_ARRAY(16) - -", "FIXED_LEN_BYTE_ARRAY(16) - UUID")
    for rules in (DUCKDB, SPARK, TRINO):
        assert as_read(unknown, rules).conflict is not None


def test_a_field_whose_files_nobody_looked_at_is_as_the_table_says() -> None:
    field = Field(("x",), pa.timestamp("us", "UTC"))
    for rules in (DUCKDB, SPARK, TRINO):
        assert as_read(field, rules) is field
