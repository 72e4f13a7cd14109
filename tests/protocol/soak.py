"""A million schedules in parts: finished seeds are recorded, so that another run resumes where one stopped.

`python -m tests.protocol.soak --schedules 1000000 --minutes 20` runs for that long and reports its progress. The
ledger is in the cache folder, one line for each part: first seed, last seed, seconds of CPU time. Other code of the
protocol or of its simulation starts a ledger of its own.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.protocol.schedules import first_problem, processors
from tools.cache import cache_dir, fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from multiprocessing.queues import SimpleQueue

PART = 2_000
"""Seeds per line of the ledger."""

_ROOT = Path(__file__).parents[2]
_JUDGED = ("pruner/metadata", "pruner/storage", "tests/protocol")


class Part(NamedTuple):
    """Schedules that ran one after the other, and what is wrong with the first faulty one."""

    first: int
    last: int
    seconds: float
    problem: str | None = None


def ledger() -> Path:
    """The file that records which seeds are done with this code."""
    sources = [path for folder in _JUDGED for path in sorted((_ROOT / folder).glob("*.py"))]
    return cache_dir() / f"schedules-{fingerprint(*sources)}.txt"


def done(file: Path) -> list[Part]:
    """The parts of a ledger; a line that a killed run wrote in part does not count."""
    if not file.is_file():
        return []
    lines = file.read_text().splitlines(keepends=True)
    parts = sorted(_part(line) for line in lines if line.endswith("\n"))
    # A run of fewer schedules may have ended within a part, which a later run did completely.
    return list({part.first: part for part in parts}.values())


def _part(line: str) -> Part:
    first, last, seconds = line.split()
    return Part(int(first), int(last), float(seconds))


def missing(known: Sequence[Part], schedules: int) -> Iterator[range]:
    """The seeds below a number that no line records, in parts."""
    lasts = {part.first: part.last for part in known}
    for first in range(0, schedules, PART):
        seeds = range(first, min(first + PART, schedules))
        if lasts.get(first, -1) < seeds[-1]:
            yield seeds


def _run(seeds: range) -> Part:
    began = time.process_time()
    problem = first_problem(seeds)
    return Part(seeds.start, seeds.stop - 1, time.process_time() - began, problem)


def _settle(places: SimpleQueue[int]) -> None:
    """Pin a worker to a CPU of its own: see `schedules.on_one_processor`."""
    os.sched_setaffinity(0, {places.get()})


def soak(schedules: int, minutes: float, workers: int) -> str | None:
    """Run what is missing, as far as the time allows; return what is wrong with the first faulty schedule."""
    file = ledger()
    file.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + 60 * minutes
    places: SimpleQueue[int] = multiprocessing.SimpleQueue()
    for number in range(workers if processors() else 0):
        places.put(processors()[number % len(processors())])
    settle = _settle if processors() else None
    with multiprocessing.Pool(workers, settle, (places,)) as pool, file.open("a") as lines:
        for part in pool.imap_unordered(_run, missing(done(file), schedules)):
            if part.problem is not None:
                return part.problem
            print(part.first, part.last, f"{part.seconds:.2f}", file=lines, flush=True)
            if time.monotonic() > deadline:
                break
    return None


def summary(parts: Sequence[Part]) -> str:
    """How many schedules ran, with which seeds, and how fast."""
    number = sum(part.last - part.first + 1 for part in parts)
    seconds = sum(part.seconds for part in parts)
    speed = f", {number / seconds:,.0f} in a second of processor" if seconds else ""
    return f"{number:,} schedules, none wrong{speed}; seeds {_ranges(parts)}"


def _ranges(parts: Sequence[Part]) -> str:
    joined: list[list[int]] = []
    for part in sorted(parts):
        if joined and joined[-1][1] + 1 == part.first:
            joined[-1][1] = part.last
        else:
            joined.append([part.first, part.last])
    return ", ".join(f"{first} to {last}" for first, last in joined) or "none"


def main() -> int:
    """Run the command; return 1 if a schedule is faulty."""
    parser = argparse.ArgumentParser(prog="python -m tests.protocol.soak", description=__doc__)
    parser.add_argument("--schedules", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--workers", type=int, default=len(processors()) or 1)
    given = parser.parse_args()
    problem = soak(given.schedules, given.minutes, given.workers)
    print(problem or f"{summary(done(ledger()))}\nledger: {ledger()}")
    return 1 if problem else 0


if __name__ == "__main__":
    sys.exit(main())
