"""Typed constants of DuckDB's plan JSON as literals of the expression form."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, cast

import pyarrow as pa

from pruner.expr.nodes import Literal
from pruner.expr.types import is_uuid
from pruner.expr.values import Interval, LiteralValue
from pruner_duckdb.types import arrow_type, is_json

_INFINITE_DATES = frozenset([2**31 - 1, 1 - 2**31])
_INFINITE_TIMESTAMPS = frozenset([2**63 - 1, 1 - 2**63])
"""What DuckDB stores for infinity: no point in time that a file of another engine could hold."""


class UndecodablePart(Exception):  # noqa: N818 - never reaches a user
    """A part that has no exact counterpart in the expression form; `str()` is the reason."""


def constant(value: dict[str, Any]) -> Literal:
    """Decode a typed constant.

    Raises:
        UndecodablePart: the type has no literal form, or the value is no point of its type (infinity).
    """
    # A cast to JSON can fail, or be NULL where the text is none: there it is not the type of text.
    data_type = pa.string() if is_json(value["type"]) else arrow_type(value["type"])
    if data_type is None:
        raise UndecodablePart(f"a constant of type {value['type'].get('id')} is not understood")
    if value.get("is_null"):
        return Literal(None, data_type)
    name, raw = value["type"]["id"], value.get("value")
    if _is_infinite(raw, data_type):
        raise UndecodablePart(f"an infinite {name.lower()}")
    if name == "HUGEINT":
        return Literal(_wide(raw), pa.int64())
    return Literal(_value(raw, data_type), data_type)


def _is_infinite(raw: Any, data_type: pa.DataType) -> bool:
    if pa.types.is_date(data_type):
        return raw in _INFINITE_DATES
    return pa.types.is_timestamp(data_type) and raw in _INFINITE_TIMESTAMPS


def _value(raw: Any, data_type: pa.DataType) -> LiteralValue:
    if data_type == pa.month_day_nano_interval():
        return Interval(raw["months"], raw["days"], raw["micros"] * 1000)
    if pa.types.is_decimal(data_type):
        unscaled = _wide(raw)
        sign = 1 if unscaled < 0 else 0
        return Decimal((sign, tuple(int(digit) for digit in str(abs(unscaled))), -data_type.scale))
    if pa.types.is_binary(data_type):
        return _blob(raw)
    if is_uuid(data_type):
        # In memory a UUID is a signed number whose order is that of the bytes.
        return (_wide(raw) + (1 << 127)).to_bytes(16, "big")
    if pa.types.is_floating(data_type):
        return float(raw)
    expected = bool if pa.types.is_boolean(data_type) else str if pa.types.is_string(data_type) else int
    if not isinstance(raw, expected):
        raise UndecodablePart(f"a constant written as {type(raw).__name__}")
    return raw


_INTEGER_BITS: dict[pa.DataType, int] = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}


def is_lossless(literal: Literal, target: pa.DataType) -> bool:
    """Tell whether a cast of a literal changes its type alone; unrewritten plans hold such casts."""
    if literal.type == target:
        return True
    bits = _INTEGER_BITS.get(target)
    if bits is None or literal.type not in _INTEGER_BITS:
        return False
    value = literal.value
    return value is None or (isinstance(value, int) and -(1 << (bits - 1)) <= value < 1 << (bits - 1))


def _wide(raw: Any) -> int:
    """An integer of up to 128 bits: a number, or its two halves, of which the lower one is unsigned."""
    if isinstance(raw, dict):
        halves = cast("dict[str, int]", raw)
        return (halves["upper"] << 64) + halves["lower"]
    if not isinstance(raw, int):
        raise UndecodablePart(f"a constant written as {type(raw).__name__}")
    return raw


def _blob(raw: str) -> bytes:
    r"""Bytes that DuckDB prints as ASCII, with `\xHH` for what is not printable and for the backslash."""
    first, *rest = raw.split("\\x")
    try:
        return first.encode("ascii") + b"".join(
            bytes.fromhex(part[:2]) + part[2:].encode("ascii") for part in rest
        )
    except ValueError as error:
        raise UndecodablePart(f"a blob that cannot be read ({error})") from error
