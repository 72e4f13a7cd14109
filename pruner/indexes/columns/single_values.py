"""The values that can equal a literal, one by one, for what looks values up instead of comparing them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pruner.expr.bound.predicates import Point, StorageValue

MOST_IN_POINT = 16
"""Values of a literal that is not certain, such as one that a cast may miss by some units in the last place."""


def values_in(point: Point, type_: pa.DataType) -> list[StorageValue] | None:
    """All values of a column of this type that can equal a literal other than NaN; None where they are too many."""
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
    found: list[StorageValue] = []
    while value <= high:
        if len(found) == MOST_IN_POINT:
            return None
        found.append(value)
        if value == math.inf:
            break
        value = _next(value, single=single)
    return found


def _next(value: float, *, single: bool) -> float:
    return (
        float(np.nextafter(np.float32(value), np.float32(math.inf)))
        if single
        else math.nextafter(value, math.inf)
    )
