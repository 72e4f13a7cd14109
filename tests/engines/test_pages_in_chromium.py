"""The pages of plans, maps and the service in a real browser: on a screen, on paper, and for a screen reader."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import pruner
from pruner.planning.report import plan_page
from tests.support.big_plans import big_facts
from tests.support.parquet.tables import write_file
from tests.support.service.pages import HOSTILE
from tests.support.service.planner import running_service
from tools.pages import browser as browsers
from tools.pages.browser import Browser, BrowserError, MissingBrowserError, Seen, browser
from tools.pages.page_pictures import pages

pytestmark = pytest.mark.processes

DESKTOP, PHONE = (1000, 800), (390, 800)
READABLE = 4.5
"""The contrast that the WCAG requires for text."""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The browser; where the machine cannot run it, tests end with one sentence that says what is missing."""
    why = None
    try:
        with browser() as running:
            yield running
    except MissingBrowserError as missing:
        why = str(missing)
    if why is not None:
        pytest.fail(why, pytrace=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages of the documentation's pictures, as files."""
    root = tmp_path_factory.mktemp("pages")
    for name, shown in pages().items():
        root.joinpath(name).with_suffix(".html").write_text(shown.html, encoding="utf-8")
    return root


PLAN, MAP, SERVICE = "page-of-a-plan", "page-of-a-map", "page-of-the-service"


def looked(chromium: Browser, page: Path | str, **how: Any) -> Seen:
    """Open a page: nothing fails, nothing is fetched, nothing is hidden, and everything is legible."""
    url = page if isinstance(page, str) else page.as_uri()
    seen = chromium.look(url, **how)
    assert seen.faults == []
    assert seen.fetched == [url]
    assert seen.overflow <= 0
    assert seen.contrast >= READABLE
    return seen


def assert_read_aloud(seen: Seen) -> None:
    """A screen reader finds one main part, headings that skip no level, and a name for each table and picture."""
    roles = [role for role, _ in seen.tree]
    assert roles.count("main") == 1
    assert all(seen.named("heading"))
    assert seen.levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(seen.levels))
    assert seen.named("table")
    assert all(seen.named("table"))
    assert all(seen.named("image"))
    assert not set(roles) & {"LayoutTable", "script", "Iframe"}


@pytest.mark.parametrize("name", [PLAN, MAP, SERVICE])
@pytest.mark.parametrize(
    ("media", "size"),
    [("screen", DESKTOP), ("screen", PHONE), ("print", DESKTOP)],
    ids=["desktop", "phone", "print"],
)
def test_pages_open(chromium: Browser, folder: Path, name: str, media: str, size: tuple[int, int]) -> None:
    seen = looked(chromium, folder / f"{name}.html", size=size, media=media)
    assert "flights" in seen.text
    assert_read_aloud(seen)


def test_a_plan_is_read_aloud_without_its_letters(chromium: Browser, folder: Path) -> None:
    seen = looked(chromium, folder / f"{PLAN}.html")
    assert seen.named("heading")[:4] == [
        "Scan plan",
        "Funnel",
        "Files, step by step",
        "Step 1, stats: departure >= 2024-01-09 00:00:00",
    ]
    assert seen.named("image")[0] == (
        "Step 1, stats: departure >= 2024-01-09 00:00:00: 3 dropped in step 1 by stats, "
        "9 kept: a row may match, 1 kept: the index has no usable record"
    )
    assert seen.named("columnheader")[:4] == ["Step", "Clause", "Index", "Type"]
    assert seen.named("rowheader")[:3] == ["1", "2", "3"]
    # The cells of a strip form one picture; only the legend's letters are read.
    assert [text for text in seen.named("StaticText") if len(text) == 1 and text in "ABKU·"] == list("AKU·B")


def test_a_map_is_read_aloud(chromium: Browser, folder: Path) -> None:
    seen = looked(chromium, folder / f"{MAP}.html")
    assert seen.named("image") == [
        "Coverage of stats: 12 covered, 1 not covered: to be refreshed, left out or refused by the index",
        "Ranges of departure; as a table below",
        "Ranges of distance; as a table below",
    ]
    assert seen.named("DisclosureTriangle") == 2 * [
        "The ranges that are drawn",
        "How many files reach into each part of the values",
    ]
    assert not any("█" in text for text in seen.named("StaticText"))


