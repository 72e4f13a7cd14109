"""A map of a table, as values, as an HTML page and as text: what each index covers, and how far ranges overlap.

If many ranges hold a value, a search for it reads many files, whatever ranges are indexed: the table is not clustered
by that column. Sorting it would help more than any index of ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.errors import IndexDefinitionError, PrunerError
from pruner.evidence.snapshot import SnapshotEvidence
from pruner.expr.identifier import parse_column_path, render_column_path
from pruner.indexes.optional_evidence import RANGED_TYPES, RangingEvidence
from pruner.indexes.registry import evidence_of_values, index_type
from pruner.maintenance.status import CoverageAt, answering_slices
from pruner.pipeline.requests import BuildRequest, Chunk
from pruner.pipeline.slices import run_chunk
from pruner.showing.html import (
    Cell,
    Fate,
    Markup,
    described,
    document,
    drawn,
    element,
    letters,
    listed,
    picture,
    section,
    strip,
    summary,
    table,
)
from pruner.showing.words import FILE, counted, data_size
from pruner.tables.snapshot import evenly

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from pruner.indexes.optional_evidence import Ranges
    from pruner.metadata.segment_cache import SegmentCache
    from pruner.metadata.state import State
    from pruner.schema import Field
    from pruner.showing.html import Content
    from pruner.tables.snapshot import Snapshot

RANGES = "column_stats"
"""The index type whose records are ranges."""

FOOTERS = 2000
"""Most files whose footers are read for a column of which no index has ranges."""

PLACES = 60
"""Most parts into which the values of a column are divided."""

DRAWN_SLICES = 40
"""Most slices whose ranges are drawn."""

CLUSTERED = 0.1
UNCLUSTERED = 0.5
"""Share of the files that a search for one value reads: a table is clustered up to the first, not from the second on.
"""

COVERED = Fate("C", "covered", "kept")
UNCOVERED = Fate("U", "not covered: to be refreshed, left out or refused by the index", "uncovered")
UNSETTLED = Fate("X", "unsettled or unreadable, so no index may cover it", "dropped")


@dataclass(frozen=True, slots=True)
class IndexMap:
    """One index over all slices: the cells of its strip, or the problem if the index is damaged."""

    name: str
    using: str
    cells: tuple[Cell, ...]
    problem: str | None = None

    @property
    def strip(self) -> str:
        """The strip, as letters."""
        return letters(self.cells)


@dataclass(frozen=True, slots=True)
class DrawnRange:
    """The range of one slice: its file, the parts of all values in which it begins and ends, and its bounds."""

    file: str
    first: int
    last: int
    low: str
    high: str


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """The ranges of one column.

    `source` says where they come from, and `known` how many slices have one. By these ranges, a search for one value
    reads `depth` files on average, and `deepest` at most. The values are divided into parts with the same number of
    bounds: `overlaps` counts the slices that reach into each, `starts` has the least value of each.
    """

    column: str
    source: str
    known: int
    depth: float
    deepest: int
    overlaps: tuple[int, ...]
    starts: tuple[str, ...]
    drawn: tuple[DrawnRange, ...]

    @property
    def verdict(self) -> str:
        """One clause that says whether the files are clustered by the column."""
        if self.known < 2:
            return "too few files have a known range to tell"
        share = self.depth / self.known
        reads = f"a search for one value reads about {self.depth:,.1f} of {self.known:,} files"
        if share <= CLUSTERED or self.depth < 2:
            return f"clustered: {reads}"
        return f"{'not' if share >= UNCLUSTERED else 'partly'} clustered: {reads}"


@dataclass(frozen=True, slots=True)
class TableMap:
    """A table with its indexes, slice by slice, the ranges of some of its columns, and coverage at earlier commits."""

    uri: str
    slices: int
    bytes: int
    indexes: tuple[IndexMap, ...]
    columns: tuple[ColumnMap, ...]
    history: tuple[CoverageAt, ...] = ()
    undrawn: tuple[str, ...] = ()
    """Why named columns are not drawn."""
    noun: str = FILE
    """What a slice of this table is called for display."""


class Cartographer:
    """Draws maps of one snapshot under one state of its metadata table."""

    def __init__(
        self,
        snapshot: Snapshot,
        state: State | None,
        segments: SegmentCache,
        storage_options: Mapping[str, str],
    ) -> None:
        self._snapshot = snapshot
        self._state = state
        self._segments = segments
        self._storage_options = storage_options
        self._evidence = SnapshotEvidence(snapshot, state, segments)

    def table(self, uri: str, columns: list[str]) -> TableMap:
        """Map the table and some of its columns: by default those that have an index of ranges.

        Raises:
            SchemaError: there is no such column.
            IndexDefinitionError: every named column is of a type without ranges.
        """
        schema = self._snapshot.schema
        fields = [schema.find(parse_column_path(text)) for text in columns] or list(self._ranged_fields())
        held_columns: list[ColumnMap] = []
        refused: list[IndexDefinitionError] = []
        for field in fields:
            try:
                mapped = self._column(field)
            except IndexDefinitionError as error:
                refused.append(error)
            else:
                held_columns += [] if mapped is None else [mapped]
        if refused and len(refused) == len(fields):
            raise refused[0]
        return TableMap(
            uri,
            len(self._snapshot),
            self._snapshot.total_size,
            tuple(self._coverage()),
            tuple(held_columns),
            undrawn=tuple(map(str, refused)),
            noun=self._snapshot.noun,
        )

    def _coverage(self) -> Iterator[IndexMap]:
        for definition in self._state.definitions if self._state else ():
            assert self._state is not None
            codes = np.where(self._snapshot.coverable, 1, 2)
            try:
                codes[answering_slices(definition, self._state, self._snapshot, self._segments)] = 0
            except PrunerError as error:
                yield IndexMap(definition.name, definition.using, (), str(error))
                continue
            cells = strip(codes, (COVERED, UNCOVERED, UNSETTLED))
            yield IndexMap(definition.name, definition.using, tuple(cells))

    def _ranged_fields(self) -> Iterator[Field]:
        """The columns that have an index of ranges, in schema order."""
        definitions = self._state.definitions if self._state else ()
        ranged = [
            definition for definition in definitions if definition.using == RANGES and definition.form is None
        ]
        named = {binding.recorded for definition in ranged for binding in definition.fields}
        for field in self._snapshot.schema.fields:
            if field.recorded in named and field.since is None:  # older files hold other values by that name
                yield field

    def _column(self, field: Field) -> ColumnMap | None:
        if not field.in_file:
            return self._from_paths(field)
        for name, evidence in self._evidence.whole(field, RANGES):
            if isinstance(evidence, RangingEvidence):
                return self._drawn(field, evidence.ranges(), f"index {name}")
        return self._from_footers(field)

    def _from_paths(self, field: Field) -> ColumnMap | None:
        """A partition column: the value of a slice is that of its folder."""
        values = self._snapshot.partitions.values.get(field.path)
        evidence = None if values is None else evidence_of_values(values, field)
        if not isinstance(evidence, RangingEvidence):
            return None
        ranges = evidence.ranges()
        places = np.full(len(self._snapshot.partitions), -1)
        places[ranges.slices] = np.arange(len(ranges.slices))
        of_slices = places[self._snapshot.partition_ordinals]
        known = np.flatnonzero(of_slices >= 0)
        low, high = (bound[of_slices[known]] for bound in (ranges.low, ranges.high))
        return self._drawn(field, ranges._replace(slices=known, low=low, high=high), "the names of folders")

    def _from_footers(self, field: Field) -> ColumnMap | None:
        kind = index_type(RANGES)
        try:
            kind.check(field, {})
        except IndexDefinitionError as error:
            if RANGED_TYPES not in str(error):
                raise
            name = render_column_path(field.path)
            raise IndexDefinitionError(
                f"column {name} has type {field.type_name} and cannot be drawn, so leave it out: {RANGED_TYPES} can"
            ) from error
        chosen = evenly(np.flatnonzero(self._snapshot.coverable), FOOTERS)
        request = BuildRequest(kind, field, {}, field.name)
        chunk = Chunk(0, self._snapshot.to_read(chosen))
        records = run_chunk(chunk, self._storage_options, [request]).tables[0] if len(chosen) else None
        if records is None:
            return None
        evidence = kind.load(records, len(chosen), field)
        assert isinstance(evidence, RangingEvidence)
        ranges = evidence.ranges()
        source = f"the footers of {len(chosen):,} of {len(self._snapshot):,} files"
        return self._drawn(field, ranges._replace(slices=chosen[ranges.slices]), source)

    def _drawn(self, field: Field, ranges: Ranges, source: str) -> ColumnMap:
        lows, highs = np.sort(ranges.low), np.sort(ranges.high)
        bounds = np.concatenate([lows, highs])
        depths = _holding(bounds, bounds, lows, highs)
        places, firsts, lasts = _places(bounds)
        begins = np.searchsorted(places, ranges.low, side="right") - 1
        ends = np.searchsorted(places, ranges.high, side="right") - 1
        order = np.lexsort((ranges.high, ranges.low))
        shown = evenly(order, DRAWN_SLICES)
        return ColumnMap(
            column=render_column_path(field.path),
            source=source,
            known=len(lows),
            depth=float(depths.mean()) if len(depths) else 0.0,
            deepest=int(depths.max(initial=0)),
            overlaps=tuple(_holding(lasts, firsts, lows, highs).tolist()),
            starts=tuple(map(ranges.text, places.tolist())),
            drawn=tuple(
                DrawnRange(
                    self._file(int(ranges.slices[i])),
                    int(begins[i]),
                    int(ends[i]),
                    ranges.text(ranges.low[i]),
                    ranges.text(ranges.high[i]),
                )
                for i in shown
            ),
        )

    def _file(self, ordinal: int) -> str:
        entry = self._snapshot.slices[ordinal]
        name = (entry.base_file or entry.file_id).rpartition("/")[2]
        return f"{entry.partition_path}/{name}" if entry.partition_path else name


def _holding(
    to: NDArray[Any], since: NDArray[Any], lows: NDArray[Any], highs: NDArray[Any]
) -> NDArray[np.intp]:
    """How many ranges, whose bounds are sorted, reach into each of the intervals [since, to]."""
    begun = np.searchsorted(lows, to, side="right")
    return begun - np.searchsorted(highs, since, side="left")


def _places(bounds: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Parts of equal size of the distinct bounds: where each part begins, its first and its last bound."""
    distinct = np.unique(bounds)
    count = min(PLACES, len(distinct))
    edges = np.linspace(0, len(distinct), count + 1).round().astype(np.intp)
    return distinct[edges[:-1]], distinct[edges[:-1]], distinct[edges[1:] - 1]


