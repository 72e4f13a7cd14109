"""Schedules by their seed: processes that interleave at every call to the store, faults, and what must hold afterwards.

`python -m tests.protocol.schedules SEED` repeats one and prints what is wrong with it.
"""

from __future__ import annotations

import os
import random
import sys
import uuid
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from pruner.metadata import MetadataTable, cleanup, log, receipts
from pruner.metadata import table as metadata_table
from tests.protocol.history import History
from tests.protocol.programs import KINDS, a_program
from tests.protocol.world import Process, SimulatedStore, Weather, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

KEPT_ENTRIES = 2
"""Log entries that a vacuum keeps in every other schedule: with so few, writers that slept meet gaps in the log."""


def a_schedule(seed: int) -> list[str]:
    """Run the schedule of a seed, and return what is wrong after it: one sentence each."""
    chance = random.Random(seed)
    weather = Weather(
        switch=chance.choice((0.1, 0.5, 0.9)),
        fault=chance.choice((0.0, 0.0, 0.02, 0.1)),
        kill=chance.choice((0.0, 0.0, 0.01)),
        sleep=chance.choice((0.0, 0.02, 0.1, 0.2)),
        torn=seed % 4 == 3,
    )
    world = World(chance, weather)
    history = History(world)
    world.written = history.written
    processes = chance.randrange(2, 5)
    kept = chance.choice((KEPT_ENTRIES, cleanup.KEPT_ENTRIES))
    with _clock_of(world), _names_by(seed), patch.object(cleanup, "KEPT_ENTRIES", kept):
        world.run([a_program(history, KINDS, chance.randrange(1, 9)) for _ in range(processes)])
        return list(_problems(history, kept))


def first_problem(seeds: Iterable[int]) -> str | None:
    """Return what is wrong with the first faulty schedule, and how to repeat it."""
    with on_one_processor():
        for seed in seeds:
            found = a_schedule(seed)
            if found:
                return f"{found[0]}\nrepeat it: python -m tests.protocol.schedules {seed}"
    return None


def processors() -> list[int]:
    """The CPUs that this process may use, if the system reports them."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@contextmanager
def on_one_processor() -> Iterator[None]:
    """Pin this thread and those that it starts to one CPU.

    One thread of a schedule runs at a time, and each passes its turn on thousands of times a second. Waking the next
    one on another CPU takes five times as long.
    """
    allowed = processors()
    if len(allowed) < 2:
        yield
        return
    # Workers that are started one after the other get different CPUs.
    os.sched_setaffinity(0, {allowed[os.getpid() % len(allowed)]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextmanager
def _clock_of(world: World) -> Iterator[None]:
    """The clock of the simulation; no call waits, as the schedule puts waiting processes to sleep."""
    clock = SimpleNamespace(sleep=lambda _: None, time_ns=lambda: world.clock_ns)  # type: ignore[misc]
    with patch.object(metadata_table, "time", clock), patch.object(receipts, "time", clock):
        yield


@contextmanager
def _names_by(seed: int) -> Iterator[None]:
    """Random names come from the seed, so that objects are listed in the same order in each run."""
    bits = random.Random(~seed)
    with patch.object(uuid, "uuid4", lambda: uuid.UUID(int=bits.getrandbits(128), version=4)):
        yield


def _problems(history: History, kept: int) -> Iterator[str]:
    """Everything that must hold once all processes have ended, and that a vacuum leaves nothing behind."""
    store = SimulatedStore(history.world, Process(history.world, -1, lambda _: None))
    table = MetadataTable.open(store)
    yield from history.problems(table)
    damage = [] if history.held_up else list(_damage(table))
    yield from damage
    table.vacuum(0)
    yield from (f"a vacuum leaves {info.path} over" for info in table.unreferenced())
    if len(log.entries(store)) > kept:
        yield "a vacuum leaves old log entries over"


def _damage(table: MetadataTable) -> Iterator[Any]:
    """The findings of `verify`, except that the segments of the simulation are not Parquet files, which is expected."""
    return (problem for problem in table.verify() if "is not a Parquet file" not in problem)


if __name__ == "__main__":
    print("\n".join(a_schedule(int(sys.argv[1]))) or "nothing is wrong")
