"""Repeated statements while macros, functions, settings, types, tables and files change under them, through any handle:
every answer is that of plain DuckDB after the same changes.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.engines.duckdb.session.duckdb_changing_sessions import (
    MODES,
    OTHERS,
    WITH_MACROS,
    WRITES,
    Case,
    Sessions,
    alike,
    change,
    failed,
    result,
)
from tests.support.running.profiles import examples

STATEMENTS = 80
"""The number of statements that see one pair of databases."""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(examples(3)))
def test_whatever_happens_between_statements(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    mode = MODES[seed % len(MODES)]
    sessions = Sessions(tmp_path, mode)
    cases = [*WITH_MACROS[:2], *chance.sample(WITH_MACROS, 3), *chance.sample(OTHERS, 3)]
    log: list[str] = []
    seen = left_out = 0
    while seen < STATEMENTS:
        log += [change(sessions, mode, chance)] if seen else []
        for case in chance.sample(cases, 2):
            seen += 2
            left_out += _repeat(sessions, case, chance, log)
        if chance.random() < 0.15:
            _write(sessions, *chance.choice(WRITES), chance, log)
    assert left_out, "files of which nothing is left out lose no rows"


def _repeat(sessions: Sessions, case: Case, chance: random.Random, log: list[str]) -> int:
    """Ask twice; return how many files were pruned."""
    handle, lazily = chance.randrange(2), chance.random() < 0.4
    expected = result(sessions.plain[handle], case)
    left_out = 0
    for _ in range(2):
        sessions.con.last_plans.clear()
        ours = result(sessions.ours[handle], case, lazily=lazily)
        left_out += sum(scan.total - scan.kept for scan in sessions.con.last_plans)
        plans = [(scan.kept, scan.total, scan.reason) for scan in sessions.con.last_plans]
        assert alike(ours, expected), (case, handle, lazily, ours, expected, plans, log)
        if failed(ours):
            sessions.roll_back(handle)
            break
    return left_out


def _write(sessions: Sessions, sql: str, shown: str, chance: random.Random, log: list[str]) -> None:
    handle = chance.randrange(2)
    sides = [
        [result(each[handle], Case(text)) for text in (sql, shown)]
        for each in (sessions.ours, sessions.plain)
    ]
    assert all(map(alike, *sides)), (sql, handle, sides, log)
    if any(map(failed, sides[0])):
        sessions.roll_back(handle)
