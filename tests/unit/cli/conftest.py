"""A real table on disk, and two ways to run the command line: in this process and in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import typer.testing
from typer.main import get_command
from typer.testing import CliRunner

from pruner.catalog.config import FILE_VARIABLE
from pruner.cli.app import app
from tests.support.running.patience import PATIENCE

ROWS_PER_FILE = 10

# A process creates its commands once. Typer's runner creates them for every run, a fifth of the time of these tests.
typer.testing._get_command = cache(get_command)  # pyright: ignore[reportPrivateImportUsage]


@dataclass(frozen=True)
class Ran:
    """The result of one run of the command line."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(FILE_VARIABLE, raising=False)
    monkeypatch.delenv("PRUNER_TRACEBACK", raising=False)


@pytest.fixture
def flights(tmp_path: Path) -> Path:
    """Four files: `delay` counts 0 to 39 through them, `carrier` is AA, AB, AC, AD, one for each file."""
    root = tmp_path / "flights"
    root.mkdir()
    for number in range(4):
        first = number * ROWS_PER_FILE
        table = pa.table(
            {
                "delay": pa.array(range(first, first + ROWS_PER_FILE), pa.int64()),
                "carrier": ["A" + "ABCD"[number]] * ROWS_PER_FILE,
                "tags": [["x"]] * ROWS_PER_FILE,
            }
        )
        pq.write_table(table, root / f"part-{number}.parquet")
        # A file that was just written may still change within the clock's granularity.
        os.utime(root / f"part-{number}.parquet", (1_600_000_000, 1_600_000_000))
    return root


@pytest.fixture
def run() -> Run:
    """Run a command in this process."""

    def invoke(
        *arguments: object, stdin: str | bytes | None = None, env: dict[str, str] | None = None
    ) -> Ran:
        result = CliRunner(env=env).invoke(app, [str(argument) for argument in arguments], input=stdin)
        return Ran(result.exit_code, result.stdout, result.stderr)

    return invoke


@pytest.fixture
def run_process() -> Run:
    """Run a command in a process of its own, like the shell."""

    def start(*arguments: object, env: dict[str, str] | None = None) -> Ran:
        done = subprocess.run(
            command_line(*arguments),
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return start


def command_line(*arguments: object) -> list[str]:
    """The command line that runs `pruner` with this interpreter."""
    return [sys.executable, "-m", "pruner", *(str(argument) for argument in arguments)]
