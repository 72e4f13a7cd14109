"""The distinct values of all slices, ascending, and where literals stand among them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from pruner.arrow import as_numpy
from pruner.indexes.columns.ordering import FloatOrder, IntegerOrder, RankOrder, decimals_as_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from pruner.expr.bound.predicates import Point, StorageValue


class ValueList(Protocol):
    """Distinct values by position; literals are given in the storage domain of the column."""

    def __len__(self) -> int: ...

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal is one of this domain."""
        ...

    def starts(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Position of the first value that is not less than each literal; None is minus infinity."""
        ...

    def ends(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Position behind the last value that is not greater than each literal; None is plus infinity."""
        ...


class NumberList:
    """Integers (booleans, dates and timestamps among them) or doubles."""

    def __init__(self, values: NDArray[Any]) -> None:
        self._values = values
        self._order = FloatOrder() if values.dtype.kind == "f" else IntegerOrder(values.dtype)

    def __len__(self) -> int:
        return len(self._values)

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal is one of this domain."""
        return self._order.serves(value)

    def starts(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions of the first values that are not less; behind the last for what exceeds the type."""
        found = np.searchsorted(self._values, self._order.firsts(values), side="left")
        above = [value is not None and not self._order.reaches(value, None) for value in values]
        return np.where(above, len(self._values), found)

    def ends(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions behind the last values that are not greater; 0 for what falls below the type."""
        found = np.searchsorted(self._values, self._order.lasts(values), side="right")
        below = [value is not None and not self._order.reaches(None, value) for value in values]
        return np.where(below, 0, found)


class ByteList:
    """Strings as bytes, or decimals written so that their bytes compare as they do."""

    def __init__(self, values: pa.Array[Any]) -> None:
        decimals = pa.types.is_decimal(values.type)
        distinct: Any = decimals_as_bytes(values) if decimals else values
        self._length = len(values)
        self._order = RankOrder(distinct, decimals=decimals)

    def __len__(self) -> int:
        return self._length

    def serves(self, value: StorageValue) -> bool:
        """Tell whether a literal is one of this domain."""
        return self._order.serves(value)

    def starts(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions of the first values that are not less."""
        return np.maximum(self._order.firsts(values).astype(np.int64), 0)

    def ends(self, values: Sequence[StorageValue | None]) -> NDArray[np.int64]:
        """Positions behind the last values that are not greater."""
        return np.minimum(self._order.lasts(values).astype(np.int64) + 1, self._length)


def value_list(values: pa.Array[Any]) -> ValueList:
    """Make a list of ascending distinct values of a stored type."""
    if pa.types.is_integer(values.type) or pa.types.is_floating(values.type):
        return NumberList(as_numpy(values))
    return ByteList(values)


def inside(values: ValueList, points: Sequence[Point]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The values within each of some points that are not NaN: positions of the first, and behind the last."""
    starts = values.starts([point.low for point in points])
    return starts, np.maximum(starts, values.ends([point.high for point in points]))
