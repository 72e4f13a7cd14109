"""The rows of `pruner query` as CSV and as Parquet."""

from __future__ import annotations

import csv
import io
import json
import subprocess
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb
import pyarrow.parquet as pq
import pytest

import pruner_duckdb
from tests.unit.cli.conftest import Run, command_line

VALUES = """SELECT 1 AS "a,b", 'x "y"' || chr(10) || 'z' AS text, NULL AS nothing, 1.50::DECIMAL(5,2) AS d,
    DATE '2024-02-29' AS day, '\\x00\\xFF'::BLOB AS bytes, [1, 2] AS list"""


def test_csv_is_read_as_it_was(run: Run) -> None:
    ran = run("query", VALUES, "--output", "csv")
    assert ran.code == 0, ran.err
    assert list(csv.reader(io.StringIO(ran.out))) == [
        ["a,b", "text", "nothing", "d", "day", "bytes", "list"],
        ["1", 'x "y"\nz', "", "1.50", "2024-02-29", "00ff", "[1,2]"],
    ]


@pytest.mark.slow
def test_no_value_is_spelled_as_python_has_it(run: Run) -> None:
    """Lists of moments were printed as `[datetime.datetime(2024, …)]`, which no other program reads."""
    select = """SELECT [TIMESTAMP '2024-02-29 01:02:03', NULL] AS moments, true AS yes, INTERVAL 36 HOUR AS span,
        {'d': 1.50::DECIMAL(5,2), 'u': UUID '8ef2a9d0-3f1c-4e0b-9d5f-0123456789ab'} AS struct,
        MAP {DATE '2024-02-29': [false]} AS map, '\\xAA'::BLOB AS bytes"""
    values = [
        '["2024-02-29T01:02:03",null]',
        "true",
        "36:00:00",
        '{"d":"1.50","u":"8ef2a9d0-3f1c-4e0b-9d5f-0123456789ab"}',
        '{"2024-02-29":[false]}',
        "aa",
    ]
    ran = run("query", select, "--output", "csv")
    assert list(csv.reader(io.StringIO(ran.out)))[1] == values, ran.err
    assert run("query", select).out.splitlines()[1].split() == values


@pytest.mark.slow
def test_intervals_are_those_of_the_engine(run: Run, flights: Path) -> None:
    """A month was printed as `P30D`: DuckDB's client has no months."""
    select = """SELECT INTERVAL 1 MONTH AS i, [INTERVAL '1 month 2 days 00:00:01.5'] AS l, delay AS "i",
        {'interval': 1, 'x': INTERVAL 1 YEAR} AS s FROM flights WHERE delay > 38 -- only one"""
    table = ("--table", f"flights={flights}")
    ran = run("query", select, *table, "--output", "csv")
    row = ["1 month", '["1 month 2 days 00:00:01.5"]', "39", '{"interval":1,"x":"1 year"}']
    assert list(csv.reader(io.StringIO(ran.out))) == [["i", "l", "i", "s"], row]
    answer = json.loads(run("query", select, *table, "--output", "json").out)
    assert answer["rows"] == [["1 month", ["1 month 2 days 00:00:01.5"], 39, {"interval": 1, "x": "1 year"}]]
    assert answer["columns"][0] == {"name": "i", "type": "INTERVAL"}
    assert len(answer["scans"]) == 1
    assert run("query", "SELECT INTERVAL 1 MONTH AS i").out == "i\n1 month\n"


