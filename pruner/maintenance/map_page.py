"""A map of a table as a page, and as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.showing.html import Markup, described, document, element, section, table
from pruner.showing.strips import drawn, letters, summary

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.maintenance.mapping import ColumnMap, DrawnRange, TableMap
    from pruner.showing.html import Content

BAR = "█"
NO_BAR = "·"
_HEIGHTS = " ▁▂▃▄▅▆▇█"

_LEGEND = (
    "C: covered; U: not covered; X: no index may cover it. A small letter goes for most slices of a cell."
)


def map_page(found: TableMap) -> str:
    """A map as HTML that stands for itself."""
    facts = [
        ("Table", found.uri),
        ("Slices", f"{found.slices:,}"),
        ("Bytes", f"{found.bytes:,}"),
    ]
    return document("Map of a table", described(facts), _coverage(found), *map(_column, found.columns))


def _coverage(found: TableMap) -> Markup:
    if not found.indexes:
        return section("Indexes", element("p", "The table has no index."))
    parts: list[Content] = [element("p", _LEGEND)]
    for each in found.indexes:
        parts.append(element("h3", f"{each.name} ({each.using})"))
        parts.append(
            element("p", each.problem) if each.problem else drawn(each.cells, f"Coverage of {each.name}")
        )
    return section("Indexes", *parts)


def _column(column: ColumnMap) -> Markup:
    bars = "\n".join(map(_bar, column.drawn, [len(column.overlaps)] * len(column.drawn)))
    header = ("File", "Least", "Greatest")
    overlap_rows = [(start, overlap) for start, overlap in zip(column.starts, column.overlaps, strict=True)]
    range_rows = [(each.file, each.low, each.high) for each in column.drawn]
    return section(
        f"Column {column.column}",
        element("p", f"{column.verdict} (from {column.source}; at most {column.deepest:,})."),
        element(
            "div", bars, class_="bars", role="img", aria_label=f"Ranges of {column.column}; as a table below"
        ),
        _folded(
            "The ranges that are drawn",
            table("From least to greatest value", header, range_rows),
        ),
        _folded(
            "How many files reach into each part of the values",
            table("Parts of the values", ("From", "Files"), overlap_rows),
        ),
    )


def _folded(summary_text: str, content: Markup) -> Markup:
    return element("details", element("summary", summary_text), content)


def _bar(each: DrawnRange, places: int) -> str:
    """The range of a file over all values: a bar where it is."""
    return NO_BAR * each.first + BAR * (each.last - each.first + 1) + NO_BAR * (places - each.last - 1)


def map_lines(found: TableMap) -> Iterator[str]:
    """A map as text."""
    yield f"table    {found.uri}"
    yield f"slices   {found.slices:,}, {found.bytes / 1e6:,.2f} MB"
    if not found.indexes:
        yield "indexes  none"
    for each in found.indexes:
        yield ""
        yield f"index {each.name} ({each.using}): {each.problem or summary(each.cells)}"
        yield f"  {letters(each.cells)}"
    if found.indexes:
        yield _LEGEND
    for column in found.columns:
        yield ""
        yield f"column {column.column}: {column.verdict}"
        yield f"  from {column.source}; at most {column.deepest:,}"
        yield f"  {_profile(column.overlaps)}  files that reach into each part of the values"
        for each in column.drawn:
            yield f"  {_bar(each, len(column.overlaps))}  {each.low} to {each.high}  {each.file}"


def _profile(overlaps: tuple[int, ...]) -> str:
    most = max(overlaps, default=0) or 1
    return "".join(_HEIGHTS[-(-count * (len(_HEIGHTS) - 1) // most)] for count in overlaps)
