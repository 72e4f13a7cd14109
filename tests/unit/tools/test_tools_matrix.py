"""Environments for other versions of an engine: pinned packages come first, everything else from the checkout."""

from __future__ import annotations

import re
import subprocess

import pytest

from tools.matrix import ENGINES, ROOT, python_with

LOCKS = sorted(ROOT.glob("requirements-duckdb-*.lock"))


def test_every_lock_pins_one_tested_version_and_names_no_host() -> None:
    from pruner_duckdb.shadow.selftest import TESTED_VERSIONS

    pinned = {version for lock in LOCKS for version in re.findall(r"^duckdb==(\S+)", lock.read_text(), re.M)}
    assert len(pinned) == len(LOCKS) >= 1
    assert pinned < TESTED_VERSIONS
    assert not any("://" in lock.read_text() for lock in LOCKS)


def test_the_tests_of_the_adapter_are_found() -> None:
    names = {
        test.rpartition("/")[2] for engine in ENGINES if engine.package == "duckdb" for test in engine.tests
    }
    assert {
        "test_duckdb_queries.py",
        "test_duckdb_random.py",
        "test_duckdb_traps.py",
        "test_found_top_rows.py",
    } <= names


@pytest.mark.slow
def test_everyday_statements_are_answered_by_the_oldest_version() -> None:
    """`make check-matrix` takes half an hour and runs seldom; every run checks what any statement meets."""
    tests = ["tests/engines/test_everyday_answers.py", "-k", "parquet"]
    options = ["-p", "no:cacheprovider", "-p", "no:xdist", "-q"]
    run = subprocess.run(
        [python_with(LOCKS[0]), "-m", "pytest", *options, *tests],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:]
    assert " passed" in run.stdout
