"""`pruner advise`: the statements of a log, and the advice drawn from them."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from pruner.cli.commands import advising
from tests.unit.cli.conftest import Run

SPARK_EVENTS = Path(__file__).parents[2] / "fixtures" / "spark-3.5-events.jsonl"
"""Start events of statements, from the event log of a Spark 3.5 session over a table at LAKE."""

IN_TIME = ("--budget", "3600")
"""However slow the machine is."""

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
    """Twelve files: days in file order, accounts scattered."""
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


@pytest.mark.slow
def test_the_statements_of_a_log_decide(run: Run, lake: Path, tmp_path: Path) -> None:
    ran = run("advise", lake, "--log", tmp_path / "log.sql", *IN_TIME, "--output", "json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert {each["column"] for each in found["proposals"]} == {"account", "day"}
    assert [each["times"] for each in found["questions"]] == [2, 1]
    assert [each["files_now"] for each in found["questions"]] == [12, 12]
    assert found["questions"][1]["files_then"] == 1

    assert len(found["notes"]) == 3
    assert not Path("written.csv").exists()


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    "unjudged",
    [
        "SELECT nothing FROM lake",
        "SELECT count(*) FROM lake WHERE reverse(account::VARCHAR) = '7'",
        "SELECT * FROM lake AS a JOIN lake AS b ON a.account = b.day",
        "SELECT * FROM lake AS a, lake AS b WHERE a.account = b.day",
        "FROM lake WHERE account IN (SELECT max(day) FROM lake)",
        "SELECT * FROM (FROM lake WHERE account = (SELECT max(day) FROM lake)) AS a",
        "FROM lake AS a WHERE EXISTS (FROM lake AS b WHERE a.account = b.day)",
        "not a statement",
    ],
)
def test_no_drop_is_named_while_a_statement_is_not_judged(
    run: Run, lake: Path, tmp_path: Path, unjudged: str
) -> None:
    """All statements are read however short the time: the last one can be the one that needs the index."""
    assert run("sql", f"CREATE INDEX accounts ON '{lake}' USING bloom_filter (account)").code == 0
    days = "\n".join(f"FROM lake WHERE day = {day}" for day in range(20))
    (tmp_path / "log.sql").write_text(days)
    log = ("--log", tmp_path / "log.sql")
    refused = "no DROP INDEX is proposed: an index can help a statement that was not judged"
    text = run("advise", lake, *log, *IN_TIME).out
    assert "DROP INDEX accounts would lose nothing" in text
    assert refused not in text
    (tmp_path / "log.sql").write_text(f"{days}\n{unjudged}")
    for budget in ("0.1", "3600"):
        text = run("advise", lake, *log, "--budget", budget).out
        assert "would lose nothing" not in text
        assert text.count(refused) == 1
    (tmp_path / "log.sql").write_text(f"{days}\nFROM lake WHERE account = 7")
    found = json.loads(run("advise", lake, *log, "--budget", "0.1", "--output", "json").out)
    assert found["useless"] == {}, "the last statement is what the index is for"
    assert len(found["questions"]) == 21


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "alone",
    [
        "WITH a AS (FROM lake WHERE day = 3) SELECT * FROM a",
        "SELECT * FROM ((SELECT * FROM lake WHERE day = 3)) AS a",
        "FROM lake WHERE day = 3 UNION ALL (FROM lake WHERE day = 4)",
        "SELECT 'a join of texts' FROM lake WHERE day = 3",
    ],
)
def test_a_statement_without_another_side_is_judged(run: Run, lake: Path, tmp_path: Path, alone: str) -> None:
    assert run("sql", f"CREATE INDEX accounts ON '{lake}' USING bloom_filter (account)").code == 0
    (tmp_path / "log.sql").write_text(alone)
    assert (
        "DROP INDEX accounts would lose nothing"
        in run("advise", lake, "--log", tmp_path / "log.sql", *IN_TIME).out
    )


@pytest.mark.slow
def test_files_and_bytes_are_whole(run: Run, lake: Path) -> None:
    found = json.loads(run("advise", lake, *IN_TIME, "--output", "json").out)

    def counts(name: str, value: object) -> list[object]:
        if isinstance(value, dict):
            return [each for key, inner in value.items() for each in counts(key, inner)]
        if isinstance(value, list):
            return [each for inner in value for each in counts(name, inner)]
        return [value] if "files" in name or "bytes" in name else []

    assert len(counts("", found)) > 20
    assert {type(each) for each in counts("", found)} == {int}


@pytest.mark.slow
def test_ranges_are_proposed_as_one_index(run: Run, lake: Path, tmp_path: Path) -> None:
    for number, file in enumerate(sorted(lake.glob("*.parquet"))):
        rows = pq.read_table(file)
        pq.write_table(rows.append_column("hour", pa.array([number] * len(rows))), file)
        os.utime(file, (1_600_000_000, 1_600_000_000))
    (tmp_path / "log.sql").write_text(
        "FROM lake WHERE day < 100\nFROM lake WHERE hour = 3\nFROM lake WHERE account = 7"
    )
    found = json.loads(run("advise", lake, "--log", tmp_path / "log.sql", *IN_TIME, "--output", "json").out)
    [ranges] = [each for each in found["proposals"] if each["using"] == "column_stats"]
    assert set(ranges["column"].split(", ")) == {"day", "hour"}
    assert set(ranges["helped"]) == {1, 2}
    assert run("sql", ranges["sql"]).code == 0
    assert run("plan", lake, "--where", "day = 5").out.startswith("1 of 12 ")
    assert run("plan", lake, "--where", "hour = 5").out.startswith("1 of 12 ")


@pytest.mark.slow
def test_statements_over_several_tables(run: Run, lake: Path, tmp_path: Path) -> None:
    others = tmp_path / "somewhere"
    others.mkdir()
    pq.write_table(pa.table({"account": [7, 8], "kind": ["a", "b"]}), others / "0.parquet")
    (tmp_path / "log.sql").write_text(
        "SELECT * FROM lake JOIN people USING (account) WHERE day = 3 AND kind = 'a'"
    )
    log = ("--log", tmp_path / "log.sql")
    unknown = run("advise", lake, *log, *IN_TIME)
    assert unknown.code == 1
    assert "unknown table people: pass --table people=URI" in unknown.err
    assert list(asked(run, lake, *log, "--table", f"people={others}")) == ["day = 3"]


@pytest.mark.slow
def test_what_is_printed_can_be_run(run: Run, lake: Path, tmp_path: Path) -> None:
    ran = run("advise", lake, "--log", tmp_path / "log.sql", *IN_TIME, "--sql")
    assert "read now" in ran.err
    assert "because" in ran.err
    for statement in ran.out.splitlines():
        assert run("sql", statement.rstrip(";")).code == 0
    assert run("plan", lake, "--where", "day = 5").out.startswith("1 of 12 files")
    text = run("advise", lake, "--log", tmp_path / "log.sql", *IN_TIME).out
    assert "no index would save a hundredth of what is read" in text


@pytest.mark.slow
def test_text_says_what_and_why(run: Run, lake: Path) -> None:
    text = run("advise", lake, *IN_TIME).out
    assert "1. CREATE INDEX " in text
    assert "   because " in text
    assert "note: no statement was given" in text


@pytest.mark.slow
def test_a_table_can_be_named_by_its_folder(run: Run, lake: Path, tmp_path: Path) -> None:
    """A log need not use the name in pruner.toml; another table with the folder's name is not this one."""
    (tmp_path / "pruner.toml").write_text(f"[tables.ev]\nuri = '{lake}'\n")
    (tmp_path / "both.sql").write_text(
        "FROM lake WHERE day = 3\nFROM ev WHERE day = 4\nFROM x.lake WHERE day = 5\n"
    )
    everything = {"day = 3": 1, "day = 4": 1, "day = 5": 1}
    assert asked(run, "ev", "--log", tmp_path / "both.sql") == everything
    other = tmp_path / "other" / "lake"
    other.mkdir(parents=True)
    pq.write_table(pa.table({"day": [1]}), other / "0.parquet")
    known = ("--table", f"lake={other}")
    assert asked(run, "ev", "--log", tmp_path / "both.sql", *known) == {"day = 4": 1}


