"""The real commits under thousands of schedules: whatever interleaves and fails, the result matches a serial order."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from tests.protocol.mutations import MUTATIONS, Patch
from tests.protocol.schedules import first_problem
from tests.support.running.profiles import examples, seed

if TYPE_CHECKING:
    from collections.abc import Callable

_PARTS = 8
_SCHEDULES = 1_250
_TRIED = 30_000
"""Schedules within which a mutation must be noticed; most need a few."""
_FROM = {"_one_look": 12_200, "_only_the_newest_in_use": 85_500, "_vanished_entry_is_no_table": 46_500}
"""Where to begin for mutations that only one schedule in 10,000 or more notices: not far before it. `make soak` runs a
million from 0 on."""


@pytest.mark.sampled(5)
@pytest.mark.parametrize("part", range(_PARTS))
def test_as_if_one_operation_followed_the_other(part: int) -> None:
    first = seed() * 1_000_000 + part * 100_000
    assert first_problem(range(first, first + examples(_SCHEDULES))) is None


@pytest.mark.load
@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_mutation_is_noticed(mutation: Callable[[], Patch]) -> None:
    first = _FROM.get(mutation.__name__, 0)
    with patch.object(*mutation()):
        assert first_problem(range(first, first + _TRIED)) is not None
