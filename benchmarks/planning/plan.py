"""`table.plan` from predicate text to file list, beside the evidence alone and Polars on the same statistics.

Every call has its own literal, as queries do, so that no plan starts from a cached parse.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.lakes.lake import Bounds, index_with, link_tree, made_up_bounds
from benchmarks.lakes.records import ROWS_PER_FILE
from benchmarks.timing import medians
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.binding.bind import bind
from pruner.expr.bound.value_lists import conditions
from pruner.expr.semantics import Semantics
from pruner.expr.text.sql import parse_predicate
from pruner.metadata.segment_cache import SegmentCache
from pruner.metadata.table import MetadataTable
from pruner.planning.pinned import PinnedSnapshot
from pruner.storage.opening import open_store
from pruner.table import Table
from pruner.verdict import Outcome

FILE_COUNTS = (10_000, 100_000, 1_000_000)
RUNS = 41
FRESH_RUNS = 5
TEXTS = 400
AIM_AGAINST_POLARS = 2.0
AIM_GROWTH = 5.0

COLUMNS = {
    "new": "pinned",
    "again": "pinned, text seen before",
    "kernel": "evidence alone",
    "polars": "polars",
    "fresh": "with freshness check",
}

Times = dict[str, float]


class Predicates:
    """One predicate in `TEXTS` variants that keep the same files: as text, and as what Polars evaluates."""

    def __init__(self, variants: list[tuple[str, Callable[[], pl.Expr]]]) -> None:
        self.text = variants[0][0]
        self._texts = cycle([text for text, _ in variants])
        self._conditions = cycle([condition for _, condition in variants])

    def next_text(self) -> str:
        """The text of the next variant."""
        return next(self._texts)

    def next_condition(self) -> pl.Expr:
        """The next variant over minima and maxima."""
        return next(self._conditions)()


def run(console: Console) -> None:
    """Measure two selective predicates at each number of files; BENCH_MAX=100000 skips larger ones."""
    largest = int(os.environ.get("BENCH_MAX", str(FILE_COUNTS[-1])))
    measured = {count: _measure(console, count) for count in FILE_COUNTS if count <= largest}
    for name in ("conjunction", "range"):
        _print(console, name, {count: times[name] for count, times in measured.items()})


def _measure(console: Console, count: int) -> dict[str, Times]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "events"
        link_tree(root, count)
        bounds = made_up_bounds(count)
        table = pruner.open_table(str(root))
        with console.status(f"{count:,} files: first look, which reads every footer"):
            started = time.perf_counter()
            table.snapshot()
            looked = time.perf_counter() - started
        with console.status(f"{count:,} files: writing the records"):
            pinned = index_with(table, bounds)
        # No spinner from here on: its thread would compete for the interpreter with what is measured.
        predicates = {"conjunction": _conjunction(count), "range": _range(count)}
        started = time.perf_counter()
        _files(pinned.plan(predicates["conjunction"].text))
        loaded = time.perf_counter() - started
        console.print(
            f"{count:,} files: first look, with footers, {looked:.2f} s; "
            f"first plan, with loading of records, {loaded:.3f} s"
        )
        return {name: _compare(table, pinned, bounds, each) for name, each in predicates.items()}


def _conjunction(count: int) -> Predicates:
    """One of 676 carriers, in the newest 5,000 files."""

    def variant(least: int) -> tuple[str, Callable[[], pl.Expr]]:
        def condition() -> pl.Expr:
            carrier = (pl.col("carrier_min") <= "AA") & (pl.col("carrier_max") >= "AA")
            return carrier & (pl.col("event_max") > least)

        return f"carrier = 'AA' AND event > {least}", condition

    start = (count - 5000) * ROWS_PER_FILE
    return Predicates([variant(start + number) for number in range(TEXTS)])


def _range(count: int) -> Predicates:
    """A range that three neighboring files hold."""

    def variant(low: int, high: int) -> tuple[str, Callable[[], pl.Expr]]:
        def condition() -> pl.Expr:
            return (pl.col("event_max") >= low) & (pl.col("event_min") <= high)

        return f"event BETWEEN {low} AND {high}", condition

    middle = count // 2 * ROWS_PER_FILE
    return Predicates([variant(middle - 1 - k, middle + ROWS_PER_FILE + k) for k in range(TEXTS)])


def _compare(table: Table, pinned: PinnedSnapshot, bounds: Bounds, predicates: Predicates) -> Times:
    frame = pl.DataFrame(
        {
            "file": pl.from_arrow(pinned.data.columns.column("base_file")),
            "event_min": bounds.event_min,
            "event_max": bounds.event_max,
            "carrier_min": pl.Series(bounds.carrier_min.astype(str)),
            "carrier_max": pl.Series(bounds.carrier_max.astype(str)),
        }
    )

    def with_polars() -> list[str]:
        return frame.lazy().filter(predicates.next_condition()).select("file").collect()["file"].to_list()

    kernel = _kernel(table, pinned, predicates.text)
    expected = with_polars()
    assert 0 < len(expected) < 100, len(expected)
    assert sorted(_files(pinned.plan(predicates.text))) == sorted(expected)
    assert sorted(_files(table.plan(predicates.text))) == sorted(expected)
    assert len(kernel()) == len(expected)
    times = medians(
        {
            "new": lambda: _files(pinned.plan(predicates.next_text())),
            "again": lambda: _files(pinned.plan(predicates.text)),
            "kernel": kernel,
            "polars": with_polars,
        },
        RUNS,
        warmups=3,
    )
    times |= medians({"fresh": lambda: _files(table.plan(predicates.next_text()))}, FRESH_RUNS)
    return times | {"files": len(expected)}


def _files(plan: Any) -> list[str]:
    return list(plan.files)


def _kernel(table: Table, pinned: PinnedSnapshot, text: str) -> Callable[[], Any]:
    """The evidence of each conjunct over all files, ANDed: no text, no plan, no report."""
    semantics = Semantics.of("duckdb")
    bound = bind(parse_predicate(text, semantics), pinned.schema, semantics, strict=True)
    leaves: list[Any] = conditions(bound)
    metadata = MetadataTable(open_store(table.index_uri))
    evidence = SnapshotEvidence(pinned.data, metadata.state(), SegmentCache(lambda: metadata))
    sources = [evidence.sources(leaf.field).usable[0] for leaf in leaves]

    def evaluate() -> Any:
        keep = np.ones(len(pinned.data), np.bool_)
        for source, leaf in zip(sources, leaves, strict=True):
            answer = source.possible(leaf, Outcome.TRUE, semantics, None)
            assert answer is not None
            keep &= answer
        return np.flatnonzero(keep)

    return evaluate


def _print(console: Console, name: str, rows: dict[int, Times]) -> None:
    grid = Grid(title=f"plan, {name}: predicate text to file list; medians in ms")
    for heading in ("file groups", "kept", *COLUMNS.values(), "pinned / polars"):
        grid.add_column(heading, justify="right")
    for count, times in rows.items():
        shown = [
            f"{times[key] * 1e3:.3f}" if key != "fresh" else f"{times[key] * 1e3:.1f}" for key in COLUMNS
        ]
        grid.add_row(f"{count:,}", f"{times['files']:.0f}", *shown, f"{times['new'] / times['polars']:.2f}")
    console.print(grid)
    if 100_000 in rows:
        ratio = rows[100_000]["new"] / rows[100_000]["polars"]
        console.print(f"100k, pinned: {ratio:.2f} times polars (aim: at most {AIM_AGAINST_POLARS:g})")
    if 1_000_000 in rows:
        grown = {key: rows[1_000_000][key] / rows[10_000][key] for key in COLUMNS}
        others = ", ".join(f"{COLUMNS[key]} {grown[key]:.1f}" for key in COLUMNS if key != "new")
        console.print(
            f"10k to 1M: pinned grows {grown['new']:.1f} times (aim: at most {AIM_GROWTH:g}); {others}"
        )
