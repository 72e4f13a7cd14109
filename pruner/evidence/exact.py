"""Exact facts about the slices of a snapshot: row counts, NULLs and extremes of one field, from all indexes.

Evidence (`pruner.evidence.sources`) proves absence, for which too wide a bound is still correct. Facts are returned as
answers, so they are used only where they hold for every row that is read: of files alone, never of a slice with log
files, and not where two indexes disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from pruner.arrow import as_numpy, compute, filled, null_unless, positions, truth_array
from pruner.errors import SchemaError
from pruner.evidence.restricted import from_before
from pruner.expr.engines import REFERENCE_ENGINE
from pruner.expr.semantics import Semantics
from pruner.expr.types import is_written_one_way
from pruner.indexes.registry import exact_of_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from pruner.evidence.snapshot import SnapshotEvidence
    from pruner.indexes.optional import ExactEvidence
    from pruner.schema import Field
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]


_ANY = Semantics.of(REFERENCE_ENGINE)
"""Row counts are the same under any semantics."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Exact facts of one field as an engine reads it, by slice: see `pruner.indexes.optional.ExactEvidence`.

    Where `null_counts` is -1 nothing else is known of the slice.
    """

    null_counts: Integers
    low: pa.Array[Any]
    high: pa.Array[Any]
    low_is_value: Mask
    high_is_value: Mask
    nan_free: Mask

    def only(self, known: Mask) -> Facts:
        """The same facts for the slices in `known`, and none for the others."""
        there: Any = truth_array(known)
        return Facts(
            np.where(known, self.null_counts, -1),
            null_unless(there, self.low),
            null_unless(there, self.high),
            self.low_is_value & known,
            self.high_is_value & known,
            self.nan_free & known,
        )

    def at(self, ordinals: NDArray[np.intp]) -> Facts:
        """The facts of some slices, in their order."""
        picked: Any = positions(ordinals)
        return Facts(
            self.null_counts[ordinals],
            self.low.take(picked),
            self.high.take(picked),
            self.low_is_value[ordinals],
            self.high_is_value[ordinals],
            self.nan_free[ordinals],
        )


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of the values of one field as an engine reads it, by slice, whatever deletes leave of its rows.

    Where `null_counts`, the upper bound of the number of NULLs, is -1, nothing else is known of the slice. `low` and
    `high` are those of `pruner.indexes.optional.ExactEvidence`.
    """

    null_counts: Integers
    low: pa.Array[Any]
    high: pa.Array[Any]
    nan_free: Mask

    def at(self, ordinals: NDArray[np.intp]) -> Bounds:
        """The bounds of some slices, in their order."""
        picked: Any = positions(ordinals)
        return Bounds(
            self.null_counts[ordinals], self.low.take(picked), self.high.take(picked), self.nan_free[ordinals]
        )


