"""Remainders against bounds, compared with every value between them."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pruner.expr.bound.predicates import Point, RecurringLeaf
from pruner.indexes.column_stats.comparisons import meet, possible_remainders
from pruner.schema import Field
from pruner.verdict import Outcome
from tests.support.parquet.column_stats import evidence_of_files, outcomes, write_column
from tests.unit.expr.outcomes import outcomes as outcomes_of_value

PERIODS = (1, 2, 3, 7)
BOUNDS = [(low, high) for low in range(-9, 10) for high in range(low, 10)]
X = Field(("x",), pa.int64())


def _leaves(period: int) -> list[RecurringLeaf]:
    points = [
        Point(low, low + length, exact=exact)
        for low in range(period)
        for length in range(period)
        for exact in (True, False)
    ]
    pairs = itertools.islice(itertools.combinations(points, 2), 0, None, 7)
    return [RecurringLeaf(X, period, listed) for listed in (*((point,) for point in points), *pairs)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("period", PERIODS)
def test_what_bounds_leave_possible_is_what_some_value_between_them_has(period: int):
    low, high = np.array(BOUNDS).T
    for leaf in _leaves(period):
        of_values = {value: outcomes_of_value(leaf, value) for value in range(-9, 10)}
        for outcome, truth in ((Outcome.TRUE, True), (Outcome.FALSE, False)):
            found = meet(low, high, period, possible_remainders(leaf, outcome))
            wanted = [any(truth in of_values[v] for v in range(first, last + 1)) for first, last in BOUNDS]
            assert found.tolist() == wanted, (leaf, outcome)


def test_bounds_at_the_ends_of_the_type():
    least, greatest = -(2**63), 2**63 - 1
    low = np.array([least, greatest, least, greatest - 1, least])
    high = np.array([least, greatest, greatest, greatest, least + 1])
    wanted = [(least % 8) == 7, (greatest % 8) == 7, True, True, False]
    assert meet(low, high, 8, [Point(7, 7)]).tolist() == wanted
    far = meet(low, high, 2**62, [Point(5, 6)])
    assert far.tolist() == [False, False, True, False, False]


def test_evidence_of_files(tmp_path: Path):
    files = [[9, 10, None], [16, 18], [None, None], [-3, -1]]
    paths = [
        write_column(tmp_path / f"{n}.parquet", pa.array(values, pa.int64()))
        for n, values in enumerate(files)
    ]
    evidence = evidence_of_files(paths, X)
    assert outcomes(evidence, RecurringLeaf(X, 8, (Point(1, 2),))) == ["tn", "tf", "n", "f"]
    assert outcomes(evidence, RecurringLeaf(X, 8, (Point(1, 2, exact=False),)))[0] == "tfn"
