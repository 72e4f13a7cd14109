"""The two ways in which DuckDB reads pruned tables, and which tests run by both.

Statements are rewritten, or DuckDB asks while it plans (docs/native-scan.md). Tests of the files in `BOTH_WAYS` run a
second time with the native scan as the default of `connect`; with `PRUNER_TEST_DUCKDB=both` all tests of the adapter
do. A test or case that is marked `rewriting` is about how statements are rewritten, and runs that way alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

FIXTURE: Final = "duckdb_way"
REWRITING: Final = "rewriting"
NATIVE: Final = "native"

BOTH_WAYS: Final = frozenset(
    f"tests/engines/{name}.py"
    for name in (
        "duckdb/files/test_duckdb_rows",
        "duckdb/files/test_duckdb_schema",
        "duckdb/random/test_duckdb_random",
        "duckdb/random/test_duckdb_sqlancer",
        "duckdb/session/test_duckdb_names",
        "duckdb/statements/test_duckdb_analysts",
        "duckdb/statements/test_duckdb_analysts_tables",
        "duckdb/statements/test_duckdb_failing_values",
        "duckdb/statements/test_duckdb_lists",
        "duckdb/statements/test_duckdb_queries",
        "duckdb/statements/test_duckdb_statements",
        "duckdb/statements/test_duckdb_unnest",
        "duckdb/statements/test_duckdb_with",
        "test_everyday_conditions",
    )
)
"""Where rows, types, errors and numbers of files can differ; what no engine's plan decides runs one way."""

ALL: Final = os.environ.get("PRUNER_TEST_DUCKDB", "chosen") == "both"

ROOT = Path(__file__).parents[3]


@cache
def has_native_scan() -> bool:
    """Whether the native scan is here; `test_duckdb_native_scan.py` fails where it could be and is not."""
    from pruner_duckdb.native_scan.library import reason_against

    return reason_against() is None


def runs_both_ways(path: Path) -> bool:
    """Whether the tests of a file run by both ways in this run."""
    name = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""
    chosen = name in BOTH_WAYS or (
        ALL and name.startswith("tests/") and "pruner_duckdb" in path.read_text("utf-8")
    )
    return chosen and "native_scan" not in name and has_native_scan()


def ways(metafunc: pytest.Metafunc) -> Sequence[Any]:
    """The ways of one test. The way that has always been there does not show in the test's name."""
    rewriting = pytest.param(REWRITING, id=pytest.HIDDEN_PARAM)
    marked = metafunc.definition.get_closest_marker("rewriting") is not None
    return [rewriting] if marked else [rewriting, pytest.param(NATIVE, id=NATIVE)]


def is_left_out(item: pytest.Item) -> bool:
    """Whether a case is about rewriting and would run with the native scan."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get(FIXTURE) == NATIVE and item.get_closest_marker("rewriting") is not None


def native_reads_are(found: Sequence[Any], expected: Sequence[Any], rewritten: Sequence[Any] = ()) -> bool:
    """Whether the native scans of a statement read as many files as expected, in whatever order.

    The numbers are those of DuckDB 2.0.0, which is locked. Version 2.0.1 learns more while it plans: it answers a count
    from statistics and takes conditions from one side of a join to the other. It reads no more than 2.0.0.

    Args:
        found: numbers of files, or tuples of a table, the number of files, and how many there are.
        expected: the same of 2.0.0.
        rewritten: what the statement reads where it is rewritten.
    """
    if duckdb.__version__ == "2.0.0":
        return sorted(found) == sorted(expected)
    read, native, other = (
        sum(one[1] if isinstance(one, tuple) else one for one in scans)
        for scans in (found, expected, rewritten)
    )
    return len(found) <= len(expected) and read <= max(native, other)


class Way:
    """The way of a module's tests, and what ends with it: the module's fixtures, whose connections are of that way."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at_the_end: list[Callable[[], object]] = []

    @property
    def is_native(self) -> bool:
        return self.name == NATIVE


_now: list[Way] = []


def is_native() -> bool:
    """Whether the running test has the native scan."""
    return bool(_now) and _now[-1].is_native


@contextmanager
def followed(name: str) -> Iterator[Way]:
    """Let `connect` go one way where it is not told which."""
    from pruner_duckdb.connection import connect

    way, defaults = Way(name), connect.__defaults__ or ()
    assert defaults[-1:] == ("off",)
    if way.is_native:
        # Its default and not its name: tests import it in several ways.
        connect.__defaults__ = (*defaults[:-1], "auto")
    _now.append(way)
    try:
        yield way
    finally:
        for each in reversed(way.at_the_end):
            each()
        _now.remove(way)
        connect.__defaults__ = defaults
