"""What the service remembers: the plans that were made lately, and answers to repeated questions.

Answers to questions that are asked again: dashboards send the same scans of a table that has not changed.
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
"""Memory for past requests; those looked at last stay."""


class ReceivedRequest(NamedTuple):
    """A request as it came, and the snapshot that was planned on."""

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
        """What was asked under a plan id; None where it is not known or was forgotten."""
        return self._asked.get(plan_id)


KEPT_ENTRIES = 50
"""So many plans are shown."""

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
"""What could begin another line of the log, or change what a terminal shows."""

_log = logging.getLogger("pruner")


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What came of one plan: for whom it was made, of what form its predicate was, and how many slices it keeps,
    called by `noun`.

    `indexes` are those by which slices were left out, with how many.
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
    """What came of a plan."""
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
    """One answer: what came of its plan, when it was given (seconds since 1970), and how long it took.

    `again` if the plan was made for the same request before.
    """

    outcome: PlanOutcome
    made_at: float
    seconds: float
    again: bool = False

    def line(self) -> str:
        """The plan in one line."""
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
    """The last plans, the newest first, and the number of all since the service began."""

    entries: tuple[Entry, ...]
    count: int

    def together(self, others: Iterable[Lately]) -> Lately:
        """These and those of other workers."""
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
"""Memory for the answers about one table; those asked for last stay."""

MADE_BYTES = 512
"""What an answer takes besides its content and its place in the cache: what came of its plan, and its counters."""

KEPT_SECONDS = 60.0
"""An answer stays right, but `ts > now() - INTERVAL 1 HOUR` leaves out more when it is planned again later."""


class PlannedAnswer(NamedTuple):
    """An answer, what came of its plan, by what id its slices' keys are known, and what counts it once more among the
    plans that asked their indexes.
    """

    outcome: PlanOutcome
    answer: bytes
    keys_id: str
    count_again: Callable[[], None]


class _Answers(NamedTuple):
    snapshot: PinnedSnapshot
    made: BoundedCache[bytes, tuple[float, PlannedAnswer]]


class Remembered:
    """Answers by table and request, as long as the table and its indexes stand as they stood. Threads may share it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tables: dict[str, _Answers] = {}

    def made(self, table: str, snapshot: PinnedSnapshot, body: bytes) -> PlannedAnswer | None:
        """The answer to the very same request over the same snapshot and indexes, if it was made lately."""
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
        # Requests are compared whole, so that no other one can be taken for it.
        answers.made.put(body, (self._clock(), made), len(body) + len(made.answer) + told + MADE_BYTES)
