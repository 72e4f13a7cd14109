"""The command line on real Hudi tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from pruner.cli.app import app
from tests.support.hudi.timeline import completed

pytestmark = pytest.mark.spark


def output(*arguments: object) -> Any:
    result = CliRunner().invoke(app, [*(str(argument) for argument in arguments), "--output", "json"])
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def test_a_copy_on_write_table(hudi_table: Callable[[str], Path]) -> None:
    table = hudi_table("cow_v9")
    created = output("sql", f"CREATE INDEX stats ON '{table}' (*)")
    assert created["refresh"]["indexed"] == 6
    report = output("plan", table, "--where", "fare BETWEEN 1000 AND 1002")
    # The upsert gave rows 1 and 2 these fares, in two files; row 0 has none, like every fifth row.
    assert (report["kept"], report["total"]) == (2, 6)
    select = "SELECT id FROM trips WHERE fare BETWEEN 1000 AND 1002 ORDER BY id"
    answer = output("query", select, "--table", f"trips={table}")
    assert answer["rows"] == [[1], [2]]
    assert [scan["report"]["kept"] for scan in answer["scans"]] == [2]


def test_time_travel(hudi_table: Callable[[str], Path]) -> None:
    table = hudi_table("cow_v9")
    output("sql", f"CREATE INDEX stats ON '{table}' (fare)")
    first = completed(table)[0]
    where = ("--where", "fare >= 1000")
    assert output("plan", table, *where)["kept"] == 2
    past = output("plan", table, *where, "--as-of", first.requested)
    # No index covers the slices of that time, which were replaced before it was built.
    assert (past["kept"], past["total"]) == (3, 3)
    assert [step["uncovered"] for step in past["funnel"]] == [3]


def test_slices_with_logs_are_listed_with_them(hudi_table: Callable[[str], Path]) -> None:
    table = hudi_table("mor_v9")
    created = output("sql", f"CREATE INDEX stats ON '{table}' (fare)")
    assert (created["refresh"]["indexed"], created["refresh"]["uncoverable"]) == (6, 0)
    assert output("plan", table, "--where", "fare = -1")["kept"] == 0
    # The update of row 3 to this fare is in a log file alone.
    result = CliRunner().invoke(app, ["plan", str(table), "--where", "fare = 1003", "--files", "kept"])
    (line,) = result.stdout.splitlines()[1:]
    select = "SELECT id, fare FROM trips WHERE fare = 1003"
    assert output("query", select, "--table", f"trips={table}")["rows"] == [[3, 1003.0]]
    base, log = line.partition("  (")[0].split(" + ")
    assert base.endswith(".parquet")
    assert ".log." in log
    assert line.endswith("(kept: a row may match)")
