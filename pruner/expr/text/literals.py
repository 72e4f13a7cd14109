"""Typed literals from their text: numbers, moments (`DATE '…'`), plain lists.

Only what every version of the dialect reads the same way becomes a literal; for the rest the functions return None.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

import pyarrow as pa

from pruner.expr.engines import Traits
from pruner.expr.exact.clock import (
    DAY,
    IsoText,
    date_of,
    instants_of_wall,
    nanoseconds,
    parse_iso,
)
from pruner.expr.exact.numeric import DECIMAL_DIGITS
from pruner.expr.nodes import Call, Expr, Literal
from pruner.expr.semantics import Semantics
from pruner.expr.types import (
    decimal_digits,
    is_instant,
    timestamp,
    unit_of,
)
from pruner.expr.values import LiteralValue

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
TEXT_IN_SINGLE_QUOTES: Final = "double quotes hold a name, text stands in single quotes"
MOST_DIGITS: Final = 400
"""Longest number text that is read."""

_PLAIN_PART = re.compile(r"(-?\d+(?:\.\d+)?)|(DATE\s*)?'([^']*)'|NULL", re.IGNORECASE | re.ASCII)


def number(text: str, traits: Traits, *, negative: bool = False) -> Literal | None:
    """Type a number as the engine does: integers by size, `1.5` DECIMAL, `1e3` DOUBLE; None when too long."""
    match = _NUMBER.fullmatch(text)
    if match is None or len(text) > MOST_DIGITS:
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
    """A decimal type of at most 38 digits, created once."""
    return _DECIMALS[precision, scale]


def moment(text: str, target: pa.DataType, semantics: Semantics) -> Expr | None:
    """`DATE '…'`, `TIMESTAMP '…'` and the like; None if uncertain."""
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
    """The literals of an IN list that `pruner.expr.text.scan.PLAIN_LIST` matches; None when one is uncertain."""
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
            folded = moment(text, DATE, semantics)
            literal = folded if isinstance(folded, Literal) else None
        if literal is None:
            return None
        literals.append(literal)
    return tuple(literals)


def _plain_integers(body: str) -> tuple[Literal, ...] | None:
    """The fast path for lists of integers only."""
    try:
        values = list(map(int, body.split(",")))
    except ValueError:
        return None
    if not -(2**63) < min(values) <= max(values) < 2**63:
        return None
    return tuple([Literal(value, INT32 if -(2**31) < value < 2**31 else INT64) for value in values])


def in_one_type(literals: tuple[Literal, ...]) -> tuple[Literal, ...] | None:
    """Convert literals that are compared together (IN, BETWEEN) to their common type, as DuckDB and Trino do first.

    Returns:
        The literals, exact ones widened to one type; None where the common type changes what is compared (an
        integer and a double, text and a number, an instant and a wall clock).

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
