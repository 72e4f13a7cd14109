"""Environments for other versions of an engine: what is pinned comes first, everything else from the checkout."""

from __future__ import annotations

import re

from tools.matrix import ENGINES, ROOT

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
