"""`pruner map`, and pages that commands write."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.service.pages import Page, assert_stands_for_itself
from tests.unit.cli.conftest import Run


def test_explain_writes_a_page(run: Run, flights: Path, tmp_path: Path) -> None:
    run("sql", f"CREATE INDEX stats ON '{flights}' (delay)")
    ran = run("explain", flights, "--where", "delay > 33", "--html", tmp_path / "plan.html")
    assert (ran.code, ran.out) == (0, f"written to {tmp_path / 'plan.html'}\n")
    page = Page((tmp_path / "plan.html").read_text(encoding="utf-8"))
    assert_stands_for_itself(page)
    assert [each.text for each in page.all("div", class_="strip")] == ["AAAK"]
    assert run("explain", flights, "--where", "delay > 33", "--html", "-").out.startswith("<!DOCTYPE html>")


def test_a_page_that_cannot_be_written(run: Run, flights: Path, tmp_path: Path) -> None:
    ran = run("map", flights, "--html", tmp_path / "no" / "map.html")
    assert ran.code == 1
    assert ran.err == f"error: cannot write '{tmp_path / 'no' / 'map.html'}': No such file or directory\n"


def test_map_as_text_json_and_page(run: Run, flights: Path, tmp_path: Path) -> None:
    run("sql", f"CREATE INDEX stats ON '{flights}' (delay)")
    text = run("map", flights).out
    assert "index stats (column_stats): 4 covered\n  CCCC\n" in text
    assert "column delay: clustered: a search for one value reads about 1.0 of 4 files" in text
    found = json.loads(run("map", flights, "--column", "carrier", "--output", "json").out)
    assert [each["strip"] for each in found["indexes"]] == ["CCCC"]
    assert [(each["column"], each["overlaps"]) for each in found["columns"]] == [("carrier", [1, 1, 1, 1])]
    assert found["history"] == []
    told = json.loads(run("map", flights, "--history", "--output", "json").out)["history"]
    assert told[-1] == {"version": None, "at": None, "slices": 4, "covered": {"stats": 4}}
    run("map", flights, "--html", tmp_path / "map.html")
    assert_stands_for_itself(Page((tmp_path / "map.html").read_text(encoding="utf-8")))


def test_map_of_a_column_that_has_no_ranges(run: Run, flights: Path) -> None:
    ran = run("map", flights, "--column", "tags")
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "tags" in ran.err
