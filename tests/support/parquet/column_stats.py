"""Evidence of column statistics for tests: from files as they are indexed, or from records made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pruner.expr.bound.predicates import CompareLeaf, Leaf, Point, StorageValue
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.base import Evidence, SliceReader
from pruner.indexes.column_stats import COLUMN_STATS
from pruner.indexes.column_stats.record import RECORD_SCHEMA, ColumnRecord, record_column
from pruner.pipeline.footers import FileReader
from pruner.schema import Field
from pruner.verdict import Outcome

LETTERS = {Outcome.TRUE: "t", Outcome.FALSE: "f", Outcome.NULL: "n"}
DUCKDB = Semantics.of("duckdb")
EQ, NE, LT, LE, GT, GE = Operator.EQ, Operator.NE, Operator.LT, Operator.LE, Operator.GT, Operator.GE
NAN = Point(None, None, nan=True)
SPARK = Semantics.of("spark")
TRINO = Semantics.of("trino")


def records_table(records: Sequence[ColumnRecord], slices: Sequence[int] | None = None) -> pa.Table:
    """Records as the pipeline hands them to `load`, of the slices 0, 1, 2 … unless given."""
    rows = [dict(zip(RECORD_SCHEMA.names, record, strict=True)) for record in records]
    numbers = list(range(len(rows))) if slices is None else list(slices)
    return pa.Table.from_pylist(rows, schema=RECORD_SCHEMA).append_column(
        "__slice", pa.array(numbers, pa.int32())
    )


def evidence_of(records: Sequence[ColumnRecord], field: Field) -> Evidence:
    """Evidence of hand-made records, one for each slice."""
    return COLUMN_STATS.load(records_table(records), len(records), field)


def record_file(path: Path, field: Field) -> ColumnRecord:
    """Index one field of one file."""
    with FileReader(str(path)) as reader:
        found: SliceReader = reader
        return record_column(found, field)


def evidence_of_files(paths: Sequence[Path], field: Field) -> Evidence:
    """Evidence of files as they are indexed, slice by slice."""
    return evidence_of([record_file(path, field) for path in paths], field)


def write_column(path: Path, values: pa.Array, name: str = "x", **options: Any) -> Path:
    """Write a file with one column."""
    pq.write_table(pa.table({name: values}), path, **options)
    return path


def outcomes(
    evidence: Evidence, leaf: Leaf, semantics: Semantics = DUCKDB, at: np.ndarray[Any, Any] | None = None
) -> list[str]:
    """For each slice the letters of the outcomes that are possible, "-" for none."""
    masks = {outcome: evidence.possible(leaf, outcome, semantics, at) for outcome in Outcome}
    count = evidence.count if at is None else len(at)
    assert all(mask is not None and mask.shape == (count,) for mask in masks.values())
    return [
        "".join(LETTERS[outcome] for outcome, mask in masks.items() if mask is not None and mask[i]) or "-"
        for i in range(count)
    ]


def kept(evidence: Evidence, leaf: Leaf, semantics: Semantics = DUCKDB) -> list[int]:
    """The slices that can hold a row for which the leaf is true; all of them where the evidence says nothing."""
    mask = evidence.possible(leaf, Outcome.TRUE, semantics, None)
    return list(range(evidence.count)) if mask is None else np.flatnonzero(mask).tolist()


def field_of_x(type_: pa.DataType) -> Field:
    """The only column of the files that `files_of` writes."""
    return Field(("x",), type_)


def compare_x(type_: pa.DataType, operator: Operator, value: StorageValue | Point) -> CompareLeaf:
    """A comparison of that column with a value that is exact in its storage type, or with a point."""
    return CompareLeaf(
        field_of_x(type_), operator, value if isinstance(value, Point) else Point(value, value)
    )


def files_of(folder: Path, *columns: pa.Array[Any], **options: Any) -> list[Path]:
    """Write one file for each column, in order."""
    return [write_column(folder / f"{i}.parquet", column, **options) for i, column in enumerate(columns)]
