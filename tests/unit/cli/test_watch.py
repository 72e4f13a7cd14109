"""`pruner refresh --watch` as a process: it follows, reports what went wrong, continues, and stops when told to."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.support.running.patience import PATIENCE
from tests.unit.cli.conftest import Run

pytestmark = pytest.mark.processes


def write(root: Path, number: int) -> None:
    pq.write_table(pa.table({"x": [number]}), root / f"{number}.parquet")


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    (tmp_path / "t").mkdir()
    write(tmp_path / "t", 0)
    table = pruner.open_table(tmp_path / "t")
    table.create_index("i", on="x", build=False)
    return table


@contextmanager
def watching(table: pruner.Table, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "pruner", "refresh", table.uri, "--watch", "--interval", "0.1", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def said_until_indexed(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """The output of the rounds up to the first one that indexed something."""
    assert process.stdout is not None
    rounds: list[dict[str, Any]] = []
    while not rounds or not rounds[-1]["indexed"]:
        rounds.append(json.loads(process.stdout.readline()))
    return rounds


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_follows_and_stops(table: pruner.Table, tmp_path: Path, stop: signal.Signals) -> None:
    with watching(table, "--output", "json") as process:
        rounds = said_until_indexed(process)
        assert table.plan("x = 9").kept == 0
        write(tmp_path / "t", 1)
        assert table.plan("x = 1").kept == 1, "sound before the index has followed"
        rounds += said_until_indexed(process)
        assert table.plan("x = 9").kept == 0
        process.send_signal(stop)
        out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out, err) == (0, "", "")
    # The second file is young at first; a round in which nothing happens prints nothing.
    assert [each["indexed"] for each in rounds if each["indexed"]] == [1, 1]
    assert len(rounds) <= 3


def test_a_failed_round_is_reported_once_and_retried(table: pruner.Table, tmp_path: Path) -> None:
    log = sorted((Path(table.index_uri) / "log").iterdir())[-1]
    content = log.read_bytes()
    log.write_bytes(content[:-9] + b"damaged!}")
    with watching(table) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        assert line.startswith("error: the log entry ")
        assert line.endswith("trying again in 0.1 s\n")
        time.sleep(0.5)
        log.write_bytes(content)
        assert process.stdout is not None
        assert any("1 file indexed" in line for line in iter(process.stdout.readline, ""))
        assert table.plan("x = 9").kept == 0
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, err) == (0, "")


def test_watch_and_dry_run_exclude_each_other(table: pruner.Table, run: Run) -> None:
    ran = run("refresh", table.uri, "--watch", "--dry-run")
    assert ran.code == 2
    assert "--watch refreshes, so it excludes --dry-run" in ran.err