BAR = "█"
NO_BAR = "·"
_HEIGHTS = " ▁▂▃▄▅▆▇█"

_LEGEND = "C: covered; U: not covered; X: no index may cover it. A small letter goes for most of a cell."


_WITHOUT_INDEXES = (
    "pruner advise says which would help; --column COLUMN draws the ranges of a column without one"
)

_WIDTH = 20
"""Characters of a coverage bar."""


def map_page(table_map: TableMap) -> str:
    """A map as a self-contained HTML page."""
    facts = [
        ("Table", table_map.uri),
        (f"{table_map.noun.capitalize()}s", f"{table_map.slices:,}"),
        ("Bytes", f"{table_map.bytes:,}"),
    ]
    undrawn = listed("Columns that are not drawn", table_map.undrawn)
    parts = (_coverage(table_map), *_over_time(table_map), *map(_column, table_map.columns), undrawn)
    return document("Map of a table", described(facts), *parts)


def _coverage(table_map: TableMap) -> Markup:
    if not table_map.indexes:
        return section("Indexes", element("p", f"The table has no index: {_WITHOUT_INDEXES}."))
    parts: list[Content] = [element("p", _LEGEND)]
    for index in table_map.indexes:
        parts.append(element("h3", f"{index.name} ({index.using})"))
        parts.append(
            element("p", index.problem) if index.problem else drawn(index.cells, f"Coverage of {index.name}")
        )
    return section("Indexes", *parts)


