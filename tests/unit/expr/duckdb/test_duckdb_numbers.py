"""Number literals against number columns: the bound predicate must leave DuckDB's answer possible."""

from __future__ import annotations

import math
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pruner.expr.bound.predicates import CompareLeaf, NotNullLeaf, Point
from pruner.expr.exact.numeric import Width, around, nearest
from pruner.expr.types import decimal_digits, integer_range
from tests.support.running.profiles import examples
from tests.unit.expr.duckdb.duckdb_oracle import bound, check

OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()]
DECIMALS = [
    pa.decimal128(4, 2),
    pa.decimal128(9, 9),
    pa.decimal128(15, 3),
    pa.decimal128(18, 6),
    pa.decimal128(38, 0),
    pa.decimal128(38, 10),
    pa.decimal128(38, 30),
]
FLOATS = [pa.float32(), pa.float64()]
TYPES = [*INTEGERS, *DECIMALS, *FLOATS]
CASTS = [
    "TINYINT",
    "INTEGER",
    "BIGINT",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL(4,1)",
    "DECIMAL(38,0)",
    "DECIMAL(38,20)",
]

EDGES = sorted(
    {
        sign * (2**power + offset)
        for power in (0, 7, 8, 15, 16, 24, 31, 32, 53, 63, 64)
        for offset in (-1, 0, 1)
        for sign in (1, -1)
    }
    | {0, 5, 10, 100, 10**15, 10**18, -(10**18)}
)


@st.composite
def rationals(draw: st.DrawFn) -> Fraction:
    """Numbers near the edges of types, or small, with few decimal places: they often coincide."""
    whole = draw(st.sampled_from(EDGES) | st.integers(-30, 30))
    digits = draw(st.sampled_from([0, 0, 0, 1, 2, 6, 12, 25]))
    return whole + Fraction(draw(st.integers(-(10 ** min(digits, 3)), 10 ** min(digits, 3))), 10**digits)


def written(number: Fraction) -> str:
    """The number in decimal notation; its denominator divides a power of ten."""
    scale = 0
    while (number * 10**scale).denominator != 1:
        scale += 1
    digits = str(abs(int(number * 10**scale))).rjust(scale + 1, "0")
    text = digits if scale == 0 else f"{digits[:-scale]}.{digits[-scale:]}"
    return f"-{text}" if number < 0 else text


@st.composite
def literals(draw: st.DrawFn, near: Fraction) -> str:
    """SQL of a constant at or near a number."""
    number = draw(st.just(near) | rationals())
    match draw(st.sampled_from(["plain", "plain", "plain", "double", "cast", "text", "wide", "special"])):
        case "double":
            value = nearest(number, Width.DOUBLE)
            value = math.nextafter(value, draw(st.sampled_from([math.inf, -math.inf, value])))
            return repr(value) if "e" in repr(value) else f"{value!r}e0"
        case "cast":
            inner = draw(
                st.sampled_from([written(number), f"'{written(number)}'", f"{written(number)}::FLOAT"])
            )
            outer = f"CAST({inner} AS {draw(st.sampled_from(CASTS))})"
            return draw(
                st.sampled_from([outer, f"-{outer}", f"CAST({outer} AS {draw(st.sampled_from(CASTS))})"])
            )
        case "text":
            return f"'{written(number)}'"
        case "wide":
            return written(number + Fraction(draw(st.integers(1, 9)), 10**20))
        case "special":
            return draw(
                st.sampled_from(
                    ["'nan'::DOUBLE", "'inf'::FLOAT", "'-inf'::DOUBLE", "-0.0", "-0e0", "NULL", "1e300"]
                )
            )
        case _:
            return written(number)


def values_near(number: Fraction, data_type: pa.DataType) -> list[int | float | None]:
    """The values of a type around a number, and those at the ends of the type."""
    if pa.types.is_floating(data_type):
        width = Width.SINGLE if pa.types.is_float32(data_type) else Width.DOUBLE
        middle = nearest(number, width)
        near = [middle, *around(middle, width, 1), *around(middle, width, 3)]
        return [*near, 0.0, -0.0, math.nan, math.inf, -math.inf, None]
    if pa.types.is_decimal(data_type):
        precision, scale = decimal_digits(data_type)
        largest = 10**precision - 1
        smallest = -largest
    else:
        (smallest, largest), scale = integer_range(data_type), 0
    middle = math.floor(number * 10**scale)
    near = [middle + offset for offset in (-(10**scale), -2, -1, 0, 1, 2, 10**scale)]
    return [*(value for value in near if smallest <= value <= largest), smallest, largest, 0, None]


@settings(max_examples=examples(400))
@given(data=st.data())
def test_comparisons(data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from(TYPES))
    near = data.draw(rationals())
    literal = data.draw(literals(near))
    predicate = (
        f"c {data.draw(OPERATORS)} {literal}"
        if data.draw(st.booleans())
        else f"{literal} {data.draw(OPERATORS)} c"
    )
    check(predicate, values_near(near, data_type), data_type)


