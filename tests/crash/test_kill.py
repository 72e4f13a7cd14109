"""SIGKILL at any moment: acknowledged commits are there, and all others are there completely or not at all."""

from __future__ import annotations

import random
import time
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path

import pytest

from pruner.metadata import MetadataTable, log
from pruner.storage.opening import open_store
from tests.crash.writers import add_pair, die_at, keep_adding
from tests.support.running.profiles import examples

pytestmark = pytest.mark.processes


def _received(end: Connection) -> list[str]:
    messages: list[str] = []
    try:
        while end.poll():
            messages.append(end.recv())
    except EOFError:
        pass
    return messages


def _check(place: str) -> MetadataTable:
    """Check everything that must hold whatever happened to writers."""
    table = MetadataTable.open(open_store(place))
    assert table.verify() == []
    state = table.state()
    assert [version for version, _ in log.entries(table.store)] == list(range(1, state.version + 1))
    for definition in state.definitions:
        (records,) = state.segments_of(definition)
        assert table.read_segment(records).num_rows == 4
    return table


def _die(processes: ForkServerContext, place: str, step: int) -> list[str]:
    ours, theirs = processes.Pipe()
    process = processes.Process(target=die_at, args=(place, step, theirs))
    process.start()
    theirs.close()
    process.join(60)
    messages = _received(ours)
    assert process.exitcode == (0 if "done" in messages else -9)
    return messages


@pytest.mark.usefixtures("unsynced")
def test_killed_before_every_change(processes: ForkServerContext, tmp_path: Path) -> None:
    step = 0
    while True:
        place = str(tmp_path / f"{step}.pruner")
        acknowledged = _die(processes, place, step)
        table = _check(place)
        pairs = {"1.a", "1.b", "2.a", "2.b"}
        after = {"": set(), "1": {"1.a", "1.b"}, "2": pairs, "drop": pairs - {"1.a"}}
        after |= {"vacuum": after["drop"], "done": after["drop"]}
        stages = list(after)
        last = acknowledged[-1] if acknowledged else ""
        following = stages[min(stages.index(last) + 1, len(stages) - 1)]
        names = {definition.name for definition in table.state().definitions}
        assert names in (after[last], after[following])
        if last == "done":
            assert table.unreferenced() == []
            break
        # Work continues, and what the dead writer left can be cleaned up.
        add_pair(table, "next")
        table.vacuum(0)
        assert table.unreferenced() == []
        assert _check(place).state().definition("next.b") is not None
        step += 1
    print(f"killed before each of {step} changes")
    assert step >= 35  # the changes were really counted


def _start(
    processes: ForkServerContext, place: str, count: int, limit: int
) -> list[tuple[ForkServerProcess, Connection]]:
    started: list[tuple[ForkServerProcess, Connection]] = []
    for writer in range(count):
        ours, theirs = processes.Pipe()
        process = processes.Process(target=keep_adding, args=(place, writer, theirs, limit))
        process.start()
        theirs.close()
        started.append((process, ours))
    for _, end in started:
        assert end.recv() == "ready"
    return started


def test_killed_at_random_while_racing(processes: ForkServerContext, tmp_path: Path) -> None:
    chance = random.Random(7)
    committed = 0
    for round_number in range(examples(20)):
        place = str(tmp_path / f"{round_number}.pruner")
        running = _start(processes, place, 2, 1000)
        time.sleep(chance.uniform(0, 0.2))
        for process, _ in running:
            process.kill()
        acknowledged: set[str] = set()
        for process, end in running:
            process.join(60)
            assert process.exitcode == -9
            acknowledged |= set(_received(end))
        names = {definition.name for definition in _check(place).state().definitions}
        stems = {name[:-2] for name in names}
        assert names == {f"{stem}.{half}" for stem in stems for half in "ab"}
        assert acknowledged <= stems
        assert len(stems - acknowledged) <= len(running)  # at most what each was about to acknowledge
        committed += len(stems)
    assert committed > 0


def test_processes_that_race_lose_nothing(processes: ForkServerContext, tmp_path: Path) -> None:
    place = str(tmp_path / "t.pruner")
    for process, _ in (running := _start(processes, place, 3, 8)):
        process.join(120)
        assert process.exitcode == 0
    assert all(len(_received(end)) == 8 for _, end in running)
    state = _check(place).state()
    expected = {f"{writer}-{number}.{half}" for writer in range(3) for number in range(8) for half in "ab"}
    assert {definition.name for definition in state.definitions} == expected
    assert state.version == 24
