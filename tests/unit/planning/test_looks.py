"""When a plan lists the table: always after it was requested, and once for all that wait meanwhile."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner
from tests.support.running.patience import PATIENCE

WAITING = 6
"""Threads that ask for a plan while another one lists the table."""


class SlowLooks:
    """Lets a test hold up the listings of a table, and counts them."""

    def __init__(self, table: pruner.Table, monkeypatch: pytest.MonkeyPatch) -> None:
        source = vars(table)["_source"]
        take: Any = source.snapshot
        self.count = 0
        self.started = Event()
        self.go_on = Event()

        def slowly(previous: Any) -> Any:
            self.count += 1
            found = take(previous)
            self.started.set()
            assert self.go_on.wait(PATIENCE)
            return found

        monkeypatch.setattr(source, "snapshot", slowly)


def write(root: Path, name: str) -> None:
    pq.write_table(pa.table({"x": [1]}), root / f"{name}.parquet")


def test_those_who_wait_share_a_look_that_begins_after_they_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "a")
    table = pruner.open_table(tmp_path)
    looks = SlowLooks(table, monkeypatch)
    with ThreadPoolExecutor(WAITING + 1) as pool:
        first = pool.submit(lambda: table.plan("x = 1").total)
        assert looks.started.wait(PATIENCE)
        # The first listing has read the folder by now and must not be used to answer the others.
        write(tmp_path, "b")
        others = [pool.submit(lambda: table.plan("x = 1").total) for _ in range(WAITING)]
        while sum(other.running() for other in others) < WAITING:
            pass
        time.sleep(0.3)  # from running to asking
        looks.go_on.set()
        assert first.result() == 1
        assert [other.result() for other in others] == [2] * WAITING
    assert 2 <= looks.count <= 1 + WAITING
    shared = looks.count
    assert shared < 1 + WAITING, "nobody waited for the look of another"


def test_a_later_plan_checks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, "a")
    table = pruner.open_table(tmp_path)
    looks = SlowLooks(table, monkeypatch)
    looks.go_on.set()
    assert [table.plan("x = 1").total for _ in range(3)] == [1, 1, 1]
    assert looks.count == 3
    stale = pruner.open_table(tmp_path, max_staleness=600)
    looks = SlowLooks(stale, monkeypatch)
    looks.go_on.set()
    assert [stale.plan("x = 1").total for _ in range(3)] == [1, 1, 1]
    assert looks.count == 1
    stale.refresh()
    assert stale.plan("x = 1").total == 1
    assert looks.count >= 2, "a refresh looks, whatever staleness is allowed"
