"""Moments that move: `now()`, `current_date` and what is counted from them.

The engine takes the moment when its statement or transaction begins, and that is not known here for certain. It is not
before the moment that the session told, or that planning began, give or take what clocks differ. When it is at the
latest nobody knows: a plan may be read an hour later. So such a constant is everything from an earliest moment on:
`ts >= now() - INTERVAL 1 DAY` is bounded below whatever moment the engine takes, and `ts < now()` is not.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound import Point
from pruner.expr.clock import DAY, SECOND, instants_of_wall, walls_of_instant
from pruner.expr.coerced import Coerced, NotComparable
from pruner.expr.functions.calendar import DAY as MICROSECONDS_OF_DAY
from pruner.expr.functions.calendar import FIRST, LAST, TRUNCATED_TO, shifted, start_of
from pruner.expr.functions.moments import is_certain_zone
from pruner.expr.functions.rows import FUNCTIONS
from pruner.expr.nodes import Call, Expr, Literal
from pruner.expr.temporal import coerce_temporal
from pruner.expr.types import is_instant, is_temporal, timestamp
from pruner.expr.values import Interval

if TYPE_CHECKING:
    from pruner.expr.semantics import Semantics

NOW: Final = "now"
"""The moment, an instant."""
CURRENT_DATE: Final = "current_date"
"""The date that the session's clock shows."""
CURRENT_WALL: Final = "current_wall"
"""The date and time that the session's clock shows, without a zone."""

CLOCKS_DIFFER: Final = 300 * SECOND
"""By how much the engine's clock may be behind ours, or be set back before the statement begins."""

_MOVING: Final = frozenset({NOW, CURRENT_DATE, CURRENT_WALL})
_SHIFTS: Final = {"add": 1, "subtract": -1}


class _Kind(Enum):
    INSTANT = "instant"
    WALL = "wall clock"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class _Earliest:
    """The earliest that a moment can be, in nanoseconds since 1970; dates are midnights."""

    kind: _Kind
    moment: int


class _Unsure(Exception):  # noqa: N818 - becomes a `NotComparable`
    """Nothing is known of the moment."""


def is_moving(expression: Expr) -> bool:
    """Tell whether an expression is a moment that moves, by its form."""
    match expression:
        case Call(function, ()):
            return function in _MOVING
        case Call("cast" | "try_cast", (operand,)):
            return is_moving(operand)
        case Call("add" | "subtract", (left, Literal())) | Call("add", (Literal(), left)):
            return is_moving(left)
        case Call("date_trunc" | "timezone", (Literal(), operand)):
            return is_moving(operand)
        case _:
            return False


def coerce_moving(column: pa.DataType, expression: Expr, semantics: Semantics) -> Coerced:
    """Coerce a moment that moves to a date or timestamp column: everything from the earliest moment on."""
    if not is_temporal(column):
        return NotComparable("a moment beside something else than a date or timestamp")
    try:
        earliest = _earliest(expression, semantics)
    except (_Unsure, OverflowError, ValueError):
        return NotComparable("from which moment on is not certain")
    type_ = timestamp("ns", instant=earliest.kind is _Kind.INSTANT)
    point = coerce_temporal(column, Literal(earliest.moment, type_), semantics)
    return Point(point.low, None, exact=False) if isinstance(point, Point) else point


def _earliest(expression: Expr, semantics: Semantics) -> _Earliest:
    match expression:
        case Call(function, ()) if function in _MOVING:
            told = time.time_ns() if semantics.now is None else semantics.now
            now = _Earliest(_Kind.INSTANT, told - CLOCKS_DIFFER)
            return now if function == NOW else _cast(now, _KIND_OF[function], semantics)
        case Call("cast" | "try_cast", (operand,), pa.DataType() as target) if is_temporal(target):
            found = _earliest(operand, semantics)
            if pa.types.is_date(target):
                return _cast(found, _Kind.DATE, semantics)
            return _cast(found, _Kind.INSTANT if is_instant(target) else _Kind.WALL, semantics)
        case Call("add" | "subtract" as function, (operand, Literal() as constant)):
            return _shifted(_earliest(operand, semantics), constant, _SHIFTS[function], semantics)
        case Call("add", (Literal() as constant, operand)):
            return _shifted(_earliest(operand, semantics), constant, 1, semantics)
        case Call("date_trunc", (Literal(value=str(unit)), operand)) if unit.lower() in TRUNCATED_TO:
            found = _earliest(operand, semantics)
            start = _cast(found, _Kind.WALL, semantics).moment
            return _back(
                _Earliest(_Kind.WALL, start_of(unit.lower(), _micros(start)) * 1000), found.kind, semantics
            )
        case Call("timezone", (Literal(value=str(zone)), operand)):
            return _at_zone(_earliest(operand, semantics), zone, semantics)
        case _:
            raise _Unsure


_KIND_OF: Final = {CURRENT_DATE: _Kind.DATE, CURRENT_WALL: _Kind.WALL}


def _cast(found: _Earliest, kind: _Kind, semantics: Semantics) -> _Earliest:
    moment = found.moment
    if found.kind is _Kind.INSTANT and kind is not _Kind.INSTANT:
        moment = walls_of_instant(moment, semantics.zone)[0]
    elif found.kind is not _Kind.INSTANT and kind is _Kind.INSTANT:
        moment = instants_of_wall(moment, semantics.zone)[0]
    return _Earliest(kind, moment // DAY * DAY if kind is _Kind.DATE else moment)


def _at_zone(found: _Earliest, zone: str, semantics: Semantics) -> _Earliest:
    """What the clocks of a zone show at an instant, or the instant at which they show a date and time."""
    compared = semantics.traits.name in FUNCTIONS["timezone"].written
    if not compared or found.kind is _Kind.DATE or not is_certain_zone(zone):
        raise _Unsure
    other = _Kind.WALL if found.kind is _Kind.INSTANT else _Kind.INSTANT
    return _cast(found, other, replace(semantics, zone=zone))


def _shifted(found: _Earliest, constant: Literal, sign: int, semantics: Semantics) -> _Earliest:
    value = constant.value
    if isinstance(value, int) and not isinstance(value, bool) and found.kind is _Kind.DATE:
        return _Earliest(_Kind.DATE, found.moment + sign * value * DAY)
    if not isinstance(value, Interval):
        raise _Unsure
    if not (value.months or value.days):
        return _Earliest(_without_date(found.kind), found.moment + sign * value.nanoseconds)
    # A day has as many hours as the session's zone says.
    start = _micros(_cast(found, _Kind.WALL, semantics).moment)
    if value.months:
        start -= start % MICROSECONDS_OF_DAY  # a later moment may come to an earlier one of the same day
    return _back(
        _Earliest(_Kind.WALL, shifted(start, value, sign) * 1000), _without_date(found.kind), semantics
    )


def _without_date(kind: _Kind) -> _Kind:
    """A date and an interval are a date or a timestamp, by the engine, and the same moment either way."""
    return _Kind.WALL if kind is _Kind.DATE else kind


def _back(wall: _Earliest, kind: _Kind, semantics: Semantics) -> _Earliest:
    return _cast(wall, kind, semantics)


def _micros(moment: int) -> int:
    micros = moment // 1000
    if not FIRST <= micros <= LAST:
        raise _Unsure
    return micros
