"""The slices left after each step, and which step dropped each slice, compared with plain masks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pruner.planning.survivors import GATHER_BELOW, Survivors

SHARES = st.sampled_from([0.0, 0.01, 0.2, 0.5, 0.9, 1.0])


@given(total=st.integers(0, 70), shares=st.lists(SHARES, max_size=6), seed=st.integers(0, 2**32 - 1))
def test_steps_against_plain_masks(total: int, shares: list[float], seed: int) -> None:
    rng = np.random.default_rng(seed)
    survivors = Survivors(total)
    alive = np.ones(total, np.bool_)
    dropped_by = np.zeros(total, np.int32)
    chosen = rng.random(total) < 0.5
    for step, share in enumerate(shares, start=1):
        wanted = rng.random(total) < share
        survivors.keep(wanted if survivors.at is None else wanted[survivors.at], step)
        dropped_by[alive & ~wanted] = step
        alive &= wanted
        assert survivors.left == np.count_nonzero(alive)
        assert survivors.count_in(chosen) == np.count_nonzero(alive & chosen)
    assert survivors.mask().tolist() == alive.tolist()
    assert survivors.ordinals().tolist() == np.flatnonzero(alive).tolist()
    assert survivors.dropped_by().tolist() == dropped_by.tolist()


def test_few_survivors_become_ordinals() -> None:
    survivors = Survivors(100)
    survivors.keep(np.arange(100) < 100 * GATHER_BELOW, 1)
    assert survivors.at is None
    survivors.keep(np.arange(100) % 2 == 0, 2)
    assert survivors.at is not None
    assert survivors.at.tolist() == list(range(0, 25, 2))


@pytest.mark.parametrize("share", [0.1, 1.0])
def test_a_mask_that_was_given_or_taken_is_not_shared(share: float) -> None:
    wanted = np.arange(10) < 10 * share
    survivors = Survivors(10)
    survivors.keep(wanted, 1)
    before = wanted.copy()
    survivors.keep(
        np.zeros(survivors.left, np.bool_) if survivors.at is not None else np.zeros(10, np.bool_), 2
    )
    other = Survivors(10)
    other.keep(wanted, 1)
    taken = other.mask()
    taken[:] = False
    assert wanted.tolist() == before.tolist()
    assert other.mask().tolist() == before.tolist()


def test_more_steps_than_small_integers_count() -> None:
    survivors = Survivors(3)
    survivors.keep(np.array([True, True, False]), 40_000)
    assert survivors.dropped_by().tolist() == [0, 0, 40_000]
