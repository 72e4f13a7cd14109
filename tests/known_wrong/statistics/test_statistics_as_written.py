"""Statistics that cannot be trusted as written (S1 to S9, S15, S16, S19): files as such systems write them.

Every test shows that no file with a matching row is dropped and that files without one are.
"""

from __future__ import annotations

import struct
from decimal import Decimal
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from pruner.expr.bound.predicates import InLeaf, IsNullLeaf, NotNullLeaf, Point, PrefixLeaf
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.column_stats.record import ColumnRecord
from pruner.pipeline.kernel import read_slice
from pruner.pipeline.requests import BuildRequest, Failure, SliceFiles
from tests.support.parquet.column_stats import (
    DUCKDB,
    EQ,
    GE,
    GT,
    LE,
    LT,
    NAN,
    NE,
    SPARK,
    TRINO,
    compare_x,
    evidence_of,
    evidence_of_files,
    field_of_x,
    files_of,
    kept,
    outcomes,
    record_file,
)
from tests.support.parquet.footers import claim, written_by


def test_s1_one_nan_makes_the_footers_bounds_worthless(tmp_path: Path) -> None:
    """hudi#18754, duckdb#25521, ClickHouse#118110: a NaN among the values leaves 0.0 or nothing as bounds."""
    double = pa.float64()
    paths = files_of(
        tmp_path, pa.array([5.0, np.nan]), pa.array([np.nan]), pa.array([1.0, 2.0]), pa.array([5.0, 5.0])
    )
    zero = struct.pack("<d", 0.0)
    for path in (paths[0], paths[1]):
        claim(path, min_value=zero, max_value=zero, null_count=0)
    evidence = evidence_of_files(paths, field_of_x(double))
    assert kept(evidence, compare_x(double, EQ, 5.0)) == [0, 3]
    assert kept(evidence, compare_x(double, GT, 3.0)) == [0, 1, 3]
    assert kept(evidence, compare_x(double, NE, 5.0)) == [0, 1, 2]
    assert kept(evidence, compare_x(double, LT, 3.0)) == [2]
    assert kept(evidence, compare_x(double, LE, 5.0)) == [0, 2, 3]


def test_s1_an_unknown_number_of_nan_keeps_the_file_for_operators_that_nan_can_meet() -> None:
    """trino#5127, datafusion#24804: bounds leave NaN out, so they prove nothing about it."""
    double = pa.float64()
    known = ColumnRecord(
        True,
        2,
        "double",
        null_count=0,
        nan_count=0,
        has_values=True,
        min_float=1.0,
        max_float=2.0,
        min_exact=True,
        max_exact=True,
    )
    evidence = evidence_of([known._replace(nan_count=None), known], field_of_x(double))
    assert kept(evidence, compare_x(double, GT, 3.0)) == [0]
    assert kept(evidence, compare_x(double, EQ, NAN)) == [0]
    assert kept(evidence, compare_x(double, LT, 1.0)) == []
    assert kept(evidence, compare_x(double, EQ, 3.0)) == []


def test_s2_engines_order_nan_differently(tmp_path: Path) -> None:
    """trino#21922: NaN is the greatest number in Spark and DuckDB, and compares false in Trino."""
    double = pa.float64()
    evidence = evidence_of_files(files_of(tmp_path, pa.array([np.nan]), pa.array([1.0])), field_of_x(double))
    for semantics in (DUCKDB, SPARK):
        assert kept(evidence, compare_x(double, GT, 2.0), semantics) == [0]
        assert kept(evidence, compare_x(double, EQ, NAN), semantics) == [0]
        assert kept(evidence, compare_x(double, LT, NAN), semantics) == [1]
        assert kept(evidence, InLeaf(field_of_x(double), (NAN,)), semantics) == [0]
        assert outcomes(evidence, compare_x(double, LE, 2.0), semantics) == ["f", "t"]
    assert kept(evidence, compare_x(double, GT, 2.0), TRINO) == []
    assert kept(evidence, compare_x(double, EQ, NAN), TRINO) == []
    assert kept(evidence, compare_x(double, NE, NAN), TRINO) == [0, 1]
    assert kept(evidence, InLeaf(field_of_x(double), (NAN,)), TRINO) == []
    assert outcomes(evidence, compare_x(double, GT, 2.0), TRINO) == ["f", "f"]
    assert outcomes(evidence, compare_x(double, NE, 1.0), TRINO) == ["t", "f"]


