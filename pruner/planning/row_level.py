"""Predicates over single rows, where indexes know them: which rows of which slices can match (R3).

The algebra is that of verdicts, over sets of rows. What a predicate says about one column is settled by the entries of
that column, without a bitmap. Rows are read only to combine columns: for the slices that are left, a bounded number of
them at a time. Row positions are meaningful only in a base file without logs (traps T8, T12).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from pyroaring import BitMap64

from pruner.expr.bound.fields import conjoins, grouped, leaves, only_field, parts, single_field_parts
from pruner.expr.bound.predicates import BoundAnd, BoundIsNull, BoundNot, BoundOr, Same, Unknown
from pruner.expr.nodes import Constant
from pruner.indexes.optional import RowCountingEvidence
from pruner.indexes.row_sets import Entries, all_rows, counts_in, slices_in
from pruner.planning.combining import CombinedEvidence
from pruner.planning.rows import RowBlock, RowBounds, RowNumbers
from pruner.showing.words import counted
from pruner.verdict import Outcome, evaluate, possible

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.evidence.sources import Focus, Source
    from pruner.expr.bound.fields import Path
    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.semantics import Semantics
    from pruner.indexes.optional import RowEvidence
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Ordinals = NDArray[np.intp]

BLOCK_SLICES = 8192
"""Most slices whose rows are in memory at once."""

BLOCK_ROWS = 1 << 28
"""Most rows of those slices."""

BROUGHT_TOGETHER = 1 << 18
"""Most slices whose rows are read during planning to drop some of them; beyond that all are kept, with a note."""

_FEW = 16
"""Looking up one slice takes as long as scanning this many."""

WORTH_READING = 1 / 8
"""Most bytes of deferred records to read, for each byte of the files that they could skip.

