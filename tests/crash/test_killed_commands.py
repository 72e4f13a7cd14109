"""SIGKILL before every disk change of each command: nothing is lost, doubled, or left behind for good."""

from __future__ import annotations

from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from tests.crash.commands import COMMANDS, Made, assert_right_after, assert_sound, make, run_and_die

pytestmark = pytest.mark.processes

LEAST = {"create": 40, "refresh": 19, "compact": 10, "vacuum": 4, "drop": 4}
"""The least number of changes that each command makes, so that its deaths are really tested."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("lake")
    return make(folder / "t", str(folder / "made.pruner"))


@pytest.mark.usefixtures("unsynced")
@pytest.mark.parametrize("command", COMMANDS)
def test_killed_before_every_change(
    command: str, made: Made, processes: ForkServerContext, tmp_path: Path
) -> None:
    step, ended = 0, None
    while ended is None:
        place = made.put(str(tmp_path / f"{step}.pruner"))
        ours, theirs = processes.Pipe()
        process = processes.Process(target=run_and_die, args=(command, made, place, step, theirs))
        process.start()
        theirs.close()
        process.join()
        table = made.open(place)
        assert_sound(table)
        assert_right_after(command, table)
        if process.exitcode == 0:
            ended = ours.recv()
        else:
            assert process.exitcode == -9
            step += 1
    print(f"{command}: killed before each of {ended} changes")
    assert ended == step >= LEAST[command]
