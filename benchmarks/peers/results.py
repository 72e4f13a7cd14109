"""What `head-to-head` measures of a lake: its readers, their times, and what indexes cost."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.lakes.events import FileFormat


@dataclass(frozen=True)
class Contender:
    """A reader of one format: the name of its class in `readers.py`, and what that is told."""

    title: str
    kind: FileFormat
    reader: str
    options: dict[str, Any] = field(default_factory=dict)


@dataclass
class Measured:
    """What was measured of one contender; seconds are medians."""

    contender: Contender
    version: str
    wall: dict[str, float] = field(default_factory=dict)
    processor: dict[str, float] = field(default_factory=dict)
    opened: dict[str, int] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def add(self, what: str, told: Sequence[dict[str, Any]]) -> None:
        """Keep the medians of answers."""
        self.wall[what] = statistics.median(each["wall"] for each in told)
        self.processor[what] = statistics.median(each["processor"] for each in told)


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
