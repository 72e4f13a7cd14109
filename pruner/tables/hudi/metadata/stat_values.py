"""The bounds in Hudi's statistics: of which type they are, and as values of a column's storage domain.

From index version 2 on a record names the type; before, the wrapper around the value is all that tells it, and a
timestamp of either unit is wrapped as a plain long.
"""

from __future__ import annotations

from typing import Any, NamedTuple

_BY_ORDINAL = {
    2: "bool",
    3: "int32",
    4: "int64",
    5: "float",
    6: "double",
    7: "string",
    12: "date32[day]",
    15: "timestamp[ms, tz=UTC]",
    16: "timestamp[us, tz=UTC]",
    18: "timestamp[ms]",
    19: "timestamp[us]",
}
"""Arrow's names of types by Hudi's ordinals (`ValueType`); what has no place here is not used."""

_DECIMAL_ORDINAL = 10
_BY_WRAPPER = {
    "BooleanWrapper": "bool",
    "IntWrapper": "int32",
    "LongWrapper": "int64",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "StringWrapper": "string",
    "DateWrapper": "date32[day]",
}
_WRAPPED_SCALE = 15
"""Decimals in a wrapper of their own have this scale, whatever that of the column is (`DecimalWrapper`)."""

_LARGEST_DECIMAL = 38
WRAPPED_DECIMAL = f"decimal128({_LARGEST_DECIMAL}, {_WRAPPED_SCALE})"
"""The type of such a decimal."""


class Bounds(NamedTuple):
    """Both bounds in the storage domain of a type, which is named as Arrow does; None where nothing is known."""

    type: str | None
    low: int | float | bytes | None
    high: int | float | bytes | None


NO_BOUNDS = Bounds(None, None, None)


def bounds_of(stats: dict[str, Any]) -> Bounds:
    """Return the bounds of a record of statistics."""
    low, high = stats["minValue"], stats["maxValue"]
    if low is None or high is None or low[0] != high[0]:
        return NO_BOUNDS
    wrapper = low[0].rpartition(".")[2]
    type_ = _type(wrapper, stats.get("valueType"))
    if type_ is None:
        return NO_BOUNDS
    first, last = _value(type_, low[1]["value"]), _value(type_, high[1]["value"])
    if isinstance(first, bytes):
        first = _ascii_beginning(first)
    return NO_BOUNDS if first is None or last is None else Bounds(type_, first, last)


def _type(wrapper: str, named: Any) -> str | None:
    info: dict[str, Any] = {} if named is None else named[1]
    ordinal: int = info.get("typeOrdinal", 0)
    if ordinal == _DECIMAL_ORDINAL and wrapper == "BytesWrapper":
        return _decimal(info.get("additionalInfo"))
    if ordinal > 0:
        return _BY_ORDINAL.get(ordinal)
    return WRAPPED_DECIMAL if wrapper == "DecimalWrapper" else _BY_WRAPPER.get(wrapper)


def _decimal(described: str | None) -> str | None:
    precision, _, scale = (described or "").partition(",")
    if not (precision.isdecimal() and scale.isdecimal()):
        return None
    fits = int(scale) <= int(precision) <= _LARGEST_DECIMAL
    return f"decimal128({int(precision)}, {int(scale)})" if fits else None


def _value(type_: str, value: Any) -> int | float | bytes | None:
    """The stored value; None where it is not of the type that the record names."""
    if type_ in ("float", "double"):
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    if type_ == "string":
        return _encoded(value) if isinstance(value, str) else None
    if type_.startswith("decimal"):
        unscaled = int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else None
        return unscaled if unscaled is not None and abs(unscaled) < 10**_LARGEST_DECIMAL else None
    if isinstance(value, bool):
        return int(value) if type_ == "bool" else None
    return value if isinstance(value, int) and type_ != "bool" else None


def _encoded(text: str) -> bytes | None:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return None


def _ascii_beginning(low: bytes) -> bytes:
    """What bounds all texts from below in the order of their bytes, where `low` does in Java's.

    In Java a character beyond U+FFFF comes before U+E000, and bytes that are no UTF-8 are U+FFFD. No text that is
    greater there is below the ASCII that `low` begins with.
    """
    return next((low[:place] for place, byte in enumerate(low) if byte > 0x7F), low)
