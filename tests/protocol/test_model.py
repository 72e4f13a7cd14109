"""The commit protocol as a model: no reachable state is wrong, and a flaw in any rule leads to one that is."""

from __future__ import annotations

import pytest

from tests.protocol.model import FLAWS, SCOPES, Scope
from tests.protocol.search import search
from tests.support.running.profiles import IS_FIXED

_LARGER = (
    Scope(writers=2, others=2, ticks=2, vacuum=True),
    Scope(writers=1, others=5, ticks=3, faults=2, vacuum=True, plain=True),
)
"""What `make fuzz` and `make soak` search as well."""


@pytest.mark.load
@pytest.mark.parametrize("scope", SCOPES if IS_FIXED else (*SCOPES, *_LARGER))
def test_no_reachable_state_is_wrong(scope: Scope) -> None:
    visited, way = search(scope, limit=10_000_000)
    assert way is None
    assert visited > 50


@pytest.mark.load
@pytest.mark.parametrize("flaw", FLAWS)
def test_a_flaw_leads_to_a_wrong_state(flaw: str) -> None:
    assert any(search(scope, flaw)[1] is not None for scope in SCOPES)
