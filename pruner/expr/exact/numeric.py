"""Numbers, exactly: literals against number columns, and rounding to binary floating point.

| column | literal | compared |
|---|---|---|
| integer, decimal | integer, decimal | exactly, as decimals; beyond 38 digits DuckDB rounds |
| integer, decimal | float, double | in floating point: several rounded values may equal the literal |
| float, double | integer, decimal | DuckDB rounds the literal to the column's type; Spark and Trino vary |
| float, double | float, double | exactly: float to double loses nothing |

Sources: DuckDB's plans (`EXPLAIN` with the optimizer off, 2.0.0); Spark's `TypeCoercion`, `AnsiTypeCoercion`
and `DecimalPrecision`; Trino's `TypeCoercion`. Where an engine's rule is uncertain, the point covers
every rule that it may follow and is not exact.

Exact rounding to binary floating point: the double or float that is nearest to a rational number.

Engines convert literals and columns to floating point before they compare; the bounds of what then counts as
equal follow from the rounding, so it is computed here with unbounded integers and never by another rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from fractions import Fraction
from typing import Final

import pyarrow as pa

from pruner.expr.bound.predicates import Coerced, NotComparable, Point
from pruner.expr.engines import Traits
from pruner.expr.nodes import Literal
from pruner.expr.semantics import NanOrder, Semantics
from pruner.expr.types import decimal_digits, integer_digits, integer_range


class Width(Enum):
    """The two formats: significant bits, exponent of the smallest quantum, exponent of the first overflow."""

    SINGLE = (24, -149, 128)
    DOUBLE = (53, -1074, 1024)

    @property
    def exact_integers(self) -> int:
        """Every integer up to this magnitude is represented exactly."""
        return 1 << self.value[0]

    @property
    def largest(self) -> float:
        """The largest finite value."""
        bits, _, overflow = self.value
        return math.ldexp(2**bits - 1, overflow - bits)


def nearest(value: Fraction | int, width: Width) -> float:
    """Round to the nearest value of the format, ties to even, to infinity from the overflow limit on (IEEE 754)."""
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    bits, smallest, overflow = width.value
    magnitude = abs(exact)
    # 2**exponent <= magnitude < 2**(exponent + 1), or one too high
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    quantum = max(exponent - bits + 1, smallest)
    mantissa = round(magnitude / Fraction(2) ** quantum)
    overflows = mantissa.bit_length() + quantum > overflow
    result = math.inf if overflows else math.ldexp(mantissa, quantum)
    return -result if exact < 0 else result


def next_above(value: float, width: Width) -> float:
    """The next value of the format above a value of it; infinity has none and is returned."""
    if width is Width.DOUBLE or math.isinf(value):
        return math.nextafter(value, math.inf) if value != -math.inf else -width.largest
    if value == 0:
        return math.ldexp(1, Width.SINGLE.value[1])
    _, exponent = math.frexp(value)
    if value < 0 and math.frexp(value)[0] == -0.5:
        exponent -= 1  # below a power of two the quantum is half as large
    quantum = math.ldexp(1, max(exponent - 24, Width.SINGLE.value[1]))
    above = value + quantum
    return math.inf if above > width.largest else above


def next_below(value: float, width: Width) -> float:
    """The next value of the format below a value of it; minus infinity has none and is returned."""
    return -next_above(-value, width)


def around(value: float, width: Width, steps: int) -> tuple[float, float]:
    """The values `steps` below and above."""
    low = high = value
    for _ in range(steps):
        low, high = next_below(low, width), next_above(high, width)
    return low, high


def span(value: float, width: Width) -> tuple[float, float]:
    """The smallest value of the format >= `value` and the largest <= `value`; equal where the format has `value`."""
    rounded = value if math.isinf(value) else nearest(Fraction(value), width)
    low = rounded if rounded >= value else next_above(rounded, width)
    high = rounded if rounded <= value else next_below(rounded, width)
    return low + 0.0, high + 0.0  # minus zero becomes zero


def first_where(low: int, high: int, reached: Callable[[int], bool]) -> int:
    """The smallest integer in [low, high] for which the monotone `reached` holds; `high + 1` when there is none."""
    while low <= high:
        middle = (low + high) // 2
        if reached(middle):
            high = middle - 1
        else:
            low = middle + 1
    return low


DECIMAL_DIGITS: Final = 38
"""Maximum digits of a decimal in all three engines."""

CAST_SLACK: Final = 3
"""Units in the last place by which an engine's cast of a decimal may miss the nearest float."""

