"""The questions for a table when no statements are given."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pruner.advice.questions import RANGE, suggested
from pruner.schema import Field, TableSchema


@pytest.mark.parametrize(
    ("values", "ranges"),
    [
        (pa.array([1] * 60 + [2] * 40), ["x >= 1 AND x < 2"]),
        (pa.array([1] * 40 + [2] * 60), []),
        (pa.array([5] * 100), []),
        (pa.array(range(100)), ["x >= 49 AND x < 51"]),
        (pa.array([1_001] * 60 + [2_002] * 40, pa.timestamp("ns")), ["<"]),
        (pa.array(["a"] * 60 + ["b"] * 40), []),
        (pa.array([3_000_000] * 60 + [3_000_001] * 40, pa.int32()).cast(pa.date32()), ["<"]),
    ],
)
def test_a_range_that_is_suggested_is_not_empty(values: pa.Array[Any], ranges: list[str]) -> None:
    assert RANGE == 0.02
    rows = pa.table({"x": values})
    questions = suggested(rows, TableSchema((Field(("x",), values.type),)))
    found = [question.text for question in questions if "<" in question.text]
    assert len(found) == len(ranges)
    for text, expected in zip(found, ranges, strict=True):
        assert expected in text
