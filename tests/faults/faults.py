"""Wrong edits of the code, and whether tests notice them.

A fault is a block of lines in `faults.txt`:

    # what it is
    rule: R4                              the rule that it breaks, if the fault represents a rule
    noticed by: tests/unit/test_verdict.py    the tests to run, separated by spaces; `SUITES` unless given
    file: pruner/verdict.py
    - the text to replace, each line after `- `
    + its replacement, each line after `+ `
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

ROOT = Path(__file__).resolve().parents[2]
FAULTS = Path(__file__).with_name("faults.txt")
TIMEOUT_SECONDS = 900
SUITES = (
    "tests/unit/test_verdict.py",
    "tests/unit/indexes",
    "tests/unit/planning",
    "tests/soundness/test_parquet_tables.py",
    "tests/unit/expr",
    "tests/known_wrong",
    "tests/engines/duckdb/files/test_duckdb_rows.py",
    "tests/soundness/indexes/test_bitmaps.py",
)
"""In this order: the first failure ends a run; the first suites take seconds and notice most faults."""

NONE_SELECTED: Final = pytest.ExitCode.NO_TESTS_COLLECTED
QUICK: Final = "not spark and not trino and not faults and not load"
SLOW: Final = "(spark or load) and not trino and not faults"
"""Tests that are run if none of the quick ones notices a fault."""

COPIED = ("pruner", "adapters", "tools", "tests", "examples", "pyproject.toml")


@dataclass(frozen=True)
class Fault:
    """One wrong edit."""

    title: str
    rule: str | None
    noticed_by: tuple[str, ...]
    file: str
    old: str
    new: str


def read_faults() -> list[Fault]:
    """Return the faults of `faults.txt`, in order."""
    found: list[Fault] = []
    for block in FAULTS.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("##")]
        if not lines:
            continue
        named = dict(
            line.split(": ", 1) for line in lines if line.startswith(("rule: ", "noticed by: ", "file: "))
        )
        found.append(
            Fault(
                title=lines[0].removeprefix("# "),
                rule=named.get("rule"),
                noticed_by=tuple(named.get("noticed by", "").split()) or SUITES,
                file=named["file"],
                old="\n".join(line[2:] for line in lines if line.startswith("- ")),
                new="\n".join(line[2:] for line in lines if line.startswith("+ ")),
            )
        )
    return found


def is_noticed(fault: Fault, folder: Path) -> bool:
    """Apply a fault to a copy of the project in a new folder, and tell whether one of its tests fails."""

    def put_in() -> None:
        target = folder / fault.file
        target.write_text(target.read_text().replace(fault.old, fault.new))

    return _fails_in_a_copy(folder, fault.noticed_by, put_in, (QUICK, SLOW))


def fails_without_a_fault(suites: tuple[str, ...], folder: Path) -> bool:
    """Tell whether tests fail in an unchanged copy of the project: if so, they notice nothing."""
    return _fails_in_a_copy(folder, suites, lambda: None, (QUICK,))


def _fails_in_a_copy(
    folder: Path, suites: tuple[str, ...], change: Callable[[], None], marked: tuple[str, ...]
) -> bool:
    folder.mkdir()
    try:
        _copy(folder)
        change()
        return any(_fails(folder, suites, marks) for marks in marked)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy(folder: Path) -> None:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            # Compiled files are copied: Python compiles again what has another mtime, as the faulty file has.
            # Files that another worker is just writing are not copied.
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("*.pyc.*"))
        else:
            shutil.copy(source, folder / name)


def _fails(folder: Path, suites: tuple[str, ...], marks: str) -> bool:
    environment = {
        **os.environ,
        "PRUNER_TEST_PROFILE": "default",
        "PRUNER_PAIRS": "2000",
        "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'adapters'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    options = [
        "-x",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-m",
        marks,
    ]
    command = [sys.executable, "-m", "pytest", *options, *suites]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True  # a fault that makes the tests hang is noticed
    assert done.returncode in (0, 1, NONE_SELECTED), (
        f"pytest did not run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
    )
    return done.returncode == 1
