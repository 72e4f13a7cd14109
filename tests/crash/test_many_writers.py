"""Many processes commit as fast as they can: each commit is one version, none is lost and none is made twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest

from pruner.metadata import MetadataTable, cleanup, log
from pruner.storage.opening import open_store
from tests.crash.many_writers import ROWS, keep_changing
from tests.support.running.profiles import IS_FIXED

pytestmark = pytest.mark.processes

WRITERS, COMMITS = (8, 100) if IS_FIXED else (16, 1000)
PATIENCE = 1200 if IS_FIXED else None
"""Seconds after which a writer counts as stuck."""


def test_no_commit_is_lost_or_made_twice(
    processes: ForkServerContext, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    place = str(tmp_path / "t.pruner")
    running = []
    for number in range(WRITERS):
        ours, theirs = processes.Pipe()
        process = processes.Process(target=keep_changing, args=(place, number, COMMITS, theirs))
        process.start()
        theirs.close()
        running.append((process, ours))
    assert [end.recv() for _, end in running] == ["ready"] * WRITERS
    began = time.monotonic()
    versions: list[int] = []
    names: set[str] = set()
    repeated = 0
    for process, end in running:
        assert end.poll(PATIENCE)
        acknowledged, expected, again = end.recv()
        process.join()
        versions += acknowledged
        names |= expected
        repeated += again
    seconds = time.monotonic() - began
    assert sorted(versions) == list(range(1, WRITERS * COMMITS + 1)), "each commit is one version of the log"

    table = MetadataTable.open(open_store(place))
    assert table.verify() == [], "each version continues the one before, and what the last one names is whole"
    state = table.state()
    assert {definition.name for definition in state.definitions} == names
    for definition in state.definitions:
        assert sum(entry.rows for entry in state.segments_of(definition)) == ROWS
    table.vacuum(0)
    assert table.unreferenced() == []
    assert len(log.entries(table.store)) == cleanup.KEPT_ENTRIES
    assert table.verify() == []
    record_property(
        "figure",
        f"{WRITERS} writers: {len(versions)} commits in {seconds:.0f} s, {repeated} made again after a conflict",
    )
