"""Reads HTML pages as a strict parser does, and tells what is in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

EMPTY = frozenset(["br", "col", "meta"])

ACTIVE = frozenset(["base", "embed", "form", "iframe", "img", "link", "object", "script", "svg"])
"""Elements that fetch or run something."""


HOSTILE = """<script>alert(1)</script>'"&<img src=x onerror=alert(1)>"""
"""A text that runs where a page lets it out."""


@dataclass
class Element:
    """An element with its attributes, and the text in it and below it."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""
    children: list[Element] = field(default_factory=list)


class Page(HTMLParser):
    """A page whose elements are all closed in their order; anything else fails."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.elements.append(element)
        if self._open:
            self._open[-1].children.append(element)
        if tag not in EMPTY:
            self._open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        for element in self._open:
            element.text += data

    def all(self, tag: str, **attributes: str) -> list[Element]:
        """The elements of a kind with some attributes."""
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            each
            for each in self.elements
            if each.tag == tag and all(each.attributes.get(name) == value for name, value in wanted.items())
        ]

    def rows(self, caption: str) -> list[list[str]]:
        """The rows of the body of the table whose caption begins so."""
        table = next(each for each in self.all("table") if each.children[0].text.startswith(caption))
        body = next(each for each in table.children if each.tag == "tbody")
        return [[cell.text for cell in row.children] for row in body.children]


def assert_stands_for_itself(page: Page) -> None:
    """Nothing is fetched and nothing runs; tables and pictures can be read aloud."""
    assert not {each.tag for each in page.elements} & ACTIVE
    for each in page.elements:
        assert not {"src", "href", "srcset", "onclick", "onload", "onerror"} & set(each.attributes), each
        assert "url(" not in each.text or each.tag != "style"
        assert "@import" not in each.text or each.tag != "style"
    for table in page.all("table"):
        assert table.children[0].tag == "caption"
    assert all(each.attributes.get("scope") in ("col", "row") for each in page.all("th"))
    for picture in page.all("div", role="img"):
        assert picture.attributes["aria-label"]
