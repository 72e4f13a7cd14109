"""Coverage over time, from the log of the metadata table."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import pruner
from pruner.maintenance.mapping import _share, map_lines, map_page
from tests.support.parquet.tables import write_file
from tests.support.service.pages import Page, assert_stands_for_itself


def grow(root: Path, *numbers: int) -> None:
    """Add files that are old enough to be indexed."""
    for number in numbers:
        path = write_file(root / f"{number}.parquet", x=[number])
        os.utime(path, (1_600_000_000, 1_600_000_000))


@pytest.fixture
def table(tmp_path: Path) -> pruner.Table:
    """Two files, indexed; two more, indexed by a second index and a refresh; and a fifth, which is not indexed."""
    root = tmp_path / "t"
    grow(root, 0, 1)
    opened = pruner.open_table(root)
    opened.create_index("first", on="x")
    grow(root, 2, 3)
    opened.create_index("second", on="x", using="bitmap")
    opened.refresh()
    grow(root, 4)
    return opened


def test_each_commit_is_measured_by_the_table_of_its_time(table: pruner.Table) -> None:
    history = table.map(history=True).history
    assert history[-1] == type(history[-1])(None, None, 5, {"first": 4, "second": 4})
    assert {each.version is None for each in history[:-1]} == {False}
    told = [(each.slices, each.covered) for each in history]
    assert (2, {"first": 2}) in told
    assert (4, {"first": 2, "second": 4}) in told
    assert (4, {"first": 4, "second": 4}) in told
    assert told == sorted(told, key=lambda each: (each[0], sum(each[1].values())))
    assert table.map().history == ()


def test_slices_that_are_gone_count_no_more(table: pruner.Table, tmp_path: Path) -> None:
    (tmp_path / "t" / "0.parquet").unlink()
    assert table.map(history=True).history[-1].covered == {"first": 3, "second": 3}


def test_what_was_vacuumed_is_left_out(table: pruner.Table) -> None:
    before = table.map(history=True).history
    table.compact()
    table.vacuum(grace_seconds=0)
    after = table.map(history=True).history
    assert after[-1] == before[-1]
    assert len(after) <= len(before) + 2


def test_text_and_page_say_the_same(table: pruner.Table) -> None:
    found = table.map(history=True)
    page = Page(map_page(found))
    assert_stands_for_itself(page)
    assert "Coverage of second over time" in [each.text for each in page.all("h2")]
    rows = page.rows("Slices after each commit that changed these numbers")
    assert rows[-1] == ["now", "4", "1", "████████████████····"]
    assert all(each.attributes["aria-hidden"] for each in page.all("span", class_="bars"))
    lines = list(map_lines(found))
    [begin] = [
        line for line in lines if line.startswith("coverage of first after each commit that changed these")
    ]
    assert " on, the first that is known" in begin
    drawn = [line for line in lines if line.startswith("  ") and line.endswith("files covered")]
    figures = [line.split()[-5:] for line in drawn if not line.startswith("  now ")]
    assert 2 <= len(figures) < 2 * (len(found.history) - 1), (
        "commits after which nothing is different are left out"
    )
    assert any(line.startswith("  now ") and line.endswith("  4 of 5 files covered") for line in lines)


@pytest.mark.parametrize(
    ("covered", "slices", "filled"), [(0, 0, 0), (0, 9, 0), (1, 1000, 1), (999, 1000, 19), (7, 7, 20)]
)
def test_a_bar_is_whole_for_the_whole_alone(covered: int, slices: int, filled: int) -> None:
    assert _share(covered, slices).count("█") == filled


def test_a_table_without_indexes_has_no_history(tmp_path: Path) -> None:
    grow(tmp_path / "t", 0)
    found = pruner.open_table(tmp_path / "t").map(history=True)
    assert found.history == ()
    assert any(line.startswith("indexes  none: pruner advise says which") for line in map_lines(found))
