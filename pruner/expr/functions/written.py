"""Rules of moments that are written as text, by patterns whose texts are in the order of the moments.

That is so where the year comes first, then the month, and so on: all texts have digits at the same places, and the same
letters between them.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.predicates import Point
from pruner.expr.functions.calendar import DAY, LAST, SECOND, date_at, midnight
from pruner.expr.functions.inverse import NotInvertible, Pieces, whole_number
from pruner.expr.functions.walls import of_wall, scale_of
from pruner.expr.semantics import BINARY_COLLATION

if TYPE_CHECKING:
    from pruner.expr.functions.inverse import Inverse, Undo, Use

_S: Final = "[-/ :.T]?"
_IN_ORDER: Final = re.compile(f"%Y({_S}%m({_S}%d({_S}%H({_S}%M({_S}%S)?)?)?)?)?")
_PART: Final = re.compile("%(.)")
_FIRST: Final = midnight(datetime.date(1000, 1, 1))
"""Earlier years are not written with four digits everywhere."""
_MILLISECOND: Final = 1_000


def by_pattern(use: Use) -> Inverse:
    """`strftime(x, '%Y-%m-%d')`."""
    match use.constants:
        case [constant] if use.place == 0 and isinstance(constant.value, str):
            pattern = constant.value
        case _:
            raise NotInvertible("a pattern that is not constant")
    if not _IN_ORDER.fullmatch(pattern):
        raise NotInvertible(f"texts by the pattern {pattern!r} are not in the order of the moments")
    return _written(use, pattern)


def date_as_text(use: Use) -> Inverse:
    """`CAST(date AS text)`."""
    return _written(use, "%Y-%m-%d")


def _written(use: Use, pattern: str) -> Inverse:
    if use.semantics.collation != BINARY_COLLATION:
        raise NotInvertible(f"text is compared by the collation {use.semantics.collation}")

    def text(moment: int) -> bytes:
        date, second = date_at(moment), moment % DAY // SECOND
        parts = {"Y": f"{date.year:04}", "m": f"{date.month:02}", "d": f"{date.day:02}"}
        parts |= {"H": f"{second // 3600:02}", "M": f"{second // 60 % 60:02}", "S": f"{second % 60:02}"}
        return _PART.sub(lambda found: parts[found[1]], pattern).encode()

    if not use.semantics.traits.writes_moments_rounded or scale_of(use) >= _MILLISECOND:
        return of_wall(use, pa.string(), text, low=_FIRST, high=LAST)
    return _rounded(of_wall(use, pa.string(), text, low=_FIRST, high=LAST - _MILLISECOND))


def _rounded(pieces: Pieces) -> Pieces:
    """The same of moments that are rounded before: those just before a second may be written as that second."""

    def widened(undo: Undo) -> Undo:
        def wide(point: Point) -> Point:
            found = undo(point)
            low = whole_number(found.low)
            return Point(None if low is None else low - _MILLISECOND, found.high, exact=False)

        return wide

    return Pieces(pieces.result, tuple(replace(each, undo=widened(each.undo)) for each in pieces.pieces))
