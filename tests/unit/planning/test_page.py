"""A plan as a page: what it shows, that no content can break out of the markup, and that it stays small."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pruner
from pruner.arrow import positions
from pruner.expr.semantics import Semantics
from pruner.planning.report import PlanFacts, plan_page
from pruner.planning.survivors import Survivors
from pruner.tables.snapshot import Snapshot
from tests.support.big_plans import big_facts
from tests.support.parquet.tables import write_file
from tests.support.service.pages import HOSTILE, Page, assert_stands_for_itself


def settled(path: Path) -> None:
    """A file that was just written may still change within the clock's granularity."""
    os.utime(path, (1_600_000_000, 1_600_000_000))


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    """Ten files with ten numbers each; `city` has two values, one for each half; the last file is not indexed."""
    for number in range(9):
        values = range(number * 10, number * 10 + 10)
        cities = ["ulm" if number < 5 else "bonn"] * 10
        settled(write_file(tmp_path / "t" / f"{number}.parquet", d=values, city=cities))
    opened = pruner.open_table(tmp_path / "t")
    opened.create_index("stats", on="*")
    settled(write_file(tmp_path / "t" / "9.parquet", d=range(90, 100), city=["rom"] * 10))
    return opened


def strips(page: Page) -> list[str]:
    return [each.text for each in page.all("div", class_="strip")]


def test_each_clause_has_a_strip_of_all_slices(table: pruner.Table) -> None:
    plan = table.plan("d >= 20 AND city = 'bonn'")
    page = Page(plan.to_html())
    assert_stands_for_itself(page)
    assert plan.kept == 5
    assert strips(page) == ["AAKKKKKKKU", "··BBBKKKKU"]
    assert page.rows("Clauses") == [
        ["1", "d >= 20", "stats", "column_stats", "8", "2", "1", ""],
        ["2", "city = 'bonn'", "stats", "column_stats", "5", "3", "1", ""],
    ]
    labels = [each.attributes["aria-label"] for each in page.all("div", role="img")]
    assert labels[0] is not None
    assert labels[0].endswith(
        "2 dropped in step 1 by stats, 7 kept: a row may match, 1 kept: the index has no usable record"
    )
    legend = [letter for letter, _ in page.rows("Letters")]
    assert legend == ["A", "K", "U", "·", "B"]


def test_files_are_named_with_the_reason(table: pruner.Table) -> None:
    page = Page(table.plan("d >= 80").to_html())
    rows = page.rows("The first 50 files")
    assert [Path(file).name for file, _, _ in rows] == ["8.parquet", "9.parquet"] + [
        f"{n}.parquet" for n in range(8)
    ]
    assert rows[0][2] == "kept: a row may match"
    assert rows[-1][2] == "dropped by stats: no row can satisfy d >= 80"


def test_what_no_index_answers_is_kept_and_says_why(table: pruner.Table) -> None:
    page = Page(table.plan("d = length(city)").to_html())
    assert strips(page) == ["UUUUUUUUUU"]
    (row,) = page.rows("Clauses")
    assert row[-1]
    assert "What could not be used" in [each.text for each in page.all("h2")]


def test_nothing_breaks_out_of_the_page(tmp_path: Path) -> None:
    """Names of folders, files and columns, predicates and values are text, whatever they contain."""
    folder = tmp_path / "<b>t&quot;"
    settled(write_file(folder / "<img src=x>.parquet", **{HOSTILE: [HOSTILE], "d": [1]}))
    opened = pruner.open_table(folder)
    opened.create_index('a"><i>', on="*")
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    text = "'" + HOSTILE.replace("'", "''") + "'"
    predicate = f"{quoted} = {text} AND d = 1 AND length({quoted}) > 1"
    plan = opened.plan(predicate)
    for made in (plan.to_html(), plan._repr_html_()):
        page = Page(made)
        assert_stands_for_itself(page)
        assert page.all("dd")[1].text == predicate
    assert "<img src=x>.parquet" in Page(plan.to_html()).rows("The first 50 files")[0][0]


def test_a_notebook_gets_a_part_of_a_page(table: pruner.Table) -> None:
    part = table.plan("d = 5")._repr_html_()
    assert part.startswith('<div class="pruner"><style>')
    assert "<html" not in part
    assert "body {" not in part
    assert strips(Page(part)) == ["KAAAAAAAAU"]


def test_an_empty_table(tmp_path: Path) -> None:
    folder = tmp_path / "t"
    settled(write_file(folder / "a.parquet", d=[1]))
    opened = pruner.open_table(folder)
    facts = opened.plan("d = 1")._facts
    snapshot = facts.snapshot
    none = Snapshot(
        "s",
        snapshot.schema,
        snapshot.rows(positions([])),
        snapshot.keys.slice(0, 0),
        snapshot.partitions,
        "r",
    )
    empty = PlanFacts(none, "d = 1", Semantics.of("duckdb"), Survivors(0), tuple, (), 0.0)
    assert "0 of 0 files" in Page(plan_page(empty, whole=True)).all("dd")[3].text


@pytest.mark.load
def test_a_million_slices_and_a_thousand_clauses_stay_small() -> None:
    made = plan_page(big_facts(), whole=True)
    assert len(made.encode()) < 2_000_000
    assert all(len(each) == 100 for each in strips(Page(made)))
