"""Timestamps near the ends of 64 bits, which Trino reads as others.

Measured on Trino 483 (Hive connector): it counts microseconds in 64 bits without a look at overflow. Milliseconds in a
file are multiplied, microseconds and nanoseconds rounded half up, which adds half a unit first; beyond the largest
number follows the smallest. So a file with the largest nanosecond (2262-04-11 23:47:16.854775807) holds a moment of
1677 at the default precision of milliseconds. What lies between is read as written, up to the rounding.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.expr.exact.clock import nanoseconds
from pruner.expr.types import unit_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pruner.expr.semantics import Semantics

_NANOSECONDS_END = 2**63
_MICROSECONDS_END = _NANOSECONDS_END * 1000
_MARGIN = 1_000_000
"""The coarsest precision to which Trino reads, a millisecond, in nanoseconds."""


def is_rounded(type_: pa.DataType, semantics: Semantics) -> bool:
    """Tell whether an engine rounds the values of a column when it reads them (trap S18)."""
    unit = semantics.timestamp_unit
    return (
        unit is not None and pa.types.is_timestamp(type_) and nanoseconds(unit) > nanoseconds(unit_of(type_))
    )


def may_overflow(
    low: NDArray[np.generic], high: NDArray[np.generic], type_: pa.DataType, *, rounded: bool
) -> NDArray[np.bool_] | None:
    """Tell for each pair of bounds whether a file with them may hold a timestamp that Trino reads as another.

    Args:
        low: lower bounds in the column's unit, which may be another than that of the files.
        high: upper bounds.
        type_: type of the column.
        rounded: whether Trino rounds the column's values to a coarser unit.

    Returns:
        A mask over the pairs; None where there are no such files.
    """
    if not pa.types.is_timestamp(type_):
        return None
    unit = nanoseconds(unit_of(type_))
    numbers: tuple[Any, Any] = (low, high)
    lows, highs = numbers
    last = (_MICROSECONDS_END - 1 - (_MARGIN if rounded else 0)) // unit
    found: NDArray[np.bool_] = (highs > last) | (lows < -last - 1)
    if rounded or unit > 1:
        # Bounds of a file in nanoseconds were rounded outward to the column's unit.
        near, end = (_NANOSECONDS_END - _MARGIN) // unit, _NANOSECONDS_END // unit + 1
        found |= ((highs > near) & (highs <= end)) | ((lows < -near) & (lows >= -end))
    return found if found.any() else None
