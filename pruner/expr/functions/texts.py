"""Rules of functions of text, which is compared by its code points in UTF-8.

`lower` and `upper` are not monotone (trap L7), but the texts that can yield an ASCII text are within ranges: of its
ASCII letters in either case, and of the few other Unicode letters that some engine maps to an ASCII letter.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.combine import negation
from pruner.expr.bound.predicates import Point
from pruner.expr.exact.patterns import successor
from pruner.expr.functions.inverse import NotInvertible, Texts
from pruner.expr.nodes import Operator
from pruner.expr.types import is_string

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pruner.expr.bound.predicates import BoundExpr
    from pruner.expr.functions.inverse import Inverse, TextValue, Use

_STRING: Final = pa.string()

BECOME_LOWER: Final[Mapping[str, str]] = {"i": "\u0130", "k": "\u212a"}
"""The greatest character that some engine maps to this ASCII letter: dotted I and the Kelvin sign."""

BECOME_UPPER: Final[Mapping[str, str]] = {
    "F": "\ufb04",  # ligatures: ff, fi, fl, ffi, ffl
    "I": "\u0131",  # dotless i
    "J": "j",  # with a dot above, which a JVM in Lithuanian omits
    "S": "\ufb06",  # long s, sharp s, and the ligatures st
}
"""Likewise for capital letters; Spark maps a ligature to several letters, and drops marks after a letter."""

_ABOVE: Final = b"\xff"
"""No UTF-8 text has this byte."""

_ASCII: Final = re.compile(rb"[\x00-\x7f]+")
_MOST_BEGINNINGS: Final = 64

_NEVER: Final = Point(_ABOVE, b"")
"""A point that no text equals."""


def beginning(use: Use) -> Inverse:
    """`substring(x, 1, n)`, to which `left(x, n)` is converted: the first n characters.

    A call with one constant is `substr(x, n)`, which runs from there to the end.
    """
    _require_text(use)
    match [constant.value for constant in use.constants]:
        case [1, int(count)] if count > 0 and not isinstance(count, bool):
            return Texts(
                _STRING,
                lambda value, operator, point: _beginning(value, count, operator, point),
                lambda value, prefix: _begins(value, count, prefix),
            )
        case _:
            raise NotInvertible("a part of a text that is not its beginning")


def lowered(use: Use) -> Inverse:
    """`lower(x)`."""
    return _other_case(use, BECOME_LOWER, str.lower)


def raised(use: Use) -> Inverse:
    """`upper(x)`."""
    return _other_case(use, BECOME_UPPER, str.upper)


def cased_ranges(text: str, others: Mapping[str, str]) -> list[Point]:
    """Ranges that contain every text that `lower` or `upper` may turn into this ASCII text.

    The first letters are enumerated in both cases; what follows them ranges from the least text to the greatest.

    Args:
        text: ASCII.
        others: for a letter, the greatest non-ASCII character that becomes it.
    """
    beginnings = [""]
    for place, letter in enumerate(text):
        if letter in others:
            # The rest may be shorter than here, as one character can become several.
            least = text[place:].upper().encode()
            behind = others[letter].encode() + _ABOVE
            return [
                Point(beginning.encode() + least, beginning.encode() + behind, exact=False)
                for beginning in beginnings
            ]
        cases = {letter.upper(), letter.lower()}
        if len(beginnings) * len(cases) > _MOST_BEGINNINGS:
            rest = text[place:]
            ends = (rest.upper().encode(), rest.lower().encode())
            return [
                Point(beginning.encode() + ends[0], beginning.encode() + ends[1], exact=False)
                for beginning in beginnings
            ]
        beginnings = [beginning + case for beginning in beginnings for case in sorted(cases)]
    return [Point(beginning.encode(), beginning.encode(), exact=False) for beginning in beginnings]


def _other_case(use: Use, others: Mapping[str, str], make: Callable[[str], str]) -> Inverse:
    _require_text(use)

    def compare(value: TextValue, operator: Operator, point: Point) -> BoundExpr:
        text = _text(point)
        if operator not in (Operator.EQ, Operator.NE):
            raise NotInvertible("the function does not keep the order of its values")
        if not text.isascii():
            raise NotInvertible("text with other characters than those of ASCII")
        if operator is Operator.NE:
            return negation(compare(value, Operator.EQ, point))
        if text != make(text):
            return value.compare(Operator.EQ, _NEVER)
        return value.member(cased_ranges(text, others), has_null=False)

    def begins(value: TextValue, prefix: bytes) -> BoundExpr:
        text = _ascii_beginning(prefix)
        if text != make(text):
            return value.compare(Operator.EQ, _NEVER)
        ranges = [_with_rest(point) for point in cased_ranges(text, others)]
        return value.member(ranges, has_null=False)

    return Texts(_STRING, compare, begins)


def _ascii_beginning(prefix: bytes) -> str:
    """The ASCII characters at the start of a prefix.

    Raises:
        NotInvertible: there are none.
    """
    match = _ASCII.match(prefix)
    if match is None:
        raise NotInvertible("a beginning of other characters than those of ASCII")
    return match.group().decode()


def _with_rest(point: Point) -> Point:
    """Texts that begin with a text of a range."""
    assert isinstance(point.high, bytes)
    return Point(point.low, point.high + _ABOVE, exact=False)


def _begins(value: TextValue, count: int, prefix: bytes) -> BoundExpr:
    try:
        length = len(prefix.decode())
    except UnicodeDecodeError:
        raise NotInvertible("a text that is not UTF-8") from None
    return value.starts_with(prefix) if length <= count else value.compare(Operator.EQ, _NEVER)


def _beginning(value: TextValue, count: int, operator: Operator, point: Point) -> BoundExpr:
    text = _text(point)
    cut = text[:count].encode()
    behind = successor(cut)
    match operator:
        case Operator.NE | Operator.GE | Operator.GT:
            return negation(_beginning(value, count, operator.negated, point))
        case Operator.EQ if len(text) > count:
            return value.compare(Operator.EQ, _NEVER)
        case Operator.EQ if len(text) == count:
            return value.starts_with(cut)
        case Operator.LE | Operator.LT if len(text) > count or (
            len(text) == count and operator is Operator.LE
        ):
            # All texts with this prefix match, and none after them.
            if behind is None:
                raise NotInvertible("a text that is not UTF-8")
            return value.compare(Operator.LT, Point(behind, behind))
        case _:
            return value.compare(operator, point)


def _text(point: Point) -> str:
    if not isinstance(point.low, bytes) or point.low != point.high:
        raise NotInvertible("a comparison with a text that is not certain")
    try:
        return point.low.decode()
    except UnicodeDecodeError:
        raise NotInvertible("a text that is not UTF-8") from None


def _require_text(use: Use) -> None:
    if not is_string(use.type):
        raise NotInvertible(f"a function of text over a value of type {use.type}")