def test_the_service_is_read_aloud(chromium: Browser, folder: Path) -> None:
    seen = looked(chromium, folder / f"{SERVICE}.html")
    assert seen.named("table") == ["Indexes", "Newest first"]
    assert seen.named("rowheader") == ["stats", *["2026-02-01 12:00:00"] * 2]
    assert seen.named("link") == ["2026-02-01 12:00:00"] * 2


def test_a_plan_on_paper(chromium: Browser, folder: Path) -> None:
    """Printers omit backgrounds: the letters carry the same information."""
    # The font has a ligature for "fi".
    printed = unicodedata.normalize(
        "NFKC", looked(chromium, folder / f"{PLAN}.html", printed=True).printed
    ).splitlines()
    assert "A A A K K K K K K K K K U" in printed
    assert "· · · K K K K B B B B B U" in printed
    assert "A dropped in step 1 by stats" in printed
    assert "To read 5 of 13 files (38.5%)" in printed


def test_a_map_on_paper_shows_what_is_folded(chromium: Browser, folder: Path) -> None:
    seen = looked(chromium, folder / f"{MAP}.html", printed=True)
    assert "From least to greatest value" not in seen.text
    assert "From least to greatest value" in seen.printed
    assert "██······················" in seen.printed


def test_nothing_of_a_table_runs(chromium: Browser, tmp_path: Path) -> None:
    """Names and predicates that would run in a page that did not escape them are text in this one."""
    root = tmp_path / "t"
    write_file(root / "<img src=x onerror=alert(1)>.parquet", **{HOSTILE: [HOSTILE], "d": [1]})
    table = pruner.open_table(root)
    table.create_index('a"><script>throw 1</script>', on="*")
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    plan = table.plan(f"{quoted} = '{HOSTILE.replace(chr(39), chr(39) * 2)}' AND d = 1")
    page, notebook = tmp_path / "page.html", tmp_path / "notebook.html"
    page.write_text(plan.to_html(), encoding="utf-8")
    part = f'<!DOCTYPE html><html lang="en"><meta charset="utf-8"><body>{plan._repr_html_()}'
    notebook.write_text(part, encoding="utf-8")
    for each in (page, notebook):
        assert HOSTILE.replace("'", "''") in looked(chromium, each).text


def test_the_service_itself(chromium: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page as served: its own security policy allows its style."""
    write_file(tmp_path / "numbers" / "0.parquet", n=range(10))
    (tmp_path / "pruner.toml").write_text('[tables.numbers]\nuri = "numbers"\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    with running_service() as url:
        seen = looked(chromium, f"{url}/")
    assert "numbers" in seen.text
    assert seen.styled


def test_a_million_slices_open(
    chromium: Browser, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    """For the largest page that planning can make; the time is printed at the end of the run."""
    page = tmp_path / "page.html"
    page.write_text(plan_page(big_facts(), whole=True), encoding="utf-8")
    size = page.stat().st_size
    assert size < 2_000_000
    opened = [looked(chromium, page).milliseconds for _ in range(3)]
    assert "Scan plan" in looked(chromium, page).text
    record_property(
        "figure",
        f"a page about 1,000,000 slices, {size / 1e6:.2f} MB: opened in {min(opened):.0f} to {max(opened):.0f} ms",
    )


def test_the_browser_sees_what_is_wrong(chromium: Browser, tmp_path: Path) -> None:
    """Without this, the tests above would prove nothing."""
    page = tmp_path / "page.html"
    page.write_text(
        '<!DOCTYPE html><html lang="en"><title>x</title><body><p style="color: #aaa; width: 2000px">pale</p>'
        '<img src="nowhere.png"><script>alert("hoo"); throw new Error("boo")</script>',
        encoding="utf-8",
    )
    seen = chromium.look(page.as_uri())
    for said in ("boo", "hoo"):
        assert any(said in fault for fault in seen.faults)
    assert (tmp_path / "nowhere.png").as_uri() in seen.fetched
    assert seen.overflow > 0
    assert seen.contrast < READABLE
    with pytest.raises(BrowserError, match="FILE_NOT_FOUND"):
        chromium.look((tmp_path / "none.html").as_uri())


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browsers, "missing_libraries", lambda python: ["libasound.so.2", "libnss3.so"])
    with pytest.raises(MissingBrowserError, match=r"lacks \(libasound\.so\.2, libnss3\.so\)"), browser():
        pass