class ExactFacts:
    """The exact facts of one snapshot under one state of the metadata table; loads each once."""

    def __init__(self, snapshot: Snapshot, evidence: SnapshotEvidence) -> None:
        self._snapshot = snapshot
        self._evidence = evidence
        self._loaded: dict[Field, list[ExactEvidence]] = {}
        self._own: dict[Field, ExactEvidence | None] = {}
        self._lock = Lock()

    @property
    def row_counts(self) -> Integers:
        """The number of rows of each slice with exactly the rows of its base file; -1 elsewhere or where unknown."""
        return np.where(self._snapshot.stands, self.base_counts, -1)

    @cached_property
    def left_counts(self) -> Integers:
        """The number of rows of each slice, less those that deletes remove; -1 where unknown."""
        held, deleted = self.base_counts, self._snapshot.deleted_counts
        return np.where((deleted >= 0) & (deleted <= held), held - deleted, -1)

    @property
    def indexed_counts(self) -> Integers:
        """The same as `row_counts`, but only from pruner's indexes, which counted rows in the files themselves."""
        counts, agreed = self._indexed
        return np.where(self._snapshot.stands & self._countable & agreed, counts, -1)

    @cached_property
    def base_counts(self) -> Integers:
        """The number of rows of each base file without log files, deleted rows included.

        It is -1 where unknown, or where indexes disagree. The table's own counts are used where no index has one.
        """
        counts, agreed = self._indexed
        own = None if (counts[self._countable] >= 0).all() else self._evidence.own_row_counts()
        if own is not None:
            agreed = agreed & ((counts < 0) | (own < 0) | (counts == own))
            counts = np.where(counts >= 0, counts, own)
        return np.where(self._countable & agreed, counts, -1)

    @cached_property
    def _countable(self) -> Mask:
        return self._snapshot.has_base & self._snapshot.coverable & ~self._snapshot.has_logs

    @cached_property
    def _indexed(self) -> tuple[Integers, Mask]:
        """The row counts of base files in indexes, -1 where none has one, and a mask of where they agree."""
        row_counts = np.full(len(self._snapshot), -1, np.int64)
        agreed = np.ones(len(self._snapshot), np.bool_)
        for path in self._evidence.indexed_paths:
            try:
                about = self._snapshot.schema.find(path)
            except SchemaError:
                continue  # the column is gone
            for counts in self._counts(about):
                agreed &= (row_counts < 0) | (counts < 0) | (row_counts == counts)
                row_counts = np.where(row_counts >= 0, row_counts, counts)
            if (row_counts[self._countable] >= 0).all():
                break
        return row_counts, agreed

    def of(self, about: Field, semantics: Semantics) -> Facts | None:
        """What is known of one field as an engine reads it; None if nothing is."""
        if about.partition:
            of_paths = self._of_paths(about, semantics)
            return self._of_both(of_paths, about, semantics) if about.in_file and of_paths else of_paths
        return self._of_files(about, semantics)

    def bounds(self, about: Field, semantics: Semantics) -> Bounds | None:
        """Bounds of the values of one field, deleted rows included; None if nothing is known.

        For files that no index covers, the table's own statistics give them; these are never taken as values of rows.
        """
        if about.partition:
            return _bounds(self.of(about, semantics))
        there = self._countable & self._since(about)
        facts = self._indexed_facts(about, semantics)
        if facts is not None:
            facts = facts.only(there & (facts.null_counts >= 0))
        if facts is None or (there & (facts.null_counts < 0)).any():
            own = self._own_bounds(about, semantics, there)
            if own is not None:
                facts = own if facts is None else _completed(facts, own)
        return _bounds(facts)

    def _of_files(self, about: Field, semantics: Semantics) -> Facts | None:
        facts = self._indexed_facts(about, semantics)
        if facts is None:
            return None
        stands = self._snapshot.stands & self._since(about)
        return facts.only(stands & (facts.null_counts >= 0))

    def _indexed_facts(self, about: Field, semantics: Semantics) -> Facts | None:
        """What indexes say of the base files."""
        known = [self._read_by(exact, semantics) for exact in self._exact(about)]
        if not known:
            return None
        return known[0] if len(known) == 1 else _agreed(known)

    def _since(self, about: Field) -> Mask:
        """The slices in which the column's name has always meant this column."""
        earlier = from_before(self._snapshot, about)
        return np.ones(len(self._snapshot), np.bool_) if earlier is None else ~earlier

    def _own_bounds(self, about: Field, semantics: Semantics, there: Mask) -> Facts | None:
        """What the table's own statistics say of files in which they count no NULL.

        Any other count may include NULLs that were deleted (Delta protocol, "Per-file Statistics": wide bounds).
        """
        with self._lock:
            if about not in self._own:
                self._own[about] = self._evidence.own_bounds(about)
            own = self._own[about]
        if own is None:
            return None
        facts = self._read_by(own, semantics)
        return facts.only(there & (facts.null_counts == 0))

    def _counts(self, about: Field) -> list[Integers]:
        """The row counts in the indexes over one field."""
        counts = [exact.row_counts for exact in self._exact(about)]
        for source in self._evidence.sources(about).usable:
            by_row = source.focused(()).rows(_ANY)
            if by_row is not None:
                counts.append(by_row.row_counts)
        return counts

    def _exact(self, about: Field) -> list[ExactEvidence]:
        with self._lock:
            exact = self._loaded.get(about)
            if exact is None:
                exact = self._loaded[about] = list(self._evidence.exact(about))
            return exact

    def _read_by(self, known: ExactEvidence, semantics: Semantics) -> Facts:
        unread = known.unread(semantics)
        facts = _facts(known)
        return facts if unread is None else facts.only(~unread)

    def _of_paths(self, about: Field, semantics: Semantics) -> Facts | None:
        """Facts from the path, whose value every row has."""
        partitions, row_counts = self._snapshot.partitions, self.row_counts
        values: Any = partitions.values.get(about.path)
        shared = about.in_file and about.path in partitions.shared
        alike = shared or partitions.trusts(about.path, semantics.traits)
        if values is None or not alike:
            return None
        known = exact_of_values(values, about)
        if known is None or not is_written_one_way(about.type):
            return None
        facts = _facts(known).at(self._snapshot.partition_ordinals.astype(np.intp))
        nulls = np.where(facts.null_counts > 0, row_counts, facts.null_counts)
        of_rows = Facts(nulls, facts.low, facts.high, facts.low_is_value, facts.high_is_value, facts.nan_free)
        return of_rows.only(self._snapshot.stands & (row_counts >= 0) & (facts.null_counts >= 0))

    def _of_both(self, of_paths: Facts, about: Field, semantics: Semantics) -> Facts | None:
        """Where files hold the column too, engines show either value: keep facts only where both are the same value."""
        of_files = self._of_files(about, semantics)
        if of_files is None or of_files.low.type != of_paths.low.type:
            return None
        same = (of_paths.null_counts == 0) & (of_files.null_counts == 0)
        for mine, its in ((of_paths.low, of_files.low), (of_paths.high, of_files.high)):
            same &= as_numpy(filled(compute.equal(mine, its), False))
        return of_files.only(same & of_files.low_is_value & of_files.high_is_value)


def _facts(known: ExactEvidence) -> Facts:
    return Facts(
        known.null_counts, known.low, known.high, known.low_is_value, known.high_is_value, known.nan_free
    )


def _bounds(facts: Facts | None) -> Bounds | None:
    return None if facts is None else Bounds(facts.null_counts, facts.low, facts.high, facts.nan_free)


def _completed(first: Facts, other: Facts) -> Facts:
    """The first facts, completed by the other facts for slices unknown to the first."""
    missing = first.null_counts < 0
    there: Any = truth_array(missing)
    return Facts(
        np.where(missing, other.null_counts, first.null_counts),
        compute.if_else(there, other.low, first.low),
        compute.if_else(there, other.high, first.high),
        np.where(missing, other.low_is_value, first.low_is_value),
        np.where(missing, other.high_is_value, first.high_is_value),
        np.where(missing, other.nan_free, first.nan_free),
    )


def _agreed(several: Sequence[Facts]) -> Facts:
    """For each slice, the first known facts, provided that no others contradict them."""
    first, *others = several
    for other in others:
        both = (first.null_counts >= 0) & (other.null_counts >= 0)
        differ = first.null_counts != other.null_counts
        for mine, its in ((first.low, other.low), (first.high, other.high)):
            differ |= as_numpy(filled(compute.not_equal(mine, its), False))
        first = _completed(first, other).only(~(both & differ))
    return first