def _over_time(table_map: TableMap) -> Iterator[Markup]:
    """A table of the commits for each index, with a bar that shows the same as the numbers."""
    for name in dict.fromkeys(name for coverage in table_map.history for name in coverage.covered):
        rows = [
            (
                _moment(change),
                covered,
                change.slices - covered,
                element("span", _share(covered, change.slices), class_="bars", aria_hidden="true"),
            )
            for change, covered in _changes(table_map, name)
        ]
        header = ("Commit", "Covered", "Not covered", "Share")
        title = f"Coverage of {name} over time"
        yield section(title, table("Slices after each commit that changed these numbers", header, rows))


def _changes(table_map: TableMap, name: str) -> list[tuple[CoverageAt, int]]:
    """The first known coverage of an index, each commit that changed it, and the current coverage."""
    known = [
        (coverage, covered)
        for coverage in table_map.history
        if (covered := coverage.covered.get(name)) is not None
    ]
    return [
        (coverage, covered)
        for at, (coverage, covered) in enumerate(known)
        if at == 0
        or coverage.version is None
        or (coverage.slices, covered) != (known[at - 1][0].slices, known[at - 1][1])
    ]


def _moment(each: CoverageAt) -> str:
    return "now" if each.version is None else f"{each.version}, {(each.at or '')[:19]}"


