"""Statistics of days and timestamps that cannot be trusted as written (S10, S12, S14, S17).

The files match what such systems write. Every test shows that no file with a matching row is dropped and that
files without one are.
"""

from __future__ import annotations

import datetime
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.bound.predicates import InLeaf, IsNullLeaf, Point
from tests.support.parquet.column_stats import (
    DUCKDB,
    EQ,
    GE,
    GT,
    LT,
    SPARK,
    TRINO,
    compare_x,
    evidence_of_files,
    field_of_x,
    files_of,
    kept,
    outcomes,
    record_file,
)
from tests.support.parquet.footers import written_by


def _int96(folder: Path, *seconds: int) -> list[Path]:
    columns = [pa.array([second * 10**6], pa.timestamp("us")) for second in seconds]
    return files_of(
        folder, *columns, use_deprecated_int96_timestamps=True, use_dictionary=False, compression="NONE"
    )


def test_s10_int96_is_read_from_the_data(tmp_path: Path) -> None:
    """trino#5083: INT96 has no usable order in footers."""
    table = pa.timestamp("us")
    paths = _int96(tmp_path, -86400, 0, 10**9)
    evidence = evidence_of_files(paths, field_of_x(table))
    assert all(record_file(path, field_of_x(table)).from_data for path in paths)
    assert kept(evidence, compare_x(table, GT, 0)) == [2]
    assert kept(evidence, compare_x(table, LT, 0)) == [0]
    fine = pa.timestamp("ns")
    evidence = evidence_of_files(paths, field_of_x(fine))
    assert kept(evidence, compare_x(fine, EQ, 10**18 + 999)) == [
        2
    ]  # microseconds may be truncated nanoseconds
    assert kept(evidence, compare_x(fine, EQ, 10**18 + 1000)) == []


def test_s10_int96_means_another_thing_to_each_engine(tmp_path: Path) -> None:
    """An instant in Spark, a wall clock in DuckDB, by a configured zone in Trino."""
    paths = [written_by(path, "parquet-mr version 1.13.1") for path in _int96(tmp_path, 0, 10**9)]
    for type_, engine in ((pa.timestamp("us"), DUCKDB), (pa.timestamp("us", "UTC"), SPARK)):
        evidence = evidence_of_files(paths, field_of_x(type_))
        leaf = compare_x(type_, GT, 5 * 10**14)
        assert {s.engine: kept(evidence, leaf, s) for s in (DUCKDB, SPARK, TRINO)} == {
            "duckdb": [0, 1],
            "spark": [0, 1],
            "trino": [0, 1],
            engine.engine: [1],
        }
        assert kept(evidence, IsNullLeaf(field_of_x(type_)), TRINO) == []


def test_s10_int96_of_other_writers_may_be_moved_by_spark(tmp_path: Path) -> None:
    """`spark.sql.parquet.int96TimestampConversion`: Impala's files are read in the session's zone."""
    type_ = pa.timestamp("us", "UTC")
    ours, theirs = _int96(tmp_path, 0, 0)
    written_by(ours, "parquet-mr version 1.13.1")
    evidence = evidence_of_files([ours, theirs], field_of_x(type_))
    assert kept(evidence, compare_x(type_, GT, 5 * 10**14), SPARK) == [1]


def test_s10_int96_beyond_64_bits_is_unknown(tmp_path: Path) -> None:
    """A decoder wraps around silently: the value would come out as an ordinary timestamp."""
    table = pa.timestamp("us")
    paths = _int96(tmp_path, 0, 86400)
    data = paths[0].read_bytes()
    stored = struct.pack("<qi", 0, 2_440_588)
    assert data.count(stored) == 1
    paths[0].write_bytes(data.replace(stored, struct.pack("<qi", 0, 2_000_000_000)))
    record = record_file(paths[0], field_of_x(table))
    assert record.min_integer is None
    assert "INT96" in (record.note or "")
    evidence = evidence_of_files(paths, field_of_x(table))
    assert kept(evidence, compare_x(table, GT, 10**15)) == [0]


def test_s12_units_are_converted_exactly(tmp_path: Path) -> None:
    """delta#7444, trino#31231, hudi#14161: milliseconds taken for microseconds, maxima cut to milliseconds."""
    table = pa.timestamp("us", "UTC")
    columns = [
        pa.array([1_500], pa.timestamp("ms", "UTC")),
        pa.array([1_500_999], table),
        pa.array([1_500_999_999], pa.timestamp("ns", "UTC")),
    ]
    evidence = evidence_of_files(files_of(tmp_path, *columns), field_of_x(table))
    assert kept(evidence, compare_x(table, EQ, 1_500_000)) == [0]
    assert kept(evidence, compare_x(table, GT, 1_500_000)) == [1, 2]
    assert kept(evidence, compare_x(table, EQ, 1_500_999)) == [1, 2]
    assert kept(evidence, compare_x(table, GE, 1_501_000)) == [2]  # rounded up, as an engine may round
    assert kept(evidence, compare_x(table, GT, 1_501_000)) == []


