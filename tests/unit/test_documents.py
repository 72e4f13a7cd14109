"""Documents for readers: links resolve, and lines are short."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Protocol

import pytest

from pruner.indexes import optional

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "tests").rglob("*.md")])
SHORT = [path for path in DOCUMENTS if path.name != "CHANGELOG.md"]
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
TABLE_OR_LINK = re.compile(r"^\s*\||\]\(http")
LONGEST = 120


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def anchors(path: Path) -> set[str]:
    """The anchors of the headings, as sites that render Markdown create them."""
    titles = re.findall(r"^#+ (.+)$", FENCED.sub("", text_of(path)), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    for link in LINK.findall(FENCED.sub("", text_of(path))):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize("path", SHORT, ids=lambda path: str(path.relative_to(ROOT)))
def test_lines_are_short(path: Path) -> None:
    """Rows of tables and output of programs cannot be broken."""
    lines = FENCED.sub("", text_of(path)).splitlines()
    assert [line for line in lines if len(line) > LONGEST and not TABLE_OR_LINK.search(line)] == []


def test_every_page_stands_in_the_index() -> None:
    index = text_of(ROOT / "docs" / "README.md")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert [page for page in sorted(pages) if f"]({page})" not in index] == []


def test_the_site_has_every_page() -> None:
    """`make docs` builds what mkdocs.yml names; a page that it does not name cannot be found there."""
    named = re.findall(r": ([\w/-]+\.md)$", text_of(ROOT / "mkdocs.yml"), re.MULTILINE)
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs" / "tutorials").glob("*.md")]
    found = {str(page.relative_to(ROOT / "docs")) for page in pages}
    assert sorted(named) == sorted(found)


def test_records_of_decisions_are_numbered() -> None:
    records = sorted((ROOT / "docs" / "adr").glob("*.md"))
    assert [int(record.name[:4]) for record in records] == [*range(1, len(records) + 1)]


def first_cells(text: str, header: str) -> str:
    """The first cells of all rows of the tables that have a header."""
    tables = re.findall(rf"^\| {header} \|.*\n\|-.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return "\n".join(row.split("|")[1] for table in tables for row in table.splitlines())


def test_the_page_about_adapters_lists_what_they_may_import() -> None:
    contracts = tomllib.loads(text_of(ROOT / "pyproject.toml"))["tool"]["importlinter"]["contracts"]
    (contract,) = [each for each in contracts if "docs/adapters.md" in each["name"]]
    allowed = {entry.removeprefix("** -> ") for entry in contract["ignore_imports"]} - {"pruner.ddl.execute"}
    listed: set[str] = set()
    for name in re.findall(r"`([\w.]+)`", first_cells(text_of(ROOT / "docs" / "adapters.md"), "module")):
        # `pruner.expr.nodes`, `.build`: the same package.
        listed.add(f"pruner.expr{name}" if name.startswith(".") else name)
    assert listed - {"pruner"} == allowed


def test_the_page_about_index_types_lists_what_they_may_offer() -> None:
    page = first_cells(text_of(ROOT / "docs" / "index-types.md"), "protocol")
    protocols = {
        name for name in optional.__all__ if Protocol in getattr(getattr(optional, name), "__bases__", ())
    }
    # Those two are only return values and parameters of others.
    assert set(re.findall(r"`(\w+)`", page)) == protocols - {"PagedEvidence", "RecordPages"}