def test_s3_long_strings_without_statistics_are_not_null(tmp_path: Path) -> None:
    """hudi#18755: without footer statistics the null count was taken for the value count."""
    text = pa.string()
    paths = files_of(tmp_path, pa.array(["y" * 5000]), pa.array([None], text), pa.array(["a", None]))
    statistics = pq.read_metadata(paths[0]).row_group(0).column(0).statistics
    assert statistics is not None
    assert not statistics.has_min_max
    evidence = evidence_of_files(paths, field_of_x(text))
    assert outcomes(evidence, IsNullLeaf(field_of_x(text))) == ["f", "t", "tf"]
    assert kept(evidence, compare_x(text, GT, b"x")) == [0]


@pytest.mark.parametrize("null_count", [None, -1, 7])
def test_s4_s5_null_counts_that_are_missing_or_cannot_be(tmp_path: Path, null_count: int | None) -> None:
    """hudi#19645, duckdb-iceberg#819, pyiceberg#3891: unknown counts read as 0; -1 written for unknown."""
    number = pa.int64()
    paths = files_of(tmp_path, pa.array([1, None]), pa.array([1, 2]))
    for path in paths:
        claim(path, null_count=null_count)
    evidence = evidence_of_files(paths, field_of_x(number))
    assert kept(evidence, IsNullLeaf(field_of_x(number))) == [0]
    assert outcomes(evidence, compare_x(number, GE, 1)) == ["tn", "t"]


def test_s4_an_unknown_null_count_in_a_record_is_not_zero() -> None:
    """hudi#19645: a record without a null count, as for a column added later."""
    number = pa.int64()
    unknown = ColumnRecord(True, 10, "int64", has_values=None)
    evidence = evidence_of([unknown, unknown._replace(null_count=0, has_values=True)], field_of_x(number))
    assert outcomes(evidence, IsNullLeaf(field_of_x(number))) == ["tf", "f"]
    assert outcomes(evidence, compare_x(number, EQ, 1)) == ["tfn", "tf"]
    assert outcomes(evidence, NotNullLeaf(field_of_x(number), True)) == ["tn", "t"]


def test_s5_a_count_of_zero_by_a_writer_that_means_unknown(tmp_path: Path) -> None:
    """Unknown writers put 0 where they did not count: the data is read instead."""
    number = pa.int64()
    paths = files_of(tmp_path, pa.array([1, None]), pa.array([5, 6]))
    for path in paths:
        claim(written_by(path, "impala version 2.0"), null_count=0)
    evidence = evidence_of_files(paths, field_of_x(number))
    assert kept(evidence, IsNullLeaf(field_of_x(number))) == [0]
    assert kept(evidence, compare_x(number, GT, 4)) == [1]


def test_s6_signed_zeros_are_one_value(tmp_path: Path) -> None:
    """databend#20520, duckdb#24005, iceberg-rust#2398: -0.0 equals +0.0, whichever of them the file holds."""
    for type_ in (pa.float64(), pa.float32()):
        paths = files_of(tmp_path, pa.array([-0.0], type_), pa.array([0.0], type_), pa.array([1.0], type_))
        evidence = evidence_of_files(paths, field_of_x(type_))
        for zero in (0.0, -0.0):
            assert kept(evidence, compare_x(type_, EQ, zero)) == [0, 1]
            assert kept(evidence, compare_x(type_, NE, zero)) == [2]
            assert kept(evidence, compare_x(type_, LT, zero)) == []
            assert kept(evidence, compare_x(type_, LE, zero)) == [0, 1]
            assert kept(evidence, InLeaf(field_of_x(type_), (Point(zero, zero),))) == [0, 1]
            assert kept(evidence, compare_x(type_, GT, zero)) == [2]
        assert str(record_file(paths[0], field_of_x(type_)).max_float) == "0.0"