def test_s12_a_wall_clock_is_no_instant(tmp_path: Path) -> None:
    """isAdjustedToUTC differs between file and table: the values differ, by an unknown zone."""
    paths = files_of(tmp_path, pa.array([0], pa.timestamp("us")), pa.array([0], pa.timestamp("us", "UTC")))
    for table, unknown in ((pa.timestamp("us", "UTC"), 0), (pa.timestamp("us"), 1)):
        assert kept(evidence_of_files(paths, field_of_x(table)), compare_x(table, GT, 10)) == [unknown]


def test_s12_what_does_not_fit_after_conversion_is_unknown(tmp_path: Path) -> None:
    """A millisecond far from 1970 does not fit 64 bits as nanoseconds; it must not wrap around."""
    table = pa.timestamp("ns")
    far = pa.array([2**62, -(2**62)], pa.timestamp("ms"))
    evidence = evidence_of_files(
        files_of(tmp_path, far, pa.array([1], pa.timestamp("ms"))), field_of_x(table)
    )
    assert kept(evidence, compare_x(table, GT, 2_000_000)) == [0]
    assert kept(evidence, compare_x(table, LT, 0)) == [0]


def test_s14_before_1970_bounds_are_floored(tmp_path: Path) -> None:
    """iceberg#1680, trino#5273: truncation toward zero moves bounds before 1970 up by one."""
    table = pa.timestamp("us")
    evidence = evidence_of_files(files_of(tmp_path, pa.array([-1500], pa.timestamp("ns"))), field_of_x(table))
    assert outcomes(evidence, compare_x(table, EQ, -2)) == ["tf"]
    assert outcomes(evidence, compare_x(table, EQ, -1)) == ["tf"]
    assert outcomes(evidence, compare_x(table, EQ, 0)) == ["f"]
    assert outcomes(evidence, compare_x(table, EQ, -3)) == ["f"]
    days = evidence_of_files(
        files_of(tmp_path, pa.array([-1], pa.int32()).view(pa.date32())), field_of_x(pa.date32())
    )
    assert outcomes(days, compare_x(pa.date32(), EQ, -1)) == ["t"]


ANCIENT_DAY, MODERN_DAY = datetime.date(1500, 1, 1), datetime.date(2000, 1, 1)


def _spark_file(path: Path, column: pa.Array, **marks: str) -> Path:
    table = pa.table({"x": column}).replace_schema_metadata(
        {f"org.apache.spark.{k}": v for k, v in marks.items()}
    )
    pq.write_table(table, path)
    return written_by(path, "parquet-mr version 1.13.1 (build db4183109d5b734ec5930d870cdae161e408ddba)")


@pytest.mark.parametrize("marks", [{"version": "2.4.8"}, {"version": "3.5.9", "legacyDateTime": ""}])
def test_s17_old_days_of_the_legacy_calendar_are_unknown(tmp_path: Path, marks: dict[str, str]) -> None:
    """SPARK-31404: Spark moves dates before 1582-10-15 and timestamps before 1900 of such files, by days."""
    day, instant = pa.date32(), pa.timestamp("us", "UTC")
    paths = [
        _spark_file(tmp_path / "old.parquet", pa.array([ANCIENT_DAY]), **marks),
        _spark_file(tmp_path / "new.parquet", pa.array([MODERN_DAY]), **marks),
        _spark_file(tmp_path / "sure.parquet", pa.array([ANCIENT_DAY]), version="3.5.9"),
    ]
    evidence = evidence_of_files(paths, field_of_x(day))
    for semantics in (DUCKDB, SPARK, TRINO):
        assert kept(evidence, compare_x(day, EQ, 12345), semantics) == [0]
        assert kept(evidence, IsNullLeaf(field_of_x(day)), semantics) == []
    before_1900 = -2_300_000_000 * 10**6
    paths = [
        _spark_file(tmp_path / "a.parquet", pa.array([before_1900], instant), **marks),
        _spark_file(tmp_path / "b.parquet", pa.array([0], instant), **marks),
    ]
    assert kept(evidence_of_files(paths, field_of_x(instant)), compare_x(instant, EQ, 1), SPARK) == [0]


def test_s17_a_file_that_does_not_name_its_calendar_is_unknown_to_spark_alone(tmp_path: Path) -> None:
    """DataSourceUtils.datetimeRebaseSpec: without Spark's mark the session's setting decides."""
    day = pa.date32()
    paths = files_of(tmp_path, pa.array([ANCIENT_DAY]), pa.array([MODERN_DAY]))
    evidence = evidence_of_files(paths, field_of_x(day))
    leaf = compare_x(day, EQ, 12345)
    assert kept(evidence, leaf, SPARK) == [0]
    assert kept(evidence, leaf, DUCKDB) == []
    assert kept(evidence, InLeaf(field_of_x(day), (Point(12345, 12345),)), SPARK) == [0]
    assert outcomes(evidence, leaf, SPARK) == ["tf", "f"]
