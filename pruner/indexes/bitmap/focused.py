"""The bitmaps of one field as one predicate asks about them: only the pages that an answer needs are read.

Entries are the cells into which the predicate's literals cut the values, NaN and NULL. A set of entries is answered,
segment by segment, from the pages with its records or from those with the records of all other entries, whichever are
fewer bytes. Every row of a slice is in exactly one entry, so a slice whose rows are not all in the others holds a row
of the set. If too many pages would have to be read, they are not, and slices with rows on them stay possible.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from pruner.arrow import as_numpy, nulls, positions
from pruner.errors import FormatError, StorageError
from pruner.expr.bound.predicates import CompareLeaf, InLeaf, PrefixLeaf
from pruner.expr.exact.patterns import successor
from pruner.indexes.bitmap.packing import decoded
from pruner.indexes.bitmap.paged import table_values
from pruner.indexes.bitmap.record import NAN, VALUE, stored_type
from pruner.indexes.bitmap.values import LeafEntries, value_list
from pruner.indexes.row_sets import Rows, all_rows
from pruner.metadata.segments import SLICE_COLUMN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf, Point, StorageValue
    from pruner.expr.semantics import Semantics
    from pruner.indexes.bitmap.paged import PagedBitmap, ValuePages
    from pruner.indexes.bitmap.values import ValueList
    from pruner.indexes.row_sets import Entries
    from pruner.verdict import Outcome

    Integers = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Cells: the values of a column, cut at every literal that a predicate compares them with.
#
# All values of a cell compare alike with each literal, so a leaf is true for all of a cell or for none of it. A
# predicate has few cells, however many values a column has.

_BEFORE, _BEHIND = 0, 1
"""A cut is before or after the values that equal it."""


class Cells:
    """A `ValueList` whose positions are cells; it knows only the literals of some leaves."""

    def __init__(self, leaves: Sequence[Leaf], stored: pa.DataType) -> None:
        """`stored` is the type in which values are recorded."""
        self._leaves = frozenset(leaves)
        self._serves = value_list(nulls(0, stored)).serves
        cuts = {cut for leaf in leaves for cut in _cuts(leaf) if self._serves(cut[0])}
        self._cuts: list[tuple[Any, int]] = sorted(cuts)
        self._number = {cut: number + 1 for number, cut in enumerate(self._cuts)}

    def __len__(self) -> int:
        return len(self._cuts) + 1

    def knows(self, leaf: Leaf) -> bool:
        """Tell whether the values are cut for a leaf."""
        return leaf in self._leaves

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal belongs to this domain."""
        return self._serves(value)

    def starts(self, values: Sequence[StorageValue | None]) -> Integers:
        """The first cell whose values are not less than each literal; None is minus infinity."""
        return np.array([0 if v is None else self._number[v, _BEFORE] for v in values], np.int64)

    def ends(self, values: Sequence[StorageValue | None]) -> Integers:
        """The position after the last cell whose values are not greater than each literal; None is plus infinity."""
        return np.array([len(self) if v is None else self._number[v, _BEHIND] for v in values], np.int64)

    def of(self, values: ValueList, first: int = 0, last: int | None = None) -> Integers:
        """The cell of each of some ascending values, all of which are known to be in the cells `first` to `last`."""
        cuts = self._cuts[first:last]
        sides = np.array([side for _, side in cuts], np.int64)
        positions = np.empty(len(cuts), np.int64)
        positions[sides == _BEFORE] = values.starts([value for value, side in cuts if side == _BEFORE])
        positions[sides == _BEHIND] = values.ends([value for value, side in cuts if side == _BEHIND])
        return first + np.searchsorted(positions, np.arange(len(values)), side="right").astype(np.int64)


def _cuts(leaf: Leaf) -> Iterator[tuple[StorageValue, int]]:
    match leaf:
        case CompareLeaf(point=point):
            yield from _around(point)
        case InLeaf(points=points):
            for point in points:
                yield from _around(point)
        case PrefixLeaf(prefix=prefix):
            yield prefix, _BEFORE
            behind = successor(prefix)
            if behind is not None:
                yield behind, _BEFORE
        case _:
            pass


def _around(point: Point) -> Iterator[tuple[StorageValue, int]]:
    if point.nan:
        return
    if point.low is not None:
        yield point.low, _BEFORE
    if point.high is not None:
        yield point.high, _BEHIND


_NONE = np.empty(0, np.int64)


