"""What statistics prove and what they do not (L3, L4, L10), empty and all-NULL files (I2), changed columns (T2, T3)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pruner.expr.bound.predicates import CompareLeaf, InLeaf, IsNullLeaf, NotNullLeaf, Point, PrefixLeaf
from pruner.expr.nodes import Operator
from pruner.indexes.column_stats.record import ColumnRecord
from pruner.schema import Field
from tests.support.parquet.column_stats import (
    evidence_of,
    evidence_of_files,
    kept,
    outcomes,
    record_file,
    write_column,
)

TEXT = Field(("x",), pa.string())
NUMBER = Field(("x",), pa.int64())


def numbers(*values: int) -> tuple[Point, ...]:
    return tuple(Point(value, value) for value in values)


def write(folder: Path, *columns: list[object], type_: pa.DataType) -> list[Path]:
    return [write_column(folder / f"{i}.parquet", pa.array(c, type_)) for i, c in enumerate(columns)]


def test_l3_not_in_with_nulls(tmp_path: Path) -> None:
    """lance#4756, ClickHouse#9034, iceberg#7886, trino#30087: a NULL in the list makes NOT IN never true."""
    evidence = evidence_of_files(write(tmp_path, [1], [1, 2], [None], [], type_=pa.int64()), NUMBER)
    assert outcomes(evidence, InLeaf(NUMBER, numbers(1))) == ["t", "tf", "n", "-"]
    assert outcomes(evidence, InLeaf(NUMBER, numbers(1), has_null=True)) == ["t", "tn", "n", "-"]
    assert outcomes(evidence, InLeaf(NUMBER, numbers(5), has_null=True)) == ["n", "n", "n", "-"]
    assert outcomes(evidence, InLeaf(NUMBER, (), has_null=True)) == ["n", "n", "n", "-"]


def test_l4_like_where_the_minimum_lies_below_the_prefix(tmp_path: Path) -> None:
    """hudi#18791: only the minimum was compared with the prefix."""
    files = write(tmp_path, ["a", "pq"], ["p"], ["pz", "q"], ["q"], ["a", "o"], type_=pa.string())
    evidence = evidence_of_files(files, TEXT)
    assert kept(evidence, PrefixLeaf(TEXT, b"p", whole=True)) == [0, 1, 2]
    assert kept(evidence, PrefixLeaf(TEXT, b"pq", whole=True)) == [0]
    assert outcomes(evidence, PrefixLeaf(TEXT, b"p", whole=True)) == ["tf", "t", "tf", "f", "f"]
    assert outcomes(evidence, PrefixLeaf(TEXT, b"p", whole=False)) == ["tf", "tf", "tf", "f", "f"]


def test_l10_statistics_that_prove_may_match_do_not_prove_all_match(tmp_path: Path) -> None:
    """pyiceberg's strict evaluator on record_count <= 0; the second proof needs FALSE and NULL excluded."""
    files = write(tmp_path, [5, 9], [5, 9, None], [4, 9], type_=pa.int64())
    evidence = evidence_of_files(files, NUMBER)
    at_least_5 = CompareLeaf(NUMBER, Operator.GE, Point(5, 5))
    assert outcomes(evidence, at_least_5) == ["t", "tn", "tf"]
    assert outcomes(evidence, CompareLeaf(NUMBER, Operator.EQ, Point(5, 5))) == ["tf", "tfn", "tf"]


@pytest.mark.parametrize("row_count", [-1, -(2**40)])
def test_l10_a_row_count_that_cannot_be_proves_nothing(row_count: int) -> None:
    """pyiceberg: a record count of -1 stood for unknown and proved that all rows match."""
    record = ColumnRecord(
        True, row_count, "int64", null_count=0, has_values=True, min_integer=1, max_integer=1
    )
    evidence = evidence_of([record], NUMBER)
    assert evidence.covered.tolist() == [False]
    assert outcomes(evidence, CompareLeaf(NUMBER, Operator.EQ, Point(1, 1))) == ["tfn"]
    assert outcomes(evidence, CompareLeaf(NUMBER, Operator.EQ, Point(9, 9))) == ["tfn"]
    assert outcomes(evidence, NotNullLeaf(NUMBER, True)) == ["tn"]


def test_i2_all_null_and_empty_files(tmp_path: Path) -> None:
    """paimon#9140: a column without values and a file without rows have no bounds."""
    files = write(tmp_path, [None, None], [], [3], type_=pa.int64())
    evidence = evidence_of_files(files, NUMBER)
    assert evidence.covered.all()
    for operator in Operator:
        assert outcomes(evidence, CompareLeaf(NUMBER, operator, Point(3, 3)))[:2] == ["n", "-"]
    assert outcomes(evidence, IsNullLeaf(NUMBER)) == ["t", "-", "f"]
    assert outcomes(evidence, NotNullLeaf(NUMBER, True)) == ["n", "-", "t"]
    assert outcomes(evidence, NotNullLeaf(NUMBER, False)) == ["n", "-", "f"]


