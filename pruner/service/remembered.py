"""Answers to questions that are asked again: dashboards send the same scans of a table that has not changed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from pruner.bounded_cache import BoundedCache

if TYPE_CHECKING:
    from collections.abc import Callable

    from pruner.planning.pinned import PinnedSnapshot
    from pruner.service.journal import Outcome

TABLE_BYTES = 8 * 1024 * 1024
"""Memory for the answers about one table; those asked for last stay."""

MADE_BYTES = 512
"""What an answer takes besides its content and its place in the cache: what came of its plan, and its counters."""

KEPT_SECONDS = 60.0
"""An answer stays right, but `ts > now() - INTERVAL 1 HOUR` leaves out more when it is planned again later."""


class Made(NamedTuple):
    """An answer, what came of its plan, by what id its slices' keys are known, and what counts it once more among the
    plans that asked their indexes.
    """

    outcome: Outcome
    answer: bytes
    keys_id: str
    count_again: Callable[[], None]


class _Answers(NamedTuple):
    snapshot: PinnedSnapshot
    made: BoundedCache[bytes, tuple[float, Made]]


class Remembered:
    """Answers by table and request, as long as the table and its indexes stand as they stood. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tables: dict[str, _Answers] = {}

    def made(self, table: str, snapshot: PinnedSnapshot, body: bytes) -> Made | None:
        """The answer to the very same request over the same snapshot and indexes, if it was made lately."""
        answers = self._tables.get(table)
        if answers is None or not answers.snapshot.plans_as(snapshot):
            return None
        found = answers.made.get(body)
        return found[1] if found is not None and self._clock() - found[0] < KEPT_SECONDS else None

    def remember(self, table: str, snapshot: PinnedSnapshot, body: bytes, made: Made) -> None:
        """Remember an answer; those about other states of the table are forgotten."""
        answers = self._tables.get(table)
        if answers is None or not answers.snapshot.plans_as(snapshot):
            answers = self._tables[table] = _Answers(snapshot, BoundedCache(TABLE_BYTES))
        told = len(made.outcome.shape) + sum(len(reason) for reason in made.outcome.fallbacks)
        # Requests are compared whole, so that no other one can be taken for it.
        answers.made.put(body, (self._clock(), made), len(body) + len(made.answer) + told + MADE_BYTES)
