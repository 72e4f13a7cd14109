"""`pruner advise`: the statements of a log, and what comes of them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from tests.unit.cli.conftest import Run

SPARK_EVENTS = Path(__file__).parents[2] / "fixtures" / "spark-3.5-events.jsonl"
"""Begins of statements in the event log of a session of Spark 3.5 over a table at LAKE."""

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
    assert "read now" in ran.err
    assert "because" in ran.err
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


def asked(run: Run, *arguments: object) -> dict[str, int]:
    """The predicates that a log asks, and how often."""
    ran = run("advise", *arguments, "--output", "json")
    assert ran.code == 0, ran.err
    return {each["predicate"]: each["times"] for each in json.loads(ran.out)["questions"]}


def test_statements_that_a_connection_wrote_down(run: Run, lake: Path, tmp_path: Path) -> None:
    with pruner_duckdb.record(duckdb.connect(), tmp_path / "asked.jsonl") as con:
        for statement in (
            f"SELECT count(*) FROM '{lake}/*.parquet' WHERE account = 7",
            f"SELECT 1\n-- all\nFROM read_parquet('{lake}/**/*.parquet', union_by_name = true)\nWHERE account = 7",
            f"FROM '{lake.parent}/*/00.parquet' WHERE account = 7",
        ):
            con.cursor().execute(statement)
        assert con.sql(f"SELECT day FROM '{lake}/03.parquet' WHERE day < 601").fetchall() == [(600,)]
        assert con.execute("SELECT 1").fetchone() == (1,)
    assert list(asked(run, lake, "--log", tmp_path / "asked.jsonl").values()) == [2, 1]


def test_a_profile_of_duckdb(run: Run, lake: Path, tmp_path: Path) -> None:
    con = duckdb.connect()
    con.execute(f"PRAGMA enable_profiling = 'json'; PRAGMA profiling_output = '{tmp_path}/profile.json'")
    con.execute(f"SELECT count(*) FROM '{lake}/*.parquet' WHERE account = 7").fetchall()
    con.close()
    assert list(asked(run, lake, "--log", tmp_path / "profile.json").values()) == [1]
    (tmp_path / "older.json").write_text(
        json.dumps({"query_name": "FROM lake WHERE account = 8", "latency": 1})
    )
    assert list(asked(run, lake, "--log", tmp_path / "older.json").values()) == [1]


def test_queries_of_trino(run: Run, lake: Path, tmp_path: Path) -> None:
    lines = [
        {
            "query": "SELECT * FROM lake WHERE day < CAST('7' AS BIGINT) AND try_cast(account AS varchar) <> ''"
        },
        {
            "metadata": {"query": "SELECT approx_distinct(account) FROM hive.web.lake WHERE day = 3"},
            "statistics": {},
        },
    ]
    (tmp_path / "queries.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = asked(run, lake, "--log", tmp_path / "queries.jsonl", "--dialect", "trino")
    assert sum(found.values()) == 2


def test_an_event_log_of_spark(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "flights"
    root.mkdir()
    rows = {"carrier": ["AA", "UA"], "delay": [1, 90], "price": [1.5, 2.5], "f": [1.0, 2.0]}
    table = pa.table(rows | {"day": pa.array([19723, 19724], pa.int32()).cast(pa.date32())})
    pq.write_table(table, root / "0.parquet")
    (tmp_path / "events").write_text(SPARK_EVENTS.read_text().replace("LAKE", str(root)))
    first, second, third, fourth = asked(run, root, "--log", tmp_path / "events")
    assert first == "`carrier` = 'AA' AND `delay` > 60"
    assert second == "(`carrier` IN ('AA', 'or', 'UA') OR `delay` IS NULL)"  # a text with a comma in it
    assert third == "`day` = DATE '2024-01-03' AND NOT (`delay` = 3)"
    assert fourth.startswith(
        "`carrier` LIKE 'A%' AND (`delay` < 3 OR `delay` > 5) AND `price` < 1.50 AND `f` > 1.5 AND"
    )
    other = tmp_path / "other"
    other.mkdir()
    pq.write_table(table, other / "0.parquet")
    assert run("advise", other, "--log", tmp_path / "events").code == 1
