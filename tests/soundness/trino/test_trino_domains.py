"""Trino's domains and expressions over random tables: files with a wanted row stay, files that bounds exclude do not.

A scalar evaluation of `Domain.includesNullableValue` and of expressions in Kleene's logic
(`tests.soundness.trino.trino_columns`) defines the wanted rows; the plans come from the bytes that the plugin would
send. A failure prints the example; `--hypothesis-seed` as printed repeats it.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pruner
from pruner.expr.semantics import Semantics
from pruner.planning.pinned import PinnedSnapshot
from pruner_trino import decode_request
from tests.soundness.kinds import Value
from tests.soundness.trino.trino_columns import COLUMNS, TrinoColumn, is_nan
from tests.support.running import profiles
from tests.support.trino.predicates import COMPARISONS, domain, encoded

TRINO = Semantics.of("trino")
FILES = 10
SENT = {column.name: column.type for column in COLUMNS}


@dataclass(frozen=True)
class Lake:
    """A table of all columns: stored values by file and column, NULL being None."""

    pinned: PinnedSnapshot
    files: dict[str, dict[str, list[Value]]]

    def stored(self, column: TrinoColumn) -> list[Value]:
        """All values of a column that are neither NULL nor NaN."""
        found = [value for file in self.files.values() for value in file[column.name]]
        return [value for value in found if value is not None and not is_nan(value)]

    def kept(self, content: bytes) -> set[str]:
        """The files that a plan keeps."""
        return set(self.pinned.plan(decode_request(content, TRINO), semantics=TRINO).files)


def _column(rng: random.Random, column: TrinoColumn, number: int) -> list[Value]:
    nulls = rng.choice([0.0, 0.0, 0.2, 1.0])
    center = number / FILES
    constant = column.kind.draw(rng, center) if rng.random() < 0.3 else None
    rows = [column.kind.draw(rng, center) if constant is None else constant for _ in range(8)]
    if column.type in ("real", "double") and rng.random() < 0.3:
        count = rng.choice([1, 8])
        rows[:count] = [float("nan")] * count
    return [None if rng.random() < nulls else value for value in rows]


def _write(rng: random.Random, root: Path) -> Lake:
    root.mkdir()
    files: dict[str, dict[str, list[Value]]] = {}
    for number in range(FILES):
        values = {column.name: _column(rng, column, number) for column in COLUMNS}
        arrays = {
            column.name: pa.array(
                [None if value is None else column.kind.to_arrow(value) for value in values[column.name]],
                column.kind.type,
            )
            for column in COLUMNS
        }
        path = root / f"part-{number}.parquet"
        pq.write_table(pa.table(arrays), path)
        files[str(path)] = values
    table = pruner.open_table(root)
    table.create_index("stats", on="*")
    return Lake(table.snapshot(), files)


@pytest.fixture(scope="module")
def lakes(tmp_path_factory: pytest.TempPathFactory) -> list[Lake]:
    """Three tables that differ in their values."""
    root = tmp_path_factory.mktemp("lakes")
    return [_write(random.Random(seed), root / str(seed)) for seed in range(3)]


@dataclass(frozen=True)
class Span:
    """A range of values in Trino; None is an open end."""

    low: Value | None
    low_inclusive: bool
    high: Value | None
    high_inclusive: bool

    def holds(self, value: Value, column: TrinoColumn) -> bool:
        """Whether a value, not NaN, lies inside."""
        order = column.order
        above = self.low is None or order(value) > order(self.low)
        below = self.high is None or order(value) < order(self.high)
        return (above or (self.low_inclusive and order(value) == order(self.low))) and (
            below or (self.high_inclusive and order(value) == order(self.high))
        )

    def sent(self, column: TrinoColumn) -> dict[str, Any]:
        """The range on the wire."""
        low = None if self.low is None else {"value": column.sent(self.low), "inclusive": self.low_inclusive}
        high = (
            None if self.high is None else {"value": column.sent(self.high), "inclusive": self.high_inclusive}
        )
        return {"low": low, "high": high}

    def misses(self, column: TrinoColumn, least: Value, greatest: Value) -> bool:
        """Whether bounds of stored values prove that none lies inside."""
        if self.low is not None:
            top = column.slack(self.low)[0]
            if greatest < top or (column.exact and greatest == top and not self.low_inclusive):
                return True
        if self.high is not None:
            top = column.slack(self.high)[1]
            if least > top or (column.exact and least == top and not self.high_inclusive):
                return True
        return False


def _spans(rng: random.Random, column: TrinoColumn, values: list[Value]) -> list[Span]:
    """Disjoint ranges in order: runs of the chosen points and of the chosen gaps between them."""
    drawn = [column.near(rng, rng.choice(values)) for _ in range(rng.randint(1, 4))]
    points = [value for _, value in sorted({column.order(value): value for value in drawn}.items())]
    cells = 2 * len(points) + 1
    share = rng.random()
    chosen = [rng.random() < share for _ in range(cells)]
    runs = [list(run) for wanted, run in groupby(range(cells), key=lambda cell: chosen[cell]) if wanted]
    return [
        Span(
            None if run[0] == 0 else points[(run[0] - 1) // 2],
            run[0] % 2 == 1,
            None if run[-1] == cells - 1 else points[run[-1] // 2],
            run[-1] % 2 == 1,
        )
        for run in runs
    ]


@given(rng=st.randoms(use_true_random=False), number=st.integers(0, 2))
@settings(max_examples=profiles.examples(400))
def _domains_keep(lakes: list[Lake], tally: Counter[str], rng: random.Random, number: int) -> None:
    lake = lakes[number]
    column = rng.choice(COLUMNS)
    spans = _spans(rng, column, lake.stored(column))
    null_allowed = rng.random() < 0.3
    values = {"kind": "ranges", "ranges": [span.sent(column) for span in spans]}
    content = encoded([domain(column.name, values, null_allowed=null_allowed)], SENT)
    kept = lake.kept(content)
    complement = bool(spans) and spans[0].low is None and spans[-1].high is None

    def wanted(stored: Value) -> bool:
        if stored is None:
            return null_allowed
        if is_nan(stored):
            return complement
        return any(span.holds(column.read(stored), column) for span in spans)

    def provable(stored: list[Value]) -> bool:
        """Bounds and counts of a file prove that it holds no wanted row."""
        numbers = [value for value in stored if value is not None and not is_nan(value)]
        if (null_allowed and None in stored) or (complement and any(map(is_nan, stored))):
            return False
        ends = [end for span in spans for end in (span.low, span.high) if end is not None]
        if not all(map(column.certain, ends)):
            return False
        return not numbers or all(span.misses(column, min(numbers), max(numbers)) for span in spans)

    for file, stored in lake.files.items():
        values_there = stored[column.name]
        told = f"{column.name} {values} null_allowed={null_allowed}: {values_there}"
        assert file in kept or not any(map(wanted, values_there)), f"LOST {told}"
        assert file not in kept or not provable(values_there), f"kept without need {told}"
    tally["plans"] += 1
    tally["telling"] += 0 < len(kept) < FILES


def test_domains_keep_what_may_match_and_drop_what_cannot(
    lakes: list[Lake], record_property: Callable[[str, object], None]
) -> None:
    """Random ranges over random columns."""
    tally: Counter[str] = Counter()
    _domains_keep(lakes, tally)
    record_property("figure", f"{tally['plans']:,} domains; {tally['telling']:,} keep some files but not all")
    assert tally["telling"] >= 0.3 * tally["plans"]


Truth = bool | None
Test = tuple[dict[str, Any], Callable[[dict[str, Value]], Truth]]


def _call(function: str, *arguments: Any) -> dict[str, Any]:
    return {"node": "call", "function": function, "type": "boolean", "arguments": list(arguments)}


def _compared(function: str, column: TrinoColumn, stored: Value, constant: Value) -> Truth:
    if stored is None or constant is None:
        return None
    read = column.read(stored)
    if is_nan(read):
        return function == "$not_equal"
    return COMPARISONS[function](column.order(read), column.order(constant))


def _leaf(rng: random.Random, lake: Lake) -> Test:
    column = rng.choice(COLUMNS)
    name = column.name
    node = {"node": "column", "column": name, "type": column.type}
    values = [column.near(rng, rng.choice(lake.stored(column))) for _ in range(3)]

    def constant(value: Value) -> dict[str, Any]:
        return {
            "node": "constant",
            "type": column.type,
            "value": None if value is None else column.sent(value),
        }

    match rng.choice(["null", "in", "identical", *COMPARISONS]):
        case "null":
            return _call("$is_null", node), lambda row: row[name] is None
        case "in":
            options = [*values, None] if rng.random() < 0.1 else values
            array = {**_call("$array", *map(constant, options)), "type": f"array({column.type})"}
            return _call("$in", node, array), lambda row: _any(
                _compared("$equal", column, row[name], option) for option in options
            )
        case "identical":
            return _call("$identical", node, constant(values[0])), lambda row: bool(
                _compared("$equal", column, row[name], values[0])
            )
        case function:
            return _call(function, node, constant(values[0])), lambda row: _compared(
                function, column, row[name], values[0]
            )


def _any(truths: Iterator[Truth]) -> Truth:
    seen = list(truths)
    return True if True in seen else None if None in seen else False


def _tree(rng: random.Random, lake: Lake, depth: int = 0) -> Test:
    roll = rng.random()
    if depth == 3 or roll < 0.35:
        return _leaf(rng, lake)
    if roll < 0.55:
        node, truth = _tree(rng, lake, depth + 1)
        return _call("$not", node), lambda row: None if (inner := truth(row)) is None else not inner
    parts = [_tree(rng, lake, depth + 1) for _ in range(rng.randint(2, 3))]
    nodes, truths = [node for node, _ in parts], [truth for _, truth in parts]
    if roll < 0.8:
        return _call("$or", *nodes), lambda row: _any(truth(row) for truth in truths)
    return (
        _call("$and", *nodes),
        lambda row: (
            None
            if (found := _any(None if (one := truth(row)) is None else not one for truth in truths)) is None
            else not found
        ),
    )


@given(rng=st.randoms(use_true_random=False), number=st.integers(0, 2))
@settings(max_examples=profiles.examples(400))
def _expressions_keep(lakes: list[Lake], tally: Counter[str], rng: random.Random, number: int) -> None:
    lake = lakes[number]
    node, truth = _tree(rng, lake)
    kept = lake.kept(encoded([], SENT, node))
    for file, stored in lake.files.items():
        rows = [dict(zip(stored, row, strict=True)) for row in zip(*stored.values(), strict=True)]
        matching = [row for row in rows if truth(row) is True]
        assert file in kept or not matching, f"LOST {node}: {matching[0]}"
    tally["plans"] += 1
    tally["telling"] += 0 < len(kept) < FILES


def test_expressions_keep_what_may_match(
    lakes: list[Lake], record_property: Callable[[str, object], None]
) -> None:
    """Random trees of AND, OR and NOT over comparisons, lists and NULL tests of random columns."""
    tally: Counter[str] = Counter()
    _expressions_keep(lakes, tally)
    record_property(
        "figure", f"{tally['plans']:,} expressions; {tally['telling']:,} keep some files but not all"
    )
    assert tally["telling"] >= 0.3 * tally["plans"]
