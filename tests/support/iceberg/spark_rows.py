"""Rows that match conditions, of one read by Spark that has no condition: nothing can be skipped by any."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def rows_by_condition(frame: DataFrame, conditions: Sequence[str]) -> Mapping[str, list[tuple[Any, ...]]]:
    """The rows of a frame, by each of some conditions for which they are true; all of it takes one job of Spark."""
    flags = [f"({text}) AS pruner_{number}" for number, text in enumerate(conditions)]
    width = len(frame.columns)
    rows = [tuple(row) for row in frame.selectExpr("*", *flags).collect()]
    return {
        text: [row[:width] for row in rows if row[width + number]] for number, text in enumerate(conditions)
    }
