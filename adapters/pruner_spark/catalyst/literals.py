"""Values of Catalyst's literals and lists, exact in the types of the expression form.

The JSON of a literal is `toString`, which shows a timestamp in the session's zone, a date as
`spark.sql.legacy.timeParserPolicy` says, and no bytes at all: for these, the value itself is fetched from the node.
"""

from __future__ import annotations

import datetime
import math
import re
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

import pyarrow as pa

from pruner.expr.exact.clock import date_of, day_number
from pruner.expr.exact.numeric import Width, nearest
from pruner.expr.nodes import Literal
from pruner.expr.types import is_instant, is_string, is_temporal
from pruner.expr.values import Interval, LiteralValue
from pruner_spark.catalyst.source import ExpressionTree, JsonNode, UntranslatableError

FIRST_DAY: Final = day_number(datetime.date.min)
LAST_DAY: Final = day_number(datetime.date.max)

_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_MONTHS: Final = ("interval year", "interval month")
_DAY_TIME: Final = ("interval day", "interval hour", "interval minute", "interval second")
REPLACEMENT: Final = "\ufffd"
_BYTES = re.compile(r"X'([0-9A-Fa-f]*)'", re.ASCII)
_BYTES_LIST = re.compile(
    r".* IN \(((?:(?:X'[0-9A-Fa-f]*'|CAST\(NULL AS BINARY\))(?:, )?)+)\)\)", re.ASCII | re.DOTALL
)


def literal(node: JsonNode, place: int, data_type: pa.DataType, source: ExpressionTree) -> Literal:
    """Return the literal of a node.

    Args:
        node: its JSON.
        place: its position in the expression.
        data_type: its type.
        source: the expression from which its value is fetched if the JSON does not have it.

    Raises:
        UntranslatableError: the expression form has no such value.
    """
    text = node.get("value")
    if text is None:
        return Literal(None, data_type)
    if not isinstance(text, str):
        raise UntranslatableError("a literal whose value is not text")
    value: LiteralValue
    if pa.types.is_date(data_type):
        value = day_value(_whole(source.literal_value(place)))
    elif is_instant(data_type):
        value = _whole(source.literal_value(place))
    elif pa.types.is_binary(data_type):
        value = bytes(source.literal_value(place))
    elif is_string(data_type) and REPLACEMENT in text:
        value = _decoded(source.text_bytes(place))
    else:
        value = _parsed(text, data_type)
    return Literal(value, data_type)


def interval(node: JsonNode, place: int, source: ExpressionTree) -> Literal:
    """Return the literal of an interval of months, or of days and fractions of a day.

    Spark adds whole days in the calendar of the zone, however the interval was written.

    Raises:
        UntranslatableError: it is NULL, or one of the old intervals that hold both months and days.
    """
    names_months = str(node["dataType"]).startswith(_MONTHS)
    if node.get("value") is None or not (names_months or str(node["dataType"]).startswith(_DAY_TIME)):
        raise UntranslatableError("an interval in another form")
    count = _whole(source.literal_value(place))
    if names_months:
        return Literal(Interval(months=count), pa.month_day_nano_interval())
    return Literal(Interval(nanoseconds=count * 1000).with_whole_days(), pa.month_day_nano_interval())


def set_literals(place: int, data_type: pa.DataType, source: ExpressionTree) -> tuple[Literal, ...]:
    """Return the literals of an InSet over values of one type, NULL last.

    Raises:
        UntranslatableError: the expression form has no value for one of them.
    """
    if pa.types.is_binary(data_type):
        return _byte_literals(source.set_sql(place), data_type)
    texts, has_null = source.set_values(place)
    # A set holds the internal values of the literals: days and microseconds, where `toString` would write dates.
    convert = _stored_moment(data_type) if is_temporal(data_type) else _of_text(data_type)
    if is_string(data_type) and any(REPLACEMENT in text for text in texts):
        raise UntranslatableError("a list with text that may not be UTF-8")
    try:
        # A set has no order of its own, and reports must be reproducible.
        made = [Literal(convert(text), data_type) for text in sorted(texts)]
    except (ValueError, ArithmeticError):
        raise UntranslatableError("a list of values in another form") from None
    return (*made, Literal(None, data_type)) if has_null else tuple(made)


def _byte_literals(sql: str, data_type: pa.DataType) -> tuple[Literal, ...]:
    listed = _BYTES_LIST.fullmatch(sql)
    if listed is None:
        raise UntranslatableError("a list of bytes in another form")
    made = [Literal(bytes.fromhex(digits), data_type) for digits in _BYTES.findall(listed[1])]
    if "NULL" in listed[1]:
        made.append(Literal(None, data_type))
    return tuple(made)


def _parsed(text: str, data_type: pa.DataType) -> LiteralValue:
    try:
        return _of_text(data_type)(text)
    except (ValueError, ArithmeticError):
        raise UntranslatableError("a value in another form") from None


def _of_text(data_type: pa.DataType) -> Callable[[str], LiteralValue]:
    """The inverse of `toString` for values of a type."""
    types = pa.types
    if types.is_boolean(data_type):
        return _truth
    if types.is_integer(data_type) or types.is_timestamp(data_type):
        return int
    if types.is_float32(data_type):
        return _single
    if types.is_float64(data_type):
        return float  # it reads NaN and Infinity as well
    if types.is_decimal(data_type):
        return Decimal
    if is_string(data_type):
        return str
    raise UntranslatableError(f"a literal of type {data_type}")


def _stored_moment(data_type: pa.DataType) -> Callable[[str], LiteralValue]:
    return (lambda text: day_value(int(text))) if pa.types.is_date(data_type) else int


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise UntranslatableError("a truth value in another form")
    return text == "true"


def _single(text: str) -> float:
    known = _NOT_FINITE.get(text)
    return nearest(Fraction(text), Width.SINGLE) if known is None else known


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise UntranslatableError("a moment in another form")
    return value


def day_value(day: int) -> datetime.date | int:
    """A day as the value of a literal: a number if it is outside the range of Python's dates."""
    return date_of(day) if FIRST_DAY <= day <= LAST_DAY else day


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UntranslatableError("text that is not UTF-8") from None
