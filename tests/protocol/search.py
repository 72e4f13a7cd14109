"""Visits every state of the model, breadth first, and reports the shortest path to a faulty one."""

from __future__ import annotations

from collections import deque

from tests.protocol.model import Scope, State, Writer, problem, steps


def search(scope: Scope, flaw: str | None = None, limit: int = 1_000_000) -> tuple[int, list[str] | None]:
    """Visit every reachable state; return their number, and the path to the first one with a problem."""
    start = State(scope, (Writer(),) * scope.writers)
    came: dict[State, tuple[State, str] | None] = {start: None}
    queue = deque([start])
    while queue:
        state = queue.popleft()
        wrong = problem(state)
        if wrong is not None:
            return len(came), [*_way(state, came), wrong]
        for step, following in steps(state, flaw):
            if following not in came:
                came[following] = (state, step)
                queue.append(following)
        if len(came) > limit:
            raise AssertionError(f"more than {limit} states: the model is too large")
    return len(came), None


def _way(state: State, came: dict[State, tuple[State, str] | None]) -> list[str]:
    steps: list[str] = []
    at = came[state]
    while at is not None:
        steps.append(at[1])
        at = came[at[0]]
    return steps[::-1]