class WaitingBitmap:
    """See `pruner.indexes.optional.PagedEvidence`. Threads may share it."""

    def __init__(self, bitmap: PagedBitmap) -> None:
        self._bitmap = bitmap
        self.covered = bitmap.covered
        self.notes = bitmap.notes

    def focused(self, leaves: Sequence[Leaf]) -> FocusedBitmap:
        """The evidence about the given leaves: see `PagedEvidence`."""
        return FocusedBitmap(self._bitmap, leaves)


class FocusedBitmap:
    """See `pruner.indexes.optional.FocusedEvidence`. Threads may share it."""

    def __init__(self, bitmap: PagedBitmap, leaves: Sequence[Leaf]) -> None:
        self._b = bitmap
        self._cells = Cells(leaves, stored_type(bitmap.field.type))
        self._leaves = LeafEntries(self._cells, bitmap.field.type)
        self._left = bitmap.limit_bytes
        self._problems: dict[str, None] = {}
        self._segments = [_Segment(segment, self) for segment in bitmap.segments]
        self._lock = Lock()
        self.count = bitmap.count
        self.covered = bitmap.covered
        self.row_counts = bitmap.row_counts
        self.entry_count = len(self._cells) + 2

    @property
    def bitmap(self) -> PagedBitmap:
        """The bitmaps that this is evidence from."""
        return self._b

    @property
    def cells(self) -> Cells:
        """The cells of the predicate."""
        return self._cells

    @property
    def notes(self) -> tuple[str, ...]:
        """Why slices with records are not covered, or could not be answered for."""
        return (*self._b.notes, *self._problems)

    def bytes_to_read(self, entries: Mask, at: NDArray[np.intp] | None) -> int:
        """How many bytes must be read to answer for a set of entries: see `FocusedEvidence`."""
        return sum(segment.cost(entries) for segment in self._segments_of(at))

    def bytes_of_rows(self, entries: Mask, at: NDArray[np.intp]) -> int:
        """How many bytes must be read to list rows: see `FocusedEvidence`."""
        return sum(segment.cost_of_rows(entries) for segment in self._segments_of(at))

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`: see `Evidence.possible`."""
        entries = self.entries(leaf, outcome, semantics)
        return None if entries is None else self.holding(entries.mask, semantics, at)

    def settled(self, semantics: Semantics) -> Mask:
        """Slices whose bitmaps are about the values that this engine reads."""
        unread = self._b.unread.of(semantics)
        return self.covered if unread is None else self.covered & ~unread

    def entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        """The entries whose rows can make `leaf` evaluate to `outcome`; None if the leaf cannot be answered."""
        return self._leaves.entries(leaf, outcome, semantics) if self._cells.knows(leaf) else None

    def holding(self, entries: Mask, semantics: Semantics, at: NDArray[np.intp] | None) -> Mask:
        """Slices that hold a row of the entries, and unknown ones: see `RowEvidence`."""
        mask = ~self.settled(semantics)
        with self._lock:
            for segment in self._segments_of(at):
                segment.mark(entries, mask)
        return mask if at is None else mask[at]

    def row_total(self, entries: Mask, slices: NDArray[np.intp]) -> int:
        """Upper bound on the rows of the entries in some slices: see `RowEvidence`."""
        with self._lock:
            return sum(segment.row_total(entries, slices) for segment in self._segments_of(slices))

    def rows_in(self, entries: Mask, slices: NDArray[np.intp]) -> Integers | None:
        """Lower bounds on the rows of the entries in each of some slices: see `RowCountingEvidence`."""
        if entries.all():
            return None
        counts = np.zeros(len(slices), np.int64)
        with self._lock:
            for segment in self._segments:
                segment.add_rows_in(entries, slices, counts)
        return counts

    def rows(self, entries: Mask, slices: NDArray[np.intp]) -> Rows:
        """The rows of the entries in some slices, which must be covered, ascending."""
        rows, broken, exact = BitMap64(), np.empty(0, np.intp), True
        with self._lock:
            for segment in self._segments_of(slices):
                row_set = segment.rows(entries, slices[np.isin(slices, segment.slices)])
                rows |= row_set.rows
                broken = np.union1d(broken, row_set.broken)
                exact &= row_set.exact
        return Rows(rows, broken, exact)

    def _segments_of(self, at: NDArray[np.intp] | None) -> list[_Segment]:
        return [segment for segment in self._segments if at is None or np.isin(at, segment.slices).any()]

    def may_read(self, size: int) -> bool:
        """Take `size` bytes from this predicate's read budget; False, with a note, if they are too many."""
        if size > self._left:
            limit = self._b.limit_bytes // 1_000_000
            self._problems[
                f"its answer takes more than the {limit:,} MB of index_memory: nothing is left out by it"
            ] = None
            return False
        self._left -= size
        return True

    def note(self, problem: Exception) -> None:
        """Remember why a page could not be read."""
        self._problems[str(problem)] = None


class _Postings(NamedTuple):
    """Row counts by cell and slice (its position among those of the segment)."""

    cells: Integers
    slices: Integers
    sizes: Integers


class _Segment:
    """The pages of one segment under one predicate, and what was read from them."""

    def __init__(self, about: ValuePages, focus: FocusedBitmap) -> None:
        self._about = about
        self._focus = focus
        self.slices = about.slices
        self._row_counts = focus.bitmap.row_counts[about.slices]
        nan, null = len(focus.cells), len(focus.cells) + 1
        # The first and the last cell of each page.
        self._first = np.where(about.kinds == NAN, nan, null)
        self._last = self._first.copy()
        bounds = focus.cells.of(about.bounds_in_order)
        self._first[about.kinds == VALUE], self._last[about.kinds == VALUE] = bounds[::2], bounds[1::2]
        self._read = np.zeros(len(about.numbers), np.bool_)
        self._found = _Postings(_NONE, _NONE, _NONE)
        self._failed = False
        self._broken = np.zeros(len(about.slices), np.bool_)

    def cost(self, entries: Mask) -> int:
        """Bytes to read for a set of entries."""
        return int(self._about.sizes[self._to_read(entries)].sum())

    def cost_of_rows(self, entries: Mask) -> int:
        """Bytes to read for the rows of a set of entries."""
        sizes = self._about.sizes + self._about.deferred_sizes
        return int(min(sizes[self._touching(entries)].sum(), sizes[self._touching(~entries)].sum()))

    def _touching(self, entries: Mask) -> Mask:
        """The pages with a cell of a set of entries."""
        before = np.concatenate([[0], np.cumsum(entries)])
        return before[self._last + 1] > before[self._first]

    def _to_read(self, entries: Mask) -> Integers:
        """The unread pages that answer for a set of entries: those of the set, or those of all others."""
        chosen, others = self._touching(entries) & ~self._read, self._touching(~entries) & ~self._read
        sizes = self._about.sizes
        fewer = chosen if sizes[chosen].sum() <= sizes[others].sum() else others
        return np.flatnonzero(fewer)

    def _ensure(self, entries: Mask) -> bool:
        """Read the pages that answer for a set of entries; returns whether all pages of the set were read."""
        pages = self._to_read(entries)
        if len(pages) and not self._failed and self._focus.may_read(int(self._about.sizes[pages].sum())):
            try:
                self._take(pages)
            except (FormatError, StorageError) as problem:
                self._failed = True
                self._focus.note(problem)
        return not (self._touching(entries) & ~self._read).any()

    def _take(self, pages: Integers) -> None:
        gathered = [self._found]
        for page in pages.tolist():
            cells, slices, sizes = self._records(page)
            gathered.append(_summed(cells, slices, sizes, len(self.slices)))
            if len(gathered) == _GATHERED:
                gathered = [_joined(gathered, len(self.slices))]
        self._found = _joined(gathered, len(self.slices))
        self._read[pages] = True
        total = np.bincount(self._found.slices, weights=self._found.sizes, minlength=len(self.slices))
        too_few = self._read.all() & (total < self._row_counts)
        # Every row is in exactly one entry: such a slice is not trusted (R10).
        self._broken |= (total > self._row_counts) | too_few

    def _records(self, page: int) -> _Postings:
        """The records of a page that count: their cells, slices and row counts."""
        records, cells = self._read_page(page)
        owners = as_numpy(records.column(SLICE_COLUMN)).astype(np.int64)
        sizes = as_numpy(records.column("cardinality")).astype(np.int64)
        local = self._local(owners)
        counted = local >= 0
        return _Postings(cells[counted], local[counted], sizes[counted])

    def _read_page(self, page: int) -> tuple[pa.Table, Integers]:
        """The records of a page, and the cell of each."""
        first, last = int(self._first[page]), int(self._last[page])
        number = int(self._about.numbers[page])
        records = self._about.pages.read(number, (self._about.column, "cardinality", SLICE_COLUMN))
        if first == last:
            return records, np.full(records.num_rows, first, np.int64)
        values = table_values(records, self._about, self._focus.bitmap.field)
        if values.null_count:
            raise FormatError(
                "a page of bitmaps holds a value that the table's type does not: create the index anew"
            )
        return records, self._focus.cells.of(value_list(values), first, last)

    def _local(self, owners: Integers) -> Integers:
        """Positions of slices among those of the segment; -1 for others."""
        at = np.minimum(np.searchsorted(self.slices, owners), len(self.slices) - 1)
        return np.where(self.slices[at] == owners, at, -1)

    def mark(self, entries: Mask, mask: Mask) -> None:
        """Set in `mask` the slices of the segment that can hold a row of the entries."""
        complete = self._ensure(entries)
        if complete:
            holds = np.zeros(len(self.slices), np.bool_)
            holds[self._found.slices[entries[self._found.cells]]] = True
        else:
            holds = self._known_rows(~entries) < self._row_counts
        mask[self.slices[holds | self._broken]] = True

    def _known_rows(self, entries: Mask) -> Integers:
        """How many rows of each slice are known to be in some entries."""
        chosen = entries[self._found.cells]
        return np.bincount(
            self._found.slices[chosen], weights=self._found.sizes[chosen], minlength=len(self.slices)
        ).astype(np.int64)

    def row_total(self, entries: Mask, slices: NDArray[np.intp]) -> int:
        """Upper bound on the rows of the entries in some slices of the snapshot."""
        complete = self._ensure(entries)
        chosen = np.isin(self.slices, slices)
        if not complete:
            return int((self._row_counts - self._known_rows(~entries))[chosen].clip(0).sum())
        counted = entries[self._found.cells] & chosen[self._found.slices]
        return int(self._found.sizes[counted].sum())

    def add_rows_in(self, entries: Mask, slices: NDArray[np.intp], counts: Integers) -> None:
        """Add to `counts` lower bounds on the rows of the entries in each of some slices of the snapshot.

        Nothing is read for this. Slices outside the segment, or not trusted, are skipped.
        """
        if not len(self.slices):
            return
        local = self._local(slices.astype(np.int64))
        own = np.flatnonzero((local >= 0) & ~self._broken[local])
        unread = self._touching(entries) & ~self._read
        if unread.any() and not (self._touching(~entries) & ~self._read).any():
            least = self._row_counts - self._known_rows(~entries)
        else:
            least = self._known_rows(entries)
        counts[own] += least[local[own]]

    def rows(self, entries: Mask, slices: NDArray[np.intp]) -> Rows:
        """The rows of the entries in some slices of the segment, ascending."""
        complete = self._ensure(entries)
        broken = slices[self._broken[self._local(slices.astype(np.int64))]]
        asked = slices[~np.isin(slices, broken)]
        try:
            rows = self._decoded(entries if complete else ~entries, asked)
        except (FormatError, StorageError) as problem:
            self._focus.note(problem)
            return Rows(BitMap64(), slices)
        broken = np.union1d(broken, rows.broken)
        if complete:
            return Rows(rows.rows, broken)
        told = asked[~np.isin(asked, rows.broken)]
        everything = all_rows(told, self._focus.row_counts[told])
        exact = not (self._touching(~entries) & ~self._read).any()
        return Rows(everything - rows.rows, broken, exact)

    def _decoded(self, entries: Mask, slices: NDArray[np.intp]) -> Rows:
        """The rows of entries whose pages were read."""
        pages = np.flatnonzero(self._touching(entries) & self._read)
        owners, sizes, blobs = [_NONE], [_NONE], list[pa.Table]()
        wanted = np.isin(self.slices, slices)
        for page in pages.tolist():
            records, cells = self._read_page(page)
            local = self._local(as_numpy(records.column(SLICE_COLUMN)).astype(np.int64))
            chosen = np.flatnonzero(entries[cells] & (local >= 0) & wanted[local])
            if len(chosen):
                deferred = self._about.pages.read_deferred(int(self._about.numbers[page]))
                blobs.append(deferred.take(positions(chosen)))
                owners.append(self.slices[local[chosen]])
                sizes.append(as_numpy(records.column("cardinality"))[chosen])
        if not blobs:
            return Rows(BitMap64(), np.empty(0, np.intp))
        together = np.concatenate(owners)
        order = np.argsort(together, kind="stable")
        counts = self._focus.row_counts[together[order]]
        records = pa.concat_tables(blobs).take(positions(order))
        return decoded(records, together[order], np.concatenate(sizes)[order], counts)


_GATHERED = 64
"""Pages whose postings are held in memory before they are summed."""


def _summed(cells: Integers, slices: Integers, sizes: Integers, count: int) -> _Postings:
    """One posting for each cell and slice."""
    keys, which = np.unique(cells * count + slices, return_inverse=True)
    together = np.bincount(which, weights=sizes, minlength=len(keys)).astype(np.int64)
    return _Postings(keys // max(count, 1), keys % max(count, 1), together)


def _joined(parts: list[_Postings], count: int) -> _Postings:
    cells, slices, sizes = (np.concatenate(part) for part in zip(*parts, strict=True))
    return _summed(cells, slices, sizes, count)
