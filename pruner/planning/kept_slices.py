"""What is known, without reading, of the slices that a plan keeps: how many of their rows match, and their values.

Answers (`pruner.planning.answering`) and the files of the first rows (`pruner.planning.first_rows`) are based on it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy, compute, filled, nulls, positions
from pruner.evidence.sources import Focus, WholeIndex
from pruner.expr.bound.fields import unknowns
from pruner.expr.bound.predicates import CompareLeaf, Point
from pruner.expr.identifier import parse_column_path
from pruner.expr.parquet_reading import as_read
from pruner.expr.semantics import BINARY_COLLATION
from pruner.expr.types import is_string, is_written_one_way
from pruner.indexes.optional import ValuedEvidence
from pruner.planning.combining import CombinedEvidence
from pruner.planning.rows import RowNumbers
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pruner.evidence.exact import Bounds, ExactFacts, Facts
    from pruner.evidence.sources import KnowsFields
    from pruner.expr.bound.predicates import BoundExpr, Leaf
    from pruner.expr.nodes import Operator
    from pruner.expr.semantics import Semantics
    from pruner.planning.row_level import RowLevel
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]
    Ordinals = NDArray[np.intp]

MOST_GROUPS = 100_000
"""Most values by which rows are counted; if there are more, all of them are left to the engine."""


@dataclass(frozen=True, slots=True)
class ListedValues:
    """Values that slices hold, each with its number of rows, and the slices for which they are complete."""

    at: Ordinals
    values: Any
    sizes: Integers
    known: Mask


@dataclass(frozen=True, eq=False)
class KeptSlices:
    """The slices that a plan keeps.

    All arrays are about them, in ascending order; no row of the other slices matches.

    Attributes:
        snapshot: the snapshot of these slices.
        evidence: indexes and statistics of its fields.
        facts: exact facts about its slices; None if there are none.
        predicate: true on the matching rows.
        semantics: the rules of the engine.
        schema: as the engine reads the table.
        at: ordinals of the slices.
        rows: what is known of the matching rows.
    """

    snapshot: Snapshot
    evidence: KnowsFields
    facts: ExactFacts | None
    predicate: BoundExpr
    semantics: Semantics
    schema: TableSchema
    at: Ordinals
    rows: RowLevel

    def among(self, ordinals: Ordinals) -> KeptSlices:
        """The same for some of the slices, ascending."""
        return replace(self, at=ordinals)

    @cached_property
    def counts(self) -> Integers:
        """The number of rows of each slice whose rows are exactly those of its base file; -1 where unknown."""
        if self.facts is None:
            return np.full(len(self.at), -1, np.int64)
        return self.facts.row_counts[self.at]

    @cached_property
    def numbers(self) -> RowNumbers:
        """Bounds on the number of matching rows of each slice; where nothing is known, `least` is 0 and `most` is -1.

        Indexes and statistics are about all rows of a base file; deletes affect matching rows like any set of rows
        (rule R13).
        """
        least, most = np.zeros(len(self.at), np.int64), np.full(len(self.at), -1, np.int64)
        left = np.full(len(self.at), -1) if self.facts is None else self.facts.left_counts[self.at]
        known = left >= 0
        if self.facts is not None and known.any():
            held = self.facts.base_counts[self.at[known]]
            numbers = self.rows.numbers(self.at[known], held)
            agrees = numbers.least <= numbers.most
            numbers &= RowNumbers(left[known], left[known], held)
            least[known], most[known] = np.where(agrees, numbers.least, 0), np.where(agrees, numbers.most, -1)
        return RowNumbers(least, most, self.counts)

    @cached_property
    def matching(self) -> Integers:
        """The exact number of matching rows of each slice; -1 where it is not settled."""
        exact = self.numbers.exact
        open_ = np.flatnonzero((exact < 0) & (self.counts >= 0))
        if len(open_) and not any(unknowns(self.predicate)):
            told = self.rows.exact_counts(self.at[open_])
            # Two proofs about the same slice must agree.
            agrees = (told >= self.numbers.least[open_]) & (told <= self.numbers.most[open_])
            exact[open_] = np.where(agrees, told, -1)
        return exact

    @property
    def whole(self) -> Mask:
        """Slices in which every row matches."""
        return (self.counts >= 0) & (self.matching == self.counts)

    def possible(self, leaf: Leaf) -> Mask:
        """The slices that can hold a row on which a leaf is true, by all sources at hand."""
        focus = Focus(self.evidence, leaf)
        return CombinedEvidence(self.snapshot, focus, self.semantics, self.at).leaf(leaf, Outcome.TRUE)

    def field(self, column: str) -> Field:
        """The field of a column, as the engine reads it if that is known.

        Raises:
            SchemaError: there is no such column.
        """
        found = self.schema.find(parse_column_path(column), case_sensitive=self.semantics.case_sensitive)
        read = as_read(found, self.semantics)
        return found if read.conflict is not None else read

    def facts_of(self, about: Field) -> Facts | None:
        """Exact facts about a field; None if there are none."""
        facts = None if self.facts is None else self.facts.of(about, self.semantics)
        return None if facts is None else facts.at(self.at)

    def bounds_of(self, about: Field) -> Bounds | None:
        """Bounds that hold for every value of a field; None if none are known."""
        bounds = None if self.facts is None else self.facts.bounds(about, self.semantics)
        return None if bounds is None else bounds.at(self.at)

    def single(self, facts: Facts) -> tuple[Mask, Mask]:
        """Slices in which a field with these facts has a single value or only NULL; and those with only NULL."""
        same = as_numpy(filled(compute.equal(facts.low, facts.high), False))
        one = same & facts.low_is_value & facts.high_is_value & (facts.null_counts == 0)
        nothing = (facts.null_counts == self.counts) & (self.counts >= 0)
        return one | nothing, nothing

    def is_shown(self, about: Field) -> bool:
        """Tell whether the engine shows the recorded values of a field, each of which has a single representation."""
        return is_written_one_way(about.type) and not self.is_read_otherwise(about)

    def is_read_otherwise(self, about: Field) -> bool:
        """Tell whether the engine orders or shows values other than as recorded."""
        if is_string(about.type):
            return self.semantics.collation != BINARY_COLLATION
        return pa.types.is_timestamp(about.type) and self.semantics.timestamp_unit is not None

    def listed(self, about: Field) -> ValuedEvidence | None:
        """The evidence of an index that lists the values of a field with the slices that hold them."""
        if about.partition:
            return None
        for source in self.evidence.sources(about).usable:
            if source.focused(()).rows(self.semantics) is None:
                continue
            whole = source.can.listed
            if isinstance(whole, WholeIndex) and whole.entry_count > MOST_GROUPS:
                continue  # too many values to count by, and reading them takes longer than reading the column
            listed = whole()
            if isinstance(listed, ValuedEvidence):
                return listed
        return None

    def settled(self, listed: ValuedEvidence, wanted: Mask) -> Mask:
        """Those of the `wanted` slices for which an index lists the values of every row."""
        told = listed.settled(self.semantics)[self.at] & (listed.row_counts[self.at] == self.counts)
        return told & wanted & (self.counts >= 0)

    def listed_values(self, about: Field, wanted: Mask) -> ListedValues | None:
        """The values of a field in some slices with their row counts, where an index lists all of them."""
        if pa.types.is_floating(about.type) or not self.is_shown(about):
            return None  # there are two zeros and many NaNs
        listed = self.listed(about)
        if listed is None or listed.entry_count > MOST_GROUPS:
            return None
        told = self.settled(listed, wanted)
        place = np.full(len(self.snapshot), -1, np.intp)
        place[self.at[told]] = np.flatnonzero(told)
        at, entries, sizes = [np.empty(0, np.intp)], [np.empty(0, np.intp)], [np.empty(0, np.int64)]
        for entry in range(listed.entry_count):
            holders, rows = listed.holders(entry)
            held = place[holders]
            at.append(held[held >= 0])
            sizes.append(np.asarray(rows, np.int64)[held >= 0])
            entries.append(np.full(len(at[-1]), entry, np.intp))
        together, rows = np.concatenate(at), np.concatenate(sizes)
        known = told & (np.bincount(together, rows, len(self.at)).astype(np.int64) == self.counts)
        there = known[together] & (rows > 0)
        stored: Any = listed.stored_values()
        # The last entry is NULL.
        every: Any = pa.concat_arrays([stored, nulls(listed.entry_count - len(stored), stored.type)])
        values = every.take(positions(np.concatenate(entries)[there]))
        return ListedValues(together[there], values, rows[there], known)


def comparison(about: Field, operator: Operator, value: Any) -> CompareLeaf:
    """A leaf that compares a field with a value of its storage domain."""
    stored = bool(value) if pa.types.is_boolean(about.type) else value
    return CompareLeaf(about, operator, Point(stored, stored))
