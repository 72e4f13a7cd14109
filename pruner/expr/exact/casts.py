"""Undoing casts over a column that keep the order of its values: `CAST(c AS T) < x` as a statement about `c`.

Only casts that never fail and never lose the order qualify: integers to wider integers, to decimals with room
for them, to float and to double; float to double; decimals to wider ones and to double; dates to
timestamps without zone; timestamps to finer units of the same kind. Casts to nanoseconds fail for far moments
(`safe_range`). Everything else, above all narrowing casts (`CAST(4294967297 AS INT) = 1`), is not undone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

import pyarrow as pa

from pruner.expr.bound.predicates import Point, StorageValue
from pruner.expr.exact.clock import DAY, nanoseconds
from pruner.expr.exact.numeric import CAST_SLACK, Width, around, nearest, preimage, span
from pruner.expr.semantics import Semantics
from pruner.expr.types import (
    decimal_digits,
    integer_range,
    is_instant,
    is_naive_timestamp,
    is_string,
    unit_of,
)

_EXACT_DIGITS = 15
"""Decimals of up to this many digits are cast to double by one exact division, which all engines round alike."""

_MOST_NANOSECONDS = 2**63 - 1

Undo: TypeAlias = Callable[[Point], Point]
"""Turns a point in the domain of the cast's result into one in the domain of the column."""


def undo_cast(column: pa.DataType, target: pa.DataType, semantics: Semantics) -> Undo | None:
    """The inverse of a cast, or None for one that may fail, lose or reorder values."""
    if column == target:
        return _same
    if pa.types.is_integer(column):
        return _from_integer(column, target)
    if pa.types.is_decimal(column):
        return _from_decimal(column, target)
    if pa.types.is_float32(column) and pa.types.is_float64(target):
        return _from_single
    if is_string(column) and is_string(target):
        return _same  # the same text, stored differently
    if not pa.types.is_timestamp(target) or semantics.timestamp_unit is not None:
        return None
    if pa.types.is_date32(column) and is_naive_timestamp(target):
        return _scaled(DAY // nanoseconds(unit_of(target)))
    if pa.types.is_timestamp(column) and is_instant(column) == is_instant(target):
        finer, remainder = divmod(nanoseconds(unit_of(column)), nanoseconds(unit_of(target)))
        return _scaled(finer) if remainder == 0 else None
    return None


def safe_range(column: pa.DataType, target: pa.DataType) -> tuple[int, int] | None:
    """The values of a column for which a cast to nanoseconds does not fail; None where no cast needs a check.

    Nanoseconds end in the years 1677 and 2262, and a date of 9999 commonly means "forever". The bounds of other
    timestamps are far beyond the values that occur.
    """
    if not pa.types.is_timestamp(target) or unit_of(target) != "ns" or column == target:
        return None
    most = _MOST_NANOSECONDS // (DAY if pa.types.is_date(column) else nanoseconds(unit_of(column)))
    return -most, most


def _same(point: Point) -> Point:
    return point


def _from_integer(column: pa.DataType, target: pa.DataType) -> Undo | None:
    smallest, largest = integer_range(column)
    if pa.types.is_integer(target):
        lowest, highest = integer_range(target)
        return _same if lowest <= smallest and largest <= highest else None
    if pa.types.is_decimal(target):
        precision, scale = decimal_digits(target)
        room = len(str(largest))  # an engine may reserve more (20 digits for BIGINT), which is not needed
        return _scaled(10**scale) if precision - scale >= room else None
    if pa.types.is_float64(target):
        return _rounded(0, smallest, largest)
    if pa.types.is_float32(target):
        # A detour through double may miss the nearest float by one.
        slack = 0 if largest <= Width.SINGLE.exact_integers else 1
        return _rounded(0, smallest, largest, slack=slack, width=Width.SINGLE)
    return None


def _from_decimal(column: pa.DataType, target: pa.DataType) -> Undo | None:
    precision, scale = decimal_digits(column)
    if pa.types.is_decimal(target):
        target_precision, target_scale = decimal_digits(target)
        finer = target_scale - scale
        room = target_precision - target_scale >= precision - scale
        return _scaled(10**finer) if finer >= 0 and room else None
    if pa.types.is_float64(target):
        largest = 10**precision - 1
        return _rounded(scale, -largest, largest, slack=0 if precision <= _EXACT_DIGITS else CAST_SLACK + 1)
    return None


def _scaled(factor: int) -> Undo:
    """The inverse of multiplying every value by `factor`."""

    def undo(point: Point) -> Point:
        low, high = _number(point.low), _number(point.high)
        first = None if low is None else math.ceil(Fraction(low) / factor)
        last = None if high is None else math.floor(Fraction(high) / factor)
        empty = first is not None and last is not None and first > last
        return Point(first, last, exact=point.exact or empty)

    return undo


def _rounded(scale: int, smallest: int, largest: int, slack: int = 0, width: Width = Width.DOUBLE) -> Undo:
    """The inverse of dividing every value by 10**scale and rounding it, up to `slack` units in the last place off."""

    def rounded(unscaled: int) -> float:
        return nearest(Fraction(unscaled, 10**scale), width)

    def undo(point: Point) -> Point:
        low, high = _number(point.low), _number(point.high)
        low = -math.inf if low is None else low
        high = math.inf if high is None else high
        below, above = around(float(low), width, slack)[0], around(float(high), width, slack)[1]
        first, last = preimage(rounded, below, above, smallest, largest)
        return Point(first, last, exact=(point.exact and not slack) or first > last)

    return undo


def _from_single(point: Point) -> Point:
    if point.nan:
        return point
    low, high = _number(point.low), _number(point.high)
    first = None if low is None else span(float(low), Width.SINGLE)[0]
    last = None if high is None else span(float(high), Width.SINGLE)[1]
    return Point(first, last, exact=point.exact)


def _number(value: StorageValue | None) -> int | float | None:
    assert not isinstance(value, bytes)  # number domains hold numbers
    return value
