"""A build shows its progress if somebody watches it, and is silent otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from pruner.showing.progress import progress_bar, telling
from tests.support.running.patience import PATIENCE

BUILD = """
import sys, pruner
table = pruner.open_table(sys.argv[1])
table.create_index("i", on="n", progress=eval(sys.argv[2]))
table.create_index("j", on="n", using="bitmap", progress=eval(sys.argv[2]))
"""


@pytest.fixture
def root(tmp_path: Path) -> str:
    for number in range(3):
        pq.write_table(pa.table({"n": [number]}), tmp_path / f"{number}.parquet")
    return str(tmp_path)


@pytest.mark.processes
@pytest.mark.parametrize(("progress", "shown"), [("None", True), ("True", True), ("False", False)])
def test_a_terminal_shows_a_bar(root: str, progress: str, shown: bool) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-c", BUILD, root, progress]
    environment = os.environ | {"TERM": "xterm"}
    done = subprocess.run(
        command, stderr=theirs, stdout=subprocess.PIPE, env=environment, timeout=PATIENCE, check=True
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    try:
        text = os.read(ours, 100_000).decode()
    except OSError:  # nothing was written
        text = ""
    os.close(ours)
    assert done.stdout == b""
    assert ("indexing" in text) == shown, text


def test_without_a_terminal_there_is_no_bar_and_a_callback_is_called(
    root: str, capfd: pytest.CaptureFixture[str]
) -> None:
    told: list[tuple[int, int]] = []
    table = pruner.open_table(root)
    table.create_index("i", on="n", progress=lambda done, total: told.append((done, total)))
    table.create_index("j", on="n", using="bitmap")
    assert told[-1] == (3, 3)
    assert capfd.readouterr() == ("", "")
    with progress_bar("work") as bar, telling(False, "work") as nothing:
        assert (bar, nothing) == (None, None)
