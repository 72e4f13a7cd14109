"""Forms of DuckDB's text alone: constants that its functions make, zones, lists."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from pruner.expr.exact.clock import PER_SECOND, day_number, instants_of_wall
from pruner.expr.exact.patterns import literal_beginning, literal_pattern
from pruner.expr.functions.walls import DAY, FIRST, LAST, SECOND, shifted
from pruner.expr.nodes import Call, Expr, Like, Literal, conjunction
from pruner.expr.text.dialects import Node
from pruner.expr.types import is_instant, is_naive_timestamp, timestamp, unit_of
from pruner.expr.values import Interval

_PARTS: Final = ("year", "month", "day", "hour", "min", "sec")


def duckdb_form(
    node: Node, value: Callable[[Node], Expr], opaque: Callable[[Node, str], Expr]
) -> Expr | None:
    """Translate a form of DuckDB's; None for any other.

    Args:
        node: of sqlglot's tree.
        value: translates what stands below.
        opaque: makes an expression of a node of which nothing is known, for a reason.
    """
    match node:
        case exp.AtTimeZone():
            return _at_zone(value(node.args["zone"]), value(node.this))
        case exp.Anonymous(this=str(name), expressions=[zone, operand]) if name.lower() == "timezone":
            return _at_zone(value(zone), value(operand))
        case exp.Anonymous(this=str(name), expressions=[operand, exp.Literal(is_string=True) as text]) if (
            name.lower() == "prefix"
        ):
            pattern, escape = literal_pattern(str(text.this))
            return Like(value(operand), f"{pattern}%", escape)
        case exp.JSONExtractScalar(expression=exp.JSONPath(expressions=[exp.JSONPathRoot(), key])) if (
            isinstance(key, exp.JSONPathKey) and isinstance(key.this, str)
        ):
            return Call("->>", (value(node.this), Literal(key.this, pa.string())))
        case exp.DateFromParts() | exp.TimestampFromParts():
            return _moment([value(node.args[part]) for part in _PARTS if node.args.get(part) is not None])
        case exp.SimilarTo() | exp.RegexpFullMatch() | exp.Glob():
            beginning = _beginning(node)
            if not beginning:
                return None
            pattern, escape = literal_pattern(beginning)
            rest = opaque(node, "only the beginning of a pattern is used")
            return conjunction((Like(value(node.this), f"{pattern}%", escape), rest))
        case _:
            return None


def moved(moment: Literal, interval: Literal, sign: int) -> Literal | None:
    """A constant moment with an interval after or before it; None where that is not certain."""
    start, step = moment.value, interval.value
    if not isinstance(step, Interval) or step.nanoseconds % 1000:
        return None
    if isinstance(start, datetime.date):
        start, type_ = day_number(start) * DAY, timestamp("us", instant=False)
    elif isinstance(start, int) and pa.types.is_timestamp(moment.type) and unit_of(moment.type) == "us":
        type_ = moment.type
    else:
        return None
    if is_instant(type_) and (step.months or step.days):
        return None  # a day has as many hours as the session's zone says
    try:
        shifted_moment = shifted(start, step, sign)
    except (ValueError, OverflowError):
        return None
    return (
        Literal(shifted_moment, type_)
        if min(start, shifted_moment) >= FIRST and max(start, shifted_moment) <= LAST
        else None
    )


def _at_zone(zone: Expr, operand: Expr) -> Expr:
    call = Call("timezone", (zone, operand))
    match zone, operand:
        case (Literal(value=str(name)), Literal(value=int(wall), type=type_)) if is_naive_timestamp(type_):
            nanoseconds = 10**9 // PER_SECOND[unit_of(type_)]
            low, high = instants_of_wall(wall * nanoseconds, name)
            if low != high:
                return call
            return Literal(low // nanoseconds, timestamp(unit_of(type_), instant=True))
        case _:
            return call


def _moment(parts: Sequence[Expr]) -> Literal | None:
    """`make_date(year, month, day)` and `make_timestamp(…, hour, minute, second)` of constants."""
    numbers = [part.value for part in parts if isinstance(part, Literal) and pa.types.is_integer(part.type)]
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) < len(parts) or len(parts) not in (3, 6):
        return None
    try:
        moment = datetime.datetime(*whole)  # type: ignore[arg-type]
    except (ValueError, OverflowError):
        return None
    if len(parts) == 3:
        return Literal(moment.date(), pa.date32())
    seconds = (moment.hour * 60 + moment.minute) * 60 + moment.second
    return Literal(day_number(moment.date()) * DAY + seconds * SECOND, timestamp("us", instant=False))


def _beginning(node: Node) -> str:
    """The letters with which a text must begin to match as a whole; empty where that is not known."""
    text = node.expression
    if (
        not isinstance(text, exp.Literal)
        or not text.is_string
        or any(node.args[key] for key in node.args.keys() - {"this", "expression"})
    ):
        return ""
    if isinstance(node, exp.Glob):
        return re.split(r"[*?\[\\]", str(text.this), maxsplit=1)[0]
    return literal_beginning(str(text.this), anchored=True)
