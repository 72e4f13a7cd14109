"""Which records apply to the values that an engine reads: those that know their Parquet type, and the first ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pruner.expr.bound.predicates import CompareLeaf, Point
from pruner.indexes.base import Evidence
from pruner.indexes.bitmap.index import BITMAP
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.columns.reading import READING_COLUMNS
from pruner.indexes.optional import RowEvidence
from pruner.parquet_type import ParquetType
from pruner.pipeline.footers import FileReader
from pruner.schema import Field
from tests.support.parquet.column_stats import DUCKDB, EQ, SPARK, TRINO, kept
from tests.support.parquet.types import converted, converted_only, plain

INSTANT = pa.timestamp("us", "UTC")
OLD = ParquetType("INT64", "TIMESTAMP_MICROS")
NEW = ParquetType("INT64", "TIMESTAMP_MICROS", "Timestamp(us,utc)")


def evidence(paths: list[Path], field: Field, kind: str, *, first_version: bool) -> Evidence:
    """Evidence of files as they are indexed now, or as the first version of pruner indexed them."""
    index = COLUMN_STATS if kind == "column_stats" else BITMAP
    tables: list[pa.Table] = []
    for number, path in enumerate(paths):
        with FileReader(str(path)) as reader:
            records = index.record(reader, Field(("x",), field.type), {})
        if first_version:
            records = records.drop_columns([column.name for column in READING_COLUMNS])
        tables.append(records.append_column("__slice", pa.array([number] * records.num_rows, pa.int32())))
    return index.load(pa.concat_tables(tables), len(paths), field)


def equal(field: Field, value: int) -> CompareLeaf:
    return CompareLeaf(field, EQ, Point(value, value))


BOTH = pytest.mark.parametrize("kind", ["column_stats", "bitmap"])


@BOTH
def test_instants_of_a_table_whose_footers_nobody_looked_at(tmp_path: Path, kind: str) -> None:
    """As in Hudi tables: the record knows the type of each file; a record of the first version does not."""
    paths = [
        converted_only(tmp_path / "old.parquet", pa.array([1], INSTANT)),
        plain(tmp_path / "new.parquet", pa.array([1], INSTANT)),
    ]
    field = Field(("x",), INSTANT)
    for first_version, by_duckdb in ((False, [0]), (True, [0, 1])):
        found = evidence(paths, field, kind, first_version=first_version)
        assert kept(found, equal(field, 2), DUCKDB) == by_duckdb
        assert kept(found, equal(field, 2), SPARK) == []
        assert kept(found, equal(field, 2), TRINO) == []


@BOTH
@pytest.mark.parametrize("first_version", [False, True])
def test_the_listing_tells_what_first_records_do_not(tmp_path: Path, kind: str, first_version: bool) -> None:
    paths = [converted_only(tmp_path / "old.parquet", pa.array([1], INSTANT))]
    clock = Field(("x",), pa.timestamp("us"), parquet=frozenset({OLD}))
    assert kept(evidence(paths, clock, kind, first_version=first_version), equal(clock, 2), DUCKDB) == []
    instants = Field(("x",), INSTANT, parquet=frozenset({NEW}))
    paths = [plain(tmp_path / "new.parquet", pa.array([1], INSTANT))]
    assert (
        kept(evidence(paths, instants, kind, first_version=first_version), equal(instants, 2), DUCKDB) == []
    )


@BOTH
def test_first_records_of_narrow_integers_serve_engines_that_wrap(tmp_path: Path, kind: str) -> None:
    paths = [plain(tmp_path / "fits.parquet", pa.array([5], pa.int8()))]
    paths.append(converted(tmp_path / "misfit.parquet", pa.array([261], pa.int32()), "INT_8"))
    field = Field(("x",), pa.int8())
    for first_version, unknown in ((False, [1]), (True, [0, 1])):
        found = evidence(paths, field, kind, first_version=first_version)
        assert kept(found, equal(field, 7), TRINO) == unknown
        assert kept(found, equal(field, 7), DUCKDB) == []


@pytest.mark.parametrize(("type_", "by_spark"), [(pa.int8(), [0]), (pa.int32(), [])])
def test_positions_of_rows_are_settled_only_where_the_values_are_read(
    tmp_path: Path, type_: pa.DataType, by_spark: list[int]
) -> None:
    """Spark wraps a number to the type of the column: an 8-bit one as Arrow does, a wider one not at all."""
    path = converted(tmp_path / "misfit.parquet", pa.array([261], pa.int32()), "INT_8")
    found = evidence([path], Field(("x",), type_), "bitmap", first_version=False)
    assert isinstance(found, RowEvidence)
    settled = [np.flatnonzero(found.settled(rules)).tolist() for rules in (DUCKDB, SPARK, TRINO)]
    assert settled == [[0], by_spark, []]
