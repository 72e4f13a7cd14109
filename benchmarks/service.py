"""`pruner serve` under load over 10,000 slices: plans per second, latency and CPU time.

The clients are threads of one other process on the same machine. They use plain sockets, so that they need little CPU
time themselves; it is shown. BENCH_SECONDS is the duration of each round (default 5), BENCH_WORKERS the number of
workers that share the port (2).
"""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import socket
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

import numpy as np
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.hudi import own_indexes as zero
from benchmarks.lakes.lake import index_with, link_tree, made_up_bounds
from benchmarks.lakes.records import ROWS_PER_FILE
from tools.planner_service import planner_process

SLICES = 10_000
CLIENTS = (1, 8)
SECONDS = 5.0
WORKERS = 2
SCANS = 40
QUERIES = 10
Asks: TypeAlias = Callable[[bytes], dict[str, Any]]

TICKS = os.sysconf("SC_CLK_TCK")


class Round(NamedTuple):
    """What one round of clients saw: seconds of each request, seconds in total, and the clients' CPU time."""

    seconds: list[float]
    whole: float
    processor: float


def run(console: Console) -> None:
    """Measure a Hudi table and an immutable tree of Parquet files, with new and with repeated requests."""
    grid = Grid(title=f"`pruner serve`, {SLICES:,} slices, keys known to the clients")
    for heading in (
        "table",
        "questions",
        "clients",
        "plans/s",
        "p50, ms",
        "p99, ms",
        "service, CPU ms",
        "clients, CPU ms",
    ):
        grid.add_column(heading, justify="right")
    with tempfile.TemporaryDirectory() as scratch, multiprocessing.get_context("spawn").Pool(1) as clients:
        folder = Path(scratch)
        columns = _write_tables(folder)
        with planner_process(folder, "--workers", os.environ.get("BENCH_WORKERS", f"{WORKERS}")) as (
            url,
            pid,
        ):
            wait_until_ready(url)
            for table, column in columns.items():
                for questions in ("new", "known"):
                    for number in CLIENTS:
                        question = url, table, column, number, questions
                        grid.add_row(
                            table, questions, f"{number}", *measured(clients, pid, ask_for, question)
                        )
            queries = _queries(url, pid, columns)
    console.print(grid)
    console.print(queries)


