"""Comparisons by runs of slices, compared with plain ones."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.indexes.column_stats.comparisons import LEAST_RUNS, RUN, RunBounds

RELATIONS = (np.less, np.less_equal, np.greater, np.greater_equal)
COUNT = LEAST_RUNS * RUN + 17


def _bounds(layout: str, dtype: str) -> np.ndarray:
    ascending = np.arange(COUNT) // 3
    values = {
        "ascending": ascending,
        "descending": ascending[::-1],
        "scattered": np.random.default_rng(1).permutation(ascending),
        "steps": ascending // RUN * RUN,
        "constant": np.full(COUNT, 40),
    }[layout]
    return values.astype(dtype)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("dtype", ["int32", "int64", "float64"])
@pytest.mark.parametrize("layout", ["ascending", "descending", "scattered", "steps", "constant"])
def test_same_as_plain(layout: str, dtype: str) -> None:
    values = _bounds(layout, dtype)
    runs = RunBounds.of(values)
    assert runs is not None
    edges = [values[0], values[-1], values[RUN], values[5 * RUN - 1], values.min() - 1, values.max() + 1, 40]
    for key in [edge.item() if isinstance(edge, np.generic) else edge for edge in edges] + [2**40, -(2**40)]:
        for relation in RELATIONS:
            assert np.array_equal(runs.compare(relation, key), relation(values, key)), (relation, key)


@given(key=st.integers(-5, COUNT // 3 + 5), holes=st.lists(st.integers(0, COUNT - 1), max_size=30))
def test_nan_never_excludes_a_neighbour(key: int, holes: list[int]) -> None:
    values = _bounds("ascending", "float64")
    values[holes] = np.nan
    runs = RunBounds.of(values)
    assert runs is not None
    for relation in RELATIONS:
        plain = relation(values, key)
        assert not (plain & ~runs.compare(relation, key)).any()
        differing = plain != runs.compare(relation, key)
        assert np.isnan(values[differing]).all()


def test_a_run_of_nan() -> None:
    values = _bounds("ascending", "float64")
    values[RUN : 3 * RUN] = np.nan
    runs = RunBounds.of(values)
    assert runs is not None
    for relation in RELATIONS:
        assert np.array_equal(runs.compare(relation, 10 * RUN), relation(values, 10 * RUN))


def test_few_slices_have_no_runs() -> None:
    assert RunBounds.of(np.arange(LEAST_RUNS * RUN - 1)) is None
