"""The cost of a commit when many processes want to commit: by the calls to the store, and by the length of the log.

BENCH_WRITERS is the number of processes (default 16), BENCH_LOG are the initial lengths of the log (0 and 8,000).
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import msgspec
from rich.console import Console
from rich.table import Table as Grid

from pruner.metadata import MetadataTable, log
from pruner.storage.local import LocalStore
from pruner.storage.opening import open_store
from tests.crash.many_writers import Writer

SECONDS = 20.0
LENGTHS = "0,8000"
CALLS = ("list", "put_if_absent", "put_new", "get", "infos")


class Spent(NamedTuple):
    """What one writer did: commits and, by name of a call, count, wall time and CPU time."""

    commits: int
    calls: Counter[str]
    seconds: dict[str, float]
    processor: dict[str, float]


def run(console: Console) -> None:
    """Have processes commit as fast as they can, over a new log and over a long one."""
    writers = int(os.environ.get("BENCH_WRITERS", "16"))
    for length in map(int, os.environ.get("BENCH_LOG", LENGTHS).split(",")):
        with tempfile.TemporaryDirectory() as folder:
            place = f"{folder}/t.pruner"
            _begin(place, length)
            _show(console, writers, length, _all(place, writers))


def _begin(place: str, length: int) -> None:
    """Make a log of `length` entries, of which only the newest is ever read."""
    table = MetadataTable.open(open_store(place))
    state = table.commit(lambda state: msgspec.structs.replace(state, table_identity="t"))
    first = Path(place, log.entry_path(1))
    for version in range(2, length):
        Path(place, log.entry_path(version)).write_bytes(first.read_bytes())
    if length > 1:
        newest = msgspec.structs.replace(state, version=length)
        Path(place, log.entry_path(length)).write_bytes(log.encode(newest))


def _all(place: str, writers: int) -> list[Spent]:
    context = multiprocessing.get_context("forkserver")
    ends: list[Any] = []
    for number in range(writers):
        ours, theirs = context.Pipe()
        context.Process(target=_write, args=(place, number, theirs), daemon=True).start()
        ends.append(ours)
    for end in ends:
        end.recv()
    for end in ends:
        end.send("go")
    return [end.recv() for end in ends]


def _write(place: str, number: int, other: Connection) -> None:
    spent = Spent(0, Counter(), defaultdict(float), defaultdict(float))
    writer = Writer(place, number)
    other.send("ready")
    other.recv()
    calls: dict[str, Any] = {name: _timed(getattr(LocalStore, name), name, spent) for name in CALLS}
    sleep = _timed(time.sleep, "pause", spent)
    with mock.patch.multiple(LocalStore, **calls), mock.patch("pruner.metadata.table.time.sleep", sleep):
        _timed(_keep_changing, "all", spent)(writer)
    other.send(spent._replace(commits=len(writer.versions)))


def _keep_changing(writer: Writer) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        writer.step()


def _timed(call: Callable[..., Any], name: str, spent: Spent) -> Callable[..., Any]:
    def timed(*given: Any, **named: Any) -> Any:
        what = name if name != "list" else "list the newest" if named.get("after") else "list the log"
        began, busy = time.perf_counter(), time.process_time()
        try:
            return call(*given, **named)
        finally:
            spent.calls[what] += 1
            spent.seconds[what] += time.perf_counter() - began
            spent.processor[what] += time.process_time() - busy

    return timed


def _show(console: Console, writers: int, length: int, found: list[Spent]) -> None:
    commits = sum(each.commits for each in found)
    calls = sum((each.calls for each in found), Counter[str]())
    seconds = {name: sum(each.seconds[name] for each in found) for name in calls}
    processor = {name: sum(each.processor[name] for each in found) for name in calls}
    grid = Grid(title=f"{writers} writers, {length:,} log entries: {commits / SECONDS:.1f} commits a second")
    for heading in ("a commit", "times", "ms", "processor ms"):
        grid.add_column(heading, justify="left" if heading == "a commit" else "right")
    for name in sorted(seconds, key=seconds.__getitem__, reverse=True):
        taken = (1e3 * each[name] / commits for each in (seconds, processor))
        grid.add_row(name, f"{calls[name] / commits:.2f}", *(f"{ms:.1f}" for ms in taken))
    console.print(grid)
