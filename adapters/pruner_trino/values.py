"""Trino's types, by display name, and constants as the plugin sends them, as those of the expression form."""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import re
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, cast

import pyarrow as pa

from pruner.expr.exact.clock import date_of, day_number
from pruner.expr.exact.numeric import Width, nearest
from pruner.expr.nodes import Literal
from pruner.expr.types import Unit, decimal_digits, integer_range, is_instant, timestamp
from pruner.expr.values import Interval


@dataclass(frozen=True, slots=True)
class TrinoType:
    """A type on which predicates are decided.

    `arrow` is the type of its literals; a timestamp's has Trino's precision or the next coarser unit. `length` is the
    maximum number of characters of a `varchar(n)` or `char(n)`, None for text without a limit and for other types.
    """

    name: str
    arrow: pa.DataType
    length: int | None = None

    @property
    def is_text(self) -> bool:
        """Whether values are text."""
        return self.name in ("varchar", "char")

    @property
    def has_nan(self) -> bool:
        """Whether values may be NaN."""
        return self.name in ("real", "double")


BOOLEAN: Final = TrinoType("boolean", pa.bool_())
BIGINT: Final = TrinoType("bigint", pa.int64())

_PLAIN: Final = {
    kind.name: kind
    for kind in (
        BOOLEAN,
        TrinoType("tinyint", pa.int8()),
        TrinoType("smallint", pa.int16()),
        TrinoType("integer", pa.int32()),
        BIGINT,
        TrinoType("real", pa.float32()),
        TrinoType("double", pa.float64()),
        TrinoType("varbinary", pa.binary()),
        TrinoType("date", pa.date32()),
        TrinoType("varchar", pa.string()),
        TrinoType("interval day to second", pa.month_day_nano_interval()),
        TrinoType("interval year to month", pa.month_day_nano_interval()),
    )
}
_NAME = re.compile(r"([a-z]+)\((\d{1,10})(?:, ?(\d{1,10}))?\)( with time zone)?", re.ASCII)
_FINEST_DIGITS = 12


def trino_type(display_name: str) -> TrinoType | None:
    """Return the type of that display name; None for one on which predicates are never decided."""
    plain = _PLAIN.get(display_name)
    if plain is not None:
        return plain
    match = _NAME.fullmatch(display_name)
    if match is None:
        return None
    name, first, zoned = match[1], int(match[2]), match[4] is not None
    second = None if match[3] is None else int(match[3])
    if name == "decimal" and second is not None and not zoned:
        valid = 1 <= first <= 38 and second <= first
        return TrinoType("decimal", pa.decimal128(first, second)) if valid else None
    if second is not None or (zoned and name != "timestamp"):
        return None
    match name:
        case "varchar" | "char":
            return TrinoType(name, pa.string(), first)
        case "timestamp" if first <= _FINEST_DIGITS:
            return TrinoType("timestamp", timestamp(_unit(first), instant=zoned))
        case _:
            return None


def _unit(digits: int) -> Unit:
    """The finest unit that a timestamp with this many fractional digits is certain to have."""
    return "s" if digits < 3 else "ms" if digits < 6 else "us" if digits < 9 else "ns"


_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_INTEGERS: Final = {
    "tinyint": integer_range(pa.int8()),
    "smallint": integer_range(pa.int16()),
    "integer": integer_range(pa.int32()),
    "bigint": integer_range(pa.int64()),
}
_FLOATING = re.compile(r"-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,38}(?:\.(\d{1,38}))?", re.ASCII)
_FIRST_DAY: Final = day_number(datetime.date.min)
_LAST_DAY: Final = day_number(datetime.date.max)
_PICOS_PER_MICRO = 1_000_000
_PICOS_PER_NANO = 1_000


class NotUnderstood(Exception):  # noqa: N818 - never reaches a user
    """A part that has no exact counterpart in the expression form; `str()` is the reason."""


def literal(value: Any, kind: TrinoType) -> Literal:
    """Return the literal of a value; None is NULL.

    Raises:
        NotUnderstood: it is not a value of the type as in docs/trino-predicates.md.
    """
    if value is None:
        return Literal(None, kind.arrow)
    match kind.name:
        case "boolean" if isinstance(value, bool):
            return Literal(value, kind.arrow)
        case "tinyint" | "smallint" | "integer" | "bigint":
            return Literal(_integer(value, *_INTEGERS[kind.name]), kind.arrow)
        case "real" | "double" if isinstance(value, str):
            return Literal(_floating(value, kind), kind.arrow)
        case "decimal" if isinstance(value, str):
            return Literal(_decimal(value, kind.arrow), kind.arrow)
        case "varchar" | "char" if isinstance(value, str):
            return Literal(_text(value, kind), kind.arrow)
        case "varbinary" if isinstance(value, str):
            return Literal(_binary(value), kind.arrow)
        case "date":
            day = _integer(value, -(2**31), 2**31 - 1)
            return Literal(date_of(day) if _FIRST_DAY <= day <= _LAST_DAY else day, kind.arrow)
        case "timestamp":
            return _moment(value, instant=is_instant(kind.arrow))
        case "interval year to month":
            return Literal(Interval(months=_integer(value, *_INTEGERS["integer"])), kind.arrow)
        case "interval day to second":
            milliseconds = _integer(value, *_INTEGERS["bigint"])
            return Literal(Interval(nanoseconds=milliseconds * 1_000_000).with_whole_days(), kind.arrow)
        case _:
            raise NotUnderstood(f"a constant of type {kind.name} in another form")


def _integer(value: Any, smallest: int, largest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
        raise NotUnderstood("a whole number out of its type's range, or in another form")
    return value


def _floating(text: str, kind: TrinoType) -> float:
    known = _NOT_FINITE.get(text)
    if known is not None:
        return known
    if _FLOATING.fullmatch(text) is None:
        raise NotUnderstood("a floating-point number in another form")
    if kind.name == "double":
        return float(text)
    rounded = nearest(Fraction(text), Width.SINGLE)
    return -rounded if text.startswith("-") and rounded == 0 else rounded


def _decimal(text: str, type_: pa.DataType) -> Decimal:
    match = _DECIMAL.fullmatch(text)
    precision, scale = decimal_digits(type_)
    if match is None or len(match[1] or "") != scale:
        raise NotUnderstood("a decimal in another form")
    value = Decimal(text)
    if len(value.as_tuple().digits) > precision:
        raise NotUnderstood("a decimal with more digits than its type has")
    return value


def _text(text: str, kind: TrinoType) -> str:
    text = text.rstrip(" ") if kind.name == "char" else text
    if kind.length is not None and len(text) > kind.length:
        raise NotUnderstood("a text that is longer than its type allows")
    return text


def _binary(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise NotUnderstood("bytes that are not in base64") from None


def _moment(value: Any, *, instant: bool) -> Literal:
    """Microseconds and picoseconds of a timestamp; Arrow has nothing finer than nanoseconds."""
    if not isinstance(value, dict) or set(cast("dict[Any, Any]", value)) != {"micros", "picos"}:
        raise NotUnderstood("a timestamp in another form")
    parts = cast("dict[str, Any]", value)
    micros = _integer(parts["micros"], -(2**63), 2**63 - 1)
    picos = _integer(parts["picos"], 0, _PICOS_PER_MICRO - 1)
    if not picos:
        return Literal(micros, timestamp("us", instant=instant))
    if picos % _PICOS_PER_NANO:
        raise NotUnderstood("a timestamp with parts of a nanosecond")
    return Literal(micros * 1000 + picos // _PICOS_PER_NANO, timestamp("ns", instant=instant))
