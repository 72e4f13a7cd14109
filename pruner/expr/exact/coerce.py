"""Literals in the storage domain of a column: exact, or wide enough to be right.

`coerce` follows the engine's own implicit casts. It refuses what it cannot follow for certain (`NotComparable`), so
that the predicate stays unknown and nothing is pruned by a guess.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache

import pyarrow as pa

from pruner.expr.bound.predicates import AlwaysNull, Coerced, NotComparable, Point
from pruner.expr.engines import Mixing, TextCoercion, Times
from pruner.expr.exact.clock import (
    coerce_iso_text,
    coerce_session_timestamp,
    coerce_temporal,
    nanoseconds,
    parse_time,
)
from pruner.expr.exact.numeric import CAST_SLACK, DECIMAL_DIGITS, Width, around, coerce_number, hull, nearest
from pruner.expr.nodes import Call, Literal
from pruner.expr.semantics import BINARY_COLLATION, Semantics
from pruner.expr.types import (
    decimal_digits,
    integer_range,
    is_bytes,
    is_instant,
    is_naive_timestamp,
    is_number,
    is_string,
    is_temporal,
    is_time,
    is_uuid,
    unit_of,
)
from pruner.expr.values import parse_uuid

_CANONICAL_INTEGER = re.compile(r"0|-?[1-9]\d{0,37}", re.ASCII)
_MAYBE_NUMBER = re.compile(r"\d|nan|inf", re.ASCII | re.IGNORECASE)
_PRINTABLE = re.compile(
    r"[ -\[\]-~]*"
)  # ASCII without the backslash, which starts an escape in DuckDB's BLOB texts


def coerce(column: pa.DataType, literal: Literal, semantics: Semantics) -> Coerced:
    """Coerce a literal to the storage domain of a column that it is compared with.

    Returns:
        A `Point` in the column's domain (`pruner.expr.bound.predicates`); `AlwaysNull` for NULL; `NotComparable` with
        the reason where the engine refuses the comparison or its outcome is uncertain.

    """
    unsupported = unsupported_reason(column)
    if unsupported is not None:
        return NotComparable(unsupported)
    if pa.types.is_unsigned_integer(column) and not semantics.traits.has_unsigned_integers:
        return NotComparable(f"{semantics.traits.title} has no unsigned integers")
    if semantics.traits.times is Times.UNCERTAIN and is_time(column):
        return NotComparable(f"what {semantics.traits.title} makes of times of day is not known")
    if literal.value is None:
        return AlwaysNull()
    kind = literal.type
    if isinstance(literal.value, str):
        return _text(column, literal.value, semantics)
    if is_number(column) and is_number(kind):
        return coerce_number(column, literal, semantics)
    if is_temporal(column) and is_temporal(kind):
        return coerce_temporal(column, literal, semantics)
    if pa.types.is_boolean(column) and isinstance(literal.value, bool):
        return Point(literal.value, literal.value)
    if is_uuid(column) == is_uuid(kind) and is_bytes(column) and isinstance(literal.value, bytes):
        return Point(literal.value, literal.value)
    if is_time(column) and is_time(kind):
        return _time(column, literal)
    return _unlike(column, kind, semantics)


@lru_cache(maxsize=256)
def _is_supported(column: pa.DataType) -> bool:
    return (
        is_number(column)
        or is_temporal(column)
        or is_string(column)
        or is_bytes(column)
        or is_time(column)
        or pa.types.is_boolean(column)
    )


def unsupported_reason(column: pa.DataType) -> str | None:
    """Why predicates on columns of this type are never decided, or None where they can be."""
    if not _is_supported(column):
        # List types are equal whatever their items are called, so this text must not be cached by type.
        return f"columns of type {column} are not supported"
    if pa.types.is_decimal(column) and decimal_digits(column)[0] > DECIMAL_DIGITS:
        return "decimals of more than 38 digits are not supported"
    return None


def _text(column: pa.DataType, text: str, semantics: Semantics) -> Coerced:
    """A string literal; against a column of another type it is cast, refused, or not understood."""
    if is_string(column):
        if semantics.collation != BINARY_COLLATION:
            return NotComparable(f"text is compared by the collation {semantics.collation}")
        try:
            encoded = text.encode()
        except UnicodeEncodeError:
            return NotComparable("the literal is not valid Unicode")
        return Point(encoded, encoded)
    if is_temporal(column):
        return coerce_iso_text(column, text, semantics)
    traits = semantics.traits
    if traits.text_coercion is TextCoercion.REFUSED:
        return NotComparable(f"{traits.title} does not compare text with other types", mismatch=True)
    if traits.text_coercion is TextCoercion.UNCERTAIN:
        return NotComparable(f"what {traits.title} makes of text beside other types is not known")
    if is_number(column):
        return _number_text(column, text, semantics)
    if pa.types.is_boolean(column):
        return _boolean_text(text)
    if is_time(column) or is_uuid(column):
        return _typed_text(column, text)
    if traits.casts_text_beside_bytes and _PRINTABLE.fullmatch(text):
        return Point(text.encode(), text.encode())
    return NotComparable("the bytes that the engine makes of this text are not certain")


def _number_text(column: pa.DataType, text: str, semantics: Semantics) -> Coerced:
    if not _MAYBE_NUMBER.search(text):
        return NotComparable("the text is not a number", mismatch=True)
    if _CANONICAL_INTEGER.fullmatch(text) is None:
        return NotComparable("only whole numbers in text are compared with number columns")
    value = int(text)
    misfit = NotComparable("the number in the text does not fit the column's type")
    to_double = semantics.traits.text_coercion is TextCoercion.DECIMALS_TO_DOUBLE
    if pa.types.is_decimal(column) and to_double:
        # Decimals of many digits collapse into one double.
        return coerce_number(column, Literal(nearest(value, Width.DOUBLE), pa.float64()), semantics)
    # The engine casts the text to the column's type: what does not fit fails there, or becomes NULL.
    if pa.types.is_integer(column):
        smallest, largest = integer_range(column)
        fits = smallest <= value <= largest
    elif pa.types.is_decimal(column):
        precision, scale = decimal_digits(column)
        return (
            Point(value * 10**scale, value * 10**scale) if abs(value) < 10 ** (precision - scale) else misfit
        )
    else:
        fits = abs(value) <= 2**24
    if not fits:
        return misfit
    return coerce_number(column, Literal(value, pa.int64()), semantics)


def _typed_text(column: pa.DataType, text: str) -> Coerced:
    """A text that is cast to the column's type: a time of day or a UUID."""
    value = parse_uuid(text) if is_uuid(column) else parse_time(text, nanoseconds(unit_of(column)))
    if value is None:
        return NotComparable("the text is not plainly a value of the column's type")
    return Point(value, value)


