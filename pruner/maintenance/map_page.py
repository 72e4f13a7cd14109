"""A map of a table as a page, and as text for a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pruner.showing.html import Markup, described, document, element, listed, picture, section, table
from pruner.showing.strips import drawn, letters, summary
from pruner.showing.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pruner.maintenance.history import CoverageAt
    from pruner.maintenance.mapping import ColumnMap, DrawnRange, TableMap
    from pruner.showing.html import Content

BAR = "█"
NO_BAR = "·"
_HEIGHTS = " ▁▂▃▄▅▆▇█"

_LEGEND = "C: covered; U: not covered; X: no index may cover it. A small letter goes for most of a cell."


_WITHOUT_INDEXES = (
    "pruner advise says which would help; --column COLUMN draws the ranges of a column without one"
)

_WIDTH = 20
"""Signs of a bar of coverage."""


def map_page(found: TableMap) -> str:
    """A map as HTML that stands for itself."""
    facts = [
        ("Table", found.uri),
        (f"{found.noun.capitalize()}s", f"{found.slices:,}"),
        ("Bytes", f"{found.bytes:,}"),
    ]
    undrawn = listed("Columns that are not drawn", found.undrawn)
    parts = (_coverage(found), *_over_time(found), *map(_column, found.columns), undrawn)
    return document("Map of a table", described(facts), *parts)


def _coverage(found: TableMap) -> Markup:
    if not found.indexes:
        return section("Indexes", element("p", f"The table has no index: {_WITHOUT_INDEXES}."))
    parts: list[Content] = [element("p", _LEGEND)]
    for each in found.indexes:
        parts.append(element("h3", f"{each.name} ({each.using})"))
        parts.append(
            element("p", each.problem) if each.problem else drawn(each.cells, f"Coverage of {each.name}")
        )
    return section("Indexes", *parts)


def _over_time(found: TableMap) -> Iterator[Markup]:
    """A table of the commits for each index, with a bar that says no more than its numbers."""
    for name in dict.fromkeys(name for each in found.history for name in each.covered):
        rows = [
            (
                _moment(each),
                covered,
                each.slices - covered,
                element("span", _share(covered, each.slices), class_="bars", aria_hidden="true"),
            )
            for each, covered in _changes(found, name)
        ]
        header = ("Commit", "Covered", "Not covered", "Share")
        title = f"Coverage of {name} over time"
        yield section(title, table("Slices after each commit that changed these numbers", header, rows))


def _changes(found: TableMap, name: str) -> list[tuple[CoverageAt, int]]:
    """Where coverage of an index begins, each commit after which it is another one, and how it stands now."""
    known = [(each, covered) for each in found.history if (covered := each.covered.get(name)) is not None]
    return [
        (each, covered)
        for at, (each, covered) in enumerate(known)
        if at == 0
        or each.version is None
        or (each.slices, covered) != (known[at - 1][0].slices, known[at - 1][1])
    ]


def _moment(each: CoverageAt) -> str:
    return "now" if each.version is None else f"{each.version}, {(each.at or '')[:19]}"


def _share(covered: int, slices: int) -> str:
    """A bar; only what is whole is drawn whole, and only nothing as nothing."""
    filled = min(max(covered * _WIDTH // slices, min(covered, 1)), _WIDTH) if slices else 0
    return BAR * filled + NO_BAR * (_WIDTH - filled)


def _column(column: ColumnMap) -> Markup:
    bars = "\n".join(map(_bar, column.drawn, [len(column.overlaps)] * len(column.drawn)))
    header = ("File", "Least", "Greatest")
    overlap_rows = [(start, overlap) for start, overlap in zip(column.starts, column.overlaps, strict=True)]
    range_rows = [(each.file, each.low, each.high) for each in column.drawn]
    return section(
        f"Column {column.column}",
        element("p", f"{column.verdict} (from {column.source}; at most {column.deepest:,})."),
        picture(f"Ranges of {column.column}; as a table below", bars, class_="bars"),
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
    yield f"{found.noun + 's':<8} {found.slices:,}, {found.bytes / 1e6:,.2f} MB"
    if not found.indexes:
        yield f"indexes  none: {_WITHOUT_INDEXES}"
    for each in found.indexes:
        yield ""
        yield f"index {each.name} ({each.using}): {each.problem or summary(each.cells)}"
        yield f"  {letters(each.cells)}"
    if found.indexes:
        yield _LEGEND
    yield from _history_lines(found)
    for column in found.columns:
        yield ""
        yield f"column {column.column}: {column.verdict}"
        yield f"  from {column.source}; at most {column.deepest:,}"
        yield f"  {_profile(column.overlaps)}  files that reach into each part of the values"
        for each in column.drawn:
            yield f"  {_bar(each, len(column.overlaps))}  {each.low} to {each.high}  {each.file}"
    if found.undrawn:
        yield ""
        yield from found.undrawn


def _history_lines(found: TableMap) -> Iterator[str]:
    for name in dict.fromkeys(name for each in found.history for name in each.covered):
        yield ""
        changes = _changes(found, name)
        begin = changes[0][0].version
        since = "" if begin is None else f" from {begin} on, the first that is known"
        yield f"coverage of {name} after each commit that changed these numbers{since}"
        for each, covered in changes:
            bar = _share(covered, each.slices)
            yield f"  {_moment(each):<28}  {bar}  {covered:,} of {counted(each.slices, found.noun)} covered"


def _profile(overlaps: tuple[int, ...]) -> str:
    most = max(overlaps, default=0) or 1
    return "".join(_HEIGHTS[-(-count * (len(_HEIGHTS) - 1) // most)] for count in overlaps)
