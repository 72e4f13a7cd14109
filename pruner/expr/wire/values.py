"""Types and constants of the expression form as JSON: see `pruner.expr.wire.nodes`."""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from pruner.errors import PredicateError
from pruner.expr.nodes import Literal
from pruner.expr.types import is_binary, is_string, is_time, is_uuid
from pruner.expr.values import Interval

if TYPE_CHECKING:
    from pruner.expr.values import LiteralValue

Json: TypeAlias = bool | int | float | str | None

_NAMED_TYPES: dict[str, pa.DataType] = {
    "null": pa.null(),
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "binary": pa.binary(),
    "large_binary": pa.large_binary(),
    "date32[day]": pa.date32(),
    "time32[s]": pa.time32("s"),
    "time32[ms]": pa.time32("ms"),
    "time64[us]": pa.time64("us"),
    "time64[ns]": pa.time64("ns"),
    "extension<arrow.uuid>": pa.uuid(),
    "month_day_nano_interval": pa.month_day_nano_interval(),
}
_DECIMAL = re.compile(r"decimal128\((\d{1,2}), ?(-?\d{1,2})\)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+:/-]{1,64}))?\]")
_FIXED = re.compile(r"fixed_size_binary\[(\d{1,9})\]")
_INTERVAL = re.compile(r"(-?\d{1,6}) months (-?\d{1,8}) days (-?\d{1,19}) ns", re.ASCII)
_LARGEST_DECIMAL = 38
_UUID_BYTES = 16
_DIGITS = 2 * _LARGEST_DECIMAL
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def type_of(text: str) -> pa.DataType:
    """Return the Arrow type that a text names, as Arrow itself writes it.

    Raises:
        PredicateError: it is none that a literal can have.
    """
    if text in _NAMED_TYPES:
        return _NAMED_TYPES[text]
    if found := _DECIMAL.fullmatch(text):
        precision, scale = int(found[1]), int(found[2])
        if 0 < precision <= _LARGEST_DECIMAL and abs(scale) <= _LARGEST_DECIMAL:
            return pa.decimal128(precision, scale)
    if found := _TIMESTAMP.fullmatch(text):
        unit: Any = found[1]
        return pa.timestamp(unit, found[2])
    if found := _FIXED.fullmatch(text):
        return pa.binary(int(found[1]))
    raise PredicateError(f"the type {text[:100]!r} is not a literal type: docs/http.md lists them")


def literal_of(value: Json, type_: pa.DataType) -> Literal:
    """Return the typed constant that a JSON value stands for.

    Raises:
        PredicateError: the type has no such value.
    """
    if value is None:
        return Literal(None, type_)
    read = _value(value, type_)
    if read is None:
        raise PredicateError(
            f"the value {str(value)[:100]!r} is not a value of type {type_}: see docs/http.md"
        )
    return Literal(read, type_)


def _value(value: Json, type_: pa.DataType) -> LiteralValue:
    """The Python value of a JSON value; None where it has none in that type."""
    types = pa.types
    if isinstance(value, bool) or types.is_boolean(type_):
        return value if isinstance(value, bool) and types.is_boolean(type_) else None
    if types.is_integer(type_) or types.is_timestamp(type_) or is_time(type_):
        return value if isinstance(value, int) else None
    if types.is_floating(type_):
        return _SPECIAL.get(value) if isinstance(value, str) else float(value or 0)
    if types.is_date(type_):
        return _date(value)
    if not isinstance(value, str):
        return None
    if is_string(type_):
        return value
    if type_ == pa.month_day_nano_interval():
        return _interval(value)
    if types.is_decimal(type_):
        return _decimal(value)
    if is_uuid(type_):
        return _uuid(value)
    return _bytes(value) if is_binary(type_) else None


def _date(value: Json) -> LiteralValue:
    if isinstance(value, int):
        return value
    try:
        return datetime.date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None


def _interval(text: str) -> Interval | None:
    found = _INTERVAL.fullmatch(text)
    return Interval(*map(int, found.groups())) if found else None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    # A short text can name a number of a billion digits, which exact arithmetic would write out.
    _, digits, exponent = number.as_tuple()
    return number if len(digits) <= _DIGITS and abs(int(exponent)) <= _DIGITS else None


def _uuid(text: str) -> bytes | None:
    value = _bytes(text)
    return value if value is not None and len(value) == _UUID_BYTES else None


def _bytes(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def json_of(value: LiteralValue) -> Json:
    """Return the JSON value of a literal, the inverse of `literal_of`."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case Decimal():
            return str(value)
        case Interval(months, days, nanoseconds):
            return f"{months} months {days} days {nanoseconds} ns"
        case bytes():
            return base64.b64encode(value).decode()
        case datetime.date():
            return value.isoformat()
        case _:
            return value
