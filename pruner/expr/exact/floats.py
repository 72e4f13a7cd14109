"""Rounding to binary floating point, done exactly: which double or float stands nearest to a rational number.

Engines convert literals and columns to floating point before they compare; the bounds of what then counts as
equal follow from the rounding, so it is computed here with unbounded integers and never by another rounding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from fractions import Fraction


class Width(Enum):
    """The two formats: significant bits, exponents of the smallest quantum and of the first overflow."""

    SINGLE = (24, -149, 128)
    DOUBLE = (53, -1074, 1024)

    @property
    def exact_integers(self) -> int:
        """Every integer up to this magnitude has its own value."""
        return 1 << self.value[0]

    @property
    def largest(self) -> float:
        """The largest finite value."""
        bits, _, overflow = self.value
        return math.ldexp(2**bits - 1, overflow - bits)


def nearest(value: Fraction | int, width: Width) -> float:
    """Round to the nearest value of the format, ties to even, to infinity from the overflow limit on (IEEE
    754).
    """
    exact = Fraction(value)
    if exact == 0:
        return 0.0
    bits, smallest, overflow = width.value
    magnitude = abs(exact)
    # 2**exponent <= magnitude < 2**(exponent + 1), up to one too high
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    quantum = max(exponent - bits + 1, smallest)
    mantissa = round(magnitude / Fraction(2) ** quantum)
    overflows = mantissa.bit_length() + quantum > overflow
    result = math.inf if overflows else math.ldexp(mantissa, quantum)
    return -result if exact < 0 else result


def next_above(value: float, width: Width) -> float:
    """The next value of the format above one of it; infinity has none and is returned."""
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
    """The next value of the format below one of it; minus infinity has none and is returned."""
    return -next_above(-value, width)


def around(value: float, width: Width, steps: int) -> tuple[float, float]:
    """The values `steps` below and above."""
    low = high = value
    for _ in range(steps):
        low, high = next_below(low, width), next_above(high, width)
    return low, high


def span(value: float, width: Width) -> tuple[float, float]:
    """The smallest value of the format >= `value` and the largest <= `value`: the same one where it is in the
    format.
    """
    rounded = value if math.isinf(value) else nearest(Fraction(value), width)
    low = rounded if rounded >= value else next_above(rounded, width)
    high = rounded if rounded <= value else next_below(rounded, width)
    return low + 0.0, high + 0.0  # minus zero becomes zero


def first_where(low: int, high: int, reached: Callable[[int], bool]) -> int:
    """The smallest integer in [low, high] for which the monotone `reached` holds; `high + 1` when there is
    none.
    """
    while low <= high:
        middle = (low + high) // 2
        if reached(middle):
            high = middle - 1
        else:
            low = middle + 1
    return low
