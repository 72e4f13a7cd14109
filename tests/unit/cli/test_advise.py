"""`pruner advise`: the statements of a log, and what comes of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.conftest import Run

LOG = """\
-- yesterday
SELECT count(*) FROM lake WHERE account = 7;
SELECT count(*) FROM lake WHERE account = 7
select day from lake where day between 100 and 120

DROP TABLE lake
SELECT 1; COPY (SELECT 1) TO 'written.csv'
SELECT nothing FROM lake
"""


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """Twelve files: days follow each other, accounts are anywhere."""
    root = tmp_path / "lake"
    root.mkdir()
    accounts = np.random.default_rng(5).permutation(2400)
    for number in range(12):
        rows = slice(number * 200, number * 200 + 200)
        columns = {"day": range(rows.start, rows.stop), "account": accounts[rows]}
        pq.write_table(
            pa.table({name: pa.array(list(each)) for name, each in columns.items()}),
            root / f"{number:02}.parquet",
        )
        os.utime(root / f"{number:02}.parquet", (1_600_000_000, 1_600_000_000))
    (tmp_path / "log.sql").write_text(LOG)
    return root


def test_the_statements_of_a_log_decide(run: Run, lake: Path, tmp_path: Path) -> None:
    ran = run("advise", lake, "--log", tmp_path / "log.sql", "--output", "json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert {each["column"] for each in found["proposals"]} == {"account", "day"}
    assert [each["times"] for each in found["questions"]] == [2, 1]
    assert [each["files_now"] for each in found["questions"]] == [12.0, 12.0]
    assert found["questions"][1]["files_then"] == 1.0
    assert len(found["notes"]) == 3
    assert not Path("written.csv").exists()


def test_what_is_printed_can_be_run(run: Run, lake: Path, tmp_path: Path) -> None:
    ran = run("advise", lake, "--log", tmp_path / "log.sql", "--sql")
    for statement in ran.out.splitlines():
        assert run("sql", statement.rstrip(";")).code == 0
    assert run("plan", lake, "--where", "day = 5").out.startswith("1 of 12 slices")
    text = run("advise", lake, "--log", tmp_path / "log.sql").out
    assert "no index would save a hundredth of what is read" in text


def test_text_says_what_and_why(run: Run, lake: Path) -> None:
    text = run("advise", lake).out
    assert "1. CREATE INDEX " in text
    assert "   because " in text
    assert "note: no statement was given" in text


def test_a_log_that_asks_nothing_of_the_table(run: Run, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "other.sql").write_text("SELECT 1\nSELECT nothing FROM lake\n")
    ran = run("advise", lake, "--log", tmp_path / "other.sql")
    assert ran.code == 1
    assert "no statement of " in ran.err
    assert "not understood: SELECT nothing FROM lake" in ran.err
    assert run("advise", lake, "--log", tmp_path / "nowhere.sql").code == 2