_EXACT_POWERS: Final = {Width.SINGLE: 10, Width.DOUBLE: 22}
"""The highest power of ten that each format holds exactly."""


@dataclass(frozen=True, slots=True)
class _Exact:
    """An integer or decimal literal, unscaled / 10**scale; its type has `whole_digits` before the point."""

    unscaled: int
    scale: int
    whole_digits: int

    @property
    def value(self) -> Fraction:
        return Fraction(self.unscaled, 10**self.scale)


def coerce_number(column: pa.DataType, literal: Literal, semantics: Semantics) -> Coerced:
    """Coerce a number literal (not NULL) to a number column; both types are numbers."""
    width = _width(column)
    if _width(literal.type) is not None:
        return _floating_literal(column, width, literal, semantics)
    exact = _exact(literal, semantics.traits)
    if exact is None:
        return NotComparable("the literal is not a finite number")
    if width is not None:
        return _rounded_literal(width, exact, semantics.traits)
    return _exact_literal(column, exact, semantics.traits)


def _width(data_type: pa.DataType) -> Width | None:
    if pa.types.is_float32(data_type):
        return Width.SINGLE
    return Width.DOUBLE if pa.types.is_float64(data_type) else None


def _exact(literal: Literal, traits: Traits) -> _Exact | None:
    value = literal.value
    if isinstance(value, int):
        in_type = pa.types.is_integer(literal.type) and abs(value) < 2**63
        digits = integer_digits(literal.type) if in_type else DECIMAL_DIGITS + 1
        return _Exact(value, 0, len(str(abs(value))) if traits.counts_literal_digits else digits)
    if isinstance(value, Decimal) and value.is_finite():
        precision, type_scale = decimal_digits(literal.type)
        scale = max(type_scale, -int(value.as_tuple().exponent), 0)
        whole = max(precision - type_scale, len(str(abs(int(value)))))
        return _Exact(int(Fraction(value) * 10**scale), scale, whole)
    return None


def _exact_literal(column: pa.DataType, literal: _Exact, traits: Traits) -> Coerced:
    """Both sides become decimals with room for both, if 38 digits are enough."""
    if pa.types.is_integer(column):
        if traits.decides_misfits_by_literal and not -(2**63) <= literal.value < 2**63:
            # DecimalPrecision.integralAndDecimalLiteral replaces it by TRUE or FALSE, for NULL as well.
            reason = f"{traits.title} decides it by the literal alone, whether the column is NULL or not"
            return NotComparable(reason)
        if literal.scale == 0:
            return Point(literal.unscaled, literal.unscaled)
        whole, scale = integer_digits(column), 0
    else:
        precision, scale = decimal_digits(column)
        whole = precision - scale
    unit = 10**scale
    whole = max(whole, literal.whole_digits)
    if whole + max(scale, literal.scale) <= DECIMAL_DIGITS:
        return Point(math.ceil(literal.value * unit), math.floor(literal.value * unit))
    if not traits.rounds_beyond_38_digits:
        return NotComparable("comparing the two takes more than 38 digits")
    # DuckDB rounds both to the remaining scale (LogicalType::MaxLogicalType).
    slack = Fraction(1, 10 ** max(0, DECIMAL_DIGITS - whole))
    low, high = (literal.value - slack) * unit, (literal.value + slack) * unit
    return Point(math.floor(low), math.ceil(high), exact=False)


