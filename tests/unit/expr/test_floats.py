"""Exact rounding, compared with numpy and Python."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from pruner.expr.exact.numeric import Width, around, first_where, nearest, next_above, next_below, span

SINGLES = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**40))
def test_nearest_double_is_the_languages_division(numerator: int, denominator: int) -> None:
    assert nearest(Fraction(numerator, denominator), Width.DOUBLE) == numerator / denominator


@given(DOUBLES.filter(math.isfinite))
def test_nearest_single_is_numpys_rounding(value: float) -> None:
    with np.errstate(over="ignore"):
        assert nearest(Fraction(value), Width.SINGLE) == float(np.float32(value))


@given(SINGLES)
def test_neighbours_of_singles(value: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        assert next_above(value, Width.SINGLE) == float(np.nextafter(np.float32(value), np.float32(math.inf)))
        assert next_below(value, Width.SINGLE) == float(
            np.nextafter(np.float32(value), np.float32(-math.inf))
        )


@given(DOUBLES)
def test_neighbours_of_doubles(value: float) -> None:
    assert next_above(value, Width.DOUBLE) == math.nextafter(value, math.inf)
    assert next_below(value, Width.DOUBLE) == math.nextafter(value, -math.inf)


@given(DOUBLES)
def test_span_encloses_without_a_gap(value: float) -> None:
    low, high = span(value, Width.SINGLE)
    assert high <= value <= low
    assert low in (high, next_above(high, Width.SINGLE))
    assert (low == high) == (math.isinf(value) or nearest(Fraction(value), Width.SINGLE) == value)


def test_edges() -> None:
    assert nearest(Fraction(2) ** 128, Width.SINGLE) == math.inf
    assert nearest(-(Fraction(2) ** 1024), Width.DOUBLE) == -math.inf
    assert nearest(Fraction(1, 2**151), Width.SINGLE) == 0.0
    assert nearest(2**24 + 1, Width.SINGLE) == 2.0**24
    assert span(1e300, Width.SINGLE) == (math.inf, Width.SINGLE.largest)
    assert math.copysign(1, span(-0.0, Width.SINGLE)[0]) == 1
    assert around(0.0, Width.DOUBLE, 2) == (-1e-323, 1e-323)


@given(st.integers(-50, 50), st.integers(-50, 50), st.integers(-60, 60))
def test_first_where(low: int, high: int, threshold: int) -> None:
    matches = [number for number in range(low, high + 1) if number >= threshold]
    assert first_where(low, high, lambda number: number >= threshold) == (matches or [max(low, high + 1)])[0]
