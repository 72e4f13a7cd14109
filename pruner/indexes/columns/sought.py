"""Which values a leaf looks for, as hashes: for indexes that keep hashes of values and do not know their order.

Such an index looks values up instead of comparing them, so the values that can equal a literal are enumerated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from pruner.expr.bound.predicates import CompareLeaf, InLeaf
from pruner.expr.nodes import Operator
from pruner.expr.semantics import NanOrder
from pruner.indexes.columns.canonical import hash_of
from pruner.indexes.columns.kinds import BoundsKind, kind_of
from pruner.indexes.columns.reading import is_answerable
from pruner.verdict import Outcome

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Leaf, Point, StorageValue
    from pruner.expr.semantics import Semantics

    Hashes = NDArray[np.uint64]

MOST_IN_POINT = 16
"""Maximum number of values of an inexact literal, such as one that a cast may miss by some units in the last place."""


def values_in(point: Point, type_: pa.DataType) -> list[StorageValue] | None:
    """All values of a column of this type that can equal a literal other than NaN; None if there are too many."""
    low, high = point.low, point.high
    if low is None or high is None:
        return None
    if low == high:
        return [low]
    if isinstance(low, bytes) or isinstance(high, bytes):
        return None
    if pa.types.is_floating(type_):
        return _floats(float(low), float(high), type_)
    return list(range(int(low), int(high) + 1)) if high - low < MOST_IN_POINT else None


def _floats(low: float, high: float, type_: pa.DataType) -> list[StorageValue] | None:
    single = pa.types.is_float32(type_)
    value = float(np.float32(low)) if single else low
    if value < low:
        value = _next(value, single=single)
    values: list[StorageValue] = []
    while value <= high:
        if len(values) == MOST_IN_POINT:
            return None
        values.append(value)
        if value == math.inf:
            break
        value = _next(value, single=single)
    return values


def _next(value: float, *, single: bool) -> float:
    return (
        float(np.nextafter(np.float32(value), np.float32(math.inf)))
        if single
        else math.nextafter(value, math.inf)
    )


class SoughtValues:
    """Turns leaves on a column of one type into the hashes of the values that they look for."""

    def __init__(self, type_: pa.DataType) -> None:
        self._type = type_
        self._kind = kind_of(type_)

    def hashes(self, leaf: Leaf, outcome: Outcome, semantics: Semantics, most: int) -> Hashes | None:
        """The hashes of all values for which a leaf can evaluate to an outcome; None when `values` returns None."""
        values = self.values(leaf, outcome, semantics, most)
        if values is None:
            return None
        hashes = dict.fromkeys(hash_of(value, self._type) for value in values)
        return np.fromiter(hashes, np.uint64, len(hashes))

    def values(
        self, leaf: Leaf, outcome: Outcome, semantics: Semantics, most: int
    ) -> list[StorageValue] | None:
        """All values for which a leaf can evaluate to an outcome, some perhaps twice.

        None if unknown: the leaf asks something else, or for more than `most` values.
        """
        points = _points(leaf, outcome)
        if points is None or not isinstance(leaf, CompareLeaf | InLeaf):
            return None
        if not is_answerable(leaf, self._type, self._serves, semantics):
            return None
        collected: list[StorageValue] = []
        for point in points:
            values = self._values(point, semantics)
            if values is None or len(collected) + len(values) > most:
                return None
            collected += values
        return collected

    def all_hashes(self, leaves: Sequence[Leaf], most: int) -> Hashes:
        """The hashes that some leaves can look for under any semantics, ascending; leaves with too many have none."""
        hashed: set[int] = set()
        for leaf in leaves:
            hashes = set(self._any_of(leaf))
            if len(hashes) <= most:
                hashed |= hashes
        return np.sort(np.fromiter(hashed, np.uint64, len(hashed)))

    def is_exact(self, leaf: Leaf) -> bool:
        """Tell whether every row with one of the hashes that a leaf looks for makes it true."""
        points = _points(leaf, Outcome.TRUE)
        return points is not None and all(point.exact for point in points) and self.tells_all_apart

    @property
    def tells_all_apart(self) -> bool:
        """True if all values of the type have distinct hashes: XXH64 of 8 bytes can be inverted step by step."""
        types = pa.types
        if types.is_timestamp(self._type) or types.is_time(self._type) or types.is_uint64(self._type):
            return False  # some of them have more than 64 bits, in nanoseconds or with a sign
        return self._kind in (BoundsKind.INTEGER, BoundsKind.FLOAT)

    def _any_of(self, leaf: Leaf) -> Iterator[int]:
        points = _points(leaf, Outcome.TRUE) or _points(leaf, Outcome.FALSE) or ()
        for point in points:
            if point.nan:
                values: list[StorageValue] | None = [float("nan")]
            elif all(end is None or self._serves(end) for end in (point.low, point.high)):
                values = values_in(point, self._type)
            else:
                values = None
            for value in values or ():
                yield hash_of(value, self._type)

    def _values(self, point: Point, semantics: Semantics) -> list[StorageValue] | None:
        if point.nan:
            return [float("nan")] if semantics.nan_order is NanOrder.GREATEST else []
        return values_in(point, self._type)

    def _serves(self, value: StorageValue) -> bool:
        match self._kind:
            case BoundsKind.BYTES:
                return isinstance(value, bytes)
            case BoundsKind.FLOAT:
                return isinstance(value, int | float) and not isinstance(value, bool)
            case _:
                return isinstance(value, int)


def _points(leaf: Leaf, outcome: Outcome) -> Sequence[Point] | None:
    """The points of which a value must equal one for a leaf to evaluate to an outcome; None for other leaves."""
    match leaf, outcome:
        case (CompareLeaf(operator=Operator.EQ), Outcome.TRUE) | (
            CompareLeaf(operator=Operator.NE),
            Outcome.FALSE,
        ):
            return [leaf.point]
        case InLeaf(), Outcome.TRUE:
            return leaf.points
        case _:
            return None
