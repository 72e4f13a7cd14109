"""What a record index says: which slices, and which of their rows, have the keys that a predicate looks for."""

from __future__ import annotations

from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
from pyroaring import BitMap64

from pruner.errors import FormatError, StorageError
from pruner.indexes.columns.canonical import hash_values
from pruner.indexes.columns.sought import SoughtValues
from pruner.indexes.optional import Located
from pruner.indexes.record_index.packing import NO_HITS, Hits
from pruner.indexes.row_sets import Entries, Rows, all_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.record_index.packing import SegmentKeys
    from pruner.indexes.record_index.record import Keys
    from pruner.schema import Field
    from pruner.verdict import Outcome

    Mask = NDArray[np.bool_]
    Hashes = NDArray[np.uint64]

MOST_VALUES = 1 << 17
"""Maximum number of values of one leaf to look up."""

FEW_VALUES = 64
"""Maximum number of values for which the bytes to read are not computed."""

LONGEST_RANGE = 1024
"""Maximum number of keys of a range to look up: hashing this many takes two milliseconds."""

MOST_BYTES = 1 << 27
"""Maximum number of bytes to read for one predicate; one that needs more is not answered."""


class KeyEvidence:
    """Evidence from the keys of one field: see `FocusingEvidence`. Threads may share it."""

    counts = "keys"
    longest_range = LONGEST_RANGE

    def __init__(self, keys: Keys, field: Field) -> None:
        self.keys = keys
        self.sought = SoughtValues(field.type)
        self.count = len(keys.covered)
        self.covered = keys.covered
        self.distinct = keys.key_counts

    @property
    def notes(self) -> tuple[str, ...]:
        """Why slices with records are not covered: see `NotingEvidence`."""
        return self.keys.notes

    @property
    def tells_all_apart(self) -> bool:
        """True if every row that is found certainly has the value: see `LocatingEvidence`."""
        return self.sought.tells_all_apart

    def locate(self, values: pa.Array[Any]) -> Located:
        """Find many values at once: see `LocatingEvidence`."""
        hashes = hash_values(values)
        order = np.argsort(hashes)
        unknown = ~self.covered
        all_hits: list[tuple[SegmentKeys, Hits]] = []
        for segment in self.keys.segments:
            try:
                all_hits += [(segment, hits) for hits in segment.find(hashes[order])]
            except (FormatError, StorageError):
                unknown[segment.slices] = True
        kept = [(segment, _only(hits, ~unknown[hits.slices])) for segment, hits in all_hits]
        which, slices, _ = (
            np.concatenate(each) for each in zip(NO_HITS, *(hits for _, hits in kept), strict=True)
        )

        def positions() -> NDArray[np.int64]:
            parts = [segment.positions(hits.places) for segment, hits in kept]
            return np.concatenate([np.empty(0, np.int64), *parts])

        return Located(order[which], slices, positions, unknown)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`: see `Evidence.possible`."""
        return self.focused([leaf]).possible(leaf, outcome, semantics, at)

    def focused(self, leaves: Sequence[Leaf]) -> FocusedKeys:
        """The evidence about the given leaves: see `FocusingEvidence`."""
        return FocusedKeys(self, leaves)


def _only(hits: Hits, chosen: Mask) -> Hits:
    return Hits(*(hit[chosen] for hit in hits))


class FocusedKeys:
    """The keys that some leaves look for: see `RowEvidence`. Threads may share it.

    Each of their hashes is an entry. The last entry is for all other rows.
    """

    def __init__(self, evidence: KeyEvidence, leaves: Sequence[Leaf]) -> None:
        self._evidence = evidence
        self._keys = evidence.keys
        self._leaves = leaves
        self._problems: dict[str, None] = {}
        self._lock = Lock()
        self._asked: dict[tuple[int, Outcome, Semantics], tuple[Leaf, Entries | None]] = {}
        self.count = evidence.count
        self.covered = evidence.covered
        self.row_counts = evidence.keys.row_counts

    @cached_property
    def _hashes(self) -> Hashes:
        return self._evidence.sought.all_hashes(self._leaves, MOST_VALUES)

    @property
    def entry_count(self) -> int:
        """Number of entries."""
        return len(self._hashes) + 1

    @property
    def notes(self) -> tuple[str, ...]:
        """Why slices with records are not covered, or could not be looked up."""
        return (*self._keys.notes, *self._problems)

    def settled(self, semantics: Semantics) -> Mask:
        """Slices whose keys are the values that this engine reads."""
        unread = self._keys.unread.of(semantics)
        return self.covered if unread is None else self.covered & ~unread

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`: see `Evidence.possible`."""
        entries = self.entries(leaf, outcome, semantics)
        return None if entries is None else self.holding(entries.mask, semantics, at)

    def entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        """The entries whose rows can make `leaf` evaluate to `outcome`; None if the leaf cannot be answered."""
        # A plan asks several times, and hashing a value takes microseconds. The leaf is held, so its id stays unique.
        key = id(leaf), outcome, semantics
        known = self._asked.get(key)
        if known is None:
            known = self._asked[key] = leaf, self._entries(leaf, outcome, semantics)
        return known[1]

    def _entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        hashes = self._evidence.sought.hashes(leaf, outcome, semantics, MOST_VALUES)
        if hashes is None or self._is_too_much:
            return None
        at = np.searchsorted(self._hashes, hashes)
        if (at == len(self._hashes)).any() or not np.array_equal(self._hashes[at], hashes):
            return None  # a leaf that this evidence is not about
        mask = np.zeros(self.entry_count, np.bool_)
        mask[at] = True
        return Entries(mask, self._evidence.sought.is_exact(leaf))

    @cached_property
    def _is_too_much(self) -> bool:
        if len(self._hashes) <= FEW_VALUES:
            return False
        return sum(segment.bytes_to_read(self._hashes) for segment in self._keys.segments) > MOST_BYTES

    def holding(self, entries: Mask, semantics: Semantics, at: NDArray[np.intp] | None) -> Mask:
        """Slices that hold a row of the entries, and unknown ones: see `RowEvidence`."""
        mask = np.zeros(self.count, np.bool_)
        for doubted in (self._keys.uncovered, self._keys.unread.of(semantics)):
            if doubted is not None:
                mask |= doubted
        if entries[-1]:
            mask[:] = True
        else:
            for segment, hits in self._found:
                if hits is None:
                    mask[segment.slices] = True
                else:
                    mask[hits.slices[entries[hits.which]]] = True
        return mask if at is None else mask[at]

    def row_total(self, entries: Mask, slices: NDArray[np.intp]) -> int:
        """Upper bound on the rows of the entries in some slices: see `RowEvidence`."""
        total = int(self.row_counts[slices].sum())
        if entries[-1] or any(hits is None for _, hits in self._found):
            return total
        chosen = np.zeros(self.count, np.bool_)
        chosen[slices] = True
        counts = (chosen[hits.slices] & entries[hits.which] for _, hits in self._found if hits is not None)
        return min(total, sum(int(np.count_nonzero(each)) for each in counts))

    def rows(self, entries: Mask, slices: NDArray[np.intp]) -> Rows:
        """The rows of the entries in some slices, which must be covered, ascending."""
        if entries[-1]:
            return Rows(all_rows(slices, self.row_counts[slices]), np.empty(0, np.intp))
        chosen = np.zeros(self.count, np.bool_)
        chosen[slices] = True
        positions: list[NDArray[np.uint64]] = [np.empty(0, np.uint64)]
        broken = np.zeros(self.count, np.bool_)
        for segment, hits in self._found:
            rows = None if hits is None else self._rows_of(segment, hits, entries, chosen)
            if rows is None:
                broken[segment.slices] = True
            else:
                positions.append(rows)
        together = np.concatenate(positions)
        counts = self.row_counts[(together >> np.uint64(32)).astype(np.int64)]
        outside = (together & np.uint64(0xFFFFFFFF)).astype(np.int64) >= counts
        broken[(together[outside] >> np.uint64(32)).astype(np.int64)] = True
        kept = together[~broken[(together >> np.uint64(32)).astype(np.int64)]]
        return Rows(BitMap64(kept.tolist()), np.flatnonzero(broken & chosen))

    def _rows_of(
        self, segment: SegmentKeys, hits: Hits, entries: Mask, chosen: Mask
    ) -> NDArray[np.uint64] | None:
        """The rows of the entries in chosen slices as `slice << 32 | position`; None if they cannot be read."""
        wanted = np.flatnonzero(entries[hits.which] & chosen[hits.slices])
        try:
            positions = segment.positions(hits.places[wanted])
        except (FormatError, StorageError) as problem:
            self._problems[f"positions of keys are not used: {problem}"] = None
            return None
        return (hits.slices[wanted].astype(np.uint64) << np.uint64(32)) | positions.astype(np.uint64)

    @property
    def _found(self) -> list[tuple[SegmentKeys, Hits | None]]:
        with self._lock:
            return self._all_found

    @cached_property
    def _all_found(self) -> list[tuple[SegmentKeys, Hits | None]]:
        """The segments that hold any of the hashes, and their hits; None for one that cannot be read."""
        all_hits: list[tuple[SegmentKeys, Hits | None]] = []
        for segment in self._keys.segments:
            try:
                all_hits += [(segment, hits) for hits in segment.find(self._hashes)]
            except (FormatError, StorageError) as problem:
                self._problems[f"keys are not looked up: {problem}"] = None
                all_hits.append((segment, None))
        return all_hits