@settings(max_examples=examples(250))
@given(data=st.data())
def test_lists_and_ranges(data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from(TYPES))
    near = data.draw(rationals())
    options = data.draw(st.lists(literals(near), min_size=2, max_size=4))
    negated = data.draw(st.sampled_from(["", "NOT "]))
    predicate = data.draw(
        st.sampled_from(
            [f"c {negated}IN ({', '.join(options)})", f"c {negated}BETWEEN {options[0]} AND {options[1]}"]
        )
    )
    check(predicate, values_near(near, data_type), data_type)


@settings(max_examples=examples(120))
@given(data=st.data())
def test_casts_of_the_column(data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from(TYPES))
    near = data.draw(rationals())
    predicate = (
        f"CAST(c AS {data.draw(st.sampled_from(CASTS))}) {data.draw(OPERATORS)} {data.draw(literals(near))}"
    )
    # One value at a time: a narrowing cast fails on others.
    for value in values_near(near, data_type):
        check(predicate, [value], data_type)


@pytest.mark.parametrize(
    ("data_type", "literal", "point"),
    [
        (pa.int32(), "7", Point(7, 7)),
        (pa.int64(), "9007199254740992e0", Point(2**53, 2**53 + 1)),
        (pa.int64(), "9007199254740994e0", Point(2**53 + 2, 2**53 + 2)),
        (pa.int32(), "1.5e0", Point(2, 1)),
        (pa.decimal128(9, 2), "1.5", Point(150, 150)),
        (pa.decimal128(9, 2), "1.005", Point(101, 100)),
        (pa.decimal128(15, 3), "0.1e0", Point(100, 100)),
        (pa.float64(), "0.1", Point(0.1, 0.1)),
        (pa.float64(), "3", Point(3.0, 3.0)),
        (
            pa.float32(),
            "0.1",
            Point(nearest(Fraction(1, 10), Width.SINGLE), nearest(Fraction(1, 10), Width.SINGLE)),
        ),
        (pa.float32(), "16777217", Point(16777213.0, 16777222.0, exact=False)),
        (pa.float64(), "-0.0", Point(0.0, 0.0)),
    ],
)
def test_points_are_as_narrow_as_can_be(data_type: pa.DataType, literal: str, point: Point) -> None:
    leaf = bound(f"c >= {literal}", data_type)
    assert isinstance(leaf, CompareLeaf)
    assert leaf.point == point


@pytest.mark.parametrize(
    ("predicate", "answer"),
    [
        ("c < 3000000000", True),
        ("c >= 3000000000", False),
        ("c > -1e30", True),
        ("c = 1.5", False),
        ("c <> 1.5", True),
        ("c <= 'inf'::DOUBLE", True),
        ("c < 'nan'::DOUBLE", True),
        ("c IN (1.5, 99999999999)", False),
    ],
)
def test_a_literal_that_no_value_reaches_decides(predicate: str, answer: bool) -> None:
    leaf = bound(predicate, pa.int32())
    assert leaf == NotNullLeaf(leaf.field, answer) if isinstance(leaf, NotNullLeaf) else False


@pytest.mark.parametrize(
    ("predicate", "data_type", "values"),
    [
        ("c = 16777216::FLOAT", pa.int32(), [2**24, 2**24 + 1, 2**24 + 2]),
        ("c > 16777216::FLOAT", pa.int64(), [2**24, 2**24 + 1, 2**24 + 2]),
        (
            "CAST(c AS DOUBLE) >= 0.1e0",
            pa.float32(),
            around(nearest(Fraction(1, 10), Width.SINGLE), Width.SINGLE, 1),
        ),
        (
            "CAST(c AS DOUBLE) = 0.1e0",
            pa.float32(),
            around(nearest(Fraction(1, 10), Width.SINGLE), Width.SINGLE, 1),
        ),
        ("CAST(c AS DOUBLE) < 'nan'::DOUBLE", pa.int32(), [0, 2**31 - 1]),
        ("CAST(c AS DOUBLE) = 'nan'::DOUBLE", pa.decimal128(9, 2), [0, 999_999_999]),
        ("c = CAST(1.5 AS INTEGER)", pa.int32(), [1, 2]),
        ("c = CAST(2.5 AS DECIMAL(9,0))", pa.int32(), [2, 3]),
        ("c = CAST(-1.5 AS BIGINT)", pa.int32(), [-1, -2]),
    ],
)
def test_roundings_at_which_rules_differ(
    predicate: str, data_type: pa.DataType, values: list[int | float]
) -> None:
    assert check(predicate, values, data_type) is not None


@pytest.mark.parametrize(("data_type", "target"), [(pa.float32(), "FLOAT"), (pa.float64(), "DOUBLE")])
def test_a_long_decimal_cast_to_floating_point_is_given_room(data_type: pa.DataType, target: str) -> None:
    """Engines divide; with more digits than the format holds exactly, the quotient may miss the nearest value."""
    text = "0.12345678901234567890"
    width = Width.SINGLE if target == "FLOAT" else Width.DOUBLE
    leaf = bound(f"c = CAST({text} AS {target})", data_type)
    assert isinstance(leaf, CompareLeaf)
    assert leaf.point == Point(*around(nearest(Fraction(text), width), width, 3), exact=False)
