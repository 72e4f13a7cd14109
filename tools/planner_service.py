"""Runs `pruner serve` as a process of its own, as users do."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def planner_service(folder: Path) -> Iterator[str]:
    """Run the service on a free port in a folder with a `pruner.toml`; gives its URL, and ends it with the block."""
    with planner_process(folder) as (url, _):
        yield url


@contextmanager
def planner_process(folder: Path, *options: str) -> Iterator[tuple[str, int]]:
    """The same with options; gives the id of the process, too. Its log goes to `service.log` in the folder."""
    command = [sys.executable, "-m", "pruner", "serve", "--port", "0", *options]
    log = folder / "service.log"
    with log.open("w", encoding="utf-8") as written:
        process = subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=written, stdin=subprocess.DEVNULL, text=True
        )
    try:
        assert process.stdout is not None
        found = re.search(r"http://\S+?:\d+", process.stdout.readline())
        if found is None:
            raise SystemExit(f"`pruner serve` did not start: {log.read_text(encoding='utf-8')}")
        yield found[0], process.pid
    finally:
        process.terminate()
        process.wait()
