"""How long tests wait for what must come: much longer than it ever takes, so that no outcome depends on the machine."""

from __future__ import annotations

import time
from collections.abc import Callable

from pruner.service import Limits

PATIENCE = 300.0
"""Seconds after which a test gives up. A machine with much else to do has taken 100 times the usual time."""

PATIENT = Limits(
    head_seconds=PATIENCE,
    body_seconds=PATIENCE,
    plan_seconds=PATIENCE,
    wait_seconds=PATIENCE,
    idle_seconds=300,
)
"""Limits of a service that refuses nobody because the machine is slow."""

_POLL_SECONDS = 0.02


def until(condition: Callable[[], bool], what: str | Callable[[], str] = "it") -> None:
    """Wait until a condition holds; the failure says what did not come about."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        told = what if isinstance(what, str) else what()
        assert time.monotonic() < deadline, f"{told} did not come about in {PATIENCE:g} seconds"
        time.sleep(_POLL_SECONDS)
