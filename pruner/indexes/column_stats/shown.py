"""Bounds for people: what stands behind a key of an order."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pruner.indexes.columns.ordering import RankOrder

if TYPE_CHECKING:
    from pruner.indexes.columns.ordering import Order

SHOWN_CHARACTERS = 40
"""Of a text or of bytes."""


def bound_text(key: Any, order: Order, type_: pa.DataType) -> str:
    """The value at a key of the order, as the type shows it."""
    if isinstance(order, RankOrder):
        return _of_bytes(order.value(int(key)), type_)
    if pa.types.is_decimal(type_):
        return _decimal(int(key), type_)
    if pa.types.is_floating(type_):
        return f"{float(key):g}"
    if not pa.types.is_temporal(type_):
        return str(bool(key) if pa.types.is_boolean(type_) else int(key))
    stored = pa.int32() if type_.bit_width == 32 else pa.int64()
    try:
        value: Any = pa.array([int(key)], stored).cast(type_)
        return value.cast(pa.string())[0].as_py()
    except pa.ArrowException:
        return str(int(key))  # no date that the calendar of Python and Arrow has


def _of_bytes(value: bytes | int, type_: pa.DataType) -> str:
    if isinstance(value, int):
        return _decimal(value, type_)
    if pa.types.is_binary(type_) or pa.types.is_fixed_size_binary(type_) or pa.types.is_large_binary(type_):
        return "0x" + value[: SHOWN_CHARACTERS // 2].hex()
    return value.decode(errors="replace")[:SHOWN_CHARACTERS]


def _decimal(unscaled: int, type_: Any) -> str:
    return str(Decimal(unscaled).scaleb(-type_.scale))
