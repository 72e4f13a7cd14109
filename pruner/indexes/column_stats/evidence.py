"""What column statistics say about leaf predicates, for all slices at once.

Every method that returns a mask returns what is possible; False is a proof. The proofs are of one kind (R1): the bounds
are known, and they leave no room for the outcome.

Keys of an order are also written as values, for display.
"""

from __future__ import annotations

from decimal import Decimal
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, assert_never

import numpy as np
import pyarrow as pa

from pruner.expr.bound.fields import nan_makes_true
from pruner.expr.bound.predicates import (
    CompareLeaf,
    InLeaf,
    IsNullLeaf,
    NotNullLeaf,
    PrefixLeaf,
    RecurringLeaf,
)
from pruner.expr.exact.patterns import successor
from pruner.expr.nodes import Operator
from pruner.expr.parquet_reading import NARROW
from pruner.expr.semantics import NanOrder
from pruner.indexes.column_stats.comparisons import Intervals, RunBounds, also, meet, possible_remainders
from pruner.indexes.columns.ordering import RankOrder
from pruner.indexes.columns.reading import is_answerable, is_rounded, may_overflow, union
from pruner.indexes.optional_evidence import Ranges
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf, Point, StorageValue, ValueLeaf
    from pruner.expr.semantics import Semantics
    from pruner.indexes.column_stats.load import Statistics
    from pruner.indexes.columns.ordering import KeyOrder
    from pruner.schema import Field

    Mask = NDArray[np.bool_]

SHOWN_CHARACTERS = 40
"""Maximum number of characters of a text or of bytes."""


def bound_text(key: Any, order: KeyOrder, type_: pa.DataType) -> str:
    """The value at a key of the order, as its type is displayed."""
    if isinstance(order, RankOrder):
        return _of_bytes(order.value(int(key)), type_)
    if pa.types.is_decimal(type_):
        return _decimal(int(key), type_)
    if pa.types.is_floating(type_):
        return f"{float(key):g}"
    if not pa.types.is_temporal(type_):
        return str(bool(key) if pa.types.is_boolean(type_) else int(key))
    stored = pa.int32() if type_.bit_width == 32 else pa.int64()
    try:
        value: Any = pa.array([int(key)], stored).cast(type_)
        return value.cast(pa.string())[0].as_py()
    except pa.ArrowException:
        return str(int(key))  # not a date in the calendar of Python and Arrow