def _queries(url: str, pid: int, columns: Mapping[str, str]) -> Grid:
    """The scans of a query, in separate concurrent requests and in one request; both in turn."""
    grid = Grid(title=f"a query of {SCANS} scans of one table, median of {QUERIES}")
    for heading in ("table", "apart, ms", "together, ms", "apart, CPU ms", "together, CPU ms"):
        grid.add_column(heading, justify="right")
    numbers = count(time.time_ns() // 1_000_000)
    for table, column in columns.items():
        seconds: dict[Callable[[str, list[bytes]], None], list[float]] = {_apart: [], _together: []}
        used = dict.fromkeys(seconds, 0.0)
        for _ in range(QUERIES):
            for way, taken in seconds.items():
                scans = [_body(table, column, next(numbers) % 100_000, None) for _ in range(SCANS)]
                before, started = processor_seconds(pid), time.perf_counter()
                way(url, scans)
                taken.append(time.perf_counter() - started)
                used[way] += processor_seconds(pid) - before
        grid.add_row(
            table,
            *(f"{np.median(taken) * 1e3:.0f}" for taken in seconds.values()),
            *(f"{each / QUERIES * 1e3:.0f}" for each in used.values()),
        )
    return grid


def _apart(url: str, scans: list[bytes]) -> None:
    with ThreadPoolExecutor(len(scans)) as pool:
        for answer in pool.map(lambda scan: _posted(url, "/v1/plan", scan), scans):
            assert json.loads(answer)["total"] == SLICES


def _together(url: str, scans: list[bytes]) -> None:
    lines = _posted(url, "/v1/plans", b'{"scans":[' + b",".join(scans) + b"]}").splitlines()
    assert [json.loads(line)["plan"]["total"] for line in lines] == [SLICES] * len(scans)


def _posted(url: str, path: str, body: bytes) -> bytes:
    request = urllib.request.Request(url + path, body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as response:
        return response.read()


def _write_tables(folder: Path) -> dict[str, str]:
    """Make the tables and a `pruner.toml` that names them; return the column to query in each."""
    link_tree(folder / "immutable", SLICES)
    index_with(pruner.open_table(folder / "immutable", files="immutable"), made_up_bounds(SLICES))
    zero.write_table(folder / "hudi", SLICES)
    (folder / "pruner.toml").write_text(
        '[tables.immutable]\nuri = "immutable"\nfiles = "immutable"\n[tables.hudi]\nuri = "hudi"\n',
        encoding="utf-8",
    )
    return {"immutable": "event", "hudi": "id"}


def measured(
    clients: Pool, pid: int, ask_for: Callable[..., Round], question: tuple[str | int, ...]
) -> tuple[str, ...]:
    """Plans per second, their median and 99th percentile, and the CPU time of the service and of its clients."""
    seconds = float(os.environ.get("BENCH_SECONDS", str(SECONDS)))
    clients.apply(ask_for, (*question, 1.0))
    before = processor_seconds(pid)
    found: Round = clients.apply(ask_for, (*question, seconds))
    plans = len(found.seconds)
    p50, p99 = np.percentile(found.seconds, [50, 99]) * 1e3
    return (
        f"{plans / found.whole:,.0f}",
        f"{p50:.1f}",
        f"{p99:.1f}",
        f"{(processor_seconds(pid) - before) / plans * 1e3:.2f}",
        f"{found.processor / plans * 1e3:.2f}",
    )


def processor_seconds(pid: int) -> float:
    """CPU time of a process and of its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS + sum(
        processor_seconds(int(child)) for child in children
    )


def ask_for(url: str, table: str, column: str, clients: int, questions: str, seconds: float) -> Round:
    """Send requests from this many clients for this long; runs in its own process."""
    numbers = count(os.getpid() + time.time_ns() // 1_000_000)

    def client(end: float) -> list[float]:
        taken: list[float] = []
        with connected(url) as ask:
            snapshot = ask(_request(table, column, 0, None))["snapshot_id"]
            while time.perf_counter() < end:
                number = next(numbers) % 100_000 if questions == "new" else 42
                request = _request(table, column, number, snapshot)
                started = time.perf_counter()
                answer = ask(request)
                taken.append(time.perf_counter() - started)
                assert answer["total"] == SLICES, answer
        return taken

    return round_of(clients, client, seconds)


def round_of(clients: int, client: Callable[[float], list[float]], seconds: float) -> Round:
    """Run this many clients for this many seconds; each is given the deadline."""
    started, used = time.perf_counter(), time.process_time()
    with ThreadPoolExecutor(clients) as pool:
        taken = [*itertools.chain(*pool.map(client, [started + seconds] * clients))]
    return Round(taken, time.perf_counter() - started, time.process_time() - used)


def _request(table: str, column: str, number: int, snapshot: str | None) -> bytes:
    body = _body(table, column, number, snapshot)
    return b"POST /v1/plan HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


def _body(table: str, column: str, number: int, snapshot: str | None) -> bytes:
    asked = {
        "table": table,
        "session": {"engine": "trino"},
        "predicate": {"form": "sql", "text": f"{column} = {number * ROWS_PER_FILE // 10}"},
        "known_snapshot": snapshot,
    }
    return json.dumps(asked).encode()


@contextmanager
def connected(url: str) -> Iterator[Asks]:
    """A connection that stays open; yields a function that sends a request and returns the answer."""
    place = urlsplit(url)
    with socket.create_connection((place.hostname, place.port), timeout=30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = connection.makefile("rb")

        def ask(request: bytes) -> dict[str, Any]:
            connection.sendall(request)
            status = stream.readline()
            length = 0
            while line := stream.readline().strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            answer = json.loads(stream.read(length))
            assert b" 200 " in status, (status, answer)
            return answer

        yield ask


def wait_until_ready(url: str) -> None:
    while True:
        try:
            urllib.request.urlopen(f"{url}/readyz").close()
        except urllib.error.HTTPError as starting:
            starting.close()
            time.sleep(0.1)
        else:
            return
