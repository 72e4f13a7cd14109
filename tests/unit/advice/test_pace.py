"""What there is time for, by a clock that the test controls."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.advice.forecast import DATA, LAYOUTS, ROWS, Pace


class Clock:
    """Stands still, unless each reading advances it."""

    def __init__(self, step: float = 0.0) -> None:
        self.now = 0.0
        self.step = step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """100 files: days in file order, keys scattered."""
    keys = np.random.default_rng(3).permutation(5000)
    for number in range(100):
        rows = slice(number * 50, number * 50 + 50)
        table = pa.table({"day": [number] * 50, "key": keys[rows].tolist()})
        path = tmp_path / "lake" / f"{number:03}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table, path)
        os.utime(path, (1_600_000_000, 1_600_000_000))
    return tmp_path / "lake"


def test_shares_of_the_time_end_one_after_the_other() -> None:
    clock = Clock()
    pace = Pace(10.0, clock=clock)
    assert not pace.is_over(ROWS)
    clock.now = 10 * ROWS
    assert pace.is_over(ROWS)
    assert not pace.is_over(DATA)
    clock.now = 10.0
    assert pace.is_over(LAYOUTS)
    assert not Pace(None, clock=clock).is_over(ROWS)


def test_pieces_are_all_there_while_there_is_time_and_one_in_any_case() -> None:
    told: list[tuple[int, int]] = []
    pieces = list(Pace(10.0, lambda *at: told.append(at), Clock()).pieces(200, 0.5, 0.7))
    assert pieces[:3] == [(0, 1), (1, 3), (3, 7)]
    assert pieces[-1][1] == 200
    assert max(stop - start for start, stop in pieces) == 64
    assert told[-1] == (70, 100)
    assert list(Pace(None).pieces(200, 0.5, 0.7)) == [(0, 200)]
    late = Clock()
    pace = Pace(10.0, clock=late)
    late.now = 11.0
    assert list(pace.pieces(200, 0.5, 0.7)) == [(0, 1)]
    assert list(pace.pieces(0, 0.5, 0.7)) == []


@pytest.mark.slow
def test_enough_time_gives_the_advice_that_no_budget_gives(lake: Path) -> None:
    table = pruner.open_table(str(lake))
    plans = [table.plan("day = 7"), table.plan("key = 4711"), table.plan("day > 90")]
    whole, paced = table.advise(plans), table.advise(plans, budget=Pace(10.0, clock=Clock()))
    assert paced.sampled == whole.sampled == 100
    assert [each.files_then for each in paced.questions] == [each.files_then for each in whole.questions]
    assert [each.sql for each in paced.proposals] == [each.sql for each in whole.proposals]
    assert paced.notes == whole.notes


@pytest.mark.slow
def test_short_time_judges_fewer_files_and_says_so(lake: Path) -> None:
    table = pruner.open_table(str(lake))
    plans = [table.plan("day = 7"), table.plan("key = 4711")]
    advice = table.advise(plans, budget=Pace(10.0, clock=Clock(step=0.5)))
    assert 0 < advice.sampled < 100
    (note,) = [each for each in advice.notes if each.startswith("10 s sufficed for ")]
    assert f"{advice.sampled} of the 100 files of the sample" in note
    assert "a larger budget judges by more" in note
    # A sample never shows that there is nothing to read.
    assert all(each.files_then >= 1 for each in advice.questions)


@pytest.mark.slow
def test_a_budget_of_zero_is_not_a_failure(lake: Path) -> None:
    table = pruner.open_table(str(lake))
    for plans in ([], [table.plan("day = 7")]):
        advice = table.advise(plans, budget=Pace(0.001, clock=Clock(step=1.0)))
        assert advice.sampled == 1
        assert "no layout by day" in " ".join(advice.notes)


@pytest.mark.slow
def test_columns_for_which_time_was_short_are_named(lake: Path) -> None:
    """They are not presented as if no index helped them."""
    table = pruner.open_table(str(lake))
    plans = [table.plan("day = 7"), table.plan("key = 4711")]
    clock = Clock()
    pace = Pace(10.0, lambda done, _: setattr(clock, "step", 20.0 if done >= 70 else 0.0), clock)
    advice = table.advise(plans, budget=pace)
    assert len(advice.proposals) == 1
    (late,) = {"day", "key"} - {each.column for each in advice.proposals}
    (note,) = [each for each in advice.notes if "did not suffice" in each]
    assert note.startswith(f"10 s did not suffice to judge indexes on {late}: ")
    assert "does not say that none would help" in note


@pytest.mark.slow
def test_sampling_that_took_too_long_leaves_time_to_choose(lake: Path) -> None:
    table = pruner.open_table(str(lake))
    plans = [table.plan("day = 7"), table.plan("key = 4711")]
    clock = Clock()
    pace = Pace(10.0, lambda done, _: setattr(clock, "now", 11.0 if done >= 70 else 0.0), clock)
    advice = table.advise(plans, budget=pace)
    assert {each.column for each in advice.proposals} == {"day", "key"}
    assert not [each for each in advice.notes if "did not suffice" in each]
    whole = table.advise(plans)
    assert [each.sql for each in advice.proposals] == [each.sql for each in whole.proposals]