def test_i2_a_column_of_parquets_null_type_is_all_null(tmp_path: Path) -> None:
    """pandas and polars write it for a column in which no value was seen."""
    path = write_column(tmp_path / "a.parquet", pa.nulls(2))
    evidence = evidence_of_files([path], NUMBER)
    assert outcomes(evidence, CompareLeaf(NUMBER, Operator.EQ, Point(3, 3))) == ["n"]


def test_t2_a_widened_type_decodes_old_bounds_rightly(tmp_path: Path) -> None:
    """hudi#19467, trino#17303: bounds recorded as int are read for a column that is now bigint."""
    files = [
        write_column(tmp_path / "old.parquet", pa.array([-1, 7], pa.int32())),
        write_column(tmp_path / "new.parquet", pa.array([2**40], pa.int64())),
    ]
    recorded = [record_file(files[0], Field(("x",), pa.int32())), record_file(files[1], NUMBER)]
    evidence = evidence_of(recorded, NUMBER)
    assert kept(evidence, CompareLeaf(NUMBER, Operator.EQ, Point(7, 7))) == [0]
    assert kept(evidence, CompareLeaf(NUMBER, Operator.LT, Point(0, 0))) == [0]
    assert kept(evidence, CompareLeaf(NUMBER, Operator.GT, Point(7, 7))) == [1]


def test_t2_records_of_a_type_that_promises_nothing_are_not_used(tmp_path: Path) -> None:
    """R7: what was recorded of an int says nothing about a string of the same name, or vice versa."""
    path = write_column(tmp_path / "a.parquet", pa.array([5], pa.int32()))
    record = record_file(path, Field(("x",), pa.int32()))
    for type_ in (pa.string(), pa.decimal128(10, 0), pa.float32(), pa.int16(), pa.date32(), pa.bool_()):
        evidence = evidence_of([record], Field(("x",), type_))
        assert not evidence.covered.any()
        assert outcomes(evidence, IsNullLeaf(Field(("x",), type_))) == ["tf"]


def _with_field_id(path: Path, name: str, number: int) -> Path:
    schema = pa.schema([pa.field(name, pa.int64(), metadata={"PARQUET:field_id": str(number)})])
    pq.write_table(pa.table([pa.array([5])], schema=schema), path)
    return path


def test_t2_a_column_dropped_and_added_anew_is_another_column(tmp_path: Path) -> None:
    """RFC-37, trino#17303: the name is the same, the field id is not; and a rename keeps the id."""
    old, new = (_with_field_id(tmp_path / f"{i}.parquet", "x", i) for i in (1, 2))
    renamed = _with_field_id(tmp_path / "3.parquet", "y", 2)
    field = Field(("x",), pa.int64(), field_id=2)
    evidence = evidence_of_files([old, new, renamed], field)
    assert evidence.covered.tolist() == [False, True, False]
    assert [record_file(path, field).trusted for path in (old, new, renamed)] == [False, True, False]
    assert record_file(old, field).note == "the file's field id is 1, the table's 2"
    assert kept(evidence, CompareLeaf(field, Operator.EQ, Point(7, 7))) == [0, 2]
    recorded_before = record_file(old, Field(("x",), pa.int64(), field_id=1))
    assert recorded_before.trusted
    assert not evidence_of([recorded_before], field).covered.any()


def test_t3_absent_counts_as_null_only_where_engines_read_null(tmp_path: Path) -> None:
    """iceberg#16692: a column added with a default is not NULL in files that do not have it."""
    path = write_column(tmp_path / "a.parquet", pa.array([5]), name="other")
    filled = Field(("x",), pa.int64(), absent_is_null=False)
    assert outcomes(evidence_of_files([path], NUMBER), CompareLeaf(NUMBER, Operator.EQ, Point(5, 5))) == ["n"]
    assert outcomes(evidence_of_files([path], filled), CompareLeaf(filled, Operator.EQ, Point(5, 5))) == [
        "tfn"
    ]
    assert not evidence_of([record_file(path, NUMBER)], filled).covered.any()


def test_r7_names_that_differ_in_case_or_shape_settle_nothing(tmp_path: Path) -> None:
    """R7: which of two columns an engine reads, and whether it reads one of another case, is the engine's choice."""
    files = [
        write_column(tmp_path / "case.parquet", pa.array([5]), name="X"),
        tmp_path / "both.parquet",
        write_column(tmp_path / "struct.parquet", pa.array([{"y": 5}])),
    ]
    pq.write_table(pa.table({"x": [5], "X": [9]}), files[1])
    assert not evidence_of_files(files, NUMBER).covered.any()
    below = Field(("x", "y"), pa.int64())
    flat = write_column(tmp_path / "flat.parquet", pa.array([5]))
    assert evidence_of_files([files[2], flat], below).covered.tolist() == [True, False]
