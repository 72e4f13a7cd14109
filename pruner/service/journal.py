"""What the service remembers: the last plans, and answers to repeated requests.

Requests repeat because dashboards send the same scans of a table that has not changed.
"""

from __future__ import annotations

import hashlib
import logging
import re
import time
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from pruner.bounded_cache import BoundedCache
from pruner.showing.words import FILE, counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pruner.planning.pinned import PinnedSnapshot
    from pruner.service.planning import Planned

REMEMBERED_BYTES = 8 * 1024 * 1024
"""Memory for past requests; the most recently used ones stay."""


class ReceivedRequest(NamedTuple):
    """A request as received, and the snapshot that was planned on."""

    body: bytes
    snapshot_id: str


class Reports:
    """Past requests by plan id. Threads may share it."""

    def __init__(self, limit_bytes: int = REMEMBERED_BYTES) -> None:
        self._asked: BoundedCache[str, ReceivedRequest] = BoundedCache(limit_bytes)

    def remember(self, body: bytes, snapshot_id: str) -> str:
        """Remember a request; returns its plan id, the same for the same request on the same snapshot."""
        plan_id = hashlib.sha256(snapshot_id.encode() + b"\0" + body).hexdigest()[:32]
        self._asked.put(plan_id, ReceivedRequest(body, snapshot_id), len(body) + len(snapshot_id))
        return plan_id

    def asked(self, plan_id: str) -> ReceivedRequest | None:
        """The request with a plan id; None if it is unknown or was forgotten."""
        return self._asked.get(plan_id)


KEPT_ENTRIES = 50
"""Number of plans that are shown."""

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
"""Characters that could begin another log line, or change what a terminal shows."""

_log = logging.getLogger("pruner")


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of one plan: the engine that it was made for, the form of its predicate, and how many slices it
    keeps, which are called by `noun`.

    `indexes` are those that left out slices, with the number of slices each.
    """

    plan_id: str
    table: str
    engine: str
    shape: str
    kept: int
    total: int
    indexes: tuple[tuple[str, int], ...]
    fallbacks: tuple[str, ...]
    noun: str = FILE


def outcome_of(planned: Planned, engine: str, plan_id: str) -> PlanOutcome:
    """The outcome of a plan."""
    plan = planned.plan
    indexes = tuple((step.index, step.dropped) for step in plan.steps if step.dropped)
    return PlanOutcome(
        plan_id,
        planned.table,
        engine,
        planned.shape,
        plan.kept,
        plan.total,
        indexes,
        plan.fallbacks,
        plan.snapshot.noun,
    )


@dataclass(frozen=True, slots=True)
class Entry:
    """One answer: the outcome of its plan, the time of the request (seconds since 1970), and how long it took.

    `again` is true if the plan had already been made for the same request.
    """

    outcome: PlanOutcome
    made_at: float
    seconds: float
    again: bool = False

    def line(self) -> str:
        """The plan as one log line."""
        outcome = self.outcome
        by = "".join(f"; {count} by {index}" for index, count in outcome.indexes)
        fallbacks = "".join(f"; {reason}" for reason in outcome.fallbacks)
        kept = (
            f"{outcome.kept} of {counted(outcome.total, outcome.noun)} kept in {self.seconds * 1000:.1f} ms"
        )
        again = " again" if self.again else ""
        return _BREAKS.sub(
            " ", f"table {outcome.table}: {kept} for {outcome.engine}{again}: {outcome.shape}{by}{fallbacks}"
        )


@dataclass(frozen=True, slots=True)
class Lately:
    """The last plans, newest first, and the number of all plans since the service started."""

    entries: tuple[Entry, ...]
    count: int

    def together(self, others: Iterable[Lately]) -> Lately:
        """These plans and those of other workers."""
        every = (self, *others)
        entries = sorted(
            (entry for lately in every for entry in lately.entries), key=lambda entry: -entry.made_at
        )
        return Lately(tuple(entries[:KEPT_ENTRIES]), sum(lately.count for lately in every))


class Journal:
    """The last plans. Threads may share it."""

    def __init__(self) -> None:
        self._entries: deque[Entry] = deque(maxlen=KEPT_ENTRIES)
        self._count = 0

    def record(self, entry: Entry) -> None:
        """Remember a plan, and log it."""
        self._count += 1
        self._entries.append(entry)
        _log.info("%s", entry.line())

    def lately(self) -> Lately:
        """The last plans."""
        return Lately(tuple(reversed(self._entries.copy())), self._count)


TABLE_BYTES = 8 * 1024 * 1024
"""Memory for the answers about one table; the most recently used ones stay."""

MADE_BYTES = 512
"""Memory of an answer besides its content and its cache entry: the outcome of its plan, and its counters."""

KEPT_SECONDS = 60.0
"""How long an answer is reused: it stays correct, but `ts > now() - INTERVAL 1 HOUR` leaves out more when replanned."""


class PlannedAnswer(NamedTuple):
    """An answer, the outcome of its plan, the id of its slices' keys, and a function that counts it once more among the
    plans that used their indexes.
    """

    outcome: PlanOutcome
    answer: bytes
    keys_id: str
    count_again: Callable[[], None]


class _Answers(NamedTuple):
    snapshot: PinnedSnapshot
    made: BoundedCache[bytes, tuple[float, PlannedAnswer]]


class Remembered:
    """Answers by table and request, as long as the table and its indexes are unchanged. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tables: dict[str, _Answers] = {}

    def made(self, table: str, snapshot: PinnedSnapshot, body: bytes) -> PlannedAnswer | None:
        """The answer to the very same request over the same snapshot and indexes, if it was made recently."""
        answers = self._tables.get(table)
        if answers is None or not answers.snapshot.plans_as(snapshot):
            return None
        made = answers.made.get(body)
        return made[1] if made is not None and self._clock() - made[0] < KEPT_SECONDS else None

    def remember(self, table: str, snapshot: PinnedSnapshot, body: bytes, made: PlannedAnswer) -> None:
        """Remember an answer; those about other states of the table are forgotten."""
        answers = self._tables.get(table)
        if answers is None or not answers.snapshot.plans_as(snapshot):
            answers = self._tables[table] = _Answers(snapshot, BoundedCache(TABLE_BYTES))
        told = len(made.outcome.shape) + sum(len(reason) for reason in made.outcome.fallbacks)
        # Whole requests are the keys, so that no other request can be mistaken for this one.
        answers.made.put(body, (self._clock(), made), len(body) + len(made.answer) + told + MADE_BYTES)
