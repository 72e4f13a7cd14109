"""What `head-to-head` measures of a lake: its readers, their times, and what indexes cost."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.lakes.events import FileFormat

PATIENCE: Final = 120.0
"""Seconds to wait for an answer of any reader."""
SLOW: Final = 5.0
"""Seconds after which a reader is not asked the same kind of query again."""
FAST: Final = 0.25
"""Median wall time, in seconds, up to which a reader is asked the same kind of query `MANY` times."""
MANY: Final = 20
"""Number of answers from which a 95th percentile is reported."""
OPENING: Final = ("cold", "fresh")
"""What is measured beside queries: each time is a separate one."""
TOO_SLOW: Final = "too slow"
"""Why nothing was measured where no answer came within `PATIENCE`."""
NO_WAY: Final = "no way to ask this"
"""Why nothing was measured where a reader cannot express the query."""


@dataclass(frozen=True)
class Contender:
    """A reader of one format: the name of its class in `readers.py`, and its arguments."""

    title: str
    kind: FileFormat
    reader: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Measured:
    """What was measured of one contender, by query: nothing for what it once `refused`, and why."""

    contender: Contender
    version: str
    opened: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    _answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, what: str, answer: dict[str, Any]) -> None:
        """Keep the seconds of an answer."""
        self._answers.setdefault(what, []).append(answer)

    def was_slow(self, what: str) -> bool:
        """Whether an answer took so long that the query is not repeated."""
        return any(each["wall"] > SLOW for each in self._answers.get(what, ()))

    def is_fast(self, what: str, runs: int) -> bool:
        """Whether the first answers, except the one that loads things, were fast enough for many more.

        Later ones do not matter: a reader left out for a slow answer would have none in the percentile.
        """
        first = [each["wall"] for each in self._counted(what, self._answers.get(what, []))[:runs]]
        return bool(first) and statistics.median(first) <= FAST

    @property
    def processor(self) -> dict[str, float]:
        """Median CPU time in seconds."""
        return self._medians("processor")

    @property
    def wall(self) -> dict[str, float]:
        """Median wall time in seconds."""
        return self._medians("wall")

    @property
    def late(self) -> dict[str, float]:
        """The 95th percentile of CPU seconds, by nearest rank, for queries answered often enough."""
        found: dict[str, float] = {}
        for what, answers in self._answers.items():
            seconds = sorted(each["processor"] for each in self._counted(what, answers))
            if what not in (*OPENING, *self.refused) and len(seconds) >= MANY:
                found[what] = seconds[math.ceil(0.95 * len(seconds)) - 1]
        return found

    def _medians(self, seconds: str) -> dict[str, float]:
        return {
            what: statistics.median(each[seconds] for each in self._counted(what, answers))
            for what, answers in self._answers.items()
            if what not in self.refused
        }

    @staticmethod
    def _counted(what: str, answers: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Leave out the first answer to a query, which loads what the others reuse, unless it is the only one."""
        return answers if what in OPENING else answers[1:] or answers


@dataclass
class Built:
    """What an index of pruner cost."""

    kind: str
    name: str
    seconds: float
    processor: float
    size: int


@dataclass
class Result:
    """One lake, measured."""

    files: int
    rows: int
    data: dict[str, int]
    measured: list[Measured]
    built: list[Built]
    follows: dict[str, float]
    """Seconds that refreshing pruner's indexes after a commit takes, by format."""

    taken_on: str


@dataclass
class Counted:
    """What one reader requests from a store, by query: requests and bytes.

    The first pair is that of a process that has just started, and includes opening the table; the second is that of
    another query of the kind in the same process.
    """

    contender: Contender
    version: str
    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    refused: dict[str, str] = field(default_factory=dict[str, str])
