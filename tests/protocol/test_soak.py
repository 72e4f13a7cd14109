"""The ledger of schedules: a run resumes where another one stopped, and counts no seed twice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.protocol.soak import PART, Part, done, missing, summary


@pytest.mark.processes
def test_a_second_run_has_nothing_left_to_do(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.protocol.soak", "--schedules", "40", "--workers", "1"]
    environment = {**os.environ, "PRUNER_CACHE": str(tmp_path)}
    for _ in range(2):
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.startswith("40 schedules, none wrong, ")
        assert "; seeds 0 to 39\n" in run.stdout
    (ledger,) = tmp_path.iterdir()
    assert len(ledger.read_text().splitlines()) == 1


def test_a_ledger_says_what_is_missing(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.txt"
    assert done(ledger) == []
    # In the order in which processes ended; the last line was cut off.
    ledger.write_text(f"{2 * PART} {3 * PART - 1} 1.5\n0 39 0.1\n0 {PART - 1} 1.5\n{PART} {2 * PART}")
    known = done(ledger)
    assert known == [Part(0, PART - 1, 1.5), Part(2 * PART, 3 * PART - 1, 1.5)]
    assert list(missing(known, 3 * PART + 5)) == [range(PART, 2 * PART), range(3 * PART, 3 * PART + 5)]
    assert summary(known).startswith(f"{2 * PART:,} schedules, none wrong, ")
    assert summary(known).endswith(f"seeds 0 to {PART - 1}, {2 * PART} to {3 * PART - 1}")
    assert summary([]) == "0 schedules, none wrong; seeds none"
