"""Moving moments: `now()`, `current_date` and what is computed from them.

The engine uses the moment when its statement or transaction begins, which is not known here for certain. It is not
before the moment that the session reported, or at which planning began, except for clock skew. An upper bound is known
only where the caller that runs the statement guarantees one (`Semantics.latest`): otherwise a plan may be read an hour
later. So such a constant is every moment from the earliest, up to the latest if there is one: `ts >= now() - INTERVAL 1
DAY` is bounded below whatever moment the engine uses, and `ts < now()` only where the upper bound is known.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from pruner.expr.bound.predicates import Coerced, NotComparable, Point
from pruner.expr.exact.clock import DAY, SECOND, coerce_temporal, instants_of_wall, walls_of_instant
from pruner.expr.functions.moments import is_certain_zone
from pruner.expr.functions.registry import FUNCTIONS
from pruner.expr.functions.walls import DAY as MICROSECONDS_OF_DAY
from pruner.expr.functions.walls import FIRST, LAST, TRUNCATED_TO, shifted, start_of
from pruner.expr.nodes import Call, Expr, Literal
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
"""How far the engine's clock may be behind ours, or be set back before the statement begins."""

_MOVING: Final = frozenset({NOW, CURRENT_DATE, CURRENT_WALL})
_SHIFTS: Final = {"add": 1, "subtract": -1}


class _Kind(Enum):
    INSTANT = "instant"
    WALL = "wall clock"
    DATE = "date"


@dataclass(frozen=True, slots=True)
class _End:
    """The earliest or latest that a moment can be, in nanoseconds since 1970; dates are midnights."""

    kind: _Kind
    moment: int
    latest: bool


class _Unsure(Exception):  # noqa: N818 - becomes a `NotComparable`
    """The moment is unknown."""


def is_moment(expression: Expr) -> bool:
    """Tell whether an expression is the moment of the statement itself, in one of its forms."""
    return isinstance(expression, Call) and not expression.arguments and expression.function in _MOVING


def is_moving(expression: Expr) -> bool:
    """Tell whether an expression is a moving moment, by its form."""
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
    """Coerce a moving moment to a date or timestamp column: everything from the earliest to the latest moment."""
    if not is_temporal(column):
        return NotComparable("a moment beside something else than a date or timestamp")
    told = time.time_ns() if semantics.now is None else semantics.now
    first = _coerced(column, expression, semantics, _End(_Kind.INSTANT, told - CLOCKS_DIFFER, latest=False))
    if not isinstance(first, Point) or semantics.latest is None:
        return Point(first.low, None, exact=False) if isinstance(first, Point) else first
    last = _coerced(column, expression, semantics, _End(_Kind.INSTANT, semantics.latest, latest=True))
    if not isinstance(last, Point):
        return Point(first.low, None, exact=False)
    # Between two moments of one day there is no date, and a comparison with a date uses that day's midnight.
    nothing_between = isinstance(first.low, int) and isinstance(last.high, int) and first.low > last.high
    return Point(first.low, last.high, exact=nothing_between)


def _coerced(column: pa.DataType, expression: Expr, semantics: Semantics, now: _End) -> Coerced:
    """The value of an expression for one bound of `now()`, coerced as a literal to the column."""
    try:
        end = _end(expression, semantics, now)
    except (_Unsure, OverflowError, ValueError):
        return NotComparable("from which moment on is not certain")
    type_ = timestamp("ns", instant=end.kind is _Kind.INSTANT)
    return coerce_temporal(column, Literal(end.moment, type_), semantics)


def _end(expression: Expr, semantics: Semantics, now: _End) -> _End:
    match expression:
        case Call(function, ()) if function in _MOVING:
            return now if function == NOW else _cast(now, _KIND_OF[function], semantics)
        case Call("cast" | "try_cast", (operand,), pa.DataType() as target) if is_temporal(target):
            end = _end(operand, semantics, now)
            if pa.types.is_date(target):
                return _cast(end, _Kind.DATE, semantics)
            return _cast(end, _Kind.INSTANT if is_instant(target) else _Kind.WALL, semantics)
        case Call("add" | "subtract" as function, (operand, Literal() as constant)):
            return _shifted(_end(operand, semantics, now), constant, _SHIFTS[function], semantics)
        case Call("add", (Literal() as constant, operand)):
            return _shifted(_end(operand, semantics, now), constant, 1, semantics)
        case Call("date_trunc", (Literal(value=str(unit)), operand)) if unit.lower() in TRUNCATED_TO:
            end = _end(operand, semantics, now)
            start = _cast(end, _Kind.WALL, semantics).moment
            moment = start_of(unit.lower(), _micros(start)) * 1000
            return _cast(_End(_Kind.WALL, moment, end.latest), end.kind, semantics)
        case Call("timezone", (Literal(value=str(zone)), operand)):
            return _at_zone(_end(operand, semantics, now), zone, semantics)
        case _:
            raise _Unsure


_KIND_OF: Final = {CURRENT_DATE: _Kind.DATE, CURRENT_WALL: _Kind.WALL}


def _cast(end: _End, kind: _Kind, semantics: Semantics) -> _End:
    moment = end.moment
    if end.kind is _Kind.INSTANT and kind is not _Kind.INSTANT:
        moment = walls_of_instant(moment, semantics.zone)[end.latest]
    elif end.kind is not _Kind.INSTANT and kind is _Kind.INSTANT:
        moment = instants_of_wall(moment, semantics.zone)[end.latest]
    return _End(kind, moment // DAY * DAY if kind is _Kind.DATE else moment, end.latest)


def _at_zone(end: _End, zone: str, semantics: Semantics) -> _End:
    """The wall clock of a zone at an instant, or the instant at which the zone's clocks show a date and time."""
    compared = semantics.traits.name in FUNCTIONS["timezone"].preimages[0].compared
    if not compared or end.kind is _Kind.DATE or not is_certain_zone(zone):
        raise _Unsure
    other = _Kind.WALL if end.kind is _Kind.INSTANT else _Kind.INSTANT
    return _cast(end, other, replace(semantics, zone=zone))


def _shifted(end: _End, constant: Literal, sign: int, semantics: Semantics) -> _End:
    value = constant.value
    if isinstance(value, int) and not isinstance(value, bool) and end.kind is _Kind.DATE:
        return replace(end, moment=end.moment + sign * value * DAY)
    if not isinstance(value, Interval):
        raise _Unsure
    if not (value.months or value.days):
        return _End(_without_date(end.kind), end.moment + sign * value.nanoseconds, end.latest)
    # The length of a day depends on the session's zone.
    start = _micros(_cast(end, _Kind.WALL, semantics).moment)
    if value.months:
        start -= start % MICROSECONDS_OF_DAY  # a later moment may yield an earlier one of the same day
        start += MICROSECONDS_OF_DAY - 1 if end.latest else 0
    moment = shifted(start, value, sign) * 1000
    return _cast(_End(_Kind.WALL, moment, end.latest), _without_date(end.kind), semantics)


def _without_date(kind: _Kind) -> _Kind:
    """A date and an interval yield a date or a timestamp, depending on the engine, but the same moment."""
    return _Kind.WALL if kind is _Kind.DATE else kind


def _micros(moment: int) -> int:
    micros = moment // 1000
    if not FIRST <= micros <= LAST:
        raise _Unsure
    return micros
