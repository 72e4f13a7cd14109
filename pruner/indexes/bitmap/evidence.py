"""What bitmaps say about leaf predicates: of slices at once, and of single rows for the slices that are left.

Every row stands in one entry (a value, NaN or NULL), so a leaf comes down to the entries on which it can come to the
outcome, and so does every AND, OR and NOT of leaves on the same column. Slices are found by their postings, without a
bitmap being looked at; bitmaps are read for slices that somebody asks for by number.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from pruner.errors import FormatError, StorageError
from pruner.expr.bound import CompareLeaf, InLeaf, IsNullLeaf, NotNullLeaf, PrefixLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import NanOrder
from pruner.indexes.bitmap.blobs import is_sound
from pruner.indexes.bitmap.texts import texts
from pruner.indexes.bitmap.values import inside
from pruner.indexes.columns.answerable import is_answerable
from pruner.indexes.columns.bounds import successor
from pruner.indexes.columns.moments import is_rounded, may_overflow
from pruner.indexes.columns.reading import union
from pruner.indexes.row_sets import Entries, Rows, all_rows, decode_many
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.expr.bound import Leaf, Point
    from pruner.expr.semantics import Semantics
    from pruner.indexes.bitmap.load import Postings
    from pruner.indexes.optional import Fetch
    from pruner.schema import Field

    Mask = NDArray[np.bool_]

_ONE_BY_ONE = 16
"""Looking up a slice in the postings of an entry costs about as much as marking this many slices."""


class BitmapEvidence:
    """Evidence of the bitmaps of one field: see `pruner.indexes.optional.RowEvidence`. Threads may share it."""

    def __init__(self, postings: Postings, field: Field, fetch: Fetch) -> None:
        self._p = postings
        self._field = field
        self._fetch = fetch
        self.count = len(postings.row_counts)
        self.covered = postings.covered
        self.row_counts = postings.row_counts
        self.entry_count = postings.entry_count
        self.notes = postings.notes
        self._all_covered = bool(postings.covered.all())

    @cached_property
    def _overflowing(self) -> tuple[Mask | None, Mask | None]:
        """Slices with timestamps that wrap around: where an engine does not round them, and where it does."""
        type_ = self._field.type
        return _overflowing(self._p, type_, rounded=False), _overflowing(self._p, type_, rounded=True)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` come to `outcome`: see `Evidence.possible`."""
        found = self.entries(leaf, outcome, semantics)
        return None if found is None else self.holding(found.mask, semantics, at)

    def settled(self, semantics: Semantics) -> Mask:
        """Slices of which the bitmaps are about the values that this engine reads."""
        unread = self._unread(semantics)
        return self.covered if unread is None else self.covered & ~unread

    def _unread(self, semantics: Semantics) -> Mask | None:
        traits = semantics.traits
        unread = union(
            self._p.read_types.unread(semantics),
            self._p.calendar_open if traits.asks_session_for_calendar else None,
        )
        if traits.wraps_far_timestamps:
            unread = union(unread, self._overflowing[is_rounded(self._field.type, semantics)])
        return unread

    def entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        """The entries whose rows can make `leaf` come to `outcome`; None where nothing can be said."""
        if isinstance(leaf, IsNullLeaf | NotNullLeaf):
            return self._without_values(leaf, outcome)
        if not is_answerable(leaf, self._field.type, self._p.values.serves, semantics):
            return None
        if outcome is Outcome.NULL:
            return self._null_of(leaf, semantics)
        match leaf:
            case CompareLeaf():
                return self._compare(leaf, outcome, semantics)
            case InLeaf():
                return self._in(leaf, outcome, semantics)
            case PrefixLeaf():
                return self._prefix(leaf, outcome)
            case _:
                assert_never(leaf)

    def _none(self) -> Mask:
        return np.zeros(self.entry_count, np.bool_)

    def _numbers(self) -> Mask:
        mask = self._none()
        mask[: self._p.nan] = True
        return mask

    def _without_values(self, leaf: IsNullLeaf | NotNullLeaf, outcome: Outcome) -> Entries:
        null = self._none()
        null[self._p.null] = True
        match leaf, outcome:
            case (IsNullLeaf(), Outcome.TRUE) | (NotNullLeaf(), Outcome.NULL):
                return Entries(null)
            case IsNullLeaf(), Outcome.FALSE:
                return Entries(~null)
            case NotNullLeaf(value=value), _ if value is (outcome is Outcome.TRUE):
                return Entries(~null)
            case _:
                return Entries(self._none())

    def _null_of(self, leaf: CompareLeaf | InLeaf | PrefixLeaf, semantics: Semantics) -> Entries:
        found = Entries(self._none())
        if isinstance(leaf, InLeaf) and leaf.has_null:
            found = self._not_listed(leaf, semantics)
        found.mask[self._p.null] = True
        return found

    def _compare(self, leaf: CompareLeaf, outcome: Outcome, semantics: Semantics) -> Entries:
        operator = leaf.operator if outcome is Outcome.TRUE else leaf.operator.negated
        mask, exact = self._none(), True
        if leaf.point.nan:
            # Against NaN all numbers compare alike.
            below = leaf.operator in (Operator.LT, Operator.LE, Operator.NE)
            mask[: self._p.nan] = below is (outcome is Outcome.TRUE)
        else:
            exact = self._mark(mask, operator, leaf.point)
        nan_is_true = _nan_makes_true(leaf.operator, leaf.point, semantics)
        mask[self._p.nan] = nan_is_true is (outcome is Outcome.TRUE)
        return Entries(mask, exact)

    def _mark(self, mask: Mask, operator: Operator, point: Point) -> bool:
        """Mark the values that can make `value operator point` true; returns whether they all do."""
        starts, ends = inside(self._p.values, [point])
        start, end, last = int(starts[0]), int(ends[0]), self._p.nan
        if operator in (Operator.LT, Operator.LE, Operator.NE):
            mask[:start] = True
        if operator in (Operator.GT, Operator.GE, Operator.NE):
            mask[end:last] = True
        if operator in (Operator.LE, Operator.GE, Operator.EQ) or not point.exact:
            mask[start:end] = True
        return point.exact or start == end

    def _in(self, leaf: InLeaf, outcome: Outcome, semantics: Semantics) -> Entries:
        if outcome is Outcome.FALSE:
            return Entries(self._none()) if leaf.has_null else self._not_listed(leaf, semantics)
        points = [point for point in leaf.points if not point.nan]
        mask, exact = self._none(), True
        for start, end, point in zip(*inside(self._p.values, points), points, strict=True):
            mask[start:end] = True
            exact &= point.exact or bool(start == end)
        mask[self._p.nan] = _lists_nan(leaf, semantics)
        return Entries(mask, exact)

    def _not_listed(self, leaf: InLeaf, semantics: Semantics) -> Entries:
        """Entries other than NULL that can equal none of the points."""
        points = [point for point in leaf.points if not point.nan]
        mask, exact = self._numbers(), True
        for start, end, point in zip(*inside(self._p.values, points), points, strict=True):
            if point.exact:
                mask[start:end] = False
            exact &= point.exact or bool(start == end)
        mask[self._p.nan] = not _lists_nan(leaf, semantics)
        return Entries(mask, exact)

    def _prefix(self, leaf: PrefixLeaf, outcome: Outcome) -> Entries:
        behind = successor(leaf.prefix)
        start = int(self._p.values.starts([leaf.prefix])[0])
        end = self._p.nan if behind is None else int(self._p.values.starts([behind])[0])
        mask = self._none()
        if outcome is Outcome.TRUE:
            mask[start:end] = True
        else:
            mask[: self._p.nan] = True
            if leaf.whole:
                mask[start:end] = False
        return Entries(mask, leaf.whole or start == end)

    def holding(self, entries: Mask, semantics: Semantics, at: NDArray[np.intp] | None) -> Mask:
        """Slices that hold a row of the entries, and those of which nothing is known."""
        chosen = np.flatnonzero(entries)
        total = int((self._p.starts[chosen + 1] - self._p.starts[chosen]).sum())
        if at is not None and len(chosen) * len(at) * _ONE_BY_ONE < min(total, len(self._p.slices) - total):
            found = self._look_up(chosen, at)
        else:
            found = self._holding_of_all(entries, chosen, total)
            found = found if at is None else found[at]
        if not self._all_covered:
            found = found | ~(self.covered if at is None else self.covered[at])
        unread = self._unread(semantics)
        return found if unread is None else found | (unread if at is None else unread[at])

    def _look_up(self, chosen: NDArray[np.intp], at: NDArray[np.intp]) -> Mask:
        found = np.zeros(len(at), np.bool_)
        for entry in chosen:
            slices = self._p.slices[self._p.starts[entry] : self._p.starts[entry + 1]]
            position = np.minimum(np.searchsorted(slices, at), len(slices) - 1)
            if len(slices):
                found |= slices[position] == at
        return found

    def _holding_of_all(self, entries: Mask, chosen: NDArray[np.intp], total: int) -> Mask:
        """Mark the slices of the chosen entries, or count in how many other entries the rows of a slice stand."""
        if 2 * total <= len(self._p.slices):
            found = np.zeros(self.count, np.bool_)
            for slices in self._slices_of(chosen):
                found[slices] = True
            return found
        others = np.zeros(self.count, np.int32)
        for slices in self._slices_of(np.flatnonzero(~entries)):
            others += np.bincount(slices, minlength=self.count).astype(np.int32)
        return others < self._p.entries_in

    def _slices_of(self, entries: NDArray[np.intp]) -> list[NDArray[np.int32]]:
        """The slices of some entries, those of neighbouring entries together."""
        if not len(entries):
            return []
        breaks = np.flatnonzero(np.diff(entries) > 1)
        first = entries[np.concatenate([[0], breaks + 1])]
        last = entries[np.concatenate([breaks, [len(entries) - 1]])]
        return [
            self._p.slices[start:end]
            for start, end in zip(
                self._p.starts[first].tolist(), self._p.starts[last + 1].tolist(), strict=True
            )
        ]

    def row_total(self, entries: Mask, slices: NDArray[np.intp]) -> int:
        """Number of rows of the entries in some slices: see `RowEvidence`."""
        postings, _ = self._postings_in(slices)
        codes = np.searchsorted(self._p.starts, postings, side="right") - 1
        return int(self._p.sizes[postings[entries[codes]]].sum())

    def rows(self, entries: Mask, slices: NDArray[np.intp]) -> Rows:
        """The rows of the entries in some slices, which must be covered, ascending."""
        postings, owners = self._postings_in(slices)
        codes = np.searchsorted(self._p.starts, postings, side="right") - 1
        wanted = entries[codes]
        if 2 * int(np.count_nonzero(wanted)) <= len(wanted):
            return self._decoded(postings[wanted], owners[wanted])
        others = self._decoded(postings[~wanted], owners[~wanted])
        everything = all_rows(slices, self.row_counts[slices])
        return Rows(everything - others.rows, others.broken)

    def texts(self) -> list[str | None]:
        """Each entry's value as text: see `ListedEvidence`."""
        return [*texts(self._p.distinct, self._field.type), "NaN", None]

    def holders(self, entry: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The slices with rows of an entry, and their number in each: see `ListedEvidence`."""
        here = slice(self._p.starts[entry], self._p.starts[entry + 1])
        return self._p.slices[here], self._p.sizes[here]

    def _postings_in(self, slices: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The postings of some slices, slice by slice, and the slice of each."""
        starts, by_slice = self._p.by_slice
        counts = starts[slices + 1] - starts[slices]
        before = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(before, counts)
        return by_slice[np.repeat(starts[slices], counts) + within], np.repeat(slices, counts)

    def _decoded(self, postings: NDArray[np.intp], owners: NDArray[np.intp]) -> Rows:
        """The rows of some postings; slices of which a bitmap cannot be believed are named and left out."""
        try:
            records = self._fetch(self._p.records[postings])
        except (FormatError, StorageError):
            return Rows(BitMap64(), np.unique(owners))
        blobs: list[Any] = records.column("rows").to_pylist()
        checksums: list[Any] = records.column("checksum").to_pylist()
        counts = self.row_counts[owners].tolist()
        sound = np.fromiter(map(is_sound, blobs, checksums, counts), np.bool_, len(blobs))
        broken = np.unique(owners[~sound])
        kept = np.flatnonzero(~np.isin(owners, broken)) if len(broken) else np.arange(len(owners))
        sizes = self._p.sizes[postings]
        # A key may stand once in the 64-bit format: first come the first postings of all slices, then the second ones.
        starts = np.searchsorted(owners[kept], owners[kept], side="left")
        number = np.arange(len(kept)) - starts
        found = BitMap64()
        for turn in range(int(number.max(initial=-1)) + 1):
            part = kept[number == turn]
            decoded = decode_many(owners[part].tolist(), [blobs[i] for i in part], int(sizes[part].sum()))
            if decoded is None:
                return Rows(BitMap64(), np.unique(owners))
            found |= decoded
        return Rows(found, broken)


def _overflowing(postings: Postings, type_: pa.DataType, *, rounded: bool) -> Mask | None:
    """Slices with a value that Trino reads as another; None where there are none."""
    if not pa.types.is_timestamp(type_):
        return None
    values = np.asarray(postings.distinct.view(pa.int64()))
    others = may_overflow(values, values, type_, rounded=rounded)
    if others is None:
        return None
    found = np.zeros(len(postings.row_counts), np.bool_)
    for entry in np.flatnonzero(others):
        found[postings.slices[postings.starts[entry] : postings.starts[entry + 1]]] = True
    return found


def _nan_makes_true(operator: Operator, point: Point, semantics: Semantics) -> bool:
    """Tell whether `NaN operator literal` is true (trap S2)."""
    if semantics.nan_order is not NanOrder.GREATEST:
        return operator is Operator.NE
    equal_or_more = (Operator.EQ, Operator.LE, Operator.GE)
    return operator in (equal_or_more if point.nan else (Operator.GT, Operator.GE, Operator.NE))


def _lists_nan(leaf: InLeaf, semantics: Semantics) -> bool:
    return semantics.nan_order is NanOrder.GREATEST and any(point.nan for point in leaf.points)
