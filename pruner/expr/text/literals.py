"""SQL's spellings of constants, as typed literals: numbers, typed text (`DATE '…'`), casts of constants,
plain lists.

Only what every version of the dialect reads alike is folded; for the rest the functions return None and the
caller keeps an expression that nothing is derived from.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import Final

import pyarrow as pa

from pruner.expr.engines import TextBytes, Traits
from pruner.expr.exact.clock import (
    DAY,
    IsoText,
    date_of,
    instants_of_wall,
    nanoseconds,
    parse_iso,
    parse_time,
)
from pruner.expr.exact.numeric import DECIMAL_DIGITS, Width, cast_to_floating, nearest
from pruner.expr.nodes import Call, Expr, Literal
from pruner.expr.semantics import Semantics
from pruner.expr.types import (
    decimal_digits,
    integer_range,
    is_instant,
    is_number,
    is_time,
    is_uuid,
    timestamp,
    unit_of,
)
from pruner.expr.values import LiteralValue, parse_uuid

INT32: Final = pa.int32()
INT64: Final = pa.int64()
FLOAT: Final = pa.float32()
DOUBLE: Final = pa.float64()
STRING: Final = pa.string()
DATE: Final = pa.date32()
NULL_LITERAL: Final = Literal(None, pa.null())
_DECIMALS: Final = {
    (precision, scale): pa.decimal128(precision, scale)
    for precision in range(1, DECIMAL_DIGITS + 1)
    for scale in range(precision + 1)
}
_NUMBER = re.compile(r"(\d*)(?:\.(\d*))?([eE][+-]?\d+)?", re.ASCII)
_SIGNED_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_SIGNED_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_LITERAL_DIGITS = 400
_NOT_FINITE: Final = frozenset({"nan", "inf", "-inf", "infinity", "-infinity"})
_BLOB = re.compile(r"(?:\\x[0-9A-Fa-f]{2}|[ -\[\]-~])*")
_BLOB_PART = re.compile(r"\\x([0-9A-Fa-f]{2})|(.)")
_PLAIN_PART = re.compile(r"(-?\d+(?:\.\d+)?)|(DATE\s*)?'([^']*)'|NULL", re.IGNORECASE | re.ASCII)


def number(text: str, traits: Traits, *, negative: bool = False) -> Literal | None:
    """Type a number as the engine does: integers by size, `1.5` DECIMAL, `1e3` DOUBLE; None when too long to
    hold.
    """
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > _LITERAL_DIGITS:
        return None
    whole, fraction, exponent = match.groups()
    if exponent:
        value = float(text)
        return Literal(-value if negative else value, DOUBLE)
    sign = -1 if negative else 1
    if fraction is None:
        return _integer(sign * int(whole), traits)
    digits = whole.lstrip("0") + fraction
    if len(digits) > DECIMAL_DIGITS:
        return Literal(sign * float(text), DOUBLE) if traits.long_decimals_are_doubles else None
    scaled = Decimal(f"{'-' if negative else ''}{whole or '0'}.{fraction}0")
    exact = Decimal((scaled.as_tuple().sign, scaled.as_tuple().digits[:-1] or (0,), -len(fraction)))
    return Literal(exact, decimal_type(max(len(digits), len(fraction), 1), len(fraction)))


def _integer(value: int, traits: Traits) -> Literal:
    # The type of -2147483648 is that of 2147483648: the sign is applied afterwards.
    if abs(value) < 2**31:
        return Literal(value, INT32)
    digits = len(str(abs(value)))
    if abs(value) < 2**63 or not traits.long_integers_are_decimals or digits > DECIMAL_DIGITS:
        return Literal(value, INT64)
    return Literal(Decimal(value), decimal_type(digits, 0))


def decimal_type(precision: int, scale: int) -> pa.DataType:
    """A decimal type of at most 38 digits, made once."""
    return _DECIMALS[precision, scale]


def negated(literal: Literal) -> Literal | None:
    """The literal with the sign changed; None for what has no sign."""
    value = literal.value
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    return Literal(value.copy_negate() if isinstance(value, Decimal) else -value, literal.type)


def fold_cast(literal: Literal, target: pa.DataType, semantics: Semantics) -> Expr | None:
    """The value of `CAST(literal AS target)`, where it is certain; None elsewhere.

    The result is no literal in two cases: an instant given as a wall clock of a session zone that matters (a
    cast of a naive timestamp), and a decimal whose nearest float the engine may miss (a cast of the decimal).
    """
    value = literal.value
    if value is None:
        return Literal(None, target)
    if isinstance(value, str):
        return _fold_text(value, target, semantics)
    if literal.type == target:
        return literal
    if isinstance(value, bool):
        return None
    if is_number(literal.type) and is_number(target):
        return _fold_number(literal, target)
    return None


def _fold_number(literal: Literal, target: pa.DataType) -> Expr | None:
    value = literal.value
    if pa.types.is_floating(target):
        width = Width.SINGLE if pa.types.is_float32(target) else Width.DOUBLE
        if isinstance(value, float):
            # The processor rounds a double to a float, everywhere alike.
            finite = width is Width.SINGLE and math.isfinite(value)
            return _finite(nearest(Fraction(value), width), target) if finite else Literal(value, target)
        if isinstance(value, int | Decimal):
            exact = Fraction(value)
            scale = 0 if isinstance(value, int) else max(0, -int(value.as_tuple().exponent))
            rounded, certain = cast_to_floating(int(exact * 10**scale), scale, width)
            return _finite(rounded, target) if certain else Call("cast", (literal,), target)
    if isinstance(value, int | Decimal):
        return _fitting(Fraction(value), target)
    return None


def _fitting(value: Fraction, target: pa.DataType) -> Literal | None:
    """An integer or decimal of the target type with exactly this value, if there is one."""
    if pa.types.is_integer(target):
        smallest, largest = integer_range(target)
        fits = value.denominator == 1 and smallest <= value <= largest
        return Literal(int(value), target) if fits else None
    precision, scale = decimal_digits(target)
    unscaled = value * 10**scale
    if unscaled.denominator != 1 or abs(unscaled) >= 10**precision:
        return None
    digits = tuple([int(digit) for digit in str(abs(int(unscaled)))])
    return Literal(Decimal((int(unscaled < 0), digits, -scale)), target)


def _fold_text(text: str, target: pa.DataType, semantics: Semantics) -> Expr | None:
    if target == STRING:
        return Literal(text, STRING)
    if pa.types.is_date(target) or pa.types.is_timestamp(target):
        return _fold_moment(text, target, semantics)
    if pa.types.is_boolean(target):
        return Literal(text == "true", target) if text in ("true", "false") else None
    if is_time(target):
        moment = parse_time(text, nanoseconds(unit_of(target)))
        return None if moment is None else Literal(moment, target)
    if is_uuid(target):
        value = parse_uuid(text)
        return None if value is None else Literal(value, target)
    if pa.types.is_binary(target):
        return _fold_blob(text, semantics.traits)
    if pa.types.is_floating(target):
        return _fold_floating_text(text, target)
    if not is_number(target) or len(text) > _LITERAL_DIGITS:
        return None
    return _fitting(Fraction(text), target) if _SIGNED_DECIMAL.fullmatch(text) else None


def _fold_floating_text(text: str, target: pa.DataType) -> Literal | None:
    if text.lower() in _NOT_FINITE:
        return Literal(float(text), target)
    if _SIGNED_NUMBER.fullmatch(text) is None or len(text) > _LITERAL_DIGITS:
        return None
    width = Width.DOUBLE if pa.types.is_float64(target) else Width.SINGLE
    return _finite(nearest(Fraction(text), width), target)


def _finite(value: float, target: pa.DataType) -> Literal | None:
    """A literal unless the value overflowed, which some engines refuse."""
    return None if math.isinf(value) else Literal(value, target)


def _fold_blob(text: str, traits: Traits) -> Literal | None:
    if traits.text_bytes is not TextBytes.ESCAPED:
        plain = traits.text_bytes is TextBytes.ENCODED and text.isascii()
        return Literal(text.encode(), pa.binary()) if plain else None
    if _BLOB.fullmatch(text) is None:
        return None
    parts = (
        bytes.fromhex(match[1]) if match[1] else match[2].encode() for match in _BLOB_PART.finditer(text)
    )
    return Literal(b"".join(parts), pa.binary())


def _fold_moment(text: str, target: pa.DataType, semantics: Semantics) -> Expr | None:
    """`DATE '…'`, `TIMESTAMP '…'` and their kin."""
    iso = parse_iso(text)
    named = None
    if iso is None and semantics.traits.reads_zone_names:
        iso, named = _with_named_zone(text)
    if iso is None:
        return None
    if pa.types.is_date(target):
        return None if iso.has_time else Literal(date_of(iso.wall // DAY), DATE)
    wall_type = timestamp(unit_of(target), instant=False)
    instant_type = timestamp(unit_of(target), instant=True)
    unit = nanoseconds(unit_of(target))
    if iso.wall % unit:
        return None  # engines differ in rounding
    if named is not None:
        low, high = instants_of_wall(iso.wall, named)
        return Literal(low // unit, instant_type) if low == high else None
    if not is_instant(target):
        # DuckDB's versions differ about an offset in the text of a timestamp without zone.
        return None if iso.offset is not None else Literal(iso.wall // unit, wall_type)
    if iso.offset is not None:
        return Literal((iso.wall - iso.offset) // unit, instant_type)
    return Call("cast", (Literal(iso.wall // unit, wall_type),), instant_type)


def _with_named_zone(text: str) -> tuple[IsoText | None, str | None]:
    """Split `YYYY-MM-DD HH:MM:SS Area/City`."""
    stamp, _, zone = text.rpartition(" ")
    iso = parse_iso(stamp)
    if iso is None or not iso.has_time or iso.offset is not None:
        return None, None
    return iso, zone


def plain_list(body: str, semantics: Semantics) -> tuple[Literal, ...] | None:
    """The literals of an IN list that `pruner.expr.text.scan.PLAIN_LIST` matches; None when one of them is not
    certain.
    """
    if body.isascii() and "'" not in body and "." not in body:
        whole = _plain_integers(body)
        if whole is not None:
            return whole
    literals: list[Literal] = []
    traits = semantics.traits
    for match in _PLAIN_PART.finditer(body):
        figure, typed, text = match.groups()
        if figure is not None:
            literal = number(figure.lstrip("-"), traits, negative=figure.startswith("-"))
        elif text is None:
            literal = NULL_LITERAL
        elif typed is None:
            literal = Literal(text, STRING)
        else:
            folded = _fold_moment(text, DATE, semantics)
            literal = folded if isinstance(folded, Literal) else None
        if literal is None:
            return None
        literals.append(literal)
    return tuple(literals)


def _plain_integers(body: str) -> tuple[Literal, ...] | None:
    """The quick way for a list of nothing but integers."""
    try:
        values = list(map(int, body.split(",")))
    except ValueError:
        return None
    if not -(2**63) < min(values) <= max(values) < 2**63:
        return None
    return tuple([Literal(value, INT32 if -(2**31) < value < 2**31 else INT64) for value in values])


def in_one_type(literals: tuple[Literal, ...]) -> tuple[Literal, ...] | None:
    """Give literals that are compared together (IN, BETWEEN) their common type, as DuckDB and Trino do first.

    Returns:
        The literals, exact ones widened to one type; None where the common type changes what is compared (an
        integer next to a double, text next to a number, an instant next to a wall clock).

    """
    types = list({id(literal.type): literal.type for literal in literals}.values())
    distinct = {data_type for data_type in types if not pa.types.is_null(data_type)}
    if len(distinct) <= 1:
        return literals
    common = _common_type(distinct)
    if common is None:
        return None
    return tuple([_retyped(literal, common) for literal in literals])


def _common_type(types: set[pa.DataType]) -> pa.DataType | None:
    if all(pa.types.is_integer(data_type) for data_type in types):
        return INT64
    exact = all(pa.types.is_integer(data_type) or pa.types.is_decimal(data_type) for data_type in types)
    if exact:
        decimals = [decimal_digits(data_type) for data_type in types if pa.types.is_decimal(data_type)]
        scale = max(scale for _, scale in decimals)
        whole = max(precision - scale for precision, scale in decimals)
        if len(decimals) < len(types):
            whole = max(whole, 20)
        return decimal_type(whole + scale, scale) if whole + scale <= DECIMAL_DIGITS else None
    moments = all(pa.types.is_date(data_type) or pa.types.is_timestamp(data_type) for data_type in types)
    zones = {is_instant(data_type) for data_type in types if pa.types.is_timestamp(data_type)}
    # Moments of one kind keep their types: their comparison is exact whatever the unit.
    return pa.null() if moments and len(zones) <= 1 else None


def _retyped(literal: Literal, common: pa.DataType) -> Literal:
    if literal.value is None or pa.types.is_null(common):
        return literal
    value: LiteralValue = literal.value
    if pa.types.is_decimal(common) and isinstance(value, int):
        value = Decimal(value)
    return Literal(value, common)