LONG = "p" * 64


@pytest.mark.parametrize("last", ["\U0010ffff", "\ud7ff", "\ue000", "\uffff", "\x7f", "é", "a"])
def test_s7_upper_bounds_are_raised_when_cut(tmp_path: Path, last: str) -> None:
    """duckdb-iceberg#1136, iceberg#11161: a truncated maximum is below the values, also at surrogates and U+10FFFF."""
    text = pa.string()
    value = (LONG[:62] + last * 3).encode()
    paths = files_of(
        tmp_path, pa.array([value], pa.binary()).cast(text), pa.array(["a", "z"]), pa.array(["zz"])
    )
    record = record_file(paths[0], field_of_x(text))
    assert record.min_bytes is not None
    assert record.max_bytes is not None
    assert len(record.min_bytes) <= 64
    assert len(record.max_bytes) <= 64
    assert record.min_bytes <= value < record.max_bytes
    assert not record.max_exact
    evidence = evidence_of_files(paths, field_of_x(text))
    assert kept(evidence, compare_x(text, EQ, value)) == [0, 1]
    assert kept(evidence, compare_x(text, GE, value)) == [0, 1, 2]
    assert kept(evidence, compare_x(text, GT, value[:64])) == [0, 1, 2]
    assert kept(evidence, compare_x(text, GT, b"q")) == [1, 2]
    assert kept(evidence, PrefixLeaf(field_of_x(text), value[:63], True)) == [0, 1]
    assert outcomes(evidence, PrefixLeaf(field_of_x(text), b"pp", True)) == ["t", "tf", "f"]


def test_s7_a_bound_of_bytes_that_cannot_be_raised_is_unknown(tmp_path: Path) -> None:
    """iceberg#11161: nothing of 64 bytes lies above 0xFF…; a minimum is still known."""
    binary = pa.binary()
    paths = files_of(tmp_path, pa.array([b"\xff" * 70]), pa.array([b"a"]))
    assert record_file(paths[0], field_of_x(binary)).max_bytes is None
    evidence = evidence_of_files(paths, field_of_x(binary))
    assert kept(evidence, compare_x(binary, GT, b"\xff" * 100)) == [0]
    assert kept(evidence, compare_x(binary, EQ, b"\xff" * 70)) == [0]
    assert kept(evidence, compare_x(binary, LT, b"b")) == [1]


def test_s7_equal_bounds_that_may_be_cut_are_no_value() -> None:
    """parquet-format#216: min == max of a prefix does not mean that all values are that prefix."""
    text = pa.string()
    exact = ColumnRecord(
        True,
        3,
        "string",
        null_count=0,
        has_values=True,
        min_bytes=b"ab",
        max_bytes=b"ab",
        min_exact=True,
        max_exact=True,
    )
    evidence = evidence_of([exact._replace(max_exact=False), exact], field_of_x(text))
    assert kept(evidence, compare_x(text, NE, b"ab")) == [0]
    assert outcomes(evidence, InLeaf(field_of_x(text), (Point(b"ab", b"ab"),))) == ["tf", "t"]


def test_s8_bounds_ordered_by_signed_bytes(tmp_path: Path) -> None:
    """PARQUET-686: old writers take bytes from 0x80 on for negative, so that "é" comes before "a"."""
    text = pa.string()
    paths = files_of(tmp_path, pa.array(["a", "é", "z"]), pa.array(["a", "b"]))
    claim(
        written_by(paths[0], "parquet-mr version 1.8.1 (build abc)"), min_value="é".encode(), max_value=b"z"
    )
    evidence = evidence_of_files(paths, field_of_x(text))
    assert kept(evidence, compare_x(text, EQ, b"a")) == [0, 1]
    assert kept(evidence, compare_x(text, GE, "é".encode())) == [0]


