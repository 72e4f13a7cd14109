"""Answers from metadata: counts, extremes and the first rows of a plan, each part proved or left to be read.

A count is an answer where the numbers of matching rows are bounded from both sides to the same number; an extreme,
where every row of a slice matches and its bound is the value of a row. Nothing else is given out: a slice of which that
is not known stays in what has to be read (traps A1, A2, A3). What needs no reading beside a proved value, because none
of its rows can change it, is left out by the same evidence that drops files.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pruner.arrow import (
    as_numpy,
    compute,
    filled,
    from_storage,
    null_unless,
    number_array,
    positions,
    truth_array,
)
from pruner.evidence.sources import Focus
from pruner.expr.bound.fields import only_field, unknowns
from pruner.expr.bound.predicates import CompareLeaf, IsNullLeaf, Point
from pruner.expr.identifier import parse_column_path
from pruner.expr.nodes import Operator
from pruner.expr.semantics import BINARY_COLLATION, NanOrder
from pruner.expr.show import describe
from pruner.expr.types import is_string, is_written_one_way
from pruner.indexes.optional import ValuedEvidence
from pruner.indexes.row_sets import Entries
from pruner.planning.answer import Answer, FirstRows, Order
from pruner.planning.combining import CombinedEvidence
from pruner.planning.row_level import entries_of
from pruner.planning.rows import RowNumbers
from pruner.showing.words import counted
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.evidence.exact import Bounds, ExactFacts, Facts
    from pruner.evidence.sources import KnowsFields
    from pruner.expr.bound.predicates import BoundExpr, Leaf, StorageValue
    from pruner.expr.semantics import Semantics
    from pruner.planning.row_level import RowLevel
    from pruner.schema import Field, TableSchema
    from pruner.tables.snapshot import Snapshot

    Mask = NDArray[np.bool_]
    Integers = NDArray[np.int64]
    Ordinals = NDArray[np.intp]

MOST_GROUPS = 100_000
"""Most values by which rows are counted; where there are more, all of them are left to the engine."""


@dataclass(frozen=True, slots=True)
class _Key:
    """A column by which rows are grouped: the slices that have one value alone in it, and these values."""

    about: Field
    single: Mask
    values: Any


@dataclass(frozen=True, slots=True)
class _Listed:
    """Values that slices hold, each with its number of rows, and the slices of which these are all."""

    at: Ordinals
    values: Any
    sizes: Integers
    known: Mask


class Answering:
    """Answers about the rows of one plan.

    All arrays are about the slices that the plan keeps, in ascending order: of the others no row matches.
    """

    def __init__(
        self,
        snapshot: Snapshot,
        evidence: KnowsFields,
        facts: ExactFacts | None,
        predicate: BoundExpr,
        semantics: Semantics,
        schema: TableSchema,
        at: Ordinals,
        rows: RowLevel,
    ) -> None:
        """Answer about `predicate`, which is true on rows of the slices `at` alone, and of whose rows `rows` knows."""
        self._snapshot = snapshot
        self._evidence = evidence
        self._facts = facts
        self._predicate = predicate
        self._semantics = semantics
        self._schema = schema
        self._at = at
        self._rows = rows

    def among(self, ordinals: Ordinals) -> Answering:
        """The same about some of its slices alone, ascending."""
        return Answering(
            self._snapshot,
            self._evidence,
            self._facts,
            self._predicate,
            self._semantics,
            self._schema,
            ordinals,
            self._rows,
        )

    @cached_property
    def _counts(self) -> Integers:
        """The number of rows of each slice that has those of its base file; -1 where it is not known."""
        if self._facts is None:
            return np.full(len(self._at), -1, np.int64)
        return self._facts.row_counts[self._at]

    @cached_property
    def _numbers(self) -> RowNumbers:
        """Bounds on the number of matching rows of each slice; where nothing is known `least` is 0 and `most` is -1.

        Indexes and statistics are about all rows of a base file, so deletes leave of those that match what they leave
        of any set of rows (rule R13).
        """
        least, most = np.zeros(len(self._at), np.int64), np.full(len(self._at), -1, np.int64)
        left = np.full(len(self._at), -1) if self._facts is None else self._facts.left_counts[self._at]
        known = left >= 0
        if self._facts is not None and known.any():
            held = self._facts.base_counts[self._at[known]]
            numbers = self._rows.numbers(self._at[known], held)
            agrees = numbers.least <= numbers.most
            numbers &= RowNumbers(left[known], left[known], held)
            least[known], most[known] = np.where(agrees, numbers.least, 0), np.where(agrees, numbers.most, -1)
        return RowNumbers(least, most, self._counts)

    @cached_property
    def _matching(self) -> Integers:
        """The number of matching rows of each slice, exactly; -1 where it is not settled."""
        exact = self._numbers.exact
        open_ = np.flatnonzero((exact < 0) & (self._counts >= 0))
        if len(open_) and not any(unknowns(self._predicate)):
            told = self._rows.exact_counts(self._at[open_])
            # Two proofs about the same slice must agree.
            agrees = (told >= self._numbers.least[open_]) & (told <= self._numbers.most[open_])
            exact[open_] = np.where(agrees, told, -1)
        return exact

    @property
    def _whole(self) -> Mask:
        """Slices every row of which matches."""
        return (self._counts >= 0) & (self._matching == self._counts)

    def together(self, asked: Sequence[tuple[str, str | None]]) -> tuple[list[Answer], Ordinals]:
        """Several answers that leave the same slices to be read, and these: see `Plan.answers`."""
        answers = [self._one(kind, column) for kind, column in asked]
        rest = np.unique(np.concatenate([np.empty(0, np.intp), *(answer.rest for answer in answers)]))
        # Reading a row twice changes a number of rows, and no extreme.
        again = [
            kind in ("count", "by") and len(answer.rest) < len(rest)
            for (kind, _), answer in zip(asked, answers, strict=True)
        ]
        return [
            self._one(kind, column, rest) if anew else answer
            for (kind, column), answer, anew in zip(asked, answers, again, strict=True)
        ], rest

    def _one(self, kind: str, column: str | None, but: Ordinals | None = None) -> Answer:
        match kind:
            case "count":
                return self.count(column, but)
            case "min" | "max":
                return self.extreme(column or "", greatest=kind == "max")
            case _:
                return self.count_by(column or "", but)

    def count(self, column: str | None = None, but: Ordinals | None = None) -> Answer:
        """Count the matching rows, or those of them in which a column is not NULL, of all slices `but` some.

        Raises:
            SchemaError: there is no such column.
        """
        counts = self._matching
        if column is not None:
            facts = self._facts_of(self._field(column))
            nulls = np.full(len(self._at), -1, np.int64) if facts is None else facts.null_counts
            of_whole = np.where(self._whole & (nulls >= 0), self._counts - nulls, -1)
            counts = np.where((nulls == 0) | (counts == 0), counts, of_whole)
        proved = (counts >= 0) & ~self._among(but)
        total = int(counts[proved].sum())
        return self._answer(total, ~proved, number_array(np.array([total]), pa.int64()))

    def extreme(self, column: str, *, greatest: bool) -> Answer:
        """The least or greatest value of a column over the matching rows, NULL aside.

        Raises:
            SchemaError: there is no such column.
        """
        about = self._field(column)
        rest = self._matching != 0
        candidates: list[Any] = []
        if self._is_shown(about):
            rest = self._extremes_of_facts(about, greatest, rest, candidates)
            rest = self._values_listed(about, rest, candidates)
        stores: Any = [candidate.cast(candidates[0].type) for candidate in candidates]
        known: Any = pa.concat_arrays(stores).drop_null() if stores else []
        value, stored = _nulls(1, about.type), None
        if len(known):
            best: Any = compute.max(known) if greatest else compute.min(known)
            stored = best.as_py()
            try:
                value = from_storage(pa.array([stored], known.type), about.type)
            except pa.ArrowInvalid:  # bytes that are no text
                stored, rest = None, self._matching != 0
        if stored is not None and rest.any():
            better = Operator.GT if greatest else Operator.LT
            rest &= self._possible(CompareLeaf(about, better, _point(stored, about)))
        reaching = self._first(Order(column, 1, greatest, False)) if rest.sum() > 1 else None
        if reaching is not None:
            rest &= reaching[0]
        return self._answer(value[0] if stored is not None else None, rest, value)

    def _extremes_of_facts(self, about: Field, greatest: bool, rest: Mask, found: list[Any]) -> Mask:
        """Gather the extremes that slices are known to hold; returns the slices that are left."""
        facts = self._facts_of(about)
        if facts is None:
            return rest
        nothing = self._whole & (facts.null_counts == self._counts)
        of_value = facts.high_is_value if greatest else facts.low_is_value
        proved = self._whole & (facts.null_counts >= 0) & ~nothing & of_value
        bounds: Any = facts.high if greatest else facts.low
        found.append(bounds.take(positions(np.flatnonzero(rest & proved))))
        return rest & ~(nothing | proved)

    def _values_listed(self, about: Field, rest: Mask, found: list[Any]) -> Mask:
        """Gather the values of slices of which an index lists all that matching rows have; returns what is left."""
        listed = self._listed(about) if rest.any() else None
        return rest if listed is None else self._count_listed(about, listed, rest, found, [])

    def count_by(self, column: str, but: Ordinals | None = None) -> Answer:
        """Count the matching rows by the value of a column, of all slices `but` some.

        Raises:
            SchemaError: there is no such column.
        """
        about = self._field(column)
        values: list[Any] = []
        rows: list[Integers] = []
        left = self._among(but)
        rest = (self._matching != 0) & ~left
        facts = self._facts_of(about)
        usable = self._is_shown(about)
        if facts is not None and usable:
            rest = self._count_single(facts, rest, values, rows)
        listed = self._listed(about) if usable and rest.any() else None
        if listed is not None:
            rest = self._count_listed(about, listed, rest, values, rows)
        try:
            table = _summed(values, rows, about.type)
        except pa.ArrowInvalid:  # bytes that are no text
            table, rest = _summed([], [], about.type), self._matching != 0
        pairs = zip(table.column("value"), table.column("rows").to_pylist(), strict=True)
        return self._answer({_plain(value): count for value, count in pairs}, rest | left, table)

    def grouped(self, column: str | Sequence[str], calls: Sequence[tuple[str, str | None]]) -> Answer:
        """Aggregates of the matching rows by the value of a column, of slices all of whose rows have one value in it.

        Numbers of rows by several columns are known, too, where a bitmap has the values of one and all match.

        Args:
            column: by which rows are grouped, or several.
            calls: count, min or max, with the column; None for all rows, in a count alone.

        Raises:
            SchemaError: there is no such column.
        """
        abouts = [self._field(each) for each in ((column,) if isinstance(column, str) else column)]
        by_call = [self._by_slice(kind, None if name is None else self._field(name)) for kind, name in calls]
        keys = [self._key(about) for about in abouts]
        names = ["value", *(f"value_{number}" for number in range(1, len(keys)))]
        kinds = [kind for kind, _ in calls]
        gone = self._matching == 0
        of_rows = all(name is None for _, name in calls)
        proved = (self._matching > 0) if of_rows else self._whole & ~gone
        for known in (*(key.single for key in keys), *(known for known, _, _ in by_call)):
            proved = proved & known
        at = positions(np.flatnonzero(proved))
        parts = [
            _part([key.values.take(at) for key in keys], [each.take(at) for _, each, _ in by_call], names)
        ]
        if of_rows and len(keys) > 1:
            proved = self._combined(keys, proved | gone, len(calls), names, parts)
        fields = [*abouts, *(field for _, _, field in by_call)]
        try:
            table = _grouped(parts, names, kinds, fields)
        except pa.ArrowInvalid:  # bytes that are no text
            table, proved = _grouped([parts[0].slice(0, 0)], names, kinds, fields), gone
        return self._answer(None, ~(gone | proved), table)

    def _key(self, about: Field) -> _Key:
        """What is known of a column by which rows are grouped."""
        facts = self._facts_of(about) if self._is_shown(about) else None
        if facts is None:
            return _Key(about, np.zeros(len(self._at), np.bool_), _nulls(len(self._at), pa.null()))
        single, nothing = self._single(facts)
        return _Key(about, single, null_unless(truth_array(~nothing), facts.low))

    def _combined(
        self, keys: Sequence[_Key], done: Mask, calls: int, names: Sequence[str], parts: list[pa.Table]
    ) -> Mask:
        """Count rows by several columns where one of them alone has more values than one, which a bitmap has.

        Gathers them, and returns what is done then.
        """
        for key in keys:
            others = [each.single for each in keys if each is not key]
            wanted = self._whole & ~done & np.logical_and.reduce(others)
            listed = self._listed_rows(key.about, wanted) if wanted.any() else None
            if listed is None or key.values.type not in (listed.values.type, pa.null()):
                continue
            at: Any = positions(listed.at)
            values = [listed.values if each is key else each.values.take(at) for each in keys]
            parts.append(_part(values, [number_array(listed.sizes, pa.int64())] * calls, names))
            done = done | listed.known
        return done

    def _listed_rows(self, about: Field, wanted: Mask) -> _Listed | None:
        """The values of a column in some slices with their numbers of rows, where an index lists all of them."""
        if pa.types.is_floating(about.type) or not self._is_shown(about):
            return None  # there are two zeros and many NaN
        listed = self._listed(about)
        if listed is None or listed.entry_count > MOST_GROUPS:
            return None
        told = listed.settled(self._semantics)[self._at] & (listed.row_counts[self._at] == self._counts)
        told &= wanted & (self._counts >= 0)
        place = np.full(len(self._snapshot), -1, np.intp)
        place[self._at[told]] = np.flatnonzero(told)
        at, entries, sizes = [np.empty(0, np.intp)], [np.empty(0, np.intp)], [np.empty(0, np.int64)]
        for entry in range(listed.entry_count):
            holders, rows = listed.holders(entry)
            held = place[holders]
            at.append(held[held >= 0])
            sizes.append(np.asarray(rows, np.int64)[held >= 0])
            entries.append(np.full(len(at[-1]), entry, np.intp))
        together, rows = np.concatenate(at), np.concatenate(sizes)
        known = told & (np.bincount(together, rows, len(self._at)).astype(np.int64) == self._counts)
        there = known[together] & (rows > 0)
        stored: Any = listed.stored_values()
        # The last entry is that of NULL.
        every: Any = pa.concat_arrays([stored, _nulls(listed.entry_count - len(stored), stored.type)])
        values = every.take(positions(np.concatenate(entries)[there]))
        return _Listed(together[there], values, rows[there], known)

    def _single(self, facts: Facts) -> tuple[Mask, Mask]:
        """Slices that have one value alone in a column, or NULL alone; and the latter."""
        same = as_numpy(filled(compute.equal(facts.low, facts.high), False))
        one = same & facts.low_is_value & facts.high_is_value & (facts.null_counts == 0)
        nothing = (facts.null_counts == self._counts) & (self._counts >= 0)
        return one | nothing, nothing

    def _by_slice(self, kind: str, about: Field | None) -> tuple[Mask, Any, Field | None]:
        """Where an aggregate of all matching rows of a slice is known, and what it is there."""
        if about is None:
            return self._matching >= 0, number_array(self._matching, pa.int64()), None
        facts = self._facts_of(about)
        if facts is None or (kind != "count" and not self._is_shown(about)):
            unknown = np.zeros(len(self._at), np.bool_)
            return unknown, _nulls(len(self._at), pa.int64() if kind == "count" else about.type), None
        known = facts.null_counts >= 0
        if kind == "count":
            return known, number_array(self._counts - facts.null_counts, pa.int64()), None
        nothing = facts.null_counts == self._counts
        bounds: Any = facts.high if kind == "max" else facts.low
        values = null_unless(truth_array(~nothing), bounds)
        return (
            known & (nothing | (facts.high_is_value if kind == "max" else facts.low_is_value)),
            values,
            about,
        )

    def _is_shown(self, about: Field) -> bool:
        return is_written_one_way(about.type) and not self._is_read_otherwise(about)

    def _among(self, ordinals: Ordinals | None) -> Mask:
        return np.zeros(len(self._at), np.bool_) if ordinals is None else np.isin(self._at, ordinals)

    def _count_single(self, facts: Facts, rest: Mask, values: list[Any], rows: list[Integers]) -> Mask:
        """Count the slices each of which has one value alone; returns those that are left."""
        single, nothing = self._single(facts)
        counted = rest & (self._matching > 0) & single
        at = np.flatnonzero(counted)
        low: Any = facts.low
        values.append(null_unless(truth_array(~nothing[at]), low.take(positions(at))))
        rows.append(self._matching[at])
        return rest & ~counted

    def _count_listed(
        self, about: Field, listed: ValuedEvidence, rest: Mask, values: list[Any], rows: list[Integers]
    ) -> Mask:
        """Count the rows that an index knows by value, where all of a slice match, or all of some values do."""
        if listed.entry_count > MOST_GROUPS:
            return rest
        told = listed.settled(self._semantics)[self._at] & (listed.row_counts[self._at] == self._counts)
        told &= rest & (self._counts >= 0)
        entries = self._entries_by(about, listed)
        told &= self._whole if entries is None else self._matching >= 0
        if entries is None:
            entries = Entries(np.ones(listed.entry_count, np.bool_))
        stored: Any = listed.stored_values()
        chosen = np.zeros(len(self._snapshot), np.bool_)
        chosen[self._at[told]] = True
        null, counts = listed.entry_count - 1, np.zeros(listed.entry_count, np.int64)
        for entry in np.flatnonzero(entries.mask).tolist():
            holders, sizes = listed.holders(entry)
            counts[entry] = sizes[chosen[holders]].sum()
        if pa.types.is_floating(stored.type) or counts.sum() != self._matching[told].sum():
            return rest  # there are two zeros and many NaN; and two proofs about the same slices must agree
        of_values = np.flatnonzero(counts[: len(stored)])
        values += [stored.take(positions(of_values)), pa.nulls(int(counts[null] > 0), stored.type)]
        rows += [counts[of_values], counts[null : null + int(counts[null] > 0)]]
        return rest & ~told

    def _entries_by(self, about: Field, listed: ValuedEvidence) -> Entries | None:
        """The entries on all of whose rows the predicate is true, and on no others; None where it is not by entries."""
        field = only_field(self._predicate)
        if field is None or field.path != about.path:
            return None
        true, *others = (entries_of(self._predicate, outcome, listed, self._semantics) for outcome in Outcome)
        return None if any((true.mask & other.mask).any() for other in others) else true

    def _listed(self, about: Field) -> ValuedEvidence | None:
        if about.partition:
            return None
        for source in self._evidence.sources(about).usable:
            if source.focused(()).rows(self._semantics) is None:
                continue
            listed = source.can.listed()
            if isinstance(listed, ValuedEvidence):
                return listed
        return None

    def limited(self, rows: int, *, fewest: bool = False) -> FirstRows | None:
        """The first slices that surely hold so many matching rows; None where all of them are needed.

        With `fewest` those that hold most come first: rows may be any.
        """
        least = self._numbers.least
        order = np.argsort(-least, kind="stable") if fewest else np.arange(len(least))
        reached = np.flatnonzero(np.cumsum(least[order]) >= rows)
        if not len(reached) or reached[0] + 1 >= len(self._at):
            return None
        chosen = self._at[np.sort(order[: reached[0] + 1])]
        return FirstRows(chosen, f"{rows:,} rows surely match in {counted(len(chosen), self._snapshot.noun)}")

    def top(self, orders: Sequence[Order]) -> FirstRows | None:
        """The slices that hold the first matching rows in each of some orders; None where all of them are needed.

        Of rows that are equal in the column all are among them, so that any further order may follow.

        Raises:
            SchemaError: there is no such column.
        """
        keep, told = np.zeros(len(self._at), np.bool_), list[str]()
        for order in orders:
            first = self._first(order)
            if first is None:
                return None
            keep |= first[0]
            told.append(first[1])
        return None if keep.all() else FirstRows(self._at[keep], "; ".join(dict.fromkeys(told)))

    def first_values(self, order: Order) -> FirstRows | None:
        """The slices with all matching rows of the first `order.rows` values in an order; None where all are needed.

        Raises:
            SchemaError: there is no such column.
        """
        about = self._field(order.column)
        facts = self._facts_of(about)
        if facts is None or not self._is_shown(about):
            return None
        threshold = self._threshold_of_values(facts, order)
        if threshold is None:
            return None
        keep, leaf = self._up_to(threshold, about, order)
        told = f"threshold of the first {counted(order.rows, 'value')}: {leaf}"
        return None if keep.all() else FirstRows(self._at[keep], told)

    def _threshold_of_values(self, facts: Facts, order: Order) -> StorageValue | None:
        """A value that so many different values of matching rows are not behind of; None where none is known."""
        sure = self._whole & facts.nan_free
        ends: Any = pa.concat_arrays(
            [
                bounds.take(positions(np.flatnonzero(sure & is_value)))
                for bounds, is_value in ((facts.low, facts.low_is_value), (facts.high, facts.high_is_value))
            ]
        )
        known: Any = ends.drop_null().unique()
        if len(known) < order.rows:
            return None
        return _nth(known, order.rows - 1, order.descending)

    def _up_to(self, threshold: StorageValue, about: Field, order: Order) -> tuple[Mask, str]:
        """The slices that can hold matching rows not behind a value, and what says so."""
        leaf = CompareLeaf(about, Operator.GE if order.descending else Operator.LE, _point(threshold, about))
        keep = self._possible(leaf)
        if order.nulls_first:
            keep = keep | self._possible(IsNullLeaf(about))
        return keep, describe(leaf)

    def _first(self, order: Order) -> tuple[Mask, str] | None:
        """The slices that hold the first rows in one order, and why; None where nothing is known of them."""
        about = self._field(order.column)
        if len(self._at) < 2 or not self._is_ordered_alike(about):
            return None
        if order.within is not None:
            return self._first_of_each(about, order)
        threshold = self._reached(about, order)
        if threshold is None:
            return None
        keep, leaf = self._up_to(threshold, about, order)
        return keep, f"threshold of the first {counted(order.rows, 'row')}: {leaf}"

    def threshold(self, order: Order) -> Any:
        """A value that so many matching rows surely have or come before: one of Arrow, of the column's type.

        None where nothing is known, or no slice can be left out by it.

        Raises:
            SchemaError: there is no such column.
        """
        about = self._field(order.column)
        if len(self._at) < 2 or not self._is_ordered_alike(about) or not self._is_shown(about):
            return None
        reached = self._reached(about, order)
        bounds = self._bounds_of(about)
        if reached is None or bounds is None or self._up_to(reached, about, order)[0].all():
            return None
        low: Any = bounds.low
        try:
            return from_storage(pa.array([reached], low.type), about.type)[0]
        except pa.ArrowInvalid:  # a bound that was cut inside a character
            return None

    def _is_ordered_alike(self, about: Field) -> bool:
        """Tell whether the engine orders a column as its bounds are ordered."""
        has_nan_elsewhere = (
            pa.types.is_floating(about.type) and self._semantics.nan_order is not NanOrder.GREATEST
        )
        return not has_nan_elsewhere and not self._is_read_otherwise(about)

    def _reached(self, about: Field, order: Order) -> StorageValue | None:
        """As `_threshold`, by the bounds of the column of an order."""
        bounds = self._bounds_of(about)
        passed = None if order.with_value is None else self._bounds_of(self._field(order.with_value))
        if bounds is None or (order.with_value is not None and passed is None):
            return None
        return self._threshold(bounds, order, None if passed is None else passed.null_counts)

    def _first_of_each(self, about: Field, order: Order) -> tuple[Mask, str] | None:
        """As `_first`, of each value of the columns of `order.within`."""
        facts = self._facts_of(about)
        passed = None if order.with_value is None else self._facts_of(self._field(order.with_value))
        if facts is None or (order.with_value is not None and passed is None):
            return None
        assert order.within is not None
        within = (order.within,) if isinstance(order.within, str) else tuple(dict.fromkeys(order.within))
        over = None if passed is None else passed.null_counts
        keep = self._first_within(facts, order, [self._field(name) for name in within], over)
        told = f"threshold of the first {counted(order.rows, 'row')} by {order.column} for each {', '.join(within)}"
        return None if keep is None else (keep, told)

    def _threshold(self, bounds: Bounds, order: Order, passed: Integers | None) -> StorageValue | None:
        """A value that at least so many matching rows are not behind of; None where none is known.

        Args:
            bounds: of the column.
            order: in which rows come.
            passed: how many rows of each slice are passed over at most, whatever they have in the column; -1 where it
                is not known.
        """
        least = np.where(self._whole, self._counts, self._numbers.least)
        values = np.where(bounds.null_counts >= 0, least - bounds.null_counts, 0)
        if passed is not None:
            values = np.where(passed >= 0, values - passed, 0)
        ends: Any = bounds.low if order.descending else bounds.high
        sure = (values > 0) & bounds.nan_free & as_numpy(ends.is_valid())
        at = np.flatnonzero(sure)
        known: Any = ends.take(positions(at))
        direction = "descending" if order.descending else "ascending"
        ranked = as_numpy(compute.sort_indices(known, sort_keys=[("", direction)])).astype(np.intp)
        reached = np.flatnonzero(np.cumsum(values[at][ranked]) >= order.rows)
        if not len(reached):
            return None
        return _plain_storage(known, int(ranked[reached[0]]))

    def _first_within(
        self, facts: Facts, order: Order, abouts: Sequence[Field], passed: Integers | None
    ) -> Mask | None:
        """The slices that hold the first rows of each value of columns; None where these values are not known.

        A slice goes where each of its values has enough rows in others, all of them before any row of this one.
        """
        holdings = self._holdings_of(abouts)
        if holdings is None:
            return None
        at, codes, sizes, known = holdings
        nulls, least = facts.null_counts, self._numbers.least
        sure = (self._counts >= 0) & (nulls >= 0) & facts.nan_free
        off = self._counts - least + nulls
        if passed is not None:
            sure, off = sure & (passed >= 0), off + passed
        near: Any = facts.low if order.descending else facts.high
        far: Any = facts.high if order.descending else facts.low
        far_is_value = facts.high_is_value if order.descending else facts.low_is_value
        ranks = _ranks(pa.concat_arrays([near, far])) * (1 if order.descending else -1)
        nearest, farthest = ranks[: len(self._at)], ranks[len(self._at) :]
        rows = np.where((sure & as_numpy(near.is_valid()))[at], np.maximum(sizes - off[at], 0), 0)
        thresholds = _thresholds(codes, nearest[at], rows, order.rows)
        gone = known & facts.nan_free & far_is_value & as_numpy(far.is_valid())
        if order.nulls_first:
            gone &= nulls == 0
        gone[at[farthest[at] >= thresholds[codes]]] = False
        return ~gone

    def _holdings_of(self, abouts: Sequence[Field]) -> tuple[Ordinals, Integers, Integers, Mask] | None:
        """As `_holdings`, of the combinations of values of columns: where one of them alone has several in a slice."""
        if len(abouts) == 1:
            return self._holdings(abouts[0])
        holdings = [self._holdings(about) for about in abouts]
        if any(each is None for each in holdings):
            return None
        each_one = [each for each in holdings if each is not None]
        several = np.zeros(len(self._at), np.intp)
        at_which = np.zeros(len(self._at), np.intp)
        known = np.ones(len(self._at), np.bool_)
        codes_of = np.zeros((len(each_one), len(self._at)), np.int64)
        for number, (at, codes, _, all_known) in enumerate(each_one):
            is_several = np.bincount(at, minlength=len(self._at)) > 1
            several += is_several
            at_which[is_several] = number
            known &= all_known
            codes_of[number, at] = codes
        known &= several <= 1
        places: list[Ordinals] = []
        combined: list[Any] = []
        sizes: list[Integers] = []
        for number, (at, codes, rows, _) in enumerate(each_one):
            chosen = known[at] & (at_which[at] == number)
            places.append(at[chosen])
            sizes.append(rows[chosen])
            parts = codes_of[:, at[chosen]]
            parts[number] = codes[chosen]
            combined.append(parts)
        _, together = np.unique(np.concatenate(combined, axis=1), axis=1, return_inverse=True)
        return np.concatenate(places), together.reshape(-1).astype(np.int64), np.concatenate(sizes), known

    def _holdings(self, about: Field) -> tuple[Ordinals, Integers, Integers, Mask] | None:
        """Which values of a column slices hold in how many rows: slices, values by number and numbers of rows, and the
        slices of which all values are known.
        """
        facts = self._facts_of(about)
        if facts is None or not self._is_shown(about) or pa.types.is_floating(about.type):
            return None  # there are two zeros and many NaN
        single, nothing = self._single(facts)
        known = single & (self._counts >= 0)
        alone = np.flatnonzero(known)
        low: Any = facts.low
        values = [null_unless(truth_array(~nothing[alone]), low.take(positions(alone)))]
        at, sizes = [alone], [self._counts[alone]]
        listed = None if known.all() else self._listed_rows(about, ~known)
        if listed is not None:
            at.append(listed.at)
            sizes.append(listed.sizes)
            values.append(listed.values)
        together, rows = np.concatenate(at), np.concatenate(sizes)
        total = np.bincount(together, rows, len(self._at)).astype(np.int64)
        encoded: Any = pa.concat_arrays([value.cast(values[0].type) for value in values])
        indices = encoded.dictionary_encode(null_encoding="encode").indices
        return together, as_numpy(indices).astype(np.int64), rows, (total == self._counts) & (total > 0)

    def _possible(self, leaf: Leaf) -> Mask:
        """The slices that can hold a row on which a leaf is true, by all that is at hand."""
        focus = Focus(self._evidence, leaf)
        return CombinedEvidence(self._snapshot, focus, self._semantics, self._at).leaf(leaf, Outcome.TRUE)

    def _facts_of(self, about: Field) -> Facts | None:
        facts = None if self._facts is None else self._facts.of(about, self._semantics)
        return None if facts is None else facts.at(self._at)

    def _bounds_of(self, about: Field) -> Bounds | None:
        bounds = None if self._facts is None else self._facts.bounds(about, self._semantics)
        return None if bounds is None else bounds.at(self._at)

    def _is_read_otherwise(self, about: Field) -> bool:
        """Tell whether the engine orders or shows other values than those that were recorded."""
        if is_string(about.type):
            return self._semantics.collation != BINARY_COLLATION
        return pa.types.is_timestamp(about.type) and self._semantics.timestamp_unit is not None

    def _field(self, column: str) -> Field:
        return self._schema.find(parse_column_path(column), case_sensitive=self._semantics.case_sensitive)

    def _answer(self, value: Any, rest: Mask, proved: Any) -> Answer:
        table = proved if isinstance(proved, pa.Table) else pa.table({"value": proved})
        return Answer(_plain(value), self._at[rest], self._snapshot, table)


def _ranks(values: Any) -> Integers:
    """Numbers in the order of values, equal ones for equal values."""
    ranked: Any = compute
    return as_numpy(ranked.rank(values, sort_keys="ascending", tiebreaker="dense")).astype(np.int64)


def _nth(values: Any, number: int, descending: bool) -> StorageValue:
    direction = "descending" if descending else "ascending"
    order: Any = compute.sort_indices(values, sort_keys=[("", direction)])
    return _plain_storage(values, int(order[number].as_py()))


def _plain_storage(values: Any, place: int) -> StorageValue:
    value: Any = values[place].as_py()
    return int(value) if pa.types.is_decimal(values.type) else value


def _thresholds(codes: Integers, ranks: Integers, rows: Integers, wanted: int) -> Integers:
    """For each code, the greatest rank that so many rows surely reach; below all ranks where none is known."""
    thresholds = np.full(int(codes.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    order = np.lexsort((-ranks, codes))
    codes, ranks, rows = codes[order], ranks[order], rows[order]
    sums = np.cumsum(rows)
    first = np.flatnonzero(np.diff(codes, prepend=-1))
    before = np.repeat((sums - rows)[first], np.diff(first, append=len(codes)))
    reached = np.flatnonzero(sums - before >= wanted)
    codes, firsts = np.unique(codes[reached], return_index=True)
    thresholds[codes] = ranks[reached[firsts]]
    return thresholds


def _summed(values: list[Any], rows: list[Integers], type_: pa.DataType) -> pa.Table:
    """Values of the storage domain with their numbers of rows, each value once and in the type of the table."""
    names = ["value", "rows"]
    if not values:
        return pa.Table.from_arrays([pa.array([], type_), pa.array([], pa.int64())], names=names)
    together = pa.Table.from_arrays(
        [pa.concat_arrays(values), number_array(np.concatenate(rows), pa.int64())], names=names
    )
    grouped: Any = together.group_by("value", use_threads=False).aggregate([("rows", "sum")])
    typed = from_storage(grouped.column("value").combine_chunks(), type_)
    return pa.Table.from_arrays([typed, grouped.column("rows_sum").combine_chunks()], names=names)


def _part(keys: Sequence[Any], found: Sequence[Any], names: Sequence[str]) -> pa.Table:
    """Some groups: their values, and one column for each call."""
    return pa.Table.from_arrays(
        [*keys, *found], names=[*names, *(f"call_{number}" for number in range(len(found)))]
    )


def _grouped(
    parts: Sequence[pa.Table], names: Sequence[str], kinds: Sequence[str], fields: Sequence[Field | None]
) -> pa.Table:
    """Groups put together, each once: in the types of `fields`, which has None for numbers."""
    merging: Any = [
        (f"call_{number}", "sum" if kind == "count" else kind) for number, kind in enumerate(kinds)
    ]
    together = pa.concat_tables(parts, promote_options="default")
    if not len(together):
        nothing = [pa.array([], pa.int64() if field is None else field.type) for field in fields]
        return pa.Table.from_arrays(nothing, names=together.column_names)
    grouped: Any = together.group_by(list(names), use_threads=False).aggregate(merging)
    held_columns = [*names, *(f"{name}_{function}" for name, function in merging)]
    columns: list[Any] = []
    for name, field in zip(held_columns, fields, strict=True):
        column = grouped.column(name).combine_chunks()
        columns.append(column if field is None else from_storage(column, field.type))
    return pa.Table.from_arrays(columns, names=together.column_names)


def _nulls(count: int, type_: pa.DataType) -> Any:
    nulls: Any = pa.nulls  # typed for some of Arrow's types alone
    return nulls(count, type_)


def _point(value: Any, about: Field) -> Point:
    stored = bool(value) if pa.types.is_boolean(about.type) else value
    return Point(stored, stored)


def _plain(value: Any) -> Any:
    """A value of Arrow as one of Python, or as text where Python has none for it."""
    try:
        return value.as_py() if hasattr(value, "as_py") else value
    except (ValueError, OverflowError, ImportError):
        return str(value)