def _of_bytes(value: bytes | int, type_: pa.DataType) -> str:
    if isinstance(value, int):
        return _decimal(value, type_)
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_) or pa.types.is_large_binary(type_):
        return "0x" + value[: SHOWN_CHARACTERS // 2].hex()
    return value.decode(errors="replace")[:SHOWN_CHARACTERS]


def _decimal(unscaled: int, type_: Any) -> str:
    return str(Decimal(unscaled).scaleb(-type_.scale))


class ColumnStatsEvidence:
    """Evidence from the statistics of one field: see `pruner.indexes.base.Evidence`. Threads may share it."""

    def __init__(self, statistics: Statistics, field: Field) -> None:
        self._statistics = statistics
        self._field = field
        self.count = statistics.count
        self.covered = statistics.covered
        self._all_hold_numbers = bool(statistics.can_hold_numbers.all())
        self._runs = (RunBounds.of(statistics.low), RunBounds.of(statistics.high))

    @cached_property
    def _overflowing(self) -> tuple[Mask | None, Mask | None]:
        """Slices with timestamps that wrap around: if an engine does not round them, and if it does."""
        low, high, type_ = self._statistics.low, self._statistics.high, self._field.type
        return may_overflow(low, high, type_, rounded=False), may_overflow(low, high, type_, rounded=True)

    def possible(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, at: NDArray[np.intp] | None
    ) -> Mask | None:
        """Tell for each slice whether some row can make `leaf` evaluate to `outcome`: see `Evidence.possible`."""
        match leaf:
            case IsNullLeaf() | NotNullLeaf():
                return self._answer(semantics, at).without_values(leaf, outcome)
            case CompareLeaf() | InLeaf() | PrefixLeaf() | RecurringLeaf():
                if not is_answerable(leaf, self._field.type, self._statistics.order.serves, semantics):
                    return None
                return self._answer(semantics, at).of_values(leaf, outcome)
            case _:
                assert_never(leaf)

    def ranges(self) -> Ranges:
        """See `RangingEvidence.ranges`."""
        s = self._statistics
        known = s.covered & s.can_hold_numbers
        for is_open in (s.low_open, s.high_open):
            if is_open is not None:
                known = known & ~is_open
        at = np.flatnonzero(known)
        shown = partial(bound_text, order=s.order, type_=self._field.type)
        return Ranges(at, s.low[at], s.high[at], shown)

    def unread(self, semantics: Semantics) -> Mask | None:
        """See `ExactEvidence.unread`."""
        return self._unread_bounds(semantics)

    def _answer(self, semantics: Semantics, at: NDArray[np.intp] | None) -> _Answer:
        unread = self._unread_bounds(semantics)
        return _Answer(self._statistics, self._runs, semantics, self._all_hold_numbers, at, unread)

    def _unread_bounds(self, semantics: Semantics) -> Mask | None:
        """Mask of all slices whose bounds are not about the values that this engine reads (R2); None if there are none.

        These have old dates or timestamps in a file that does not name its calendar, timestamps that overflow, or
        Parquet types that the engine reads differently from Arrow.
        """
        s, traits = self._statistics, semantics.traits
        unread = union(
            s.types.unread(semantics), s.calendar_open if traits.asks_session_for_calendar else None
        )
        if traits.wraps_far_timestamps:
            unread = union(unread, self._overflowing[is_rounded(self._field.type, semantics)])
        return unread


class _Answer:
    """One question: the same statistics, semantics and slices."""

    def __init__(
        self,
        statistics: Statistics,
        runs: tuple[RunBounds | None, RunBounds | None],
        semantics: Semantics,
        all_hold_numbers: bool,
        at: NDArray[np.intp] | None,
        unread: Mask | None,
    ) -> None:
        self._s = statistics
        self._semantics = semantics
        self._all_hold_numbers = all_hold_numbers
        self._at = at
        self._low_runs, self._high_runs = runs if at is None else (None, None)
        self._count = statistics.count if at is None else len(at)
        self._unread = unread

    def without_values(self, leaf: IsNullLeaf | NotNullLeaf, outcome: Outcome) -> Mask:
        """The outcomes that depend only on NULL."""
        match leaf, outcome:
            case IsNullLeaf(), Outcome.TRUE:
                return self._pick(self._s.can_be_null)
            case IsNullLeaf(), Outcome.FALSE:
                return self._pick(self._s.can_hold_values)
            case IsNullLeaf(), Outcome.NULL:
                return np.zeros(self._count, np.bool_)
            case NotNullLeaf(), Outcome.NULL:
                return self._pick(self._s.can_be_null)
            case NotNullLeaf(value=value), _:
                if value is (outcome is Outcome.TRUE):
                    return self._pick(self._s.can_hold_values)
                if not pa.types.is_timestamp(leaf.field.type) and leaf.field.type not in NARROW:
                    return np.zeros(self._count, np.bool_)
                # Engines may read finer units from files, and numbers of 32 bits.
                unknown = ~self._s.covered if self._unread is None else ~self._s.covered | self._unread
                return self._pick(self._s.can_hold_values & unknown)

    def of_values(self, leaf: ValueLeaf, outcome: Outcome) -> Mask:
        """The outcomes of comparisons."""
        if isinstance(leaf, InLeaf):
            return self._in(leaf, outcome)
        if outcome is Outcome.NULL:
            return self._pick(self._s.can_be_null)
        if isinstance(leaf, PrefixLeaf):
            return self._prefix(leaf, outcome)
        if isinstance(leaf, RecurringLeaf):
            return self._recurring(leaf, outcome)
        operator = leaf.operator if outcome is Outcome.TRUE else leaf.operator.negated
        nan_is_true = nan_makes_true(leaf, self._semantics)
        numbers = self._numbers_of(operator, leaf.operator, leaf.point, outcome)
        return self._with_nan(numbers, nan_is_true is (outcome is Outcome.TRUE))

    def _numbers_of(self, operator: Operator, asked: Operator, point: Point, outcome: Outcome) -> Mask:
        """Slices that can hold a value other than NaN for which the comparison evaluates to the outcome."""
        if not point.nan:
            return self._numbers(self._compare(operator, point))
        # All numbers compare alike with NaN.
        is_greatest = self._semantics.nan_order is NanOrder.GREATEST
        below = (Operator.LT, Operator.LE, Operator.NE) if is_greatest else (Operator.NE,)
        return self._numbers((asked in below) is (outcome is Outcome.TRUE))

    def _compare(self, operator: Operator, point: Point) -> Mask | bool:
        """Tell where some number within the bounds can make `number operator point` true.

        For a point [L, H]: values below L are less, values above H greater, and those in between equal if the point is
        exact, and anything otherwise.
        """
        match operator:
            case Operator.LT:
                return self._some_below(point.low) if point.exact else self._some_up_to(point.high)
            case Operator.LE:
                return self._some_up_to(point.high)
            case Operator.GT:
                return self._some_above(point.high) if point.exact else self._some_from(point.low)
            case Operator.GE:
                return self._some_from(point.low)
            case Operator.EQ:
                return not _is_empty(point) and _both(
                    self._some_from(point.low), self._some_up_to(point.high)
                )
            case Operator.NE:
                if _is_empty(point) or not point.exact:
                    return True
                outside = _either(self._some_below(point.low), self._some_above(point.high))
                return self._or_unsure(outside)

    def _in(self, leaf: InLeaf, outcome: Outcome) -> Mask:
        if outcome is Outcome.TRUE:
            listed = Intervals.of([p for p in leaf.points if not p.nan and not _is_empty(p)], self._s.order)
            low_open, high_open = self._optional(self._s.low_open), self._optional(self._s.high_open)
            numbers = self._numbers(listed.meet(self._low, self._high, low_open, high_open))
            return self._with_nan(numbers, nan_makes_true(leaf, self._semantics))
        if outcome is Outcome.FALSE:
            return np.zeros(self._count, np.bool_) if leaf.has_null else self._not_in(leaf)
        nulls = self._pick(self._s.can_be_null)
        return nulls | self._not_in(leaf) if leaf.has_null else nulls

    def _not_in(self, leaf: InLeaf) -> Mask:
        """Slices that can hold a value that equals none of the points."""
        certain = [p for p in leaf.points if p.exact and not p.nan and not _is_empty(p)]
        outside = ~Intervals.of(certain, self._s.order).contain(self._low, self._high)
        numbers = self._numbers(self._or_unsure(self._or_open(outside)))
        return self._with_nan(numbers, not nan_makes_true(leaf, self._semantics))

    def _prefix(self, leaf: PrefixLeaf, outcome: Outcome) -> Mask:
        behind = successor(leaf.prefix)
        if outcome is Outcome.TRUE:
            before = True if behind is None else self._some_below(behind)
            return self._numbers(_both(self._some_from(leaf.prefix), before))
        if not leaf.whole:
            return self._numbers(True)
        other = self._some_below(leaf.prefix)
        return self._numbers(other if behind is None else _either(other, self._some_from(behind)))

    def _recurring(self, leaf: RecurringLeaf, outcome: Outcome) -> Mask:
        met = meet(self._low, self._high, leaf.period, possible_remainders(leaf, outcome))
        return self._numbers(self._or_unsure(self._or_open(met)))

    def _some_below(self, value: StorageValue | None) -> Mask | bool:
        return value is not None and self._if_low(np.less, self._s.order.first(value))

    def _some_up_to(self, value: StorageValue | None) -> Mask | bool:
        return value is None or self._if_low(np.less_equal, self._s.order.last(value))

    def _some_from(self, value: StorageValue | None) -> Mask | bool:
        return value is None or self._if_high(np.greater_equal, self._s.order.first(value))

    def _some_above(self, value: StorageValue | None) -> Mask | bool:
        return value is not None and self._if_high(np.greater, self._s.order.last(value))

    def _if_low(self, relation: Callable[..., Mask], key: float) -> Mask:
        runs = self._low_runs
        met = relation(self._low, key) if runs is None else runs.compare(relation, key)
        return also(met, self._optional(self._s.low_open))

    def _if_high(self, relation: Callable[..., Mask], key: float) -> Mask:
        runs = self._high_runs
        met = relation(self._high, key) if runs is None else runs.compare(relation, key)
        return also(met, self._optional(self._s.high_open))

    def _or_open(self, answer: Mask) -> Mask:
        """Add the slices with an unknown end."""
        for is_open in (self._s.low_open, self._s.high_open):
            answer = also(answer, self._optional(is_open))
        return answer

    def _or_unsure(self, answer: Mask | bool) -> Mask | bool:
        unsure = self._optional(self._s.unsure)
        return answer if unsure is None else _either(answer, unsure)

    def _numbers(self, answer: Mask | bool) -> Mask:
        """Restrict what the bounds leave possible to slices that can hold a number at all."""
        if answer is True:
            return self._pick(self._s.can_hold_numbers)
        if answer is False:
            return np.zeros(self._count, np.bool_) if self._unread is None else self._numbers_unread()
        numbers = answer if self._unread is None else answer | self._pick(self._unread)
        return numbers if self._all_hold_numbers else numbers & self._pick(self._s.can_hold_numbers)

    def _numbers_unread(self) -> Mask:
        assert self._unread is not None
        return self._pick(self._unread) & self._pick(self._s.can_hold_numbers)

    def _with_nan(self, numbers: Mask, nan_counts: bool) -> Mask:
        nans = self._optional(self._s.can_be_nan)
        return numbers | nans if nan_counts and nans is not None else numbers

    @property
    def _low(self) -> NDArray[np.generic]:
        return self._s.low if self._at is None else self._s.low[self._at]

    @property
    def _high(self) -> NDArray[np.generic]:
        return self._s.high if self._at is None else self._s.high[self._at]

    def _pick(self, mask: Mask) -> Mask:
        return mask if self._at is None else mask[self._at]

    def _optional(self, mask: Mask | None) -> Mask | None:
        return None if mask is None else self._pick(mask)


def _is_empty(point: Point) -> bool:
    low: Any = point.low
    high: Any = point.high
    return low is not None and high is not None and low > high


def _both(left: Mask | bool, right: Mask | bool) -> Mask | bool:
    if isinstance(left, bool):
        return left and right
    return left if right is True else False if right is False else left & right


def _either(left: Mask | bool, right: Mask | bool) -> Mask | bool:
    if isinstance(left, bool):
        return left or right
    return left if right is False else True if right is True else left | right