def test_s8_bounds_out_of_order_are_not_believed_of_any_writer(tmp_path: Path) -> None:
    """A trusted writer's name over impossible bounds: the data is read."""
    text = pa.string()
    (path,) = files_of(tmp_path, pa.array(["a", "é", "z"]))
    claim(path, min_value="é".encode(), max_value=b"z")
    record = record_file(path, field_of_x(text))
    assert (record.min_bytes, record.max_bytes, record.from_data) == (b"a", "é".encode(), True)


def test_s9_decimals_by_their_bytes_and_scales(tmp_path: Path) -> None:
    """parquet-go#592, ClickHouse#119712, HUDI-9566: negative big-endian bytes, widening, 1.0 against 1.00."""
    for precision in (9, 18, 30, 38):
        type_ = pa.decimal128(precision, 2)
        low, high = Decimal("-1.00"), Decimal("1.00")
        paths = files_of(
            tmp_path, pa.array([low], type_), pa.array([high], type_), pa.array([low, high], type_)
        )
        evidence = evidence_of_files(paths, field_of_x(type_))
        assert kept(evidence, compare_x(type_, LT, 0)) == [0, 2]
        assert kept(evidence, compare_x(type_, EQ, 100)) == [1, 2]
        assert kept(evidence, compare_x(type_, GT, 100)) == []
        assert kept(evidence, InLeaf(field_of_x(type_), (Point(-100, -100), Point(10**40, 10**40)))) == [0, 2]


def test_s9_decimals_are_rescaled_exactly_or_unknown(tmp_path: Path) -> None:
    """HUDI-9566: a file of scale 1 under a table of scale 2, and one whose digits the table cannot hold."""
    paths = files_of(
        tmp_path,
        pa.array([Decimal("1.0")], pa.decimal128(10, 1)),
        pa.array([Decimal("1.000")], pa.decimal128(10, 3)),
    )
    table = pa.decimal128(12, 2)
    evidence = evidence_of_files(paths, field_of_x(table))
    assert kept(evidence, compare_x(table, EQ, 100)) == [0, 1]
    assert kept(evidence, compare_x(table, EQ, 10)) == [1]
    wide = pa.decimal128(38, 2)
    evidence = evidence_of_files([paths[0]], field_of_x(wide))
    assert kept(evidence, compare_x(wide, EQ, 100)) == [0]
    assert kept(evidence, compare_x(wide, GT, 100)) == []


def test_s15_unsigned_integers(tmp_path: Path) -> None:
    """ClickHouse#118366: stored in signed types, 2^64 - 1 looks like -1."""
    for bits, type_ in ((8, pa.uint8()), (16, pa.uint16()), (32, pa.uint32()), (64, pa.uint64())):
        top = 2**bits - 1
        paths = files_of(tmp_path, pa.array([0, top], type_), pa.array([top], type_), pa.array([1], type_))
        evidence = evidence_of_files(paths, field_of_x(type_))
        assert not record_file(paths[0], field_of_x(type_)).from_data
        assert kept(evidence, compare_x(type_, GT, top - 1)) == [0, 1]
        assert kept(evidence, compare_x(type_, LT, 1)) == [0]
        assert kept(evidence, compare_x(type_, EQ, -1)) == []
        assert kept(evidence, compare_x(type_, GE, 2**70)) == []


def test_s15_binary_is_ordered_by_unsigned_bytes(tmp_path: Path) -> None:
    """PARQUET-686 for binary: 0x80 comes after 0x7F."""
    binary = pa.binary()
    evidence = evidence_of_files(
        files_of(tmp_path, pa.array([b"\x7f"]), pa.array([b"\x80"])), field_of_x(binary)
    )
    assert kept(evidence, compare_x(binary, GT, b"\x7f\xff")) == [1]
    assert kept(evidence, compare_x(binary, LT, b"\x80")) == [0]