def _share(covered: int, slices: int) -> str:
    """A bar that is full only for full coverage, and empty only for none."""
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
    """The range of a file as a bar within all values."""
    return NO_BAR * each.first + BAR * (each.last - each.first + 1) + NO_BAR * (places - each.last - 1)


def map_lines(table_map: TableMap) -> Iterator[str]:
    """A map as text."""
    yield f"table    {table_map.uri}"
    yield f"{table_map.noun + 's':<8} {table_map.slices:,}, {data_size(table_map.bytes)}"
    if not table_map.indexes:
        yield f"indexes  none: {_WITHOUT_INDEXES}"
    for each in table_map.indexes:
        yield ""
        yield f"index {each.name} ({each.using}): {each.problem or summary(each.cells)}"
        yield f"  {letters(each.cells)}"
    if table_map.indexes:
        yield _LEGEND
    yield from _history_lines(table_map)
    for column in table_map.columns:
        yield ""
        yield f"column {column.column}: {column.verdict}"
        yield f"  from {column.source}; at most {column.deepest:,}"
        yield f"  {_profile(column.overlaps)}  files that reach into each part of the values"
        for each in column.drawn:
            yield f"  {_bar(each, len(column.overlaps))}  {each.low} to {each.high}  {each.file}"
    if table_map.undrawn:
        yield ""
        yield from table_map.undrawn


def _history_lines(table_map: TableMap) -> Iterator[str]:
    for name in dict.fromkeys(name for coverage in table_map.history for name in coverage.covered):
        yield ""
        changes = _changes(table_map, name)
        begin = changes[0][0].version
        since = "" if begin is None else f" from {begin} on, the first that is known"
        yield f"coverage of {name} after each commit that changed these numbers{since}"
        for change, covered in changes:
            bar = _share(covered, change.slices)
            yield f"  {_moment(change):<28}  {bar}  {covered:,} of {counted(change.slices, table_map.noun)} covered"


def _profile(overlaps: tuple[int, ...]) -> str:
    most = max(overlaps, default=0) or 1
    return "".join(_HEIGHTS[-(-count * (len(_HEIGHTS) - 1) // most)] for count in overlaps)
