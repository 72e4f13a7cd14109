"""Packages of `examples/` that register plug-ins, installed for one test and run in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.running.patience import PATIENCE

EXAMPLES = Path(__file__).parents[2] / "examples"


def run_with_example(name: str, site: Path, script: str, *arguments: str) -> list[str]:
    """Install `examples/<name>` into a new folder and return the lines that a script prints beside it.

    Raises:
        AssertionError: the script fails, or says anything on standard error.
    """
    install = ["-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target"]
    subprocess.run(
        [sys.executable, *install, str(site), str(EXAMPLES / name)],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(site), *sys.path])},
    )
    assert done.stderr == ""
    return done.stdout.splitlines()