def _time(column: pa.DataType, literal: Literal) -> Point:
    """A time of day against times of another precision: no value equals one that lies between two of the column's."""
    assert isinstance(literal.value, int)  # LiteralValue's table
    moment = literal.value * nanoseconds(unit_of(literal.type))
    unit = nanoseconds(unit_of(column))
    return Point(-(-moment // unit), moment // unit)


def _boolean_text(text: str) -> Coerced:
    if text in ("true", "false"):
        return Point(text == "true", text == "true")
    maybe = text.strip().lower() in {"true", "false", "t", "f", "yes", "no", "y", "n", "on", "off", "1", "0"}
    return NotComparable("the text is not plainly true or false", mismatch=not maybe)


def _unlike(column: pa.DataType, literal: pa.DataType, semantics: Semantics) -> NotComparable:
    """Incompatible types: refused, except where the engine casts one of them."""
    booleans = pa.types.is_boolean(column) or pa.types.is_boolean(literal)
    integers = pa.types.is_integer(column) or pa.types.is_integer(literal)
    match semantics.traits.mixing:
        case Mixing.BOOLEANS_WITH_INTEGERS:
            casts = booleans and integers
        case Mixing.TEXT_COLUMNS_AND_BOOLEANS:
            casts = is_string(column) or (booleans and (is_number(column) or is_number(literal)))
        case Mixing.REFUSED:
            casts = False
        case Mixing.UNCERTAIN:
            casts = True
    if casts:
        return NotComparable(f"how the engine compares it with a column of type {column} is not followed")
    return NotComparable(f"{semantics.engine} does not compare such a column with {literal}", mismatch=True)


def coerce_constant(column: pa.DataType, constant: Literal | Call, semantics: Semantics) -> Coerced:
    """Coerce a literal, or a cast of a literal whose value depends on the session or on the engine's rounding."""
    if isinstance(constant, Literal):
        return coerce(column, constant, semantics)
    literal, target = constant.arguments[0], constant.type
    if isinstance(literal, Literal) and literal.value is None:
        return AlwaysNull()
    if unsupported_reason(column) is None and isinstance(literal, Literal) and target is not None:
        if is_temporal(column) and _reads_wall_clock(literal.type, target):
            return coerce_session_timestamp(column, literal, semantics)
        # Moments are stored as numbers, too, but casting them to one yields NULL or fails.
        counts = is_number(literal.type) or pa.types.is_boolean(literal.type)
        value = literal.value
        if pa.types.is_floating(target) and counts and isinstance(value, int | Decimal) and is_number(column):
            return _uncertain_float(column, value, target, semantics)
    return NotComparable("the value of the constant is not certain")


def _reads_wall_clock(literal: pa.DataType, target: pa.DataType) -> bool:
    """Tell whether a cast turns a wall clock into an instant and does nothing else, such as rounding."""
    return (
        is_naive_timestamp(literal)
        and is_instant(target)
        and nanoseconds(unit_of(target)) <= nanoseconds(unit_of(literal))
    )


def _uncertain_float(
    column: pa.DataType, value: int | Decimal, target: pa.DataType, semantics: Semantics
) -> Coerced:
    """A decimal cast to floating point: any of the values around the nearest one."""
    width = Width.SINGLE if pa.types.is_float32(target) else Width.DOUBLE
    ends = around(nearest(Fraction(value), width), width, CAST_SLACK)
    points = [coerce(column, Literal(end, target), semantics) for end in ends]
    certain = [point for point in points if isinstance(point, Point)]
    return hull(certain) if len(certain) == len(points) else points[0]