@pytest.mark.slow
def test_a_query_with_intervals_runs_once(run: Run, flights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    execute = pruner_duckdb.Connection.execute

    def recorded(self: pruner_duckdb.Connection, query: Any, parameters: Any = None) -> Any:
        ran.append(query)
        return execute(self, query, parameters)

    monkeypatch.setattr(pruner_duckdb.Connection, "execute", recorded)
    table = ("--table", f"flights={flights}")
    found = run("query", "SELECT max(delay) * INTERVAL 1 DAY AS i FROM flights", *table, "--output", "csv")
    assert found.out == "i\n39 days\n"
    assert found.err.count("files read") == 1
    assert [text.split()[0] for text in ran] == ["DESCRIBE", "SELECT"]
    ran.clear()
    failed = run("query", "SELECT INTERVAL 1 DAY AS i, CAST(carrier AS INT) AS n FROM flights", *table)
    assert failed.code == 1
    assert "INT32" in failed.err
    assert ran[-1].startswith("SELECT INTERVAL 1 DAY AS i")


@pytest.mark.slow
def test_a_scan_that_is_left_out_reads_no_file(run: Run, flights: Path) -> None:
    for statement in ("DESCRIBE flights", "SELECT * FROM flights WHERE 5 + 5 = 11"):
        told = run("query", statement, "--table", f"flights={flights}").err
        assert told == "flights: DuckDB's optimizer leaves the scan out, so that no file is read\n"


def test_functions_are_shown_as_they_are_written(run: Run, flights: Path) -> None:
    statement = "SELECT count(*) FROM flights WHERE carrier ILIKE 'a%a' OR carrier NOT ILIKE '_'"
    told = run("query", statement, "--table", f"flights={flights}").err
    assert "carrier ILIKE 'a%a'" in told
    assert "~~*" not in told
    for dialect, name in (("duckdb", "random"), ("trino", "random"), ("spark", "rand")):
        explained = run("explain", flights, "--where", f"delay > {name}()", "--dialect", dialect).out
        assert f"delay > {name}(): it does not compare a column with a constant" in explained


def test_csv_of_a_pruned_table(run: Run, flights: Path) -> None:
    run("sql", f"CREATE INDEX stats ON '{flights}' (delay)")
    select = "SELECT delay, carrier FROM flights WHERE delay > 37"
    ran = run("query", select, "--table", f"flights={flights}", "--output", "csv")
    assert ran.out == "delay,carrier\n38,AD\n39,AD\n"
    assert ran.err.startswith("flights: 1 of 4 files read, ")


@pytest.mark.processes
def test_parquet_has_the_types_of_the_engine(flights: Path, tmp_path: Path) -> None:
    with (tmp_path / "rows.parquet").open("wb") as file:
        subprocess.run(command_line("query", VALUES, "--output", "parquet"), stdout=file, check=True)
    found = pq.read_table(tmp_path / "rows.parquet")
    assert found.to_pylist() == [
        {
            "a,b": 1,
            "text": 'x "y"\nz',
            "nothing": None,
            "d": Decimal("1.50"),
            "day": date(2024, 2, 29),
            "bytes": b"\x00\xff",
            "list": [1, 2],
        }
    ]
    select = "SELECT delay FROM flights WHERE delay < 0"
    with (tmp_path / "none.parquet").open("wb") as file:
        command = command_line("query", select, "--table", f"flights={flights}", "--output", "parquet")
        subprocess.run(command, stdout=file, check=True, stderr=subprocess.DEVNULL)
    assert pq.read_table(tmp_path / "none.parquet").schema.names == ["delay"]


@pytest.mark.processes
def test_uuids_stay_uuids_in_parquet(tmp_path: Path) -> None:
    known = "8ef2a9d0-3f1c-4e0b-9d5f-0123456789ab"
    select = f"SELECT u, 1 AS n FROM (VALUES (UUID '{known}'), (NULL)) AS t(u)"
    with (tmp_path / "rows.parquet").open("wb") as file:
        subprocess.run(command_line("query", select, "--output", "parquet"), stdout=file, check=True)
    file_read = f"SELECT *, typeof(u) FROM '{tmp_path}/rows.parquet'"
    assert duckdb.execute(file_read).fetchall() == [(UUID(known), 1, "UUID"), (None, 1, "UUID")]


@pytest.mark.processes
def test_what_parquet_cannot_hold_is_told() -> None:
    command = command_line("query", "SELECT INTERVAL 1 DAY AS i", "--output", "parquet")
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr.startswith("error: no Parquet file can hold")) == (1, True), ran.stderr
