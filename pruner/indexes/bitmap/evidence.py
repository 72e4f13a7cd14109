"""What bitmaps say about leaf predicates: about all slices at once, and about single rows of the slices that are left.

Every row is in one entry (a value, NaN or NULL), so a leaf reduces to the entries on which it can evaluate to the
outcome, and so does every AND, OR and NOT of leaves on the same column. Slices are found by their postings, without
reading a bitmap; bitmaps are read for slices that a caller asks for by number.

Recorded values are also written as text, for display.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from pruner.arrow import as_numpy, from_storage
from pruner.errors import FormatError, StorageError
from pruner.indexes.bitmap.packing import decoded
from pruner.indexes.bitmap.values import LeafEntries
from pruner.indexes.columns.reading import UnreadSlices, may_overflow
from pruner.indexes.row_sets import Entries, Rows, all_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.bitmap.load import Postings
    from pruner.indexes.optional import Fetch
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]


def texts(values: pa.Array[Any], type_: pa.DataType) -> list[str]:
    """Write values of a stored type as those of a table type are usually written.

    Bytes of text that are not UTF-8 are written as escapes.
    """
    types = pa.types
    listed: list[Any] = values.to_pylist()
    if types.is_binary(values.type):
        return [value.decode("utf-8", "backslashreplace") for value in listed]
    if types.is_decimal(type_):
        sign_and_digits = (Decimal(value).as_tuple() for value in listed)
        return [f"{Decimal((sign, digits, -type_.scale)):f}" for sign, digits, _ in sign_and_digits]
    if types.is_boolean(type_):
        return ["true" if value else "false" for value in listed]
    moment = types.is_date(type_) or types.is_time(type_) or types.is_timestamp(type_)
    plain: Any = from_storage(values, type_) if moment else values
    return plain.cast(pa.string()).to_pylist()


_PART = 1 << 16
"""Slices that are converted to positions at a time."""

_ONE_BY_ONE = 16
"""Looking up a slice in the postings of an entry costs about as much as marking this many slices."""


class BitmapEvidence:
    """Evidence from the bitmaps of one field: see `pruner.indexes.optional.RowEvidence`. Threads may share it."""

    def __init__(self, postings: Postings, field: Field, fetch: Fetch) -> None:
        self._p = postings
        self._field = field
        self._fetch = fetch
        self._leaves = LeafEntries(postings.values, field.type)
        self._unread = UnreadSlices(
            postings.read_types,
            postings.calendar_open,
            field.type,
            lambda rounded: _overflowing(postings, field.type, rounded=rounded),
        )
        self.count = len(postings.row_counts)
        self.covered = postings.covered
        self.row_counts = postings.row_counts
        self.entry_count = postings.entry_count
        self.notes = postings.notes
        self._all_covered = bool(postings.covered.all())

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`: see `Evidence.possible`."""
        entries = self.entries(leaf, outcome, semantics)
        return None if entries is None else self.holding(entries.mask, semantics, at)

    def settled(self, semantics: Semantics) -> Mask:
        """Slices whose bitmaps are about the values that this engine reads."""
        unread = self._unread.of(semantics)
        return self.covered if unread is None else self.covered & ~unread

    def entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        """The entries whose rows can make `leaf` evaluate to `outcome`; None if the leaf cannot be answered."""
        return self._leaves.entries(leaf, outcome, semantics)

    def holding(self, entries: Mask, semantics: Semantics, at: NDArray[np.intp] | None) -> Mask:
        """Slices that hold a row of the entries, and unknown ones."""
        chosen = np.flatnonzero(entries)
        total = int((self._p.starts[chosen + 1] - self._p.starts[chosen]).sum())
        if at is not None and len(chosen) * len(at) * _ONE_BY_ONE < min(total, len(self._p.slices) - total):
            mask = self._look_up(chosen, at)
        else:
            mask = self._holding_of_all(entries, chosen, total)
            mask = mask if at is None else mask[at]
        if not self._all_covered:
            mask = mask | ~(self.covered if at is None else self.covered[at])
        unread = self._unread.of(semantics)
        return mask if unread is None else mask | (unread if at is None else unread[at])

    def _look_up(self, chosen: NDArray[np.intp], at: NDArray[np.intp]) -> Mask:
        mask = np.zeros(len(at), np.bool_)
        for entry in chosen:
            slices = self._p.slices[self._p.starts[entry] : self._p.starts[entry + 1]]
            position = np.minimum(np.searchsorted(slices, at), len(slices) - 1)
            if len(slices):
                mask |= slices[position] == at
        return mask

    def _holding_of_all(self, entries: Mask, chosen: NDArray[np.intp], total: int) -> Mask:
        """Mark the slices of the chosen entries, or count how many other entries the rows of a slice are in."""
        if 2 * total <= len(self._p.slices):
            mask = np.zeros(self.count, np.bool_)
            for slices in self._slices_of(chosen):
                for part in _positions(slices):
                    mask[part] = True
            return mask
        others = self._with_postings(~entries)
        mask = self._p.any_entry
        if len(others) == 1:
            mask = mask.copy()
            (slices,) = self._slices_of(others)
            for part in _positions(slices):
                mask[part] = self._p.entries_in[part] > 1
        elif len(others):
            counts = np.zeros(self.count, np.int32)
            for slices in self._slices_of(others):
                counts += np.bincount(slices, minlength=self.count).astype(np.int32)
            mask = counts < self._p.entries_in
        return mask

    def _with_postings(self, entries: Mask) -> NDArray[np.intp]:
        chosen = np.flatnonzero(entries)
        return chosen[self._p.starts[chosen + 1] > self._p.starts[chosen]]

    def _slices_of(self, entries: NDArray[np.intp]) -> list[NDArray[np.int32]]:
        """The slices of some entries, those of neighboring entries together."""
        return [self._p.slices[run] for run in self._runs_of(entries)]

    def _runs_of(self, entries: NDArray[np.intp]) -> list[slice]:
        """Where the postings of some entries are, those of neighboring entries together."""
        if not len(entries):
            return []
        breaks = np.flatnonzero(np.diff(entries) > 1)
        first = entries[np.concatenate([[0], breaks + 1])]
        last = entries[np.concatenate([breaks, [len(entries) - 1]])]
        return list(map(slice, self._p.starts[first].tolist(), self._p.starts[last + 1].tolist()))

    def row_total(self, entries: Mask, slices: NDArray[np.intp]) -> int:
        """Number of rows of the entries in some slices: see `RowEvidence`."""
        postings, _ = self._postings_in(slices)
        codes = np.searchsorted(self._p.starts, postings, side="right") - 1
        return int(self._p.sizes[postings[entries[codes]]].sum())

    def rows_in(self, entries: Mask, slices: NDArray[np.intp]) -> NDArray[np.int64] | None:
        """How many rows of the entries each of some slices has: see `RowCountingEvidence`."""
        chosen = np.flatnonzero(entries)
        total = int((self._p.starts[chosen + 1] - self._p.starts[chosen]).sum())
        if total == len(self._p.slices):
            return None
        if 2 * total <= len(self._p.slices):
            return self._counted(chosen, slices)
        return self.row_counts[slices] - self._counted(self._with_postings(~entries), slices)

    def _counted(self, chosen: NDArray[np.intp], slices: NDArray[np.intp]) -> NDArray[np.int64]:
        """How many rows of the chosen entries each of some slices has."""
        if len(slices) * _ONE_BY_ONE < self.count:
            postings, owners = self._postings_in(slices)
            codes = np.searchsorted(self._p.starts, postings, side="right") - 1
            wanted = np.isin(codes, chosen)
            counts = np.bincount(
                np.searchsorted(slices, owners[wanted]),
                weights=self._p.sizes[postings[wanted]],
                minlength=len(slices),
            )
            return counts.astype(np.int64)
        runs = self._runs_of(chosen)
        if not runs:
            return np.zeros(len(slices), np.int64)
        if len(chosen) == 1:
            holders, sizes = self._p.slices[runs[0]], self._p.sizes[runs[0]]
            if np.array_equal(holders, slices):
                return sizes  # the remaining slices are often those of one value
            of_all = np.zeros(self.count, np.int64)
            of_all[holders] = sizes
            return of_all[slices]
        holders = np.concatenate([self._p.slices[run] for run in runs])
        sizes = np.concatenate([self._p.sizes[run] for run in runs])
        # Doubles are exact far beyond the number of rows of a slice.
        return np.bincount(holders, weights=sizes, minlength=self.count)[slices].astype(np.int64)

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

    def stored_values(self) -> pa.Array[Any]:
        """The values of the entries: see `ValuedEvidence`."""
        return self._p.distinct

    def _postings_in(self, slices: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The postings of some slices, slice by slice, and the slice of each."""
        starts, by_slice = self._p.by_slice
        counts = starts[slices + 1] - starts[slices]
        before = np.cumsum(counts) - counts
        within = np.arange(int(counts.sum())) - np.repeat(before, counts)
        return by_slice[np.repeat(starts[slices], counts) + within], np.repeat(slices, counts)

    def _decoded(self, postings: NDArray[np.intp], owners: NDArray[np.intp]) -> Rows:
        """The rows of some postings; slices with a bitmap that cannot be trusted are named and left out."""
        try:
            records = self._fetch(self._p.records[postings])
        except (FormatError, StorageError):
            return Rows(BitMap64(), np.unique(owners))
        return decoded(records, owners, self._p.sizes[postings], self.row_counts[owners])


def _positions(slices: NDArray[np.int32]) -> Iterator[NDArray[np.intp]]:
    """Some slices as NumPy indices, a part at a time: indexing by 32-bit positions takes twice as long."""
    for start in range(0, len(slices), _PART):
        yield slices[start : start + _PART].astype(np.intp)


def _overflowing(postings: Postings, type_: pa.DataType, *, rounded: bool) -> Mask | None:
    """Slices with a value that Trino reads as another; None if there are none."""
    if not pa.types.is_timestamp(type_):
        return None
    values = as_numpy(postings.distinct.view(pa.int64()))
    others = may_overflow(values, values, type_, rounded=rounded)
    if others is None:
        return None
    mask = np.zeros(len(postings.row_counts), np.bool_)
    for entry in np.flatnonzero(others):
        mask[postings.slices[postings.starts[entry] : postings.starts[entry + 1]]] = True
    return mask
