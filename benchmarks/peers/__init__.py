"""`python -m benchmarks peers`: planning alone, compared with other libraries over the same statistics, as ratios.

There are only logs, manifests and statistics. Each peer runs in its own process and environment, in the pinned
version. The processes take turns, predicate by predicate, and must keep as many files as pruner does.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console
from rich.table import Table as Grid

import pruner
from benchmarks.lakes.lake import Bounds, index_with, link_tree, made_up_bounds
from benchmarks.lakes.records import ROWS_PER_FILE
from benchmarks.peers.harness import CARRIER
from pruner.planning.pinned import PinnedSnapshot
from referee.run import Reader
from tools.cache import cache_dir

HERE = Path(__file__).resolve().parent
FILE_COUNTS = (10_000, 100_000)
RUNS = 5
OURS = "pruner"


PEERS = {
    "polars": ("with_polars.py", Reader("polars", "polars==2.1.0", ())),
    "DuckDB": ("with_duckdb.py", Reader("duckdb", "duckdb==2.0.1", ())),
    "delta-rs": ("with_deltalake.py", Reader("deltalake", "deltalake==1.6.6", (), ("pyarrow==26.0.1",))),
    "pyiceberg": ("with_pyiceberg.py", Reader("pyiceberg", "pyiceberg[pyarrow,sql-sqlite]==0.12.0", ())),
}
"""Libraries: the script that plans with each, and what is installed for it."""

Question = tuple[str, list[int]]
Times = dict[str, dict[str, float]]
"""Median CPU seconds by kind of predicate and by library."""


def run(console: Console) -> None:
    """Measure both kinds of predicates at each number of files; BENCH_MAX=10000 leaves out the larger one."""
    largest = int(os.environ.get("BENCH_MAX", str(FILE_COUNTS[-1])))
    measured = {count: _measure(count) for count in FILE_COUNTS if count <= largest}
    for count, times in measured.items():
        console.print(_grid(count, times))


def _grid(count: int, times: Times) -> Grid:
    grid = Grid(title=f"{count:,} files: processor time, a plan of ours being 1")
    grid.add_column("")
    for kind in times:
        grid.add_column(kind, justify="right")
    for name in next(iter(times.values())):
        ours = [f"{times[kind][OURS] * 1e3:.2f} ms" for kind in times]
        grid.add_row(name, *(ours if name == OURS else _ratios(name, times)))
    return grid


def _ratios(name: str, times: Times) -> list[str]:
    return [f"{found[name] / found[OURS]:,.1f}" for found in times.values()]


def _measure(count: int) -> Times:
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as running:
        folder = Path(scratch)
        pinned = _write_tables(folder, count)
        peers = {name: running.enter_context(_asking(folder, name)) for name in PEERS}
        return {kind: _compare(pinned, peers, kind, count) for kind in ("conjunction", "range")}


def _write_tables(folder: Path, count: int) -> PinnedSnapshot:
    """Make the statistics as a Parquet file, and our table with an index of them."""
    bounds = made_up_bounds(count)
    pq.write_table(_statistics(bounds, count), folder / "statistics.parquet")
    link_tree(folder / "events", count)
    return index_with(pruner.open_table(folder / "events"), bounds)


def _statistics(bounds: Bounds, count: int) -> pa.Table:
    return pa.table(
        {
            "path": pa.array([f"part-{number:07}.parquet" for number in range(count)]),
            "event_min": pa.array(bounds.event_min),
            "event_max": pa.array(bounds.event_max),
            "carrier_min": pa.array(bounds.carrier_min.astype(str)),
            "carrier_max": pa.array(bounds.carrier_max.astype(str)),
        }
    )


def _questions(kind: str, count: int) -> Iterator[Question]:
    """Each run has its own constant, as queries do; all keep the same files."""
    first = count // 2 * ROWS_PER_FILE
    for number in range(RUNS + 1):
        yield kind, [first + number] if kind == "conjunction" else [first + number, first + 2 * ROWS_PER_FILE]


def _compare(pinned: PinnedSnapshot, peers: dict[str, Asked], kind: str, count: int) -> dict[str, float]:
    taken: dict[str, list[float]] = {name: [] for name in (OURS, *peers)}
    for kept_by_us, seconds, question in _ours(pinned, kind, count):
        taken[OURS].append(seconds)
        for name, peer in peers.items():
            waited, kept = peer.plan(question)
            assert kept == kept_by_us, (name, kept, kept_by_us)
            taken[name].append(waited)
    # The first of each loads what the others reuse.
    return {name: statistics.median(seconds[1:]) for name, seconds in taken.items()}


def _ours(pinned: PinnedSnapshot, kind: str, count: int) -> Iterator[tuple[int, float, Question]]:
    for question in _questions(kind, count):
        values = question[1]
        text = (
            f"carrier = '{CARRIER}' AND event > {values[0]}"
            if kind == "conjunction"
            else f"event BETWEEN {values[0]} AND {values[1]}"
        )
        started = time.process_time()
        files = list(pinned.plan(text).files)
        yield len(files), time.process_time() - started, question


class Asked:
    """A running peer."""

    def __init__(self, process: subprocess.Popen[str], questions: IO[str], answers: IO[str]) -> None:
        self._process = process
        self._questions = questions
        self._answers = answers

    def wait(self) -> None:
        """Wait until it is ready."""
        self._answer()

    def plan(self, question: Question) -> tuple[float, int]:
        """Seconds of a plan, and the number of files that it keeps."""
        self._questions.write(json.dumps(question) + "\n")
        self._questions.flush()
        answer = self._answer()
        return answer["seconds"], answer["kept"]

    def _answer(self) -> dict[str, Any]:
        line = self._answers.readline()
        if not line:
            raise SystemExit(f"a peer ended with {self._process.wait()}: its error stands above")
        return json.loads(line)


@contextmanager
def _asking(folder: Path, name: str) -> Iterator[Asked]:
    script, needed = PEERS[name]
    python = needed.python(cache_dir() / "peers")
    command = [python, HERE / script, folder / "statistics.parquet", folder / name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked = Asked(process, process.stdin, process.stdout)
        asked.wait()
        yield asked