Half of the records of 12 million rows, 100 MB of 614 MB, took longer to read than the files.
"""


class RowSet(NamedTuple):
    """Rows of some slices as `ordinal << 32 | position`; `exact` tells for each slice whether they are no superset."""

    rows: BitMap64
    exact: Mask

    def __and__(self, other: RowSet) -> RowSet:
        return RowSet(self.rows & other.rows, self.exact & other.exact)

    def __or__(self, other: RowSet) -> RowSet:
        return RowSet(self.rows | other.rows, self.exact & other.exact)


class _Told(NamedTuple):
    """The index that knows the rows of a part about one field: by which entries, and in which slices."""

    source: Source
    evidence: RowEvidence
    entries: Entries
    slices: Mask


class _Part(NamedTuple):
    """A part about one field: the slices on which it can evaluate to an outcome, and what knows the rows of some.

    `is_settled` says that entries exclude none of these slices.
    """

    can: Mask
    told: _Told | None
    is_settled: bool


class RowLevel:
    """One predicate over the rows of one snapshot under one semantics.

    Attributes:
        sources: for each field of the predicate whose rows an index knows, that index.
        notes: each reason why rows could not be determined, once.
    """

    def __init__(
        self, snapshot: Snapshot, evidence: Focus, semantics: Semantics, predicate: BoundExpr
    ) -> None:
        self._snapshot = snapshot
        self._evidence = evidence
        self._semantics = semantics
        self._predicate = predicate
        self.notes: dict[str, None] = {}
        self.sources: dict[Path, Source] = {}
        for path, known in evidence.known.items():
            for source in known.usable:
                if source.rows(semantics) is not None:
                    self.sources.setdefault(path, source)

    @cached_property
    def _grouped(self) -> BoundExpr:
        return grouped(self._predicate)

    @cached_property
    def _conjuncts(self) -> tuple[BoundExpr, ...]:
        """Conditions each of which must be true on a row; slices on which one cannot be have been dropped."""
        return self._grouped.operands if isinstance(self._grouped, BoundAnd) else ()

    @property
    def can_narrow(self) -> bool:
        """True if single rows may exclude slices that the leaves by themselves leave possible."""
        return conjoins(self._predicate) and bool(self.sources)

    def narrow(self, at: Ordinals, counts: NDArray[np.int64]) -> Mask:
        """Tell for each slice in `at` (ascending), with these row `counts`, whether it can hold a matching row.

        Each conjunct by itself has kept these slices, by all that is known of its columns.
        """
        # One part by itself is settled by its entries; parts about the same column may still exclude each other.
        told = sum(field.path in self.sources for field in parts(self._grouped))
        if told < 2 or not conjoins(self._grouped):
            return self._by_entries(at)
        known = counts >= 0
        bounds = self._bounds(at, counts if known.all() else counts.clip(0))
        unsettled = bounds.can & (bounds.least == 0) & known
        if not unsettled.any() or not self._may_bring_together(at[unsettled]):
            return bounds.can
        matching = np.zeros(len(self._snapshot), np.bool_)
        for block in self._blocks(at[unsettled]):
            matching[slices_in(self._rows(block).rows, len(block))] = True
        return bounds.can & (matching[at] | ~unsettled)

    def _may_bring_together(self, at: Ordinals) -> bool:
        """Tell whether the rows of some slices are worth reading to drop some of them; adds a note if they are not."""
        if self._bytes_of_rows(at) > WORTH_READING * self._snapshot.size_of(at):
            self.notes[
                "bitmaps of rows are too large beside the files that they could leave out: not read"
            ] = None
            return False
        if len(at) > BROUGHT_TOGETHER:
            self.notes[
                f"rows of {counted(len(at), self._snapshot.noun)} are too many to be brought together: kept"
            ] = None
            return False
        return True

    def _bytes_of_rows(self, at: Ordinals) -> int:
        """How many bytes are read from deferred sources to combine rows."""
        total = 0
        for of in single_field_parts(self._grouped):
            source = self.sources.get(next(leaves(of)).field.path)
            evidence = None if source is None else source.deferred(self._semantics)
            if evidence is not None:
                entries = entries_of(of, Outcome.TRUE, evidence, self._semantics)
                total += evidence.bytes_of_rows(entries.mask, at)
        return total

    def blocks(self, at: Ordinals) -> Iterator[RowBlock]:
        """The rows of some slices (ascending) that can match, a bounded number of slices at a time."""
        counts = self.counts(at)
        known = at[counts >= 0]
        for block in self._blocks(known):
            rows = self._rows(block)
            yield RowBlock(block, rows.rows, rows.exact)

    def most_rows(self, at: Ordinals) -> int:
        """Upper bound of the number of matching rows in some slices (ascending), without reading bitmaps."""
        counts = self.counts(at)
        known = at[counts >= 0]
        total = int(counts.clip(0).sum())

        def most(of: BoundExpr) -> int:
            field = only_field(of)
            source = None if field is None else self.sources.get(field.path)
            if source is not None:
                evidence = self._by_row(source)
                entries = entries_of(of, Outcome.TRUE, evidence, self._semantics)
                return min(total, evidence.row_total(entries.mask, known))
            match of:
                case BoundAnd(operands):
                    return min(map(most, operands))
                case BoundOr(operands):
                    return min(total, sum(map(most, operands)))
                case _:
                    return total

        return most(self._grouped)

    def known(self, at: Ordinals) -> Mask:
        """Tell for each slice in `at` whether an index knows its rows."""
        return self.counts(at) >= 0

    def counts(self, at: Ordinals) -> NDArray[np.int64]:
        """The number of rows of each slice; -1 where it is unknown, disputed, or not that of the base file."""
        counts = np.full(len(at), -1, np.int64)
        disputed = np.zeros(len(at), np.bool_)
        for number, source in enumerate(self.sources.values()):
            own = self._by_row(source).row_counts[at]
            if number == 0:
                counts = own
            elif not np.array_equal(own, counts):
                disputed |= (own >= 0) & (counts >= 0) & (own != counts)
                counts = np.where(counts >= 0, counts, own)
        meaningless = disputed
        if self._snapshot.any_changes or self._snapshot.uncoverable is not None:
            meaningless = disputed | self._snapshot.has_changes[at] | ~self._snapshot.coverable[at]
        return np.where(meaningless, -1, counts) if meaningless.any() else counts

    def _blocks(self, at: Ordinals) -> Iterator[Ordinals]:
        start = 0
        ends = np.cumsum(self.counts(at))
        while start < len(at):
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + BLOCK_ROWS, side="right"))
            stop = min(max(stop, start + 1), start + BLOCK_SLICES)
            yield at[start:stop]
            start = stop

    def _by_entries(self, at: Ordinals) -> Mask:
        """What is possible on each slice, with everything that is said about one column taken together."""
        combined = self._combined(at)

        def part(of: BoundExpr, outcome: Outcome) -> Mask | None:
            if only_field(of) is None:
                return None
            return self._possible(self._part(of, outcome, at, combined), at)

        return evaluate(self._grouped, Outcome.TRUE, part, lambda holds: np.full(len(at), holds))

    def _possible(self, part: _Part, at: Ordinals) -> Mask:
        if part.told is None or part.is_settled:
            return part.can
        _, evidence, entries, asked = part.told
        return part.can & (evidence.holding(entries.mask, self._semantics, at) | ~asked)

    def _bounds(self, at: Ordinals, counts: NDArray[np.int64]) -> RowBounds:
        """The same, with a lower bound of the matching rows of each slice; `counts` has their row counts."""
        combined = self._combined(at)

        def part(of: BoundExpr, outcome: Outcome) -> RowBounds | None:
            if only_field(of) is None:
                return None
            asked = self._part(of, outcome, at, combined)
            bounds = RowBounds.of_all(self._possible(asked, at), counts)
            if asked.told is None:
                return bounds
            _, evidence, entries, told = asked.told
            if not isinstance(evidence, RowCountingEvidence):
                return bounds.at_least(told, np.zeros(len(at), np.int64))
            least = evidence.rows_in(entries.mask, at)
            return bounds.at_least(told, counts if least is None else least)

        def constant(holds: bool) -> RowBounds:
            return RowBounds.of_all(np.full(len(at), holds), counts)

        return evaluate(self._grouped, Outcome.TRUE, part, constant)

    def _part(self, of: BoundExpr, outcome: Outcome, at: Ordinals, combined: CombinedEvidence) -> _Part:
        """What can be said of a part about one field before its rows are read."""
        field = only_field(of)
        source = None if field is None else self.sources.get(field.path)
        left = outcome is Outcome.TRUE and any(of is conjunct for conjunct in self._conjuncts)
        can = np.ones(len(at), np.bool_) if left else possible(of, outcome, combined.leaf, len(at))
        if source is None:
            return _Part(can, None, is_settled=True)
        evidence = self._by_row(source)
        settled = evidence.settled(self._semantics)
        asked = can & ~self._contradicted(of, combined)
        if _FEW * len(at) < len(settled) or not settled.all():
            asked &= settled[at]
        entries = entries_of(of, outcome, evidence, self._semantics)
        return _Part(can, _Told(source, evidence, entries, asked), is_settled=left and next(leaves(of)) is of)

    def numbers(self, at: Ordinals, counts: NDArray[np.int64]) -> RowNumbers:
        """Bound the rows of each slice in `at` (ascending) on which the predicate is true; bitmaps are not read.

        Args:
            at: slices with base files to which no log file adds rows; all of their rows count, including deleted ones.
            counts: their row counts.
        """
        combined = CombinedEvidence(self._snapshot, self._evidence, self._semantics, at)

        def part(of: BoundExpr, outcome: Outcome) -> RowNumbers | None:
            if isinstance(of, Unknown):
                return RowNumbers.unknown(counts)
            return None if only_field(of) is None else self._numbers_of(of, outcome, at, counts, combined)

        def constant(holds: bool) -> RowNumbers:
            return RowNumbers.of_all(counts) if holds else RowNumbers.of_none(counts)

        return evaluate(self._grouped, Outcome.TRUE, part, constant)

    def exact_counts(self, at: Ordinals) -> NDArray[np.int64]:
        """How many rows of each slice in `at` (ascending) match, by their bitmaps; -1 where that is not settled.

        Nothing is read if the bitmaps are large compared to the files.
        """
        counts = np.full(len(at), -1, np.int64)
        if not self.sources or not len(at) or not self._may_bring_together(at):
            return counts
        for block in self.blocks(at):
            rows = np.where(block.exact, counts_in(block.rows, block.ordinals), -1)
            counts[np.searchsorted(at, block.ordinals)] = rows
        return counts

    def _numbers_of(
        self,
        of: BoundExpr,
        outcome: Outcome,
        at: Ordinals,
        counts: NDArray[np.int64],
        combined: CombinedEvidence,
    ) -> RowNumbers:
        """Bound the number of rows on which a predicate about one field evaluates to the outcome."""
        others = [each for each in Outcome if each is not outcome]
        can = possible(of, outcome, combined.leaf, len(at))
        only = self._of_all_rows(of, outcome, combined)
        numbers = RowNumbers(np.where(can & only, counts, 0), np.where(can, counts, 0), counts)
        field = only_field(of)
        source = None if field is None else self.sources.get(field.path)
        evidence = None if source is None else self._by_row(source)
        if not isinstance(evidence, RowCountingEvidence):
            return numbers
        told = evidence.settled(self._semantics)[at] & (evidence.row_counts[at] == counts)
        told &= ~self._contradicted(of, combined)
        if not told.any():
            return numbers
        wanted = entries_of(of, outcome, evidence, self._semantics).mask
        unwanted = np.logical_or.reduce(
            [entries_of(of, outcome, evidence, self._semantics).mask for outcome in others]
        )
        asked, total = at[told], counts[told]

        def holding(entries: Mask) -> NDArray[np.int64]:
            rows = evidence.rows_in(entries, asked)
            return total if rows is None else rows

        # Entries that may yield several outcomes add to no lower bound, and to every upper bound.
        least, most = np.zeros_like(counts), counts.copy()
        least[told] = holding(wanted & ~unwanted)
        most[told] = total - holding(~wanted)
        return numbers.tightened(least, most)

    def _by_row(self, source: Source) -> RowEvidence:
        evidence = source.rows(self._semantics)
        assert evidence is not None
        return evidence

    def _combined(self, at: Ordinals) -> CombinedEvidence:
        return CombinedEvidence(self._snapshot, self._evidence, self._semantics, at)

    def _contradicted(self, of: BoundExpr, combined: CombinedEvidence) -> Mask:
        mask = np.zeros(combined.count, np.bool_)
        for leaf in leaves(of):
            sources = combined.at_hand(leaf)
            if len(sources) > 1:
                mask |= combined.contradicted(leaf, sources)
        return mask

    def _rows(self, at: Ordinals) -> RowSet:
        """The rows on which the predicate can be true, in slices with known row counts."""
        counts = self.counts(at)
        combined = self._combined(at)

        def part(of: BoundExpr, outcome: Outcome) -> RowSet | None:
            if isinstance(of, Unknown):
                return RowSet(all_rows(at, counts), np.zeros(len(at), np.bool_))
            return None if only_field(of) is None else self._rows_of(of, outcome, at, counts, combined)

        def constant(holds: bool) -> RowSet:
            return RowSet(all_rows(at, counts) if holds else BitMap64(), np.ones(len(at), np.bool_))

        return evaluate(self._grouped, Outcome.TRUE, part, constant)

    def _rows_of(
        self,
        of: BoundExpr,
        outcome: Outcome,
        at: Ordinals,
        counts: NDArray[np.int64],
        combined: CombinedEvidence,
    ) -> RowSet:
        """The rows on which a predicate about one field can evaluate to the outcome."""
        can, told_by, _ = self._part(of, outcome, at, combined)
        told = np.zeros(len(at), np.bool_)
        exact = ~can
        rows = BitMap64()
        if told_by is not None:
            source, evidence, entries, asked = told_by
            rows, broken, all_match = evidence.rows(entries.mask, at[asked])
            told = asked & ~np.isin(at, broken) if len(broken) else asked
            exact |= told & (entries.exact and all_match)
            if len(broken):
                self.notes[
                    f"index {source.index}: bitmaps of {counted(len(broken), self._snapshot.noun)} are damaged: kept"
                ] = None
        rest = can & ~told
        if rest.any():
            rows |= all_rows(at[rest], counts[rest])
            exact |= rest & self._of_all_rows(of, outcome, combined)
        return RowSet(rows, exact)

    def _of_all_rows(self, of: BoundExpr, outcome: Outcome, combined: CombinedEvidence) -> Mask:
        """Tell for each slice whether a predicate is proven to evaluate to the outcome on every row."""
        mask = np.ones(combined.count, np.bool_)
        for other in Outcome:
            if other is not outcome:
                mask &= ~possible(of, other, combined.leaf, combined.count)
        return mask


def entries_of(of: BoundExpr, outcome: Outcome, evidence: RowEvidence, semantics: Semantics) -> Entries:
    """The entries of one field on whose rows a predicate about that field can evaluate to the outcome."""

    def part(leaf: BoundExpr, wanted: Outcome) -> Entries | None:
        if isinstance(leaf, Same):
            forms = [entries_of(operand, wanted, evidence, semantics) for operand in leaf.operands]
            # An exact form already excludes whatever the others exclude.
            return next((form for form in forms if form.exact), None)
        if isinstance(leaf, BoundAnd | BoundOr | BoundNot | BoundIsNull | Constant | Unknown):
            return None
        return evidence.entries(leaf, wanted, semantics) or everything(exact=False)

    def everything(*, exact: bool) -> Entries:
        return Entries(np.ones(evidence.entry_count, np.bool_), exact)

    def constant(holds: bool) -> Entries:
        return Entries(np.full(evidence.entry_count, holds))

    return evaluate(of, outcome, part, constant)
