"""Column statistics of a million slices: loading the records, and evaluating one leaf over all slices at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from benchmarks.lakes.records import CARRIERS, float_records, integer_records, string_records
from benchmarks.timing import medians
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, Leaf, Point
from pruner.expr.nodes import Operator
from pruner.expr.semantics import Semantics
from pruner.indexes.base import Evidence
from pruner.indexes.registry import index_type
from pruner.schema import Field
from pruner.verdict import Outcome

SLICES = 1_000_000
RUNS = 21
LISTED = 100


def run(console: Console) -> None:
    """Measure =, > and IN on integers, doubles and strings."""
    grid = Grid(
        title=f"column statistics of {SLICES:,} slices; loading once, then ns per slice of one leaf TRUE"
    )
    for heading in ("type", "load s", "=", ">", f"IN ({LISTED} values)", "IN among 1 % of them"):
        grid.add_column(heading, justify="right")
    for name, (field, records, values) in _columns().items():
        started = time.perf_counter()
        evidence = index_type("column_stats").load(records, SLICES, field)
        loaded = time.perf_counter() - started
        times = medians(_questions(evidence, field, values), RUNS, warmups=2)
        shown = [f"{times[key] / SLICES * 1e9:.3f}" for key in ("equal", "greater", "listed", "some")]
        grid.add_row(name, f"{loaded:.2f}", *shown)
    console.print(grid)


def _columns() -> dict[str, tuple[Field, pa.Table, list[Any]]]:
    """For each type, a field, its records, and 100 values within the bounds."""
    rng = np.random.default_rng(5)
    small = rng.integers(0, 10_000_000, SLICES)
    large = small * (1 << 33)
    doubles = rng.normal(0, 1000, SLICES)
    codes = rng.integers(0, len(CARRIERS) - 4, SLICES)
    picked = rng.choice(SLICES, LISTED, replace=False)
    texts = np.char.add(CARRIERS[codes], rng.integers(0, 1000, SLICES).astype(str))
    return {
        "int64, fits 32 bits": (
            Field(("n",), pa.int64()),
            integer_records(small, small + 50),
            [int(small[at]) for at in picked],
        ),
        "int64": (
            Field(("n",), pa.int64()),
            integer_records(large, large + 50),
            [int(large[at]) for at in picked],
        ),
        "double": (
            Field(("x",), pa.float64()),
            float_records(doubles, doubles + 1.5),
            [float(doubles[at]) for at in picked],
        ),
        "string": (
            Field(("s",), pa.string()),
            string_records(texts, np.char.add(texts, "z")),
            [str(texts[at]).encode() for at in picked],
        ),
    }


def _questions(evidence: Evidence, field: Field, values: list[Any]) -> dict[str, Callable[[], Any]]:
    semantics = Semantics.of("duckdb")
    points = tuple(Point(value, value) for value in values)
    among = np.arange(0, SLICES, 100)

    def ask(leaf: Leaf, at: Any = None) -> Callable[[], Any]:
        answer = evidence.possible(leaf, Outcome.TRUE, semantics, at)
        assert answer is not None
        assert 0 < np.count_nonzero(answer) < len(answer)
        return lambda: evidence.possible(leaf, Outcome.TRUE, semantics, at)

    equal = CompareLeaf(field, Operator.EQ, points[0])
    return {
        "equal": ask(equal),
        "greater": ask(CompareLeaf(field, Operator.GT, points[0])),
        "listed": ask(InLeaf(field, points)),
        "some": ask(InLeaf(field, points), among),
    }
