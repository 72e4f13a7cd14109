"""Rules of arithmetic on integers, and of their text.

Results that do not fit the argument's own type are left to the engine: one fails, another wraps or widens.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.functions.inverse import NotInvertible, Piece, Pieces, scaled, whole
from pruner.expr.types import integer_range

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Inverse, Undo, Use

_CANONICAL = re.compile(rb"0|-?[1-9][0-9]*")


def added(use: Use) -> Inverse:
    """`x + k` and `k + x`."""
    _, smallest, largest = _integers(use)
    shift = _integer(use)
    return _one(use, max(smallest, smallest - shift), min(largest, largest - shift), scaled(1, shift))


def subtracted(use: Use) -> Inverse:
    """`x - k` and `k - x`."""
    _, smallest, largest = _integers(use)
    shift = _integer(use)
    if use.place == 0:
        return _one(use, max(smallest, smallest + shift), min(largest, largest + shift), scaled(1, -shift))
    low, high = max(smallest, shift - largest), min(largest, shift - smallest)
    return _one(use, low, high, scaled(-1, shift), falls=True)


def multiplied(use: Use) -> Inverse:
    """`x * k` and `k * x`."""
    _, smallest, largest = _integers(use)
    factor = _integer(use)
    if factor == 0:
        raise NotInvertible("a multiplication by zero")
    low, high = (smallest, largest) if factor > 0 else (largest, smallest)
    return _one(use, -(low // -factor), high // factor, scaled(factor, 0), falls=factor < 0)


def negated(use: Use) -> Inverse:
    """`-x`."""
    _, smallest, largest = _integers(use)
    return _one(use, max(smallest, -largest), min(largest, -smallest), scaled(-1, 0), falls=True)


def absolute(use: Use) -> Inverse:
    """`abs(x)`."""
    type_, smallest, largest = _integers(use)
    falling = Piece(max(smallest, -largest), -1, scaled(-1, 0), falls=True)
    return Pieces(type_, (falling, Piece(0, largest, scaled(1, 0))))


def text_of_integer(use: Use) -> Inverse:
    """`CAST(x AS text)`: each integer has one text."""
    if not pa.types.is_integer(use.type):
        raise NotInvertible(f"the text of a value of type {use.type}")
    smallest, largest = integer_range(use.type)
    never = Point(largest + 1, largest)

    def undo(point: Point) -> Point:
        if point.low != point.high:
            raise NotInvertible("a range of texts, in which integers do not follow each other")
        text = point.low
        if not isinstance(text, bytes) or not _CANONICAL.fullmatch(text) or len(text) > 20:
            return never
        value = int(text)
        return Point(value, value) if smallest <= value <= largest else never

    return Pieces(pa.string(), (Piece(None, None, undo, ordered=False),))


def widened(use: Use) -> Inverse:
    """`CAST(x AS a wider type of integers)`."""
    told = use.told
    if told is None or not (pa.types.is_integer(use.type) and pa.types.is_integer(told)):
        raise NotInvertible(f"a cast of {use.type} to {told}")
    smallest, largest = integer_range(use.type)
    lowest, highest = integer_range(told)
    if lowest <= smallest and largest <= highest:
        return whole(told, lambda point: point)
    return Pieces(told, (Piece(max(smallest, lowest), min(largest, highest), lambda point: point),))


def _integers(use: Use) -> tuple[pa.DataType, int, int]:
    """The argument's type, with the range of values that the types of argument and result share."""
    if not pa.types.is_signed_integer(use.type):
        raise NotInvertible(f"arithmetic on values of type {use.type}")
    smallest, largest = integer_range(use.type)
    if use.told is not None:
        if not pa.types.is_signed_integer(use.told):
            raise NotInvertible(f"arithmetic that comes to {use.told}")
        lowest, highest = integer_range(use.told)
        smallest, largest = max(smallest, lowest), min(largest, highest)
    return use.type, smallest, largest


def _integer(use: Use) -> int:
    match use.constants:
        case [constant] if pa.types.is_integer(constant.type) and isinstance(constant.value, int):
            smallest, largest = integer_range(use.type)
            if smallest <= constant.value <= largest:
                return constant.value
        case _:
            pass
    raise NotInvertible("arithmetic with something else than an integer that fits the column")


def _one(use: Use, low: int, high: int, undo: Undo, *, falls: bool = False) -> Inverse:
    if low > high:
        raise NotInvertible("no value has a result that fits")
    return Pieces(use.type, (Piece(low, high, undo, falls=falls),))
