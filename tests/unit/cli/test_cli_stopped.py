"""Builds that are stopped or run out of space report what exists, and leave no empty index behind."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.cli import main
from pruner.pipeline import batches, slices
from pruner.pipeline.runners import LocalRunner
from tests.unit.cli.conftest import Run


class Stops(LocalRunner):
    """Gets Ctrl-C after some finished batches."""

    def __init__(self, after: int) -> None:
        self._after = after

    def run(self, job: Any, progress: Any) -> Iterator[Any]:
        """Yield receipts up to that batch."""
        for number, receipt in enumerate(super().run(job, progress)):
            if number == self._after:
                raise KeyboardInterrupt
            yield receipt


def test_a_build_that_is_stopped_at_once_leaves_no_index(
    run: Run, flights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(job: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr("pruner.pipeline.batches.write_batches", lambda *_: stopped(None))
    done = run("sql", f"CREATE INDEX i ON '{flights}' (delay)")
    assert (done.code, done.out) == (130, "")
    assert done.err == "error: stopped; index i was not created\n"
    assert pruner.open_table(flights).indexes() == ()
    monkeypatch.undo()
    assert run("sql", f"CREATE INDEX i ON '{flights}' (delay)").code == 0


def test_a_build_that_is_stopped_later_goes_on_where_it_was(
    run: Run, flights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "CHUNK_SLICES", 1)
    monkeypatch.setattr(batches, "BATCH_SLICES", 1)
    with monkeypatch.context() as patched:
        patched.setattr("pruner.table.runner_for", lambda _: Stops(2))
        done = run("sql", f"CREATE INDEX i ON '{flights}' (delay)")
    assert done.code == 130
    assert "3 records are finished: the next refresh takes them up" in done.err
    assert "index i is defined: refresh it to go on, or drop it" in done.err
    result = pruner.open_table(flights).refresh()
    assert (result.resumed, result.indexed) == (3, 1)


def test_a_full_disk_leaves_no_half_file_and_a_retry_works(
    run: Run, flights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.write, 3000

    def full(file: int, data: Any) -> int:
        nonlocal room
        if room < len(data) // 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        room -= len(data)
        return real(file, data[: max(1, len(data) // 2)])

    with monkeypatch.context() as patched:
        patched.setattr(os, "write", full)
        done = run("sql", f"CREATE INDEX i ON '{flights}' USING bitmap (delay, carrier)")
    assert done.code == 1
    assert "No space left on device" in done.err
    assert len(done.err.splitlines()) == 1
    place = Path(f"{flights}.pruner")
    assert list(place.rglob("staging/*")) == []
    assert {path.suffix for path in place.rglob("*") if path.is_file()} <= {".json"}, "no half file"
    assert run("sql", f"CREATE INDEX IF NOT EXISTS i ON '{flights}' USING bitmap (delay, carrier)").code == 0
    table = pruner.open_table(flights)
    table.refresh()
    assert table.plan("delay = 5").kept == 1
    assert table.verify() == []


def test_ctrl_c_before_a_command_begins_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stopped(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("pruner.cli.app.app", stopped)
    with pytest.raises(SystemExit) as ended:
        main()
    assert (ended.value.code, capsys.readouterr().err) == (130, "error: stopped\n")
