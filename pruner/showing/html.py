"""Self-contained HTML, every text escaped, no script; slices as strips of cells.

What a page shows comes from file names, predicates and data, which may hold anything. Only `element` makes markup, so
text can enter a page in only one way: escaped.

A strip shows what became of all slices as a row of cells, each with a letter, however many slices there are. A cell
represents neighboring slices. Its letter is that of most of them: upper case if it holds for all, lower case otherwise.
So a strip is readable without colors, and a million slices take no more space than a hundred.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray


class Markup(str):
    """HTML as it goes into a page; any other string is text and is escaped."""

    __slots__ = ()


Content: TypeAlias = "Markup | str | int"

WORD = 16
"""Maximum number of characters of a cell that is never wrapped, such as the name of an index type."""

_EMPTY = frozenset(["br", "col", "meta"])
"""Elements without an end tag."""

_STYLE = """
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem;
       color: #111; background: #fff; }
h1 { font-size: 1.4rem; } h2 { font-size: 1.15rem; margin-top: 2rem; } h3 { font-size: 1rem; }
table { border-collapse: collapse; min-width: min(32rem, 100%); }
caption { text-align: left; font-weight: 600; padding: .3rem 0; }
th, td { border: 1px solid #767676; padding: .2rem .6rem; text-align: left; vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
td, th[scope=row], dd, code { overflow-wrap: anywhere; } th[scope=row] { font-weight: inherit; }
td.word { white-space: nowrap; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; }
.strip, .bars { font: .8rem/1.3 ui-monospace, monospace; }
.strip { display: flex; flex-wrap: wrap; }
.strip span { flex: 0 0 1.1em; text-align: center; border: 1px solid #767676; margin: 0 -1px -1px 0; }
.kept { background: #fff; font-weight: 700; }
.dropped { background: repeating-linear-gradient(45deg, #d8d8d8 0 2px, #fff 2px 6px); }
.uncovered { background: radial-gradient(#999 20%, #fff 22%) 0 0/5px 5px; }
.before { background: #fff; color: #595959; }
.bars { white-space: pre; overflow-x: auto; }
@media screen { section { overflow: auto hidden; padding-bottom: 1px; } }
@media print { tr, .strip { break-inside: avoid; } h2, h3 { break-after: avoid; }
       details::details-content { content-visibility: visible; display: block; } }
"""


def element(tag: str, *content: Content, **attributes: str | None) -> Markup:
    """An element with its content; texts and attribute values are escaped.

    Args:
        tag: its name.
        content: texts and other elements.
        attributes: by name, without the trailing underscore of `class_`; `_` becomes `-`. None omits one.
    """
    opened = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in _EMPTY:
        return Markup(f"<{tag}{opened}>")
    return Markup(f"<{tag}{opened}>{joined(content)}</{tag}>")


def joined(content: Iterable[Content]) -> Markup:
    """Texts and elements, concatenated."""
    return Markup("".join(each if isinstance(each, Markup) else escape(str(each)) for each in content))


def table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Content | None]]) -> Markup:
    """A table whose first cell of each row says what the row is about; None is an empty cell."""
    head = element("tr", *(element("th", name, scope="col") for name in header))
    body = [
        element("tr", element("th", *_content(first), scope="row"), *map(_cell, rest))
        for first, *rest in rows
    ]
    return element(
        "table", element("caption", caption), element("thead", head), element("tbody", joined(body))
    )


def _cell(value: Content | None) -> Markup:
    if isinstance(value, int):
        return element("td", f"{value:,}", class_="number")
    is_word = value is not None and not isinstance(value, Markup) and 0 < len(value) <= WORD
    return element("td", *_content(value), class_="word" if is_word else None)


def _content(value: Content | None) -> tuple[Content, ...]:
    return () if value is None else (value,)


def picture(label: str, *drawn: Content, class_: str) -> Markup:
    """A drawing made of letters: a screen reader reads the label and none of the letters."""
    return element(
        "div", element("div", *drawn, class_=class_, aria_hidden="true"), role="img", aria_label=label
    )


def described(facts: Iterable[tuple[str, Content]]) -> Markup:
    """A list of names, each with its value."""
    return element("dl", *(joined([element("dt", name), element("dd", value)]) for name, value in facts))


def listed(heading: str, sentences: Sequence[str], most: int = 50) -> Markup:
    """A section with a list of sentences, and the number of those beyond `most`; empty if there are none."""
    if not sentences:
        return Markup()
    items = [element("li", sentence) for sentence in sentences[:most]]
    if len(sentences) > most:
        items.append(element("li", f"and {len(sentences) - most:,} more"))
    return section(heading, element("ul", *items))


def section(heading: str, *content: Content) -> Markup:
    """A part of a page under its heading."""
    return element("section", element("h2", heading), *content)


def document(title: str, *content: Content) -> str:
    """A whole page."""
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("title", title),
        element("style", Markup(_STYLE)),
    )
    body = element("body", element("main", element("h1", title), *content))
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def fragment(title: str, *content: Content) -> str:
    """The same for a notebook, which embeds it in its own page."""
    inside = element("style", Markup(_STYLE.replace("body {", ".pruner {")))
    return element("div", inside, element("h1", title), *content, class_="pruner")


CELLS = 100
"""Maximum number of cells of a strip."""


class Fate(NamedTuple):
    """What can become of a slice: a letter, words for display, and the CSS class that draws it."""

    letter: str
    words: str
    style: str


@dataclass(frozen=True, slots=True)
class Cell:
    """Neighboring slices from `first` to before `end`: how many met each fate that occurs, the most frequent first."""

    first: int
    end: int
    counts: tuple[tuple[Fate, int], ...]

    @property
    def letter(self) -> str:
        """The letter of most slices: lower case unless it holds for all."""
        letter = self.counts[0][0].letter
        return letter if len(self.counts) == 1 else letter.lower()

    @property
    def words(self) -> str:
        """What became of which slices."""
        last = self.end - 1
        of = f"{self.first:,}" if last == self.first else f"{self.first:,} to {last:,}"
        return f"{of}: " + ", ".join(f"{count:,} {fate.words}" for fate, count in self.counts)


def strip(codes: NDArray[np.integer], fates: Sequence[Fate], cells: int = CELLS) -> list[Cell]:
    """Group slices into cells.

    Args:
        codes: for each slice the position of its fate among `fates`.
        fates: what can become of a slice.
        cells: maximum number of cells.
    """
    count = min(cells, len(codes))
    if not count:
        return []
    edges = np.linspace(0, len(codes), count + 1).round().astype(np.int64)
    which = np.repeat(np.arange(count), np.diff(edges))
    counted = np.bincount(which * len(fates) + codes, minlength=count * len(fates)).reshape(count, -1)
    return [
        Cell(first, end, _ranked(row.tolist(), fates))
        for first, end, row in zip(edges[:-1].tolist(), edges[1:].tolist(), counted, strict=True)
    ]


def _ranked(counts: list[int], fates: Sequence[Fate]) -> tuple[tuple[Fate, int], ...]:
    met = [(fate, count) for fate, count in zip(fates, counts, strict=True) if count]
    return tuple(sorted(met, key=lambda each: -each[1]))


def letters(cells: Sequence[Cell]) -> str:
    """A strip for a terminal."""
    return "".join(cell.letter for cell in cells)


def summary(cells: Sequence[Cell]) -> str:
    """What became of all slices of a strip, in words, as a screen reader reads it."""
    totals: dict[str, int] = {}
    for cell in cells:
        for fate, count in cell.counts:
            totals[fate.words] = totals.get(fate.words, 0) + count
    return ", ".join(f"{count:,} {words}" for words, count in totals.items()) or "nothing"


def drawn(cells: Sequence[Cell], label: str) -> Markup:
    """A strip for a page: one picture to a screen reader, cells with their own tooltips to a pointer."""
    shown = [element("span", cell.letter, class_=cell.counts[0][0].style, title=cell.words) for cell in cells]
    return picture(f"{label}: {summary(cells)}", *shown, class_="strip")
