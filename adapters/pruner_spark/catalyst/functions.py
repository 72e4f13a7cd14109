"""Catalyst's functions of a column, by the names of `pruner.expr.functions.registry`.

Only shapes that a row of the registry covers are built. Binding separates the values for which a function's rule was
not proved, whether they give an error, a wrapped number or NULL, so neither ANSI mode nor the mode of a node matters
here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa

from pruner.expr.nodes import Call, Expr, Literal
from pruner.expr.types import is_instant, is_string
from pruner.expr.values import Interval
from pruner_spark.catalyst import values
from pruner_spark.catalyst.source import INSTANT, NAIVE, UntranslatableError

if TYPE_CHECKING:
    from pruner_spark.catalyst.part import DecodedNode

Make: TypeAlias = "Callable[[list[DecodedNode]], tuple[Expr, pa.DataType]]"
"""Builds a value from the children, with its type."""

_NO_UNITS_OF_DATES: Final = frozenset({"day", "dd"})
"""Units of `date_trunc` with which `trunc` yields NULL; for dates, the row does not cover parts of a day."""


def _named(name: str, result: pa.DataType) -> Make:
    """A function whose name and arguments are those of the row."""
    return lambda children: (Call(name, _arguments(children), result), result)


def _arithmetic(name: str, *, doubles: bool = True) -> Make:
    """Arithmetic on integers or doubles, which Spark has cast to one type."""

    def make(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
        kinds = {child.type for child in children}
        kind = kinds.pop()
        if kinds or kind is None:
            raise UntranslatableError("arithmetic on values of several types")
        if not (pa.types.is_signed_integer(kind) or (doubles and pa.types.is_float64(kind))):
            raise UntranslatableError(f"arithmetic on values of type {kind}")
        return Call(name, _arguments(children), kind), kind

    return make


def _days(name: str) -> Make:
    """A date plus or minus a number of days."""

    def make(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
        date, days = children
        if date.type is None or days.type is None or not pa.types.is_integer(days.type):
            raise UntranslatableError("something else than a number of days is added")
        return Call(name, _arguments(children), date.type), date.type

    return make


def _interval(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
    """A date or timestamp plus an interval, which yields the same type."""
    moment, interval = children
    match interval.expr:
        case Literal(Interval()) if moment.type is not None:
            return Call("add", _arguments(children), moment.type), moment.type
        case _:
            raise UntranslatableError("an interval that is not constant")


def _months(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
    """`add_months`."""
    date, months = children
    match months.expr:
        case Literal(int() as count) if date.type is not None:
            interval = Literal(Interval(months=count), pa.month_day_nano_interval())
            return _interval([date, replace(months, expr=interval)])
        case _:
            raise UntranslatableError("a number of months that is not constant")


def _truncated(unit: DecodedNode, moment: DecodedNode) -> tuple[Expr, pa.DataType]:
    text = unit.expr.value if isinstance(unit.expr, Literal) else None
    if not isinstance(text, str) or moment.type is None:
        raise UntranslatableError("a unit that is not constant")
    if pa.types.is_date(moment.type) and text.lower() in _NO_UNITS_OF_DATES:
        raise UntranslatableError(f"a date cut to its {text.lower()}")
    return Call("date_trunc", (Literal(text.lower(), pa.string()), moment.expr), moment.type), moment.type


def _seconds(children: list[DecodedNode]) -> tuple[Expr, pa.DataType]:
    """Seconds of an instant, rounded down; `unix_timestamp` truncates towards zero (trap S14) and is not included."""
    if children[0].type != INSTANT:
        raise UntranslatableError("seconds of something that is not an instant")
    return Call("epoch_s", (children[0].expr,), pa.int64()), pa.int64()


def _arguments(children: list[DecodedNode]) -> tuple[Expr, ...]:
    return tuple(child.expr for child in children)


MAKERS: Final[dict[str, Make]] = {
    **values.MAKERS,
    "Add": _arithmetic("add"),
    "Subtract": _arithmetic("subtract"),
    "Multiply": _arithmetic("multiply"),
    "UnaryMinus": _arithmetic("negate"),
    "Abs": _arithmetic("abs"),
    "Remainder": _arithmetic("modulo", doubles=False),
    "DateAdd": _days("add"),
    "DateSub": _days("subtract"),
    "TimeAdd": _interval,
    "TimestampAddInterval": _interval,
    "TimestampAddYMInterval": _interval,
    "DateAddYMInterval": _interval,
    "AddMonths": _months,
    "TruncTimestamp": lambda children: _truncated(children[0], children[1]),
    "TruncDate": lambda children: _truncated(children[1], children[0]),
    "UnixSeconds": _seconds,
    "UnixMillis": _named("epoch_ms", pa.int64()),
    "UnixMicros": _named("epoch_us", pa.int64()),
    "Upper": _named("upper", pa.string()),
    "Lower": _named("lower", pa.string()),
    "Concat": _named("concat", pa.string()),
    "DateFormatClass": _named("date_format", pa.string()),
    "Length": _named("length", pa.int32()),
    "Year": _named("year", pa.int32()),
    "Quarter": _named("quarter", pa.int32()),
    "Month": _named("month", pa.int32()),
    "WeekOfYear": _named("week", pa.int32()),
    "DayOfYear": _named("day_of_year", pa.int32()),
    "DayOfMonth": _named("day", pa.int32()),
    "DayOfWeek": _named("dayofweek", pa.int32()),
    "WeekDay": _named("weekday", pa.int32()),
    "Hour": _named("hour", pa.int32()),
    "Minute": _named("minute", pa.int32()),
    "Second": _named("second", pa.int32()),
}
"""How each of Catalyst's classes of functions is built."""


def cast_function(source: pa.DataType, target: pa.DataType) -> str | None:
    """The registry's function for a cast; None if the registry has no row for it.

    The cast need not preserve every value: the row itself separates the values for which it was not proved.
    """
    if source == INSTANT and target == pa.int64():
        return "epoch_s"
    if pa.types.is_date(target) and pa.types.is_timestamp(source):
        return "cast"
    if is_instant(source) and target == NAIVE:
        return "cast"
    if pa.types.is_signed_integer(source) and (is_string(target) or pa.types.is_signed_integer(target)):
        return "cast"
    return None
