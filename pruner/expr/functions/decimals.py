"""Rules of arithmetic on decimals with a constant, as DuckDB and Trino compute it: exactly, or with an error.

A sum has as many decimal places as the longer of the two, a product as many as both together. A result that needs more
digits than its type has is an error, so the rules leave such values to the engine.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa

from pruner.expr.functions.inverse import NotInvertible, Piece, Pieces, scaled
from pruner.expr.types import decimal_digits

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Inverse, Use

_MOST_DIGITS: Final = 38
_MOST_OF_64_BITS: Final = 18
"""Digits of a decimal in 64 bits: from two that fit, DuckDB does not make a wider one."""

_DIGITS: Final[dict[pa.DataType, int]] = {pa.int8(): 3, pa.int16(): 5, pa.int32(): 10, pa.int64(): 19}


class _Number(NamedTuple):
    """A type of exact numbers: total digits, and decimal places."""

    width: int
    scale: int


def added(use: Use) -> Inverse:
    """`x + k` and `k + x`."""
    return _sum(use, 1, 1)


def subtracted(use: Use) -> Inverse:
    """`x - k` and `k - x`."""
    return _sum(use, 1, -1) if use.place == 0 else _sum(use, -1, 1)


def multiplied(use: Use) -> Inverse:
    """`x * k` and `k * x`."""
    column, constant, unscaled = _operands(use)
    if unscaled == 0:
        raise NotInvertible("a multiplication by zero")
    result = _result(use, _Number(column.width + constant.width, column.scale + constant.scale), column)
    return _linear(column, result, unscaled, 0)


def negated(use: Use) -> Inverse:
    """`-x`."""
    column = _number(use.type)
    return _linear(column, column, -1, 0)


def _sum(use: Use, sign: int, constant_sign: int) -> Inverse:
    column, constant, unscaled = _operands(use)
    scale = max(column.scale, constant.scale)
    whole = max(column.width - column.scale, constant.width - constant.scale)
    result = _result(use, _Number(whole + scale + 1, scale), column)
    shift = constant_sign * unscaled * 10 ** (scale - constant.scale)
    factor = 10 ** (scale - column.scale)
    return _linear(column, result, sign * factor, shift, most=(10**result.width - 1) // factor)


def _linear(column: _Number, result: _Number, factor: int, shift: int, most: int | None = None) -> Inverse:
    """Results, in units of their last place, that are `factor` times the column's value plus `shift`.

    Args:
        column: the column's type.
        result: the result's type.
        factor: not 0.
        shift: in units of the result's last place.
        most: the greatest value of the column that fits the result's type in the engine, None for all.
    """
    greatest, largest = 10**result.width - 1, 10**column.width - 1
    ends = sorted(Fraction(end - shift, factor) for end in (-greatest, greatest))
    low, high = math.ceil(ends[0]), math.floor(ends[1])
    if most is not None:
        low, high = max(low, -most), min(high, most)
    if low > high:
        raise NotInvertible("no value has a result that fits")
    piece = Piece(
        None if low <= -largest else low,
        None if high >= largest else high,
        scaled(factor, shift),
        falls=factor < 0,
    )
    return Pieces(pa.decimal128(result.width, result.scale), (piece,))


def _operands(use: Use) -> tuple[_Number, _Number, int]:
    """The column's type, the constant's, and the constant in units of its last place."""
    match use.constants:
        case [constant] if isinstance(constant.value, int | Decimal) and not isinstance(constant.value, bool):
            number = _number(constant.type)
            return _number(use.type), number, int(Fraction(constant.value) * 10**number.scale)
        case _:
            raise NotInvertible("arithmetic of a decimal with something else than an exact constant")


def _number(type_: pa.DataType) -> _Number:
    if pa.types.is_decimal128(type_):
        return _Number(*decimal_digits(type_))
    if type_ not in _DIGITS:
        raise NotInvertible(f"arithmetic of decimals and values of type {type_}")
    return _Number(_DIGITS[type_], 0)


def _result(use: Use, exact: _Number, column: _Number) -> _Number:
    """The type of the result: as the engine reported it, or the narrowest that it may have.

    Raises:
        NotInvertible: the engine reports another type than arithmetic on exact numbers has.
    """
    if use.told is None:
        most = _MOST_OF_64_BITS if column.width <= _MOST_OF_64_BITS else _MOST_DIGITS
        result = _Number(min(exact.width, most), exact.scale)
    elif pa.types.is_decimal128(use.told):
        result = _Number(*decimal_digits(use.told))
    else:
        raise NotInvertible(f"arithmetic of decimals that comes to {use.told}")
    if result.scale != exact.scale or result.scale > result.width:
        raise NotInvertible("a result with more decimal places than its type holds")
    return result
