"""The distinct values of all slices, ascending, and the entries of a bitmap index to which a leaf predicate reduces.

The entries follow from the order of the values alone, independently of the slices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, assert_never

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy
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
from pruner.indexes.columns.ordering import FloatOrder, IntegerOrder, RankOrder, decimals_as_bytes
from pruner.indexes.columns.reading import is_answerable
from pruner.indexes.row_sets import Entries
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf, Point, StorageValue
    from pruner.expr.semantics import Semantics

    Mask = NDArray[np.bool_]


class ValueList(Protocol):
    """Distinct values by position; literals are given in the storage domain of the column."""

    def __len__(self) -> int: ...

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal belongs to this domain."""
        ...

    def starts(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Position of the first value that is not less than each literal; None is minus infinity."""
        ...

    def ends(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Position after the last value that is not greater than each literal; None is plus infinity."""
        ...


class NumberList:
    """Integers (booleans, dates and timestamps among them) or doubles."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values
        self._order = FloatOrder() if values.dtype.kind == "f" else IntegerOrder(values.dtype)

    def __len__(self) -> int:
        return len(self._values)

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal belongs to this domain."""
        return self._order.serves(value)

    def starts(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions of the first values that are not less; after the last for literals above the type."""
        starts = np.searchsorted(self._values, self._order.firsts(values), side="left")
        above = [value is not None and not self._order.reaches(value, None) for value in values]
        return np.where(above, len(self._values), starts)

    def ends(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions after the last values that are not greater; 0 for literals below the type."""
        ends = np.searchsorted(self._values, self._order.lasts(values), side="right")
        below = [value is not None and not self._order.reaches(None, value) for value in values]
        return np.where(below, 0, ends)


class ByteList:
    """Strings as bytes, or decimals encoded so that their bytes compare as they do."""

    def __init__(self, values: pa.Array[Any]) -> None:
        decimals = pa.types.is_decimal(values.type)
        distinct: Any = decimals_as_bytes(values) if decimals else values
        self._length = len(values)
        self._order = RankOrder(distinct, decimals=decimals)

    def __len__(self) -> int:
        return self._length

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal belongs to this domain."""
        return self._order.serves(value)

    def starts(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions of the first values that are not less."""
        return np.maximum(self._order.firsts(values).astype(np.int64), 0)

    def ends(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions after the last values that are not greater."""
        return np.minimum(self._order.lasts(values).astype(np.int64) + 1, self._length)


def value_list(values: pa.Array[Any]) -> ValueList:
    """Make a list of ascending distinct values of a stored type."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return NumberList(as_numpy(values))
    return ByteList(values)


def inside(values: ValueList, points: Sequence[Point]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The values within each of some points that are not NaN: the position of the first, and that after the last."""
    starts = values.starts([point.low for point in points])
    return starts, np.maximum(starts, values.ends([point.high for point in points]))


class LeafEntries:
    """Turns leaves into sets of entries: the values by their position in a list, then NaN, then NULL."""

    def __init__(self, values: ValueList, type_: pa.DataType) -> None:
        self._values = values
        self._type = type_
        self._nan = len(values)
        self._null = len(values) + 1

    def entries(self, leaf: Leaf, outcome: Outcome, semantics: Semantics) -> Entries | None:
        """The entries whose rows can make `leaf` evaluate to `outcome`; None if the leaf cannot be answered."""
        if isinstance(leaf, IsNullLeaf | NotNullLeaf):
            return self._without_values(leaf, outcome)
        if isinstance(leaf, RecurringLeaf):
            return None  # it asks for more than the order of the values
        if not is_answerable(leaf, self._type, self._values.serves, semantics):
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
        return np.zeros(self._null + 1, np.bool_)

    def _numbers(self) -> Mask:
        mask = self._none()
        mask[: self._nan] = True
        return mask

    def _without_values(self, leaf: IsNullLeaf | NotNullLeaf, outcome: Outcome) -> Entries:
        null = self._none()
        null[self._null] = True
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
        entries = Entries(self._none())
        if isinstance(leaf, InLeaf) and leaf.has_null:
            entries = self._not_listed(leaf, semantics)
        entries.mask[self._null] = True
        return entries

    def _compare(self, leaf: CompareLeaf, outcome: Outcome, semantics: Semantics) -> Entries:
        operator = leaf.operator if outcome is Outcome.TRUE else leaf.operator.negated
        mask, exact = self._none(), True
        if leaf.point.nan:
            # All numbers compare alike with NaN.
            below = leaf.operator in (Operator.LT, Operator.LE, Operator.NE)
            mask[: self._nan] = below is (outcome is Outcome.TRUE)
        else:
            exact = self._mark(mask, operator, leaf.point)
        nan_is_true = nan_makes_true(leaf, semantics)
        mask[self._nan] = nan_is_true is (outcome is Outcome.TRUE)
        return Entries(mask, exact)

    def _mark(self, mask: Mask, operator: Operator, point: Point) -> bool:
        """Mark the values that can make `value operator point` true; returns whether all of them do."""
        starts, ends = inside(self._values, [point])
        start, end, last = int(starts[0]), int(ends[0]), self._nan
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
        for start, end, point in zip(*inside(self._values, points), points, strict=True):
            mask[start:end] = True
            exact &= point.exact or bool(start == end)
        mask[self._nan] = nan_makes_true(leaf, semantics)
        return Entries(mask, exact)

    def _not_listed(self, leaf: InLeaf, semantics: Semantics) -> Entries:
        """Entries other than NULL that may differ from all of the points."""
        points = [point for point in leaf.points if not point.nan]
        mask, exact = self._numbers(), True
        for start, end, point in zip(*inside(self._values, points), points, strict=True):
            if point.exact:
                mask[start:end] = False
            exact &= point.exact or bool(start == end)
        mask[self._nan] = not nan_makes_true(leaf, semantics)
        return Entries(mask, exact)

    def _prefix(self, leaf: PrefixLeaf, outcome: Outcome) -> Entries:
        behind = successor(leaf.prefix)
        start = int(self._values.starts([leaf.prefix])[0])
        end = self._nan if behind is None else int(self._values.starts([behind])[0])
        mask = self._none()
        if outcome is Outcome.TRUE:
            mask[start:end] = True
        else:
            mask[: self._nan] = True
            if leaf.whole:
                mask[start:end] = False
        return Entries(mask, leaf.whole or start == end)