def test_s15_uuids_are_ordered_by_unsigned_bytes_whatever_the_footer_says(tmp_path: Path) -> None:
    """iceberg#14216: engines disagree on the order of UUIDs, and DuckDB keeps them as signed numbers."""
    files = [tmp_path / f"{digit}.parquet" for digit in "7f"]
    for path in files:
        text = f"{path.stem}0000000-0000-0000-0000-000000000001"
        duckdb.sql(f"COPY (SELECT '{text}'::UUID AS x UNION ALL SELECT '{path.stem * 32}') TO '{path}'")
        assert record_file(path, field_of_x(pa.binary(16))).from_data
    evidence = evidence_of_files(files, field_of_x(pa.uuid()))
    assert kept(evidence, compare_x(pa.uuid(), GT, b"\x80" + bytes(15))) == [1]
    assert kept(evidence, compare_x(pa.uuid(), LT, b"\x80" + bytes(15))) == [0]
    assert kept(evidence, compare_x(pa.uuid(), GT, b"\xff" * 16)) == []


def test_s16_files_without_statistics_are_read(tmp_path: Path) -> None:
    """Hudi took base files without statistics for "nothing matches"."""
    number = pa.int64()
    paths = files_of(tmp_path, pa.array([1, 2]), pa.array([7, 8]), write_statistics=False)
    evidence = evidence_of_files(paths, field_of_x(number))
    assert kept(evidence, compare_x(number, EQ, 2)) == [0]
    assert kept(evidence, compare_x(number, GT, 2)) == [1]


def test_s16_a_base_file_of_another_format_is_not_covered(tmp_path: Path) -> None:
    """Hudi's base files can be ORC: the slice stays out of the index and is named."""
    path = tmp_path / "0.orc"
    orc.write_table(pa.table({"x": [1]}), path)
    request = BuildRequest(COLUMN_STATS, field_of_x(pa.int64()), {}, "i")
    (result,) = read_slice(SliceFiles(0, str(path), None), {}, [request])
    assert isinstance(result, Failure)
    assert (result.slice, result.index) == (str(path), "i")


def test_s19_float_under_a_table_of_double_is_unknown(tmp_path: Path) -> None:
    """Measured: from the same file Hudi reads 0.1 and DuckDB 0.10000000149."""
    paths = files_of(tmp_path, pa.array([0.1], pa.float32()), pa.array([0.1], pa.float64()))
    double = pa.float64()
    evidence = evidence_of_files(paths, field_of_x(double))
    assert kept(evidence, compare_x(double, EQ, 0.1)) == [0, 1]
    assert kept(evidence, compare_x(double, EQ, 0.10000000149011612)) == [0]
    assert kept(evidence, compare_x(double, EQ, 0.5)) == [0]
    assert evidence.covered.tolist() == [False, True]
    single = pa.float32()
    assert kept(evidence_of_files(paths[:1], field_of_x(single)), compare_x(single, EQ, 0.5)) == []


def test_r7_bigint_under_a_table_of_double_is_rounded_outward(tmp_path: Path) -> None:
    """R7: 2^53 + 1 is not a double; the bounds must hold the value that an engine makes of it."""
    double = pa.float64()
    paths = files_of(tmp_path, pa.array([2**53 + 1]), pa.array([1]), pa.array([2**63 - 1]))
    evidence = evidence_of_files(paths, field_of_x(double))
    assert kept(evidence, compare_x(double, EQ, 2.0**53)) == [0]
    assert kept(evidence, compare_x(double, EQ, 2.0**53 + 2)) == [0]
    assert kept(evidence, compare_x(double, EQ, 2.0**63)) == [2]
    assert kept(evidence, compare_x(double, EQ, 1.0)) == [1]
    assert kept(evidence, compare_x(double, EQ, NAN)) == []