@pytest.mark.slow
def test_statements_that_are_not_looked_at_are_counted(
    run: Run, lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advising, "STATEMENTS", 2)
    notes = []
    for count in (3, 4):
        (tmp_path / "many.sql").write_text("".join(f"FROM lake WHERE day = {day}\n" for day in range(count)))
        ran = run("advise", lake, "--log", tmp_path / "many.sql", *IN_TIME, "--output", "json")
        notes.append(json.loads(ran.out)["notes"][0])
    assert notes == [
        "1 statement was not looked at: the 2 that were come as often or more often",
        "2 statements were not looked at: the 2 that were come as often or more often",
    ]


def test_a_log_that_asks_nothing_of_the_table(run: Run, lake: Path, tmp_path: Path) -> None:
    (tmp_path / "other.sql").write_text("SELECT 1\nSELECT nothing FROM lake\n")
    ran = run("advise", lake, "--log", tmp_path / "other.sql")
    assert ran.code == 1
    assert "no statement of " in ran.err
    assert "not understood: SELECT nothing FROM lake" in ran.err
    assert run("advise", lake, "--log", tmp_path / "nowhere.sql").code == 2


def asked(run: Run, *arguments: object) -> dict[str, int]:
    """The predicates in a log, and how often each occurs."""
    ran = run("advise", *arguments, *IN_TIME, "--output", "json")
    assert ran.code == 0, ran.err
    return {each["predicate"]: each["times"] for each in json.loads(ran.out)["questions"]}


@pytest.mark.slow
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


@pytest.mark.slow
def test_values_of_parameters_are_written_down(run: Run, lake: Path, tmp_path: Path) -> None:
    written = tmp_path / "asked.jsonl"
    with pruner_duckdb.record(duckdb.connect(), written) as con:
        con.execute(
            f"SELECT '?' FROM '{lake}/*.parquet' WHERE account = ? AND day < ? -- ?\nLIMIT ?", [7, 601, 3]
        )
        con.execute(f"FROM '{lake}/*.parquet' WHERE account = $who AND day < $Day", {"who": 8, "Day": 601})
        con.sql(f"FROM '{lake}/*.parquet' WHERE account = $1 OR account = $1", params=(9,)).fetchall()
        con.execute("SELECT ?, ?", [datetime.date(2024, 1, 2), "it's"])
        con.execute(f"SELECT count(*) FROM '{lake}/*.parquet' WHERE list_contains(?, account)", [[1, 2]])
    lines = [json.loads(line) for line in written.read_text().splitlines()]
    assert [line.get("parameters") for line in lines] == [
        ["7", "601", "3"],
        {"who": "8", "Day": "601"},
        ["9"],
        ["CAST('2024-01-02' AS DATE)", "'it''s'"],
        None,
    ]
    found = asked(run, lake, "--log", written)
    assert len(found) == 3
    for value in ("7", "8", "9"):
        assert sum(f"account = {value}" in text for text in found) == 1


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
