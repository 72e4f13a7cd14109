"""The matrix of evidence: every operator against every kind of record, missing ones included, from a readable table."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from pruner.expr.bound.predicates import CompareLeaf, InLeaf, IsNullLeaf, Leaf, NotNullLeaf, Point, PrefixLeaf
from pruner.expr.nodes import Operator
from pruner.indexes.column_stats.record import ColumnRecord
from pruner.schema import Field
from tests.support.cases.spec import Row, rows
from tests.support.parquet.column_stats import DUCKDB, SPARK, TRINO, evidence_of, outcomes

TYPES = {"bigint": pa.int64(), "double": pa.float64(), "string": pa.string()}
ENDS = {"bigint": "integer", "double": "float", "string": "bytes"}


def _value(kind: str, text: str) -> int | float | bytes:
    return int(text) if kind == "bigint" else float(text) if kind == "double" else text.encode()


def _record(kind: str, low: str, high: str, nulls: str, nans: str, rows: str, flags: str) -> ColumnRecord:
    def count(text: str) -> int | None:
        return None if text in "?-" else int(text)

    known = {
        f"{end}_{ENDS[kind]}": _value(kind, text)
        for end, text in (("min", low), ("max", high))
        if text not in ("?", "-")
    }
    no_values = low == "-" and nans in ("-", "0")
    return ColumnRecord(
        trusted=flags != "untrusted",
        row_count=int(rows),
        type=str(TYPES[kind]),
        null_count=count(nulls),
        nan_count=count(nans),
        has_values=not no_values,
        min_exact=flags != "inexact",
        max_exact=flags != "inexact",
        **known,  # type: ignore[arg-type]
    )


def _point(kind: str, text: str) -> Point:
    if text == "nan":
        return Point(None, None, nan=True)
    if text.startswith("~"):
        low, high = text[2:-1].split(",")
        return Point(_value(kind, low), _value(kind, high), exact=False)
    if kind == "bigint" and "." in text:
        below = int(float(text) // 1)
        return Point(below + 1, below)
    value = _value(kind, text.strip("'"))
    return Point(value, value)


def _leaf(kind: str, text: str) -> Leaf:
    field = Field(("x",), TYPES[kind])
    if text.endswith("unless null"):
        return NotNullLeaf(field, text.startswith("true"))
    _, operator, rest = text.split(" ", 2)
    match operator:
        case "is":
            return IsNullLeaf(field)
        case "like":
            prefix, _, behind = rest.strip("'").partition("%")
            return PrefixLeaf(field, prefix.encode(), whole=not behind)
        case "in":
            listed = re.split(r",\s+", rest.strip("()"))
            points = tuple(_point(kind, option) for option in listed if option != "null")
            return InLeaf(field, points, has_null="null" in listed)
        case _:
            return CompareLeaf(field, Operator(operator), _point(kind, rest))


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "row", rows("column_stats.txt", 9), ids=lambda row: f"{row.place} {' '.join(row.cells)}"
)
def test_evidence(row: Row) -> None:
    kind, *stats, predicate, expected = row.cells
    leaf = _leaf(kind, predicate)
    evidence = evidence_of([_record(kind, *stats)], leaf.field)
    here, _, in_trino = expected.partition("|")
    assert outcomes(evidence, leaf, DUCKDB) == [here]
    assert outcomes(evidence, leaf, SPARK) == [here]
    assert outcomes(evidence, leaf, TRINO) == [in_trino or here]
