"""What `head-to-head` measures of a lake: its readers, their times, and what indexes cost."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field
from typing import Any, Final

from benchmarks.lakes.events import FileFormat

PATIENCE: Final = 120.0
"""Seconds that an answer of any reader is waited for."""
SLOW: Final = 5.0
"""Seconds after which a reader is not asked the same kind of question again."""
FAST: Final = 0.25
"""Seconds by the clock, in the median, up to which a reader is asked the same kind of question `MANY` times."""
MANY: Final = 20
"""Answers from which on a 95th percentile is told."""
OPENING: Final = ("cold", "fresh")
"""What is measured beside questions: each time is one of its own."""
TOO_SLOW: Final = "too slow"
"""Why nothing was measured where an answer was waited for as long as for any."""
NO_WAY: Final = "no way to ask this"
"""Why nothing was measured where a reader has no words for the question."""


@dataclass(frozen=True)
class Contender:
    """A reader of one format: the name of its class in `readers.py`, and what that is told."""

    title: str
    kind: FileFormat
    reader: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Measured:
    """What was measured of one contender, by what it was asked: nothing of what it `refused` once, and why."""

    contender: Contender
    version: str
    opened: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    _answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, what: str, answer: dict[str, Any]) -> None:
        """Keep the seconds of an answer."""
        self._answers.setdefault(what, []).append(answer)

    def was_slow(self, what: str) -> bool:
        """Whether an answer took so long that the same is not asked again."""
        return any(each["wall"] > SLOW for each in self._answers.get(what, ()))

    def is_fast(self, what: str, runs: int) -> bool:
        """Whether the first answers, beside the one that loads things, took so little that many more can be had.

        Later ones do not matter: who is left out for a slow answer would have none in the percentile.
        """
        first = [each["wall"] for each in self._counted(what, self._answers.get(what, []))[:runs]]
        return bool(first) and statistics.median(first) <= FAST

    @property
    def processor(self) -> dict[str, float]:
        """Median seconds of the processor."""
        return self._medians("processor")

    @property
    def wall(self) -> dict[str, float]:
        """Median seconds by the clock."""
        return self._medians("wall")

    @property
    def late(self) -> dict[str, float]:
        """The 95th percentile of the processor's seconds, by nearest rank, of what was answered often enough."""
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
        """The first answer to a question loads what the others find loaded, unless it is the only one."""
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
    """Seconds in which pruner's indexes follow a commit, by format."""

    taken_on: str


@dataclass
class Counted:
    """What one reader asks of a store, by question: requests and bytes.

    The first pair is that of a process that has just started, and includes to open the table; the second is that of
    another question of the kind in the same process.
    """

    contender: Contender
    version: str
    taken: dict[str, list[tuple[int, int]]] = field(default_factory=dict[str, list[tuple[int, int]]])
    refused: dict[str, str] = field(default_factory=dict[str, str])
