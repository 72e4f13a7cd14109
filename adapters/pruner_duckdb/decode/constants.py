"""Typed constants of DuckDB's plan JSON as literals of the expression form."""

from __future__ import annotations

from collections.abc import Sequence
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
    if value.get("is_null"):
        return Literal(None, _literal_type(value["type"]))
    return constants(value["type"], [value.get("value")])[0]


def constants(type_: dict[str, Any], values: Sequence[Any]) -> list[Literal]:
    """Decode constants of one type, none of which is NULL.

    Raises:
        UndecodablePart: the type has no literal form, or a value is no point of its type (infinity).
    """
    data_type = _literal_type(type_)
    if any(_is_infinite(raw, data_type) for raw in values):
        raise UndecodablePart(f"an infinite {type_['id'].lower()}")
    if type_["id"] == "HUGEINT":
        return [Literal(_wide(raw), pa.int64()) for raw in values]
    return [Literal(_value(raw, data_type), data_type) for raw in values]


def _literal_type(type_: dict[str, Any]) -> pa.DataType:
    # A cast to JSON can fail, or be NULL where the text is none: there it is not the type of text.
    data_type = pa.string() if is_json(type_) else arrow_type(type_)
    if data_type is None:
        raise UndecodablePart(f"a constant of type {type_.get('id')} is not understood")
    return data_type


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
