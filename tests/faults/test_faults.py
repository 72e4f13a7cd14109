"""Do the tests notice when the code is wrong? Each fault of faults.txt is put into a copy of the code and
must be caught.

A fault is a block of lines: `# what it is`, `file: path`, then the text to replace on lines that start with
`- ` and its replacement on lines that start with `+ `. The copy runs the fast tests of verdict, evidence and
coercion and a short run of random tables; a fault that all of them survive is named. `make faults` tries all
of them, `make test` a random few.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FAULTS = Path(__file__).parent / "faults.txt"
LEAST_CAUGHT = 0.95
TRIED = int(os.environ.get("PRUNER_FAULTS", "12"))
TIMEOUT_SECONDS = 900
SUITES = (
    "tests/unit/test_verdict.py",
    "tests/unit/indexes",
    "tests/unit/expr",
    "tests/known_wrong",
    "tests/unit/planning",
    "tests/engines/test_duckdb_rows.py",
    "tests/soundness/test_parquet_tables.py",
    "tests/soundness/test_bitmaps.py",
)
COPIED = ("pruner", "adapters", "tools", "tests", "examples", "pyproject.toml")


@dataclass(frozen=True)
class Fault:
    """One wrong edit."""

    title: str
    file: str
    old: str
    new: str


def read_faults(text: str) -> list[Fault]:
    """Parse faults.txt."""
    faults: list[Fault] = []
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("##")]
        if not lines:
            continue
        title = lines[0].removeprefix("# ")
        file = next(line.removeprefix("file: ") for line in lines if line.startswith("file: "))
        old = "\n".join(line[2:] for line in lines if line.startswith("- "))
        new = "\n".join(line[2:] for line in lines if line.startswith("+ "))
        faults.append(Fault(title, file, old, new))
    return faults


ALL_FAULTS = read_faults(FAULTS.read_text())


@pytest.mark.parametrize("fault", ALL_FAULTS, ids=lambda fault: fault.title)
def test_each_fault_still_fits_the_code(fault: Fault) -> None:
    assert (ROOT / fault.file).read_text().count(fault.old) == 1, (
        f"{fault.old!r} must occur once in {fault.file}"
    )


def test_the_suites_are_there() -> None:
    """Without one of them pytest fails for every fault, and no fault is tried."""
    assert [suite for suite in SUITES if not (ROOT / suite).exists()] == []


@pytest.mark.faults
def test_faults_are_caught(
    tmp_path: Path, pytestconfig: pytest.Config, record_property: Callable[[str, object], None]
) -> None:
    tried = random.Random(pytestconfig.option.hypothesis_seed).sample(ALL_FAULTS, min(TRIED, len(ALL_FAULTS)))
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        caught = list(
            pool.map(lambda numbered: _is_caught(tmp_path / str(numbered[0]), numbered[1]), enumerate(tried))
        )
    survivors = [fault.title for fault, noticed in zip(tried, caught, strict=True) if not noticed]
    record_property(
        "figure", f"{sum(caught)} of {len(tried)} faults caught; survivors: {survivors or 'none'}"
    )
    assert sum(caught) >= LEAST_CAUGHT * len(tried) - (len(ALL_FAULTS) > TRIED), survivors


def _is_caught(folder: Path, fault: Fault) -> bool:
    folder.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
        else:
            shutil.copy(source, folder / name)
    target = folder / fault.file
    target.write_text(target.read_text().replace(fault.old, fault.new))
    environment = {
        **os.environ,
        "PRUNER_TEST_PROFILE": "quick",
        "PRUNER_PAIRS": "2000",
        "PYTHONPATH": f"{folder}{os.pathsep}{folder / 'adapters'}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:xdist",
        "-p",
        "no:cacheprovider",
        "-m",
        "not spark and not faults",
    ]
    try:
        done = subprocess.run(
            [*command, *SUITES],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return True  # a fault that makes the tests hang does not pass unnoticed
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return done.returncode == 1
