"""The REST catalog under load: plans of a large and a small table, and a plan that keeps every file, page by page.

The clients are threads of one other process, as in `benchmarks.service`. On a machine with other work, a plan's CPU
time says more than its wall time. BENCH_SECONDS is the duration of each round (default 5), BENCH_WORKERS the number
of workers that share the port (2), BENCH_FILES the number of files kept page by page (1,000,000).
"""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import tempfile
import time
from itertools import count
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.lakes.lake import index_with, link_tree, made_up_bounds
from benchmarks.lakes.records import ROWS_PER_FILE
from benchmarks.service import (
    CLIENTS,
    WORKERS,
    Round,
    connected,
    measured,
    processor_seconds,
    round_of,
    wait_until_ready,
)
from tools.planner_service import planner_process

LARGE, SMALL = 100_000, 1_000
KEPT = 1_000_000


def run(console: Console) -> None:
    """Measure trees of immutable Parquet files: one file kept by each plan, and then all of them."""
    grid = Grid(title="plans of the REST catalog, a new constant in each")
    for heading in (
        "files",
        "clients",
        "plans/s",
        "p50, ms",
        "p99, ms",
        "service, CPU ms",
        "clients, CPU ms",
    ):
        grid.add_column(heading, justify="right")
    kept = int(os.environ.get("BENCH_FILES", f"{KEPT}"))
    with tempfile.TemporaryDirectory() as scratch, multiprocessing.get_context("spawn").Pool(1) as clients:
        folder = Path(scratch)
        _write_tables(folder, {"large": LARGE, "small": SMALL, "kept": kept})
        with planner_process(folder, "--workers", os.environ.get("BENCH_WORKERS", f"{WORKERS}")) as (
            url,
            pid,
        ):
            wait_until_ready(url)
            for table, files in {"large": LARGE, "small": SMALL}.items():
                for number in CLIENTS:
                    grid.add_row(
                        f"{files:,}", f"{number}", *measured(clients, pid, ask_for, (url, table, number))
                    )
            console.print(grid)
            console.print(_paged(url, pid, kept))


def _write_tables(folder: Path, tables: dict[str, int]) -> None:
    told: list[str] = []
    for name, files in tables.items():
        link_tree(folder / name, files)
        index_with(pruner.open_table(folder / name, files="immutable"), made_up_bounds(files))
        told.append(f'[tables.{name}]\nuri = "{name}"\nfiles = "immutable"\n')
    (folder / "pruner.toml").write_text("".join(told), encoding="utf-8")


def ask_for(url: str, table: str, clients: int, seconds: float) -> Round:
    """Send requests from this many clients for this long; runs in its own process."""
    numbers = count(os.getpid() + time.time_ns() // 1_000_000)
    files = {"large": LARGE, "small": SMALL}[table]

    def client(end: float) -> list[float]:
        taken: list[float] = []
        with connected(url) as ask:
            ask(_request(table, "plan", _needle(0)))
            while time.perf_counter() < end:
                request = _request(table, "plan", _needle(next(numbers) % files * ROWS_PER_FILE))
                started = time.perf_counter()
                answer = ask(request)
                taken.append(time.perf_counter() - started)
                assert len(answer["file-scan-tasks"]) == 1, answer
        return taken

    return round_of(clients, client, seconds)


def _needle(value: int) -> dict[str, Any]:
    return {"filter": {"type": "eq", "term": "event", "value": value}}


def _request(table: str, what: str, content: dict[str, Any]) -> bytes:
    body = json.dumps(content).encode()
    path = f"/iceberg/v1/namespaces/default/tables/{table}/{what}"
    return b"POST %b HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)


def _paged(url: str, pid: int, files: int) -> Grid:
    """All files of a table page by page, twice: row counts are read from the files the first time."""
    grid = Grid(title=f"{files:,} files kept, page by page")
    for heading in (
        "run",
        "seconds",
        "service, CPU s",
        "longest page, ms",
        "memory before, MiB",
        "peak, MiB",
    ):
        grid.add_column(heading, justify="right")
    everything = {"filter": {"type": "gt-eq", "term": "event", "value": 0}}
    for turn in ("first", "second"):
        before, used, started = _memory(pid, "VmRSS"), processor_seconds(pid), time.perf_counter()
        longest, named = 0.0, 0
        with connected(url) as ask:
            what, content = "plan", everything
            while content:
                began = time.perf_counter()
                page = ask(_request("kept", what, content))
                longest = max(longest, time.perf_counter() - began)
                named += len(page["file-scan-tasks"])
                following = page.get("plan-tasks")
                what, content = "tasks", {"plan-task": following[0]} if following else {}
        assert named == files, named
        grid.add_row(
            turn,
            f"{time.perf_counter() - started:.1f}",
            f"{processor_seconds(pid) - used:.1f}",
            f"{longest * 1e3:.0f}",
            f"{before:,.0f}",
            f"{_memory(pid, 'VmHWM'):,.0f}",
        )
    return grid


def _memory(pid: int, what: str) -> float:
    """A memory figure, in MiB, of the largest among a process and its children."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    [kib] = re.findall(rf"{what}:\s+(\d+) kB", status)
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return max([int(kib) / 1024, *(_memory(int(child), what) for child in children)])