def _rounded_literal(width: Width, literal: _Exact, traits: Traits) -> Point:
    """An integer or decimal literal against a float or double column."""
    rounded, certain = cast_to_floating(literal.unscaled, literal.scale, width)
    low, high = (rounded, rounded) if certain else around(rounded, width, CAST_SLACK)
    if width is Width.SINGLE and not traits.compares_single_precision:
        # Spark compares float with decimal in double, Trino in real, and ANSI mode changes this for integers.
        doubled, doubled_certain = cast_to_floating(literal.unscaled, literal.scale, Width.DOUBLE)
        ends = span(doubled, Width.SINGLE)
        low, high = min(low, *ends), max(high, *ends)
        certain = certain and doubled_certain and low == high
    return Point(low + 0.0, high + 0.0, exact=certain)


def cast_to_floating(unscaled: int, scale: int, width: Width) -> tuple[float, bool]:
    """Cast a decimal to floating point by division, as engines do; also tell whether all of them get this value.

    They do while the unscaled value and the power of ten are exact in the format, because the division then
    rounds once.
    """
    certain = abs(unscaled) <= width.exact_integers and scale <= _EXACT_POWERS[width]
    return nearest(Fraction(unscaled, 10**scale), width), certain


def _floating_literal(
    column: pa.DataType, width: Width | None, literal: Literal, semantics: Semantics
) -> Coerced:
    value = literal.value
    assert isinstance(value, float)  # LiteralValue's table
    if math.isnan(value):
        if width is not None:
            return Point(None, None, nan=True)
        return (
            _beyond(column) if semantics.nan_order is NanOrder.GREATEST else NotComparable("NaN has no order")
        )
    if width is not None:
        return Point(*(span(value, width) if width is Width.SINGLE else (value + 0.0, value + 0.0)))
    widths = {Width.DOUBLE}
    if pa.types.is_float32(literal.type):
        # DuckDB compares in float; Spark in float or, in ANSI mode and for decimals, in double.
        alone = semantics.traits.compares_single_precision
        widths = {Width.SINGLE} if alone else {Width.SINGLE, Width.DOUBLE}
    points = [_against_rounded(column, value, compared) for compared in widths]
    return hull(points)


def _beyond(column: pa.DataType) -> Point:
    """A literal that is greater than every value of the column."""
    if pa.types.is_integer(column):
        largest = integer_range(column)[1]
        return Point(largest + 1, largest)
    beyond = 10 ** decimal_digits(column)[0]
    return Point(beyond, beyond - 1)


def _against_rounded(column: pa.DataType, value: float, width: Width) -> Point:
    """The point of integers or unscaled decimals that equal `value` once rounded to `width`."""
    if pa.types.is_integer(column):
        smallest, largest = integer_range(column)
        certain, scale = True, 0
    else:
        precision, scale = decimal_digits(column)
        largest = 10**precision - 1
        smallest = -largest
        certain = largest <= width.exact_integers and scale <= _EXACT_POWERS[width]
    if not math.isinf(value) and abs(value) < width.exact_integers // 2 and scale == 0 and certain:
        return Point(math.ceil(value), math.floor(value))
    low, high = (value, value) if certain else around(value, width, CAST_SLACK + 1)

    def rounded(unscaled: int) -> float:
        return nearest(Fraction(unscaled, 10**scale), width)

    return Point(*preimage(rounded, low, high, smallest, largest), exact=certain)


def preimage(
    monotone: Callable[[int], float], low: float, high: float, smallest: int, largest: int
) -> tuple[int, int]:
    """The first integer in [smallest, largest] that maps to `low` or more, and the last that maps to `high` or less."""
    first = first_where(smallest, largest, lambda number: monotone(number) >= low)
    last = first_where(smallest, largest, lambda number: monotone(number) > high) - 1
    return first, last


def hull(points: list[Point]) -> Point:
    """The point that is valid whichever of several is right; exact only when they are all the same."""
    first = points[0]
    if all(point == first for point in points):
        return first
    lows = [point.low for point in points if point.low is not None]
    highs = [point.high for point in points if point.high is not None]
    ends = lows + highs
    low = None if len(lows) < len(points) else min(ends)
    high = None if len(highs) < len(points) else max(ends)
    return Point(low, high, exact=False)
